//! The pull loop of one queue: one long poll at a time, for as long as the queue is owned.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{select, Either};
use futures::pin_mut;

use super::concurrent;
use super::core::{Core, Handler};
use super::owned::OwnedQueue;
use super::rebalance::RebalanceMessage;
use crate::client::error::Error;
use crate::client::instance::refusal;
use crate::client::message::Received;
use crate::client::timing::within;
use crate::proto::filter::{ExpressionType, SubscriptionData};
use crate::proto::remoting::requests::{PullHeader, PullResponse};
use crate::proto::remoting::{request, response, Command};

/// A broker may hold a pull as long as it is asked to and, being Apache's, a few seconds more.
const HOLD_SLACK: Duration = Duration::from_secs(15);
/// The pause after an error.
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// The pause after a broker asked for one.
const AFTER_FLOW_CONTROL: Duration = Duration::from_millis(20);
/// Bits of a pull's flags.
const MAY_BE_HELD: i32 = 2;
const HAS_SUBSCRIPTION: i32 = 4;

/// What a pull brought.
pub(super) enum Pulled {
    /// Go on at `next`, and read from `broker_id` then.
    Messages { messages: Vec<Arc<Received>>, next: i64, broker_id: i64 },
    /// The queue goes on elsewhere: what is held is void.
    Moved { next: i64 },
}

/// Pulls until the queue is taken away.
pub(super) async fn run(core: Arc<Core>, owned: Arc<OwnedQueue>) {
    let mut broker_id = 0;
    loop {
        wait_for_room(&core, &owned).await;
        if owned.is_dropped() || core.is_stopping() {
            return;
        }
        let pulled = {
            let subscription = core.subscription(&owned.queue.topic).unwrap_or_default();
            let interrupted = interrupted(&core, &owned, subscription.sub_version);
            let pull = pull(&core, &owned, broker_id, &subscription);
            pin_mut!(pull, interrupted);
            match select(pull, interrupted).await {
                Either::Left((pulled, _)) => pulled,
                Either::Right(_) => continue,
            }
        };
        let pause = match pulled {
            Ok(Pulled::Messages { messages, next, broker_id: id }) => {
                broker_id = id;
                deliver(&core, &owned, messages, next);
                continue;
            }
            Ok(Pulled::Moved { next }) => return core.tell(RebalanceMessage::Moved { owned, next }),
            Err(Error::Closed) => return,
            Err(error) => after_error(&core, &owned, &error),
        };
        within(&*core.client.env.clock, pause, taken_away(&owned)).await;
    }
}

/// Waits while too much is held, or the queue is paused.
async fn wait_for_room(core: &Core, owned: &OwnedQueue) {
    while !owned.is_dropped() && (owned.is_paused() || owned.process().is_full(&core.settings.limits)) {
        owned.room.notified().await;
    }
}

/// Completes once the queue is taken away. Wake-ups for room are passed over: whoever waits for room looks first.
pub(super) async fn taken_away(owned: &OwnedQueue) {
    while !owned.is_dropped() {
        owned.room.notified().await;
    }
}

/// Completes once a pull under way is no longer of use: the queue is taken away, or other messages are subscribed to, and a
/// held pull would pass over them (SUB-3).
async fn interrupted(core: &Core, owned: &OwnedQueue, version: i64) {
    let current = || core.subscriptions().get(&owned.queue.topic).map_or(0, |subscription| subscription.sub_version);
    while !owned.is_dropped() && current() == version {
        owned.room.notified().await;
    }
}

/// Hands messages on.
fn deliver(core: &Arc<Core>, owned: &Arc<OwnedQueue>, messages: Vec<Arc<Received>>, next: i64) {
    let any = !messages.is_empty();
    owned.put(messages.clone(), next);
    match &core.handler {
        Handler::Concurrent(_) if any => concurrent::dispatch(core, owned, messages),
        Handler::Poll(arrived) if any => arrived.notify_one(),
        _ => {}
    }
}

pub(super) async fn pull(
    core: &Core,
    owned: &OwnedQueue,
    broker_id: i64,
    subscription: &SubscriptionData,
) -> Result<Pulled, Error> {
    let queue = &owned.queue;
    let reader = core.client.routes().reader(&queue.broker_name, broker_id).map(|(_, address)| address.to_owned());
    let address = reader.ok_or_else(|| Error::NoBroker { broker: queue.broker_name.clone() })?;
    let command = pull_command(core, owned, subscription);
    let answer = core.client.connections.call(&address, command, core.settings.hold + HOLD_SLACK).await?;
    match answer.code {
        response::SUCCESS | response::PULL_NOT_FOUND | response::PULL_RETRY_IMMEDIATELY => {}
        response::PULL_OFFSET_MOVED => {}
        _ => return Err(refusal(&address, answer)),
    }
    let malformed = |what: String| Error::Malformed { address: address.clone(), what };
    let fields = answer.ext_fields().map_err(|error| malformed(error.to_string()))?;
    let fields = PullResponse::decode(&fields).map_err(|error| malformed(error.to_string()))?;
    let (next, broker_id) = (fields.next_begin_offset, fields.suggest_which_broker_id);
    let known = || core.client.routes().reader(&queue.broker_name, broker_id).is_some_and(|(id, _)| id == broker_id);
    if answer.code == response::PULL_RETRY_IMMEDIATELY && !known() {
        // A slave that knows of a master again sends this client there.
        look_for_broker(core, owned);
    }
    match answer.code {
        response::PULL_OFFSET_MOVED => Ok(Pulled::Moved { next }),
        response::SUCCESS => {
            let delta = fields.offset_delta.unwrap_or(0);
            let mut messages = Received::all_in(&queue.broker_name, &answer.body)?;
            messages.retain(|message| wants(subscription, message));
            let place = |mut message: Received| {
                message.offset += delta;
                Arc::new(message)
            };
            let messages = messages.into_iter().map(place).collect();
            Ok(Pulled::Messages { messages, next, broker_id })
        }
        _ => Ok(Pulled::Messages { messages: Vec::new(), next, broker_id }),
    }
}

/// Brokers compare hashes of tags; two tags may have the same (SUB-2).
fn wants(subscription: &SubscriptionData, message: &Received) -> bool {
    subscription.expression_type != ExpressionType::Tag
        || subscription.tags_set.is_empty()
        || message.tag().is_some_and(|tag| subscription.tags_set.contains(tag))
}

fn pull_command(core: &Core, owned: &OwnedQueue, subscription: &SubscriptionData) -> Command {
    // Members of a group have told their subscriptions by heartbeat; a poller may be in no group.
    let tells = core.handler.asks();
    let waits = !matches!(core.handler, Handler::Scheduled(_));
    let header = PullHeader {
        consumer_group: core.group.as_str().into(),
        topic: owned.queue.topic.as_str().into(),
        queue_id: owned.queue.queue_id,
        queue_offset: owned.process().pulled_to(),
        max_msg_nums: core.settings.pull_batch,
        sys_flag: if waits { MAY_BE_HELD } else { 0 } | if tells { HAS_SUBSCRIPTION } else { 0 },
        commit_offset: 0,
        suspend_timeout_millis: core.settings.hold.as_millis() as i64,
        subscription: tells.then(|| subscription.sub_string.as_str().into()),
        sub_version: subscription.sub_version,
        expression_type: Some(subscription.expression_type.name().into()),
        max_msg_bytes: Some(core.settings.pull_bytes),
        request_source: None,
        proxy_forward_client_id: None,
    };
    Command::request(request::PULL_MESSAGE).with_ext(&header)
}

/// How long to wait after an error, and what may help meanwhile.
pub(super) fn after_error(core: &Arc<Core>, owned: &OwnedQueue, error: &Error) -> Duration {
    tracing::debug!(queue = ?owned.queue, %error, "a pull failed");
    match error.code() {
        Some(response::FLOW_CONTROL) => return AFTER_FLOW_CONTROL,
        // A broker that restarted has forgotten its members.
        Some(response::SUBSCRIPTION_NOT_EXIST | response::SUBSCRIPTION_NOT_LATEST) => {
            let client = Arc::clone(&core.client);
            ractor::concurrency::spawn(async move { client.heartbeat_all().await });
        }
        None => look_for_broker(core, owned),
        Some(_) => {}
    }
    AFTER_ERROR
}

/// Has the topic's route fetched anew: what it says of a broker is not so.
fn look_for_broker(core: &Core, owned: &OwnedQueue) {
    let (client, topic) = (Arc::clone(&core.client), owned.queue.topic.clone());
    ractor::concurrency::spawn(async move {
        let _ = client.fresh_route(&topic).await;
    });
}
