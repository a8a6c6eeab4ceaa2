//! All integration tests in one binary: it links once.

mod config_files;
mod index;
mod mem_disk;
mod store;
#[path = "../tidy.rs"]
mod tidy;
