//! Pulls: a session reads without asking the log writer; what finds nothing waits on its queue.

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{select, Either};
use tokio::sync::oneshot;

use super::errors::{refusal, store_failure};
use super::parked::Parked;
use super::service::{BrokerConnection, ReplyTo};
use super::shared::{Settings, Shared};
use crate::actors::net::{Answer, Output};
use crate::broker::admin::statistics::GroupCounters;
use crate::broker::groups::GroupView;
use crate::broker::offsets::{PullStep, Who};
use crate::broker::pull::{self, Chosen, Expressions, PullRequest, Read, ReadStatus, Verdict};
use crate::broker::topics::TopicView;
use crate::broker::{BrokerError, QueueKey};
use crate::config::broker::BrokerConfig;
use crate::env::{Canary, ConnectionId, Millis};
use crate::proto::filter::Filter;
use crate::proto::remoting::requests::PullHeader;
use crate::proto::remoting::{request, response, ExtSink, Head, Response, ResponseFrame};
use crate::proto::QueueOffset;
use crate::store::{self, ConsumeQueue, Portion, ReadLimits};

/// The longest a request is held, whatever it asks for, in ms.
const HOLD_MS_MAX: i64 = 300_000;

thread_local! {
    /// The header of the answer being written.
    static HEADER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// One pull that has passed its checks.
pub struct Puller {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    group: Arc<GroupView>,
    topic: Arc<TopicView>,
    counters: Arc<GroupCounters>,
    queue: Option<Arc<ConsumeQueue>>,
    queue_id: i32,
    from: i64,
    limits: ReadLimits,
    filter: Arc<Filter>,
    reply: ReplyTo,
    connection: ConnectionId,
    /// Resets of groups before its offset was looked at: with more since then, its group may have been reset.
    resets_seen: u64,
    /// Monotonic; when the request is answered in any case. `None`: at once.
    deadline: Option<Millis>,
}

/// A pull as it came.
struct Incoming<'a> {
    header: PullHeader<'a>,
    lite: bool,
    connection: ConnectionId,
    peer: std::net::SocketAddr,
    reply: ReplyTo,
}

impl Puller {
    /// Takes a pull: it is answered at once, or waits.
    pub fn take(
        shared: &Arc<Shared>,
        connection: &mut BrokerConnection,
        head: &Head<'_>,
        reply: ReplyTo,
        output: &mut Output,
    ) {
        let header = match PullHeader::decode(&head.ext) {
            Ok(header) => header,
            Err(error) => return reply.write(&mut output.bytes, &Response::from(error)),
        };
        let incoming = Incoming {
            header,
            lite: head.code == request::LITE_PULL_MESSAGE,
            connection: connection.handle.id(),
            peer: connection.peer,
            reply,
        };
        let Some(group) = connection.groups.get(&shared.group_directory, &incoming.header.consumer_group) else {
            let (shared, owned) = (Arc::clone(shared), incoming.into_owned());
            return output.later(Box::pin(pull_for_new_group(shared, owned)));
        };
        let topic = connection.topics.get(&shared.topic_directory, &incoming.header.topic).cloned();
        let group = Arc::clone(group);
        let (statistics, consumed) = (&shared.statistics, &mut connection.consumed);
        let counters = topic.as_ref().map(|topic| consumed.get(statistics, topic.name(), group.name()));
        match incoming.check(shared, Some(group), topic, counters, &mut connection.expressions) {
            Ok(Checked::Pull(puller)) => puller.serve(output),
            Ok(Checked::Reset { puller, target }) => puller.write_reset(&mut output.bytes, target),
            Err(error) => reply.write(&mut output.bytes, &pull_refusal(&error)),
        }
    }

    /// The first attempt, in the session's own turn.
    fn serve(self, output: &mut Output) {
        let out = &mut output.bytes;
        let start = out.len();
        // The header comes first but tells what was found. One is written that is nearly always as long as the right
        // one, so that records go straight behind it and need no copy on the way.
        let place = self.begin(out, &self.expected(), 0);
        let body_at = out.len();
        let attempt = self.attempt(out, false);
        match attempt {
            Ok((read, Verdict::Answer(answer))) if !self.reply.oneway => HEADER.with_borrow_mut(|header| {
                header.clear();
                let _ = self.begin(header, &answer, self.report(&read, &answer));
                if header.len() == body_at - start {
                    out[start..body_at].copy_from_slice(header);
                } else {
                    out.splice(start..body_at, header.iter().copied());
                }
                place.finish(out);
            }),
            Ok((read, Verdict::Answer(answer))) => {
                out.truncate(start);
                self.report(&read, &answer);
            }
            Ok((_, Verdict::Wait { from })) => {
                out.truncate(start);
                output.hold(Box::pin(self.wait(from)));
            }
            Err(error) => {
                out.truncate(start);
                self.reply.write(out, &pull_refusal(&error));
            }
        }
    }

    /// The answer if all that is wanted is there.
    fn expected(&self) -> pull::Answer {
        let (min, max) = self.queue.as_ref().map_or((0, 0), |queue| (queue.min().0 as i64, queue.max().0 as i64));
        let next = self.from.saturating_add(i64::from(self.limits.records)).min(max);
        pull::Answer { code: response::SUCCESS, remark: ReadStatus::Found.name(), next, min, max }
    }

    /// Reads, and says whether to answer.
    fn attempt(&self, records: &mut Vec<u8>, woken: bool) -> Result<(Read, Verdict), BrokerError> {
        let read = self.read(records, woken)?;
        let has_time = self.deadline.is_some_and(|deadline| self.shared.now() < deadline);
        let has_room =
            woken || self.shared.parked_pulls.load(Ordering::Relaxed) < self.settings.config.parked_pulls_max;
        Ok((read, pull::verdict_by_role(&self.settings.pull, &read, has_time && has_room, woken)?))
    }

    fn read(&self, records: &mut Vec<u8>, woken: bool) -> Result<Read, BrokerError> {
        let found;
        let queue = match &self.queue {
            Some(queue) => queue,
            None => match self.shared.store.queue(self.topic.name(), self.queue_id as u32) {
                Some(queue) => {
                    found = queue;
                    &found
                }
                None => return Ok(self.outcome(ReadStatus::NoMessageInQueue, self.from, 0, 0, false)),
            },
        };
        let Ok(from) = u64::try_from(self.from) else {
            let (min, max) = (queue.min().0 as i64, queue.max().0 as i64);
            let status = if max == 0 { ReadStatus::NoMessageInQueue } else { ReadStatus::OffsetTooSmall };
            return Ok(self.outcome(status, self.from, min, max, false));
        };
        crate::sometimes!(woken, "a waiting pull was woken");
        let forgets = woken && self.shared.env.canary(Canary::WokenUnfiltered);
        let mut matches = Chosen(if forgets { &Filter::ALL } else { &self.filter });
        let outcome = self
            .shared
            .store
            .read(queue, QueueOffset(from), &self.limits, &mut matches, records)
            .map_err(|error| store_failure(&error))?;
        let broker = &self.shared.statistics.broker;
        if outcome.records > 0 {
            broker.found.add(1);
            broker.gets.add(u64::from(outcome.records));
            self.counters.gets.add(u64::from(outcome.records));
            self.counters.get_bytes.add(records.len() as u64);
        } else {
            broker.missed.add(1);
        }
        let status = match outcome.status {
            store::ReadStatus::Found => ReadStatus::Found,
            store::ReadStatus::NoMatchedMessage => ReadStatus::NoMatchedMessage,
            store::ReadStatus::MessageWasRemoving => ReadStatus::MessageWasRemoving,
            store::ReadStatus::OffsetFoundNull => ReadStatus::OffsetFoundNull,
            store::ReadStatus::OffsetOverflowBadly => ReadStatus::OffsetOverflowBadly,
            store::ReadStatus::OffsetOverflowOne => ReadStatus::OffsetOverflowOne,
            store::ReadStatus::OffsetTooSmall => ReadStatus::OffsetTooSmall,
            store::ReadStatus::NoMessageInQueue => ReadStatus::NoMessageInQueue,
        };
        let (mut next, min, max) = (outcome.next.0 as i64, outcome.min.0 as i64, outcome.max.0 as i64);
        if status == ReadStatus::NoMatchedMessage && self.shared.env.canary(Canary::UnmatchedSkipsAhead) {
            next = max;
        }
        Ok(self.outcome(status, next, min, max, outcome.cold))
    }

    fn outcome(&self, status: ReadStatus, examined_to: i64, min: i64, max: i64, far_behind: bool) -> Read {
        Read { status, from: self.from, examined_to, min, max, far_behind }
    }

    fn write(&self, out: &mut Vec<u8>, read: &Read, answer: &pull::Answer, records: &[u8]) {
        let suggested = self.report(read, answer);
        if !self.reply.oneway {
            let frame = self.begin(out, answer, suggested);
            out.extend_from_slice(records);
            frame.finish(out);
        }
    }

    /// Reports an answer that moves the group, and gives the broker that the client should ask next.
    fn report(&self, read: &Read, answer: &pull::Answer) -> i64 {
        let queue = || QueueKey::new(Arc::clone(self.topic.name()), self.queue_id);
        if let Some(moved) = pull::report_moved(read, answer, self.group.name(), queue) {
            self.shared.carry_out(vec![moved]);
        }
        pull::suggested_broker_id(&self.settings.pull, &self.group, read)
    }

    /// Begins the frame of an answer; its records follow.
    fn begin(&self, out: &mut Vec<u8>, answer: &pull::Answer, suggested: i64) -> ResponseFrame {
        let (reply, remark) = (self.reply, Some(answer.remark));
        ResponseFrame::begin(out, reply.serialization, reply.opaque, answer.code, remark, |ext| {
            ext.put_i64("suggestWhichBrokerId", suggested);
            ext.put_i64("nextBeginOffset", answer.next);
            ext.put_i64("minOffset", answer.min);
            ext.put_i64("maxOffset", answer.max);
        })
    }

    fn write_reset(&self, out: &mut Vec<u8>, target: i64) {
        let (min, max) = match self.shared.store.queue(self.topic.name(), self.queue_id as u32) {
            Some(queue) => (queue.min().0 as i64, queue.max().0 as i64),
            None => (0, 0),
        };
        let read = self.outcome(ReadStatus::OffsetReset, target, min, max, false);
        if let Verdict::Answer(answer) = pull::verdict(&read, false, false) {
            self.write(out, &read, &answer, &[]);
        }
    }

    /// Waits until the queue holds an entry at `from` that matches, the group is reset, or the request's time is up.
    async fn wait(mut self, from: i64) -> Option<Answer> {
        self.from = from;
        loop {
            let timed_out = match self.parked().await {
                Ok(timed_out) => timed_out,
                Err(error) => return self.reply.answer(pull_refusal(&error)),
            };
            if timed_out {
                self.deadline = None;
            }
            if let Some(target) = self.reset_meanwhile() {
                return Some(Box::new(move |out: &mut Vec<u8>| self.write_reset(out, target)) as Answer);
            }
            let mut records = Vec::new();
            match self.attempt(&mut records, true) {
                Ok((_, Verdict::Wait { from })) => self.from = from,
                Ok((read, Verdict::Answer(answer))) => {
                    return Some(Box::new(move |out: &mut Vec<u8>| self.write(out, &read, &answer, &records)) as Answer);
                }
                Err(error) => return self.reply.answer(pull_refusal(&error)),
            }
        }
    }

    /// Where the group was reset to since this pull began.
    fn reset_meanwhile(&mut self) -> Option<i64> {
        let resets = self.shared.resets.load(Ordering::SeqCst);
        if std::mem::replace(&mut self.resets_seen, resets) == resets {
            return None;
        }
        let group = self.group.name();
        let client = self.shared.clients().consumers.client_of(group, self.connection).cloned();
        let step = PullStep {
            group,
            topic: self.topic.name(),
            queue_id: self.queue_id,
            from: self.from,
            commit: None,
            by: client.as_ref().map_or(Who::Other, Who::Member),
            holder: None,
        };
        let mut effects = Vec::new();
        let target = self.shared.offsets().pull(step, self.shared.now(), &mut effects);
        self.shared.carry_out(effects);
        target
    }

    /// Parks until the queue is longer than `from` or a group was reset (false), or the deadline has passed (true).
    async fn parked(&mut self) -> Result<bool, BrokerError> {
        // A topic that is gone has no queue to wait on, and must not get one again by this.
        if self.shared.topic_directory.get(self.topic.name()).is_none() {
            return Err(BrokerError::PullTopicNotExist { topic: self.topic.name().to_string() });
        }
        let queue = match &self.queue {
            Some(queue) if !queue.is_deleted() => Arc::clone(queue),
            _ => self
                .shared
                .store
                .queue_or_create(self.topic.name(), self.queue_id as u32)
                .map_err(|error| store_failure(&error))?,
        };
        self.queue = Some(Arc::clone(&queue));
        let left = self.deadline.map_or(0, |deadline| deadline.since(self.shared.now()));
        let (wake, woken) = oneshot::channel();
        let from = QueueOffset(self.from.max(0) as u64);
        let lost = self.shared.env.canary(Canary::LostWakeUp) && self.shared.parked_pulls.load(Ordering::Relaxed) > 0;
        let wakes = Box::new(move |_| {
            if lost {
                return std::mem::forget(wake);
            }
            // The session may have ended meanwhile.
            let _ = wake.send(());
        });
        let Ok(id) = queue.add_waiter(from, wakes) else { return Ok(false) };
        let _parked = Parked::new(queue, id, Arc::clone(&self.shared));
        // Who resets a group counts first and wakes then: one of the two sees the other.
        if self.shared.resets.load(Ordering::SeqCst) != self.resets_seen {
            return Ok(false);
        }
        let timer = self.shared.env.clock.sleep(Duration::from_millis(left));
        match select(woken, timer).await {
            Either::Left(_) => Ok(false),
            Either::Right(_) => Ok(true),
        }
    }
}

enum Checked {
    Pull(Puller),
    /// The group was reset: the answer moves the client to `target`.
    Reset {
        puller: Puller,
        target: i64,
    },
}

impl Incoming<'_> {
    fn into_owned(self) -> Incoming<'static> {
        Incoming { header: self.header.into_owned(), ..self }
    }

    fn request(&self) -> PullRequest<'_> {
        PullRequest {
            lite: self.lite,
            group: &self.header.consumer_group,
            topic: &self.header.topic,
            queue_id: self.header.queue_id,
            sys_flag: self.header.sys_flag,
            subscription: self.header.subscription.as_deref(),
            sub_version: self.header.sub_version,
            expression_type: self.header.expression_type.as_deref(),
            connection: self.connection,
            peer: self.peer,
        }
    }

    /// The offset to commit. One that the queue has not reached is none: see `offsets::check_commit`.
    fn commit(&self, request: &PullRequest<'_>, queue: Option<&ConsumeQueue>, slave: bool) -> Option<i64> {
        let offset = self.header.commit_offset;
        let end = queue.map_or(0, |queue| queue.max().0 as i64);
        // A slave's queue may lag behind what its groups have consumed at the master.
        let max = if slave { i64::MAX } else { end };
        (request.commits() && (0..=max).contains(&offset)).then_some(offset)
    }

    fn check(
        &self,
        shared: &Arc<Shared>,
        group: Option<Arc<GroupView>>,
        topic: Option<Arc<TopicView>>,
        counters: Option<Arc<GroupCounters>>,
        expressions: &mut Expressions,
    ) -> Result<Checked, BrokerError> {
        let settings = shared.settings();
        let request = self.request();
        let mut clients = shared.clients();
        let (known_group, known_topic) = (group.as_deref(), topic.as_deref());
        let members = &clients.consumers;
        let filter = pull::check(&settings.pull, &request, known_group, known_topic, members, expressions)?;
        let (Some(group), Some(topic), Some(counters)) = (group, topic, counters) else {
            return Err(BrokerError::PullTopicNotExist { topic: request.topic.to_owned() });
        };
        if let Some(expression) = request.own_expression() {
            clients.pull_subscriptions.note(request.group, request.topic, expression, shared.now());
        }
        drop(clients);

        let resets_seen = shared.resets.load(Ordering::SeqCst);
        let queue = shared.store.queue(topic.name(), request.queue_id as u32);
        let key = QueueKey::new(Arc::clone(topic.name()), request.queue_id);
        let (client, holder) = shared.committer(request.group, &key, self.connection);
        let mut effects = Vec::new();
        let reset = shared.offsets().pull(
            PullStep {
                group: request.group,
                topic: topic.name(),
                queue_id: request.queue_id,
                from: self.header.queue_offset,
                commit: self.commit(&request, queue.as_deref(), shared.role.is_slave()),
                by: client.as_ref().map_or(Who::Other, Who::Member),
                holder: holder.as_deref(),
            },
            shared.now(),
            &mut effects,
        );
        shared.carry_out(effects);

        let config = &settings.config;
        let hold_ms = match config.long_polling_enable {
            true => self.header.suspend_timeout_millis.clamp(0, HOLD_MS_MAX),
            false => config.short_polling_time_ms as i64,
        };
        let hold_ms = pull::hold_ms(&settings.pull, hold_ms);
        let puller = Puller {
            shared: Arc::clone(shared),
            queue,
            queue_id: request.queue_id,
            from: self.header.queue_offset,
            limits: limits(&self.header, config),
            filter,
            reply: self.reply,
            connection: self.connection,
            resets_seen,
            deadline: request.may_wait().then(|| shared.now().plus(hold_ms)),
            settings,
            group,
            topic,
            counters,
        };
        Ok(match reset {
            Some(target) => Checked::Reset { puller, target },
            None => Checked::Pull(puller),
        })
    }
}

/// What the client asks for, and what the settings give at most.
fn limits(header: &PullHeader<'_>, config: &BrokerConfig) -> ReadLimits {
    ReadLimits {
        records: header.max_msg_nums.max(0) as u32,
        bytes: header.max_msg_bytes.filter(|bytes| *bytes > 0).map_or(u32::MAX, |bytes| bytes as u32),
        recent: Portion {
            records: config.max_transfer_count_on_message_in_memory,
            bytes: config.max_transfer_bytes_on_message_in_memory,
        },
        cold: Portion {
            records: config.max_transfer_count_on_message_in_disk,
            bytes: config.max_transfer_bytes_on_message_in_disk,
        },
    }
}

/// A pull of a group that is not there yet: it is made, if the settings allow it. A full disk that does not take it is no
/// reason to withhold messages: the group is there, and is saved when it can be.
async fn pull_for_new_group(shared: Arc<Shared>, incoming: Incoming<'static>) -> Option<Answer> {
    let mut effects = Vec::new();
    let group = shared.groups().find_or_create(&incoming.header.consumer_group, shared.wall(), &mut effects);
    // The keeper has logged the error.
    let _ = shared.carry_out_now(effects).await;
    let topic = shared.topic_directory.get(&incoming.header.topic);
    let counters = topic.as_ref().zip(group.as_ref());
    let counters = counters.map(|(topic, group)| shared.statistics.group(topic.name(), group.name()));
    match incoming.check(&shared, group, topic, counters, &mut Expressions::default()) {
        Ok(Checked::Pull(puller)) => {
            let mut output = Output::default();
            puller.serve(&mut output);
            output.into_answer().await
        }
        Ok(Checked::Reset { puller, target }) => {
            Some(Box::new(move |out: &mut Vec<u8>| puller.write_reset(out, target)) as Answer)
        }
        Err(error) => incoming.reply.answer(pull_refusal(&error)),
    }
}

/// A refused pull, with the reason of a forbidden one.
fn pull_refusal(error: &BrokerError) -> Response {
    let response = refusal(error);
    match error.forbidden_type() {
        Some(kind) => response.with("forbiddenType", kind.to_string()),
        None => response,
    }
}
