//! A consumer hands a message back: it comes again later, or goes to the group's dead letters.

use super::{Call, Refused};
use crate::actors::broker::errors::store_failure;
use crate::actors::broker::send::tags_code;
use crate::actors::broker::shared::Shared;
use crate::broker::clients::UNIT_SUBSCRIPTION;
use crate::broker::send_back::{plan, precheck, RetryQueues, SendBackRequest};
use crate::broker::{BrokerError, Effect};
use crate::env::Canary;
use crate::proto::message::{encode_record, ids, names, parse, properties, BodyCrc, NewRecord, Parsed};
use crate::proto::remoting::requests::ConsumerSendMsgBack;
use crate::proto::remoting::Response;
use crate::proto::PhysicalOffset;
use crate::store::{AppendBatch, StoreError};

/// 36. Everything about the message is taken from its record: C++ clients send neither its topic nor its id.
pub async fn send_back(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = ConsumerSendMsgBack::decode(&ext)?;
    let request = SendBackRequest {
        offset: header.offset,
        group: &header.group,
        delay_level: header.delay_level,
        max_reconsume_times: header.max_reconsume_times,
        client_version: call.command.version,
    };
    let mut effects = Vec::new();
    let copied = copy(&call.shared, &request, header.unit_mode, &mut effects);
    // The group and its topics are saved whatever came of the rest, and before the copy can be met under their names.
    call.shared.carry_out_now(effects).await?;
    if let Some(batch) = copied? {
        let stored = call.shared.append_one(batch).await;
        if !call.shared.env.canary(Canary::HandBackErrorIgnored) {
            stored?;
        }
    }
    Ok(Response::success())
}

/// The copy to store; `None` if the group keeps no retries.
fn copy(
    shared: &Shared,
    request: &SendBackRequest<'_>,
    unit_mode: bool,
    effects: &mut Vec<Effect>,
) -> Result<Option<AppendBatch>, BrokerError> {
    let settings = shared.settings();
    let (rules, wall) = (&settings.send, shared.wall());
    // A slave refuses, and makes no group before.
    let group = if rules.role.is_slave() { None } else { shared.groups().find_or_create(request.group, wall, effects) };
    let checked = precheck(rules, request, group.as_deref())?;
    let (Some(RetryQueues { count }), Some(group)) = (checked, group) else { return Ok(None) };
    let sys_flag = if unit_mode { UNIT_SUBSCRIPTION } else { 0 };
    let retry_topic = names::retry_topic(request.group);
    let retry_topic = shared.topics().ensure(&retry_topic, count, false, sys_flag, wall, effects)?;

    let mut bytes = Vec::new();
    read_record(shared, request.offset, &mut bytes)?;
    // A damaged body must not be copied under a checksum that fits.
    let Ok(Parsed::Record(record)) = parse(&bytes, BodyCrc::Verify) else {
        return Err(BrokerError::NoRecord { offset: request.offset });
    };
    let message_id = ids::offset_message_id(record.store_host(), record.physical_offset());
    let random = shared.env.rng.next_u64();
    let plan = plan(rules, request, &group, &retry_topic, &record, &message_id, random)?;
    if names::is_dlq_topic(&plan.topic) {
        if shared.env.canary(Canary::NoDeadLetter) {
            return Ok(None);
        }
        shared.topics().ensure(&plan.topic, 1, false, 0, wall, effects)?;
    }
    let queue =
        shared.store.queue_or_create(&plan.topic, plan.queue_id as u32).map_err(|error| store_failure(&error))?;
    let copy = NewRecord {
        queue_id: plan.queue_id,
        reconsume_times: match shared.env.canary(Canary::RetryForEver) {
            true => record.reconsume_times(),
            false => plan.reconsume_times,
        },
        store_host: shared.advertised,
        ..NewRecord::copy_of(&record, &plan.topic, &plan.properties)
    };
    let mut batch = AppendBatch::default();
    encode_record(&mut batch.bytes, &copy).map_err(|_| rules.illegal())?;
    batch.push(0, queue, tags_code(plan.entry_code));
    let (text, topic) = (record.properties(), record.topic());
    let origin = properties::find(&text, properties::RETRY_TOPIC).unwrap_or(&topic);
    shared.statistics.group(origin, request.group).send_backs.add(1);
    Ok(Some(batch))
}

fn read_record(shared: &Shared, offset: i64, out: &mut Vec<u8>) -> Result<(), BrokerError> {
    let at = u64::try_from(offset).map_err(|_| BrokerError::NoRecord { offset })?;
    shared.store.record_at(PhysicalOffset(at), out).map_err(|error| match error {
        StoreError::NoRecord { .. } => BrokerError::NoRecord { offset },
        error => store_failure(&error),
    })
}
