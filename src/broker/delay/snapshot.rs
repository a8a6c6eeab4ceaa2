//! The progress as `delayOffset.json` and GET_ALL_DELAY_OFFSET hold it.

use std::collections::BTreeMap;

use crate::env::Millis;
use crate::proto::body::{DataVersion, DelayOffsetSerializeWrapper as Wrapper};
use crate::proto::QueueOffset;

use super::DelayScheduler;

/// The saved progress of a file, for [`DelayScheduler::new`]. Negative offsets count as 0.
pub fn saved_progress(wrapper: Wrapper) -> (DataVersion, BTreeMap<i32, QueueOffset>) {
    let progress = wrapper.offset_table.into_iter().map(|(level, offset)| (level, QueueOffset(offset.max(0) as u64)));
    (wrapper.data_version.unwrap_or_default(), progress.collect())
}

impl DelayScheduler {
    /// Progress and version of one moment: levels that ever held a message.
    pub fn snapshot(&mut self, wall: Millis) -> Wrapper {
        for _ in 0..self.updates / self.version_step {
            self.version.next(wall);
        }
        self.updates %= self.version_step;
        let used = self.levels.iter().zip(1..).filter(|(level, _)| level.ever_used);
        let progress = used.map(|(level, number)| (number, level.progress));
        let kept = self.unknown.iter().map(|(number, offset)| (*number, *offset));
        let offset_table = kept.chain(progress).map(|(number, offset)| (number, offset.0 as i64)).collect();
        Wrapper { data_version: Some(self.version), offset_table }
    }

    /// Takes over the progress of a slave's master: forwards only, for what was delivered once stays delivered. `true` if
    /// a level moved.
    pub fn follow(&mut self, master: Wrapper) -> bool {
        let (version, progress) = saved_progress(master);
        let before = self.changes();
        for (number, offset) in progress {
            let level = usize::try_from(number - 1).ok().and_then(|index| self.levels.get_mut(index));
            let own = match level {
                Some(level) => {
                    level.ever_used = true;
                    &mut level.progress
                }
                None => self.unknown.entry(number).or_default(),
            };
            self.moves += u64::from(offset > *own);
            *own = offset.max(*own);
        }
        self.version = version;
        self.dirty |= self.changes() != before;
        self.changes() != before
    }

    /// How often the progress of a level moved so far.
    pub fn changes(&self) -> u64 {
        self.moves
    }

    /// Whether the progress changed since [`DelayScheduler::take_dirty`].
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Whether the progress changed since it was last asked; the one who asks writes the file.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::delay::QueueRange;
    use crate::proto::body::config_files::ConfigFile;
    use crate::proto::message::DelayLevels;

    #[test]
    fn a_slave_takes_over_its_masters_progress_and_never_goes_back() {
        let levels = DelayLevels::parse("1s 2s").unwrap();
        let mut slave =
            DelayScheduler::new(&levels, 200, saved_progress(Wrapper::default()), |_| None, &mut Vec::new());
        let told = |offset| Wrapper { data_version: None, offset_table: BTreeMap::from([(1, offset), (9, 3)]) };
        assert!(slave.follow(told(7)) && slave.take_dirty());
        assert!(!slave.follow(told(5)) && !slave.take_dirty());
        assert_eq!(slave.snapshot(Millis(1)).offset_table, told(7).offset_table);
    }

    /// DLY-11: what one process saved is where the next one goes on, also for levels it does not have.
    #[test]
    fn dly_11_the_file_of_an_apache_broker_is_read_and_kept() {
        let bytes = include_bytes!("../../../tests/vectors/store/captured/config/delayOffset.json");
        let loaded = Wrapper::parse(bytes).unwrap();
        let range = |level: i32| {
            let max = QueueOffset(*loaded.offset_table.get(&level)? as u64);
            Some(QueueRange { min: QueueOffset(0), max })
        };
        for table in ["1s 2s", "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"] {
            let (levels, saved) = (DelayLevels::parse(table).unwrap(), saved_progress(loaded.clone()));
            let mut scheduler = DelayScheduler::new(&levels, 200, saved, range, &mut Vec::new());
            assert!(!scheduler.take_dirty());
            assert_eq!(scheduler.snapshot(Millis(1)), loaded);
        }
    }
}
