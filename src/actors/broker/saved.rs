//! The broker's config files: loaded at start, saved whole.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::env::{Disk, Env};
use crate::proto::body::config_files::ConfigFile as Content;
use crate::store::config_file::{ConfigFile, Loaded};

/// The most bytes of one file: 50,000 topics take 15 MB.
const LEN_MAX: u64 = 256 << 20;

/// One of the files in `config/`.
pub struct Saved {
    file: ConfigFile,
}

impl Saved {
    /// Loads `<root>/config/<name>`, or its backup; what is not there is empty.
    ///
    /// # Errors
    /// If neither file can be read although one is there: to start without would forget what it holds.
    pub fn open<T: Content + Default>(env: &Env, root: &Path) -> Result<(Self, T)> {
        let directory = root.join("config");
        env.disk.create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let path = directory.join(T::NAME);
        let disk: Arc<dyn Disk> = Arc::clone(&env.disk);
        let (file, loaded) = ConfigFile::open(disk, path.clone(), LEN_MAX, T::parse)?;
        if let Loaded::Backup { .. } = &loaded {
            tracing::warn!(path = %path.display(), "the file cannot be read, its backup is used");
        }
        Ok((Saved { file }, loaded.into_value().unwrap_or_default()))
    }

    /// Replaces the file's content.
    ///
    /// # Errors
    /// A text for the answer's remark; it is logged too.
    pub async fn save(&mut self, content: &impl Content) -> Result<(), String> {
        self.file.save(&content.print()).await.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &dyn Display) -> String {
        let text = format!("cannot save {}: {error}", self.file.path().display());
        tracing::error!(failed_saves = self.file.failed_saves(), "{text}");
        text
    }
}
