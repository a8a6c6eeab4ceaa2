//! Reads one queue for a group, from the committed offset on, and records what it gets.

use std::sync::Arc;
use std::time::Duration;

use metaq::proto::body::TopicRouteData;
use metaq::proto::message::record::{iterate, BodyCrc};
use metaq::proto::remoting::requests::{ConsumerSendMsgBack, PullHeader, QueryConsumerOffset};
use metaq::proto::remoting::{request, response, Command};

use super::routes::CALL_LIMIT;
use super::{message_of, ClientError, Routes};
use crate::checkers::Violation;
use crate::history::{Event, Message, Queue};
use crate::random::Stream;
use crate::world::{NodeId, World};

/// How long a broker may hold a pull.
const HOLD: Duration = Duration::from_secs(5);
/// Pause after an answer without messages.
const BREATH: Duration = Duration::from_millis(20);
/// Pause after an error.
const PAUSE: Duration = Duration::from_millis(300);

/// `sysFlag` of a pull: commit the offset, hold if there is nothing, the subscription comes along.
const COMMIT: i32 = 1;
const SUSPEND: i32 = 2;
const SUBSCRIPTION: i32 = 4;

/// A consumer of one queue.
pub struct Consumer {
    world: World,
    node: NodeId,
    routes: Routes,
    queue: Queue,
    group: String,
    route: Option<TopicRouteData>,
    /// The next offset to pull; `None` if the broker is to be asked for it.
    next: Option<u64>,
    /// Of 1,000 messages, how many it hands back.
    failures_per_mille: u64,
    /// How often a message may be handed back.
    tries_max: u32,
}

/// A message as it was pulled.
struct Pulled {
    message: Message,
    offset: u64,
    /// Where its record lies in the broker's log.
    position: u64,
    /// How often it was handed back before.
    tried: u32,
}

impl Consumer {
    /// A member of `group` that has `queue` for itself.
    pub fn new(world: World, node: NodeId, nameservers: &[String], queue: Queue, group: &str) -> Consumer {
        let env = world.env(node);
        let routes = Routes::new(env, nameservers);
        let group = group.to_owned();
        Consumer { world, node, routes, queue, group, route: None, next: None, failures_per_mille: 0, tries_max: 16 }
    }

    /// Lets it hand back so many of 1,000 messages, to get them again later.
    pub fn failing(mut self, per_mille: u64) -> Consumer {
        self.failures_per_mille = per_mille;
        self
    }

    /// Lets messages come back so many times; then they go to the dead letters.
    pub fn trying(mut self, times: u32) -> Consumer {
        self.tries_max = times;
        self
    }

    /// Consumes until it is dropped.
    pub async fn run(mut self) {
        loop {
            match self.step().await {
                Ok(()) => {}
                Err(_) => {
                    // As after a rebalance: what is known about the broker is forgotten.
                    (self.route, self.next) = (None, None);
                    self.routes.env().clock.sleep(PAUSE).await;
                }
            }
        }
    }

    /// Reads the whole queue from its beginning and adds what lies there to the history. For the end of a run.
    pub async fn find_all(mut self) -> Result<(), ClientError> {
        let mut next = 0;
        loop {
            let route = self.route().await?;
            let request = self.pull(next, SUBSCRIPTION);
            let answer = self.routes.ask(&route, &self.queue.broker, request, CALL_LIMIT).await?;
            match answer.code {
                response::SUCCESS => {}
                response::PULL_NOT_FOUND => return Ok(()),
                response::PULL_RETRY_IMMEDIATELY | response::PULL_OFFSET_MOVED if next_of(&answer) > Some(next) => {}
                _ => return Err(ClientError::Refused(answer)),
            }
            for pulled in self.records(&answer.body) {
                let place = (self.queue.clone(), pulled.offset);
                let found = match self.queue.topic.strip_prefix("%DLQ%") {
                    Some(group) => Event::DeadLetter(group.into(), pulled.message),
                    None => Event::Found(pulled.message, place),
                };
                self.world.history().add(self.node, found);
            }
            next = next_of(&answer).ok_or(ClientError::NoRoute)?;
        }
    }

    async fn step(&mut self) -> Result<(), ClientError> {
        let route = self.route().await?;
        let next = match self.next {
            Some(next) => next,
            None => {
                let next = self.committed(&route).await?;
                self.began(next);
                next
            }
        };
        let request = self.pull(next, COMMIT | SUSPEND | SUBSCRIPTION);
        let answer = self.routes.ask(&route, &self.queue.broker, request, HOLD + CALL_LIMIT).await?;
        match answer.code {
            response::SUCCESS => {
                for pulled in self.records(&answer.body) {
                    let place = (self.queue.clone(), pulled.offset);
                    let group: Arc<str> = self.group.as_str().into();
                    let history = self.world.history();
                    history.add(self.node, Event::Consumed(group.clone(), pulled.message, place));
                    if self.failures_per_mille > 0 {
                        history.add(self.node, Event::Tried(group, pulled.message, pulled.tried));
                    }
                    if self.hands_back(pulled.message) {
                        self.hand_back(&route, &pulled).await?;
                    }
                }
            }
            // A broker that holds no more pulls answers at once, and would be asked without end.
            response::PULL_NOT_FOUND => self.routes.env().clock.sleep(BREATH).await,
            response::PULL_RETRY_IMMEDIATELY | response::PULL_OFFSET_MOVED => {}
            _ => return Err(ClientError::Refused(answer)),
        }
        self.next = next_of(&answer).or(Some(next));
        if answer.code == response::PULL_OFFSET_MOVED {
            self.began(self.next.unwrap_or(next));
        }
        Ok(())
    }

    fn began(&self, at: u64) {
        let began = Event::Began(self.group.as_str().into(), (self.queue.clone(), at));
        self.world.history().add(self.node, began);
    }

    /// Which messages it hands back follows from their numbers alone.
    fn hands_back(&self, message: Message) -> bool {
        self.failures_per_mille > 0 && Stream::new(message, &self.group).chance(self.failures_per_mille)
    }

    async fn hand_back(&mut self, route: &TopicRouteData, pulled: &Pulled) -> Result<(), ClientError> {
        let request = Command::request(request::CONSUMER_SEND_MSG_BACK).with_ext(&ConsumerSendMsgBack {
            offset: pulled.position as i64,
            group: self.group.as_str().into(),
            delay_level: 1 + (pulled.message % 2) as i32,
            origin_msg_id: None,
            origin_topic: Some((*self.queue.topic).into()),
            unit_mode: false,
            max_reconsume_times: Some(self.tries_max as i32),
        });
        let (group, history): (Arc<str>, _) = (self.group.as_str().into(), self.world.history());
        history.add(self.node, Event::HandingBack(group.clone(), pulled.message));
        let answer = self.routes.ask(route, &self.queue.broker, request, CALL_LIMIT).await?;
        if answer.code == response::SUCCESS {
            let last = pulled.tried >= self.tries_max;
            let event = if last { Event::GivenUp } else { Event::HandedBack };
            self.world.history().add(self.node, event(group, pulled.message));
        }
        Ok(())
    }

    async fn route(&mut self) -> Result<TopicRouteData, ClientError> {
        if self.route.is_none() {
            self.route = Some(self.routes.route(&self.queue.topic).await?);
        }
        self.route.clone().ok_or(ClientError::NoRoute)
    }

    /// The group's offset, or the queue's beginning if it has none.
    async fn committed(&mut self, route: &TopicRouteData) -> Result<u64, ClientError> {
        let ask = Command::request(request::QUERY_CONSUMER_OFFSET).with_ext(&QueryConsumerOffset {
            consumer_group: self.group.as_str().into(),
            topic: (*self.queue.topic).into(),
            queue_id: self.queue.id as i32,
            set_zero_if_not_found: true,
        });
        let answer = self.routes.ask(route, &self.queue.broker, ask, CALL_LIMIT).await?;
        match answer.code {
            response::SUCCESS => Ok(answer.ext("offset").and_then(|offset| offset.parse().ok()).unwrap_or(0)),
            response::QUERY_NOT_FOUND => Ok(0),
            _ => Err(ClientError::Refused(answer)),
        }
    }

    fn pull(&self, from: u64, sys_flag: i32) -> Command {
        Command::request(request::PULL_MESSAGE).with_ext(&PullHeader {
            consumer_group: self.group.as_str().into(),
            topic: (*self.queue.topic).into(),
            queue_id: self.queue.id as i32,
            queue_offset: from as i64,
            max_msg_nums: 32,
            sys_flag,
            commit_offset: from as i64,
            suspend_timeout_millis: HOLD.as_millis() as i64,
            subscription: Some("*".into()),
            sub_version: 0,
            expression_type: Some("TAG".into()),
            max_msg_bytes: None,
            request_source: None,
            proxy_forward_client_id: None,
        })
    }

    /// The messages of a body. One that is damaged is a broken promise.
    fn records(&self, body: &[u8]) -> Vec<Pulled> {
        let mut records = Vec::new();
        for record in iterate(body, BodyCrc::Verify) {
            let message = record.map_err(|error| error.to_string()).and_then(|record| {
                let (offset, position) = (record.queue_offset().0, record.physical_offset().0);
                let tried = record.reconsume_times().max(0) as u32;
                Ok(Pulled { message: message_of(&record)?, offset, position, tried })
            });
            match message {
                Ok(record) => records.push(record),
                Err(finding) => {
                    let finding = format!("{}: {finding}", self.queue);
                    self.world.violated(Violation::new("consumers get whole messages", finding));
                }
            }
        }
        records
    }
}

fn next_of(answer: &Command) -> Option<u64> {
    answer.ext("nextBeginOffset").and_then(|offset| offset.parse().ok())
}
