//! Graphics cards of the machine, read from `/proc` without asking Slurm.

use crate::files::{self, FileError};
use crate::machine::Host;
use std::collections::BTreeMap;
use std::fmt;

/// Cards of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpus {
    /// The model as Slurm's own detection names it: lower case, blanks as `_`, such as `tesla_t4`.
    pub model: String,
    /// How many.
    pub count: usize,
}

/// Shows them as `Gres=` wants it: `gpu:tesla_t4:2`.
impl fmt::Display for Gpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "gpu:{}:{}", self.model, self.count)
    }
}

/// Lists the cards that a loaded NVIDIA driver shows, by model. Without a driver there are none, whatever is in the
/// slots.
pub fn nvidia_gpus(host: &Host) -> Result<Vec<Gpus>, FileError> {
    const CARDS: &str = "/proc/driver/nvidia/gpus";
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for card in files::list(host, CARDS)?.unwrap_or_default() {
        let Some(information) = files::read(host, format!("{CARDS}/{card}/information"))? else { continue };
        if let Some(model) = model(&String::from_utf8_lossy(&information)) {
            *counts.entry(model).or_default() += 1;
        }
    }
    Ok(counts.into_iter().map(|(model, count)| Gpus { model, count }).collect())
}

/// Takes the model out of what the driver says about a card. Whatever could mean something in slurm.conf becomes `_`.
fn model(information: &str) -> Option<String> {
    let (_, name) =
        information.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == "Model")?;
    let name = name.split_whitespace().collect::<Vec<_>>().join("_").to_lowercase();
    let plain =
        |character: char| if character.is_ascii_alphanumeric() || "-._".contains(character) { character } else { '_' };
    let name: String = name.chars().map(plain).collect();
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use std::fs;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let directory = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = directory.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let machine = Machine::at(directory.path());
        (directory, machine)
    }

    /// As the driver prints it, shortened.
    const T4: &str = "Model: \t\t Tesla T4\nIRQ:   \t\t 34\nGPU UUID: \t GPU-9c1b\nBus Location: \t 0000:00:1e.0\nDevice Minor: \t 0\n";

    #[test]
    fn cards_are_counted_by_model() {
        let (_directory, machine) = machine(&[
            ("/proc/driver/nvidia/gpus/0000:00:1e.0/information", T4),
            ("/proc/driver/nvidia/gpus/0000:00:1f.0/information", T4),
            ("/proc/driver/nvidia/gpus/0000:00:20.0/information", "Model: \t NVIDIA A100-SXM4-80GB\n"),
            ("/proc/driver/nvidia/gpus/0000:00:21.0/information", "IRQ: 1\n"),
        ]);
        let gpus: Vec<String> = nvidia_gpus(&machine.host()).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(gpus, ["gpu:nvidia_a100-sxm4-80gb:1", "gpu:tesla_t4:2"]);
    }

    #[test]
    fn a_machine_without_driver_has_no_cards() {
        let (_directory, machine) = machine(&[]);
        assert_eq!(nvidia_gpus(&machine.host()).unwrap(), []);
    }

    #[test]
    fn a_model_cannot_say_more_than_its_name() {
        assert_eq!(model("Model: X Y,z:9 State=DOWN\"\n").as_deref(), Some("x_y_z_9_state_down_"));
        assert_eq!(model("Model:  \n"), None);
    }
}
