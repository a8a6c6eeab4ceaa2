//! Room for large frames while they come in: all connections together hold a bounded number of bytes of frames whose
//! rest is still on its way.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::proto::remoting::frame;

/// What a connection may hold of a frame without asking for room: nearly all frames are smaller.
const SMALL_BYTES: usize = 64 * 1024;
/// What room is counted in.
const UNIT_BYTES: usize = 1024;

/// Room that connections share.
#[derive(Clone)]
pub(super) struct Room {
    free: Arc<Semaphore>,
    units: u32,
}

/// One connection's part of it.
pub(super) struct FrameRoom {
    room: Room,
    claim: Claim,
}

enum Claim {
    None,
    Waiting(BoxFuture<'static, Option<OwnedSemaphorePermit>>),
    /// Dropped, it gives the room back.
    Granted {
        _room: Option<OwnedSemaphorePermit>,
    },
}

impl Room {
    /// Room for `bytes` of large frames. A frame that is larger alone takes all of it.
    pub fn new(bytes: usize) -> Room {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX >> 4).clamp(1, u32::MAX >> 4);
        Room { free: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// For one more connection.
    pub fn for_connection(&self) -> FrameRoom {
        FrameRoom { room: self.clone(), claim: Claim::None }
    }
}

impl FrameRoom {
    /// Whether the connection may read on, given the beginning of a frame that it holds. If not, it is woken once there
    /// is room for the whole frame; in the order in which they asked, and whoever has room needs no more to complete.
    pub fn may_read(&mut self, partial: &[u8], cx: &mut Context<'_>) -> bool {
        if partial.len() <= SMALL_BYTES {
            self.claim = Claim::None;
            return true;
        }
        if matches!(self.claim, Claim::None) {
            // What is no frame is closed by whoever looks at it next.
            let len = frame::announced_len(partial).ok().flatten().unwrap_or(partial.len());
            let units = u32::try_from(len.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).min(self.room.units);
            let asked = Arc::clone(&self.room.free).acquire_many_owned(units);
            // Nobody closes the semaphore.
            self.claim = Claim::Waiting(Box::pin(asked.map(Result::ok)));
        }
        if let Claim::Waiting(asked) = &mut self.claim {
            match asked.poll_unpin(cx) {
                Poll::Ready(room) => self.claim = Claim::Granted { _room: room },
                Poll::Pending => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beginning(frame_len: u32) -> Vec<u8> {
        let mut bytes = frame_len.to_be_bytes().to_vec();
        bytes.resize(SMALL_BYTES + 1, 0);
        bytes
    }

    #[test]
    fn large_frames_wait_for_each_other_and_small_ones_for_nobody() {
        let room = Room::new(10 << 20);
        let (mut a, mut b, mut c) = (room.for_connection(), room.for_connection(), room.for_connection());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let large = beginning(6 << 20);
        assert!(a.may_read(&large, &mut cx) && a.may_read(&large, &mut cx), "asked for once");
        assert!(!b.may_read(&large, &mut cx));
        assert!(!c.may_read(&beginning(1 << 20), &mut cx), "in the order in which they asked");
        assert!(room.for_connection().may_read(&large[..SMALL_BYTES], &mut cx));
        assert!(a.may_read(&[], &mut cx), "its frame is complete");
        assert!(b.may_read(&large, &mut cx) && c.may_read(&beginning(1 << 20), &mut cx));
        drop((b, c));
        assert!(a.may_read(&beginning((16 << 20) - 4), &mut cx), "larger than all room, alone");
        assert!(!room.for_connection().may_read(&large, &mut cx));
        drop(a);
        assert!(room.for_connection().may_read(&large, &mut cx));
    }
}
