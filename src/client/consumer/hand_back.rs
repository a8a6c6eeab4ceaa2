//! Giving back a message that could not be consumed: it comes again through its group's retry topic, or goes to the dead
//! letters.

use super::core::Core;
use crate::client::compression::{pack, CompressionType};
use crate::client::error::Error;
use crate::client::instance::refusal;
use crate::client::message::Received;
use crate::client::remote::ANSWER_LIMIT;
use crate::client::rules::route::TEMPLATE_TOPIC;
use crate::proto::message::properties::{self, Edit};
use crate::proto::message::sys_flag;
use crate::proto::remoting::requests::{ConsumerSendMsgBack, SendHeader, SendNames};
use crate::proto::remoting::{request, response, Command, Text};

/// The delay level that means never.
pub(super) const TO_DEAD_LETTERS: i32 = -1;
/// The group in whose name consumers send.
const INNER_PRODUCER: &str = "CLIENT_INNER_PRODUCER";
/// The level of a first retry; each further one is a level higher.
const FIRST_LEVEL: i32 = 3;
/// Bodies from so many bytes on travel compressed.
const COMPRESS_ABOVE: usize = 4096;

/// Hands a message back to the broker it came from, which keeps its bytes; if that fails, sends it to the retry topic as a
/// message of its own. After `Ok` it is safe there (RTY-1, RTY-6).
pub(super) async fn hand_back(core: &Core, message: &Received, level: i32) -> Result<(), Error> {
    let Some(recorder) = core.recorder() else { return give_back(core, message, level).await };
    recorder.handing_back(&core.group, message);
    give_back(core, message, level).await?;
    let hopeless = level < 0 || message.reconsume_times >= core.max_reconsume_times();
    recorder.handed_back(&core.group, message, hopeless);
    Ok(())
}

async fn give_back(core: &Core, message: &Received, level: i32) -> Result<(), Error> {
    let header = ConsumerSendMsgBack {
        offset: message.physical_offset,
        group: core.group.as_str().into(),
        delay_level: level,
        origin_msg_id: Some(message.message_id().into()),
        origin_topic: Some((&*message.topic).into()),
        unit_mode: false,
        max_reconsume_times: Some(core.max_reconsume_times()),
    };
    let command = Command::request(request::CONSUMER_SEND_MSG_BACK).with_ext(&header);
    let Err(error) = core.client.ask_master(&message.queue, command).await else { return Ok(()) };
    tracing::debug!(message = message.message_id(), %error, "not taken back; it is sent to the retry topic instead");
    let hopeless = level < 0;
    send_to_retry(core, message, hopeless, (level > 0).then_some(level)).await
}

/// Sends a copy of a message to its group's retry topic. A hopeless one, or one that failed too often, is moved to the dead
/// letters by the broker.
pub(super) async fn send_to_retry(
    core: &Core,
    message: &Received,
    hopeless: bool,
    level: Option<i32>,
) -> Result<(), Error> {
    let topic = core.retry_topic();
    let route = core.client.route(&topic).await;
    let queue = route.ok().and_then(|route| {
        // The message's own broker first: it is there.
        let own = route.writable.iter().find(|queue| queue.broker_name == message.queue.broker_name);
        own.or(route.writable.first()).cloned()
    });
    let (broker, queue_id) =
        queue.map_or((message.queue.broker_name.clone(), 0), |queue| (queue.broker_name, queue.queue_id));
    let address = core.client.master(&broker)?;

    let times = message.reconsume_times.saturating_add(1);
    let most = core.max_reconsume_times();
    let (times, most) = if hopeless { (times, times - 1) } else { (times, most) };
    let level = level.unwrap_or(FIRST_LEVEL.saturating_add(message.reconsume_times)).to_string();
    let (origin, times_text, most_text) = (message.offset_message_id(), times.to_string(), most.to_string());
    let text = properties::edited(
        &message.properties,
        &[
            Edit::SetIfAbsent(properties::RETRY_TOPIC, &message.topic),
            Edit::SetIfAbsent(properties::ORIGIN_MESSAGE_ID, &origin),
            Edit::Set(properties::RECONSUME_TIME, &times_text),
            Edit::Set(properties::MAX_RECONSUME_TIMES, &most_text),
            Edit::Set(properties::DELAY, &level),
            Edit::Remove(properties::TRANSACTION_PREPARED),
        ],
    );
    // A body that could not be unpacked goes on as it came, with the bits that say so.
    let came_packed = if message.body_error.is_some() {
        message.sys_flag & (sys_flag::COMPRESSED | sys_flag::COMPRESSION_MASK)
    } else {
        0
    };
    // Whoever read it the first time reads its compression.
    let kind = CompressionType::of(message.sys_flag);
    let packs = came_packed == 0 && message.body.len() >= COMPRESS_ABOVE;
    let packed = packs.then(|| pack(kind, &message.body)).flatten();
    let (body, flags) = packed.unwrap_or_else(|| (message.body.clone(), came_packed));
    let header = SendHeader {
        producer_group: INNER_PRODUCER.into(),
        topic: topic.as_str().into(),
        default_topic: TEMPLATE_TOPIC.into(),
        default_topic_queue_nums: 1,
        queue_id,
        sys_flag: flags,
        born_timestamp: message.born_at.0,
        flag: message.flag,
        properties: Text::plain(&text),
        reconsume_times: times,
        max_reconsume_times: Some(most),
        broker_name: Some(broker.as_str().into()),
        ..SendHeader::default()
    };
    let command = Command::request(request::SEND_MESSAGE_V2).with_ext(&(SendNames::V2, &header)).with_body(body);
    let answer = core.client.connections.call(&address, command, ANSWER_LIMIT).await?;
    match answer.code {
        response::SUCCESS
        | response::FLUSH_DISK_TIMEOUT
        | response::FLUSH_SLAVE_TIMEOUT
        | response::SLAVE_NOT_AVAILABLE => Ok(()),
        _ => Err(refusal(&address, answer)),
    }
}
