//! Times as people write and read them.

use std::str::FromStr;

use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Date, OffsetDateTime, PrimitiveDateTime, Time, UtcOffset};

use crate::env::Millis;

const SHOWN: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3]");
const DATE: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]");
const MINUTE: &[BorrowedFormatItem<'_>] = format_description!("[hour]:[minute]");
const SECOND: &[BorrowedFormatItem<'_>] = format_description!("[hour]:[minute]:[second][optional [.[subsecond]]]");

/// A time of the command line, which may be relative to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Now.
    Now,
    /// So many milliseconds ago.
    Ago(i64),
    /// This time.
    At(Millis),
    /// A time of the user's time zone, in milliseconds as if it were UTC.
    Local(i64),
    /// A time of today, in milliseconds since midnight.
    Today(i64),
}

impl When {
    /// The time meant, with `zone` seconds between UTC and local time.
    pub fn resolve(self, now: Millis, zone: i32) -> Millis {
        let zone = i64::from(zone) * 1000;
        match self {
            When::Now => now,
            When::Ago(millis) => now.plus(-millis),
            When::At(time) => time,
            When::Local(local) => Millis(local - zone),
            When::Today(since_midnight) => {
                let local = now.0 + zone;
                Millis(local - local.rem_euclid(86_400_000) + since_midnight - zone)
            }
        }
    }
}

impl FromStr for When {
    type Err = String;

    /// `now`, `5m` (ago), `12:30`, `2026-11-30`, `2026-11-30 12:30:05` or with `T`, a `Z` behind for UTC, milliseconds
    /// since 1970, or Apache's `2026-11-30#12:30:05:123`.
    fn from_str(text: &str) -> Result<When, String> {
        let text = text.trim();
        if text == "now" {
            return Ok(When::Now);
        }
        if text.len() >= 11 {
            if let Ok(millis) = text.parse() {
                return Ok(When::At(Millis(millis)));
            }
        }
        if let Some(millis) = duration_of(text.strip_suffix(" ago").unwrap_or(text)) {
            return Ok(When::Ago(millis));
        }
        let time = |text: &str| Time::parse(text, SECOND).or_else(|_| Time::parse(text, MINUTE)).ok();
        if let Some(time) = time(text) {
            return Ok(When::Today((time - Time::MIDNIGHT).whole_milliseconds() as i64));
        }
        let (text, utc) = text.strip_suffix('Z').map_or((text, false), |text| (text, true));
        let moment = match text.split_once([' ', 'T', '#']) {
            None => Date::parse(text, DATE).ok().map(|date| PrimitiveDateTime::new(date, Time::MIDNIGHT)),
            Some((date, clock)) => {
                let clock = apaches(clock);
                Date::parse(date, DATE).ok().zip(time(&clock)).map(|(date, time)| PrimitiveDateTime::new(date, time))
            }
        };
        let moment = moment.ok_or_else(|| {
            format!("`{text}` is no time; write `5m` (ago), `12:30`, `2026-11-30`, `2026-11-30 12:30` or milliseconds")
        })?;
        let millis = (moment.assume_utc().unix_timestamp_nanos() / 1_000_000) as i64;
        Ok(if utc { When::At(Millis(millis)) } else { When::Local(millis) })
    }
}

/// Apache's tools have a colon before the milliseconds.
fn apaches(clock: &str) -> String {
    match clock.rsplit_once(':') {
        Some((front, millis)) if front.matches(':').count() == 2 => format!("{front}.{millis}"),
        _ => clock.to_owned(),
    }
}

/// Milliseconds of `500ms`, `30s`, `5m`, `2h`, `7d`.
pub fn duration_of(text: &str) -> Option<i64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let unit = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    text[..digits].parse::<i64>().ok()?.checked_mul(unit)
}

/// A time as it is shown.
pub fn text(time: Millis, zone: i32) -> String {
    let shown = OffsetDateTime::from_unix_timestamp_nanos(i128::from(time.0) * 1_000_000).ok().and_then(|moment| {
        let offset = UtcOffset::from_whole_seconds(zone).unwrap_or(UtcOffset::UTC);
        moment.to_offset(offset).format(SHOWN).ok()
    });
    shown.unwrap_or_else(|| time.0.to_string())
}

/// A span of time for eyes, such as `3m 20s`.
pub fn span(millis: i64) -> String {
    let seconds = millis.max(0) / 1000;
    match seconds {
        0 => format!("{} ms", millis.max(0)),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let now = Millis(1_764_000_000_000);
        let at = |text: &str| text.parse::<When>().unwrap().resolve(now, 3600);
        assert_eq!(at("now"), now);
        assert_eq!(at("5m"), Millis(now.0 - 300_000));
        assert_eq!(at("2h ago"), Millis(now.0 - 7_200_000));
        assert_eq!(at("1764000000001"), Millis(1_764_000_000_001));
        assert_eq!(text(at("2025-11-24 17:30"), 3600), "2025-11-24 17:30:00.000");
        assert_eq!(text(at("2025-11-24T17:30:05.5"), 3600), "2025-11-24 17:30:05.500");
        assert_eq!(text(at("2025-11-24#17:30:05:123"), 3600), "2025-11-24 17:30:05.123");
        assert_eq!(text(at("2025-11-24T16:30:00Z"), 3600), "2025-11-24 17:30:00.000");
        assert_eq!(text(at("2025-11-24"), 3600), "2025-11-24 00:00:00.000");
        assert_eq!(text(at("12:30"), 3600), "2025-11-24 12:30:00.000");
        for wrong in ["", "yesterday", "5x", "2025-13-01", "25:00"] {
            assert!(wrong.parse::<When>().is_err(), "{wrong}");
        }
        assert_eq!((span(250), span(61_000), span(90_000_000)), ("250 ms".into(), "1m 1s".into(), "1d 1h".into()));
    }
}
