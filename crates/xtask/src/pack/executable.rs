//! Tells a static executable from one that needs a loader and libraries, by its ELF program headers.

use anyhow::{Context, Result, bail, ensure};

const PROGRAM_INTERPRETER: u32 = 3;
const SMALLEST_HEADER: usize = 64;

/// Refuses anything but a 64-bit ELF executable without a program interpreter.
pub(super) fn check_static(bytes: &[u8]) -> Result<()> {
    ensure!(bytes.len() >= SMALLEST_HEADER && bytes.starts_with(b"\x7fELF"), "it is not an ELF file");
    ensure!(bytes[4] == 2 && bytes[5] == 1, "it is not a 64-bit little-endian ELF file");
    let table = usize::try_from(u64::from_le_bytes(field(bytes, 32)?)).context("program header table out of range")?;
    let size = usize::from(u16::from_le_bytes(field(bytes, 54)?));
    let count = usize::from(u16::from_le_bytes(field(bytes, 56)?));
    ensure!(count > 0, "it has no program headers");
    for index in 0..count {
        let header = table.checked_add(index * size).context("program header table out of range")?;
        if u32::from_le_bytes(field(bytes, header)?) != PROGRAM_INTERPRETER {
            continue;
        }
        let start = usize::try_from(u64::from_le_bytes(field(bytes, header + 8)?)).unwrap_or(usize::MAX);
        let loader = bytes.get(start..).unwrap_or_default();
        let loader = loader.split(|byte| *byte == 0).next().unwrap_or_default();
        bail!("it is dynamically linked: it asks for {}", String::from_utf8_lossy(loader));
    }
    Ok(())
}

/// Reads a fixed number of bytes at an offset.
fn field<const SIZE: usize>(bytes: &[u8], offset: usize) -> Result<[u8; SIZE]> {
    let end = offset.checked_add(SIZE).context("ELF header out of range")?;
    bytes.get(offset..end).and_then(|slice| slice.try_into().ok()).context("ELF header out of range")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_program_is_static() {
        // Built like everything here, so this is a real static executable.
        check_static(&std::fs::read("/proc/self/exe").unwrap()).unwrap();
    }

    #[test]
    fn a_program_of_the_system_is_not() {
        let error = check_static(&std::fs::read("/bin/ls").unwrap()).unwrap_err().to_string();
        assert!(error.contains("dynamically linked: it asks for /lib"), "{error}");
    }

    #[test]
    fn a_script_is_refused() {
        assert!(check_static(b"#!/bin/sh\n").is_err());
    }

    #[test]
    fn a_cut_off_file_is_refused() {
        let whole = std::fs::read("/proc/self/exe").unwrap();
        assert!(check_static(&whole[..64]).unwrap_err().to_string().contains("out of range"));
    }
}
