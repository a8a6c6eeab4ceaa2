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

    /// Whether the progress changed since it was last asked; the one who asks writes the file.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }
}
