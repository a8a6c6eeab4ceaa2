//! The simulated disk.
//!
//! What it does as a real one, and a broker must survive: everything written is seen at once by all handles and
//! mappings, and survives the death of the process. A power cut keeps what was synced, and of the rest a random part:
//! writes land in any order, torn at 512 bytes, the file's length with them or without them; names land on their own
//! until their directory is synced, so a rename may be there before the data. A failed sync leaves the cache as it is,
//! the device without some of it, and no later sync makes up for that. Space may run out. Syncs take time.
//!
//! Handles of a dead incarnation do nothing.

mod crash;
mod door;
mod drive;
mod inode;
mod pages;
#[cfg(test)]
mod tests;
mod tree;

pub use crash::{Choose, Odometer, Style};
pub use door::SimDisk;
pub use drive::{Drive, DriveSettings};
