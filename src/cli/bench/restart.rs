//! How long a broker takes to stop and to start again on what it holds.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde_json::{json, Value};

use super::local::{DataFolder, Ground, PrivateBroker};
use super::measured::span;
use crate::cli::console::{say, tell};
use crate::env::real::process;

/// A stop, a start after it, and a start after a crash.
pub struct Restart {
    stop: Duration,
    /// Until it said that it was ready.
    after_stop: Duration,
    after_crash: Duration,
    /// Anonymous bytes after the start.
    memory: u64,
}

impl Restart {
    /// Stops `broker`, starts it again, kills it, starts it once more; `sends` happens before it is killed, so that the
    /// crash finds something to look at.
    ///
    /// # Errors
    /// If one of the starts fails.
    pub fn measure(
        ground: &Ground,
        folder: &Arc<DataFolder>,
        broker: PrivateBroker,
        sends: impl FnOnce(&PrivateBroker) -> Result<()>,
    ) -> Result<(Restart, PrivateBroker)> {
        let clock = &ground.env.clock;
        tell!("restart …");
        let began = clock.monotonic();
        drop(broker);
        let stop = clock.monotonic() - began;
        let broker = PrivateBroker::start_in(ground, folder, &[])?;
        let (after_stop, memory) = (broker.ready_after, process::anonymous_memory(broker.process())?);
        sends(&broker)?;
        broker.kill()?;
        let broker = PrivateBroker::start_in(ground, folder, &[])?;
        Ok((Restart { stop, after_stop, after_crash: broker.ready_after, memory }, broker))
    }

    /// For people.
    pub fn print(&self) {
        let [stop, after_stop, after_crash] =
            [self.stop, self.after_stop, self.after_crash].map(|time| span(time.as_secs_f64() * 1e6));
        say!("{:<24} stop {stop}  ready after it {after_stop}  ready after a crash {after_crash}", "restart");
        say!("{:<24} {:.1} MB anonymous", "after the start", self.memory as f64 / 1e6);
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "stopSeconds": self.stop.as_secs_f64(),
            "readySeconds": self.after_stop.as_secs_f64(),
            "readyAfterCrashSeconds": self.after_crash.as_secs_f64(),
            "anonymousBytes": self.memory,
        })
    }
}
