//! The file that keeps settings changed by request (UPDATE_BROKER_CONFIG, UPDATE_NAMESRV_CONFIG): the one the server was
//! started with, or one in its data folder that the next start reads.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::properties::{self, BYTES_MAX};
use crate::env::{Disk, OpenMode};

/// Where settings changed by request are kept.
pub struct SettingsFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl SettingsFile {
    /// The file at `path`, which need not be there.
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf) -> SettingsFile {
        SettingsFile { disk, path }
    }

    /// The text of a settings file.
    ///
    /// # Errors
    /// If it is not there, cannot be read, is longer than [`BYTES_MAX`], or is no UTF-8.
    pub fn read(disk: &dyn Disk, path: &Path) -> io::Result<String> {
        let file = disk.open(path, OpenMode::Read)?;
        let len = file.len()?;
        if len > BYTES_MAX as u64 {
            return Err(io::Error::other(format!("it has {len} bytes, at most {BYTES_MAX} are possible")));
        }
        let mut bytes = vec![0; len as usize];
        let read = file.read_at(0, &mut bytes)?;
        bytes.truncate(read);
        String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// The same; nothing if the file is not there.
    ///
    /// # Errors
    /// All others.
    pub fn read_if_there(disk: &dyn Disk, path: &Path) -> io::Result<String> {
        match SettingsFile::read(disk, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read,
        }
    }

    /// Writes the changed keys; comments, order and all other keys stay as they are now, whoever wrote them. When this
    /// returns `Ok` they have survived a sync. At every moment the file is complete, old or new.
    ///
    /// # Errors
    /// A text that names the file and what the disk said; it is logged too.
    pub async fn save(&self, changes: &[(String, String)]) -> Result<(), String> {
        if changes.is_empty() {
            return Ok(());
        }
        self.try_save(changes).await.map_err(|error| {
            let text = format!("cannot save {}: {error}", self.path.display());
            tracing::error!("{text}");
            text
        })
    }

    /// A link stays one, and what it leads to keeps its permissions.
    async fn try_save(&self, changes: &[(String, String)]) -> io::Result<()> {
        let path = self.disk.resolve(&self.path)?;
        let directory = match path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        };
        self.disk.create_dir_all(directory)?;
        let text = properties::edited(&SettingsFile::read_if_there(&*self.disk, &path)?, changes);
        let mut new = path.clone().into_os_string();
        new.push(".tmp");
        let new = PathBuf::from(new);
        match self.disk.remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.disk.open(&new, OpenMode::CreateNew)?;
        file.write_at(0, text.as_bytes())?;
        if self.disk.exists(&path) {
            self.disk.copy_permissions(&path, &new)?;
        }
        file.sync().await?;
        self.disk.rename(&new, &path)?;
        self.disk.sync_dir(directory).await
    }
}
