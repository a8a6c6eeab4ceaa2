//! Is what was promised what happened? Histories of what clients did and saw, and the checkers that judge them.
//!
//! ```text
//! metaq::client, Recorder ── file ──┐
//! metaq::client, Recorder ── file ──┼─> merge ─> history ─> judge ─> checkers ─> verdict
//! whoever does the harm   ── file ──┘                ^
//!                                    the simulator ──┘
//! ```
//!
//! The simulator records a history in every run and judges it with these checkers; they need nothing but the history, so
//! they judge those of real clusters as well. A new promise is an event or two in [`history`] and a checker in
//! [`checkers`], with histories that it must reject and histories that it must accept.

pub mod checkers;
pub mod file;
pub mod history;
pub mod judge;
pub mod mark;
pub mod merge;
pub mod report;
