//! The table of delay levels (`messageDelayLevel`).

use crate::env::Millis;

/// The levels of RocketMQ's default configuration.
pub const DEFAULT: &str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";

/// The most levels a table may have: each is a queue of the delay topic.
pub const LEVELS_MAX: usize = 256;

/// Delay levels, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayLevels {
    delays_ms: Vec<i64>,
}

/// Why a table of levels cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DelayLevelsError {
    /// An entry is not a number with `s`, `m`, `h` or `d` behind it.
    #[error("`{entry}` is no delay: write a number and s, m, h or d, like 30s")]
    Entry {
        /// The entry.
        entry: String,
    },
    /// None or too many entries.
    #[error("{count} delay levels: there have to be 1 to 256")]
    Count {
        /// Entries found.
        count: usize,
    },
}

impl DelayLevels {
    /// Reads a table like [`DEFAULT`]: entries separated by spaces, each a number and a unit.
    pub fn parse(table: &str) -> Result<DelayLevels, DelayLevelsError> {
        let parse = |entry: &str| delay_ms(entry).ok_or_else(|| DelayLevelsError::Entry { entry: entry.to_owned() });
        let delays_ms = table.split_whitespace().map(parse).collect::<Result<Vec<_>, _>>()?;
        match delays_ms.len() {
            1..=LEVELS_MAX => Ok(DelayLevels { delays_ms }),
            count => Err(DelayLevelsError::Count { count }),
        }
    }

    /// The highest level.
    pub fn max(&self) -> i32 {
        self.delays_ms.len() as i32
    }

    /// `level` cut to the highest there is; 0 and below stay, they mean no delay.
    pub fn clamp(&self, level: i32) -> i32 {
        level.min(self.max())
    }

    /// The delay of a level in ms; those above the highest count as the highest, those below 1 have none.
    pub fn delay_ms(&self, level: i32) -> Option<i64> {
        let index = usize::try_from(self.clamp(level).checked_sub(1)?).ok()?;
        self.delays_ms.get(index).copied()
    }

    /// When a message stored at `stored` is due: after its level's delay, after one second if there is no such level.
    pub fn deliver_at(&self, level: i32, stored: Millis) -> Millis {
        stored.plus(self.delay_ms(level).unwrap_or(1000))
    }

    /// The queue of the delay topic that holds a level's messages.
    pub fn queue_id(level: i32) -> i32 {
        level.saturating_sub(1)
    }

    /// The level whose messages a queue of the delay topic holds.
    pub fn level_of_queue(queue_id: i32) -> i32 {
        queue_id.saturating_add(1)
    }
}

impl Default for DelayLevels {
    fn default() -> DelayLevels {
        const SECOND: i64 = 1000;
        const MINUTE: i64 = 60 * SECOND;
        let seconds = [1, 5, 10, 30].map(|n| n * SECOND);
        let minutes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120].map(|n| n * MINUTE);
        DelayLevels { delays_ms: [seconds.as_slice(), minutes.as_slice()].concat() }
    }
}

fn delay_ms(entry: &str) -> Option<i64> {
    let unit = entry.chars().last()?;
    let unit_ms = match unit {
        's' => 1000,
        'm' => 60 * 1000,
        'h' => 60 * 60 * 1000,
        'd' => 24 * 60 * 60 * 1000,
        _ => return None,
    };
    entry[..entry.len() - 1].parse::<u32>().ok().map(|count| i64::from(count) * unit_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_table_is_rocketmqs() {
        assert_eq!(DelayLevels::parse(DEFAULT), Ok(DelayLevels::default()));
        let levels = DelayLevels::default();
        assert_eq!(levels.max(), 18);
        assert_eq!(levels.delay_ms(3), Some(10_000));
        assert_eq!(levels.delay_ms(18), Some(7_200_000));
        assert_eq!(levels.delay_ms(19), Some(7_200_000), "above the highest is the highest");
        assert_eq!(levels.delay_ms(0), None);
        assert_eq!(levels.delay_ms(i32::MIN), None);
        assert_eq!(levels.deliver_at(3, Millis(1_700_000_000_456)), Millis(1_700_000_010_456));
    }

    #[test]
    fn broken_tables_say_what_is_wrong() {
        assert_eq!(DelayLevels::parse("1s x"), Err(DelayLevelsError::Entry { entry: "x".into() }));
        assert_eq!(DelayLevels::parse("1ä"), Err(DelayLevelsError::Entry { entry: "1ä".into() }));
        assert_eq!(DelayLevels::parse(" "), Err(DelayLevelsError::Count { count: 0 }));
    }
}
