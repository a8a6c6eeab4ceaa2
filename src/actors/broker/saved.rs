//! The broker's config files: loaded at start, saved whole.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::env::{Disk, Env};
use crate::proto::body::config_files::ConfigFile as Content;
use crate::store::config_file::{ConfigFile, Loaded};
use crate::store::config_journal::ContentId;
use crate::store::Trouble;

/// The most bytes of one file: 50,000 topics take 15 MB.
const LEN_MAX: u64 = 256 << 20;

/// One of the files in `config/`.
pub struct Saved {
    file: ConfigFile,
    /// What it holds, if that is known.
    content: Option<ContentId>,
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
        let mut content = None;
        let (file, loaded) = ConfigFile::open(disk, path.clone(), LEN_MAX, |bytes| {
            content = Some(ContentId::of(bytes));
            T::parse(bytes)
        })?;
        if let Loaded::Backup { .. } = &loaded {
            crate::sometimes!("a config file was read from its backup");
            tracing::warn!(path = %path.display(), "the file cannot be read, its backup is used");
        }
        let content = content.filter(|_| matches!(loaded, Loaded::Main(_)));
        Ok((Saved { file, content, trouble: Trouble::default() }, loaded.into_value().unwrap_or_default()))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// What the file holds; `None` if that is not known, because there is none or a save has failed.
    pub fn content(&self) -> Option<ContentId> {
        self.content
    }

    /// Replaces the file's content.
    ///
    /// # Errors
    /// A text for the answer's remark. The first of several in a row is logged too.
    pub async fn save(&mut self, content: &impl Content) -> Result<(), String> {
        let bytes = content.print();
        let saved = self.file.save(&bytes).await;
        self.content = saved.is_ok().then(|| ContentId::of(&bytes));
        let name = self.file.path().file_name().unwrap_or_default();
        self.trouble.note(format_args!("save {}", name.display()), &saved);
        saved.map_err(|error| error.to_string())
    }
}
