//! The log as slaves get it: bytes, whatever they are.

use super::error::StoreError;
use super::handle::Store;
use crate::proto::PhysicalOffset;

impl Store {
    /// Appends `len` bytes of the log from position `at` on to `out`, confirmed or not. `false` if they are not there:
    /// expired, above the end, or not within one file.
    ///
    /// # Errors
    /// If the disk cannot read them.
    pub fn transfer(&self, at: PhysicalOffset, len: usize, out: &mut Vec<u8>) -> Result<bool, StoreError> {
        let segments = self.log.segments();
        self.log
            .read_below(self.log.end(), &segments, at.0, len, out)
            .map_err(StoreError::io("read the commit log for a slave"))
    }
}
