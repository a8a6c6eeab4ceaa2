//! One index file.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::layout::{
    i32_at, IndexEntry, IndexGeometry, IndexHeader, IndexHeaderError, ENTRY_PREVIOUS_AT, ENTRY_SIZE, HEADER_SIZE,
    SLOT_SIZE,
};
use super::merge::{valid_number, Merge, Progress};
use crate::env::{File, Millis};
use crate::proto::PhysicalOffset;

/// Longest walk along one chain; a longer one means a damaged file or a key repeated a million times.
const CHAIN_STEPS_MAX: u32 = 1 << 20;

/// Why a file cannot be used as an index. The index derives from the log, so such a file is made again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexFileError {
    /// The length is not the one that the configured slots and entries make.
    #[error("it has {len} bytes, {expected} are configured (maxHashSlotNum, maxIndexNum)")]
    Length {
        /// Length of the file in bytes.
        len: u64,
        /// Length of files of the configured geometry in bytes.
        expected: u64,
    },
    /// The header is damaged.
    #[error(transparent)]
    Header(#[from] IndexHeaderError),
    /// The disk would not say.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The file has no room for another entry; a new one has to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index file is full")]
pub struct IndexFull;

/// An index file and the entries that are not in it yet.
///
/// INV-IDX-1: an entry is found from the moment it was put, whether it is in memory, in the file or on its way.
pub struct IndexFile {
    file: Arc<dyn File>,
    geometry: IndexGeometry,
    /// Counts waiting entries too, but not the slots they will open.
    header: IndexHeader,
    /// Entries in their final form, except that their predecessor is filled in by the merge.
    waiting: Vec<u8>,
    merge: Option<Merge>,
    /// See [`Merge::may_have_hooked_until`]; 0 unless the last attempt failed.
    hooked_until: u32,
}

impl IndexFile {
    /// Makes an empty index of a new file that follows one ending with `previous`. Space is taken only as it is used.
    pub fn create(
        file: Arc<dyn File>,
        geometry: IndexGeometry,
        previous: Option<&IndexHeader>,
    ) -> io::Result<IndexFile> {
        let header = IndexHeader::following(previous);
        file.set_len(geometry.file_len())?;
        file.write_at(0, &header.encode())?;
        Ok(IndexFile { file, geometry, header, waiting: Vec::new(), merge: None, hooked_until: 0 })
    }

    /// Takes up an existing file.
    pub fn open(file: Arc<dyn File>, geometry: IndexGeometry) -> Result<IndexFile, IndexFileError> {
        let header = read_header(&*file, geometry)?;
        Ok(IndexFile { file, geometry, header, waiting: Vec::new(), merge: None, hooked_until: 0 })
    }

    /// The header, waiting entries counted in.
    pub fn header(&self) -> &IndexHeader {
        &self.header
    }

    /// True if no further entry fits.
    pub fn is_full(&self) -> bool {
        self.header.index_count >= self.geometry.entries()
    }

    /// Entries that are not in the file yet.
    pub fn waiting_entries(&self) -> usize {
        self.waiting.len() / ENTRY_SIZE
    }

    /// Adds an entry; it waits in memory for the next merge.
    pub fn put(&mut self, key_hash: u32, phy_offset: PhysicalOffset, store_timestamp: Millis) -> Result<(), IndexFull> {
        if self.is_full() {
            return Err(IndexFull);
        }
        let entry = IndexEntry {
            key_hash,
            phy_offset: phy_offset.0 as i64,
            time_diff: self.header.time_diff(store_timestamp) as i32,
            previous: 0,
        };
        self.waiting.extend_from_slice(&entry.encode());
        if self.header.is_empty() {
            self.header.begin_phy_offset = phy_offset;
            self.header.begin_timestamp = store_timestamp;
        }
        self.header.index_count += 1;
        self.header.end_phy_offset = phy_offset;
        self.header.end_timestamp = store_timestamp;
        Ok(())
    }

    /// Brings a piece of the waiting entries into the file. After an error nothing is lost; call again later.
    pub fn write_step(&mut self) -> io::Result<Progress> {
        if self.waiting.is_empty() {
            return Ok(Progress::Done);
        }
        let mut merge = match self.merge.take() {
            Some(merge) => merge,
            None => Merge::new(self.geometry, self.header, &self.waiting, self.hooked_until),
        };
        let opened_before = merge.header().hash_slot_count;
        let progress = merge.step(&*self.file, self.geometry, &mut self.waiting);
        self.header.hash_slot_count += merge.header().hash_slot_count - opened_before;
        match progress {
            Err(error) => {
                self.hooked_until = merge.may_have_hooked_until();
                return Err(error);
            }
            Ok(Progress::More) => self.merge = Some(merge),
            Ok(Progress::Done) => {
                self.hooked_until = 0;
                self.waiting.drain(..merge.len());
                if self.waiting.is_empty() {
                    self.waiting = Vec::new(); // an idle broker keeps no buffer
                }
            }
        }
        Ok(if self.waiting.is_empty() { Progress::Done } else { Progress::More })
    }

    /// Brings all waiting entries into the file.
    pub fn write_all(&mut self) -> io::Result<()> {
        while self.write_step()? == Progress::More {}
        Ok(())
    }

    /// Syncs what has been written.
    pub fn sync(&self) -> BoxFuture<'static, io::Result<()>> {
        self.file.sync()
    }

    pub(super) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Visits the waiting entries of a hash, newest first.
    pub(super) fn visit_waiting(&self, key_hash: u32, mut visit: impl FnMut(u32, &IndexEntry)) {
        let first = self.first_waiting();
        for (place, bytes) in self.waiting.chunks_exact(ENTRY_SIZE).enumerate().rev() {
            if i32_at(bytes, 0) as u32 == key_hash {
                let mut raw = [0; ENTRY_SIZE];
                raw.copy_from_slice(bytes);
                visit(first + place as u32, &IndexEntry::decode(&raw));
            }
        }
    }

    /// Number of the newest entry of a hash's slot that is in the file, 0 if there is none. Entries in the file never
    /// change, so the chain from there on can be walked without holding this file.
    pub(super) fn newest_written(&self, key_hash: u32) -> io::Result<u32> {
        let mut slot = [0; SLOT_SIZE];
        let at = self.geometry.slot_at(self.geometry.slot_of(key_hash));
        self.file.read_at(at, &mut slot)?;
        let first = self.first_waiting();
        let mut number = valid_number(i32::from_be_bytes(slot), self.header.index_count);
        while number >= first && number > 0 {
            // A running merge has changed the slot already; its entries know what came before them.
            let at = (number - first) as usize * ENTRY_SIZE + ENTRY_PREVIOUS_AT;
            let previous = valid_number(i32_at(&self.waiting, at), number);
            number = previous;
        }
        Ok(number)
    }

    /// True if this record is indexed under this hash.
    pub(super) fn contains(&self, key_hash: u32, phy_offset: PhysicalOffset) -> io::Result<bool> {
        let mut found = false;
        self.visit_waiting(key_hash, |_, entry| found |= entry.phy_offset == phy_offset.0 as i64);
        if !found {
            let newest = self.newest_written(key_hash)?;
            walk_chain(&*self.file, self.geometry, newest, |_, entry| {
                found |= entry.key_hash == key_hash && entry.phy_offset == phy_offset.0 as i64;
                if found {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
        }
        Ok(found)
    }

    fn first_waiting(&self) -> u32 {
        self.header.index_count - self.waiting_entries() as u32
    }
}

/// Reads and checks the header of a file of the configured geometry.
pub(super) fn read_header(file: &dyn File, geometry: IndexGeometry) -> Result<IndexHeader, IndexFileError> {
    let (len, expected) = (file.len()?, geometry.file_len());
    if len != expected {
        return Err(IndexFileError::Length { len, expected });
    }
    let mut bytes = [0; HEADER_SIZE];
    file.read_at(0, &mut bytes)?;
    Ok(IndexHeader::decode(&bytes, geometry)?)
}

/// Number of the newest entry of a hash's slot in a finished file.
pub(super) fn newest_entry(
    file: &dyn File,
    geometry: IndexGeometry,
    header: &IndexHeader,
    key_hash: u32,
) -> io::Result<u32> {
    let mut slot = [0; SLOT_SIZE];
    file.read_at(geometry.slot_at(geometry.slot_of(key_hash)), &mut slot)?;
    Ok(valid_number(i32::from_be_bytes(slot), header.index_count))
}

/// Visits a chain from entry `newest` to the oldest. Numbers fall along a chain; where they do not, the file is
/// damaged and the chain ends.
pub(super) fn walk_chain(
    file: &dyn File,
    geometry: IndexGeometry,
    newest: u32,
    mut visit: impl FnMut(u32, &IndexEntry) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut number = newest;
    for _ in 0..CHAIN_STEPS_MAX {
        if number == 0 {
            break;
        }
        let mut bytes = [0; ENTRY_SIZE];
        if file.read_at(geometry.entry_at(number), &mut bytes)? < ENTRY_SIZE {
            break;
        }
        let entry = IndexEntry::decode(&bytes);
        if visit(number, &entry).is_break() {
            break;
        }
        number = valid_number(entry.previous, number);
    }
    Ok(())
}
