//! Requests of ours to the peer that wait for their answers.

use std::collections::BTreeMap;
use std::task::Context;
use std::time::Duration;

use tokio::sync::oneshot;

use super::CallError;
use crate::env::{BoxFuture, Clock};
use crate::proto::remoting::Command;

/// Requests below which nobody looks for callers that gave up waiting.
const SWEPT_MIN: usize = 16;

/// Who waits for an answer.
pub(super) struct Call {
    /// Until when, on the node's monotonic clock.
    pub until: Duration,
    pub reply: oneshot::Sender<Result<Command, CallError>>,
}

/// The requests of one connection, by number.
///
/// They share one timer, which is set for the first of them to be late: a timer of its own for each costs more than
/// whatever else is done for a request that is answered.
pub(super) struct Calls {
    waiting: BTreeMap<i32, Call>,
    /// How many there have to be before those given up are looked for.
    swept_at: usize,
    timer: Option<(Duration, BoxFuture<'static, ()>)>,
}

impl Calls {
    pub fn new() -> Calls {
        Calls { waiting: BTreeMap::new(), swept_at: SWEPT_MIN, timer: None }
    }

    /// Adds a request that waits for its answer. Callers that gave up leave their entry behind; those are dropped whenever
    /// the table has doubled, so that it costs little and holds at most twice what is waited for.
    pub fn insert(&mut self, number: i32, call: Call, clock: &dyn Clock) {
        if self.waiting.len() >= self.swept_at {
            self.waiting.retain(|_, call| !call.reply.is_closed());
            self.swept_at = (self.waiting.len() * 2).max(SWEPT_MIN);
        }
        self.look_at(call.until, clock);
        self.waiting.insert(number, call);
    }

    /// The caller that waits for an answer; nobody, if it came too late.
    pub fn answered(&mut self, number: i32) -> Option<Call> {
        self.waiting.remove(&number)
    }

    /// Tells callers whose time is over, and has the task woken when the next one's is.
    pub fn poll_late(&mut self, clock: &dyn Clock, cx: &mut Context<'_>) {
        while let Some((_, timer)) = &mut self.timer {
            if timer.as_mut().poll(cx).is_pending() {
                return;
            }
            self.timer = None;
            let now = clock.monotonic();
            let late = self.waiting.iter().filter(|(_, call)| call.until <= now).map(|(number, _)| *number);
            for number in late.collect::<Vec<_>>() {
                if let Some(call) = self.waiting.remove(&number) {
                    let _ = call.reply.send(Err(CallError::TimedOut));
                }
            }
            if let Some(next) = self.waiting.values().map(|call| call.until).min() {
                self.look_at(next, clock);
            }
        }
    }

    /// Sets the timer, unless it goes off before.
    fn look_at(&mut self, time: Duration, clock: &dyn Clock) {
        if self.timer.as_ref().is_none_or(|(at, _)| time < *at) {
            self.timer = Some((time, clock.sleep(time.saturating_sub(clock.monotonic()))));
        }
    }
}
