//! UNIQ_KEY, the id that a message has from its producer on; the broker makes one for a message that comes without.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, Ordering};

use super::ids::{push_address, push_hex};
use crate::env::Millis;

/// Makes UNIQ_KEYs: address, process id (16 bits), a number of this instance (32 bits), i32 ms since the month began
/// (UTC), counter (16 bits), in upper-case hex. Readers take it for an opaque text.
#[derive(Debug)]
pub struct UniqueKeys {
    prefix: String,
    counter: AtomicU16,
}

impl UniqueKeys {
    /// `instance` tells apart generators of one process: any random number.
    pub fn new(address: IpAddr, process_id: u32, instance: u32) -> UniqueKeys {
        let mut prefix = String::with_capacity(44);
        push_address(&mut prefix, address);
        push_hex(&mut prefix, u64::from(process_id), 4);
        push_hex(&mut prefix, u64::from(instance), 8);
        UniqueKeys { prefix, counter: AtomicU16::new(0) }
    }

    /// The next key: 32 digits, 56 if the address is an IPv6 one. Differs from the last 65,535 and from all of other
    /// milliseconds of the month.
    pub fn next(&self, now: Millis) -> String {
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        let since_month_began = now.0.wrapping_sub(month_start(now).0) as u64;
        let mut key = String::with_capacity(self.prefix.len() + 12);
        key.push_str(&self.prefix);
        push_hex(&mut key, since_month_began, 8);
        push_hex(&mut key, u64::from(counter), 4);
        key
    }
}

/// Midnight UTC of the first day of the month of `now`.
fn month_start(now: Millis) -> Millis {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let days = now.0.div_euclid(DAY);
    Millis((days - day_of_month(days)) * DAY)
}

/// Days since the month began, 0 to 30, for a day counted from 1970-01-01. Years are taken from March on, so that the
/// leap day comes last and months are 31, 30, 31, 30, 31 days over and over.
fn day_of_month(days_since_1970: i64) -> i64 {
    let day_of_era = days_since_1970.saturating_add(719_468).rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    day_of_year - (153 * month + 2) / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_where_the_calendar_says() {
        for (now, start) in [
            (1_700_000_000_123, 1_698_796_800_000), // 2023-11-14 -> 2023-11-01
            (1_709_251_199_999, 1_706_745_600_000), // 2024-02-29 -> 2024-02-01
            (1_709_251_200_000, 1_709_251_200_000), // 2024-03-01
            (0, 0),
            (-1, -2_678_400_000), // 1969-12-31 -> 1969-12-01
        ] {
            assert_eq!(month_start(Millis(now)), Millis(start), "{now}");
        }
    }

    #[test]
    fn keys_have_the_clients_form() {
        let keys = UniqueKeys::new("10.0.0.5".parse().unwrap(), 0x1_2A9F, 0x4F1B);
        assert_eq!(keys.next(Millis(1_698_796_800_255)), "0A0000052A9F00004F1B000000FF0000");
        assert_eq!(keys.next(Millis(1_698_796_800_255)), "0A0000052A9F00004F1B000000FF0001");
        assert_eq!(UniqueKeys::new("::1".parse().unwrap(), 1, 1).next(Millis(0)).len(), 56);
    }
}
