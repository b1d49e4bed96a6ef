//! Host lists: bounded whatever they say, written as they were read, and every name is a member.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slurm_conf::{HostList, MOST_HOSTS};

fuzz_target!(|text: &str| {
    let Ok(list) = text.parse::<HostList>() else { return };
    assert!(list.count() <= MOST_HOSTS);
    assert_eq!(list.to_string().parse::<HostList>().as_ref(), Ok(&list));
    if list.count() <= 1_000 {
        assert!(list.expand().all(|name| list.contains(&name)));
    }
});
