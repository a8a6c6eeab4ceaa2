//! Consuming many messages at a time, in no order.

use std::sync::Arc;
use std::time::Duration;

use super::core::{Core, Handler};
use super::hand_back;
use super::listener::Verdict;
use super::owned::OwnedQueue;
use crate::client::message::Received;
use crate::client::timing::within;
use crate::client::trace::ConsumeCode;
use crate::env::Canary;

/// When a message that could be neither consumed nor handed back is tried again here.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// The delay level of a message whose listener took too long: 10 s.
const LEVEL_AFTER_TIMEOUT: i32 = 3;

/// Gives messages to the listener, as many calls at a time as the settings allow.
pub(super) fn dispatch(core: &Arc<Core>, owned: &Arc<OwnedQueue>, messages: Vec<Arc<Received>>) {
    for batch in messages.chunks(core.settings.consume_batch.max(1)) {
        let (core, owned, batch) = (Arc::clone(core), Arc::clone(owned), batch.to_vec());
        ractor::concurrency::spawn(async move { consume(&core, &owned, batch).await });
    }
}

/// Consumes one batch to its end: done, handed back, or given up with its queue.
async fn consume(core: &Core, owned: &OwnedQueue, mut batch: Vec<Arc<Received>>) {
    loop {
        batch = turn(core, owned, batch).await;
        if batch.is_empty() {
            return;
        }
        core.sleep(TRY_AGAIN_AFTER).await;
        batch.iter_mut().for_each(|message| Arc::make_mut(message).reconsume_times += 1);
    }
}

/// Calls the listener and does what it wants done; returns the messages with which that failed.
async fn turn(core: &Core, owned: &OwnedQueue, batch: Vec<Arc<Received>>) -> Vec<Arc<Received>> {
    let Handler::Concurrent(listener) = &core.handler else { return Vec::new() };
    let Some(permit) = core.life.turn().await else { return Vec::new() };
    let _running = core.life.begin();
    if owned.is_dropped() || core.is_stopping() {
        return Vec::new();
    }
    let (clock, began) = (&*core.client.env.clock, core.now());
    let traced = core.client.trace_consuming(&core.group, &batch);
    // A call that takes too long is dropped at its next await, so its messages are never in two hands (RTY-4). Only the
    // call itself counts, not the wait for its turn (RTY-5).
    let call = within(clock, core.settings.consume_timeout, listener(batch.clone()));
    let Some(verdict) = core.life.unless_ended(call).await else { return Vec::new() };
    drop(permit);
    if let Some(traced) = traced {
        core.client.trace_consumed(traced, ConsumeCode::of(verdict), core.now().saturating_sub(began));
    }
    let verdict = verdict.unwrap_or(Verdict::Retry(LEVEL_AFTER_TIMEOUT));
    core.counters.consumed(&batch[0].topic, verdict == Verdict::Done, batch.len(), core.now().saturating_sub(began));
    if owned.is_dropped() {
        // Its new owner gets them again.
        return Vec::new();
    }
    settle(core, owned, batch, verdict).await
}

/// Does what the listener wants done; returns the messages with which that failed.
async fn settle(core: &Core, owned: &OwnedQueue, batch: Vec<Arc<Received>>, verdict: Verdict) -> Vec<Arc<Received>> {
    let level = match verdict {
        Verdict::Done => None,
        Verdict::Retry(level) => Some(level),
        Verdict::Suspend(_) => Some(0),
        Verdict::DeadLetter => Some(hand_back::TO_DEAD_LETTERS),
    };
    if let (Some(recorder), Verdict::Done) = (core.recorder(), verdict) {
        // Before anything can be committed.
        recorder.consumed(&core.group, &batch);
    }
    let mut failed = Vec::new();
    for message in batch {
        let Some(level) = level else {
            owned.done([message.offset]);
            continue;
        };
        if core.broadcasting {
            tracing::warn!(message = message.message_id(), "a listener failed; in a broadcasting group nobody retries");
            owned.done([message.offset]);
            continue;
        }
        match hand_back::hand_back(core, &message, level).await {
            Ok(()) => owned.done([message.offset]),
            Err(_) if core.client.env.canary(Canary::ClientForgetsFailures) => owned.done([message.offset]),
            Err(error) => {
                crate::sometimes!("a message could not be handed back");
                tracing::warn!(message = message.message_id(), %error, "a message could not be handed back");
                failed.push(message);
            }
        }
    }
    failed
}
