//! Memory for the servers that are measured.
//!
//! Free memory of a virtual machine may be memory that its host has yet to give: the first touch of such a page costs ten
//! times as much as that of another, and a server that fills fresh pages of its log is measured by little else. A machine
//! that has run for a while is past that, its memory being full of files' pages. So memory is filled with the pages of a
//! file of holes, which costs no disk, and before each round some of it is freed.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::local::Ground;
use crate::env::real::process;
use crate::env::{Disk, File, OpenMode};

/// Bytes read at once.
const PIECE: usize = 1 << 20;
/// What is left to the machine.
const MARGIN: u64 = 1 << 30;
/// More memory than this is not filled.
const MAX: u64 = 64 << 30;

/// Memory full of pages that nobody needs.
pub struct Ballast {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn File>,
    bytes: u64,
}

impl Ballast {
    /// Fills the memory that is free. Takes a second for some gigabytes; on a fresh virtual machine half a minute.
    pub fn new(ground: &Ground) -> Result<Ballast> {
        let disk = Arc::clone(&ground.env.disk);
        let path = ground.folder("ballast");
        let file = disk.open(&path, OpenMode::Truncate).with_context(|| format!("cannot make {}", path.display()))?;
        let available = process::available_memory().context("the machine does not say how much memory is free")?;
        let bytes = available.saturating_sub(MARGIN).min(MAX) / PIECE as u64 * PIECE as u64;
        let ballast = Ballast { disk, path, file, bytes };
        ballast.fill(0)?;
        Ok(ballast)
    }

    /// Frees some `bytes` of memory just before they are needed.
    pub fn free(&self, bytes: u64) -> Result<()> {
        let kept = self.bytes.saturating_sub(bytes);
        self.fill(kept)?;
        self.file.set_len(kept).and_then(|()| self.file.set_len(self.bytes)).with_context(|| self.failed())
    }

    /// Has the pages from byte `from` on.
    fn fill(&self, from: u64) -> Result<()> {
        self.file.set_len(self.bytes).with_context(|| self.failed())?;
        let mut buffer = vec![0; PIECE];
        for at in (from..self.bytes).step_by(PIECE) {
            self.file.read_at(at, &mut buffer).with_context(|| self.failed())?;
        }
        Ok(())
    }

    fn failed(&self) -> String {
        format!("cannot fill memory with the pages of {}", self.path.display())
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        // A file of holes that stays behind is the user's to remove; there is nobody to tell.
        let _ = self.disk.remove_file(&self.path);
    }
}
