//! What the client asks of brokers about queues and their offsets.

use std::time::Duration;

use super::error::Error;
use super::instance::Shared;
use super::rules::route::MASTER_ID;
use super::MessageQueue;
use crate::env::Millis;
use crate::proto::remoting::requests::{
    BoundaryType, GetMaxOffset, GetMinOffset, OffsetResponse, QueryConsumerOffset, SearchOffsetByTimestamp,
    UpdateConsumerOffset,
};
use crate::proto::remoting::{request, response, Command};

/// How long a server may take to answer.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(3);

impl Shared {
    /// The address of the master that has a queue; routes are asked again if they do not name it.
    pub async fn master_of(&self, queue: &MessageQueue) -> Result<String, Error> {
        if let Ok(address) = self.master(&queue.broker_name) {
            return Ok(address);
        }
        self.fresh_route(&queue.topic).await?;
        self.master(&queue.broker_name)
    }

    /// The address of the broker that answers for a queue: its master, or a slave while there is none (as RocketMQ's own
    /// clients do). Routes are asked again if they name neither.
    async fn broker_of(&self, queue: &MessageQueue) -> Result<String, Error> {
        let known = || self.routes().reader(&queue.broker_name, MASTER_ID).map(|(_, address)| address.to_owned());
        if let Some(address) = known() {
            return Ok(address);
        }
        self.fresh_route(&queue.topic).await?;
        known().ok_or_else(|| Error::NoBroker { broker: queue.broker_name.clone() })
    }

    /// Asks the broker that answers for a queue.
    async fn ask_broker(&self, queue: &MessageQueue, command: Command) -> Result<Command, Error> {
        let address = self.broker_of(queue).await?;
        self.ask(&address, command, ANSWER_LIMIT).await
    }

    /// Asks the master of a queue.
    pub async fn ask_master(&self, queue: &MessageQueue, command: Command) -> Result<Command, Error> {
        let address = self.master_of(queue).await?;
        self.ask(&address, command, ANSWER_LIMIT).await
    }

    /// The offset that a group has committed for a queue; `None` if it never has.
    pub async fn committed(&self, group: &str, queue: &MessageQueue) -> Result<Option<i64>, Error> {
        let header = QueryConsumerOffset {
            consumer_group: group.into(),
            topic: queue.topic.as_str().into(),
            queue_id: queue.queue_id,
            set_zero_if_not_found: true,
        };
        let command = Command::request(request::QUERY_CONSUMER_OFFSET).with_ext(&header);
        match self.ask_broker(queue, command).await {
            Ok(answer) => offset_in(&answer).map(Some),
            Err(error) if error.code() == Some(response::QUERY_NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Commits an offset and waits until the broker has taken it.
    pub async fn commit(&self, group: &str, queue: &MessageQueue, offset: i64) -> Result<(), Error> {
        let header = UpdateConsumerOffset {
            consumer_group: group.into(),
            topic: queue.topic.as_str().into(),
            queue_id: Some(queue.queue_id),
            commit_offset: Some(offset),
        };
        let command = Command::request(request::UPDATE_CONSUMER_OFFSET).with_ext(&header);
        self.ask_broker(queue, command).await.map(drop)
    }

    /// The offset that the queue's next message will have.
    pub async fn max_offset(&self, queue: &MessageQueue) -> Result<i64, Error> {
        let header = GetMaxOffset { topic: queue.topic.as_str().into(), queue_id: queue.queue_id, committed: true };
        let command = Command::request(request::GET_MAX_OFFSET).with_ext(&header);
        offset_in(&self.ask_broker(queue, command).await?)
    }

    /// The offset of the queue's first message.
    pub async fn min_offset(&self, queue: &MessageQueue) -> Result<i64, Error> {
        let header = GetMinOffset { topic: queue.topic.as_str().into(), queue_id: queue.queue_id };
        let command = Command::request(request::GET_MIN_OFFSET).with_ext(&header);
        offset_in(&self.ask_broker(queue, command).await?)
    }

    /// The offset of the queue's first message stored at `time` or later; its end if there is none.
    pub async fn search_offset(&self, queue: &MessageQueue, time: Millis) -> Result<i64, Error> {
        let header = SearchOffsetByTimestamp {
            topic: queue.topic.as_str().into(),
            queue_id: queue.queue_id,
            timestamp: time.0,
            boundary_type: BoundaryType::Lower,
        };
        let command = Command::request(request::SEARCH_OFFSET_BY_TIMESTAMP).with_ext(&header);
        offset_in(&self.ask_broker(queue, command).await?)
    }
}

fn offset_in(answer: &Command) -> Result<i64, Error> {
    let malformed = |what: String| Error::Malformed { address: "the broker".into(), what };
    let fields = answer.ext_fields().map_err(|error| malformed(error.to_string()))?;
    Ok(OffsetResponse::decode(&fields).map_err(|error| malformed(error.to_string()))?.offset)
}
