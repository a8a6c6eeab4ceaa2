//! A client of one broker that says and asks everything beside sending: membership, locks, offsets, topics.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use metaq::proto::body::small::GetConsumerListByGroupResponseBody;
use metaq::proto::body::{
    from_slice, to_vec, ConsumerData, HeartbeatData, LockBatchRequestBody, LockBatchResponseBody, MessageQueue,
};
use metaq::proto::filter::SubscriptionData;
use metaq::proto::remoting::requests::{
    GetConsumerListByGroup, GetMaxOffset, GetMinOffset, PullHeader, QueryConsumerOffset, UnregisterClient,
    UpdateAndCreateTopic, UpdateConsumerOffset,
};
use metaq::proto::remoting::{request, response, Command};

use super::routes::CALL_LIMIT;
use super::Remote;
use crate::cluster::TOPIC;
use crate::history::{Event, Queue};
use crate::world::{NodeId, World};

/// How long a client trusts in a lock, counted from its request: RocketMQ's clients count from the answer, which is as
/// good while answers are quick.
pub const LOCK_TRUST: Duration = Duration::from_secs(30);

/// A member of a group, or an operator.
pub struct Member {
    world: World,
    node: NodeId,
    remote: Remote,
    broker: Arc<str>,
    group: Arc<str>,
    client: Arc<str>,
    held: BTreeSet<Queue>,
}

impl Member {
    /// A client on `node` of the broker called `broker` at `address`.
    pub fn new(world: &World, node: NodeId, (broker, address): (&str, &str), group: &str, client: &str) -> Member {
        Member {
            world: world.clone(),
            node,
            remote: Remote::new(world.env(node), address),
            broker: broker.into(),
            group: group.into(),
            client: client.into(),
            held: BTreeSet::new(),
        }
    }

    /// A queue of the topic at its broker.
    pub fn queue(&self, id: u32) -> Queue {
        Queue::new(&self.broker, TOPIC, id)
    }

    /// Which connection it uses: another number is another one.
    pub fn connection(&self) -> u64 {
        self.remote.connections()
    }

    /// Lets go of the connection; the next request makes a new one.
    pub fn disconnect(&mut self) {
        self.remote.disconnect();
    }

    /// Says that it is there; true if it was heard.
    pub async fn beat(&mut self) -> bool {
        let subscription = SubscriptionData {
            topic: TOPIC.to_owned(),
            sub_string: "*".to_owned(),
            sub_version: 1,
            ..SubscriptionData::default()
        };
        let data = HeartbeatData {
            client_id: self.client.to_string(),
            consumer_data_set: vec![ConsumerData {
                group_name: self.group.to_string(),
                subscription_data_set: vec![subscription],
                ..ConsumerData::default()
            }],
            ..HeartbeatData::default()
        };
        // What the broker makes of a heartbeat is unknown if no answer comes, so it counts from here on.
        self.note(Event::Joined(self.group.clone(), self.client.clone()));
        let request = Command::request(request::HEART_BEAT).with_body(to_vec(&data));
        self.ask(request).await.is_some()
    }

    /// Says goodbye to the group.
    pub async fn leave(&mut self) {
        let request = Command::request(request::UNREGISTER_CLIENT).with_ext(&UnregisterClient {
            client_id: (*self.client).into(),
            producer_group: None,
            consumer_group: Some((*self.group).into()),
        });
        self.note(Event::Left(self.group.clone(), self.client.clone()));
        self.ask(request).await;
        self.disconnect();
    }

    /// Asks who is in the group.
    pub async fn members(&mut self) {
        let ask = GetConsumerListByGroup { consumer_group: (*self.group).into() };
        let Some(answer) = self.ask(Command::request(request::GET_CONSUMER_LIST_BY_GROUP).with_ext(&ask)).await else {
            return;
        };
        let ids = from_slice::<GetConsumerListByGroupResponseBody>(&answer.body).map(|body| body.consumer_id_list);
        let ids = ids.unwrap_or_default().into_iter().map(Arc::from).collect();
        self.note(Event::Members(self.group.clone(), ids));
    }

    /// Locks queues, or renews what it holds of them.
    pub async fn lock(&mut self, queues: &[Queue]) {
        let until = self.world.now() + LOCK_TRUST;
        let Some(answer) = self.ask(self.lock_request(request::LOCK_BATCH_MQ, queues)).await else { return };
        let granted = from_slice::<LockBatchResponseBody>(&answer.body).map(|body| body.lock_ok_mq_set);
        let granted = granted.unwrap_or_default();
        for queue in queues {
            if granted.iter().any(|granted| granted.queue_id == queue.id as i32 && granted.topic == *queue.topic) {
                self.note(Event::Locked(self.group.clone(), self.client.clone(), queue.clone(), until));
                self.held.insert(queue.clone());
            } else if self.held.remove(queue) {
                self.note(Event::Unlocking(self.group.clone(), self.client.clone(), queue.clone()));
            }
        }
    }

    /// Gives queues back, also ones that it does not hold.
    pub async fn unlock(&mut self, queues: &[Queue]) {
        for queue in queues {
            if self.held.remove(queue) {
                self.note(Event::Unlocking(self.group.clone(), self.client.clone(), queue.clone()));
            }
        }
        self.ask(self.lock_request(request::UNLOCK_BATCH_MQ, queues)).await;
    }

    /// Whether it believes that it holds a queue.
    pub fn holds(&self, queue: &Queue) -> bool {
        self.held.contains(queue)
    }

    /// Believes in no lock any more; nobody is told.
    pub fn forget(&mut self) {
        self.held.clear();
    }

    fn lock_request(&self, code: i32, queues: &[Queue]) -> Command {
        let queue = |queue: &Queue| MessageQueue {
            broker_name: queue.broker.to_string(),
            queue_id: queue.id as i32,
            topic: queue.topic.to_string(),
        };
        let body = LockBatchRequestBody {
            client_id: self.client.to_string(),
            consumer_group: self.group.to_string(),
            mq_set: queues.iter().map(queue).collect(),
            only_this_broker: false,
        };
        Command::request(code).with_body(to_vec(&body))
    }

    /// Commits an offset; true if that was acknowledged.
    pub async fn commit(&mut self, queue: &Queue, offset: u64) -> bool {
        self.note(Event::Committing(self.group.clone(), (queue.clone(), offset)));
        let done = self.commit_late(queue, offset).await;
        if done {
            self.note(Event::Committed(self.group.clone(), (queue.clone(), offset)));
        }
        done
    }

    /// Commits an offset of a queue that another member has taken over; that must change nothing.
    pub async fn commit_late(&mut self, queue: &Queue, offset: u64) -> bool {
        let request = Command::request(request::UPDATE_CONSUMER_OFFSET).with_ext(&UpdateConsumerOffset {
            consumer_group: (*self.group).into(),
            topic: (*queue.topic).into(),
            queue_id: Some(queue.id as i32),
            commit_offset: Some(offset as i64),
        });
        self.ask(request).await.is_some()
    }

    /// Asks for the group's offset.
    pub async fn offset(&mut self, queue: &Queue) -> Option<u64> {
        let request = Command::request(request::QUERY_CONSUMER_OFFSET).with_ext(&QueryConsumerOffset {
            consumer_group: (*self.group).into(),
            topic: (*queue.topic).into(),
            queue_id: queue.id as i32,
            set_zero_if_not_found: false,
        });
        let answer = self.remote.call(request, CALL_LIMIT).await.ok()?;
        let told = match answer.code {
            response::SUCCESS => number(&answer, "offset"),
            response::QUERY_NOT_FOUND => None,
            _ => return None,
        };
        self.note(Event::Offset(self.group.clone(), queue.clone(), told));
        told
    }

    /// Pulls at an offset and drops what comes: from then on the queue is its own. True if there was an answer.
    pub async fn pull(&mut self, queue: &Queue, from: u64) -> bool {
        const SUBSCRIPTION: i32 = 4;
        let request = Command::request(request::PULL_MESSAGE).with_ext(&PullHeader {
            consumer_group: (*self.group).into(),
            topic: (*queue.topic).into(),
            queue_id: queue.id as i32,
            queue_offset: from as i64,
            max_msg_nums: 1,
            sys_flag: SUBSCRIPTION,
            commit_offset: 0,
            suspend_timeout_millis: 0,
            subscription: Some("*".into()),
            sub_version: 1,
            expression_type: Some("TAG".into()),
            max_msg_bytes: None,
            request_source: None,
            proxy_forward_client_id: None,
        });
        self.remote.call(request, CALL_LIMIT).await.is_ok()
    }

    /// Asks for a queue's range.
    pub async fn range(&mut self, queue: &Queue) -> Option<(u64, u64)> {
        let (topic, queue_id, asked) = (&*queue.topic, queue.id as i32, self.world.now());
        let ask = GetMinOffset { topic: topic.into(), queue_id };
        let min = self.ask(Command::request(request::GET_MIN_OFFSET).with_ext(&ask)).await?;
        let ask = GetMaxOffset { topic: topic.into(), queue_id, committed: true };
        let max = self.ask(Command::request(request::GET_MAX_OFFSET).with_ext(&ask)).await?;
        let (min, max) = (number(&min, "offset")?, number(&max, "offset")?);
        self.note(Event::Range(queue.clone(), min, max, asked));
        Some((min, max))
    }

    /// Makes a topic, or changes it; true if that was acknowledged.
    pub async fn make_topic(&mut self, topic: &str) -> bool {
        let request = Command::request(request::UPDATE_AND_CREATE_TOPIC).with_ext(&UpdateAndCreateTopic {
            topic: topic.into(),
            default_topic: Some("TBW102".into()),
            read_queue_nums: 1,
            write_queue_nums: 1,
            perm: 6,
            topic_filter_type: Some("SINGLE_TAG".into()),
            topic_sys_flag: 0,
            order: false,
            attributes: None,
            force: false,
        });
        let made = self.ask(request).await.is_some();
        if made {
            self.note(Event::TopicMade(topic.into()));
        }
        made
    }

    /// Asks whether a topic is there.
    pub async fn see_topic(&mut self, topic: &str) {
        let mut ask = Command::request(request::GET_TOPIC_CONFIG);
        ask.ext.push("topic", topic);
        match self.remote.call(ask, CALL_LIMIT).await.map(|answer| answer.code) {
            Ok(response::SUCCESS) => self.note(Event::TopicSeen(topic.into(), true)),
            Ok(response::TOPIC_NOT_EXIST) => self.note(Event::TopicSeen(topic.into(), false)),
            _ => {}
        }
    }

    /// Asks the broker to delete files whose time is over, now.
    pub async fn delete_expired(&mut self) {
        self.ask(Command::request(request::DELETE_EXPIRED_COMMITLOG)).await;
    }

    /// The answer, if there is one and it is a success.
    async fn ask(&mut self, request: Command) -> Option<Command> {
        let answer = self.remote.call(request, CALL_LIMIT).await.ok()?;
        (answer.code == response::SUCCESS).then_some(answer)
    }

    fn note(&self, event: Event) {
        self.world.history().add(self.node, event);
    }
}

fn number(answer: &Command, name: &str) -> Option<u64> {
    answer.ext(name).and_then(|value| value.parse().ok())
}
