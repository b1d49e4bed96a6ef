//! The one place of this crate that starts a process.

use std::io::{self, Write};
use std::process::{Command, Stdio};

/// One call of a hook tool.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub tool: &'a str,
    pub arguments: &'a [&'a str],
    pub stdin: Option<&'a [u8]>,
}

impl Call<'_> {
    /// Returns the command line for a human to read. Secret content never is in it: it travels in files.
    pub fn command_line(&self) -> String {
        let mut line = self.tool.to_owned();
        for argument in self.arguments {
            line.push(' ');
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=:/.,@%+#".contains(&byte);
            match !argument.is_empty() && argument.bytes().all(plain) {
                true => line.push_str(argument),
                false => line.push_str(&format!("{argument:?}")),
            }
        }
        line
    }
}

/// What a tool left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// None when a signal ended it.
    pub exit_code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Whoever answers hook tools: processes in a charm, a made-up model in a test.
pub trait ToolRunner: Send + Sync {
    /// Runs one tool to its end.
    fn run(&self, call: &Call<'_>) -> io::Result<Output>;
}

/// Runs tools as processes, found on `PATH`.
#[derive(Debug, Clone, Copy)]
pub struct ProcessRunner;

impl ToolRunner for ProcessRunner {
    #[expect(clippy::disallowed_methods, reason = "where this crate starts hook tools")]
    fn run(&self, call: &Call<'_>) -> io::Result<Output> {
        let stdin = if call.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        let mut child = Command::new(call.tool)
            .args(call.arguments)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let (Some(bytes), Some(mut pipe)) = (call.stdin, child.stdin.take()) {
            // A tool that refuses its arguments closes the pipe unread; its exit code and stderr say why.
            if let Err(error) = pipe.write_all(bytes)
                && error.kind() != io::ErrorKind::BrokenPipe
            {
                child.kill().and_then(|()| child.wait())?;
                return Err(error);
            }
        }
        let output = child.wait_with_output()?;
        Ok(Output { exit_code: output.status.code(), stdout: output.stdout, stderr: output.stderr })
    }
}
