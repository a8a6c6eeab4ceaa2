//! Whole tables, for slaves and tools. What they hand over is what the files in `config/` hold, of this moment.
//!
//! Tools newer than 5.3.3 ask for pages; an answer without a total counts as the last one.

use super::Call;
use crate::proto::body::to_vec;
use crate::proto::remoting::Response;

/// 21
pub fn topics(call: &Call) -> Response {
    let topics = call.shared.topics().snapshot();
    Response::success().with_body(to_vec(&topics))
}

/// 43
pub fn consumer_offsets(call: &Call) -> Response {
    let offsets = call.shared.offsets().snapshot(call.shared.wall());
    Response::success().with_body(to_vec(&offsets))
}

/// 45
pub fn delay_offsets(call: &Call) -> Response {
    let delays = call.shared.delays().snapshot(call.shared.wall());
    Response::success().with_body(to_vec(&delays))
}

/// 201
pub fn groups(call: &Call) -> Response {
    let groups = call.shared.groups().snapshot();
    Response::success().with_body(to_vec(&groups))
}
