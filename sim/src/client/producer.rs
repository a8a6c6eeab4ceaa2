//! Sends messages and records what became of them.

use std::sync::Arc;
use std::time::Duration;

use metaq::proto::body::TopicRouteData;
use metaq::proto::remoting::requests::{RecallMessage, SendHeader, SendNames};
use metaq::proto::remoting::{request, response, Command, Text};

use super::routes::CALL_LIMIT;
use super::{body_of, ClientError, Routes};
use crate::history::{Event, Message, Queue};
use crate::plan::Send;
use crate::sometimes;
use crate::world::{NodeId, World};

/// Seconds of RocketMQ's first delay levels.
const DELAYS: [u64; 4] = [1, 5, 10, 30];

/// The delay that a level stands for; 0 is none.
fn delay(level: u32) -> Option<Duration> {
    level.checked_sub(1).and_then(|index| DELAYS.get(index as usize)).map(|seconds| Duration::from_secs(*seconds))
}

/// A producer on a node.
pub struct Producer {
    world: World,
    node: NodeId,
    routes: Routes,
    nameservers: Vec<String>,
    topic: String,
    route: Option<Arc<TopicRouteData>>,
    /// The only broker it sends to.
    broker: Option<String>,
    /// Its messages have keys of their own.
    keyed: bool,
}

impl Producer {
    /// A producer of `topic`, which exists or is made by the first send.
    pub fn new(world: World, node: NodeId, nameservers: &[String], topic: &str) -> Producer {
        let env = world.env(node);
        let (routes, topic) = (Routes::new(env, nameservers), topic.to_owned());
        Producer {
            world,
            node,
            routes,
            nameservers: nameservers.to_vec(),
            topic,
            route: None,
            broker: None,
            keyed: false,
        }
    }

    /// Lets it send to the queues of one broker only.
    pub fn only_to(mut self, broker: &str) -> Producer {
        self.broker = Some(broker.to_owned());
        self
    }

    /// Gives each message a key (UNIQ_KEY), the same each time it is sent.
    pub fn with_keys(mut self) -> Producer {
        self.keyed = true;
        self
    }

    /// Sends one message once; true if it was acknowledged. A broker that did not answer is looked up anew next time.
    pub async fn send(&mut self, send: &Send) -> bool {
        let Some((route, broker, id)) = self.choose(send.queue).await else {
            sometimes!("a client found no route");
            return false;
        };
        let message = send.message;
        self.world.history().add(self.node, Event::Sending(message));
        let request = self.request(send, id);
        let answer = self.routes.ask(&route, &broker, request, CALL_LIMIT).await;
        let handle = answer.as_ref().ok().and_then(|answer| answer.ext("recallHandle").map(str::to_owned));
        let event = match answer {
            Ok(answer) if send.timer_ms > 0 && handle.is_some() => {
                let wait = Duration::from_millis(u64::from(send.timer_ms));
                match outcome(message, &broker, &self.topic, &answer) {
                    Event::Acknowledged(..) => Event::TimedFor(message, wait),
                    event => event,
                }
            }
            Ok(answer) => match (outcome(message, &broker, &self.topic, &answer), delay(send.delay_level)) {
                (Event::Acknowledged(..), Some(delay)) => Event::Scheduled(message, delay),
                (event, _) => event,
            },
            Err(ClientError::NoRoute) => Event::Refused(message),
            Err(_) => Event::Unknown(message),
        };
        sometimes!(matches!(event, Event::Refused(_)), "a send was refused");
        sometimes!(matches!(event, Event::Unknown(_)), "a send ended without a clear answer");
        let acknowledged = matches!(event, Event::Acknowledged(..) | Event::Scheduled(..) | Event::TimedFor(..));
        if !acknowledged {
            self.route = None;
        }
        let is_timed = matches!(event, Event::TimedFor(..));
        self.world.history().add(self.node, event);
        if let Some(handle) = handle.filter(|_| is_timed && send.recall_ms > 0) {
            self.recall_later(send, route, broker, handle);
        }
        acknowledged
    }

    /// Takes a message back when its time has nearly come, or sooner.
    fn recall_later(&self, send: &Send, route: Arc<TopicRouteData>, broker: String, handle: String) {
        let (world, node, message) = (self.world.clone(), self.node, send.message);
        let (topic, env) = (self.topic.clone(), self.world.env(self.node));
        let (wait, nameservers) = (Duration::from_millis(u64::from(send.recall_ms)), self.nameservers.clone());
        world.clone().spawn(node, async move {
            env.clock.sleep(wait).await;
            let request = Command::request(request::RECALL_MESSAGE).with_ext(&RecallMessage {
                producer_group: Some("producers".into()),
                topic: topic.as_str().into(),
                recall_handle: handle.as_str().into(),
            });
            world.history().add(node, Event::Recalling(message));
            let answer = Routes::new(env, &nameservers).ask(&route, &broker, request, CALL_LIMIT).await;
            if answer.is_ok_and(|answer| answer.code == response::SUCCESS) {
                sometimes!("a timed message was taken back");
                world.history().add(node, Event::Recalled(message));
            }
        });
    }

    /// A queue to send to: any of the topic's, or of the template's while the topic does not exist.
    async fn choose(&mut self, queue: u32) -> Option<(Arc<TopicRouteData>, String, i32)> {
        if self.route.is_none() {
            self.route = match self.routes.route(&self.topic).await {
                Ok(route) => Some(Arc::new(route)),
                Err(ClientError::NoRoute) => self.routes.route("TBW102").await.ok().map(Arc::new),
                Err(_) => None,
            };
        }
        let route = self.route.clone()?;
        let queues: Vec<(&String, i32)> = route
            .queue_datas
            .iter()
            .filter(|data| self.broker.as_ref().is_none_or(|only| *only == data.broker_name))
            .flat_map(|data| (0..data.write_queue_nums.min(4)).map(|id| (&data.broker_name, id)))
            .collect();
        if queues.is_empty() {
            self.route = None;
            return None;
        }
        let (broker, id) = queues[queue as usize % queues.len()];
        let broker = broker.clone();
        Some((route, broker, id))
    }

    fn request(&mut self, send: &Send, id: i32) -> Command {
        let level = send.delay_level;
        let mut properties = match (level, send.timer_ms) {
            (0, 0) => String::new(),
            (0, millis) => format!("TIMER_DELAY_MS\u{1}{millis}\u{2}"),
            (level, _) => format!("DELAY\u{1}{level}\u{2}"),
        };
        if self.keyed {
            properties.push_str(&format!("UNIQ_KEY\u{1}message-{}\u{2}", send.message));
        }
        let header = SendHeader {
            properties: Text::plain(&properties),
            producer_group: "producers".into(),
            topic: self.topic.as_str().into(),
            default_topic: "TBW102".into(),
            default_topic_queue_nums: 4,
            queue_id: id,
            born_timestamp: self.routes.env().clock.now().0,
            ..SendHeader::default()
        };
        let body = body_of(send.message, send.bytes as usize);
        let mut command = Command::request(request::SEND_MESSAGE_V2).with_body(body);
        header.encode(SendNames::V2, &mut command.ext);
        command
    }
}

/// What an answer says about a message. Only codes that are given before anything is stored prove that it is not.
fn outcome(message: Message, broker: &str, topic: &str, answer: &Command) -> Event {
    let number = |name: &str| answer.ext(name).and_then(|value| value.parse::<u64>().ok());
    match answer.code {
        response::SUCCESS => match (number("queueId"), number("queueOffset")) {
            (Some(id), Some(offset)) => Event::Acknowledged(message, (Queue::new(broker, topic, id as u32), offset)),
            _ => Event::Unknown(message),
        },
        response::SYSTEM_BUSY | response::TOPIC_NOT_EXIST | response::NO_PERMISSION | response::MESSAGE_ILLEGAL => {
            Event::Refused(message)
        }
        _ => Event::Unknown(message),
    }
}
