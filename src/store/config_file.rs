//! Config files that are never half there: topics, groups, offsets.
//!
//! The content is text made elsewhere. On disk there are up to three names: `<f>` is the newest version, `<f>.bak` the
//! one before (RocketMQ's names, so either broker reads the other's files) and `<f>.tmp` a version being written.
//!
//! A save goes through these states; a crash or a power cut between any two leaves a complete version to load.
//!
//! | step | `<f>` | `<f>.bak` | `<f>.tmp` |
//! |---|---|---|---|
//! | before | old | older | – |
//! | 1 write and sync the new one | old | older | partial, then new |
//! | 2 rename, only if `<f>` is known to be good | – | old | new |
//! | 3 rename | new | old | – |
//! | 4 sync the directory | new | old | – |
//!
//! INV-CFG-1: a name other than `<f>.tmp` only ever points at bytes that were complete and synced before.
//! INV-CFG-2: a version that failed to load never replaces the backup.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::env::{Disk, OpenMode};

/// Why a config file could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigLoadError {
    /// There are files, but none of them holds a complete version. Starting with nothing would lose what they held.
    #[error("{} and its backup are both unusable: {main}; {backup}", path.display())]
    Unusable {
        /// The main file.
        path: PathBuf,
        /// What is wrong with the main file.
        main: String,
        /// What is wrong with the backup.
        backup: String,
    },
    /// The disk would not say.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// The file that was read.
        path: PathBuf,
        /// What the disk said.
        error: io::Error,
    },
}

/// Why a config file could not be saved. The version saved before is still there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigSaveError {
    /// The content is longer than the file may be.
    #[error("{} would have {len} bytes, its limit is {limit}", path.display())]
    TooLarge {
        /// The main file.
        path: PathBuf,
        /// Length of the refused content in bytes.
        len: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The disk refused a step.
    #[error("cannot {step} {}: {error}", path.display())]
    Io {
        /// What was tried.
        step: &'static str,
        /// The main file.
        path: PathBuf,
        /// What the disk said.
        error: io::Error,
    },
}

/// What [`ConfigFile::open`] found.
#[derive(Debug)]
pub enum Loaded<T> {
    /// The main file is good.
    Main(T),
    /// The main file is missing or bad, the backup is good. `main` says what is wrong with the main file.
    Backup {
        /// The parsed backup.
        value: T,
        /// Why the main file was not used; log it.
        main: String,
    },
    /// Neither file exists: nothing was saved yet.
    Nothing,
}

impl<T> Loaded<T> {
    /// The value, wherever it came from.
    pub fn into_value(self) -> Option<T> {
        match self {
            Loaded::Main(value) | Loaded::Backup { value, .. } => Some(value),
            Loaded::Nothing => None,
        }
    }
}

/// One config file and its backup. Saves need `&mut`, so they never overlap.
pub struct ConfigFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    len_max: u64,
    /// Whether `path` is known to hold a complete version, so that it may become the backup.
    main_is_good: bool,
    failed_saves: u64,
}

/// One of the two files as found on disk.
enum Found<T> {
    Good(T),
    Missing,
    Bad(String),
}

impl<T> Found<T> {
    fn what(self) -> String {
        match self {
            Found::Good(_) => "it is good".to_string(),
            Found::Missing => "it is missing".to_string(),
            Found::Bad(what) => what,
        }
    }
}

impl ConfigFile {
    /// Loads `path`, or its backup if the main file is missing, empty, longer than `len_max` bytes or refused by
    /// `parse`. Opening comes before saving on purpose: only a version that has been read may become the backup.
    pub fn open<T, E: std::fmt::Display>(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        len_max: u64,
        mut parse: impl FnMut(&[u8]) -> Result<T, E>,
    ) -> Result<(ConfigFile, Loaded<T>), ConfigLoadError> {
        let main = read(&*disk, &path, len_max, &mut parse)?;
        let main_is_good = matches!(main, Found::Good(_));
        let loaded = match main {
            Found::Good(value) => Loaded::Main(value),
            main => match (main, read(&*disk, &with_suffix(&path, ".bak"), len_max, &mut parse)?) {
                (Found::Missing, Found::Missing) => Loaded::Nothing,
                (main, Found::Good(value)) => Loaded::Backup { value, main: main.what() },
                (main, backup) => {
                    return Err(ConfigLoadError::Unusable { path, main: main.what(), backup: backup.what() });
                }
            },
        };
        Ok((ConfigFile { disk, path, len_max, main_is_good, failed_saves: 0 }, loaded))
    }

    /// The main file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Saves that failed since the start; a metric. A failed save must not go unseen: what it held is lost on restart.
    pub fn failed_saves(&self) -> u64 {
        self.failed_saves
    }

    /// Replaces the content. When this returns `Ok`, `content` has survived a sync and so has its name. After an error
    /// the content on disk is the one before or `content`, complete in both cases.
    pub async fn save(&mut self, content: &[u8]) -> Result<(), ConfigSaveError> {
        let saved = self.try_save(content).await;
        if saved.is_err() {
            self.failed_saves += 1;
        }
        saved
    }

    async fn try_save(&mut self, content: &[u8]) -> Result<(), ConfigSaveError> {
        let len = content.len() as u64;
        if len > self.len_max {
            return Err(ConfigSaveError::TooLarge { path: self.path.clone(), len, limit: self.len_max });
        }
        let directory = self.path.parent().unwrap_or(Path::new("")).to_path_buf();
        self.make_directory(&directory).await?;
        self.write_new(content).await?;
        self.put_in_place()?;
        self.disk.sync_dir(&directory).await.map_err(|error| self.failed("sync the directory of", error))
    }

    async fn make_directory(&self, directory: &Path) -> Result<(), ConfigSaveError> {
        if self.disk.exists(directory) {
            return Ok(());
        }
        self.disk.create_dir_all(directory).map_err(|error| self.failed("make the directory of", error))?;
        let Some(above) = directory.parent() else { return Ok(()) };
        self.disk.sync_dir(above).await.map_err(|error| self.failed("sync the directory above", error))
    }

    /// Step 1. The file is made anew, never emptied: after an earlier failure its old name may share the bytes of a
    /// version in use.
    async fn write_new(&self, content: &[u8]) -> Result<(), ConfigSaveError> {
        let new = with_suffix(&self.path, ".tmp");
        match self.disk.remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(self.failed("remove the left-over new version of", error));
            }
            _ => {}
        }
        let file =
            self.disk.open(&new, OpenMode::CreateNew).map_err(|error| self.failed("make the new version of", error))?;
        let written = match file.write_at(0, content) {
            Ok(()) => file.sync().await,
            refused => refused,
        };
        written.map_err(|error| {
            // On a full disk the partial version would keep its space; that it stays when this fails too is harmless.
            let _ = self.disk.remove_file(&new);
            self.failed("write the new version of", error)
        })
    }

    /// Steps 2 and 3, without a wait between them.
    fn put_in_place(&mut self) -> Result<(), ConfigSaveError> {
        if std::mem::replace(&mut self.main_is_good, false) {
            self.disk
                .rename(&self.path, &with_suffix(&self.path, ".bak"))
                .map_err(|error| self.failed("keep the old version of", error))?;
        }
        self.disk
            .rename(&with_suffix(&self.path, ".tmp"), &self.path)
            .map_err(|error| self.failed("put in place the new version of", error))?;
        self.main_is_good = true;
        Ok(())
    }

    fn failed(&self, step: &'static str, error: io::Error) -> ConfigSaveError {
        ConfigSaveError::Io { step, path: self.path.clone(), error }
    }
}

fn read<T, E: std::fmt::Display>(
    disk: &dyn Disk,
    path: &Path,
    len_max: u64,
    parse: &mut impl FnMut(&[u8]) -> Result<T, E>,
) -> Result<Found<T>, ConfigLoadError> {
    let failed = |error| ConfigLoadError::Io { path: path.to_path_buf(), error };
    let file = match disk.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
        Err(error) => return Err(failed(error)),
    };
    let len = file.len().map_err(failed)?;
    if len == 0 {
        return Ok(Found::Bad("it is empty".to_string()));
    }
    if len > len_max {
        return Ok(Found::Bad(format!("it has {len} bytes, its limit is {len_max}")));
    }
    let mut bytes = vec![0; len as usize];
    let got = file.read_at(0, &mut bytes).map_err(failed)?;
    bytes.truncate(got);
    Ok(match parse(&bytes) {
        Ok(value) => Found::Good(value),
        Err(error) => Found::Bad(error.to_string()),
    })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}
