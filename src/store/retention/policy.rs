//! The settings of retention, checked.

use crate::env::Millis;

const HOUR_MS: i64 = 3_600_000;

/// Settings as the operator gave them, under RocketMQ's names. Ratios are whole percents of the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionSettings {
    /// `deleteWhen`: local hours, separated by `;`, in which expired segments are deleted.
    pub delete_when: String,
    /// `fileReservedTime`: hours a segment stays after its last change.
    pub file_reserved_time: u32,
    /// `diskMaxUsedSpaceRatio`: above it expired segments go at any hour.
    pub disk_max_used_space_ratio: u32,
    /// `diskSpaceCleanForciblyRatio`: above it segments go before they expire.
    pub disk_space_clean_forcibly_ratio: u32,
    /// `diskSpaceWarningLevelRatio`: above it writes are refused.
    pub disk_space_warning_level_ratio: u32,
    /// `cleanFileForciblyEnable`: whether segments may go before they expire.
    pub clean_file_forcibly_enable: bool,
    /// `deleteFileBatchMax`: segments deleted in one pass.
    pub delete_file_batch_max: u32,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        RetentionSettings {
            delete_when: "04".to_string(),
            file_reserved_time: 72,
            disk_max_used_space_ratio: 75,
            disk_space_clean_forcibly_ratio: 85,
            disk_space_warning_level_ratio: 90,
            clean_file_forcibly_enable: true,
            delete_file_batch_max: 10,
        }
    }
}

/// A setting that does not do what it says; shown at start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetentionWarning {
    /// A number outside of its limits was moved to the nearest one.
    #[error("{key} is {given}, which is outside of {min} to {max}: {used} is used")]
    OutOfLimits {
        /// The setting's name.
        key: &'static str,
        /// The value given.
        given: u32,
        /// The lowest value allowed.
        min: u32,
        /// The highest value allowed.
        max: u32,
        /// The value in force.
        used: u32,
    },
    /// A part of `deleteWhen` is no hour and is left out.
    #[error("deleteWhen has `{part}`, which is no hour from 00 to 23: it is ignored")]
    NotAnHour {
        /// The part.
        part: String,
    },
    /// `deleteWhen` names no hour at all.
    #[error("deleteWhen names no hour: 04 is used")]
    NoHour,
    /// A limit meant to act earlier lies at or above one meant to act later.
    #[error("{earlier} ({earlier_percent}) is not below {later} ({later_percent}): {consequence}")]
    WrongOrder {
        /// The setting meant to act first.
        earlier: &'static str,
        /// Its value in force.
        earlier_percent: u32,
        /// The setting meant to act afterwards.
        later: &'static str,
        /// Its value in force.
        later_percent: u32,
        /// What that leads to.
        consequence: &'static str,
    },
}

/// Settings in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Bit h is set if expired segments are deleted in local hour h.
    delete_hours: u32,
    pub(super) reserved_ms: i64,
    pub(super) max_used_percent: u8,
    pub(super) clean_forcibly_percent: u8,
    pub(super) warning_percent: u8,
    pub(super) clean_forcibly: bool,
    pub(super) delete_batch_max: usize,
}

impl RetentionPolicy {
    /// Applies the limits to `settings` and adds a warning for each setting that will not act as written.
    pub fn new(settings: &RetentionSettings, warnings: &mut Vec<RetentionWarning>) -> RetentionPolicy {
        let mut limited = |key, given: u32, min: u32, max: u32| {
            let used = given.clamp(min, max);
            if used != given {
                warnings.push(RetentionWarning::OutOfLimits { key, given, min, max, used });
            }
            used
        };
        let max_used = limited("diskMaxUsedSpaceRatio", settings.disk_max_used_space_ratio, 10, 95);
        let forcibly = limited("diskSpaceCleanForciblyRatio", settings.disk_space_clean_forcibly_ratio, 30, 85);
        let warning = limited("diskSpaceWarningLevelRatio", settings.disk_space_warning_level_ratio, 35, 90);
        let batch = limited("deleteFileBatchMax", settings.delete_file_batch_max, 1, 1000);
        check_order(max_used, forcibly, warning, warnings);
        RetentionPolicy {
            delete_hours: parse_hours(&settings.delete_when, warnings),
            reserved_ms: i64::from(settings.file_reserved_time) * HOUR_MS,
            max_used_percent: max_used as u8,
            clean_forcibly_percent: forcibly as u8,
            warning_percent: warning as u8,
            clean_forcibly: settings.clean_file_forcibly_enable,
            delete_batch_max: batch as usize,
        }
    }

    /// Whether expired segments are deleted in this local hour (0 to 23).
    pub fn deletes_in(&self, hour: u8) -> bool {
        hour < 24 && self.delete_hours & (1 << hour) != 0
    }

    /// At or below this usage refused writes are taken again.
    pub fn resume_percent(&self) -> u8 {
        self.clean_forcibly_percent.min(self.warning_percent)
    }
}

/// The local hour, 0 to 23, of a place `utc_offset_seconds` east of Greenwich.
pub fn local_hour(now: Millis, utc_offset_seconds: i32) -> u8 {
    now.plus(i64::from(utc_offset_seconds) * 1000).0.div_euclid(HOUR_MS).rem_euclid(24) as u8
}

fn check_order(max_used: u32, forcibly: u32, warning: u32, warnings: &mut Vec<RetentionWarning>) {
    let pairs = [
        (
            ("diskMaxUsedSpaceRatio", max_used),
            ("diskSpaceCleanForciblyRatio", forcibly),
            "segments go before they expire although expired ones may be left for their hour",
        ),
        (
            ("diskMaxUsedSpaceRatio", max_used),
            ("diskSpaceWarningLevelRatio", warning),
            "writes are refused before expired segments are deleted",
        ),
        (
            ("diskSpaceCleanForciblyRatio", forcibly),
            ("diskSpaceWarningLevelRatio", warning),
            "writes are refused before segments are deleted to make room",
        ),
    ];
    for ((earlier, earlier_percent), (later, later_percent), consequence) in pairs {
        if earlier_percent >= later_percent {
            warnings.push(RetentionWarning::WrongOrder { earlier, earlier_percent, later, later_percent, consequence });
        }
    }
}

fn parse_hours(text: &str, warnings: &mut Vec<RetentionWarning>) -> u32 {
    let mut hours = 0;
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        match part.parse::<u8>() {
            Ok(hour) if hour < 24 => hours |= 1 << hour,
            _ => warnings.push(RetentionWarning::NotAnHour { part: part.to_string() }),
        }
    }
    if hours == 0 {
        warnings.push(RetentionWarning::NoHour);
        hours = 1 << 4;
    }
    hours
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(settings: RetentionSettings) -> (RetentionPolicy, Vec<String>) {
        let mut warnings = Vec::new();
        let policy = RetentionPolicy::new(&settings, &mut warnings);
        (policy, warnings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn defaults_give_no_warning() {
        let (policy, warnings) = policy(RetentionSettings::default());
        assert_eq!(warnings, [] as [String; 0]);
        assert!(policy.deletes_in(4));
        assert!(!policy.deletes_in(5));
    }

    /// DSK-3: operators set the cleaning ratio to 99 and still got "disk full" refusals.
    #[test]
    fn dsk_3_contradictory_ratios_are_told_at_start() {
        let (policy, warnings) =
            policy(RetentionSettings { disk_max_used_space_ratio: 99, ..RetentionSettings::default() });
        assert_eq!(policy.max_used_percent, 95);
        assert_eq!(
            warnings,
            [
                "diskMaxUsedSpaceRatio is 99, which is outside of 10 to 95: 95 is used",
                "diskMaxUsedSpaceRatio (95) is not below diskSpaceCleanForciblyRatio (85): segments go before they \
                 expire although expired ones may be left for their hour",
                "diskMaxUsedSpaceRatio (95) is not below diskSpaceWarningLevelRatio (90): writes are refused before \
                 expired segments are deleted",
            ]
        );
    }

    #[test]
    fn ratios_are_kept_within_rocketmqs_limits() {
        let low = RetentionSettings {
            disk_max_used_space_ratio: 0,
            disk_space_clean_forcibly_ratio: 1,
            disk_space_warning_level_ratio: 2,
            delete_file_batch_max: 0,
            ..RetentionSettings::default()
        };
        let (policy, warnings) = policy(low);
        let used = (policy.max_used_percent, policy.clean_forcibly_percent, policy.warning_percent);
        assert_eq!((used, policy.delete_batch_max), ((10, 30, 35), 1));
        assert_eq!(warnings.len(), 4);
    }

    #[test]
    fn hours_are_a_list_and_nonsense_is_told() {
        let (several, warnings) =
            policy(RetentionSettings { delete_when: "04;16; 23".to_string(), ..RetentionSettings::default() });
        assert!(warnings.is_empty());
        assert_eq!((0..=255).filter(|hour| several.deletes_in(*hour)).collect::<Vec<_>>(), [4, 16, 23]);
        let (nonsense, warnings) =
            policy(RetentionSettings { delete_when: "24;x".to_string(), ..RetentionSettings::default() });
        assert_eq!(warnings.len(), 3);
        assert!(nonsense.deletes_in(4));
    }

    #[test]
    fn local_hours_follow_the_offset() {
        let noon = Millis(1_700_006_400_000 + 12 * HOUR_MS);
        assert_eq!(local_hour(noon, 0), 12);
        assert_eq!(local_hour(noon, 8 * 3600), 20);
        assert_eq!(local_hour(noon, -(13 * 3600)), 23);
        assert_eq!(local_hour(Millis(-1), 0), 23);
    }
}
