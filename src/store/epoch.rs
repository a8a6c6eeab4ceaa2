//! Epochs: which stretch of the log was written by which master, so that two brokers find where their logs part.
//!
//! Every start of a master begins an epoch where its log ends, for a crash may have taken what slaves have got already:
//! what it writes next is another history from there on. Two logs are equal up to the end of their last common epoch.
//! The file is RocketMQ's `epochFileCheckpoint`:
//!
//! ```text
//! number of entries \n  CRC-32 of the lines below & 0x7FFFFFFF, or 0 \n  { epoch - start \n }
//! ```
//! Outside controller mode nobody gives out numbers, so ours cannot be given out twice: the last three digits are the
//! broker's id, and the first number of a new store is drawn, lest a broker that lost its disk repeat its old numbers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::config_file::{ConfigFile, ConfigLoadError, ConfigSaveError};
use crate::env::Disk;
use crate::proto::ha::switch::{Epoch, EPOCHS_MAX};
use crate::proto::PhysicalOffset;

/// The longest file that is read, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;
/// Numbers that a broker's id takes of an epoch's.
const IDS: i32 = 1000;
/// First numbers are drawn below this, in units of [`IDS`].
const FIRST_MAX: u64 = 1_000_000;

/// Why bytes are no epoch file.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the epochs is not what it should be")]
pub struct EpochError {
    line: usize,
}

/// Epochs in order: numbers and starts grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs(Vec<Epoch>);

/// Where a slave's log leaves its master's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// Both are equal up to here.
    At(PhysicalOffset),
    /// Whatever they share lies before the master's first epoch, which begins here; it has expired there.
    Before(PhysicalOffset),
    /// They share nothing.
    Foreign,
}

impl Epochs {
    /// Reads the file's content.
    ///
    /// # Errors
    /// Names the first line that is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Epochs, EpochError> {
        let wrong = |line| EpochError { line };
        let text = std::str::from_utf8(bytes).map_err(|_| wrong(1))?;
        let (count, rest) = text.split_once('\n').ok_or(wrong(1))?;
        let (sum, entries) = rest.split_once('\n').ok_or(wrong(2))?;
        let count: usize = count.trim().parse().map_err(|_| wrong(1))?;
        let sum: u32 = sum.trim().parse().map_err(|_| wrong(2))?;
        if sum != 0 && sum != checksum(entries) {
            return Err(wrong(2));
        }
        let mut epochs = Epochs::default();
        for (index, line) in entries.lines().enumerate() {
            let entry = line.split_once('-').and_then(|(number, start)| {
                Some(Epoch { number: number.parse().ok()?, start: PhysicalOffset(start.trim().parse().ok()?) })
            });
            if !entry.is_some_and(|entry| epochs.push(entry)) {
                return Err(wrong(index + 3));
            }
        }
        if epochs.0.len() != count {
            return Err(wrong(1));
        }
        Ok(epochs)
    }

    /// The file's content.
    pub fn encode(&self) -> String {
        let entry = |epoch: &Epoch| format!("{}-{}\n", epoch.number, epoch.start.0);
        let entries: String = self.0.iter().map(entry).collect();
        format!("{}\n{}\n{entries}", self.0.len(), checksum(&entries))
    }

    /// All of them.
    pub fn list(&self) -> &[Epoch] {
        &self.0
    }

    /// The newest.
    pub fn last(&self) -> Option<Epoch> {
        self.0.last().copied()
    }

    /// Adds an epoch if its number and its start are above the last one's; `false` if not.
    pub fn push(&mut self, epoch: Epoch) -> bool {
        let later = self.last().is_none_or(|last| epoch.number > last.number && epoch.start > last.start);
        if later {
            self.0.push(epoch);
        }
        later
    }

    /// The log ends at `end` now: epochs that begin there or behind have nothing in it.
    pub fn cut(&mut self, end: PhysicalOffset) {
        self.0.retain(|epoch| epoch.start < end);
    }

    /// Takes the last one back.
    pub fn withdraw(&mut self) {
        self.0.pop();
    }

    /// The log begins at `min` now: epochs that end there or before have nothing in it. The last one stays.
    pub fn trim(&mut self, min: PhysicalOffset) {
        let gone = self.0.partition_point(|epoch| epoch.start <= min).saturating_sub(1);
        self.0.drain(..gone);
    }

    /// Begins an epoch of the master `broker_id` at `end`, where its log ends. `drawn` is any number, for the first one.
    pub fn begin(&mut self, end: PhysicalOffset, broker_id: u64, drawn: u64) -> Epoch {
        let base = self.last().map_or((drawn % FIRST_MAX + 1) as i32, |last| last.number / IDS + 1);
        self.cut(end);
        let number = base.saturating_mul(IDS).saturating_add((broker_id % IDS as u64) as i32);
        let start = if self.0.is_empty() { PhysicalOffset(0) } else { end };
        let epoch = Epoch { number, start };
        self.0.push(epoch);
        let surplus = self.0.len().saturating_sub(EPOCHS_MAX);
        self.0.drain(..surplus);
        epoch
    }

    /// The epoch that the byte at `at` belongs to, and where the next one begins.
    pub fn of(&self, at: PhysicalOffset) -> Option<(Epoch, Option<PhysicalOffset>)> {
        let behind = self.0.partition_point(|epoch| epoch.start <= at);
        let epoch = *self.0.get(behind.checked_sub(1)?)?;
        Some((epoch, self.0.get(behind).map(|next| next.start)))
    }

    /// Where a slave with these epochs, whose log ends at `end`, leaves a master with the epochs and the end given.
    pub fn parting(&self, end: PhysicalOffset, master: &[Epoch], master_end: PhysicalOffset) -> Parting {
        let ends = |epochs: &[Epoch], index: usize, last| epochs.get(index + 1).map_or(last, |next: &Epoch| next.start);
        for (index, own) in self.0.iter().enumerate().rev() {
            if let Some(same) = master.iter().position(|theirs| theirs == own) {
                return Parting::At(ends(&self.0, index, end).min(ends(master, same, master_end)).min(end));
            }
        }
        match (self.last(), master.first()) {
            // Whatever this log is, it has nothing: the master's is as good as any.
            _ if end.0 == 0 => Parting::At(end),
            // A log without epochs was copied from somewhere, or is a slave's of the plain protocol.
            (None, _) if end <= master_end => Parting::At(end),
            // All of the master's log is known, and none of it is here: what it had before it lost on its way down.
            (Some(_), Some(first)) if first.start.0 == 0 => Parting::At(first.start),
            (Some(last), Some(first)) if last.number < first.number => Parting::Before(first.start),
            _ => Parting::Foreign,
        }
    }
}

/// The epochs and their file.
pub struct EpochFile {
    epochs: Epochs,
    file: ConfigFile,
}

impl EpochFile {
    /// Where the file is in a store.
    pub fn path(root: &Path) -> PathBuf {
        root.join("epochFileCheckpoint")
    }

    /// Reads the file of the store at `root`; no epochs if there is none.
    ///
    /// # Errors
    /// If neither it nor its backup can be used: without epochs a slave cannot tell whether its log is its master's.
    pub fn open(disk: &Arc<dyn Disk>, root: &Path) -> Result<EpochFile, ConfigLoadError> {
        let (file, loaded) = ConfigFile::open(Arc::clone(disk), EpochFile::path(root), FILE_LEN_MAX, Epochs::decode)?;
        Ok(EpochFile { epochs: loaded.into_value().unwrap_or_default(), file })
    }

    /// The epochs as they were last saved.
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Saves other ones.
    ///
    /// # Errors
    /// What the disk said; the epochs are as before.
    pub async fn save(&mut self, epochs: Epochs) -> Result<(), ConfigSaveError> {
        if epochs != self.epochs {
            self.file.save(epochs.encode().as_bytes()).await?;
            self.epochs = epochs;
        }
        Ok(())
    }
}

fn checksum(entries: &str) -> u32 {
    crc32fast::hash(entries.as_bytes()) & 0x7FFF_FFFF
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(list: &[(i32, u64)]) -> Epochs {
        Epochs(list.iter().map(|(number, start)| Epoch { number: *number, start: PhysicalOffset(*start) }).collect())
    }

    #[test]
    fn the_file_is_rocketmq_s() {
        let text = "2\n1231786204\n1-0\n3-1073742000\n";
        let two = epochs(&[(1, 0), (3, 1_073_742_000)]);
        assert_eq!(two.encode(), text);
        assert_eq!(Epochs::decode(text.as_bytes()).unwrap(), two);
        assert_eq!(Epochs::decode(b"1\n0\n7-5\n").unwrap(), epochs(&[(7, 5)]), "0 is not checked");
        for wrong in ["", "1\n", "2\n0\n1-0\n", "1\n5\n1-0\n", "1\n0\n1:0\n", "2\n0\n2-0\n1-5\n", "2\n0\n1-5\n2-5\n"] {
            assert!(Epochs::decode(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_start_begins_an_epoch_that_nobody_had() {
        let mut own = Epochs::default();
        let first = own.begin(PhysicalOffset(0), 2, 4711);
        assert_eq!((first.number, first.start.0), (4_712_002, 0));
        let second = own.begin(PhysicalOffset(900), 2, 1);
        assert_eq!((second.number, second.start.0), (4_713_002, 900));
        // All of the second is lost: the third takes its place, with another number.
        let third = own.begin(PhysicalOffset(900), 0, 1);
        assert_eq!((third.number, third.start.0), (4_714_000, 900));
        assert_eq!(own.list().len(), 2);
        assert_eq!(own.of(PhysicalOffset(899)).unwrap().0, first);
        assert_eq!(own.of(PhysicalOffset(899)).unwrap().1, Some(PhysicalOffset(900)));
        assert_eq!(own.of(PhysicalOffset(5000)), Some((third, None)));
    }

    #[test]
    fn epochs_expire_with_the_log() {
        let trimmed = |min| {
            let mut epochs = epochs(&[(1, 0), (2, 400), (3, 900)]);
            epochs.trim(PhysicalOffset(min));
            epochs.list().iter().map(|epoch| epoch.number).collect::<Vec<_>>()
        };
        assert_eq!(trimmed(0), [1, 2, 3]);
        assert_eq!(trimmed(399), [1, 2, 3]);
        assert_eq!(trimmed(400), [2, 3]);
        assert_eq!(trimmed(2000), [3], "the one that is being written");
        let mut none = Epochs::default();
        none.trim(PhysicalOffset(5));
        assert_eq!(none, Epochs::default());
    }

    #[test]
    fn logs_are_equal_up_to_the_end_of_their_last_common_epoch() {
        let parting = |own: &[(i32, u64)], end, master: &[(i32, u64)], master_end| {
            epochs(own).parting(PhysicalOffset(end), epochs(master).list(), PhysicalOffset(master_end))
        };
        let at = |at| Parting::At(PhysicalOffset(at));
        assert_eq!(parting(&[], 0, &[(1, 0)], 500), at(0), "a fresh slave");
        assert_eq!(parting(&[(1, 0)], 300, &[(1, 0)], 500), at(300), "behind");
        assert_eq!(parting(&[(1, 0)], 500, &[(1, 0), (2, 400)], 700), at(400), "the master lost what the slave has");
        assert_eq!(parting(&[(1, 0), (2, 400)], 650, &[(1, 0), (3, 400)], 700), at(400), "and wrote something else");
        assert_eq!(parting(&[(1, 0), (2, 400)], 650, &[(1, 0), (3, 600)], 700), at(400), "another master's");
        assert_eq!(parting(&[(1, 0)], 300, &[(1, 0), (2, 400)], 700), at(300), "behind by an epoch");
        assert_eq!(parting(&[(1, 0)], 300, &[(1, 0)], 200), at(200), "ahead");
        assert_eq!(parting(&[(1, 0)], 300, &[(5, 900)], 2000), Parting::Before(PhysicalOffset(900)));
        assert_eq!(parting(&[(1, 0)], 300, &[(2, 0)], 0), at(0), "the master lost everything");
        assert_eq!(parting(&[(7, 0)], 300, &[(1, 0), (2, 100)], 500), at(0));
        assert_eq!(parting(&[(7, 0)], 300, &[(1, 100), (2, 200)], 500), Parting::Foreign);
        assert_eq!(parting(&[], 300, &[(1, 0)], 200), Parting::Foreign, "no epochs, and ahead");
        assert_eq!(parting(&[], 300, &[(1, 0)], 400), at(300), "a copied log");
    }
}
