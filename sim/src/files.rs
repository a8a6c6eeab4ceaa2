//! The simulator's own files and its own time. Simulated machines have others.
#![expect(clippy::disallowed_methods, reason = "the tool's files lie on the real disk, its user waits in real time")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::plan::Plan;
use crate::report::sources;

/// Where kept plans lie.
pub fn plans() -> PathBuf {
    sources().join("plans")
}

/// Where pages of runs are written.
pub fn pages() -> PathBuf {
    sources().with_file_name("target").join("sim")
}

/// Reads a plan file.
pub fn read_plan(path: &Path) -> anyhow::Result<Plan> {
    let text = std::fs::read_to_string(path).with_context(|| format!("no plan at {}", path.display()))?;
    Plan::parse(&text).with_context(|| path.display().to_string())
}

/// Writes a file of the tool.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

/// Reads a file of the tool.
pub fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// Removes a file of the tool, if it is there.
pub fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// All kept plans, in the order of their names.
pub fn kept_plans() -> anyhow::Result<Vec<PathBuf>> {
    let Ok(entries) = std::fs::read_dir(plans()) else { return Ok(Vec::new()) };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Processor time of this process so far, in milliseconds; 0 where the system does not tell.
pub fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name before may hold anything but a closing bracket behind it; user and system time are the 12th and 13th
    // number then, in hundredths of a second.
    let numbers = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
    numbers.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10
}

/// Real time since its start.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts it.
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// How long it runs.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
