//! Replies of request-reply: pushed to the client that asked, and stored.

use std::borrow::Cow;
use std::time::Duration;

use futures::future::{join, OptionFuture};

use super::{Call, Refused};
use crate::actors::broker::errors::{send_refusal, store_failure};
use crate::actors::broker::send::tags_code;
use crate::actors::broker::shared::Settings;
use crate::broker::send::SendRequest;
use crate::broker::topics::FirstSend;
use crate::broker::{BrokerError, Effect};
use crate::env::{Canary, Millis};
use crate::proto::message::properties::{self, Edit};
use crate::proto::message::{encode_record, ids, NewRecord};
use crate::proto::remoting::requests::{PushReplyMessage, SendHeader, SendResponse};
use crate::proto::remoting::{request, response, Command, Response};
use crate::store::AppendBatch;

/// How long the client that asked may take to confirm.
const PUSH_LIMIT: Duration = Duration::from_secs(10);

/// 324 and 325. A reply whose requester is not here is stored all the same; the one who replied is told.
pub async fn reply(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = SendHeader::decode(call.command.code, &ext)?;
    let text = header.properties.str();
    let shared = &call.shared;
    let settings = shared.settings();
    let mut effects = Vec::new();
    let encoded = encode(call, &settings, &header, &text, &mut effects);
    shared.carry_out_now(effects).await?;
    let (batch, queue_id) = encoded.map_err(|error| Refused(send_refusal(&settings.send, &error)))?;

    let storing = OptionFuture::from(settings.config.store_reply_message_enable.then(|| shared.append_one(batch)));
    let (pushed, stored) = join(push(call, &header, &text), storing).await;
    let mut answer = match pushed {
        Ok(()) => Response::success(),
        Err(what) => Response::error(response::SYSTEM_ERROR, what),
    };
    let stored =
        stored.and_then(|stored| stored.inspect_err(|error| tracing::warn!(%error, "a reply was not stored")).ok());
    let message_id = stored.map(|stored| ids::offset_message_id(shared.advertised, stored.physical));
    SendResponse {
        msg_id: message_id.map_or(Cow::Borrowed("0"), Cow::Owned),
        queue_id: if stored.is_some() { queue_id } else { 0 },
        queue_offset: stored.map_or(0, |stored| stored.queue_offset.0 as i64),
        transaction_id: None,
        region: Some(settings.send.region.as_str().into()),
        trace_on: Some(settings.send.trace_on),
        batch_uniq_id: None,
        recall_handle: None,
    }
    .encode(&mut answer.ext);
    Ok(answer)
}

/// The reply's record, checked as every send is, and the queue it goes to.
fn encode(
    call: &Call,
    settings: &Settings,
    header: &SendHeader<'_>,
    text: &str,
    effects: &mut Vec<Effect>,
) -> Result<(AppendBatch, i32), BrokerError> {
    let shared = &call.shared;
    let request = SendRequest {
        topic: &header.topic,
        queue_id: header.queue_id,
        sys_flag: header.sys_flag,
        properties: text,
        reconsume_times: header.reconsume_times,
        max_reconsume_times: header.max_reconsume_times,
        body: &call.command.body,
        client_version: call.command.version,
        peer: call.peer,
    };
    settings.send.precheck(&request, || shared.wall())?;
    let first_send = FirstSend {
        topic: request.topic,
        default_topic: &header.default_topic,
        default_topic_queue_nums: header.default_topic_queue_nums,
        sys_flag: i32::from(header.unit_mode),
    };
    let topic = shared.topics().create_on_send(first_send, shared.wall(), effects)?;
    let plan = settings.send.plan(&request, &topic, None, shared.env.rng.next_u64(), || shared.wall())?;
    let (target, queue_id) = plan.target.place();
    let queue = shared.store.queue_or_create(target, queue_id as u32).map_err(|error| store_failure(&error))?;
    let unique_key = shared.unique_keys.next(shared.wall());
    let record = NewRecord {
        topic: target,
        queue_id,
        flag: header.flag,
        sys_flag: plan.sys_flag,
        born_timestamp: Millis(header.born_timestamp),
        born_host: call.peer,
        store_host: shared.advertised,
        reconsume_times: header.reconsume_times,
        prepared_transaction_offset: 0,
        body: request.body,
        properties: text,
        edits: &plan.edits(&settings.send, &unique_key),
    };
    let mut batch = AppendBatch::default();
    encode_record(&mut batch.bytes, &record).map_err(|_| settings.send.illegal())?;
    batch.push(0, queue, tags_code(plan.entry_code));
    Ok((batch, plan.reply_queue_id))
}

/// 326: hands the reply to the client that waits for it. The error says why it did not get it.
async fn push(call: &Call, header: &SendHeader<'_>, text: &str) -> Result<(), String> {
    let shared = &call.shared;
    let Some(client) = properties::find(text, properties::REPLY_TO_CLIENT) else {
        return Err(format!("reply message properties[{}] is null", properties::REPLY_TO_CLIENT));
    };
    let connection = shared.clients().producers.connection_of(client);
    let connection = if shared.env.canary(Canary::ReplyGoesBack) { Some(call.connection.id()) } else { connection };
    let handle = connection.and_then(|connection| shared.connections().get(&connection).cloned());
    let Some(handle) = handle else { return Err(format!("push reply message fail, channel of <{client}> not found.")) };
    let now = shared.wall();
    let text = properties::edited(text, &[Edit::Set(properties::PUSH_REPLY_TIME, &now.0.to_string())]);
    let pushed = PushReplyMessage {
        producer_group: header.producer_group.as_ref().into(),
        topic: header.topic.as_ref().into(),
        default_topic: header.default_topic.as_ref().into(),
        default_topic_queue_nums: header.default_topic_queue_nums,
        queue_id: header.queue_id,
        sys_flag: header.sys_flag,
        born_timestamp: header.born_timestamp,
        flag: header.flag,
        properties: Some(text.into()),
        reconsume_times: header.reconsume_times,
        unit_mode: header.unit_mode,
        born_host: call.peer.to_string().into(),
        store_host: shared.advertised.to_string().into(),
        store_timestamp: now.0,
    };
    let command = Command::request(request::PUSH_REPLY_MESSAGE_TO_CLIENT)
        .with_ext(&pushed)
        .with_body(call.command.body.as_slice());
    match handle.call(&*shared.env.clock, command, PUSH_LIMIT).await {
        Ok(answer) if answer.code == response::SUCCESS => Ok(()),
        Ok(answer) => {
            Err(format!("push reply message to <{client}> fail: {} {}", answer.code, answer.remark.unwrap_or_default()))
        }
        Err(error) => Err(format!("push reply message to <{client}> fail: {error}")),
    }
}
