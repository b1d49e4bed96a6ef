//! Two looks at slurmctld and two versions of slurm.conf between them: what is set again, and what is not.

use super::*;
use crate::document::SlurmConf;

fn memory(nodes: &[(&str, u64)], shown: &str) -> RuntimeSettings {
    let node = |(name, weight): &(&str, u64)| ((*name).to_owned(), NodeSetting { weight: *weight, active: None });
    let nodes = NodeSettings(nodes.iter().map(node).collect());
    RuntimeSettings { nodes, partitions: PartitionSettings::from_shown(shown) }
}

/// Returns the arguments of each `scontrol update`.
fn updates(before: &RuntimeSettings, after: &RuntimeSettings, old: &str, new: &str) -> Vec<Vec<String>> {
    updates_with(before, after, [old, new], "")
}

/// Likewise, with a file `more.conf` beside both.
fn updates_with(before: &RuntimeSettings, after: &RuntimeSettings, texts: [&str; 2], more: &str) -> Vec<Vec<String>> {
    let text_of = |path: &str| (path == "more.conf").then(|| more.to_owned());
    let [old, new] = texts.map(|text| EffectiveConf::read(&SlurmConf::parse(text).unwrap(), text_of));
    let arguments = |update: Update| {
        let settings = update.settings.iter().map(|(key, value)| format!("{key}={value}"));
        std::iter::once(update.entity.to_string()).chain(settings).collect()
    };
    super::updates(before, after, &old, &new).into_iter().map(arguments).collect()
}

const CONF: &str = "ClusterName=lab\nPartitionName=compute Nodes=compute\nPartitionName=debug Nodes=debug MaxTime=15\n";
/// As 24.11 shows a partition about which nobody said anything.
const PLAIN: &str = "PartitionName=compute AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=NO QoS=N/A \
    DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED \
    MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED NodeSets=compute \
    Nodes=compute-0 PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE \
    PreemptMode=OFF State=UP TotalCPUs=2 TotalNodes=1 SelectTypeParameters=NONE JobDefaults=(null) \
    DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED TRES=cpu=2,mem=24105M,node=1,billing=2";

#[test]
fn nodes_are_found_among_texts_of_others() {
    let shown = "NodeName=compute-0 Arch=x86_64 AvailableFeatures=compute,big ActiveFeatures=compute OS=Linux Weight=3 #1 \
                 State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=17 Owner=N/A Comment=TmpDisk=0 Weight=4 Reason=Weight=5\n\
                 NodeName=compute-1 AvailableFeatures=compute ActiveFeatures=compute State=IDLE TmpDisk=0 Weight=1 Owner=N/A\n\
                 No nodes in the system\n";
    let node = |weight, active: Option<&str>| NodeSetting { weight, active: active.map(str::to_owned) };
    let expected = [("compute-0".to_owned(), node(17, Some("compute"))), ("compute-1".to_owned(), node(1, None))];
    assert_eq!(NodeSettings::from_shown(shown), NodeSettings(expected.into()));
    assert_eq!(NodeSettings::from_shown("No nodes in the system\n"), NodeSettings::default());
}

#[test]
fn partitions_that_are_in_no_file_are_found() {
    let shown = PartitionSettings::from_shown("PartitionName=compute MaxTime=1\nPartitionName=byhand MaxTime=2\n");
    let missing = |more: &str| {
        let conf = "ClusterName=lab\nNodeSet=compute Feature=compute\npartitionname=compute Nodes=compute\n";
        shown.missing_in(&EffectiveConf::of(&SlurmConf::parse(&format!("{conf}{more}")).unwrap()))
    };
    let byhand = BTreeSet::from(["byhand".to_owned()]);
    assert_eq!(missing(""), byhand);
    assert_eq!(missing("#PartitionName=byhand\n"), byhand);
    assert!(missing("PartitionName=byhand Nodes=ALL\n").is_empty());
    assert!(missing("PartitionName \\\n = \"byhand\" Nodes=ALL\n").is_empty());
}

#[test]
fn a_note_of_an_earlier_charm_can_be_read() {
    let note = r#"{"nodes":{"compute-0":{"weight":17,"active":null}},
                   "partitions":{"compute":{"partitionname":"compute","maxtime":"00:45:00"}}}"#;
    let read: RuntimeSettings = serde_json::from_str(note).unwrap();
    assert_eq!(read.partitions.get(&PartitionName::new("compute").unwrap(), "MaxTime"), Some("00:45:00"));
    assert!(!read.nodes.are_usual());
    assert_eq!(serde_json::from_str::<RuntimeSettings>(&serde_json::to_string(&read).unwrap()).unwrap(), read);
}

#[test]
fn a_forgotten_weight_is_put_back_and_a_new_node_is_none() {
    let before = memory(&[("compute-0", 17), ("compute-1", 1), ("gone-0", 5)], "");
    let after = memory(&[("compute-0", 1), ("compute-1", 1), ("compute-2", 9)], "");
    assert_eq!(updates(&before, &after, CONF, CONF), [["nodename=compute-0", "weight=17"]]);
}

#[test]
fn features_that_were_switched_off_are_switched_off_again() {
    let with = |active: Option<&str>| {
        let node = NodeSetting { weight: 1, active: active.map(str::to_owned) };
        RuntimeSettings { nodes: NodeSettings([("compute-0".to_owned(), node)].into()), ..RuntimeSettings::default() }
    };
    let expected = [["nodename=compute-0", "activefeatures=compute"]];
    assert_eq!(updates(&with(Some("compute")), &with(None), CONF, CONF), expected);
    assert!(updates(&with(None), &with(Some("compute")), CONF, CONF).is_empty());
    assert!(updates(&with(Some("compute")), &with(Some("compute")), CONF, CONF).is_empty());
}

/// Says what is put back after an administrator changed words of [`PLAIN`].
fn put_back(changes: &[(&str, &str)]) -> Vec<String> {
    let mut shown = PLAIN.to_owned();
    for (from, to) in changes {
        assert!(shown.contains(from), "{from}");
        shown = shown.replace(from, to);
    }
    let updates = updates(&memory(&[], &shown), &memory(&[], PLAIN), CONF, CONF);
    updates.into_iter().flatten().filter(|word| !word.starts_with("partitionname=")).collect()
}

#[test]
fn whatever_can_be_set_is_put_back() {
    for (from, to) in [
        ("AllocNodes=ALL", "AllocNodes=compute-0"),
        ("AllowAccounts=ALL", "AllowAccounts=physics"),
        ("AllowAccounts=ALL", "DenyAccounts=foo"),
        ("AllowGroups=ALL", "AllowGroups=users"),
        ("AllowQos=ALL", "DenyQos=foo"),
        ("Default=NO", "Default=YES"),
        ("DefMemPerNode=UNLIMITED", "DefMemPerCPU=100"),
        ("DefMemPerNode=UNLIMITED", "DefMemPerNode=100"),
        ("ExclusiveTopo=NO", "ExclusiveTopo=YES"),
        ("JobDefaults=(null)", "JobDefaults=DefCpuPerGPU=2,DefMemPerGPU=100"),
        ("MaxCPUsPerSocket=UNLIMITED", "MaxCPUsPerSocket=2"),
        ("MaxMemPerNode=UNLIMITED", "MaxMemPerCPU=2000"),
        ("MaxTime=UNLIMITED", "MaxTime=00:45:00"),
        ("OverSubscribe=NO", "OverSubscribe=FORCE:4"),
        ("PreemptMode=OFF", "PreemptMode=REQUEUE"),
        ("PriorityTier=1", "PriorityTier=3"),
        ("QoS=N/A", "QoS=high"),
    ] {
        assert_eq!(put_back(&[(from, to)]), [to], "{from}");
    }
    let newer = |value: &str| memory(&[], &format!("PartitionName=compute Exclusive={value}"));
    let expected = [["partitionname=compute", "Exclusive=TOPO"]];
    assert_eq!(updates(&newer("TOPO"), &newer("NO"), CONF, CONF), expected);
    let chosen = CONF.replace("Nodes=compute", "Nodes=compute ExclusiveUser=YES");
    assert!(updates(&newer("NO"), &newer("USER"), CONF, &chosen).is_empty());
    for more in ["Alternate=debug", "CpuBind=cores", "TRESBillingWeights=CPU=2.0,Mem=0.25G"] {
        assert_eq!(put_back(&[("State=UP", &format!("State=UP {more}"))]), [more]);
    }
    // One that was given nodes by name consists of no node set any more.
    assert_eq!(put_back(&[("NodeSets=compute ", "")]), ["Nodes=compute-0"]);
    // Which nodes a set has changes by itself.
    assert_eq!(put_back(&[("Nodes=compute-0", "Nodes=compute-[0-1]")]), Vec::<String>::new());
    assert_eq!(put_back(&[("AllowQos=ALL", "DenyQos=")]), Vec::<String>::new());
    assert_eq!(put_back(&[("MaxTime=UNLIMITED", "MaxTime=1"), ("LLN=NO", "LLN=YES")]), ["LLN=YES", "MaxTime=1"]);
}

#[test]
fn what_was_taken_away_by_hand_is_taken_away_again() {
    let of_file =
        PLAIN.replace("AllowAccounts=ALL", "DenyAccounts=foo").replace("DefMemPerNode=UNLIMITED", "DefMemPerCPU=9");
    let of_file = of_file.replace("QoS=N/A", "QoS=high").replace("State=UP", "State=UP CpuBind=cores Alternate=x");
    let updates = updates(&memory(&[], PLAIN), &memory(&[], &of_file), CONF, CONF);
    let expected = ["partitionname=compute", "DenyAccounts=", "Alternate=", "CpuBind=off", "DefMemPerCPU=0"];
    assert_eq!(updates, [expected]);
}

#[test]
fn what_the_operator_chose_is_left_as_it_became() {
    let shown = |limit: &str, tier: &str, state: &str| {
        format!("PartitionName=compute Default=NO MaxTime={limit} PriorityTier={tier} State={state} TotalNodes=2\n")
    };
    let before = memory(&[], &shown("00:45:00", "3", "DRAIN"));
    let after = memory(&[], &shown("UNLIMITED", "1", "UP"));
    let expected = [["partitionname=compute", "MaxTime=00:45:00", "PriorityTier=3"]];
    let new = CONF.replace("MaxTime=15", "MaxTime=30");
    assert_eq!(updates(&before, &after, CONF, &new), expected);
    // A choice of the operator's in slurm.conf is what counts, also if it is taken back.
    let new = CONF.replace("Nodes=compute", "Nodes=compute MaxTime=60");
    assert_eq!(updates(&before, &after, CONF, &new), [["partitionname=compute", "PriorityTier=3"]]);
    assert_eq!(updates(&before, &after, &new, CONF), [["partitionname=compute", "PriorityTier=3"]]);
    let new = format!("PartitionName=DEFAULT PriorityTier=2\n{CONF}");
    assert_eq!(updates(&before, &after, CONF, &new), [["partitionname=compute", "MaxTime=00:45:00"]]);
}

#[test]
fn a_choice_for_the_whole_cluster_counts_for_its_partitions() {
    let becomes = |from: &str, to: &str, line: &str| {
        let after = memory(&[], &PLAIN.replace(from, to));
        updates(&memory(&[], PLAIN), &after, CONF, &format!("{line}\n{CONF}"))
    };
    assert!(becomes("PreemptMode=OFF", "PreemptMode=REQUEUE", "PreemptMode=REQUEUE").is_empty());
    assert!(becomes("PreemptMode=OFF", "PreemptMode=REQUEUE", "PreemptType=preempt/qos").is_empty());
    assert!(becomes("DefMemPerNode=UNLIMITED", "DefMemPerCPU=7", "defmempercpu=7").is_empty());
    assert_eq!(becomes("MaxTime=UNLIMITED", "MaxTime=1", "KillWait=9").len(), 1);
}

#[test]
fn the_default_goes_back_unless_it_was_chosen() {
    let shown = |default: &str| {
        let of = |name: &str| format!("PartitionName={name} Default={}\n", if name == default { "YES" } else { "NO" });
        memory(&[], &format!("{}{}", of("compute"), of("debug")))
    };
    let expected = |name: &str, value: &str| vec![vec![format!("partitionname={name}"), format!("Default={value}")]];
    assert_eq!(updates(&shown("compute"), &shown("debug"), CONF, CONF), expected("compute", "YES"));
    assert_eq!(updates(&shown(""), &shown("debug"), CONF, CONF), expected("debug", "NO"));
    let new = CONF.replace("Nodes=debug", "Nodes=debug Default=YES");
    assert!(updates(&shown("compute"), &shown("debug"), CONF, &new).is_empty());
    assert!(updates(&shown("compute"), &shown("compute"), CONF, CONF).is_empty());
}

#[test]
fn a_state_that_the_operator_chose_takes_effect_and_no_other() {
    let shown = |state: &str| memory(&[], &format!("PartitionName=compute MaxTime=1 State={state}\n"));
    let with = |state: &str| CONF.replace("Nodes=compute", &format!("Nodes=compute State={state}"));
    let expected = |state: &str| vec![vec!["partitionname=compute".to_owned(), format!("State={state}")]];
    assert_eq!(updates(&shown("UP"), &shown("UP"), CONF, &with("DRAIN")), expected("DRAIN"));
    assert_eq!(updates(&shown("DRAIN"), &shown("DRAIN"), &with("DRAIN"), CONF), expected("UP"));
    assert!(updates(&shown("DOWN"), &shown("DOWN"), CONF, &with("down")).is_empty());
    // What an administrator set stays as long as the operator chooses nothing else.
    assert!(updates(&shown("DRAIN"), &shown("DRAIN"), CONF, CONF).is_empty());
    assert!(updates(&shown("UP"), &shown("UP"), &with("DRAIN"), &with("DRAIN")).is_empty());
}

#[test]
fn nothing_is_done_about_partitions_that_are_new_or_gone() {
    let one = memory(&[], "PartitionName=compute MaxTime=1\n");
    let other = memory(&[], "PartitionName=debug MaxTime=2\n");
    assert_eq!(updates(&one, &other, CONF, CONF), Vec::<Vec<String>>::new());
}

/// Two partitions that are up, and `byhand`, as slurmctld shows them after it read slurm.conf with one more partition.
fn two_and_a_new_one() -> (RuntimeSettings, RuntimeSettings) {
    let two = "PartitionName=compute MaxTime=1 State=UP\nPartitionName=debug MaxTime=2 State=UP\n";
    (memory(&[], two), memory(&[], &format!("{two}PartitionName=byhand MaxTime=3 State=DOWN\n")))
}

#[test]
fn a_state_in_a_continued_line_is_for_its_partition_alone() {
    let (before, after) = two_and_a_new_one();
    let new = format!("{CONF}PartitionName=byhand Nodes=compute \\\n  State=DOWN\n");
    assert_eq!(updates(&before, &after, CONF, &new), Vec::<Vec<String>>::new());
}

#[test]
fn a_state_in_a_continued_line_reaches_its_partition() {
    let shown = memory(&[], "PartitionName=compute State=UP\nPartitionName=debug State=UP\n");
    let new = CONF.replace("Nodes=compute", "Nodes=compute \\\n State=DOWN");
    assert_eq!(updates(&shown, &shown, CONF, &new), [["partitionname=compute", "State=DOWN"]]);
}

#[test]
fn a_quoted_value_is_the_value() {
    let shown = memory(&[], "PartitionName=compute AllowGroups=ALL State=DOWN\n");
    let new = CONF.replace("Nodes=compute", "Nodes=\"compute\" State=\"DOWN\"");
    assert_eq!(updates(&shown, &shown, CONF, &new), Vec::<Vec<String>>::new());
    let was = memory(&[], "PartitionName=compute AllowGroups=users\n");
    let quoted = CONF.replace("Nodes=compute", "Nodes=compute AllowGroups=\"a b\" MaxTime=5");
    let longer = quoted.replace("MaxTime=5", "MaxTime=6");
    let is = memory(&[], "PartitionName=compute AllowGroups=a\n");
    assert_eq!(updates(&was, &is, &quoted, &longer), [["partitionname=compute", "AllowGroups=users"]]);
}

#[test]
fn a_partition_of_an_included_file_is_known() {
    let more = "PartitionName=byhand Nodes=compute \\\n State=DOWN\n";
    let (before, after) = two_and_a_new_one();
    let new = format!("{CONF}Include more.conf\n");
    assert_eq!(updates_with(&before, &after, [CONF, &new], more), Vec::<Vec<String>>::new());
    // It is there already, was opened with scontrol, and another option changes: it stays open.
    let open = memory(&[], "PartitionName=byhand State=UP\n");
    let other = format!("{new}KillWait=3\n");
    assert_eq!(updates_with(&open, &open, [&new, &other], more), Vec::<Vec<String>>::new());
    // It was made with scontrol, and the file that has it is included now: the state of the file counts.
    assert_eq!(updates_with(&open, &open, [CONF, &new], more), [["partitionname=byhand", "State=DOWN"]]);
    let conf = SlurmConf::parse(&new).unwrap();
    let text_of = |_: &str| Some(more.to_owned());
    assert!(after.partitions.missing_in(&EffectiveConf::read(&conf, text_of)).is_empty());
}

#[test]
fn a_default_line_chooses_for_the_partitions_below_it() {
    let shown = memory(&[], "PartitionName=compute State=UP\nPartitionName=debug State=UP\n");
    let new = CONF.replace("PartitionName=debug", "partitionname=default State=DRAIN\nPartitionName=debug");
    assert_eq!(updates(&shown, &shown, CONF, &new), [["partitionname=debug", "State=DRAIN"]]);
}

#[test]
fn a_plain_key_is_no_state_of_a_partition() {
    let shown = memory(&[], "PartitionName=compute State=UP\n");
    assert_eq!(updates(&shown, &shown, CONF, &format!("State=DOWN\n{CONF}")), Vec::<Vec<String>>::new());
}

#[test]
fn the_nodes_of_a_partition_are_known_or_not_but_never_none_by_mistake() {
    let shown = "PartitionName=a NodeSets=a Nodes=a-[0-1],b State=UP\nPartitionName=b Nodes=(null)\n\
        PartitionName=c Nodes=\nPartitionName=d Nodes=a-[0\n";
    let settings = PartitionSettings::from_shown(shown);
    let nodes = |name: &str| {
        let list = settings.nodes(&PartitionName::new(name).unwrap());
        list.map(|list| list.expand().collect::<Vec<_>>())
    };
    assert_eq!(nodes("a").unwrap(), ["a-0", "a-1", "b"]);
    assert_eq!((nodes("b"), nodes("c")), (Some(Vec::new()), Some(Vec::new())));
    assert_eq!((nodes("d"), nodes("e")), (None, None));
}
