//! What the controller tells slurmrestd: the configuration, file by file, in the form of slurmutils.

use crate::controller::{
    AUTH_KEY, AUTH_KEY_ID, AUTH_SECRET_ID, CONTROLLERS, JWT_KEY, JWT_SECRET_ID, SLURM_CONFIG, SLURM_VERSION,
    auth_secret, slurm_version,
};
use crate::databag::{Databag, DecodeError, json, written};
use crate::secret::SecretUri;
use crate::slurmutils;
use serde_json::{Value, json};
use slurm_conf::{SlurmConf, shown};
use std::collections::{BTreeMap, BTreeSet};

/// The file that includes the others.
const MAIN: &str = "slurm.conf";
/// Longer than a file name that somebody wrote.
const LONGEST_NAME: usize = 128;
/// Of a problem that is shown.
const LONGEST_PROBLEM: usize = 100;
/// More than a configuration has.
const MOST_FILES: usize = 256;

/// Application bag of slurmctld on the `slurmrestd` interface, written by its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestData {
    /// The secret that holds the cluster's authentication key. slurmrestd passes tokens on and needs no key of its own;
    /// the Python charm wants one.
    pub auth_secret: Option<SecretUri>,
    /// The files of the configuration by name. `slurm.conf` is always there.
    pub files: BTreeMap<String, SlurmConf>,
    /// The version of Slurm that the controllers run, such as `24.11.5`; `None` if the controller's charm does not say.
    pub slurm_version: Option<String>,
}

impl RestData {
    /// The key whose value changes with the configuration.
    pub const CONFIGURATION: &str = SLURM_CONFIG;

    /// Returns what is published of a configuration. `None`: there is no `slurm.conf` in it.
    ///
    /// Files that a reader would refuse by their name are left out, and with them the `Include` lines that name them.
    pub fn new(
        auth_secret: Option<SecretUri>,
        mut files: BTreeMap<String, SlurmConf>,
        slurm_version: Option<String>,
    ) -> Option<Self> {
        files.retain(|name, _| is_conf_name(name));
        files.contains_key(MAIN).then_some(Self { auth_secret, files, slurm_version })
    }

    /// Returns the bag. Options that slurmutils does not know are not in it, and neither are values that it refuses.
    pub fn encode(&self) -> Databag {
        let uri = json!(self.auth_secret.as_ref().map(SecretUri::as_str).unwrap_or_default());
        written([
            (AUTH_KEY, json!("")),
            (AUTH_KEY_ID, uri.clone()),
            (AUTH_SECRET_ID, uri),
            (CONTROLLERS, json!([])),
            (JWT_KEY, json!("")),
            (JWT_SECRET_ID, json!("")),
            (SLURM_CONFIG, slurmutils::encode(&self.files)),
            (SLURM_VERSION, json!(self.slurm_version.as_deref().unwrap_or_default())),
        ])
    }

    /// Reads the bag. `None`: the controller has not published a configuration yet.
    pub fn decode(bag: &Databag) -> Result<Option<Self>, DecodeError> {
        if bag.get("slurm_conf").is_some_and(|text| !text.is_empty()) && !bag.contains_key(SLURM_CONFIG) {
            let expected = "expected one that publishes its configuration as JSON";
            return Err(DecodeError::Obsolete { key: "slurm_conf", expected });
        }
        let records = match json(bag, SLURM_CONFIG)? {
            None => return Ok(None),
            Some(Value::Object(records)) => records,
            Some(other) => return Err(DecodeError::malformed(SLURM_CONFIG, &other.to_string(), "not an object")),
        };
        if records.is_empty() {
            return Ok(None);
        }
        let refused = |found: &str, problem: String| DecodeError::malformed(SLURM_CONFIG, found, problem);
        let names: BTreeSet<&str> = records.keys().map(String::as_str).collect();
        if let Some(name) = names.iter().find(|name| !is_conf_name(name)) {
            return Err(refused(name, "a file name has to be `slurm.conf` or `slurm.conf.NAME`".to_owned()));
        }
        if !names.contains(MAIN) || names.len() > MOST_FILES {
            return Err(refused("…", format!("expected `slurm.conf` and less than {MOST_FILES} files beside it")));
        }
        let mut files = BTreeMap::new();
        for (name, record) in &records {
            let members = record.as_object().ok_or_else(|| refused(name, "not an object".to_owned()))?;
            let text = slurmutils::decode(members, &names)
                .map_err(|(key, problem)| refused(&key, format!("{name}: {}", shown(&problem, LONGEST_PROBLEM))))?;
            let conf = SlurmConf::parse(&text).map_err(|error| refused(name, error.to_string()))?;
            files.insert(name.clone(), conf);
        }
        let (auth_secret, slurm_version) = (auth_secret(bag)?, slurm_version(bag)?);
        Ok(Some(Self { auth_secret, files, slurm_version }))
    }

    /// Returns a setting, whichever of the files has it.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.files.values().find_map(|conf| conf.get(key))
    }

    /// Returns the hosts of the controllers: the primary first.
    pub fn controllers(&self) -> Vec<&str> {
        self.files.values().flat_map(SlurmConf::controllers).collect()
    }
}

/// Tells whether a file of this name may be published and written: `slurm.conf`, or `slurm.conf.NAME`. Never a path.
pub fn is_conf_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let further = |rest: &str| rest.strip_prefix('.').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(plain));
    name.len() <= LONGEST_NAME && name.strip_prefix(MAIN).is_some_and(|rest| rest.is_empty() || further(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "\
ClusterName=charmed-hpc-aB3_
SlurmctldHost=c1(10.0.0.1)
SlurmctldHost=c2
AuthType=auth/slurm
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key,unheard_of=1
AuthAltTypes=auth/jwt
MaxNodeCount=65533
RebootProgram=\"/usr/sbin/reboot --reboot\"
SelectTypeParameters=CR_Core_Memory
SlurmctldParameters=enable_configless,rl_enable,rl_bucket_size=50
SchedulerParameters=bf_continue
TaskPlugin=task/cgroup,task/affinity
JobRequeue=1
TrackWCKey=Yes
Licenses=matlab:5,ansys
PrivateData=jobs,nonsense
KillWait=70000
MCSParameters=ondemand,select:a|b
PluginDir=/usr/lib/a:/usr/lib/b
NewOption=1
Include slurm.conf.site
Include slurm.conf.site
Include /etc/passwd
DownNodes=n1,n2 State=DOWN Reason=\"no power\"
NodeName=n[1-3] CPUs=4 Feature=x State=UNKNOWN
NodeSet=compute Feature=compute
PartitionName=compute Nodes=compute Default=YES MaxTime=60 State=UP TRESBillingWeights=CPU=1.0,Mem=0.25G New=1
";

    fn files() -> BTreeMap<String, SlurmConf> {
        let site = "KillWait=60\n";
        [("slurm.conf", CONF), ("slurm.conf.site", site), ("cgroup.conf", "x=1"), ("slurm.conf/../x", "")]
            .map(|(name, text)| (name.to_owned(), SlurmConf::parse(text).unwrap()))
            .into()
    }

    fn data() -> RestData {
        RestData::new(SecretUri::new("secret:d3k2v5nmp25c762q3bvg"), files(), Some("24.11.5".to_owned())).unwrap()
    }

    fn bag(config: &Value) -> Databag {
        Databag::from([("slurmconfig".to_owned(), config.to_string())])
    }

    #[test]
    fn what_slurmutils_knows_is_published_in_its_types() {
        let config: Value = serde_json::from_str(&data().encode()["slurmconfig"]).unwrap();
        let expected = json!({
            "slurm.conf": {
                "clustername": "charmed-hpc-aB3_",
                "authtype": "auth/slurm",
                "authaltparameters": {"jwt_key": "/etc/slurm/jwt_hs256.key"},
                "authalttypes": ["auth/jwt"],
                "maxnodecount": 65533,
                "rebootprogram": "/usr/sbin/reboot --reboot",
                "selecttypeparameters": {"cr_core_memory": true},
                "slurmctldparameters": {"enable_configless": true, "rl_enable": true, "rl_bucket_size": 50},
                "taskplugin": ["task/cgroup", "task/affinity"],
                "jobrequeue": true,
                "trackwckey": true,
                "licenses": {"matlab": 5, "ansys": 1},
                "mcsparameters": {"ondemand": true, "select": true, "mcs_plugin_parameters": ["a", "b"]},
                "plugindir": ["/usr/lib/a", "/usr/lib/b"],
                "slurmctldhost": ["c1(10.0.0.1)", "c2"],
                "include": ["slurm.conf.site"],
                "downnodes": [{"downnodes": ["n1", "n2"], "state": "down", "reason": "no power"}],
                "nodes": {"n[1-3]": {"nodename": "n[1-3]", "cpus": 4, "state": "unknown"}},
                "nodesets": {"compute": {"nodeset": "compute", "feature": "compute"}},
                "partitions": {"compute": {
                    "partitionname": "compute", "nodes": ["compute"], "default": true, "maxtime": 60, "state": "up",
                    "tresbillingweights": {"CPU": 1.0},
                }},
            },
            "slurm.conf.site": {"killwait": 60},
        });
        assert_eq!(config, expected);
    }

    #[test]
    fn what_was_published_is_read_back() {
        let read = RestData::decode(&data().encode()).unwrap().unwrap();
        assert_eq!(read.files["slurm.conf.site"].render(), "killwait=60\n");
        let text = read.files["slurm.conf"].render();
        for line in [
            "slurmctldhost=c1(10.0.0.1)\nslurmctldhost=c2\n",
            "rebootprogram=\"/usr/sbin/reboot --reboot\"\n",
            "slurmctldparameters=enable_configless,rl_enable,rl_bucket_size=50\n",
            "jobrequeue=1\n",
            "trackwckey=YES\n",
            "licenses=matlab:5,ansys:1\n",
            "mcsparameters=ondemand,select:a|b\n",
            "plugindir=/usr/lib/a:/usr/lib/b\n",
            "include slurm.conf.site\n",
            "downnodes=n1,n2 state=down reason=\"no power\"\n",
            "nodeset=compute feature=compute\n",
            "partitionname=compute nodes=compute default=YES maxtime=60 state=up tresbillingweights=CPU=1.0\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert_eq!((read.get("killwait"), read.controllers()), (Some("60"), vec!["c1(10.0.0.1)", "c2"]));
        assert_eq!(read.auth_secret, data().auth_secret);
        let again = RestData::decode(&read.encode()).unwrap().unwrap();
        assert_eq!(again, read, "published once more it is the same");
    }

    #[test]
    fn the_last_line_of_a_key_counts() {
        let conf = SlurmConf::parse("KillWait=30\nKillWait=99999\nMessageTimeout=1\nmessagetimeout=20\n").unwrap();
        let data = RestData::new(None, [("slurm.conf".to_owned(), conf)].into(), None).unwrap();
        let config: Value = serde_json::from_str(&data.encode()["slurmconfig"]).unwrap();
        assert_eq!(config, json!({"slurm.conf": {"messagetimeout": 20}}));
    }

    #[test]
    fn nothing_published_is_nothing_to_read() {
        for text in ["", "{}", "null"] {
            let empty = Databag::from([("slurmconfig".to_owned(), text.to_owned())]);
            assert_eq!(RestData::decode(&empty), Ok(None), "{text}");
        }
        assert_eq!(RestData::decode(&Databag::new()), Ok(None));
        assert_eq!(RestData::new(None, BTreeMap::new(), None), None);
        let old = Databag::from([("slurm_conf".to_owned(), "ClusterName=x".to_owned())]);
        assert!(RestData::decode(&old).unwrap_err().to_string().contains("too old"));
    }

    #[test]
    fn what_a_newer_writer_says_is_written_too() {
        let config = json!({"slurm.conf": {
            "schedulerparameters": {"bf_continue": true, "bf_interval": 30, "x": false}, "newlist": ["a", 1],
            "newflag": false, "newnull": null, "newempty": [],
        }});
        let read = RestData::decode(&bag(&config)).unwrap().unwrap();
        let expected = "schedulerparameters=bf_continue,bf_interval=30\nnewlist=a,1\nnewflag=NO\n";
        assert_eq!(read.files["slurm.conf"].render(), expected);
    }

    #[test]
    fn names_that_are_no_plain_file_of_a_slurm_conf_are_refused() {
        for name in ["slurm.conf", "slurm.conf.compute", "slurm.conf.a-b_1.c"] {
            assert!(is_conf_name(name), "{name}");
        }
        let long = format!("slurm.conf.{}", "x".repeat(200));
        for name in [
            "",
            "slurm.con",
            "slurm.confx",
            "slurm.conf.",
            "slurm.conf/x",
            "slurm.conf.a/b",
            "/etc/passwd",
            "../slurm.conf",
            "slurm.conf.\n",
            "slurm.conf. x",
            "cgroup.conf",
            long.as_str(),
        ] {
            assert!(!is_conf_name(name), "{name}");
            let config = json!({"slurm.conf": {}, name: {}});
            assert!(RestData::decode(&bag(&config)).is_err(), "{name}");
        }
    }

    #[test]
    fn nothing_leaves_its_line() {
        for record in [
            json!([]),
            json!("ClusterName=x"),
            json!({"clustername": "a\nSlurmctldHost=evil"}),
            json!({"clustername": "a # b"}),
            json!({"clustername": "a\""}),
            json!({"clustername": "a\\"}),
            json!({"clustername": "a\u{0}"}),
            json!({"cluster name": "a"}),
            json!({"clustername=x\nfoo": "a"}),
            json!({"clustername": {"a": {"b": "c"}}}),
            json!({"clustername": {"a\nb": true}}),
            json!({"grestypes": ["a\nb"]}),
            json!({"grestypes": [["a"]]}),
            json!({"slurmctldhost": ["a\nb"]}),
            json!({"slurmctldhost": "a"}),
            json!({"include": "slurm.conf.x"}),
            json!({"include": ["/etc/passwd"]}),
            json!({"include": ["slurm.conf.x\nfoo=1"]}),
            json!({"Include": "/etc/passwd"}),
            json!({"nodename": "x"}),
            json!({"partitions": {"a": {"partitionname": "b"}}}),
            json!({"partitions": {"a\nb": {}}}),
            json!({"partitions": {"a": {"nodename": "b"}}}),
            json!({"partitions": {"a": {"include": "b"}}}),
            json!({"partitions": {"a": {"state": "up\nNodeName=x"}}}),
            json!({"partitions": {"a": 1}}),
            json!({"partitions": []}),
            json!({"downnodes": [{"state": "down"}]}),
            json!({"downnodes": {}}),
        ] {
            let config = json!({"slurm.conf": record});
            let error = RestData::decode(&bag(&config)).expect_err(&record.to_string());
            assert!(error.to_string().starts_with("databag key `slurmconfig`: "), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
