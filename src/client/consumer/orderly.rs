//! Consuming a queue in order: one worker, one call of the listener at a time, under a lock of the queue's broker.
//!
//! The lock lasts 60 s at the broker and 30 s here, counted from when it was asked for. A call that outlives it is dropped
//! at its next await, and what it did is neither committed nor counted: the queue is somebody else's by then, or comes back
//! as another one.

use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::core::{Core, Handler};
use super::hand_back::send_to_retry;
use super::listener::Verdict;
use super::owned::OwnedQueue;
use super::rebalance::RebalanceMessage;
use crate::client::message::Received;
use crate::client::timing::within;
use crate::client::trace::ConsumeCode;
use crate::env::Canary;

/// Bounds of a pause between two attempts.
const SUSPEND_MIN: Duration = Duration::from_millis(10);
const SUSPEND_MAX: Duration = Duration::from_secs(30);

/// What a turn of the worker led to.
enum Turn {
    /// There may be more.
    Next,
    /// The queue stands still so long.
    Pause(Duration),
    /// The lock is lost.
    Lost,
    /// The queue was taken away, or the consumer stops.
    End,
}

/// Consumes until the queue is taken away.
pub(super) async fn run(core: Arc<Core>, owned: Arc<OwnedQueue>) {
    loop {
        while !owned.is_dropped() && !owned.process().has_more() {
            owned.arrived.notified().await;
        }
        match turn(&core, &owned).await {
            Turn::Next => {}
            Turn::Pause(pause) => {
                within(&*core.client.env.clock, pause, taken_away(&owned)).await;
            }
            Turn::Lost => return core.tell(RebalanceMessage::LockLost { owned }),
            Turn::End => return,
        }
    }
}

async fn taken_away(owned: &OwnedQueue) {
    while !owned.is_dropped() {
        owned.arrived.notified().await;
    }
}

/// Consumes the next batch.
async fn turn(core: &Core, owned: &OwnedQueue) -> Turn {
    let Handler::Orderly(listener) = &core.handler else { return Turn::End };
    let Some(_permit) = core.life.turn().await else { return Turn::End };
    // Whoever takes the queue away waits for this, then commits what is done.
    let _busy = owned.busy.lock().await;
    let _running = core.life.begin();
    if owned.is_dropped() || core.is_stopping() {
        return Turn::End;
    }
    let began = core.now();
    if core.needs_locks() && !owned.is_locked(began) {
        return Turn::Lost;
    }
    let batch = owned.process().take(core.settings.consume_batch.max(1));
    let Some(first) = batch.first() else { return Turn::Next };
    let traced = core.client.trace_consuming(&core.group, &batch);
    let verdict = match while_locked(core, owned, core.life.unless_ended(listener(batch.clone()))).await {
        Some(Some(verdict)) => verdict,
        Some(None) => return Turn::End,
        None => return Turn::Lost,
    };
    let now = core.now();
    let took = now.saturating_sub(began);
    if let Some(traced) = traced {
        core.client.trace_consumed(traced, ConsumeCode::of(Some(verdict)), took);
    }
    core.counters.consumed(&first.topic, verdict == Verdict::Done, batch.len(), took);
    if core.needs_locks() && !owned.is_locked(now) {
        return Turn::Lost;
    }
    settle(core, owned, &batch, verdict).await
}

/// What a call gives; `None` if the lock expired before.
async fn while_locked<T>(core: &Core, owned: &OwnedQueue, call: impl Future<Output = T>) -> Option<T> {
    let needs_lock = core.needs_locks() && !core.client.env.canary(Canary::ClientOutlivesLock);
    let (mut call, mut expiry) = (pin!(call), pin!(lock_expiry(core, owned)));
    poll_fn(|cx| {
        // The lease first: a process that stood still meanwhile must not go on with the call.
        if needs_lock && !owned.is_locked(core.now()) {
            return Poll::Ready(None);
        }
        match call.as_mut().poll(cx) {
            Poll::Ready(given) => Poll::Ready(Some(given)),
            Poll::Pending if needs_lock => expiry.as_mut().poll(cx).map(|()| None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Completes once the lock has expired.
async fn lock_expiry(core: &Core, owned: &OwnedQueue) {
    while let Some(left) = owned.locked_until().and_then(|until| until.checked_sub(core.now())) {
        within(&*core.client.env.clock, left.max(Duration::from_millis(1)), owned.lost.notified()).await;
    }
}

async fn settle(core: &Core, owned: &OwnedQueue, batch: &[Arc<Received>], verdict: Verdict) -> Turn {
    let failed_too_often = |message: &Arc<Received>| message.reconsume_times >= core.max_reconsume_times();
    let pause = match verdict {
        Verdict::Done => {
            if let Some(recorder) = core.recorder() {
                // Before anything can be committed.
                recorder.consumed(&core.group, batch);
            }
            owned.taken_done();
            return Turn::Next;
        }
        Verdict::Suspend(pause) => pause.unwrap_or(core.settings.suspend),
        Verdict::Retry(_) | Verdict::DeadLetter => core.settings.suspend,
    };
    if core.broadcasting && (verdict == Verdict::DeadLetter || batch.iter().any(failed_too_often)) {
        tracing::warn!(queue = ?owned.queue, "a listener failed for good; a broadcasting group has no dead letters");
        owned.taken_done();
        return Turn::Next;
    }
    if verdict == Verdict::DeadLetter || batch.iter().any(failed_too_often) {
        match to_dead_letters(core, batch).await {
            Ok(()) => {
                owned.taken_done();
                return Turn::Next;
            }
            Err(error) => tracing::warn!(queue = ?owned.queue, %error, "the dead letters took no message"),
        }
    }
    owned.process().put_back();
    Turn::Pause(pause.clamp(SUSPEND_MIN, SUSPEND_MAX))
}

async fn to_dead_letters(core: &Core, batch: &[Arc<Received>]) -> Result<(), crate::client::Error> {
    for message in batch {
        if let Some(recorder) = core.recorder() {
            recorder.handing_back(&core.group, message);
        }
        send_to_retry(core, message, true, None).await?;
        if let Some(recorder) = core.recorder() {
            recorder.handed_back(&core.group, message, true);
            // The group goes on behind it.
            recorder.consumed(&core.group, [message]);
        }
    }
    Ok(())
}
