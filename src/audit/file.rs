//! The file in which one process keeps what it did and saw.
//!
//! ```text
//! block | block | …        each a snapshot: magic 8 | version 4 | length 4 | content | CRC-32 4
//! ```
//! Blocks are only ever added at the end, so of a process that was killed the last block may be cut: what stands before it
//! counts. A history that ends without [`Entry::End`] says that its process may have done more.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::history::Event;
use crate::store::snapshot::{self, Kind, SnapshotError};

/// How names of such files end.
pub const EXTENSION: &str = "history";

/// The longest file that is written or read, in bytes.
pub const FILE_LEN_MAX: u64 = 1 << 30;

const KIND: Kind = Kind { magic: *b"metaqHIS", version: 1 };

/// Something that a process has to tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// What happened, and when, in microseconds of the process's monotonic clock.
    Event(u64, Event),
    /// It has a producer.
    Producer(Producer),
    /// It has a consumer of a group.
    Consumer(Consumer),
    /// All messages of a topic were looked for until then, and those that were there are told as [`Event::Found`].
    Read(u64, Arc<str>),
    /// So many events are not here: they could not be written.
    Lost(u64),
    /// It ended in order, and told everything.
    End,
}

/// How a producer sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Producer {
    /// It tries again so many times.
    pub retries: u32,
    /// A send ends after so many microseconds.
    pub timeout_us: u64,
}

/// How a consumer consumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumer {
    /// Its group.
    pub group: Arc<str>,
    /// One message of a queue after the other.
    pub in_order: bool,
    /// Only some of its topics' messages, by a filter or of assigned queues.
    pub filtered: bool,
    /// It was told to go on elsewhere in a queue.
    pub moved: bool,
    /// Where the group was never before it begins with a queue's first message.
    pub from_first: bool,
}

/// What is written at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Random: tells histories apart, and their messages.
    pub recorder: u32,
    /// The process, for people.
    pub name: String,
    /// The wall-clock time at which the monotonic clock was 0, in microseconds since 1970, as well as it is known.
    pub zero_us: i64,
    /// What happened since the block before.
    pub entries: Vec<Entry>,
}

/// What one process told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Which recorder it was.
    pub recorder: u32,
    /// The process, for people.
    pub name: String,
    /// As in its last block.
    pub zero_us: i64,
    /// Everything, in order.
    pub entries: Vec<Entry>,
    /// Bytes at the end that are no whole block.
    pub cut_bytes: usize,
}

/// A block as bytes.
///
/// # Errors
/// If it is larger than a snapshot can be.
pub fn encode(block: &Block) -> Result<Vec<u8>, SnapshotError> {
    snapshot::encode(KIND, block)
}

/// Why bytes are no history.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file does not begin with a block.
    #[error("it is no history: {0}")]
    First(#[from] SnapshotError),
    /// A later block is another recorder's.
    #[error("it holds histories of two recorders")]
    Mixed,
}

/// Reads a file's bytes. What follows the first block that is not whole is passed over.
///
/// # Errors
/// [`ReadError`], if there is nothing to read.
pub fn decode(bytes: &[u8]) -> Result<Recorded, ReadError> {
    let mut found: Option<Recorded> = None;
    let mut rest = bytes;
    while !rest.is_empty() {
        let (block, behind) = match next(rest) {
            Ok(next) => next,
            Err(_) if found.is_some() => break,
            Err(error) => return Err(error.into()),
        };
        let recorded = found.get_or_insert_with(|| Recorded {
            recorder: block.recorder,
            name: block.name,
            zero_us: 0,
            entries: Vec::new(),
            cut_bytes: 0,
        });
        if recorded.recorder != block.recorder {
            return Err(ReadError::Mixed);
        }
        recorded.zero_us = block.zero_us;
        recorded.entries.extend(block.entries);
        rest = behind;
    }
    let mut recorded = found.ok_or(SnapshotError::Length)?;
    recorded.cut_bytes = rest.len();
    Ok(recorded)
}

fn next(bytes: &[u8]) -> Result<(Block, &[u8]), SnapshotError> {
    let length = snapshot::length(bytes).filter(|length| *length <= bytes.len()).ok_or(SnapshotError::Length)?;
    let (block, rest) = bytes.split_at(length);
    Ok((snapshot::decode(KIND, block)?, rest))
}

/// The time of a monotonic clock's 0 by a wall clock that shows whole milliseconds only.
///
/// Each look says that it lies within a millisecond; many looks at different moments leave a few microseconds of it. So
/// histories of one machine fit together as closely as its processes can see.
#[derive(Clone, Copy, Debug, Default)]
pub struct Zero {
    least_us: Option<i64>,
}

/// A look that says something else by more than this means that the wall clock was set.
const SET_US: i64 = 2_000;

impl Zero {
    /// Both clocks were looked at, the monotonic one in microseconds.
    pub fn look(&mut self, wall_ms: i64, monotonic_us: u64) {
        let least = wall_ms.saturating_mul(1_000).saturating_sub_unsigned(monotonic_us);
        let known = self.least_us.get_or_insert(least);
        let apart = least.saturating_sub(*known);
        if !(-SET_US..=0).contains(&apart) {
            *known = least;
        }
    }

    /// As well as it is known, in microseconds since 1970.
    pub fn at_us(&self) -> i64 {
        self.least_us.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(entries: Vec<Entry>) -> Vec<u8> {
        encode(&Block { recorder: 7, name: "orders@1".into(), zero_us: 5, entries }).unwrap()
    }

    fn events(from: u64, to: u64) -> Vec<Entry> {
        (from..to).map(|number| Entry::Event(number, Event::Sending(number))).collect()
    }

    #[test]
    fn a_cut_tail_costs_its_block_and_no_more() {
        let first = block(events(0, 3));
        let whole = [first.clone(), block(events(3, 5)), block(vec![Entry::End])].concat();
        let read = decode(&whole).unwrap();
        assert_eq!((read.entries.len(), read.entries.last(), read.cut_bytes), (6, Some(&Entry::End), 0));
        for cut in first.len()..whole.len() {
            let read = decode(&whole[..cut]).unwrap();
            assert_eq!(read.entries[..3], events(0, 3), "cut at {cut}");
            assert!(!read.entries.contains(&Entry::End), "cut at {cut}");
        }
        for cut in 0..first.len() {
            assert!(decode(&whole[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_file_of_two_recorders_is_refused() {
        let other = encode(&Block { recorder: 8, name: String::new(), zero_us: 0, entries: Vec::new() }).unwrap();
        assert!(matches!(decode(&[block(events(0, 1)), other].concat()), Err(ReadError::Mixed)));
    }

    #[test]
    fn many_looks_at_a_coarse_clock_make_a_fine_one() {
        let (mut zero, real_us) = (Zero::default(), 1_700_000_000_123_456_i64);
        for at in (0..2_000_000_u64).step_by(617) {
            zero.look((real_us + at as i64) / 1_000, at);
        }
        assert!((real_us - 5..=real_us).contains(&zero.at_us()), "{}", zero.at_us() - real_us);
        // The clock is set back by a minute.
        zero.look((real_us - 60_000_000) / 1_000, 0);
        assert_eq!(zero.at_us(), (real_us - 60_000_000) / 1_000 * 1_000);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_history_or_an_error(bytes: Vec<u8>, tail: Vec<u8>) {
            let _ = decode(&bytes);
            let _ = decode(&[block(Vec::new()), tail].concat());
        }
    }
}
