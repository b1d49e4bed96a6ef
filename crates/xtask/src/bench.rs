//! `cargo xtask bench`: will compare our charms with what a site would use otherwise. There is no measurement yet, and it says so.

use anyhow::Result;

pub(crate) fn run() -> Result<()> {
    println!("Nothing is measured yet: there is no benchmark in this tree so far.");
    Ok(())
}
