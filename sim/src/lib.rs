//! Deterministic simulation of metaq: one number fixes a whole run with its faults, and gives the same run again.
//!
//! Reading order: [`world`] ties together [`agenda`] (time), [`net`], [`disk`], [`clock`], [`random`] and [`faults`];
//! [`history`] records what clients did and saw, [`checkers`] judge it; [`scenarios`] are the stories; [`runner`] runs
//! one of them for one seed, and [`sweep`] many, each in a process of its own.

pub mod agenda;
pub mod canaries;
pub mod checkers;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod disk;
pub mod faults;
pub mod history;
pub mod marks;
pub mod net;
pub mod random;
pub mod runner;
pub mod scenarios;
pub mod store_process;
pub mod sweep;
#[cfg(test)]
mod crash_images;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod world;
