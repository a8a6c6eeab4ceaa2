//! One pass over a property text.

use crate::proto::message::{hash, properties};

/// The properties that ask for a delay of their own.
pub(super) const TIMERS: [&str; 3] =
    [properties::TIMER_DELIVER_MS, properties::TIMER_DELAY_SEC, properties::TIMER_DELAY_MS];

/// What one pass over a property text finds.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) unique_key: Option<&'a str>,
    pub(super) tags_code: i64,
    pub(super) level: i32,
    pub(super) wait_store: bool,
    pub(super) transaction: bool,
    pub(super) has_keys: bool,
    pub(super) has_timer: bool,
    pub(super) has_pop: bool,
    /// It holds a property that the broker stamps.
    pub(super) stamped: bool,
}

impl<'a> Found<'a> {
    pub(super) fn scan(text: &'a str) -> Found<'a> {
        let mut found = Found {
            unique_key: None,
            tags_code: 0,
            level: 0,
            wait_store: true,
            transaction: false,
            has_keys: false,
            has_timer: false,
            has_pop: false,
            stamped: false,
        };
        for (name, value) in properties::iterate(text) {
            match name {
                properties::UNIQ_KEY => found.unique_key = Some(value),
                properties::TAGS => found.tags_code = hash::tags_code(value),
                properties::DELAY => found.level = value.parse().unwrap_or(0),
                properties::WAIT => found.wait_store = !value.eq_ignore_ascii_case("false"),
                properties::TRANSACTION_PREPARED => found.transaction = value.eq_ignore_ascii_case("true"),
                properties::KEYS => found.has_keys = true,
                properties::POP_CHECK_POINT => found.has_pop = true,
                properties::MSG_REGION | properties::TRACE_ON | properties::CLUSTER => found.stamped = true,
                _ => found.has_timer |= TIMERS.contains(&name),
            }
        }
        found
    }
}
