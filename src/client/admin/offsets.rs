//! Offsets, administered.

use std::collections::BTreeMap;

use super::Admin;
use crate::client::error::Error;
use crate::client::nameservers::read_body;
use crate::client::MessageQueue;
use crate::env::Millis;
use crate::proto::body::ResetOffsetBody;
use crate::proto::remoting::requests::{CloneGroupOffset, ResetOffset};
use crate::proto::remoting::{request, Command};

/// Where a group is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetTo {
    /// At each queue's first message.
    Begin,
    /// At each queue's end: what waits is skipped.
    End,
    /// At the first message stored at this time or later.
    Time(Millis),
}

impl Admin {
    /// The offset of a queue's first message.
    ///
    /// # Errors
    /// [`Error::NoBroker`] if the queue's broker is gone, or does not answer.
    pub async fn min_offset(&self, queue: &MessageQueue) -> Result<i64, Error> {
        self.client.min_offset(queue).await
    }

    /// The offset that a queue's next message will have.
    ///
    /// # Errors
    /// As [`Admin::min_offset`].
    pub async fn max_offset(&self, queue: &MessageQueue) -> Result<i64, Error> {
        self.client.max_offset(queue).await
    }

    /// The offset of a queue's first message stored at `time` or later; its end if there is none.
    ///
    /// # Errors
    /// As [`Admin::min_offset`].
    pub async fn search_offset(&self, queue: &MessageQueue, time: Millis) -> Result<i64, Error> {
        self.client.search_offset(queue, time).await
    }

    /// The offset at which a group goes on in a queue; `None` if it never committed one.
    ///
    /// # Errors
    /// As [`Admin::min_offset`].
    pub async fn committed(&self, group: &str, queue: &MessageQueue) -> Result<Option<i64>, Error> {
        self.client.committed(group, queue).await
    }

    /// Sets the offset at which a group goes on in a queue. Members that run may commit over it; [`Admin::reset`] is for
    /// them.
    ///
    /// # Errors
    /// As [`Admin::min_offset`].
    pub async fn commit(&self, group: &str, queue: &MessageQueue, offset: i64) -> Result<(), Error> {
        self.client.commit(group, queue, offset).await
    }

    /// Resets a group's offsets of a topic, whether members run or not, and says what they are now.
    ///
    /// # Errors
    /// [`Error::NoRoute`] if there is no such topic; [`Error::Refused`] if a broker knows no such group.
    pub async fn reset(&self, group: &str, topic: &str, to: ResetTo) -> Result<BTreeMap<MessageQueue, i64>, Error> {
        let timestamp = match to {
            ResetTo::Begin => 0,
            ResetTo::End => -1,
            ResetTo::Time(time) => time.0.max(0),
        };
        let header = reset_header(group, topic, timestamp);
        self.reset_at(topic, None, &header).await
    }

    /// Resets a group's offset of one queue.
    ///
    /// # Errors
    /// As [`Admin::reset`]; also [`Error::Refused`] for an offset beyond the queue's ends.
    pub async fn reset_queue(&self, group: &str, queue: &MessageQueue, offset: i64) -> Result<(), Error> {
        let header =
            ResetOffset { queue_id: queue.queue_id, offset: Some(offset), ..reset_header(group, &queue.topic, 0) };
        self.reset_at(&queue.topic, Some(&queue.broker_name), &header).await.map(drop)
    }

    async fn reset_at(
        &self,
        topic: &str,
        broker: Option<&str>,
        header: &ResetOffset<'_>,
    ) -> Result<BTreeMap<MessageQueue, i64>, Error> {
        let mut offsets = BTreeMap::new();
        let masters = self.masters_of(topic).await?;
        for (_, address) in masters.iter().filter(|(name, _)| broker.is_none_or(|broker| broker == name)) {
            let command = Command::request(request::INVOKE_BROKER_TO_RESET_OFFSET).with_ext(header);
            offsets.extend(read_body::<ResetOffsetBody>(&self.ask(address, command).await?)?.offset_table);
        }
        Ok(offsets)
    }

    /// Gives a group the offsets of another, for one topic or all it has. Neither should run.
    ///
    /// # Errors
    /// [`Error::Refused`] if a broker knows no such group or topic.
    pub async fn clone_offsets(&self, from: &str, to: &str, topic: Option<&str>) -> Result<(), Error> {
        let header = CloneGroupOffset {
            src_group: from.into(),
            dest_group: to.into(),
            topic: topic.map(Into::into),
            offline: false,
        };
        self.tell_all(Command::request(request::CLONE_GROUP_OFFSET).with_ext(&header)).await
    }
}

fn reset_header<'a>(group: &'a str, topic: &'a str, timestamp: i64) -> ResetOffset<'a> {
    ResetOffset { topic: topic.into(), group: group.into(), timestamp, is_force: true, queue_id: -1, offset: None }
}
