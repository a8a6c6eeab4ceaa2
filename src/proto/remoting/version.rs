//! The release a peer says it runs: the ordinal of an enum in RocketMQ's sources, stable over all releases.
//!
//! A release 4.a.b is 213 + 20·a + 2·b, 5.a.b is 413 + 20·a + 2·b, the snapshot before it one less.

/// From here on a registration's body is a `RegisterBrokerBody`; below it is a bare topic table.
pub const V3_0_11: i32 = 37;
/// From here on a client answers 307 and 309.
pub const V3_1_8_SNAPSHOT: i32 = 62;
/// From here on `maxReconsumeTimes` of a request counts.
pub const V3_4_9: i32 = 121;
/// Below this broker version Java clients refuse SQL92 subscriptions.
pub const V4_1_0_SNAPSHOT: i32 = 232;
/// Up to here `_UNIQUE_KEY_QUERY` is outside the signature.
pub const V4_9_3: i32 = 399;
/// From here on Apache's NameServer answers routes in standard JSON.
pub const V4_9_4: i32 = 401;
/// From here on a compressed registration carries queue mappings.
pub const V5_0_0: i32 = 413;
/// Clients above this one understand `GO_AWAY`.
pub const V5_3_1: i32 = 475;
/// What metaq says of itself in every answer.
pub const CURRENT: i32 = 479;

const V4_0_0: i32 = 213;

/// The name of a version, such as `V5_3_3`, for logs, remarks and tools. Those below 4.0 follow no rule: `V3`.
pub fn name(version: i32) -> String {
    // A snapshot has the number before its release: count from the release, then say so.
    let snapshot = version % 2 == 0;
    let release = i64::from(version) + i64::from(snapshot);
    let (major, since) = match release - i64::from(V5_0_0) {
        since @ 0.. => (5, since),
        _ => (4, release - i64::from(V4_0_0)),
    };
    if since < 0 {
        return "V3".into();
    }
    format!("V{major}_{}_{}{}", since / 20, since % 20 / 2, if snapshot { "_SNAPSHOT" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_formula() {
        let expected = [
            (V4_1_0_SNAPSHOT, "V4_1_0_SNAPSHOT"),
            (212, "V4_0_0_SNAPSHOT"),
            (213, "V4_0_0"),
            (317, "V4_5_2"),
            (333, "V4_6_0"),
            (V4_9_3, "V4_9_3"),
            (412, "V5_0_0_SNAPSHOT"),
            (V5_0_0, "V5_0_0"),
            (V5_3_1, "V5_3_1"),
            (CURRENT, "V5_3_3"),
            (V3_4_9, "V3"),
            (i32::MIN, "V3"),
        ];
        for (version, text) in expected {
            assert_eq!(name(version), text);
        }
        assert!(name(i32::MAX).starts_with("V5_"));
    }
}
