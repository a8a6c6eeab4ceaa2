//! Consuming many messages at a time, in no order.
//!
//! Batches wait in a row for workers, as many as calls of the listener may run at a time. A worker that takes a batch sees
//! to it that another one begins if there is more, so that a listener that blocks its thread holds up no other thread, and
//! a quick one costs no task a message.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use super::core::{Core, Handler};
use super::hand_back;
use super::life::Running;
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
/// After so many calls, or so long a one, a worker lets other tasks go on.
const CALLS_IN_A_ROW: usize = 32;
const LONG_CALL: Duration = Duration::from_millis(1);

/// What waits for the listener, and who calls it.
#[derive(Default)]
pub(super) struct Row(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Batch>,
    /// Workers that look for batches or call the listener.
    workers: usize,
    /// One of them has not begun yet.
    begins: bool,
}

/// Messages of one call, and the queue they are of.
struct Batch {
    owned: Arc<OwnedQueue>,
    messages: Vec<Arc<Received>>,
}

/// Gives messages to the listener, as many calls at a time as the settings allow.
pub(super) fn dispatch(core: &Arc<Core>, owned: &Arc<OwnedQueue>, messages: Vec<Arc<Received>>) {
    let batches = messages.chunks(core.settings.consume_batch.max(1));
    let batches = batches.map(|messages| Batch { owned: Arc::clone(owned), messages: messages.to_vec() });
    change(core, |row| row.waiting.extend(batches));
}

/// Changes the row, and has a worker begin if it takes one more.
fn change<T>(core: &Arc<Core>, change: impl FnOnce(&mut State) -> T) -> T {
    let mut row = core.row.0.lock().expect("no holder panics");
    let changed = change(&mut row);
    let most = if core.client.env.canary(Canary::ClientCallsOneByOne) { 1 } else { core.settings.concurrency.max(1) };
    if !row.begins && !row.waiting.is_empty() && row.workers < most {
        (row.begins, row.workers) = (true, row.workers + 1);
        drop(row);
        ractor::concurrency::spawn(work(Arc::clone(core)));
    }
    changed
}

/// Consumes batches until none waits.
async fn work(core: Arc<Core>) {
    change(&core, |row| row.begins = false);
    let mut calls = 0;
    while let Some(Batch { owned, messages }) = next(&core) {
        let Some(Called { verdict, took, running }) = call(&core, &owned, &messages).await else { continue };
        if verdict != Verdict::Done {
            // Handing back may take long: the place is another worker's meanwhile.
            change(&core, |row| row.workers -= 1);
            return not_consumed(&core, &owned, messages, verdict, running).await;
        }
        if let Some(recorder) = core.recorder() {
            // Before anything can be committed.
            recorder.consumed(&core.group, &messages);
        }
        owned.done(messages.iter().map(|message| message.offset));
        calls += 1;
        if calls % CALLS_IN_A_ROW == 0 || took > LONG_CALL {
            drop(running);
            let_others().await;
        }
    }
}

/// The next batch; with none the worker ends.
fn next(core: &Arc<Core>) -> Option<Batch> {
    change(core, |row| {
        let batch = row.waiting.pop_front();
        row.workers -= usize::from(batch.is_none());
        batch
    })
}

/// Lets tasks that are ready run.
async fn let_others() {
    let mut again = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut again, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What a call of the listener led to, and that it is not over yet.
struct Called<'a> {
    verdict: Verdict,
    took: Duration,
    running: Running<'a>,
}

/// Calls the listener; `None` if what it says does not count.
async fn call<'a>(core: &'a Core, owned: &OwnedQueue, batch: &[Arc<Received>]) -> Option<Called<'a>> {
    let Handler::Concurrent(listener) = &core.handler else { return None };
    let running = core.life.begin();
    if owned.is_dropped() || core.is_stopping() {
        return None;
    }
    let (clock, began) = (&*core.client.env.clock, core.now());
    let traced = core.client.trace_consuming(&core.group, batch);
    // A call that takes too long is dropped at its next await, so its messages are never in two hands (RTY-4). Only the
    // call itself counts, not the wait for its turn (RTY-5).
    let call = within(clock, core.settings.consume_timeout, listener(batch.to_vec()));
    let verdict = core.life.unless_ended(call).await?;
    let took = core.now().saturating_sub(began);
    if let Some(traced) = traced {
        core.client.trace_consumed(traced, ConsumeCode::of(verdict), took);
    }
    let verdict = verdict.unwrap_or(Verdict::Retry(LEVEL_AFTER_TIMEOUT));
    core.counters.consumed(&batch[0].topic, verdict == Verdict::Done, batch.len(), took);
    // The new owner of a queue that was taken away gets its messages again.
    (!owned.is_dropped()).then_some(Called { verdict, took, running })
}

/// Hands back what was not consumed, and what cannot be handed back to the listener again, later.
async fn not_consumed(
    core: &Arc<Core>,
    owned: &Arc<OwnedQueue>,
    batch: Vec<Arc<Received>>,
    verdict: Verdict,
    running: Running<'_>,
) {
    let mut failed = settle(core, owned, batch, verdict).await;
    drop(running);
    if failed.is_empty() {
        return;
    }
    core.sleep(TRY_AGAIN_AFTER).await;
    failed.iter_mut().for_each(|message| Arc::make_mut(message).reconsume_times += 1);
    let batch = Batch { owned: Arc::clone(owned), messages: failed };
    change(core, |row| row.waiting.push_back(batch));
}

/// Does what the listener wants done; returns the messages with which that failed.
async fn settle(core: &Core, owned: &OwnedQueue, batch: Vec<Arc<Received>>, verdict: Verdict) -> Vec<Arc<Received>> {
    let level = match verdict {
        Verdict::Retry(level) => level,
        Verdict::Done | Verdict::Suspend(_) => 0,
        Verdict::DeadLetter => hand_back::TO_DEAD_LETTERS,
    };
    let mut failed = Vec::new();
    for message in batch {
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
