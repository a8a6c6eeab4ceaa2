//! A line on standard error that says how far long work is; only on a terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::env::Clock;

/// How often the line changes.
const PERIOD: Duration = Duration::from_millis(100);
/// Work that takes less than this is not worth a line.
const QUIET: Duration = Duration::from_millis(500);
const BAR: usize = 24;

/// How far some work is. Its line goes away when it is dropped.
pub struct Progress {
    clock: Arc<dyn Clock>,
    what: &'static str,
    total: Option<u64>,
    started: Duration,
    drawn: Option<Duration>,
    shown: bool,
}

impl Progress {
    /// Work on `total` things, if it is known how many.
    pub fn new(clock: &Arc<dyn Clock>, what: &'static str, total: Option<u64>) -> Progress {
        let shown = io::stderr().is_terminal();
        Progress { clock: Arc::clone(clock), what, total, started: clock.monotonic(), drawn: None, shown }
    }

    /// So much is done.
    pub fn at(&mut self, done: u64) {
        if !self.shown {
            return;
        }
        let now = self.clock.monotonic();
        let since = now.saturating_sub(self.drawn.unwrap_or(self.started));
        if since < if self.drawn.is_some() { PERIOD } else { QUIET } {
            return;
        }
        self.drawn = Some(now);
        let line = line(self.what, done, self.total, now.saturating_sub(self.started));
        let mut out = io::stderr();
        let _ = write!(out, "\r\x1b[K{line}").and_then(|()| out.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let mut out = io::stderr();
            let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
        }
    }
}

fn line(what: &str, done: u64, total: Option<u64>, took: Duration) -> String {
    let rate = done as f64 / took.as_secs_f64().max(0.001);
    match total.filter(|total| *total > 0) {
        None => format!("{what}  {done}  {rate:.0}/s"),
        Some(total) => {
            let full = (BAR as u64 * done.min(total) / total) as usize;
            let bar = "#".repeat(full) + &".".repeat(BAR - full);
            format!("{what}  [{bar}]  {done}/{total}  {rate:.0}/s")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills() {
        let second = Duration::from_secs(1);
        assert_eq!(line("sending", 5, None, second), "sending  5  5/s");
        assert_eq!(line("reading", 5, Some(10), second), "reading  [############............]  5/10  5/s");
        assert!(line("reading", 11, Some(10), second).contains("[########################]"));
    }
}
