//! Databags of every relation: one `key=value` per line of the input. Nothing panics, and what was accepted is written
//! and read alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slurm_interface::{ComputeData, ControllerData, Databag, MountRequest, MountState, PeerApp, PeerUnit};

macro_rules! check {
    ($type:ty, $bag:expr) => {
        if let Ok(Some(data)) = <$type>::decode($bag) {
            assert_eq!(<$type>::decode(&data.encode()), Ok(Some(data)));
        }
    };
}

fuzz_target!(|text: &str| {
    let pairs = text.split('\n').filter_map(|line| line.split_once('='));
    let bag: Databag = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    check!(ControllerData, &bag);
    check!(ComputeData, &bag);
    check!(PeerApp, &bag);
    check!(PeerUnit, &bag);
    check!(MountRequest, &bag);
    check!(MountState, &bag);
});
