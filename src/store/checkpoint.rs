//! The store's `checkpoint` file: up to which store time things are on disk.

use std::io;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::env::{Disk, File, Millis, OpenMode};
use crate::proto::PhysicalOffset;

/// Length of the file; only the first 40 bytes carry values, the rest is zero.
pub const CHECKPOINT_LEN: usize = 4096;

/// Bytes at the start of the file that carry values.
const FIELDS_LEN: usize = 40;
const _: () = assert!(FIELDS_LEN == 5 * size_of::<i64>());

/// What the timestamps may be behind the truth: recovery starts this much earlier.
const MARGIN_MS: i64 = 3000;

/// Values of the checkpoint (RocketMQ's `StoreCheckpoint`).
///
/// ```text
/// | physicMsgTimestamp 8 | logicsMsgTimestamp 8 | indexMsgTimestamp 8 | masterFlushedOffset 8 | confirmPhyOffset 8 |
/// ```
/// All big-endian `i64`. Any value is accepted: a damaged checkpoint only makes recovery start earlier or later, and
/// recovery checks what it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Store time of the last record known to be synced in the commit log.
    pub physic_msg_timestamp: Millis,
    /// Store time of the last record known to be in its consume queue file.
    pub logics_msg_timestamp: Millis,
    /// End time of the last finished and synced index file.
    pub index_msg_timestamp: Millis,
    /// Flushed position of the master, as a slave last heard it.
    pub master_flushed_offset: i64,
    /// Confirmed position in controller mode; elsewhere the start of the last valid record that recovery saw.
    pub confirm_phy_offset: i64,
}

impl Checkpoint {
    /// Reads the values from the start of a checkpoint file. Missing bytes count as zero, as in a file that lost its
    /// content in a crash: then recovery starts at the first segment, which is always safe.
    pub fn decode(bytes: &[u8]) -> Checkpoint {
        let field = |index: usize| {
            let mut raw = [0; 8];
            let stored = bytes.get(index * 8..).unwrap_or_default();
            let len = stored.len().min(8);
            raw[..len].copy_from_slice(&stored[..len]);
            i64::from_be_bytes(raw)
        };
        Checkpoint {
            physic_msg_timestamp: Millis(field(0)),
            logics_msg_timestamp: Millis(field(1)),
            index_msg_timestamp: Millis(field(2)),
            master_flushed_offset: field(3),
            confirm_phy_offset: field(4),
        }
    }

    /// The whole file.
    pub fn encode(&self) -> [u8; CHECKPOINT_LEN] {
        let mut bytes = [0; CHECKPOINT_LEN];
        let fields = [
            self.physic_msg_timestamp.0,
            self.logics_msg_timestamp.0,
            self.index_msg_timestamp.0,
            self.master_flushed_offset,
            self.confirm_phy_offset,
        ];
        for (slot, value) in bytes.chunks_exact_mut(8).zip(fields) {
            slot.copy_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    /// The confirmed position as a log position; a negative stored value counts as 0.
    pub fn confirmed(&self) -> PhysicalOffset {
        PhysicalOffset(self.confirm_phy_offset.max(0) as u64)
    }

    /// Every record stored up to this time is in the commit log and in its consume queue; never negative.
    pub fn min_timestamp(&self) -> Millis {
        Millis(self.physic_msg_timestamp.min(self.logics_msg_timestamp).0.saturating_sub(MARGIN_MS).max(0))
    }

    /// Like [`Checkpoint::min_timestamp`], and in the index as well.
    pub fn min_timestamp_index(&self) -> Millis {
        self.min_timestamp().min(self.index_msg_timestamp)
    }

    /// Reads the file at `path`; zeros if there is none.
    pub fn load(disk: &dyn Disk, path: &Path) -> io::Result<Checkpoint> {
        let file = match disk.open(path, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Checkpoint::default()),
            Err(error) => return Err(error),
        };
        read(&*file)
    }
}

fn read(file: &dyn File) -> io::Result<Checkpoint> {
    let mut bytes = [0; FIELDS_LEN];
    let len = file.read_at(0, &mut bytes)?;
    Ok(Checkpoint::decode(&bytes[..len]))
}

/// The open checkpoint file of a running store.
#[derive(Clone)]
pub struct CheckpointFile {
    file: Arc<dyn File>,
}

impl CheckpointFile {
    /// Opens the file, making it with zeros if it is missing or short, and returns what it holds. A new name is made
    /// to last by the next [`Disk::sync_dir`] of its directory; losing it is safe.
    pub fn open(disk: &dyn Disk, path: &Path) -> io::Result<(CheckpointFile, Checkpoint)> {
        let file = disk.open(path, OpenMode::CreateOrOpen)?;
        let checkpoint = read(&*file)?;
        if file.len()? != CHECKPOINT_LEN as u64 {
            file.set_len(CHECKPOINT_LEN as u64)?;
        }
        Ok((CheckpointFile { file }, checkpoint))
    }

    /// Writes `checkpoint` and syncs it. The values share one disk sector, so a power cut leaves the old ones or the new
    /// ones. Call it only with values whose data has been synced before.
    pub fn save(&self, checkpoint: &Checkpoint) -> BoxFuture<'static, io::Result<()>> {
        let written = self.file.write_at(0, &checkpoint.encode()[..FIELDS_LEN]);
        let file = self.file.clone();
        Box::pin(async move {
            written?;
            file.sync().await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Checkpoint {
        Checkpoint {
            physic_msg_timestamp: Millis(1_700_000_000_456),
            logics_msg_timestamp: Millis(1_700_000_000_400),
            index_msg_timestamp: Millis(1_699_999_000_000),
            master_flushed_offset: -1,
            confirm_phy_offset: 7,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Checkpoint::decode(&sample().encode()), sample());
    }

    #[test]
    fn a_short_file_counts_as_zeros() {
        assert_eq!(Checkpoint::decode(&[]), Checkpoint::default());
        let bytes = sample().encode();
        let cut = Checkpoint::decode(&bytes[..12]);
        assert_eq!(cut.physic_msg_timestamp, sample().physic_msg_timestamp);
        assert_eq!(cut.index_msg_timestamp, Millis(0));
    }

    #[test]
    fn minimum_times_keep_a_margin_and_are_never_negative() {
        assert_eq!(sample().min_timestamp(), Millis(1_700_000_000_400 - 3000));
        assert_eq!(sample().min_timestamp_index(), Millis(1_699_999_000_000));
        assert_eq!(Checkpoint::default().min_timestamp(), Millis(0));
        let negative = Checkpoint { physic_msg_timestamp: Millis(i64::MIN), ..sample() };
        assert_eq!(negative.min_timestamp(), Millis(0));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_decode(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
            let checkpoint = Checkpoint::decode(&bytes);
            checkpoint.min_timestamp_index();
            checkpoint.confirmed();
            proptest::prop_assert_eq!(Checkpoint::decode(&checkpoint.encode()), checkpoint);
        }
    }
}
