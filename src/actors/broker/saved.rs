//! The broker's config files: loaded at start, saved whole.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::env::{Disk, Env};
use crate::proto::body::config_files::ConfigFile as Content;
use crate::store::config_file::{ConfigFile, Loaded};
use crate::store::Trouble;

/// The most bytes of one file: 50,000 topics take 15 MB.
const LEN_MAX: u64 = 256 << 20;

/// One of the files in `config/`.
pub struct Saved {
    file: ConfigFile,
    trouble: Trouble,
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
            crate::sometimes!("a config file was read from its backup");
            tracing::warn!(path = %path.display(), "the file cannot be read, its backup is used");
        }
        Ok((Saved { file, trouble: Trouble::default() }, loaded.into_value().unwrap_or_default()))
    }

    /// Replaces the file's content.
    ///
    /// # Errors
    /// A text for the answer's remark. The first of several in a row is logged too.
    pub async fn save(&mut self, content: &impl Content) -> Result<(), String> {
        let saved = self.file.save(&content.print()).await;
        let name = self.file.path().file_name().unwrap_or_default();
        self.trouble.note(format_args!("save {}", name.display()), &saved);
        saved.map_err(|error| error.to_string())
    }
}
