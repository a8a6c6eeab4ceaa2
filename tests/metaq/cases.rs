//! Field faults that need a whole broker to show. Every function is named by its case; `tests/CASES.md` lists them all.

mod connections;
mod listed;
mod metadata;
mod storage;
