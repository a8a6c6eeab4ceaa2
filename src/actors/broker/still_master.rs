//! Whether a master that may be cut off still is the master of its name.
//!
//! Only what two masters must not give out at once depends on it: locks of queues. A SYNC_MASTER that hears enough of its
//! slaves is the master, for they leave it before another one takes its place. One that does not asks the NameServers, which
//! know of promotions. An ASYNC_MASTER has no such witness, and goes on until it is told.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::select;
use futures::pin_mut;

use super::shared::Shared;
use crate::broker::locks::HEARD_WITHIN_MS;
use crate::broker::Effect;
use crate::env::Canary;

/// How long NameServers are waited for: clients wait a second for their locks.
const ASK_LIMIT: Duration = Duration::from_millis(700);

/// See the module's text.
pub async fn is_still_master(shared: &Shared) -> bool {
    if shared.ha.quorum().hears_enough(HEARD_WITHIN_MS) || shared.env.canary(Canary::CutOffMasterLocks) {
        return shared.role.takes_writes();
    }
    let asked = shared.now();
    let (told, late) = (shared.carry_out_now(vec![Effect::Register]), shared.env.clock.sleep(ASK_LIMIT));
    pin_mut!(told);
    select(told, late).await;
    let confirmed = shared.named_master.load(Ordering::Acquire) >= asked.0;
    crate::sometimes!(!confirmed, "a master that is cut off gave out no locks");
    confirmed && shared.role.takes_writes()
}
