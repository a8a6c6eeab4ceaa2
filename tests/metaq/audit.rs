//! Histories of real clients: recorded, merged, judged.

mod command;
mod outcomes;
mod processes;
#[path = "../real/mod.rs"]
mod real;
mod recording;
