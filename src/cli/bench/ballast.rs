//! Memory for the servers that are measured.
//!
//! Free memory of a virtual machine may be memory that its host has yet to give: the first touch of such a page costs ten
//! times as much as that of another, and a server that fills fresh pages of its log is measured by little else. A machine
//! that has run for a while is past that, its memory being full of files' pages. So before a round memory is filled with
//! the pages of a file of holes, which costs no disk, and freed.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::local::Ground;
use crate::env::{Disk, OpenMode};

/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// Memory that was touched just before it is needed.
pub struct Ballast {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    bytes: u64,
}

impl Ballast {
    /// A ballast of `bytes` bytes.
    pub fn new(ground: &Ground, bytes: u64) -> Ballast {
        Ballast { disk: Arc::clone(&ground.env.disk), path: ground.folder("ballast"), bytes }
    }

    /// Touches the memory and frees it.
    pub fn drop_now(&self) -> Result<()> {
        let touched = self.touch();
        // Whatever happened, the pages go with the file.
        let removed = self.disk.remove_file(&self.path);
        touched.and(removed).with_context(|| format!("cannot fill memory with the pages of {}", self.path.display()))
    }

    fn touch(&self) -> std::io::Result<()> {
        let file = self.disk.open(&self.path, OpenMode::Truncate)?;
        file.set_len(self.bytes)?;
        let mut buffer = vec![0; PIECE];
        for at in (0..self.bytes).step_by(PIECE) {
            file.read_at(at, &mut buffer)?;
        }
        Ok(())
    }
}
