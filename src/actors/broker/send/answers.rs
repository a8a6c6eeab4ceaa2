//! The answers to sends.

use super::batch::SendAnswer;
use crate::actors::broker::errors::{send_refusal, store_failure};
use crate::actors::broker::shared::{Settings, Shared};
use crate::actors::log_writer::{Appended, Durability};
use crate::broker::BrokerError;
use crate::proto::message::ids;
use crate::proto::remoting::{response, ExtSink, ResponseFrame};
use crate::store::AppendResult;

/// Answers the sends of one batch; `scratch` is room for their message ids. Without `appended` the log writer is gone and nothing is known about them.
pub(super) fn write_answers(
    out: &mut Vec<u8>,
    shared: &Shared,
    settings: &Settings,
    appended: Option<&Appended>,
    (answers, unique_keys): (&[SendAnswer], &str),
    scratch: &mut String,
) {
    let (mut puts, mut failed) = (0, 0);
    for answer in answers {
        let results = appended.and_then(|appended| appended.results.get(answer.records.clone())).unwrap_or_default();
        let stored = results.iter().flatten().filter(|one| one.repeated_in.is_none());
        let (count, bytes) =
            stored.fold((0, 0), |(count, bytes), one| (count + 1, bytes + (one.end.0 - one.physical.0)));
        puts += count;
        failed += (answer.records.len() - results.iter().flatten().count()) as u64;
        answer.counters.puts.add(count);
        answer.counters.put_bytes.add(bytes);
        if answer.reply.oneway {
            continue;
        }
        let durability = appended.map_or(Durability::SyncFailed, |appended| appended.durability);
        let unique_key = &unique_keys[answer.unique_key.clone()];
        let stored = (results, durability, unique_key);
        if let Err(error) = write_stored(out, shared, settings, answer, stored, scratch) {
            answer.reply.write(out, &send_refusal(&settings.send, &error));
        }
    }
    shared.statistics.broker.puts.add(puts);
    shared.statistics.broker.failed_puts.add(failed);
}

fn write_stored(
    out: &mut Vec<u8>,
    shared: &Shared,
    settings: &Settings,
    answer: &SendAnswer,
    (results, durability, unique_key): (&[AppendResult], Durability, &str),
    message_ids: &mut String,
) -> Result<(), BrokerError> {
    let code = match durability {
        Durability::AsPromised => response::SUCCESS,
        Durability::SyncTimedOut => response::FLUSH_DISK_TIMEOUT,
        Durability::ReplicationTimedOut => response::FLUSH_SLAVE_TIMEOUT,
        Durability::NotReplicated => response::SLAVE_NOT_AVAILABLE,
        Durability::SyncFailed => {
            let what = "the log could not be synced: the message may or may not be stored".to_owned();
            return Err(BrokerError::StoreFailed { what });
        }
    };
    message_ids.clear();
    let mut first = None;
    for result in results {
        let stored = result.as_ref().map_err(store_failure)?;
        first.get_or_insert((stored.queue_offset, stored.repeated_in));
        if !message_ids.is_empty() {
            message_ids.push(',');
        }
        ids::push_offset_message_id(message_ids, shared.advertised, stored.physical);
    }
    let Some((first, repeated_in)) = first else {
        let what = "the log writer has stopped: the message may or may not be stored".to_owned();
        return Err(BrokerError::StoreFailed { what });
    };
    let reply = answer.reply;
    let frame = ResponseFrame::begin(out, reply.serialization, reply.opaque, code, None, |ext| {
        ext.put_str("msgId", message_ids);
        ext.put_i64("queueId", repeated_in.map_or(i64::from(answer.queue_id), i64::from));
        ext.put_i64("queueOffset", first.0 as i64);
        if !unique_key.is_empty() {
            ext.put_str("transactionId", unique_key);
        }
        if let Some(handle) = &answer.recall_handle {
            ext.put_str("recallHandle", handle);
        }
        ext.put_str("MSG_REGION", &settings.send.region);
        ext.put_bool("TRACE_ON", settings.send.trace_on);
    });
    frame.finish(out);
    Ok(())
}
