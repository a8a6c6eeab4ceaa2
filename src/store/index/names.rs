//! Names of index files: the local time at which they were made, `yyyyMMddHHmmssSSS`.

use time::macros::format_description;
use time::{Duration, OffsetDateTime, PrimitiveDateTime, UtcOffset};

use crate::env::Millis;

const DIGITS: usize = 17;

/// The name of a file made at `now` in a place `utc_offset_seconds` east of Greenwich, behind files up to `newest`.
///
/// Files are ordered by name, so a clock that was set back (or the hour that summer time repeats) must not produce a
/// smaller one: then the name is one millisecond past the newest.
pub(super) fn next_name(now: Millis, utc_offset_seconds: i32, newest: Option<&str>) -> String {
    let name = format(local_time(now, utc_offset_seconds));
    match newest {
        Some(newest) if *newest >= *name => successor(newest),
        _ => name,
    }
}

/// True for 17 digits; other files in the directory are not ours.
pub(super) fn is_index_name(name: &str) -> bool {
    name.len() == DIGITS && name.bytes().all(|byte| byte.is_ascii_digit())
}

fn local_time(now: Millis, utc_offset_seconds: i32) -> PrimitiveDateTime {
    let utc =
        OffsetDateTime::UNIX_EPOCH.checked_add(Duration::milliseconds(now.0)).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let offset = UtcOffset::from_whole_seconds(utc_offset_seconds).unwrap_or(UtcOffset::UTC);
    let local = utc.checked_to_offset(offset).unwrap_or(utc);
    PrimitiveDateTime::new(local.date(), local.time())
}

fn format(at: PrimitiveDateTime) -> String {
    // A time before year 0 or after 9999 cannot be named; its digits do not matter, they only have to be digits.
    at.format(format_description!("[year][month][day][hour][minute][second][subsecond digits:3]"))
        .ok()
        .filter(|name| is_index_name(name))
        .unwrap_or_else(|| "0".repeat(DIGITS))
}

/// The next millisecond; the next number if `name` is no time.
fn successor(name: &str) -> String {
    let number = name.parse::<u64>().unwrap_or(0);
    parse(number)
        .and_then(|at| at.checked_add(Duration::milliseconds(1)))
        .map(format)
        .filter(|next| **next > *name)
        .unwrap_or_else(|| format!("{:0DIGITS$}", number + 1))
}

fn parse(number: u64) -> Option<PrimitiveDateTime> {
    let digits = |divisor: u64, modulus: u64| number / divisor % modulus;
    let month = time::Month::try_from(digits(100_000_000_000, 100) as u8).ok()?;
    let year = (number / 10_000_000_000_000) as i32;
    let date = time::Date::from_calendar_date(year, month, digits(1_000_000_000, 100) as u8).ok()?;
    let of_day = time::Time::from_hms_milli(
        digits(10_000_000, 100) as u8,
        digits(100_000, 100) as u8,
        digits(1000, 100) as u8,
        digits(1, 1000) as u16,
    );
    Some(PrimitiveDateTime::new(date, of_day.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_local_times() {
        assert_eq!(next_name(Millis(1_700_000_000_000), 0, None), "20231114221320000");
        assert_eq!(next_name(Millis(1_700_000_000_123), 8 * 3600, None), "20231115061320123");
        assert_eq!(next_name(Millis(1_700_000_000_000), -(23 * 3600), Some("20231113231319999")), "20231113231320000");
    }

    #[test]
    fn a_name_is_always_behind_the_newest() {
        let next = |newest| next_name(Millis(1_700_000_000_000), 0, Some(newest));
        assert_eq!(next("20231114221319999"), "20231114221320000");
        assert_eq!(next("20231114221320000"), "20231114221320001");
        assert_eq!(next("20231231235959999"), "20240101000000000");
        assert_eq!(next("20999999999999999"), "21000000000000000", "no time at all");
    }

    #[test]
    fn impossible_times_still_give_names() {
        for now in [i64::MIN, -1, i64::MAX, 253_402_300_800_000] {
            assert!(is_index_name(&next_name(Millis(now), i32::MAX, None)), "{now}");
        }
        assert!(!is_index_name("2023111422132000"));
        assert!(!is_index_name("2023111422132000x"));
    }
}
