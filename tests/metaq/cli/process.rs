//! A running `metaq` and what it says.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Duration;

/// How long a process may take to say or do what is waited for.
const LIMIT: Duration = Duration::from_secs(30);

/// The command with nothing of this process's environment that it would heed.
pub fn metaq(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
    command.args(args).env_remove("NAMESRV_ADDR").env_remove("METAQ_LOG").env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub fn run(args: &[&str]) -> Ended {
    Process::start(args).ended()
}

/// Ends with the test.
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    said: String,
}

/// What is left of a process.
#[derive(Debug)]
pub struct Ended {
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    said: String,
}

impl Ended {
    /// All lines with this in them.
    pub fn lines_with<'a>(&'a self, what: &'a str) -> impl Iterator<Item = &'a str> {
        self.said.lines().filter(move |line| line.contains(what))
    }

    /// Whether it said so, on whichever stream.
    pub fn says(&self, what: &str) -> bool {
        self.said.contains(what)
    }
}

impl Process {
    pub fn start(args: &[&str]) -> Process {
        Process::spawn(metaq(args))
    }

    /// Starts it as a shell does that lets programs open `files` files at once, unless they ask for more.
    pub fn start_with_files(files: u32, args: &[&str]) -> Process {
        let limited = format!("ulimit -Sn {files}; exec \"$0\" \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &limited, env!("CARGO_BIN_EXE_metaq")]).args(args).stdin(Stdio::null());
        Process::spawn(shell)
    }

    fn spawn(mut command: Command) -> Process {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        forward(child.stdout.take().unwrap(), sender.clone());
        forward(child.stderr.take().unwrap(), sender);
        Process { child, lines, said: String::new() }
    }

    /// Nobody reads its standard error: the reader has gone.
    pub fn start_unheard(args: &[&str]) -> Process {
        let mut child = metaq(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        let (sender, lines) = channel();
        forward(child.stdout.take().unwrap(), sender);
        Process { child, lines, said: String::new() }
    }

    /// Waits for a line that begins like this and returns the rest of it.
    pub fn line(&mut self, begins: &str) -> String {
        loop {
            let line = self.next_line(begins);
            if let Some(rest) = line.strip_prefix(begins) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Waits for a line with this in it.
    pub fn line_with(&mut self, what: &str) -> String {
        loop {
            let line = self.next_line(what);
            if line.contains(what) {
                return line;
            }
        }
    }

    fn next_line(&mut self, wanted: &str) -> String {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => {
                self.said.push_str(&line);
                line
            }
            Err(error) => panic!("no line with `{wanted}` came ({error}):\n{}", self.said),
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a call without pointers. The process is a child that has not been waited for, so the id is its own.
        let sent = unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
        assert_eq!(sent, 0);
    }

    /// Waits for its end.
    pub fn ended(mut self) -> Ended {
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(line) => self.said.push_str(&line),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(error) => panic!("it does not end ({error}):\n{}", self.said),
            }
        }
        Ended { code: self.child.wait().unwrap().code(), said: std::mem::take(&mut self.said) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A test that failed shows what its processes said.
        if std::thread::panicking() {
            self.said.extend(self.lines.iter());
            eprintln!("process {} said:\n{}", self.child.id(), self.said);
        }
    }
}

/// Passes on the lines of a stream until it is closed.
fn forward(stream: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            if to.send(line + "\n").is_err() {
                return;
            }
        }
    });
}
