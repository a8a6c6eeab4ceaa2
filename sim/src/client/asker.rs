//! Sends the reference model's requests to a broker and reads its answers.

use std::collections::BTreeSet;
use std::time::Duration;

use metaq::proto::body::small::GetConsumerListByGroupResponseBody;
use metaq::proto::body::MessageQueue;
use metaq::proto::body::{
    from_slice, to_vec, ConsumerData, HeartbeatData, LockBatchRequestBody, LockBatchResponseBody,
};
use metaq::proto::filter::SubscriptionData;
use metaq::proto::message::record::{iterate, BodyCrc};
use metaq::proto::remoting::requests::{
    DeleteTopicInBroker, GetConsumerListByGroup, GetMaxOffset, GetMinOffset, PullHeader, QueryConsumerOffset,
    SendHeader, SendNames, UnregisterClient, UpdateAndCreateTopic, UpdateConsumerOffset,
};
use metaq::proto::remoting::{request, response, Command, Text};

use super::{body_of, message_of, Remote};
use crate::model::{Answer, Queue, Request};
use crate::world::{NodeId, World};

/// How long an answer may take: a deletion syncs several files, each of which a disk may take a second for.
const ASK_LIMIT: Duration = Duration::from_secs(15);

/// A connection of one client.
pub struct Asker {
    remote: Remote,
    broker: String,
}

impl Asker {
    /// A client on `node` of the broker called `broker` at `address`.
    pub fn new(world: &World, node: NodeId, address: &str, broker: &str) -> Asker {
        Asker { remote: Remote::new(world.env(node), address), broker: broker.to_owned() }
    }

    /// Ends the connection.
    pub fn disconnect(&mut self) {
        self.remote.disconnect();
    }

    /// The broker's answer to `client`; `None` if there is none, or one that the model does not know.
    pub async fn ask(&mut self, request: &Request, client: &str) -> Option<Answer> {
        if let Request::Range(queue) = request {
            let min = self.remote.call(range(request::GET_MIN_OFFSET, queue), ASK_LIMIT).await.ok()?;
            let max = self.remote.call(range(request::GET_MAX_OFFSET, queue), ASK_LIMIT).await.ok()?;
            return Some(Answer::Range(number(&min, "offset")?, number(&max, "offset")?));
        }
        let answer = self.remote.call(self.command(request, client), ASK_LIMIT).await.ok()?;
        read(request, &answer)
    }

    fn command(&self, request: &Request, client: &str) -> Command {
        match request {
            Request::Send(queue, message, tag) => send(queue, *message, tag.as_deref()),
            Request::Pull(queue, from, tags) => pull(queue, *from, tags),
            Request::Range(queue) => range(request::GET_MAX_OFFSET, queue),
            Request::Commit(group, _, queue, offset) => {
                Command::request(request::UPDATE_CONSUMER_OFFSET).with_ext(&UpdateConsumerOffset {
                    consumer_group: group.as_str().into(),
                    topic: queue.0.as_str().into(),
                    queue_id: Some(queue.1 as i32),
                    commit_offset: Some(*offset as i64),
                })
            }
            Request::Offset(group, queue, or_zero) => {
                Command::request(request::QUERY_CONSUMER_OFFSET).with_ext(&QueryConsumerOffset {
                    consumer_group: group.as_str().into(),
                    topic: queue.0.as_str().into(),
                    queue_id: queue.1 as i32,
                    set_zero_if_not_found: *or_zero,
                })
            }
            Request::Lock(group, _, queues) => self.locks(request::LOCK_BATCH_MQ, group, client, queues),
            Request::Unlock(group, _, queues) => self.locks(request::UNLOCK_BATCH_MQ, group, client, queues),
            Request::Join(group, _) => heartbeat(group, client),
            Request::Leave(group, _) => Command::request(request::UNREGISTER_CLIENT).with_ext(&UnregisterClient {
                client_id: client.into(),
                producer_group: None,
                consumer_group: Some(group.as_str().into()),
            }),
            Request::Members(group) => Command::request(request::GET_CONSUMER_LIST_BY_GROUP)
                .with_ext(&GetConsumerListByGroup { consumer_group: group.as_str().into() }),
            Request::MakeTopic(topic) => {
                Command::request(request::UPDATE_AND_CREATE_TOPIC).with_ext(&UpdateAndCreateTopic {
                    topic: topic.as_str().into(),
                    default_topic: Some("TBW102".into()),
                    read_queue_nums: 2,
                    write_queue_nums: 2,
                    perm: 6,
                    topic_filter_type: Some("SINGLE_TAG".into()),
                    topic_sys_flag: 0,
                    order: false,
                    attributes: None,
                    force: false,
                })
            }
            Request::DeleteTopic(topic) => Command::request(request::DELETE_TOPIC_IN_BROKER)
                .with_ext(&DeleteTopicInBroker { topic: topic.as_str().into() }),
        }
    }

    fn locks(&self, code: i32, group: &str, client: &str, queues: &BTreeSet<Queue>) -> Command {
        let queue = |(topic, id): &Queue| MessageQueue {
            broker_name: self.broker.clone(),
            queue_id: *id as i32,
            topic: topic.clone(),
        };
        let body = LockBatchRequestBody {
            client_id: client.to_owned(),
            consumer_group: group.to_owned(),
            mq_set: queues.iter().map(queue).collect(),
            only_this_broker: false,
        };
        Command::request(code).with_body(to_vec(&body))
    }
}

fn send(queue: &Queue, message: u64, tag: Option<&str>) -> Command {
    let properties = tag.map(|tag| format!("TAGS\u{1}{tag}\u{2}")).unwrap_or_default();
    let header = SendHeader {
        properties: Text::plain(&properties),
        producer_group: "producers".into(),
        topic: queue.0.as_str().into(),
        // No template: a topic that is not there must not come into being by a send.
        default_topic: "none".into(),
        default_topic_queue_nums: 2,
        queue_id: queue.1 as i32,
        born_timestamp: 1,
        ..SendHeader::default()
    };
    let mut command = Command::request(request::SEND_MESSAGE_V2).with_body(body_of(message, 20));
    header.encode(SendNames::V2, &mut command.ext);
    command
}

fn pull(queue: &Queue, from: u64, tags: &BTreeSet<String>) -> Command {
    const SUBSCRIPTION: i32 = 4;
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let subscription = if tags.is_empty() { "*".to_owned() } else { tags.join("||") };
    Command::request(request::PULL_MESSAGE).with_ext(&PullHeader {
        consumer_group: "readers".into(),
        topic: queue.0.as_str().into(),
        queue_id: queue.1 as i32,
        queue_offset: from as i64,
        max_msg_nums: 32,
        sys_flag: SUBSCRIPTION,
        commit_offset: 0,
        suspend_timeout_millis: 0,
        subscription: Some(subscription.as_str().into()),
        sub_version: 1,
        expression_type: Some("TAG".into()),
        max_msg_bytes: None,
        request_source: None,
        proxy_forward_client_id: None,
    })
}

fn range(code: i32, queue: &Queue) -> Command {
    let (topic, queue_id) = (queue.0.as_str(), queue.1 as i32);
    if code == request::GET_MIN_OFFSET {
        return Command::request(code).with_ext(&GetMinOffset { topic: topic.into(), queue_id });
    }
    Command::request(code).with_ext(&GetMaxOffset { topic: topic.into(), queue_id, committed: true })
}

fn heartbeat(group: &str, client: &str) -> Command {
    let subscription = SubscriptionData {
        topic: "orders".to_owned(),
        sub_string: "*".to_owned(),
        sub_version: 1,
        ..SubscriptionData::default()
    };
    let data = HeartbeatData {
        client_id: client.to_owned(),
        consumer_data_set: vec![ConsumerData {
            group_name: group.to_owned(),
            subscription_data_set: vec![subscription],
            ..ConsumerData::default()
        }],
        ..HeartbeatData::default()
    };
    Command::request(request::HEART_BEAT).with_body(to_vec(&data))
}

/// What an answer says in the model's words.
fn read(request: &Request, answer: &Command) -> Option<Answer> {
    let code = answer.code;
    if code == response::TOPIC_NOT_EXIST {
        return Some(Answer::NoTopic);
    }
    match request {
        Request::Pull(..) => {
            let next = number(answer, "nextBeginOffset");
            return match code {
                response::SUCCESS => Some(Answer::Messages(records(&answer.body)?, next?)),
                response::PULL_NOT_FOUND => Some(Answer::NotFound),
                response::PULL_OFFSET_MOVED => Some(Answer::Moved(next?)),
                response::PULL_RETRY_IMMEDIATELY => Some(Answer::NoMatch(next?)),
                _ => None,
            };
        }
        Request::Commit(..) if [response::INVALID_PARAMETER, response::SYSTEM_ERROR].contains(&code) => {
            return Some(Answer::Refused);
        }
        Request::Offset(..) if code == response::QUERY_NOT_FOUND => return Some(Answer::Offset(None)),
        // A group without members is answered by an error.
        Request::Members(..) if code != response::SUCCESS => return Some(Answer::Names(BTreeSet::new())),
        _ if code != response::SUCCESS => return None,
        _ => {}
    }
    Some(match request {
        Request::Send(..) => Answer::Stored(number(answer, "queueOffset")?),
        Request::Offset(..) => Answer::Offset(Some(number(answer, "offset")?)),
        Request::Lock(..) => {
            let held = from_slice::<LockBatchResponseBody>(&answer.body).ok()?.lock_ok_mq_set;
            Answer::Held(held.into_iter().map(|queue| (queue.topic, queue.queue_id as u32)).collect())
        }
        Request::Members(..) => {
            let list = from_slice::<GetConsumerListByGroupResponseBody>(&answer.body).ok()?.consumer_id_list;
            Answer::Names(list.into_iter().collect())
        }
        _ => Answer::Done,
    })
}

fn records(body: &[u8]) -> Option<Vec<(u64, u64)>> {
    let record = |record: Result<metaq::proto::message::record::RecordView<'_>, _>| {
        let record = record.ok()?;
        Some((record.queue_offset().0, message_of(&record).ok()?))
    };
    iterate(body, BodyCrc::Verify).map(record).collect()
}

fn number(answer: &Command, name: &str) -> Option<u64> {
    answer.ext(name).and_then(|value| value.parse().ok())
}
