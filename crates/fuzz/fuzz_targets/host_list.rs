//! Host lists: bounded whatever they say, written as they were read, and no name is lost when they are compressed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slurm_conf::{HostList, MOST_HOSTS};
use std::collections::BTreeSet;

fuzz_target!(|text: &str| {
    let Ok(list) = text.parse::<HostList>() else { return };
    assert!(list.count() <= MOST_HOSTS);
    assert_eq!(list.to_string().parse::<HostList>().as_ref(), Ok(&list));
    if list.count() <= 1_000 {
        let names: BTreeSet<String> = list.expand().collect();
        assert!(names.iter().all(|name| list.contains(name)));
        let compressed = HostList::compress(&names).expect("expanded names are names");
        assert_eq!(compressed.expand().collect::<BTreeSet<_>>(), names);
    }
});
