//! Producers that do not decide are asked, and what nobody decides is given up.

use ractor::{ActorRef, MessagingErr};

use super::{Outcomes, State, TransactionMessage};
use crate::actors::broker::restore::{self, Unmoved};
use crate::actors::net::ConnectionHandle;
use crate::broker::delay::real_destination;
use crate::broker::transaction::{
    put_again_edits, CheckRules, Decision, Due, DueKind, Place, TransactionId, ROLL_DISTANCE,
};
use crate::broker::{Effect, Report};
use crate::env::Canary;
use crate::proto::message::encode::patch_offsets;
use crate::proto::message::{
    encode_record, hash, ids, parse, properties, system, BodyCrc, NewRecord, Parsed, RecordView,
};
use crate::proto::remoting::requests::CheckTransactionState;
use crate::proto::remoting::{request, Command};
use crate::proto::QueueOffset;
use crate::store::AppendBatch;

/// Transactions that are looked at in one step of a round.
const STEP_MAX: usize = 256;
/// Bytes of records that go to the log writer in one step; the one that passes them is the last.
const STEP_BYTES: usize = 4 << 20;
/// A half is given up this many rounds before its record expires.
const ROUNDS_BEFORE_EXPIRY: u64 = 2;

/// A round of questions under way: the transactions whose halves lie in this range are still to be looked at. Those that
/// are put again lie behind it.
pub(super) struct Pass {
    from: QueueOffset,
    to: QueueOffset,
}

/// A transaction that is being put again or given up.
struct Step {
    due: Due,
    id: TransactionId,
    /// The item of its new half, or of its op.
    item: usize,
    /// Whom to ask.
    asked: Vec<ConnectionHandle>,
}

impl State {
    /// Begins a round of questions, unless the last one is not over.
    pub(super) async fn begin_pass(&mut self, myself: &ActorRef<TransactionMessage>) {
        if self.is_slave() || self.pass.is_some() {
            return;
        }
        let loaded = self.load().await;
        self.reading.note("read transactions", &loaded);
        self.follow();
        if let Some(ledger) = &self.ledger {
            self.pass = Some(Pass { from: QueueOffset(0), to: ledger.next() });
            // If the actor is gone nobody is asked.
            let _ = myself.cast(TransactionMessage::Ask);
        }
    }

    /// One step of a round; requests that came meanwhile have their turn before the next.
    pub(super) async fn ask(
        &mut self,
        myself: &ActorRef<TransactionMessage>,
    ) -> Result<(), MessagingErr<TransactionMessage>> {
        let Some(mut pass) = self.pass.take().filter(|_| !self.is_slave()) else { return Ok(()) };
        self.pay().await;
        let rules = self.check_rules();
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let due = ledger.due(pass.from..pass.to, STEP_MAX, &rules, self.shared.now());
        if due.is_empty() {
            return Ok(());
        }
        if due.iter().any(|due| due.kind == DueKind::GiveUp) && !self.ensure_topic().await {
            return Ok(());
        }
        let (mut batch, mut steps) = (AppendBatch::default(), Vec::new());
        for due in due {
            if batch.bytes.len() >= STEP_BYTES {
                break;
            }
            pass.from = QueueOffset(due.half.0 + 1);
            match self.prepare_step(due, &mut batch) {
                Ok(step) => steps.extend(step),
                Err(Unmoved::Now(error)) => tracing::warn!(half = due.half.0, %error, "a half message waits"),
                Err(Unmoved::Ever(why)) => self.half_is_lost(due.half, why.why()),
            }
        }
        if !steps.is_empty() {
            let outcomes = self.append(batch).await;
            self.take_steps(&steps, &outcomes);
        }
        self.pass = Some(pass);
        myself.cast(TransactionMessage::Ask)
    }

    fn check_rules(&self) -> CheckRules {
        let config = &self.shared.settings().config;
        let reserved_ms = config.file_reserved_time.saturating_mul(3_600_000);
        CheckRules {
            timeout_ms: config.transaction_time_out,
            checks_max: config.transaction_check_max,
            age_max_ms: reserved_ms.saturating_sub(config.transaction_check_interval * ROUNDS_BEFORE_EXPIRY),
        }
    }

    /// The topic for what is given up has to be there first: a message in a topic that is not saved is not found.
    async fn ensure_topic(&mut self) -> bool {
        let mut effects = Vec::new();
        let wall = self.shared.wall();
        let made = self.shared.topics().ensure(system::TRANS_CHECK_MAX_TIME_TOPIC, 1, false, 0, wall, &mut effects);
        let made = match made {
            Ok(_) => self.shared.carry_out_now(effects).await,
            Err(error) => Err(error.to_string()),
        };
        self.writing.note("make the topic for transactions that are given up", &made);
        made.is_ok()
    }

    /// Nobody can decide about it any more.
    fn half_is_lost(&mut self, half: QueueOffset, why: &'static str) {
        let report = Report::HalfMessagesLost { from: half, to: QueueOffset(half.0 + 1), why };
        self.shared.carry_out(vec![Effect::Report(report)]);
        if let Some(ledger) = &mut self.ledger {
            ledger.on_lost(half);
            self.shared.half_messages.publish(ledger);
        }
    }

    /// Writes what a transaction needs into the batch; `None` if it needs nothing now.
    fn prepare_step(&mut self, due: Due, batch: &mut AppendBatch) -> Result<Option<Step>, Unmoved> {
        let Some(ledger) = &self.ledger else { return Ok(None) };
        let Some(id) = ledger.id_of(due.half).cloned() else { return Ok(None) };
        let mut bytes = Vec::new();
        let record = restore::read(&self.shared, due.position, &mut bytes)?;
        if due.kind == DueKind::GiveUp {
            let item = self.push_given_up(due.half, &record, batch)?;
            return Ok(Some(Step { due, id, item, asked: Vec::new() }));
        }
        let asked = self.producers(&id.group);
        let counts = !asked.is_empty() || self.shared.env.canary(Canary::UnaskedCounts);
        if asked.is_empty() {
            // TXN-6: what nobody hears is no question. Its group may come back, and decide then.
            crate::sometimes!("nobody was there to be asked about a transaction");
            self.shared.carry_out(vec![Effect::Report(Report::NobodyToAsk { group: id.group.clone() })]);
        }
        if !counts && ledger.next().0 - due.half.0 < ROLL_DISTANCE {
            return Ok(None);
        }
        let checks = ledger.checks_of(due.half).saturating_add(u32::from(counts)).to_string();
        let first = ledger.first_of(due.half).0.to_string();
        let (text, edits) = (record.properties(), put_again_edits(&checks, &first));
        let tags_code = properties::find(&text, properties::TAGS).map_or(0, hash::tags_code);
        let half = NewRecord { edits: &edits, ..NewRecord::copy_of(&record, system::TRANS_HALF_TOPIC, &text) };
        let group = batch.next_group();
        restore::push(&self.shared, &mut self.queues, batch, group, &half, tags_code)?;
        Ok(Some(Step { due, id, item: batch.items.len() - 1, asked }))
    }

    /// Copies a half into the topic for what is given up, with the op that ends its transaction.
    fn push_given_up(
        &mut self,
        half: QueueOffset,
        record: &RecordView<'_>,
        batch: &mut AppendBatch,
    ) -> Result<usize, Unmoved> {
        let text = record.properties();
        let copy = NewRecord { queue_id: 0, ..NewRecord::copy_of(record, system::TRANS_CHECK_MAX_TIME_TOPIC, &text) };
        let tags_code = properties::find(&text, properties::TAGS).map_or(0, hash::tags_code);
        let (group, bytes, items) = (batch.next_group(), batch.bytes.len(), batch.items.len());
        if !self.shared.env.canary(Canary::NoGivenUpTopic) {
            restore::push(&self.shared, &mut self.queues, batch, group, &copy, tags_code)?;
        }
        let named = self.ledger.as_ref().map_or(Vec::new(), |ledger| ledger.op_of(half));
        self.push_op(batch, group, &named).inspect_err(|_| {
            batch.bytes.truncate(bytes);
            batch.items.truncate(items);
        })
    }

    /// Takes note of what is stored, and asks.
    fn take_steps(&mut self, steps: &[Step], outcomes: &Outcomes) {
        let mut outcome = Ok(());
        for step in steps {
            let Some(ledger) = &mut self.ledger else { return };
            let stored = match outcomes.stored(step.item) {
                Ok(stored) => stored,
                Err(error) => {
                    // The next round tries again: what is given up is never dropped.
                    outcome = Err(error);
                    continue;
                }
            };
            let half = step.due.half;
            let place = Place { offset: stored.queue_offset, position: stored.physical };
            if step.due.kind == DueKind::GiveUp {
                let checks = ledger.checks_of(half);
                ledger.on_ended(half, Decision::GivenUp, place);
                self.shared.carry_out(vec![Effect::Report(Report::TransactionGivenUp { id: step.id.clone(), checks })]);
                continue;
            }
            let counts = !step.asked.is_empty() || self.shared.env.canary(Canary::UnaskedCounts);
            ledger.on_put_again(half, place, counts);
            let record = outcomes.record(step.item);
            let question = record.and_then(|record| self.question(&record, &step.id));
            let heard = question.is_some_and(|question| self.send_question(&step.asked, question));
            if let Some(ledger) = self.ledger.as_mut().filter(|_| counts && !heard && !step.asked.is_empty()) {
                ledger.on_not_asked(place.offset);
            }
        }
        if let Some(ledger) = &self.ledger {
            self.shared.half_messages.publish(ledger);
        }
        self.writing.note("put half messages again", &outcome);
    }

    /// The connections of a producer group.
    fn producers(&self, group: &str) -> Vec<ConnectionHandle> {
        let clients = self.shared.clients();
        let connections = self.shared.connections();
        let members = clients.producers.members(group).map(|member| member.connection.id);
        members.filter_map(|id| connections.get(&id)).filter(|handle| !handle.is_closed()).cloned().collect()
    }

    /// CHECK_TRANSACTION_STATE: the half message as its producer sent it.
    fn question(&self, half: &RecordView<'_>, id: &TransactionId) -> Option<Command> {
        let text = half.properties();
        let to = real_destination(&text).ok()?;
        let message = NewRecord { queue_id: to.queue_id, ..NewRecord::copy_of(half, &to.topic, &text) };
        let mut body = Vec::new();
        encode_record(&mut body, &message).ok()?;
        patch_offsets(&mut body, half.queue_offset(), half.physical_offset(), half.store_timestamp());
        let settings = self.shared.settings();
        let header = CheckTransactionState {
            topic: Some(system::TRANS_HALF_TOPIC.into()),
            tran_state_table_offset: half.queue_offset().0 as i64,
            commit_log_offset: half.physical_offset().0 as i64,
            msg_id: Some((&*id.key).into()),
            transaction_id: Some((&*id.key).into()),
            offset_msg_id: Some(ids::offset_message_id(half.store_host(), half.physical_offset()).into()),
            broker_name: Some(settings.config.broker_name.as_str().into()),
        };
        Some(Command::request(request::CHECK_TRANSACTION_STATE).with_ext(&header).with_body(body).oneway())
    }

    /// Asks one of the producers, any: the next one if one takes no more requests (TXN-6).
    fn send_question(&self, producers: &[ConnectionHandle], question: Command) -> bool {
        if producers.is_empty() {
            return false;
        }
        let first = (self.shared.env.rng.next_u64() % producers.len() as u64) as usize;
        let mut in_turn = producers[first..].iter().chain(&producers[..first]);
        in_turn.any(|producer| producer.send_one_way(question.clone()).is_ok())
    }
}

impl Outcomes {
    /// An item as it was stored.
    fn record(&self, item: usize) -> Option<RecordView<'_>> {
        let batch = &self.0.as_ref()?.batch;
        let item = batch.items.get(item)?;
        match parse(batch.bytes.get(item.start..item.start + item.len)?, BodyCrc::Trust) {
            Ok(Parsed::Record(record)) => Some(record),
            _ => None,
        }
    }
}
