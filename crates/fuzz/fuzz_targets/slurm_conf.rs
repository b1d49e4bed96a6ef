//! slurm.conf, cgroup.conf and operators' lines: nothing panics, what was read comes back byte for byte, and what an
//! edit leaves can be read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slurm_conf::{CgroupConf, EffectiveConf, HostName, Node, Overlaid, Parameters, Partition, SlurmConf};

fuzz_target!(|text: &str| {
    if let Ok(mut conf) = SlurmConf::parse(text) {
        assert_eq!(conf.render(), text);
        // A file that includes itself ends as well.
        let _ = EffectiveConf::read(&conf, |_| Some(text.to_owned()));
        let partition = Partition::from_config("compute", "MaxTime=60").expect("a good partition");
        conf.set_partition(&partition, &partition.nodeset());
        conf.set_controllers(&[HostName::new("c1").expect("a host name"), HostName::new("c2").expect("a host name")]);
        conf.set("ClusterName", "lab").expect("a good value");
        let read = SlurmConf::parse(&conf.render()).expect("an edited file can be read");
        assert_eq!(read.get("ClusterName"), Some("lab"));
        assert_eq!(read.controllers().len(), 2);
        assert!(read.partition("compute").is_some_and(|record| record.get("MaxTime") == Some("60")));
        conf.remove_partition("compute");
        conf.remove("ClusterName");
        assert!(SlurmConf::parse(&conf.render()).is_ok_and(|conf| conf.partition("compute").is_none()));
    }
    if let Ok(parameters) = CgroupConf::parameters(text) {
        let mut conf = CgroupConf::parse("ConstrainCores=yes\n").expect("a good file");
        conf.merge(&parameters);
        assert!(CgroupConf::parse(&conf.render()).is_ok());
    }
    if let Ok(parameters) = Parameters::parse(text, &["ClusterName"]) {
        let _ = parameters.doubts();
        let pairs: Vec<_> = parameters.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let read = SlurmConf::parse(&Overlaid::render(&SlurmConf::new(), &pairs)).expect("parameters can be read");
        assert!(parameters.iter().all(|(key, value)| read.get(key) == Some(value)));
    }
    if let Ok(partition) = Partition::from_config("compute", text) {
        assert_eq!(Partition::from_json(&partition.to_json()).as_ref(), Ok(&partition));
    }
    if let Ok(node) = Node::from_config(text) {
        assert_eq!(Node::from_config(&node.render()).as_ref(), Ok(&node));
    }
});
