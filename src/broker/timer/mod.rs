//! Messages with a time of delivery of their own: until then they wait in `rmq_sys_wheel_timer`.
//!
//! ```text
//!  send ─► accept ─► commit log, timer topic ─► record::pending ─► Timer::take_in ─► timer log
//!                                                                        │
//!  real queue ◄─ record::copy_of ◄─ Timer::due, its second has begun ◄───┘
//! ```
//! Reading order: [`accept`], [`record`], `wheel`, `drain`, [`machine`], `trim`.

pub mod accept;
mod drain;
pub mod machine;
pub mod record;
#[cfg(test)]
mod tests;
mod trim;
mod wheel;

pub use accept::{DueSecond, TimerAsk, TimerRules};
pub use machine::{Timer, TimerDue};
