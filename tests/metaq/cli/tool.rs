//! A server of its own for tools, and what a tool said.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use super::process::{metaq, Process};
use super::{text, up_args};

/// `metaq up`, which ends with the test.
pub struct Server {
    _process: Process,
    nameserver: String,
    _directory: TempDir,
}

/// A tool that ran to its end.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Server {
    pub fn start() -> Server {
        Server::with(&[])
    }

    pub fn with(more: &[&str]) -> Server {
        let directory = TempDir::new().unwrap();
        let mut process = Process::start(&[&up_args(directory.path())[..], more].concat());
        let nameserver = process.line("nameserver ");
        process.line("ready");
        Server { _process: process, nameserver: nameserver.replace("0.0.0.0", "127.0.0.1"), _directory: directory }
    }

    pub fn nameserver(&self) -> &str {
        &self.nameserver
    }

    /// Runs a tool on this cluster.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, "")
    }

    /// Runs a tool with something on its standard input.
    pub fn run_with(&self, args: &[&str], input: &str) -> Ran {
        let mut command = metaq(args);
        command.env("NAMESRV_ADDR", &self.nameserver);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs a tool that has to succeed, and gives what it printed.
    #[track_caller]
    pub fn done(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?} {ran:?}");
        ran.out
    }

    /// The same with `--json`.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let out = self.done(&[args, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?} {error}: {out}"))
    }

    /// Runs a tool until what it printed is as it should be: some things take a moment.
    #[track_caller]
    pub fn until(&self, args: &[&str], so: impl Fn(&Ran) -> bool) -> Ran {
        let started = std::time::Instant::now();
        loop {
            let ran = self.run(args);
            if so(&ran) {
                return ran;
            }
            assert!(started.elapsed().as_secs() < 30, "{args:?} {ran:?}");
        }
    }

    /// Runs a tool that has to fail so.
    #[track_caller]
    pub fn fails(&self, args: &[&str], code: i32, says: &[&str]) {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(code), "{args:?} {ran:?}");
        for what in says {
            assert!(ran.err.contains(what), "{args:?} does not say `{what}`: {ran:?}");
        }
        assert!(ran.err.starts_with("error: "), "{ran:?}");
    }
}

/// A file's path for a command line.
pub fn file(directory: &TempDir, name: &str, content: &[u8]) -> String {
    let path = directory.path().join(name);
    std::fs::write(&path, content).unwrap();
    text(&path).to_owned()
}
