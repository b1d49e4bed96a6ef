//! Reads properties of a unit over the socket that `systemctl` itself uses: to start it costs ten times as much as the
//! answer. Speaks as much D-Bus as that takes. What is not as expected is an error, and the caller asks `systemctl`.

use crate::machine::Host;
use std::io::{self, BufRead, BufReader, Error, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Where systemd listens for the machine's superuser.
const SOCKET: &str = "/run/systemd/private";
const DEADLINE: Duration = Duration::from_secs(5);
/// This process is the superuser, who is written so. systemd compares it with what the kernel says.
const HELLO: &[u8] = b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n";
/// Where every message has its header's end, and its content.
const HEADER: usize = 16;
const ANSWER: u8 = 2;
const SIGNAL: u8 = 4;

/// Returns the value of each property, given with its interface, in the words of `systemctl show --timestamp=unix`.
pub(super) fn properties(host: &Host, unit: &str, properties: &[(&str, &str)]) -> io::Result<Vec<String>> {
    let mut stream = UnixStream::connect(host.path(SOCKET))?;
    stream.set_read_timeout(Some(DEADLINE))?;
    let mut said = HELLO.to_vec();
    for (interface, property) in properties {
        said.extend(question(&path(unit), &format!("org.freedesktop.systemd1.{interface}"), property));
    }
    stream.write_all(&said)?;
    let mut stream = BufReader::new(stream);
    let mut welcome = String::new();
    stream.read_line(&mut welcome)?;
    properties.iter().map(|_| value(&answer(&mut stream)?).ok_or_else(|| Error::other("no plain value"))).collect()
}

/// Names a unit as D-Bus does: every other byte than a letter or a digit as its number.
fn path(unit: &str) -> String {
    let plain = |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).into() } else { format!("_{byte:02x}") };
    format!("/org/freedesktop/systemd1/unit/{}", unit.bytes().map(plain).collect::<String>())
}

/// Makes the message that asks for one property.
fn question(path: &str, interface: &str, property: &str) -> Vec<u8> {
    let mut fields = Vec::new();
    for (code, kind, value) in [(1, b'o', path), (2, b's', "org.freedesktop.DBus.Properties"), (3, b's', "Get")] {
        align(&mut fields, 8);
        fields.extend([code, 1, kind, 0]);
        add(&mut fields, value);
    }
    align(&mut fields, 8);
    // The content is two strings.
    fields.extend([8, 1, b'g', 0, 2, b's', b's', 0]);
    let mut content = Vec::new();
    add(&mut content, interface);
    add(&mut content, property);
    // In this byte order, a question, without flags, in version 1; answers come in order, so the number does not matter.
    let mut message = vec![b'l', 1, 0, 1];
    for number in [content.len(), 1, fields.len()] {
        message.extend(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    }
    message.extend(fields);
    align(&mut message, 8);
    message.extend(content);
    message
}

fn align(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

fn add(bytes: &mut Vec<u8>, text: &str) {
    align(bytes, 4);
    bytes.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.push(0);
}

/// Reads the content of the next answer. systemd may tell of other things in between.
fn answer(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    loop {
        let mut header = [0; HEADER];
        stream.read_exact(&mut header)?;
        let sizes = number(&header, 4).zip(number(&header, 12));
        let (content, fields) = sizes.ok_or_else(|| Error::other("no message"))?;
        let mut rest = vec![0; fields.next_multiple_of(8) + content];
        stream.read_exact(&mut rest)?;
        match header[..2] {
            [b'l', ANSWER] => return Ok(rest.split_off(rest.len() - content)),
            [b'l', SIGNAL] => {}
            _ => return Err(Error::other("no answer")),
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

/// Takes the value out of `v`: its type with the length before and a zero after it, then the value itself, aligned.
fn value(content: &[u8]) -> Option<String> {
    let bytes = || content.get(8..8 + number(content, 4)?);
    match content.get(..4)? {
        [1, b's', 0, _] => String::from_utf8(bytes()?.to_vec()).ok(),
        [2, b'a', b'y', 0] => Some(bytes()?.iter().map(|byte| format!("{byte:02x}")).collect()),
        [1, b'u', 0, _] => Some(number(content, 4)?.to_string()),
        [1, b'b', 0, _] => Some(if number(content, 4)? == 0 { "no" } else { "yes" }.to_owned()),
        // Microseconds since 1970; none is 0.
        [1, b't', 0, _] => {
            let time = u64::from_le_bytes(content.get(8..16)?.try_into().ok()?);
            Some(if time == 0 { String::new() } else { format!("@{}", time / 1_000_000) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use std::os::unix::net::UnixListener;

    /// A message of systemd with a value of a type.
    fn message(kind: u8, signature: &str, value: &[u8]) -> Vec<u8> {
        let mut content = vec![u8::try_from(signature.len()).unwrap()];
        content.extend(signature.as_bytes());
        content.push(0);
        align(&mut content, if signature == "t" { 8 } else { 4 });
        content.extend(value);
        // One field of the header: the number of the question.
        let fields = [5, 1, b'u', 0, 1, 0, 0, 0];
        let mut message = vec![b'l', kind, 1, 1];
        message.extend(u32::try_from(content.len()).unwrap().to_le_bytes());
        message.extend([7, 0, 0, 0, 8, 0, 0, 0]);
        message.extend(fields);
        message.extend(content);
        message
    }

    /// Asks a systemd that says `said` whatever it is asked.
    fn asked(said: Vec<Vec<u8>>, properties: &[(&str, &str)]) -> (io::Result<Vec<String>>, Vec<u8>) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("run/systemd")).unwrap();
        let listener = UnixListener::bind(root.path().join("run/systemd/private")).unwrap();
        let systemd = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"OK 1234\r\n").unwrap();
            stream.write_all(&said.concat()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).unwrap();
            heard
        });
        let answer = super::properties(&Machine::at(root.path()).host(), "slurmd.service", properties);
        (answer, systemd.join().unwrap())
    }

    #[test]
    fn values_of_every_plain_type_are_read_and_news_are_left_alone() {
        let said = vec![
            message(ANSWER, "s", b"\x06\0\0\0active\0"),
            message(SIGNAL, "s", b"\x04\0\0\0news\0"),
            message(ANSWER, "u", &412_u32.to_le_bytes()),
            message(ANSWER, "b", &1_u32.to_le_bytes()),
            message(ANSWER, "t", &1_794_838_120_000_001_u64.to_le_bytes()),
            message(ANSWER, "t", &[0; 8]),
            message(ANSWER, "ay", b"\x02\0\0\0\xab\x01"),
        ];
        let (answer, heard) = asked(said, &[("Unit", "ActiveState"); 6]);
        assert_eq!(answer.unwrap(), ["active", "412", "yes", "@1794838120", "", "ab01"]);
        assert!(heard.starts_with(HELLO));
        let text = String::from_utf8_lossy(&heard);
        assert!(text.contains("/org/freedesktop/systemd1/unit/slurmd_2eservice\0"), "{text}");
        assert!(text.contains("org.freedesktop.systemd1.Unit\0") && text.contains("ActiveState\0"), "{text}");
    }

    #[test]
    fn what_is_not_expected_is_an_error() {
        const REFUSAL: u8 = 3;
        let one = [("Unit", "ActiveState")];
        for said in [
            vec![],
            vec![message(REFUSAL, "s", b"\x02\0\0\0no\0")],
            vec![message(ANSWER, "as", b"\0\0\0\0")],
            vec![message(ANSWER, "s", b"\xff\0\0\0cut")],
            vec![b"B\x02\x01\x01\0\0\0\0\x07\0\0\0\0\0\0\0".to_vec()],
        ] {
            assert!(asked(said.clone(), &one).0.is_err(), "{said:?}");
        }
    }
}
