//! Commands of Juju that juju-local has not, and what it would take. They are answered in one line.

/// What is missing, and the commands that would need it.
const ABSENT: &[(&str, &[&str])] = &[
    ("a charm store", &["find", "info", "download", "refresh-charm"]),
    ("bundles", &["export-bundle", "diff-bundle"]),
    (
        "clouds",
        &[
            "add-cloud",
            "autoload-credentials",
            "clouds",
            "default-region",
            "list-clouds",
            "list-regions",
            "regions",
            "remove-cloud",
            "show-cloud",
            "update-cloud",
            "update-public-clouds",
        ],
    ),
    (
        "credentials",
        &[
            "add-credential",
            "credentials",
            "default-credential",
            "list-credentials",
            "remove-credential",
            "set-credential",
            "show-credential",
            "show-credentials",
            "update-credential",
            "update-credentials",
        ],
    ),
    (
        "controllers to make or change; `juju add-model` is all it takes",
        &[
            "bootstrap",
            "controller-config",
            "create-backup",
            "destroy-controller",
            "download-backup",
            "enable-ha",
            "kill-controller",
            "register",
            "show-controller",
            "unregister",
            "upgrade-controller",
        ],
    ),
    (
        "cross-model relations",
        &[
            "consume",
            "find-offers",
            "offer",
            "remove-offer",
            "remove-saas",
            "resume-relation",
            "show-offer",
            "suspend-relation",
        ],
    ),
    ("debugging of hooks from here; `juju ssh` into the machine", &["debug-code", "debug-hook", "debug-hooks"]),
    ("Kubernetes", &["add-k8s", "remove-k8s", "scale-application", "update-k8s"]),
    (
        "more than one space",
        &[
            "add-space",
            "bind",
            "move-to-space",
            "remove-space",
            "rename-space",
            "show-space",
            "subnets",
            "list-subnets",
            "reload-spaces",
        ],
    ),
    ("other versions to go to", &["migrate", "sync-agent-binary", "upgrade-machine", "upgrade-model"]),
    ("resources", &["attach-resource"]),
    (
        "secret backends",
        &[
            "add-secret-backend",
            "list-secret-backends",
            "model-secret-backend",
            "remove-secret-backend",
            "secret-backends",
            "show-secret-backend",
            "update-secret-backend",
        ],
    ),
    (
        "storage that outlives its unit",
        &[
            "add-storage",
            "attach-storage",
            "create-storage-pool",
            "detach-storage",
            "import-filesystem",
            "list-storage-pools",
            "remove-storage",
            "remove-storage-pool",
            "storage-pools",
            "update-storage-pool",
        ],
    ),
    (
        "users beside the one",
        &[
            "add-user",
            "change-user-password",
            "disable-user",
            "enable-user",
            "grant",
            "list-users",
            "login",
            "logout",
            "remove-user",
            "revoke",
            "show-user",
            "users",
        ],
    ),
];

/// What a command of Juju would need that is not here.
pub fn missing_for(name: &str) -> Option<&'static str> {
    ABSENT.iter().find(|(_, names)| names.contains(&name)).map(|(what, _)| *what)
}
