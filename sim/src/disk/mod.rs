//! The simulated disk.
//!
//! What it does as a real one, and a broker must survive: everything written is seen at once by all handles and
//! mappings, and survives the death of the process. A power cut keeps what was synced, and of the rest a random part:
//! writes land in any order, torn at 512 bytes, the file's length with them or without them; names land on their own
//! until their directory is synced, so a rename may be there before the data. A crash of the kernel alone tears no
//! write. A failed sync leaves the device without some of the bytes and the cache in one of three states
//! ([`FailedPages`]). Calls fail; space, names and open files run out; everything takes time, and now and then long.
//!
//! What no broker can survive without a second copy: a device that lies about syncs, loses or misplaces writes, rots, or
//! is replaced. [`Atlas`] knows what may be destroyed so.
//!
//! Handles of a dead incarnation do nothing.

mod atlas;
mod crash;
mod door;
mod drive;
#[cfg(test)]
mod fault_tests;
mod faults;
mod inode;
mod pages;
#[cfg(test)]
mod tests;
mod tree;

pub use atlas::{Atlas, Content};
pub use crash::{Choose, Odometer, Style};
pub use door::SimDisk;
pub use drive::{Drive, DriveSettings};
pub use faults::FailedPages;
