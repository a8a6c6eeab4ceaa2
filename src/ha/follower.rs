//! A slave's end of the connection to its master.

use super::{HEARTBEAT_MS, SILENCE_MS};
use crate::env::Millis;
use crate::proto::ha::switch::{Epoch, MasterHandshake, SlaveHandshake};
use crate::proto::ha::{plain, switch, Decoded, FrameError};
use crate::proto::PhysicalOffset;

/// The longest part of the log that a master sends in a frame, in bytes: what RocketMQ's slaves can take.
const PART_MAX: u32 = 4 << 20;

/// What a master speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// AutoSwitchHA: a metaq broker.
    Switch,
    /// DefaultHA: an Apache broker outside controller mode.
    Plain,
}

/// Why the connection to the master is closed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// What it sends is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It does not speak the protocol with epochs.
    #[error("the master speaks the protocol without epochs")]
    Plain,
    /// It sends another part of the log than the one that comes next.
    #[error("the master sends the log from {found} on, what comes next here is {expected}")]
    Elsewhere {
        /// What it sends.
        found: u64,
        /// What was to come.
        expected: u64,
    },
    /// A part that is too long.
    #[error("the master sends {size} bytes in a frame")]
    TooLong {
        /// Its length.
        size: u32,
    },
    /// An epoch begins within a record.
    #[error("an epoch of the master begins within a record")]
    TornRecord,
    /// Nothing came from it.
    #[error("nothing came from the master for {} s", SILENCE_MS / 1000)]
    Silent,
}

/// What the bytes of the log that came belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The log begins there, in the master's oldest file, for a slave that has none or only what has expired.
    pub begins_at: Option<u64>,
    /// The master's epoch of the bytes, if it is another one than before.
    pub epoch: Option<Epoch>,
    /// Up to here consumers may read, if the master said so.
    pub confirmed: Option<u64>,
    /// Frames that there were.
    pub frames: usize,
}

/// See the module's text.
pub struct Follower {
    protocol: Protocol,
    input: Vec<u8>,
    /// Bytes of it that have come.
    filled: usize,
    /// What has been taken of them.
    consumed: usize,
    /// Where the next part begins; `None` until the slave has reported.
    expected: Option<u64>,
    epoch: Option<Epoch>,
    /// A part of the log has come.
    has_taken: bool,
    reported: Option<u64>,
    last_read: Millis,
    last_write: Millis,
}

impl Follower {
    /// The slave with this id has connected; what it says first goes to `out`.
    pub fn new(protocol: Protocol, broker_id: u64, now: Millis, out: &mut Vec<u8>) -> Follower {
        if protocol == Protocol::Switch {
            let handshake = SlaveHandshake { sync_from_last_file: false, async_learner: false, broker_id };
            out.extend_from_slice(&handshake.encode());
        }
        Follower {
            protocol,
            input: Vec::new(),
            filled: 0,
            consumed: 0,
            expected: None,
            epoch: None,
            has_taken: false,
            reported: None,
            last_read: now,
            last_write: now,
        }
    }

    /// Room for `most` bytes that the master sends next; [`Follower::on_read`] says how many came.
    pub fn room(&mut self, most: usize) -> &mut [u8] {
        if self.consumed > 0 {
            self.input.copy_within(self.consumed..self.filled, 0);
            (self.filled, self.consumed) = (self.filled - self.consumed, 0);
        }
        if self.input.len() < self.filled + most {
            self.input.resize(self.filled + most, 0);
        }
        &mut self.input[self.filled..self.filled + most]
    }

    /// So many bytes came from the master, into the [`Follower::room`] for them.
    pub fn on_read(&mut self, bytes: usize, now: Millis) {
        self.last_read = now;
        self.filled += bytes;
    }

    /// Bytes that came and have not been taken.
    fn rest(&self) -> &[u8] {
        &self.input[self.consumed..self.filled]
    }

    /// The master's handshake, once it is there.
    ///
    /// # Errors
    /// [`FollowError::Plain`] if it does not answer with one.
    pub fn handshake(&mut self) -> Result<Option<MasterHandshake>, FollowError> {
        match MasterHandshake::decode(self.rest()) {
            Ok(Decoded::Frame(handshake, len)) => {
                self.consumed += len;
                Ok(Some(handshake))
            }
            Ok(Decoded::Incomplete) => Ok(None),
            Err(FrameError::State { .. }) => Err(FollowError::Plain),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks for the log from `end` on, where it ends here; its last epoch is `epoch`.
    pub fn begin(&mut self, end: u64, epoch: Option<Epoch>, now: Millis, out: &mut Vec<u8>) {
        (self.expected, self.epoch) = (Some(end), epoch);
        self.report(end, now, out);
    }

    /// Whether the transfer has begun.
    pub fn is_following(&self) -> bool {
        self.expected.is_some()
    }

    /// Moves the bytes of the log that have come to the end of `log`, in whole frames of one epoch, and of `most` bytes
    /// or a frame more.
    ///
    /// # Errors
    /// Why the connection has to be closed.
    pub fn take(&mut self, segment_size: u64, most: usize, log: &mut Vec<u8>) -> Result<Taken, FollowError> {
        let mut taken = Taken::default();
        let Some(mut expected) = self.expected else { return Ok(taken) };
        while log.len() < most {
            let rest = &self.input[self.consumed..self.filled];
            let (at, size, head, epoch, confirmed) = match self.protocol {
                Protocol::Switch => match switch::DataHeader::decode(rest)? {
                    Decoded::Frame(header, head) => {
                        (header.at.0, header.size, head, Some(header.epoch), Some(header.confirmed.0))
                    }
                    Decoded::Incomplete => break,
                },
                Protocol::Plain => match plain::DataHeader::decode(rest)? {
                    Decoded::Frame(header, head) => (header.at.0, header.size, head, None, None),
                    Decoded::Incomplete => break,
                },
            };
            if size > PART_MAX {
                return Err(FollowError::TooLong { size });
            }
            let changes = epoch.is_some() && size > 0 && epoch != self.epoch;
            if changes && taken.frames > 0 {
                break;
            }
            if changes && !log.is_empty() {
                return Err(FollowError::TornRecord);
            }
            let Some(part) = rest[head..].get(..size as usize) else { break };
            if at != expected {
                // A slave without a log takes the master's from its oldest file on, and so does one that was away for so
                // long that what it lacks has expired. It has just compared epochs: what it has is the same log.
                let oldest = at > expected && at.is_multiple_of(segment_size) && taken.frames == 0;
                let knows = self.protocol == Protocol::Switch || expected == 0;
                if !oldest || !knows || !log.is_empty() || self.has_taken {
                    return Err(FollowError::Elsewhere { found: at, expected });
                }
                taken.begins_at = Some(at);
                expected = at;
            }
            if changes {
                (taken.epoch, self.epoch) = (epoch, epoch);
            }
            taken.confirmed = taken.confirmed.max(confirmed);
            taken.frames += 1;
            self.has_taken = true;
            log.extend_from_slice(part);
            self.consumed += head + part.len();
            expected += u64::from(size);
        }
        self.expected = Some(expected);
        Ok(taken)
    }

    /// The log has `held` bytes for good, or so the master is to believe: it is told if that is news.
    pub fn on_held(&mut self, held: u64, now: Millis, out: &mut Vec<u8>) {
        if self.expected.is_some() && self.reported.is_some_and(|reported| held > reported) {
            self.report(held, now, out);
        }
    }

    /// Time has passed.
    ///
    /// # Errors
    /// Why the connection has to be closed.
    pub fn on_tick(&mut self, now: Millis, out: &mut Vec<u8>) -> Result<(), FollowError> {
        if now.since(self.last_read) > SILENCE_MS {
            return Err(FollowError::Silent);
        }
        if let Some(reported) = self.reported.filter(|_| now.since(self.last_write) >= HEARTBEAT_MS) {
            self.report(reported, now, out);
        }
        Ok(())
    }

    /// When [`Follower::on_tick`] has to be called again if nothing else happens.
    pub fn wake_at(&self) -> Millis {
        let silent = self.last_read.plus(SILENCE_MS as i64 + 1);
        match self.reported {
            Some(_) => silent.min(self.last_write.plus(HEARTBEAT_MS as i64)),
            None => silent,
        }
    }

    fn report(&mut self, end: u64, now: Millis, out: &mut Vec<u8>) {
        match self.protocol {
            Protocol::Switch => out.extend_from_slice(&switch::report(PhysicalOffset(end))),
            Protocol::Plain => out.extend_from_slice(&plain::report(PhysicalOffset(end))),
        }
        (self.reported, self.last_write) = (Some(end), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(at: u64, epoch: (i32, u64), confirmed: u64, part: &[u8]) -> Vec<u8> {
        let epoch = Epoch { number: epoch.0, start: PhysicalOffset(epoch.1) };
        let (at, confirmed) = (PhysicalOffset(at), PhysicalOffset(confirmed));
        let header = switch::DataHeader { size: part.len() as u32, at, epoch, confirmed };
        [&header.encode()[..], part].concat()
    }

    fn on_bytes(follower: &mut Follower, bytes: &[u8]) {
        follower.room(bytes.len()).copy_from_slice(bytes);
        follower.on_read(bytes.len(), Millis(0));
    }

    fn following(end: u64) -> Follower {
        let mut follower = Follower::new(Protocol::Switch, 1, Millis(0), &mut Vec::new());
        follower.begin(end, None, Millis(0), &mut Vec::new());
        follower
    }

    #[test]
    fn frames_are_gathered_up_to_another_epoch() {
        let mut follower = following(10);
        let mut log = Vec::new();
        // However they are cut on the way.
        for byte in [frame(10, (1, 0), 5, b"abc"), frame(13, (1, 0), 9, b"de")].concat() {
            on_bytes(&mut follower, &[byte]);
            follower.take(1000, usize::MAX, &mut log).unwrap();
        }
        assert_eq!(log, b"abcde");
        log.clear();
        on_bytes(&mut follower, &[frame(15, (1, 0), 9, b"f"), frame(16, (2, 16), 12, b"g")].concat());
        let taken = follower.take(1000, usize::MAX, &mut log).unwrap();
        assert_eq!((log.as_slice(), taken.epoch, taken.confirmed), (&b"f"[..], None, Some(9)));
        assert_eq!(follower.take(1000, usize::MAX, &mut log), Err(FollowError::TornRecord), "f is no whole record");
        log.clear();
        let taken = follower.take(1000, usize::MAX, &mut log).unwrap();
        assert_eq!((log.as_slice(), taken.epoch.unwrap().number, taken.confirmed), (&b"g"[..], 2, Some(12)));
    }

    #[test]
    fn a_gap_is_refused_unless_the_master_s_log_begins_behind_it() {
        let take = |end, frames: &[Vec<u8>]| {
            let mut follower = following(end);
            on_bytes(&mut follower, &frames.concat());
            follower.take(1000, usize::MAX, &mut Vec::new())
        };
        let elsewhere = |found, expected| Err(FollowError::Elsewhere { found, expected });
        assert_eq!(take(0, &[frame(2000, (1, 0), 0, b"abc")]).unwrap().begins_at, Some(2000), "there is no log");
        assert_eq!(take(10, &[frame(2000, (1, 0), 0, b"abc")]).unwrap().begins_at, Some(2000), "it has expired");
        assert_eq!(take(10, &[frame(2001, (1, 0), 0, b"abc")]), elsewhere(2001, 10), "no file begins there");
        assert_eq!(take(3000, &[frame(2000, (1, 0), 0, b"abc")]), elsewhere(2000, 3000));
        let later = [frame(10, (1, 0), 0, b"abc"), frame(2000, (1, 0), 0, b"abc")];
        assert_eq!(take(10, &later), elsewhere(2000, 13), "in the middle of it");
    }

    #[test]
    fn a_master_without_epochs_is_recognized() {
        let mut follower = Follower::new(Protocol::Switch, 2, Millis(0), &mut Vec::new());
        on_bytes(&mut follower, &plain::DataHeader { at: PhysicalOffset(2), size: 0 }.encode());
        assert_eq!(follower.handshake(), Err(FollowError::Plain));
    }

    #[test]
    fn reports_come_with_news_and_every_five_seconds() {
        let mut follower = following(10);
        let mut out = Vec::new();
        follower.on_held(10, Millis(1), &mut out);
        assert!(out.is_empty());
        follower.on_held(12, Millis(1), &mut out);
        assert_eq!(out, switch::report(PhysicalOffset(12)));
        out.clear();
        follower.on_tick(Millis(5_000), &mut out).unwrap();
        assert!(out.is_empty());
        follower.on_tick(Millis(5_001), &mut out).unwrap();
        assert_eq!(out, switch::report(PhysicalOffset(12)));
        assert_eq!(follower.on_tick(Millis(20_001), &mut out), Err(FollowError::Silent));
    }
}
