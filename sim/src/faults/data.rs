//! Disks that lose what they were given. The atlas is asked first: what the configuration promises to keep has a copy
//! elsewhere, or follows from what is left.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Draw, Fault, Harm, Kind};
use crate::disk::Content;
use crate::marks;
use crate::world::{NodeId, World};

/// Faults of data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DataFault {
    /// A machine comes back with an empty disk, if others have what it had.
    DiskLost {
        /// Which.
        machine: String,
        /// Until it comes back.
        down_us: u64,
    },
    /// While the machine is down a file is gone that follows from the log: of a queue or of the index.
    DerivedLost {
        /// Which.
        machine: String,
        /// Which of such files, counted round and round.
        number: u64,
        /// Until it comes back.
        down_us: u64,
    },
    /// While the machine is down a file that follows from the log loses its second half.
    DerivedCut {
        /// Which.
        machine: String,
        /// Which of such files, counted round and round.
        number: u64,
        /// Until it comes back.
        down_us: u64,
    },
}

/// The kinds.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "disk_lost",
        harm: Harm::Data,
        draw: |d| {
            let slaves = d.roster.slaves.clone();
            let machine = if slaves.is_empty() { d.broker() } else { d.random.pick(&slaves).clone() };
            Fault::Data(DataFault::DiskLost { machine, down_us: d.us_up_to(5_000) })
        },
    },
    Kind { name: "derived_lost", harm: Harm::Delay, draw: |d| derived(d, false) },
    Kind { name: "derived_cut", harm: Harm::Delay, draw: |d| derived(d, true) },
];

fn derived(d: &mut Draw<'_>, cut: bool) -> Fault {
    let (machine, number, down_us) = (d.broker(), d.random.below(1_000), d.us_up_to(5_000));
    Fault::Data(match cut {
        true => DataFault::DerivedCut { machine, number, down_us },
        false => DataFault::DerivedLost { machine, number, down_us },
    })
}

impl DataFault {
    pub(super) fn lasts_us(&self) -> u64 {
        match self {
            DataFault::DiskLost { down_us, .. }
            | DataFault::DerivedLost { down_us, .. }
            | DataFault::DerivedCut { down_us, .. } => *down_us,
        }
    }

    pub(super) fn apply(&self, world: &World) -> bool {
        let (DataFault::DiskLost { machine, .. }
        | DataFault::DerivedLost { machine, .. }
        | DataFault::DerivedCut { machine, .. }) = self;
        let Some(node) = world.find(machine).filter(|node| world.is_alive(*node)) else { return false };
        let happened = match self {
            DataFault::DiskLost { .. } => lose_disk(world, node),
            DataFault::DerivedLost { number, .. } => damage(world, node, *number, "derived_lost"),
            DataFault::DerivedCut { number, .. } => damage(world, node, *number, "derived_cut"),
        };
        if happened {
            world.later(Duration::from_micros(self.lasts_us()), move |world| world.boot(node));
        }
        happened
    }
}

fn lose_disk(world: &World, node: NodeId) -> bool {
    let allowed = world.with_atlas(|atlas| atlas.may_destroy_all(node));
    if allowed {
        marks::mattered("disk_lost");
        world.kill(node);
        world.disk(node).wipe();
    }
    allowed
}

/// Kills the process and takes a file, or half of one. Without such a file nothing happens.
fn damage(world: &World, node: NodeId, number: u64, kind: &'static str) -> bool {
    let disk = world.disk(node);
    let mut files: Vec<PathBuf> = disk.paths();
    files.retain(|path| {
        let whole = !matches!(path.file_name().and_then(|name| name.to_str()), Some("abort" | "lock" | "checkpoint"));
        whole && Content::of(path) == Content::Derived
    });
    let Some(path) = files.get(number as usize % files.len().max(1)) else { return false };
    if !world.with_atlas(|atlas| atlas.may_destroy(node, path)) {
        return false;
    }
    world.kill(node);
    let done = match kind {
        "derived_lost" => disk.lose_file(path),
        _ => disk.lose_second_half(path),
    };
    if done.is_ok() {
        marks::mattered(kind);
    }
    true
}
