//! One pass over a property text.

use crate::broker::timer::TimerAsk;
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
    /// It names a producer group, which decides about a half message.
    pub(super) has_group: bool,
    pub(super) keys: Option<&'a str>,
    pub(super) has_timer: bool,
    pub(super) timer: TimerAsk<'a>,
    pub(super) has_pop: bool,
    /// It holds a property that the broker stamps.
    pub(super) stamped: bool,
    /// It holds one of the names that were asked for.
    pub(super) shared: bool,
}

impl<'a> Found<'a> {
    pub(super) fn scan(text: &'a str) -> Found<'a> {
        Found::scan_for(&[], text)
    }

    /// Looks for the names in `shared` too.
    pub(super) fn scan_for(shared: &[(&str, &str)], text: &'a str) -> Found<'a> {
        let mut found = Found {
            unique_key: None,
            tags_code: 0,
            level: 0,
            wait_store: true,
            transaction: false,
            has_group: false,
            keys: None,
            has_timer: false,
            timer: TimerAsk::default(),
            has_pop: false,
            stamped: false,
            shared: false,
        };
        for (name, value) in properties::iterate(text) {
            found.shared |= shared.iter().any(|(own, _)| *own == name);
            match name {
                properties::UNIQ_KEY => found.unique_key = Some(value),
                properties::TAGS => found.tags_code = hash::tags_code(value),
                properties::DELAY => found.level = value.parse().unwrap_or(0),
                properties::WAIT => found.wait_store = !value.eq_ignore_ascii_case("false"),
                properties::TRANSACTION_PREPARED => found.transaction = value.eq_ignore_ascii_case("true"),
                properties::PRODUCER_GROUP => found.has_group = true,
                properties::KEYS => found.keys = Some(value),
                properties::POP_CHECK_POINT => found.has_pop = true,
                properties::MSG_REGION | properties::TRACE_ON | properties::CLUSTER => found.stamped = true,
                _ if name.starts_with("TIMER_") => found.take_timer(name, value),
                _ => {}
            }
        }
        found
    }

    fn take_timer(&mut self, name: &str, value: &'a str) {
        match name {
            properties::TIMER_DELAY_SEC => self.timer.delay_sec = Some(value),
            properties::TIMER_DELAY_MS => self.timer.delay_ms = Some(value),
            properties::TIMER_DELIVER_MS => self.timer.deliver_ms = Some(value),
            properties::TIMER_DEL_UNIQKEY => self.timer.recalls = true,
            properties::TIMER_OUT_MS => self.timer.has_waited = true,
            _ => {}
        }
        self.has_timer |= TIMERS.contains(&name);
    }
}
