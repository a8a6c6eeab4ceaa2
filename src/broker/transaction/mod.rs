//! Transactions: half messages wait in `RMQ_SYS_TRANS_HALF_TOPIC` until their producer decides; each that is decided is
//! named in `RMQ_SYS_TRANS_OP_HALF_TOPIC`.
//!
//! ```text
//!             END commit: committed message + op          END, any: answered and reported, changes nothing
//!           ┌──────────────────────────────────▶ ended ──┐
//! half ──▶ open                                    ▲   ▲  │
//!           │ │ END rollback: op                   │   └──┘
//!           │ └────────────────────────────────────┤
//!           │ asked as often as it may be: copy to TRANS_CHECK_MAX_TIME_TOPIC + op
//!           │                                      │
//!           └─┬────────────────────────────────────┘
//!             └ asked again: another half of the same transaction, which stands for it from then on
//! ```
//!
//! RocketMQ's broker keeps no account of what was decided: a second END writes a second message, and an END that meets a
//! check decides about one half while another one of the same message is asked about (#8158, #10199). Here a transaction
//! is what its producer group and its id say, whatever number of halves it has, and the first decision stands.
//!
//! The account is made of the log alone. A committed message and its op are neighbours there, so a crash separates at
//! most one committed message from its op: the last record of the log, which is looked for at the start.

mod ended;
#[cfg(test)]
mod exploration;
mod ledger;
mod records;
#[cfg(test)]
mod tests;

pub use ended::Decision;
pub use ledger::{
    CheckRules, Due, DueKind, End, Half, HalfLedger, Place, Progress, TransactionId, Verdict, ROLL_DISTANCE,
};
pub use records::{
    half_of, named_by_op, op_body, put_again_edits, transaction_of, HalfError, HalfFacts, OP_PROPERTIES, OP_TAG,
};
