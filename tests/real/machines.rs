//! Processes of the built binary that are killed, stopped and started again.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How long a process may take to stop when it is asked to.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// What a broker says once it has opened its store.
const OPEN: &str = "the store is open";

/// One process and how to start it. It ends with this.
pub struct Machine {
    pub name: String,
    metaq: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
    starts: usize,
}

impl Machine {
    /// A process that does not run yet; what it prints goes to `NAME.out` in `folder`, what it says to `NAME.log`.
    pub fn new(metaq: &Path, folder: &Path, name: &str, arguments: Vec<String>) -> Machine {
        let log = folder.join(format!("{name}.log"));
        Machine { name: name.to_owned(), metaq: metaq.to_owned(), arguments, log, child: None, starts: 0 }
    }

    /// Starts it, unless it runs.
    pub fn start(&mut self) {
        if self.child.is_some() {
            return;
        }
        let open = |path: &Path| OpenOptions::new().create(true).append(true).open(path).expect("the folder is there");
        let mut command = Command::new(&self.metaq);
        command.args(&self.arguments).env_remove("NAMESRV_ADDR").env_remove("METAQ_LOG").env("NO_COLOR", "1");
        command.stdin(Stdio::null()).stdout(open(&self.log.with_extension("out"))).stderr(open(&self.log));
        self.starts += 1;
        let started = command.spawn();
        self.child = Some(started.unwrap_or_else(|error| panic!("{} does not start: {error}", self.metaq.display())));
    }

    /// SIGKILL; returns when it has ended.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only for a process that has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGTERM, as soon as it has opened its store, then waits for its end.
    pub async fn stop(&mut self) -> Option<ExitStatus> {
        let until = tokio::time::Instant::now() + STOP_LIMIT;
        // Before it catches signals it has nothing to stop in order.
        while self.said().matches(OPEN).count() < self.starts && tokio::time::Instant::now() < until {
            tokio::time::sleep(LOOK).await;
        }
        self.signal(libc::SIGTERM);
        self.ended(STOP_LIMIT).await
    }

    /// Waits until it ends by itself; `None` if it does not, or does not run.
    pub async fn ended(&mut self, limit: Duration) -> Option<ExitStatus> {
        let until = tokio::time::Instant::now() + limit;
        loop {
            let status = self.child.as_mut()?.try_wait().expect("it is our child");
            if status.is_some() {
                self.child = None;
                return status;
            }
            if tokio::time::Instant::now() > until {
                return None;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Sends a signal, if it runs.
    pub fn signal(&self, signal: i32) {
        if let Some(child) = &self.child {
            // SAFETY: a call without pointers. The process is a child that has not been waited for, so the id is its own.
            unsafe { libc::kill(child.id() as libc::pid_t, signal) };
        }
    }

    /// True if it has ended although nobody ended it.
    pub fn has_died(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_some()))
    }

    /// What it has printed.
    pub fn printed(&self) -> String {
        std::fs::read_to_string(self.log.with_extension("out")).unwrap_or_default()
    }

    /// What it has said.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}
