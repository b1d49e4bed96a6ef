//! What a reconfigure took away: two looks at slurmctld, and the two versions of slurm.conf between them, compared. Pure.

use super::{Entries, Settings, read_conf};
use std::collections::{BTreeMap, BTreeSet};

/// One thing that can be set about a partition.
struct Aspect {
    /// How `scontrol show` calls it: it prints one of these, or none. `scontrol update` takes it back in the same words.
    shown: &'static [&'static str],
    /// Keys of slurm.conf that decide about it, beside those.
    also: &'static [&'static str],
}

const fn aspect(shown: &'static [&'static str]) -> Aspect {
    Aspect { shown, also: &[] }
}

const ASPECTS: [Aspect; 32] = [
    aspect(&["AllocNodes"]),
    aspect(&["AllowAccounts", "DenyAccounts"]),
    aspect(&["AllowGroups"]),
    aspect(&["AllowQos", "DenyQos"]),
    aspect(&["Alternate"]),
    aspect(&["CpuBind"]),
    aspect(&["DefMemPerCPU", "DefMemPerNode"]),
    aspect(&["DefaultTime"]),
    aspect(&["DisableRootJobs"]),
    // 26.05 has one word for the two after it.
    Aspect { shown: &["Exclusive"], also: &["ExclusiveTopo", "ExclusiveUser"] },
    aspect(&["ExclusiveTopo"]),
    aspect(&["ExclusiveUser"]),
    aspect(&["GraceTime"]),
    aspect(&["Hidden"]),
    aspect(&["JobDefaults"]),
    aspect(&["LLN"]),
    aspect(&["MaxCPUsPerNode"]),
    aspect(&["MaxCPUsPerSocket"]),
    aspect(&["MaxMemPerCPU", "MaxMemPerNode"]),
    aspect(&["MaxNodes"]),
    aspect(&["MaxTime"]),
    aspect(&["MinNodes"]),
    // Where it consists of node sets, their names; which nodes those are changes by itself.
    aspect(&["NodeSets", "Nodes"]),
    Aspect { shown: &["OverSubscribe"], also: &["Shared"] },
    aspect(&["OverTimeLimit"]),
    // A partition that says nothing has that of the cluster.
    Aspect { shown: &["PreemptMode"], also: &["PreemptType"] },
    Aspect { shown: &["PriorityJobFactor"], also: &["Priority"] },
    Aspect { shown: &["PriorityTier"], also: &["Priority"] },
    aspect(&["QoS"]),
    aspect(&["ReqResv"]),
    aspect(&["RootOnly"]),
    aspect(&["TRESBillingWeights"]),
];

/// Kept by Slurm itself (`KeepPartState`), which therefore takes it from slurm.conf only for a new partition. A choice that was made there
/// is brought to it.
const STATE: &str = "State";
/// Of one partition at most.
const DEFAULT: &str = "Default";

/// The line of slurm.conf that speaks of all partitions, and what stands outside of such lines.
pub(super) const ALL: &str = "default";
pub(super) const CLUSTER: &str = "";

/// Returns the arguments of each `scontrol update` that is needed.
pub(super) fn updates(before: &Settings, after: &Settings, old: &str, new: &str) -> Vec<Vec<String>> {
    let (old, new) = (read_conf(old), read_conf(new));
    let written = |entries: &Entries, line: &str, key: &str| -> Option<String> {
        entries.get(line).and_then(|options| options.get(&key.to_ascii_lowercase()).cloned())
    };
    let chosen = |line: &str, key: &str| written(&old, line, key) != written(&new, line, key);
    let mut updates = nodes(before, after);
    for (name, then) in &before.partitions.0 {
        let Some(now) = after.partitions.0.get(name) else { continue };
        let lines = [name.as_str(), ALL, CLUSTER];
        let free = |aspect: &&Aspect| {
            let mut keys = aspect.shown.iter().chain(aspect.also);
            !keys.any(|key| lines.iter().any(|line| chosen(line, key)))
        };
        let lost = ASPECTS.iter().filter(free).filter_map(|aspect| setting(aspect.value(then), aspect.value(now)));
        let mut settings: Vec<String> = lost.collect();
        if lines.iter().any(|line| chosen(line, STATE)) {
            let state = lines.iter().find_map(|line| written(&new, line, STATE)).unwrap_or_else(|| "UP".to_owned());
            let is = now.get(&STATE.to_ascii_lowercase());
            settings.extend(is.filter(|is| !is.eq_ignore_ascii_case(&state)).map(|_| format!("{STATE}={state}")));
        }
        if !settings.is_empty() {
            updates.push([vec![format!("partitionname={name}")], settings].concat());
        }
    }
    let lines: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    if !lines.iter().any(|line| chosen(line, DEFAULT)) {
        updates.extend(default(&before.partitions.0, &after.partitions.0));
    }
    updates
}

fn nodes(before: &Settings, after: &Settings) -> Vec<Vec<String>> {
    let lost = before.nodes.0.iter().filter_map(|(name, then)| {
        let now = after.nodes.0.get(name)?;
        let weight = (then.weight != now.weight).then(|| format!("weight={}", then.weight));
        let features = then.active.as_ref().filter(|active| now.active.as_ref() != Some(active));
        let settings: Vec<String> =
            weight.into_iter().chain(features.map(|active| format!("activefeatures={active}"))).collect();
        (!settings.is_empty()).then(|| [vec![format!("nodename={name}")], settings].concat())
    });
    lost.collect()
}

/// A partition that becomes the default ends another one's being it.
fn default(before: &Entries, after: &Entries) -> Option<Vec<String>> {
    let of = |entries: &Entries| -> Option<String> {
        let is = |settings: &BTreeMap<String, String>| settings.get("default").is_some_and(|value| value == "YES");
        entries.iter().find(|(_, settings)| is(settings)).map(|(name, _)| name.clone())
    };
    match (of(before), of(after)) {
        (was, is) if was == is => None,
        (Some(was), _) => {
            after.contains_key(&was).then(|| vec![format!("partitionname={was}"), format!("{DEFAULT}=YES")])
        }
        (None, Some(is)) => Some(vec![format!("partitionname={is}"), format!("{DEFAULT}=NO")]),
        (None, None) => None,
    }
}

type Value<'s> = Option<(&'static str, &'s str)>;

impl Aspect {
    /// Returns what is set. None: nothing, in whatever words.
    fn value<'s>(&self, settings: &'s BTreeMap<String, String>) -> Value<'s> {
        let shown = |key: &'static str| Some((key, settings.get(&key.to_ascii_lowercase())?.as_str()));
        self.shown.iter().find_map(|key| shown(key)).filter(|(key, value)| match *value {
            "" | "(null)" | "N/A" => false,
            "ALL" => !key.starts_with("Allow"),
            "UNLIMITED" => !key.contains("MemPer"),
            _ => true,
        })
    }
}

/// Returns what makes of `is` again what it was.
fn setting(was: Value<'_>, is: Value<'_>) -> Option<String> {
    let (key, value) = match (was, is) {
        _ if was == is => return None,
        (Some(was), _) => was,
        (None, Some((key, _))) => (key, nothing(key)?),
        (None, None) => return None,
    };
    Some(format!("{}={value}", if key == "NodeSets" { "Nodes" } else { key }))
}

/// The word for nothing. None: better left alone. Nodes may have come just now, and without accounting slurmctld dies of a QoS.
fn nothing(key: &str) -> Option<&'static str> {
    match key {
        "NodeSets" | "Nodes" | "QoS" => None,
        "CpuBind" => Some("off"),
        key if key.starts_with("Allow") => Some("ALL"),
        key if key.contains("MemPer") => Some("0"),
        _ => Some(""),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NodeSetting, NodeSettings, PartitionSettings, partitions};
    use super::*;

    fn memory(nodes: &[(&str, u64)], shown: &str) -> Settings {
        let nodes =
            nodes.iter().map(|(name, weight)| ((*name).to_owned(), NodeSetting { weight: *weight, active: None }));
        Settings { nodes: NodeSettings(nodes.collect()), partitions: PartitionSettings(partitions(shown)) }
    }

    const CONF: &str =
        "ClusterName=lab\nPartitionName=compute Nodes=compute\nPartitionName=debug Nodes=debug MaxTime=15\n";
    /// As 24.11 shows a partition about which nobody said anything.
    const PLAIN: &str = "PartitionName=compute AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=NO QoS=N/A \
        DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED \
        MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED NodeSets=compute \
        Nodes=compute-0 PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE \
        PreemptMode=OFF State=UP TotalCPUs=2 TotalNodes=1 SelectTypeParameters=NONE JobDefaults=(null) \
        DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED TRES=cpu=2,mem=24105M,node=1,billing=2";

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
            Settings { nodes: NodeSettings([("compute-0".to_owned(), node)].into()), ..Settings::default() }
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
            let of =
                |name: &str| format!("PartitionName={name} Default={}\n", if name == default { "YES" } else { "NO" });
            memory(&[], &format!("{}{}", of("compute"), of("debug")))
        };
        let expected =
            |name: &str, value: &str| vec![vec![format!("partitionname={name}"), format!("Default={value}")]];
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
}
