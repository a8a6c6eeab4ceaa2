//! The store over a real file system. Cases from the field carry their ids (STO-, DSK-, IDX-).
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod support;

mod append;
mod check;
mod dispatch;
mod expire;
mod mini_store;
mod power_cuts;
mod recovery;
