//! Loads a slurm.conf, adds one partition and writes it back, several times, and prints how many nanoseconds each time
//! took. `cargo xtask bench conf` puts it beside the library of the Python charms.
//!
//!     add_partition <file> <times>

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "only the library is pure")]

use slurm_conf::{Partition, SlurmConf};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("no file")?;
    let times: usize = arguments.next().ok_or("no number")?.parse()?;
    let original = std::fs::read_to_string(&file)?;
    for _ in 0..times {
        std::fs::write(&file, &original)?;
        let begun = Instant::now();
        let mut conf = SlurmConf::parse(&std::fs::read_to_string(&file)?)?;
        let partition = Partition::from_config("added", "MaxTime=60 State=UP")?;
        conf.set_partition(&partition, &partition.nodeset());
        std::fs::write(&file, conf.render())?;
        println!("{}", begun.elapsed().as_nanos());
    }
    let written = SlurmConf::parse(&std::fs::read_to_string(&file)?)?;
    written.partition("added").map(drop).ok_or_else(|| "the partition was not written".into())
}
