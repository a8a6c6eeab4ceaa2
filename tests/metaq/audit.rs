//! Histories of real clients: recorded, merged, judged.

mod command;
mod outcomes;
mod recording;
