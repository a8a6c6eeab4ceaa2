//! A master's end of one slave's connection.
//!
//! The port serves both protocols: the first bytes tell which one the slave speaks. Nothing is sent before the slave has
//! said where its log ends; then the log follows without waiting for reports.

use super::{LogView, HEARTBEAT_MS, SILENCE_MS};
use crate::env::{Canaries, Canary, Millis};
use crate::proto::ha::switch::{MasterHandshake, SlaveHandshake, EPOCHS_MAX};
use crate::proto::ha::{plain, switch, Decoded, FrameError};
use crate::proto::PhysicalOffset;
use crate::store::epoch::Epochs;

/// Eight bytes that fit either protocol wait this long for the next eight, in milliseconds.
const UNDECIDED_MS: u64 = 1_000;
/// Most bytes that a slave may have sent and that make no frame yet.
const INPUT_MAX: usize = 64 << 10;

/// How many bytes of the log a slave may get, as time passes.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Bytes of a second; `None`: any number.
    per_second: Option<u64>,
    /// What may be sent at once: at most a second's.
    left: u64,
    /// When that was.
    at: Millis,
}

impl Pace {
    /// Bytes that may be sent now.
    fn allowed(&mut self, now: Millis) -> u64 {
        let Some(per_second) = self.per_second else { return u64::MAX };
        let gained = now.since(self.at).min(1_000) * per_second / 1_000;
        if gained > 0 {
            self.left = per_second.min(self.left.saturating_add(gained));
            self.at = now;
        }
        self.left
    }

    /// When there will be some again, if there are none now.
    fn again_at(&self) -> Option<Millis> {
        let per_second = self.per_second.filter(|_| self.left == 0)?;
        Some(self.at.plus((1_000 / per_second.max(1)) as i64 + 1))
    }
}

/// Why a slave's connection is closed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// What it sends is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It says that it has what it was never sent.
    #[error("it reports {reported}, and it can have at most {most}: its log is not this one's, or it is no slave")]
    Ahead {
        /// What it says.
        reported: u64,
        /// What it can have.
        most: u64,
    },
    /// It does not read what it sends itself.
    #[error("it sends more than a slave does")]
    Flood,
    /// Nothing came from it.
    #[error("nothing came from it for {} s", SILENCE_MS / 1000)]
    Silent,
    /// No epoch says whose bytes these are.
    #[error("no epoch covers position {at}")]
    NoEpoch {
        /// The position.
        at: u64,
    },
}

enum State {
    /// Which protocol it speaks is open, since when.
    Undecided { since: Millis },
    /// It has introduced itself and is to report.
    Handshaken,
    /// It gets the log from `next` on.
    Transfer { next: u64 },
}

/// What is sent next: a header and this part of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Where the part begins.
    pub at: u64,
    /// Bytes of it; 0 for a heartbeat.
    pub len: u32,
}

/// See the module's text.
pub struct Link {
    batch_max: u32,
    state: State,
    /// What it said of itself, if it speaks AutoSwitchHA.
    slave: Option<SlaveHandshake>,
    input: Vec<u8>,
    reports: u64,
    acked: Option<u64>,
    /// The slave was told that this much is confirmed.
    told: u64,
    last_read: Millis,
    last_write: Millis,
    pace: Pace,
    canaries: Canaries,
}

impl Link {
    /// A slave has connected. Parts of the log have `batch_max` bytes at most.
    pub fn new(batch_max: u32, now: Millis) -> Link {
        Link {
            batch_max: batch_max.max(1),
            state: State::Undecided { since: now },
            slave: None,
            input: Vec::new(),
            reports: 0,
            acked: None,
            told: 0,
            last_read: now,
            last_write: now,
            pace: Pace { per_second: None, left: 0, at: now },
            canaries: Canaries::default(),
        }
    }

    /// Sends so many bytes of the log a second at most.
    pub fn with_pace(mut self, per_second: Option<u64>) -> Link {
        self.pace.per_second = per_second.map(|per_second| per_second.max(1_000));
        self
    }

    /// With these planted bugs.
    pub fn with_canaries(self, canaries: Canaries) -> Link {
        Link { canaries, ..self }
    }

    /// What the slave said of itself; `None` if it speaks the plain protocol, or has not said yet.
    pub fn slave(&self) -> Option<&SlaveHandshake> {
        self.slave.as_ref()
    }

    /// Up to where the slave is known to have the log. A plain peer's first report does not count: any eight bytes are one.
    pub fn acked(&self) -> Option<u64> {
        self.acked
    }

    /// What is sent next, once the slave has said where its log ends.
    pub fn begins_at(&self) -> Option<u64> {
        match self.state {
            State::Transfer { next } => Some(next),
            _ => None,
        }
    }

    /// How many times the slave has said how far it is.
    pub fn reports(&self) -> u64 {
        self.reports
    }

    /// Bytes came from the slave. What is to be answered at once goes to `out`.
    ///
    /// # Errors
    /// Why the connection has to be closed.
    pub fn on_bytes(
        &mut self,
        bytes: &[u8],
        now: Millis,
        log: &dyn LogView,
        epochs: &Epochs,
        out: &mut Vec<u8>,
    ) -> Result<(), LinkError> {
        self.last_read = now;
        if self.input.len() + bytes.len() > INPUT_MAX {
            return Err(LinkError::Flood);
        }
        if self.input.is_empty() {
            if let State::Undecided { since } = &mut self.state {
                *since = now;
            }
        }
        self.input.extend_from_slice(bytes);
        if matches!(self.state, State::Undecided { .. }) {
            match self.speaks_switch() {
                None => return Ok(()),
                Some(false) => self.state = State::Handshaken,
                Some(true) => self.shake_hands(now, log, epochs, out)?,
            }
        }
        self.take_reports(log)
    }

    /// Time has passed.
    ///
    /// # Errors
    /// Why the connection has to be closed.
    pub fn on_tick(&mut self, now: Millis, log: &dyn LogView) -> Result<(), LinkError> {
        if now.since(self.last_read) > SILENCE_MS {
            return Err(LinkError::Silent);
        }
        match self.state {
            State::Undecided { since } if self.input.len() >= 8 && now.since(since) >= UNDECIDED_MS => {
                self.state = State::Handshaken;
                self.take_reports(log)
            }
            _ => Ok(()),
        }
    }

    /// When [`Link::on_tick`] and [`Link::next`] have to be called again if nothing else happens.
    pub fn wake_at(&self) -> Millis {
        let silent = self.last_read.plus(SILENCE_MS as i64 + 1);
        match self.state {
            State::Undecided { since } if self.input.len() >= 8 => silent.min(since.plus(UNDECIDED_MS as i64)),
            State::Transfer { .. } => {
                let heartbeat = self.last_write.plus(HEARTBEAT_MS as i64);
                silent.min(heartbeat).min(self.pace.again_at().unwrap_or(heartbeat))
            }
            _ => silent,
        }
    }

    /// What is sent next, whose header goes to `out`; `None` if there is nothing.
    ///
    /// # Errors
    /// Why the connection has to be closed.
    pub fn next(
        &mut self,
        now: Millis,
        log: &dyn LogView,
        epochs: &Epochs,
        out: &mut Vec<u8>,
    ) -> Result<Option<Batch>, LinkError> {
        let State::Transfer { next } = self.state else { return Ok(None) };
        let confirmed = log.confirmed();
        let left = log.end().saturating_sub(next).min(self.pace.allowed(now));
        let news = self.slave.is_some() && confirmed > self.told;
        if left == 0 && !news && now.since(self.last_write) < HEARTBEAT_MS {
            return Ok(None);
        }
        let in_file = log.segment_size() - next % log.segment_size();
        let mut len = left.min(in_file).min(u64::from(self.batch_max));
        if self.slave.is_some() {
            // A heartbeat at the end belongs to the last epoch.
            let (epoch, until) = epochs.of(PhysicalOffset(next)).ok_or(LinkError::NoEpoch { at: next })?;
            len = len.min(until.map_or(u64::MAX, |until| until.0 - next));
            let (at, confirmed) = (PhysicalOffset(next), PhysicalOffset(confirmed));
            out.extend_from_slice(&switch::DataHeader { size: len as u32, at, epoch, confirmed }.encode());
        } else {
            out.extend_from_slice(&plain::DataHeader { at: PhysicalOffset(next), size: len as u32 }.encode());
        }
        (self.told, self.last_write) = (confirmed, now);
        self.pace.left = self.pace.left.saturating_sub(len);
        self.state = State::Transfer { next: next + len };
        Ok(Some(Batch { at: next, len: len as u32 }))
    }

    /// Whether the slave speaks AutoSwitchHA; `None` while that is open.
    fn speaks_switch(&self) -> Option<bool> {
        let first: [u8; 8] = *self.input.first_chunk()?;
        let flags = [[first[4], first[5]], [first[6], first[7]]];
        let fits = first[..4] == switch::HANDSHAKE.to_be_bytes() && flags.iter().all(|flag| matches!(flag, [0, 0 | 1]));
        if !fits {
            return Some(false);
        }
        // A plain slave that is at 4 GiB reports no less the next time, and no broker has such an id.
        let second: [u8; 8] = *self.input.get(8..)?.first_chunk()?;
        Some(u64::from_be_bytes(second) < 1 << 32)
    }

    fn shake_hands(
        &mut self,
        now: Millis,
        log: &dyn LogView,
        epochs: &Epochs,
        out: &mut Vec<u8>,
    ) -> Result<(), LinkError> {
        if let Decoded::Frame(slave, len) = SlaveHandshake::decode(&self.input)? {
            self.input.drain(..len);
            self.slave = Some(slave);
            self.state = State::Handshaken;
            self.last_write = now;
            let list = epochs.list();
            let epochs = list[list.len().saturating_sub(EPOCHS_MAX)..].to_vec();
            out.extend_from_slice(&MasterHandshake { end: PhysicalOffset(log.end()), epochs }.encode());
        }
        Ok(())
    }

    fn take_reports(&mut self, log: &dyn LogView) -> Result<(), LinkError> {
        let decode = if self.slave.is_some() { switch::decode_report } else { plain::decode_report };
        let mut taken = 0;
        while let Decoded::Frame(reported, len) = decode(&self.input[taken..])? {
            taken += len;
            self.on_report(reported.0, log)?;
        }
        self.input.drain(..taken);
        Ok(())
    }

    fn on_report(&mut self, reported: u64, log: &dyn LogView) -> Result<(), LinkError> {
        let most = match self.state {
            State::Transfer { next } => next,
            _ => log.end(),
        };
        if reported > most && !self.canaries.has(Canary::SlaveOffsetTrusted) {
            return Err(LinkError::Ahead { reported, most });
        }
        self.reports += 1;
        if !matches!(self.state, State::Transfer { .. }) {
            let from_last = self.slave.is_some_and(|slave| slave.sync_from_last_file);
            let next = match reported {
                0 if from_last => log.end() - log.end() % log.segment_size(),
                // From the oldest file on, also for one that is behind it: it sees the gap instead of waiting for ever.
                _ => reported.max(log.min()),
            };
            self.state = State::Transfer { next };
        }
        if self.slave.is_some() || self.reports > 1 {
            self.acked = self.acked.max(Some(reported));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Log(u64, u64, u64);

    impl LogView for Log {
        fn min(&self) -> u64 {
            self.0
        }
        fn end(&self) -> u64 {
            self.1
        }
        fn confirmed(&self) -> u64 {
            self.2
        }
        fn segment_size(&self) -> u64 {
            1000
        }
    }

    fn epochs() -> Epochs {
        Epochs::decode(b"2\n0\n1-0\n2-1500\n").unwrap()
    }

    /// Feeds a link in one piece.
    fn feed(link: &mut Link, now: i64, log: &Log, bytes: &[u8]) -> Result<Vec<u8>, LinkError> {
        let mut out = Vec::new();
        link.on_bytes(bytes, Millis(now), log, &epochs(), &mut out).map(|()| out)
    }

    fn batches(link: &mut Link, now: i64, log: &Log) -> Vec<(u64, u32)> {
        let mut found = Vec::new();
        while let Some(batch) = link.next(Millis(now), log, &epochs(), &mut Vec::new()).unwrap() {
            found.push((batch.at, batch.len));
        }
        found
    }

    fn switch_slave(id: u64) -> [u8; 16] {
        SlaveHandshake { sync_from_last_file: false, async_learner: false, broker_id: id }.encode()
    }

    #[test]
    fn a_plain_slave_gets_the_log_in_parts_that_cross_no_file() {
        let (mut link, log) = (Link::new(400, Millis(0)), Log(0, 1100, 1100));
        assert_eq!(batches(&mut link, 0, &log), [], "nothing before the first report");
        assert_eq!(feed(&mut link, 0, &log, &[0; 8]), Ok(vec![]));
        assert_eq!(batches(&mut link, 0, &log), [(0, 400), (400, 400), (800, 200), (1000, 100)]);
        assert_eq!(link.acked(), None);
        feed(&mut link, 1, &log, &plain::report(PhysicalOffset(800))).unwrap();
        assert_eq!(link.acked(), Some(800));
        assert_eq!(batches(&mut link, 4_999, &log), []);
        assert_eq!(batches(&mut link, 5_000, &log), [(1100, 0)], "a heartbeat");
    }

    #[test]
    fn a_slave_is_not_believed_beyond_what_it_can_have() {
        let log = Log(0, 1100, 1100);
        let mut junk = Link::new(400, Millis(0));
        assert_eq!(
            feed(&mut junk, 0, &log, &plain::report(PhysicalOffset(1101))),
            Err(LinkError::Ahead { reported: 1101, most: 1100 })
        );
        let mut slave = Link::new(400, Millis(0));
        feed(&mut slave, 0, &log, &plain::report(PhysicalOffset(1000))).unwrap();
        assert!(feed(&mut slave, 0, &log, &plain::report(PhysicalOffset(1100))).is_err(), "not sent yet");
        assert!(feed(&mut Link::new(400, Millis(0)), 0, &log, &[0xFF; 8]).is_err());
    }

    #[test]
    fn a_slave_with_epochs_shakes_hands_first() {
        let (mut link, log) = (Link::new(400, Millis(0)), Log(1000, 2100, 1600));
        // Byte by byte.
        let mut answer = Vec::new();
        for byte in switch_slave(7) {
            answer.extend(feed(&mut link, 0, &log, &[byte]).unwrap());
        }
        let expected = MasterHandshake { end: PhysicalOffset(2100), epochs: epochs().list().to_vec() };
        assert_eq!(answer, expected.encode());
        assert_eq!(link.slave().unwrap().broker_id, 7);
        assert_eq!(batches(&mut link, 0, &log), []);
        feed(&mut link, 0, &log, &switch::report(PhysicalOffset(0))).unwrap();
        assert_eq!(link.acked(), Some(0));
        let parts = [(1000, 400), (1400, 100), (1500, 400), (1900, 100), (2000, 100)];
        assert_eq!(batches(&mut link, 0, &log), parts, "from the oldest file, cut at the epoch");
        assert_eq!(batches(&mut link, 1, &Log(1000, 2100, 2100)), [(2100, 0)], "news of what is confirmed");
        assert_eq!(batches(&mut link, 2, &Log(1000, 2100, 2100)), []);
    }

    #[test]
    fn eight_bytes_that_fit_both_wait_for_a_second() {
        let log = Log(0, 1 << 33, 0);
        let both = &switch_slave(7)[..8];
        let mut link = Link::new(400, Millis(0));
        feed(&mut link, 100, &log, both).unwrap();
        assert_eq!(link.wake_at(), Millis(1_100));
        link.on_tick(Millis(1_100), &log).unwrap();
        assert!(matches!(link.state, State::Transfer { next } if next == 1 << 32));
        let mut two = Link::new(400, Millis(0));
        feed(&mut two, 0, &log, &[both, &plain::report(PhysicalOffset(1 << 32))].concat()).unwrap();
        assert!(two.slave().is_none() && two.acked() == Some(1 << 32));
    }

    #[test]
    fn a_slave_gets_no_more_than_its_pace() {
        let log = Log(0, 900, 900);
        let mut link = Link::new(400, Millis(0)).with_pace(Some(1_000));
        feed(&mut link, 0, &log, &[0; 8]).unwrap();
        assert_eq!(batches(&mut link, 0, &log), []);
        assert_eq!(link.wake_at(), Millis(2));
        assert_eq!(batches(&mut link, 100, &log), [(0, 100)]);
        assert_eq!(batches(&mut link, 5_000, &log), [(100, 400), (500, 400)], "a second's at most");
    }

    #[test]
    fn silence_ends_it() {
        let (mut link, log) = (Link::new(400, Millis(0)), Log(0, 0, 0));
        assert_eq!(link.on_tick(Millis(20_000), &log), Ok(()));
        assert_eq!(link.on_tick(Millis(20_001), &log), Err(LinkError::Silent));
    }
}
