//! Changes of a config file that is too long to be written whole for each of them.
//!
//! ```text
//! <f>.changes:  block | block | …        each a snapshot, only ever added, synced before anybody is told
//! ```
//!
//! Each block says which content of `<f>` it follows, by length and checksum. So what was added to another content, an
//! older one or one that RocketMQ has written since, counts as absent, whenever the power was cut.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::snapshot::{self, Kind};
use crate::env::{Disk, File, OpenMode};

const KIND: Kind = Kind { magic: *b"metaqCHG", version: 1 };

/// A content of the file that is written whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentId {
    len: u64,
    crc: u32,
}

impl ContentId {
    /// Of these bytes.
    pub fn of(content: &[u8]) -> ContentId {
        ContentId { len: content.len() as u64, crc: crc32fast::hash(content) }
    }
}

/// One of the changes: a name and what it has become, in the words of whoever keeps the table; `None` if it is gone.
pub type Change = (String, Option<Vec<u8>>);

#[derive(Serialize, Deserialize)]
struct Block {
    follows: ContentId,
    changes: Vec<Change>,
}

/// See the module's text.
pub struct ConfigJournal {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Open once something was added.
    file: Option<Arc<dyn File>>,
    end: u64,
    follows: Option<ContentId>,
}

impl ConfigJournal {
    /// The journal of the config file at `config`, which holds `content`, and its changes, the oldest first.
    ///
    /// # Errors
    /// The disk's. Damage is none: it ends what counts.
    pub fn open(
        disk: Arc<dyn Disk>,
        config: &Path,
        content: Option<ContentId>,
        len_max: u64,
    ) -> io::Result<(ConfigJournal, Vec<Change>)> {
        let mut path = config.as_os_str().to_owned();
        path.push(".changes");
        let mut journal = ConfigJournal { disk, path: path.into(), file: None, end: 0, follows: None };
        let bytes = journal.read(len_max)?;
        let Some(content) = content else { return Ok((journal, Vec::new())) };
        let (mut changes, mut rest) = (Vec::new(), bytes.as_slice());
        while let Some((block, len)) = first_block(rest).filter(|(block, _)| block.follows == content) {
            changes.extend(block.changes);
            rest = &rest[len..];
            journal.end += len as u64;
        }
        journal.follows = (journal.end > 0).then_some(content);
        Ok((journal, changes))
    }

    /// Bytes of the changes that count.
    pub fn len(&self) -> u64 {
        self.end
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Adds changes of a file that holds `content`. When this returns `Ok` they have survived a sync. After an error
    /// they may be there or not, and the file has to be written whole.
    ///
    /// # Errors
    /// The disk's.
    pub async fn add(&mut self, content: ContentId, changes: Vec<Change>) -> io::Result<()> {
        let block = snapshot::encode(KIND, &Block { follows: content, changes }).map_err(io::Error::other)?;
        let file = self.begin(content).await?;
        file.write_at(self.end, &block)?;
        file.sync().await?;
        self.end += block.len() as u64;
        Ok(())
    }

    /// The changes are in the file itself now: they go. If they cannot, they count for nothing all the same.
    pub fn forget(&mut self) {
        (self.file, self.end, self.follows) = (None, 0, None);
        let _ = self.disk.remove_file(&self.path);
    }

    /// The file to add to, which ends where the changes end.
    async fn begin(&mut self, content: ContentId) -> io::Result<Arc<dyn File>> {
        if self.follows != Some(content) {
            self.forget();
        }
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = self.disk.open(&self.path, OpenMode::CreateOrOpen)?;
        // What is left of others would stand behind a shorter block.
        file.set_len(self.end)?;
        self.disk.sync_dir(self.path.parent().unwrap_or(Path::new(""))).await?;
        self.follows = Some(content);
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    fn read(&self, len_max: u64) -> io::Result<Vec<u8>> {
        let file = match self.disk.open(&self.path, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut bytes = vec![0; file.len()?.min(len_max) as usize];
        let read = file.read_at(0, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// The block at the beginning and its length; `None` if there is no whole one.
fn first_block(bytes: &[u8]) -> Option<(Block, usize)> {
    let len = snapshot::length(bytes)?;
    let block = snapshot::decode(KIND, bytes.get(..len)?).ok()?;
    Some((block, len))
}
