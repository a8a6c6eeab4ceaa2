//! What an Apache broker has delivered of the messages with a time of delivery that a store took over from it.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::net::ConnectionHandle;
use crate::broker::timer::DueSecond;
use crate::env::{Clock, OpenMode};
use crate::proto::body::{from_slice, KvTable};
use crate::proto::remoting::{request, response, Command};
use crate::proto::QueueOffset;
use crate::store::config_file::ConfigFile;
use crate::store::timer::{Pending, PendingKind};
use crate::store::Store;

/// The file's length; RocketMQ maps it whole.
const FILE_BYTES: usize = 4096;
/// What RocketMQ answers with of it.
const BODY_BYTES: usize = 56;

fn path(store: &Store) -> PathBuf {
    store.root().join("config").join("timercheck")
}

/// What a RocketMQ broker has delivered of a store that it left to us: `config/timercheck`. A slave of a
/// RocketMQ broker has its master's ([`Progress`]); else metaq never writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apache {
    /// `lastReadTimeMs`: what was to come out before is delivered,
    read_to: i64,
    /// `lastTimerQueueOffset`: if it was taken in, that is, its number is below.
    next: QueueOffset,
}

impl Apache {
    /// What the file says; nothing if there is none.
    ///
    /// # Errors
    /// The disk's.
    pub fn read(store: &Store) -> io::Result<Apache> {
        let path = path(store);
        if !store.env.disk.exists(&path) {
            return Ok(Apache::default());
        }
        let mut bytes = [0; 24];
        let read = store.env.disk.open(&path, OpenMode::Read)?.read_at(0, &mut bytes)?;
        let number = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
        Ok(match read == bytes.len() {
            true => Apache { read_to: number(0), next: QueueOffset(number(16).max(0) as u64) },
            false => Apache::default(),
        })
    }

    /// Whether RocketMQ has delivered a record. What it delivered in its last second may not be known.
    pub fn has_delivered(&self, pending: &Pending) -> bool {
        let out_ms = DueSecond(pending.second).out_ms();
        pending.number < self.next && pending.kind != PendingKind::Roll && out_ms < self.read_to
    }
}

/// What an Apache master has delivered, as its slave knows it.
pub struct Progress {
    checkpoint: Vec<u8>,
    /// Where the master's log ended afterwards: up to there are the copies of all that it has delivered.
    end: u64,
}

impl Progress {
    /// Asks the master; `None` if it has no timer, or is too old to know the question.
    ///
    /// # Errors
    /// If it does not answer, or not as RocketMQ does.
    pub async fn ask(
        connection: &ConnectionHandle,
        clock: &dyn Clock,
        limit: Duration,
    ) -> anyhow::Result<Option<Progress>> {
        let answer = connection.call(clock, Command::request(request::GET_TIMER_CHECK_POINT), limit).await?;
        let Some(checkpoint) = answer.body.get(..BODY_BYTES).filter(|_| answer.code == response::SUCCESS) else {
            return Ok(None);
        };
        let checkpoint = checkpoint.to_vec();
        let answer = connection.call(clock, Command::request(request::GET_BROKER_RUNTIME_INFO), limit).await?;
        let table = from_slice::<KvTable>(&answer.body)?.table;
        let end = table.get("commitLogMaxOffset").and_then(|end| end.parse().ok());
        Ok(end.map(|end| Progress { checkpoint, end }))
    }

    /// Whether the copies of all that is delivered are here, so that they may be left out after a promotion.
    pub fn is_covered(&self, store: &Store) -> bool {
        self.end <= store.end().0
    }

    /// Keeps it for the timer, which reads it when this broker is promoted.
    ///
    /// # Errors
    /// What the disk said.
    pub async fn keep(mut self, store: &Store) -> anyhow::Result<()> {
        self.checkpoint.resize(FILE_BYTES, 0);
        let parse = |bytes: &[u8]| Ok::<_, Infallible>(bytes.to_vec());
        let disk = Arc::clone(&store.env.disk);
        let (mut file, kept) = ConfigFile::open(disk, path(store), FILE_BYTES as u64, parse)?;
        match kept.into_value() {
            Some(kept) if kept == self.checkpoint => Ok(()),
            _ => Ok(file.save(&self.checkpoint).await?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::PhysicalOffset;

    #[test]
    fn what_rocketmq_delivered_is_left_out() {
        let apache = Apache { read_to: 5_000, next: QueueOffset(10) };
        let pending = |second, number, kind| Pending {
            kind,
            second,
            previous: None,
            record: PhysicalOffset(0),
            size: 1,
            number: QueueOffset(number),
        };
        assert!(apache.has_delivered(&pending(5, 9, PendingKind::Deliver)), "its slot 4000 was read");
        assert!(!apache.has_delivered(&pending(6, 9, PendingKind::Deliver)), "its slot 5000 comes next");
        assert!(!apache.has_delivered(&pending(5, 10, PendingKind::Deliver)), "not taken in by then");
        assert!(!Apache::default().has_delivered(&pending(5, 0, PendingKind::Deliver)));
    }
}
