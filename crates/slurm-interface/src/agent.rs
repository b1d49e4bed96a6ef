//! What an agent that collects metrics is told: the `cos_agent` interface.

use crate::databag::{Databag, dumps};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

const CONFIG: &str = "config";

/// Unit bag of a unit with metrics on the `cos_agent` interface.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentData {
    /// Groups of rules in the form of Prometheus.
    pub alert_rules: Value,
    /// Texts of dashboards in the form of Grafana.
    pub dashboards: Vec<String>,
    /// Where metrics are, in the form of Prometheus.
    pub scrape_jobs: Vec<Value>,
}

impl AgentData {
    /// Returns the bag. Every member is written: the other end knows no defaults for most of them.
    pub fn encode(&self) -> Databag {
        let packed = |text: &String| BASE64_STANDARD.encode(stored(text.as_bytes()));
        let config = json!({
            "metrics_alert_rules": self.alert_rules,
            "log_alert_rules": {},
            "dashboards": self.dashboards.iter().map(packed).collect::<Vec<_>>(),
            "subordinate": null,
            "metrics_scrape_jobs": self.scrape_jobs,
            "log_slots": [],
            "tracing_protocols": null,
        });
        Databag::from([(CONFIG.to_owned(), dumps(&config))])
    }

    /// Says whether a bag has this already, whatever else is in it.
    pub fn is_in(&self, bag: &Databag) -> bool {
        self.encode().iter().all(|(key, value)| bag.get(key) == Some(value))
    }
}

/// Returns bytes as a file of xz. Readers unpack what they get and take nothing else, so it is in that form, but not
/// compressed: a compressor would be larger than what it saves.
fn stored(data: &[u8]) -> Vec<u8> {
    const FLAGS: [u8; 2] = [0, 1];
    // One filter, LZMA2, with a dictionary of 256 KiB.
    const BLOCK_HEADER: [u8; 8] = [2, 0, 0x21, 1, 12, 0, 0, 0];
    const LARGEST: usize = 1 << 16;
    let mut file = vec![0xfd, b'7', b'z', b'X', b'Z', 0];
    file.extend(FLAGS);
    file.extend(checksum(&FLAGS));
    let block = file.len();
    file.extend(BLOCK_HEADER);
    file.extend(checksum(&BLOCK_HEADER));
    for (index, chunk) in data.chunks(LARGEST).enumerate() {
        let size = u16::try_from(chunk.len() - 1).expect("invariant: a chunk has at most 65536 bytes");
        file.push(if index == 0 { 1 } else { 2 });
        file.extend(size.to_be_bytes());
        file.extend(chunk);
    }
    file.push(0);
    let unpadded = file.len() - block + 4;
    pad(&mut file, block);
    file.extend(checksum(data));
    let index = file.len();
    file.extend([0, 1]);
    number(&mut file, unpadded);
    number(&mut file, data.len());
    pad(&mut file, index);
    let sum = checksum(&file[index..]);
    file.extend(sum);
    let size = u32::try_from((file.len() - index) / 4 - 1).expect("invariant: an index of one block is small");
    let tail = [&size.to_le_bytes()[..], &FLAGS].concat();
    file.extend(checksum(&tail));
    file.extend(tail);
    file.extend(*b"YZ");
    file
}

/// Fills up to a multiple of four bytes, counted from a place.
fn pad(file: &mut Vec<u8>, from: usize) {
    while !(file.len() - from).is_multiple_of(4) {
        file.push(0);
    }
}

/// Writes a number in groups of seven bits, the lowest first.
fn number(file: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        file.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    file.push(value as u8);
}

/// The CRC-32 of IEEE 802.3, the lowest byte first.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let step = |sum: u32| if sum & 1 == 1 { (sum >> 1) ^ POLYNOMIAL } else { sum >> 1 };
    let sum = bytes.iter().fold(!0, |sum: u32, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum)));
    (!sum).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_that_of_everybody() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926_u32.to_le_bytes());
    }

    #[test]
    fn a_stored_file_is_what_xz_takes() {
        // `xz --decompress` and Python's lzma make `slurm` of these bytes.
        let known = "/Td6WFoAAAFpIt42AgAhAQwAAACPmEGcAQAEc2x1cm0AAAAAk4mQdQABGQW86OzLkEKZDQEAAAAAAVla";
        assert_eq!(BASE64_STANDARD.encode(stored(b"slurm")), known);
    }

    #[test]
    fn a_bag_with_other_keys_has_it_as_well() {
        let data = AgentData { alert_rules: json!({}), dashboards: vec!["{}".to_owned()], scrape_jobs: Vec::new() };
        let mut bag = data.encode();
        assert!(!data.is_in(&Databag::new()));
        bag.insert("ingress-address".to_owned(), "10.0.0.1".to_owned());
        assert!(data.is_in(&bag));
        assert!(!AgentData { scrape_jobs: vec![json!({})], ..data }.is_in(&bag));
    }
}
