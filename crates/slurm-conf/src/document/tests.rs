//! Edits of whole files.

use super::*;
use crate::name::PartitionName;

const SAMPLE: &str = "\
# Site configuration
ClusterName=lab   # do not touch
slurmctldhost=c1(10.99.0.11)
SlurmctldHost=c2

SlurmctldPort=6817 SlurmdPort=6818
SchedulerParameters=defer,\\
bf_max_job_test=100
RebootProgram=\"/usr/sbin/reboot --reboot\"
Include extra.conf
NodeName=DEFAULT CPUs=2
NodeSet=compute Feature=compute
PartitionName=compute Nodes=compute State=UP # mine
";

fn sample() -> SlurmConf {
    SlurmConf::parse(SAMPLE).unwrap()
}

fn partition(name: &str, options: &str) -> Partition {
    Partition::from_config(name, options).unwrap()
}

fn hosts(names: &[&str]) -> Vec<HostName> {
    names.iter().map(|name| HostName::new(*name).unwrap()).collect()
}

/// Checks that an edit changed exactly the lines `removed` into the lines `added`.
#[track_caller]
fn check_difference(before: &str, after: &SlurmConf, removed: &[&str], added: &[&str]) {
    let rendered = after.render();
    let gone: Vec<&str> = before.lines().filter(|line| !rendered.lines().any(|other| other == *line)).collect();
    let new: Vec<&str> = rendered.lines().filter(|line| !before.lines().any(|other| other == *line)).collect();
    assert_eq!((gone.as_slice(), new.as_slice()), (removed, added));
    assert_eq!(SlurmConf::parse(&rendered).unwrap().render(), rendered);
}

#[test]
fn untouched_files_come_out_byte_for_byte() {
    for text in [SAMPLE, "", "\n", "A=1", "A=1\r\n\r\n# x\r\n", "  \\\n", "# only a comment", "A=1 \\\n\\\nB=2"] {
        assert_eq!(SlurmConf::parse(text).unwrap().render(), text);
        assert_eq!(SlurmConf::parse(text).unwrap().to_string(), text);
    }
}

#[test]
fn keys_are_found_in_any_letter_case() {
    let conf = sample();
    assert_eq!(conf.get("CLUSTERNAME"), Some("lab"));
    assert_eq!(conf.get("slurmdport"), Some("6818"));
    assert_eq!(conf.get("RebootProgram"), Some("/usr/sbin/reboot --reboot"));
    assert_eq!(conf.get("CPUs"), None, "options of a record are no plain keys");
    assert_eq!(conf.includes().collect::<Vec<_>>(), ["extra.conf"]);
    assert_eq!(SlurmConf::parse("A=1\nA=2\n").unwrap().get("a"), Some("2"), "the last one counts");
}

#[test]
fn a_changed_value_changes_its_own_line_only() {
    let mut conf = sample();
    assert_eq!(conf.set("CLUSTERNAME", "lab"), Ok(false));
    assert_eq!(conf.render(), SAMPLE);
    assert_eq!(conf.set("clustername", "new"), Ok(true));
    check_difference(SAMPLE, &conf, &["ClusterName=lab   # do not touch"], &["ClusterName=new   # do not touch"]);
}

#[test]
fn a_value_with_blanks_is_quoted() {
    let mut conf = SlurmConf::new();
    conf.set("RebootProgram", "/sbin/reboot now").unwrap();
    conf.set("Empty", "").unwrap();
    assert_eq!(conf.render(), "RebootProgram=\"/sbin/reboot now\"\nEmpty=\"\"\n");
    assert_eq!(SlurmConf::parse(&conf.render()).unwrap().get("Empty"), Some(""));
}

#[test]
fn a_value_on_several_lines_is_replaced_as_one() {
    let mut conf = sample();
    conf.set("SchedulerParameters", "defer").unwrap();
    let removed = ["SchedulerParameters=defer,\\", "bf_max_job_test=100"];
    check_difference(SAMPLE, &conf, &removed, &["SchedulerParameters=defer"]);
}

#[test]
fn a_new_key_follows_the_last_plain_key() {
    let mut conf = sample();
    conf.set("TreeWidth", "65533").unwrap();
    let expected = SAMPLE.replace("--reboot\"\n", "--reboot\"\nTreeWidth=65533\n");
    assert_eq!(conf.render(), expected);
}

#[test]
fn a_missing_line_end_is_made_up_for() {
    let mut conf = SlurmConf::parse("A=1").unwrap();
    conf.set("B", "2").unwrap();
    assert_eq!(conf.render(), "A=1\nB=2\n");
}

#[test]
fn an_operator_does_not_survive_a_new_value() {
    let mut conf = SlurmConf::parse("A += 1 B=2\n").unwrap();
    conf.set("A", "3").unwrap();
    assert_eq!(conf.render(), "A=3 B=2\n");
}

#[test]
fn removing_a_key_leaves_its_neighbours() {
    let mut conf = SlurmConf::parse("A=1 B=2 C=3 # x\nB=4\nD=5\n").unwrap();
    assert!(conf.remove("b"));
    assert!(!conf.remove("b"));
    assert_eq!(conf.render(), "A=1 C=3 # x\nD=5\n");
    assert!(conf.remove("C"));
    assert_eq!(conf.render(), "A=1 # x\nD=5\n");
}

#[test]
fn text_from_outside_cannot_become_more_than_a_value() {
    let mut conf = sample();
    for value in ["a\nPartitionName=x", "a\rb", "a#b", "a\\", "\"", "a\"b", "a\0b", "a\u{2028}b", "a\u{85}b", "a\tb"] {
        let error = conf.set("ClusterName", value).unwrap_err();
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    for key in ["", "A B", "A=1\nB", "A\n", "PartitionName", "nodename", "Include", "SlurmctldHost", "#A", "A+"] {
        assert!(conf.set(key, "1").is_err(), "{key:?}");
    }
    assert_eq!(conf.render(), SAMPLE);
}

#[test]
fn controllers_are_appended_and_removed_in_place() {
    let mut conf = sample();
    assert_eq!(conf.controllers(), ["c1(10.99.0.11)", "c2"]);
    assert!(!conf.set_controllers(&hosts(&["c1", "c2"])), "an address behind the name is the administrator's");
    assert!(conf.set_controllers(&hosts(&["c1", "c2", "c3"])));
    assert_eq!(conf.render(), SAMPLE.replace("SlurmctldHost=c2\n", "SlurmctldHost=c2\nSlurmctldHost=c3\n"));
    assert!(conf.set_controllers(&hosts(&["c2", "c3"])));
    assert_eq!(conf.controllers(), ["c2", "c3"]);
    assert!(conf.set_controllers(&[]));
    assert!(conf.controllers().is_empty());
    assert!(conf.set_controllers(&hosts(&["c9"])));
    assert_eq!(conf.controllers(), ["c9"]);
    assert_eq!(SlurmConf::parse(&conf.render()).unwrap().controllers(), ["c9"]);
}

#[test]
fn controllers_that_share_a_line_are_set_too() {
    let mut conf = SlurmConf::parse("SlurmctldHost=c1 ClusterName=lab SlurmctldHost=c2\nPort=1\n").unwrap();
    assert_eq!(conf.controllers(), ["c1", "c2"]);
    conf.set_controllers(&hosts(&["c2", "c3"]));
    assert_eq!(conf.controllers(), ["c2", "c3"]);
    assert_eq!(conf.get("ClusterName"), Some("lab"));
    let again = SlurmConf::parse(&conf.render()).unwrap();
    assert_eq!((again.controllers(), again.get("Port")), (vec!["c2", "c3"], Some("1")));
}

#[test]
fn a_partition_is_edited_in_place() {
    let mut conf = sample();
    let same = partition("compute", "state=up");
    assert!(!conf.set_partition(&same, &same.nodeset()));
    assert_eq!(conf.render(), SAMPLE);
    let changed = partition("compute", "State=DOWN MaxTime=60");
    assert!(conf.set_partition(&changed, &changed.nodeset()));
    let removed = ["PartitionName=compute Nodes=compute State=UP # mine"];
    check_difference(SAMPLE, &conf, &removed, &["PartitionName=compute Nodes=compute State=DOWN MaxTime=60 # mine"]);
}

#[test]
fn a_new_partition_comes_with_its_node_set() {
    let mut conf = sample();
    let gpu = partition("gpu", "Default=YES");
    assert!(conf.set_partition(&gpu, &gpu.nodeset()));
    assert_eq!(conf.render(), format!("{SAMPLE}NodeSet=gpu Feature=gpu\nPartitionName=gpu Nodes=gpu Default=YES\n"));
    assert!(!conf.set_partition(&gpu, &gpu.nodeset()));
    assert!(conf.remove_partition("gpu"));
    assert!(!conf.remove_partition("gpu"));
    assert_eq!(conf.render(), SAMPLE);
}

#[test]
fn a_lost_node_set_is_put_before_its_partition() {
    let mut conf = SlurmConf::parse("PartitionName=a Nodes=a\nPartitionName=b Nodes=b\n").unwrap();
    let b = partition("b", "");
    assert!(conf.set_partition(&b, &b.nodeset()));
    assert_eq!(conf.render(), "PartitionName=a Nodes=a\nNodeSet=b Feature=b\nPartitionName=b Nodes=b\n");
}

#[test]
fn a_node_set_stays_while_another_partition_uses_it() {
    let mut conf =
        SlurmConf::parse("NodeSet=a Feature=a\nPartitionName=a Nodes=a\nPartitionName=all Nodes=b,a\n").unwrap();
    conf.remove_partition("a");
    assert_eq!(conf.render(), "NodeSet=a Feature=a\nPartitionName=all Nodes=b,a\n");
}

#[test]
fn a_partition_that_stands_twice_is_healed() {
    let mut conf =
        SlurmConf::parse("NodeSet=a Feature=a\nPartitionName=a Nodes=a\nPartitionName=a Nodes=a State=UP\n").unwrap();
    let a = partition("a", "");
    assert!(conf.set_partition(&a, &a.nodeset()));
    assert_eq!(conf.render(), "NodeSet=a Feature=a\nPartitionName=a Nodes=a\n");
}

#[test]
fn a_record_behind_plain_keys_can_be_edited_and_removed() {
    let text = "A=1 PartitionName=a Nodes=x # why\n";
    let mut conf = SlurmConf::parse(text).unwrap();
    assert_eq!(conf.get("A"), Some("1"));
    assert_eq!(conf.get("Nodes"), None);
    let a = partition("a", "");
    conf.set_partition(&a, &a.nodeset());
    assert_eq!(conf.partition("a").unwrap().get("nodes"), Some("a"));
    conf.remove_partition("a");
    assert_eq!(conf.render(), "A=1 # why\n");
}

#[test]
fn partitions_are_read_back() {
    let conf =
        SlurmConf::parse("PartitionName=a Nodes=x,y MaxTime=60 default=yes\nPartitionName=b MaxTime=zzz\n").unwrap();
    assert_eq!(conf.partitions().map(|record| record.name()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(Partition::try_from(conf.partition("a").unwrap()), Ok(partition("a", "MaxTime=60 Default=YES")));
    assert!(Partition::try_from(conf.partition("b").unwrap()).is_err());
    assert_eq!(conf.partition("A").map(|record| record.name()), None, "names have a letter case");
}

#[test]
fn ten_thousand_partitions_are_built_edited_and_removed() {
    const COUNT: usize = 10_000;
    let mut conf = SlurmConf::parse("ClusterName=lab\n").unwrap();
    for number in 0..COUNT {
        let one = Partition::new(PartitionName::new(format!("p{number}")).unwrap());
        assert!(conf.set_partition(&one, &one.nodeset()));
    }
    let mut again = SlurmConf::parse(&conf.render()).unwrap();
    assert_eq!(again, conf);
    for number in 0..COUNT {
        let one = partition(&format!("p{number}"), "MaxTime=60");
        assert!(again.set_partition(&one, &one.nodeset()));
    }
    for number in 0..COUNT {
        assert!(again.remove_partition(&format!("p{number}")));
    }
    assert_eq!(again.render(), "ClusterName=lab\n");
}

#[test]
fn a_backslash_at_the_end_of_the_file_swallows_no_new_line() {
    for text in ["KillWait=30 \\", "KillWait=30 \\\n", "KillWait=30 \\  # why\n", "\\\n"] {
        let mut conf = SlurmConf::parse(text).unwrap();
        conf.set_partition(&partition("q", ""), &NodeSet::new("q", "q").unwrap());
        conf.set("MinJobAge", "5").unwrap();
        let rendered = conf.render();
        let read = SlurmConf::parse(&rendered).unwrap();
        assert!(rendered.starts_with(text), "{rendered:?}");
        assert!(rendered.contains("\nNodeSet=q ") && rendered.contains("\nMinJobAge=5\n"), "{rendered:?}");
        assert_eq!((read.get("MinJobAge"), read.nodeset("q").is_some()), (Some("5"), true), "{rendered:?}");
        assert!(read.living().all(|line| line.pairs().len() < 2 || plain_count(line) == 0), "{rendered:?}");
    }
}
