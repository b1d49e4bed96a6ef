//! Reads configurations as JSON, one object of file names and texts per line, and prints for each what is published to
//! slurmrestd; or, with the word `read`, takes what is published and prints the texts that slurmrestd gets.
//! `tests/slurmutils` holds both against slurmutils.

use serde_json::{Value, json};
use slurm_conf::SlurmConf;
use slurm_interface::{Databag, RestData};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;

#[expect(clippy::disallowed_methods, reason = "only the library is pure")]
fn main() -> Result<(), Box<dyn Error>> {
    let read = std::env::args().nth(1).as_deref() == Some("read");
    for line in io::stdin().lines() {
        let answer = if read {
            let bag = Databag::from([("slurmconfig".to_owned(), line?)]);
            let data = RestData::decode(&bag)?.ok_or("nothing is published")?;
            json!(data.files.iter().map(|(name, conf)| (name, conf.render())).collect::<BTreeMap<_, _>>())
        } else {
            let texts: BTreeMap<String, String> = serde_json::from_str(&line?)?;
            let files = texts.iter().map(|(name, text)| Ok((name.clone(), SlurmConf::parse(text)?)));
            let files = files.collect::<Result<BTreeMap<_, _>, Box<dyn Error>>>()?;
            let data = RestData::new(None, files, None).ok_or("there is no slurm.conf")?;
            serde_json::from_str::<Value>(&data.encode()["slurmconfig"])?
        };
        println!("{answer}");
    }
    Ok(())
}
