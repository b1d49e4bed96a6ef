//! What is installed, and installing, on a machine of directories and small programs.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod support;

use slurm_ops::packages::{self, Obstacle, PackageError, Selection};
use slurm_ops::source::Source;
use support::Sandbox;

const SLURMD: Selection = Selection {
    required: &["slurmd", "slurm-client"],
    optional: &["slurm-wlm-basic-plugins"],
    plugin: "auth_slurm.so",
    services: &["slurmd.service", "munge.service"],
};
const PLUGIN: &str = "/usr/lib/x86_64-linux-gnu/slurm-wlm/auth_slurm.so";
const SOURCE: &str = "Types: deb\nURIs: https://x.example/\nSuites: noble\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME\n -----END PGP PUBLIC KEY BLOCK-----\n";

const STATUS: &str = "\
Package: munge
Status: install ok installed
Version: 0.5.16-1.1

Package: slurmctld
Status: hold ok installed
Priority: optional
Description: controller
 Package: slurmd
Version: 1:24.11.5-4+deb13u1

Package: slurmd
Status: install ok half-configured
Version: 24.11.5-4+deb13u1
";

/// A machine on which nothing is installed, with an archive that has these packages in these versions: systemctl masks
/// and unmasks for real, apt-get installs whatever it is asked for.
fn archive(offered: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox
        .file("/var/lib/dpkg/status", "")
        .file("/run/systemd/system/keep", "")
        .file("/etc/apt/sources.list.d/keep", "");
    offers(&sandbox, offered);
    sandbox.program(
        "systemctl",
        "verb=none; units=; for word in \"$@\"; do case $word in mask|unmask|disable) verb=$word;; *.service) units=\"$units $word\";; esac; done
         for unit in $units; do case $verb in
           mask) ln -sf /dev/null $ROOT/run/systemd/system/$unit;;
           unmask) rm $ROOT/run/systemd/system/$unit;;
         esac; done",
    );
    sandbox.program("apt-cache", "cat $ROOT/policy");
    apt(&sandbox, "");
    sandbox.program("apt-mark", "");
    sandbox
}

fn offers(sandbox: &Sandbox, offered: &[(&str, &str)]) {
    let policy = |(name, version): &(&str, &str)| format!("{name}:\n  Installed: (none)\n  Candidate: {version}\n");
    sandbox.file("policy", &offered.iter().map(policy).collect::<String>());
}

/// apt-get that first does something else.
fn apt(sandbox: &Sandbox, first: &str) {
    let script = "case \"$*\" in *install*) ;; *) exit 0;; esac
         mkdir -p $ROOT/usr/lib/systemd/system; touch $ROOT/usr/lib/systemd/system/slurmd.service; : > $ROOT/var/lib/dpkg/status
         for word in \"$@\"; do case $word in --*|install) continue;; esac
           version=$(sed -n \"/^$word:/,/Candidate/ s/.*Candidate: //p\" $ROOT/policy)
           printf 'Package: %s\\nStatus: install ok installed\\nVersion: %s\\n\\n' $word $version >> $ROOT/var/lib/dpkg/status
         done
         mkdir -p $ROOT/usr/lib/x86_64-linux-gnu/slurm-wlm; touch $ROOT/usr/lib/x86_64-linux-gnu/slurm-wlm/auth_slurm.so";
    sandbox.program("apt-get", &format!("{first}\n{script}"));
}

const TRIXIE: [(&str, &str); 3] =
    [("slurmd", "24.11.5-4"), ("slurm-client", "24.11.5-4"), ("slurm-wlm-basic-plugins", "24.11.5-4")];

fn ensure(sandbox: &Sandbox, source: &str) -> Result<bool, Obstacle> {
    let source: Source = source.parse().unwrap();
    packages::ensure_installed(&sandbox.machine().writer(), &source, &SLURMD, || {})
        .map_err(|error| Obstacle::try_from(error).unwrap())
}

fn version(sandbox: &Sandbox) -> Option<String> {
    packages::inventory(&sandbox.machine().host(), &SLURMD).unwrap().version.map(|version| version.to_string())
}

/// The calls without the options that are the same every time, and without the questions.
fn verbs(sandbox: &Sandbox) -> Vec<String> {
    let short = |call: String| call.split(' ').filter(|word| !word.starts_with("--")).collect::<Vec<_>>().join(" ");
    sandbox.calls().into_iter().map(short).filter(|call| !call.starts_with("apt-cache")).collect()
}

const INSTALL: &str = "apt-get install slurmd slurm-client slurm-wlm-basic-plugins";
const MASK: &str = "systemctl mask slurmd.service munge.service";
const UNMASK: &str = "systemctl unmask slurmd.service munge.service";

#[test]
fn only_what_is_completely_installed_counts() {
    let sandbox = Sandbox::new();
    sandbox.file("/var/lib/dpkg/status", STATUS);
    let found = packages::installed(&sandbox.machine().host(), &["slurmctld", "slurmd", "nothing"]).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["slurmctld"]);
    assert_eq!(found["slurmctld"].version, "1:24.11.5-4+deb13u1");
    assert!(found["slurmctld"].held);
    assert!(sandbox.calls().is_empty(), "no process is needed to look");
    let journal = "Package: slurmd\nStatus: install ok installed\nVersion: 24.11.5-4\n";
    sandbox.file("/var/lib/dpkg/updates/0001", journal).file("/var/lib/dpkg/updates/tmp.i", "Package: slurmctld\n");
    assert_eq!(packages::installed(&sandbox.machine().host(), &["slurmd"]).unwrap()["slurmd"].version, "24.11.5-4");
    let bare = Sandbox::new();
    assert_eq!(packages::inventory(&bare.machine().host(), &SLURMD).unwrap().version, None, "a machine without dpkg");
}

#[test]
fn a_new_daemon_is_masked_before_and_disabled_after_its_installation() {
    let sandbox = archive(&TRIXIE);
    let mut begun = false;
    assert!(
        packages::ensure_installed(&sandbox.machine().writer(), &Source::Archive, &SLURMD, || begun = true).unwrap()
    );
    assert!(begun);
    let expected = [MASK, INSTALL, "systemctl disable slurmd.service", UNMASK];
    assert_eq!(verbs(&sandbox), expected);
    assert_eq!(version(&sandbox).as_deref(), Some("24.11.5"));
    let calls = sandbox.calls().len();
    assert_eq!(ensure(&sandbox, ""), Ok(false));
    assert_eq!(sandbox.calls().len(), calls, "the second time starts nothing");
}

#[test]
fn a_part_that_the_archive_does_not_know_or_has_of_another_slurm_is_left_out() {
    let sandbox = archive(&TRIXIE[..2]);
    assert_eq!(ensure(&sandbox, ""), Ok(true));
    assert_eq!(verbs(&sandbox)[1], "apt-get install slurmd slurm-client");
    assert_eq!(version(&sandbox).as_deref(), Some("24.11.5"));
    assert!(packages::ensure_held(&sandbox.machine().writer(), &SLURMD).unwrap());
    assert_eq!(sandbox.calls().last().unwrap(), "apt-mark hold slurm-client slurmd");
    let mixed =
        [("slurmd", "25.11.2-1"), ("slurm-client", "25.11.2-1"), ("slurm-wlm-basic-plugins", "23.11.4-1.2ubuntu5")];
    let sandbox = archive(&mixed);
    assert_eq!(ensure(&sandbox, ""), Ok(true));
    assert_eq!(verbs(&sandbox)[1], "apt-get install slurmd slurm-client");
}

#[test]
fn a_slurm_without_its_plugin_is_told_whatever_its_packages_are() {
    let sandbox = archive(&TRIXIE);
    ensure(&sandbox, "").unwrap();
    std::fs::remove_file(sandbox.path(PLUGIN)).unwrap();
    let inventory = packages::inventory(&sandbox.machine().host(), &SLURMD).unwrap();
    assert_eq!((inventory.version, inventory.unfit), (None, Some(Obstacle::Lacking { plugin: "auth_slurm.so" })));
    assert_eq!(ensure(&sandbox, ""), Err(Obstacle::Lacking { plugin: "auth_slurm.so" }));
    for place in ["/usr/lib/slurm/auth_slurm.so", "/usr/lib64/slurm/auth_slurm.so"] {
        sandbox.file(place, "");
        assert_eq!(version(&sandbox).as_deref(), Some("24.11.5"), "{place}");
        std::fs::remove_file(sandbox.path(place)).unwrap();
    }
    // Packages of a site's own making have them where they like.
    sandbox.file("/var/lib/dpkg/info/slurmd.list", "/opt\n/opt/slurm/plugins/auth_slurm.so\n");
    assert_eq!(version(&sandbox), None, "it has to be there, too");
    sandbox.file("/opt/slurm/plugins/auth_slurm.so", "");
    assert_eq!(version(&sandbox).as_deref(), Some("24.11.5"));
}

#[test]
fn nothing_is_installed_of_a_slurm_that_is_too_old_and_a_newer_source_heals_it() {
    let old = [("slurmd", "23.11.4-1.2ubuntu5"), ("slurm-client", "23.11.4-1.2ubuntu5")];
    let sandbox = archive(&old);
    let too_old = Err(Obstacle::TooOld { package: "slurmd".to_owned(), found: "23.11.4".to_owned() });
    assert_eq!(ensure(&sandbox, ""), too_old);
    assert_eq!(verbs(&sandbox), ["apt-get update"], "the lists could have been old, and that was all");
    // One that somebody else installed is replaced by what the new source has.
    let installed = "Package: slurmd\nStatus: hold ok installed\nVersion: 23.11.4-1.2ubuntu5\n\nPackage: slurm-client\nStatus: install ok installed\nVersion: 23.11.4-1.2ubuntu5\n";
    sandbox.file("/var/lib/dpkg/status", installed).file("/usr/lib/systemd/system/slurmd.service", "").file(PLUGIN, "");
    let inventory = packages::inventory(&sandbox.machine().host(), &SLURMD).unwrap();
    assert_eq!((inventory.version, inventory.unfit), (None, too_old.clone().err()));
    assert_eq!(ensure(&sandbox, ""), too_old);
    offers(&sandbox, &TRIXIE);
    assert_eq!(ensure(&sandbox, SOURCE), Ok(true));
    assert_eq!(version(&sandbox).as_deref(), Some("24.11.5"));
    assert!(verbs(&sandbox).contains(&INSTALL.to_owned()));
}

#[test]
fn a_package_that_apt_does_not_know_is_told_and_one_that_shows_after_an_update_is_installed() {
    let sandbox = archive(&[]);
    assert_eq!(ensure(&sandbox, ""), Err(Obstacle::Unknown { package: "slurmd".to_owned() }));
    apt(&sandbox, "case \"$*\" in *update*) cp $ROOT/later $ROOT/policy;; esac");
    sandbox.file("later", "slurmd:\n  Candidate: 24.11.5-4\nslurm-client:\n  Candidate: 24.11.5-4\n");
    assert_eq!(ensure(&sandbox, ""), Ok(true));
}

#[test]
fn lists_that_cannot_be_fetched_are_no_proof_that_there_is_no_package() {
    let sandbox = archive(&[]);
    let away = "E: Failed to fetch http://x.example/InRelease  Temporary failure resolving 'x.example'";
    apt(&sandbox, &format!("case \"$*\" in *update*) echo \"{away}\" >&2; exit 100;; esac"));
    assert!(ensure(&sandbox, "").unwrap_err().is_passing());
    offers(&sandbox, &TRIXIE);
    assert_eq!(ensure(&sandbox, ""), Ok(true), "what is at hand will do");
}

#[test]
fn a_locked_apt_leaves_nothing_half_made() {
    let sandbox = archive(&TRIXIE);
    apt(
        &sandbox,
        "echo 'E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (dpkg)' >&2; exit 100",
    );
    assert!(ensure(&sandbox, "").unwrap_err().is_passing());
    assert_eq!(version(&sandbox), None);
    let masked = || std::fs::read_link(sandbox.path("/run/systemd/system/slurmd.service")).is_ok();
    assert!(!masked(), "nothing stays masked");
    apt(&sandbox, "");
    assert_eq!(ensure(&sandbox, ""), Ok(true));
    // One that came half of its way must not start when somebody else brings it to its end.
    let sandbox = archive(&TRIXIE);
    apt(&sandbox, "mkdir -p $ROOT/usr/lib/systemd/system; touch $ROOT/usr/lib/systemd/system/slurmd.service; exit 100");
    assert!(ensure(&sandbox, "").is_err());
    assert!(std::fs::read_link(sandbox.path("/run/systemd/system/slurmd.service")).is_ok());
    assert!(std::fs::read_link(sandbox.path("/run/systemd/system/munge.service")).is_err());
}

#[test]
fn a_source_is_known_and_its_lists_are_fetched_before_anything_comes_from_it() {
    let sandbox = archive(&TRIXIE);
    assert_eq!(ensure(&sandbox, SOURCE), Ok(true));
    assert_eq!(verbs(&sandbox)[..3], ["apt-get update", MASK, INSTALL]);
    assert_eq!(sandbox.read("/etc/apt/sources.list.d/slurm-charm.sources"), SOURCE);
    // What is installed stays, wherever it came from.
    let calls = sandbox.calls().len();
    assert_eq!(ensure(&sandbox, "ppa:somebody/slurm"), Ok(false));
    assert_eq!(sandbox.calls().len(), calls);
}

#[test]
fn a_source_that_is_taken_back_stands_in_nobodys_way_and_one_that_fails_says_why() {
    let sandbox = archive(&TRIXIE);
    sandbox.file("/etc/apt/sources.list.d/slurm-charm.sources", "Types: deb\n");
    assert_eq!(ensure(&sandbox, ""), Ok(true));
    assert!(!sandbox.path("etc/apt/sources.list.d/slurm-charm.sources").exists());
    let sandbox = archive(&TRIXIE);
    sandbox.program("add-apt-repository", "");
    apt(&sandbox, "printf 'W: slow\nE: The repository has no Release file.\nE: Sub-process failed\n' >&2; exit 100");
    let why = "The repository has no Release file.";
    assert_eq!(ensure(&sandbox, "ppa:somebody/slurm"), Err(Obstacle::Failed(why.to_owned())));
}

#[test]
fn a_ppa_is_added_with_ubuntus_own_program() {
    let sandbox = archive(&TRIXIE);
    sandbox.program("add-apt-repository", "");
    assert_eq!(ensure(&sandbox, "ppa:somebody/slurm"), Ok(true));
    let added = "add-apt-repository ppa:somebody/slurm";
    assert_eq!(verbs(&sandbox)[..5], [added, added, "apt-get update", MASK, INSTALL]);
}

#[test]
fn an_installation_that_was_killed_before_its_end_is_finished() {
    let sandbox = archive(&TRIXIE);
    let installed = "Package: slurmd\nStatus: install ok installed\nVersion: 24.11.5-4\n\nPackage: slurm-client\nStatus: install ok installed\nVersion: 24.11.5-4\n";
    sandbox.file("/var/lib/dpkg/status", installed).file("/usr/lib/systemd/system/slurmd.service", "").file(PLUGIN, "");
    for unit in SLURMD.services {
        std::os::unix::fs::symlink("/dev/null", sandbox.path(&format!("/run/systemd/system/{unit}"))).unwrap();
    }
    assert_eq!(version(&sandbox), None);
    // An apt that does not work keeps nobody from finishing what is there.
    apt(&sandbox, "exit 100");
    assert_eq!(ensure(&sandbox, ""), Ok(true));
    let part = "apt-get install slurm-wlm-basic-plugins";
    assert_eq!(verbs(&sandbox), [part, "apt-get update", part, "systemctl disable slurmd.service", UNMASK]);
    assert_eq!(version(&sandbox).as_deref(), Some("24.11.5"));
}

#[test]
fn a_unit_that_is_there_already_is_not_touched() {
    let sandbox = archive(&TRIXIE);
    sandbox.file("/usr/lib/systemd/system/slurmd.service", "").file("/etc/systemd/system/munge.service", "");
    assert_eq!(ensure(&sandbox, ""), Ok(true));
    assert_eq!(verbs(&sandbox), [INSTALL]);
}

#[test]
fn lists_are_fetched_and_dpkg_is_repaired_only_when_an_installation_fails() {
    let sandbox = archive(&TRIXIE);
    sandbox.program("dpkg", "touch $ROOT/repaired");
    apt(
        &sandbox,
        "case \"$*\" in *update*) touch $ROOT/updated;; *) test -e $ROOT/updated || { echo \"E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.\" >&2; exit 100; };; esac",
    );
    ensure(&sandbox, "").unwrap();
    assert_eq!(verbs(&sandbox)[1..5], [INSTALL, "dpkg -a", "apt-get update", INSTALL]);
}

#[test]
fn packages_are_held_once() {
    let sandbox = Sandbox::new();
    let status = "Package: slurmd\nStatus: hold ok installed\nVersion: 24.11.5-4\n\nPackage: slurm-client\nStatus: install ok installed\nVersion: 24.11.5-4\n";
    sandbox.file("/var/lib/dpkg/status", status).program("apt-mark", "");
    assert!(!packages::inventory(&sandbox.machine().host(), &SLURMD).unwrap().held);
    assert!(packages::ensure_held(&sandbox.machine().writer(), &SLURMD).unwrap());
    sandbox.file("/var/lib/dpkg/status", &status.replace("install ok", "hold ok"));
    assert!(packages::inventory(&sandbox.machine().host(), &SLURMD).unwrap().held);
    assert!(!packages::ensure_held(&sandbox.machine().writer(), &SLURMD).unwrap());
    assert_eq!(sandbox.calls(), ["apt-mark hold slurm-client"]);
}

#[test]
fn a_record_that_cannot_be_read_is_no_obstacle_but_an_error() {
    let sandbox = archive(&TRIXIE);
    std::fs::remove_file(sandbox.path("/var/lib/dpkg/status")).unwrap();
    std::fs::create_dir(sandbox.path("/var/lib/dpkg/status")).unwrap();
    let error = packages::ensure_installed(&sandbox.machine().writer(), &Source::Archive, &SLURMD, || {}).unwrap_err();
    assert!(matches!(error, PackageError::File(_)) && Obstacle::try_from(error).is_err());
}
