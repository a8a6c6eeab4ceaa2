//! Deterministic simulation of metaq: one number fixes a whole run with its faults, and gives the same run again.
//!
//! Reading order: [`plan`] is a run as data, [`draft`] makes one of a seed for one of the [`scenarios`], [`stage`] plays
//! it: a [`cluster`] and a [`workload`] in a [`world`] of [`agenda`] (time), [`net`], [`disk`] and [`clock`], with
//! [`faults`] at their times. [`history`] records what clients did and saw, [`checkers`] judge it. [`runner`] runs one
//! plan, [`sweep`] many, each in a process of its own, [`audit`] each one twice; [`shrink`], [`why`] and [`show`] explain a failure.

pub mod agenda;
pub mod audit;
pub mod campaign;
pub mod canaries;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod disk;
pub mod draft;
pub mod faults;
pub mod files;
pub mod history;
pub mod judge;
pub mod marks;
pub mod model;
pub mod net;
pub mod plan;
pub mod random;
pub mod reach;
pub mod replicas;
pub mod report;
pub mod routes;
pub mod runner;
pub mod scenarios;
pub mod show;
pub mod shrink;
pub mod stage;
pub mod store_process;
pub mod sweep;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod crash_images;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod why;
pub mod workload;
pub mod world;

pub use metaq::audit::checkers;
