//! What slaves ask of their master, and a master that comes back of its slaves.

use std::time::Duration;

use futures::future::select;
use futures::pin_mut;

use super::{Call, Refused};
use crate::actors::broker::metadata_sync::{header, marks};
use crate::broker::metadata_sync::{tells_now, HOLD_MS, PROGRESS_EVERY_MS};
use crate::broker::BrokerError;
use crate::proto::body::to_vec;
use crate::proto::remoting::requests::MetadataMarks;
use crate::proto::remoting::Response;

/// 70001. Answered when something has changed that the slave does not have.
pub async fn wait_metadata_change(call: &Call) -> Result<Response, Refused> {
    let seen = marks(&MetadataMarks::decode(&call.ext()?)?);
    let shared = &call.shared;
    let asked = shared.now();
    loop {
        // Registered before the tables are looked at: whatever changes from then on wakes.
        let changed = shared.metadata_changed.notified();
        pin_mut!(changed);
        changed.as_mut().enable();
        if shared.role.is_slave() {
            return Err(BrokerError::NotAMaster.into());
        }
        let (now, waited_ms) = (shared.marks(), shared.now().since(asked) as i64);
        if tells_now(now.since(Some(&seen)), waited_ms) || call.connection.is_closed() {
            return Ok(Response::success().with_ext(&header(Some(now))));
        }
        let look_again = PROGRESS_EVERY_MS.min(HOLD_MS - waited_ms).max(1);
        let pause = shared.env.clock.sleep(Duration::from_millis(look_again as u64));
        select(changed, pause).await;
    }
}

/// 70002
pub fn kept_offsets(call: &Call) -> Response {
    let shared = &call.shared;
    let kept = shared.offsets().kept(shared.now());
    Response::success().with_body(to_vec(&kept))
}
