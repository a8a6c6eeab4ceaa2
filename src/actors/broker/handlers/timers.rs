//! What slaves ask about the timer.

use super::Call;
use crate::broker::admin::timers::{checkpoint_body, TimerMetrics};
use crate::proto::body::to_vec;
use crate::proto::remoting::Response;

/// 60
pub fn checkpoint(call: &Call) -> Response {
    let timer = &call.shared.timer;
    let version = call.shared.topics().version();
    Response::success().with_body(checkpoint_body(timer.read_ms(), timer.next(), &version))
}

/// 61
pub fn metrics(call: &Call) -> Response {
    let shared = &call.shared;
    Response::success().with_body(to_vec(&TimerMetrics::new(shared.timer.pending(), shared.wall())))
}
