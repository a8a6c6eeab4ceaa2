//! The store over a real file system. Cases from the field carry their ids (STO-, DSK-, IDX-).

pub mod support;

mod append;
mod check;
mod damage;
mod deduplication;
mod deleted;
mod dispatch;
mod expire;
mod mini_store;
mod power_cuts;
mod recovery;
