//! Which messages wait for a time of their own, and until when.

use crate::broker::BrokerError;
use crate::env::Millis;

/// Times of delivery are whole seconds: RocketMQ's `timerPrecisionMs`.
pub const PRECISION_MS: i64 = 1000;

/// What the settings say about times of delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerRules {
    /// `timerWheelEnable`
    pub enabled: bool,
    /// `timerMaxDelaySec`, in milliseconds: a message may wait as long.
    pub delay_ms_max: i64,
}

/// What a message says about its time of delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerAsk<'a> {
    /// `TIMER_DELAY_SEC`: seconds from its arrival.
    pub delay_sec: Option<&'a str>,
    /// `TIMER_DELAY_MS`: milliseconds from its arrival.
    pub delay_ms: Option<&'a str>,
    /// `TIMER_DELIVER_MS`: milliseconds since 1970.
    pub deliver_ms: Option<&'a str>,
    /// `TIMER_DEL_UNIQKEY`: it takes back another message.
    pub recalls: bool,
    /// `TIMER_OUT_MS`: it has waited already, and a consumer sends it on with the properties it came with.
    pub has_waited: bool,
}

/// The second in which a message comes out of the timer, since 1970: the first whole one at or after the time it asks
/// for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DueSecond(pub i64);

impl DueSecond {
    /// For a time of delivery.
    pub fn at(deliver: Millis) -> DueSecond {
        DueSecond(deliver.0.saturating_sub(1).div_euclid(PRECISION_MS).saturating_add(1))
    }

    /// For `TIMER_OUT_MS`, which is a second earlier.
    pub fn of_out_ms(out_ms: i64) -> DueSecond {
        DueSecond(out_ms.div_euclid(PRECISION_MS).saturating_add(1))
    }

    /// What `TIMER_OUT_MS` holds: RocketMQ's name for the second, whose end is the time of delivery.
    pub fn out_ms(self) -> i64 {
        self.0.saturating_sub(1).saturating_mul(PRECISION_MS)
    }

    /// When it begins.
    pub fn begins(self) -> Millis {
        Millis(self.0.saturating_mul(PRECISION_MS))
    }

    /// The last second that has begun.
    pub fn last_begun(now: Millis) -> DueSecond {
        DueSecond(now.0.div_euclid(PRECISION_MS))
    }
}

impl TimerAsk<'_> {
    /// Whether it asks for a time.
    pub fn is_timed(&self) -> bool {
        let asks = self.delay_sec.is_some() || self.delay_ms.is_some() || self.deliver_ms.is_some();
        asks && !self.has_waited
    }

    /// When the message is to be delivered; relative times count from `now`. `None` if the text is no number.
    fn deliver_at(&self, now: Millis) -> Option<Millis> {
        let number = |text: &str| text.parse::<i64>().ok();
        if let Some(seconds) = self.delay_sec {
            return Some(now.plus(number(seconds)?.checked_mul(1000)?));
        }
        match (self.delay_ms, self.deliver_ms) {
            (Some(millis), _) => Some(now.plus(number(millis)?)),
            (None, Some(deliver)) => number(deliver).map(Millis),
            (None, None) => None,
        }
    }
}

impl TimerRules {
    /// Until when a message waits that arrives at `now`; `None` if it is to be delivered at once.
    ///
    /// # Errors
    /// The refusal of one that waits too long, whose time is no number, or that comes too late to take another one back.
    pub fn due(&self, ask: &TimerAsk<'_>, now: Millis) -> Result<Option<DueSecond>, BrokerError> {
        if !ask.is_timed() {
            return Ok(None);
        }
        if !self.enabled {
            return Err(BrokerError::TimerNotEnabled);
        }
        let illegal = || BrokerError::TimerIllegal { delay_ms_max: self.delay_ms_max };
        let deliver = ask.deliver_at(now).ok_or_else(illegal)?;
        match deliver.0.saturating_sub(now.0) {
            ..=0 if ask.recalls => Err(illegal()),
            ..=0 => Ok(None),
            wait if wait > self.delay_ms_max => Err(illegal()),
            _ => Ok(Some(DueSecond::at(deliver))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_700_000_000_500);
    const RULES: TimerRules = TimerRules { enabled: true, delay_ms_max: 259_200_000 };

    fn due(ask: TimerAsk<'_>) -> Result<Option<i64>, i32> {
        RULES.due(&ask, NOW).map(|due| due.map(|second| second.0)).map_err(|error| error.code())
    }

    #[test]
    fn a_message_waits_until_the_first_whole_second_at_or_after_its_time() {
        let second = |deliver| DueSecond::at(Millis(deliver));
        for (deliver, out_ms, second_of) in [(5_000, 4_000, 5), (5_001, 5_000, 6), (5_999, 5_000, 6), (6_000, 5_000, 6)]
        {
            assert_eq!((second(deliver).out_ms(), second(deliver).0), (out_ms, second_of), "{deliver}");
            assert!(second(deliver).begins() >= Millis(deliver), "never early");
            assert_eq!(DueSecond::of_out_ms(out_ms), second(deliver));
        }
    }

    #[test]
    fn the_first_of_three_properties_counts() {
        let all = TimerAsk {
            delay_sec: Some("2"),
            delay_ms: Some("100"),
            deliver_ms: Some("1700000009000"),
            ..TimerAsk::default()
        };
        assert_eq!(due(all), Ok(Some(1_700_000_003)));
        assert_eq!(due(TimerAsk { delay_sec: None, ..all }), Ok(Some(1_700_000_001)));
        assert_eq!(due(TimerAsk { delay_sec: None, delay_ms: None, ..all }), Ok(Some(1_700_000_009)));
        assert_eq!(due(TimerAsk { has_waited: true, ..all }), Ok(None), "sent on by a consumer");
    }

    #[test]
    fn what_is_over_is_delivered_at_once_and_what_is_too_far_is_refused() {
        let sec = |text| TimerAsk { delay_sec: Some(text), ..TimerAsk::default() };
        assert_eq!(due(sec("0")), Ok(None));
        assert_eq!(due(sec("-5")), Ok(None));
        assert_eq!(due(sec("259200")), Ok(Some(1_700_259_201)));
        for refused in ["259201", "99999999999999999", "soon", ""] {
            assert_eq!(due(sec(refused)), Err(13), "{refused}");
        }
        let late_recall = TimerAsk { deliver_ms: Some("1700000000500"), recalls: true, ..TimerAsk::default() };
        assert_eq!(due(late_recall), Err(13));
        let off = TimerRules { enabled: false, ..RULES };
        assert_eq!(off.due(&sec("5"), NOW), Err(BrokerError::TimerNotEnabled));
        assert_eq!(off.due(&TimerAsk::default(), NOW), Ok(None));
    }
}
