//! GET_TIMER_CHECK_POINT (60) and GET_TIMER_METRICS (61): how far a master's timer is, for slaves of RocketMQ, which make
//! a timer log of their own of the timer topic.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::env::Millis;
use crate::proto::body::DataVersion;
use crate::proto::message::system;
use crate::proto::QueueOffset;

/// Bytes of a checkpoint: seven numbers, big-endian.
const CHECKPOINT_SIZE: usize = 56;

/// The body of 60. | read up to (ms) | timer log flushed | timer topic taken in | the same at the master | data version:
/// state version, timestamp, counter |. Our timer log is not RocketMQ's, so nothing of one is said to be flushed.
pub fn checkpoint_body(read_ms: i64, next: QueueOffset, version: &DataVersion) -> Vec<u8> {
    let next = next.0 as i64;
    let numbers = [read_ms, 0, next, next, version.state_version, version.timestamp, version.counter];
    let body: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    debug_assert_eq!(body.len(), CHECKPOINT_SIZE);
    body
}

/// The body of 61: messages that wait, under the name of the timer topic. RocketMQ counts them for each topic that they
/// are for, in a file beside its timer log; ours says how many wait, and a start knows that without reading each record.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimerMetrics {
    data_version: DataVersion,
    timing_count: BTreeMap<&'static str, Metric>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metric {
    count: u64,
    time_stamp: i64,
}

impl TimerMetrics {
    /// `pending` messages wait at this time.
    pub fn new(pending: u64, wall: Millis) -> TimerMetrics {
        let metric = Metric { count: pending, time_stamp: wall.0 };
        TimerMetrics {
            data_version: DataVersion::new(wall),
            timing_count: BTreeMap::from([(system::TIMER_TOPIC, metric)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::body::to_vec;

    #[test]
    fn bodies_as_rocketmq_lays_them_out() {
        let version = DataVersion { counter: 3, state_version: 1, timestamp: 2 };
        let body = checkpoint_body(5_000, QueueOffset(7), &version);
        let numbers: Vec<i64> = body.as_chunks::<8>().0.iter().map(|number| i64::from_be_bytes(*number)).collect();
        assert_eq!(numbers, [5_000, 0, 7, 7, 1, 2, 3]);
        let text = String::from_utf8(to_vec(&TimerMetrics::new(4, Millis(9)))).unwrap();
        assert_eq!(
            text,
            r#"{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":9},"timingCount":{"rmq_sys_wheel_timer":{"count":4,"timeStamp":9}}}"#
        );
    }
}
