//! All integration tests of the product: one binary, one module per area.

mod config_files;
mod index;
mod index_bytes;
mod mem_disk;
mod store_check;
