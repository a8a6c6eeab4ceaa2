//! What a session has yet to write, and the answers it still waits for.

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};

/// Writes one or several encoded frames to the end of the connection's buffer.
pub type Answer = Box<dyn FnOnce(&mut Vec<u8>) + Send>;

/// Bytes to write and answers to wait for.
///
/// Answers are written in the order in which they become ready, so a parked pull delays no other answer.
#[derive(Default)]
pub struct Output {
    /// Encoded frames, written to the connection in this order.
    pub bytes: Vec<u8>,
    /// Answers on their way.
    pub(super) pending: FuturesUnordered<BoxFuture<'static, Option<Answer>>>,
    /// Answers held until something happens that may never happen.
    pub(super) held: FuturesUnordered<BoxFuture<'static, Option<Answer>>>,
    /// Answers the service will bring by [`Service::answer`](super::Service::answer).
    pub outstanding: usize,
}

impl Output {
    /// Adds an answer that is not ready yet. `None` from the future answers nothing (a one-way request).
    pub fn later(&mut self, answer: BoxFuture<'static, Option<Answer>>) {
        self.pending.push(answer);
    }

    /// Adds an answer that waits for something that may never happen: a stopping broker does not wait for it.
    pub fn hold(&mut self, answer: BoxFuture<'static, Option<Answer>>) {
        self.held.push(answer);
    }

    /// What a handler that ran outside of a session gave: its bytes, then the first answer still on its way.
    pub async fn into_answer(mut self) -> Option<Answer> {
        let later = match self.pending.next().await {
            Some(answer) => answer,
            None => self.held.next().await.flatten(),
        };
        let bytes = self.bytes;
        Some(Box::new(move |out: &mut Vec<u8>| {
            out.extend_from_slice(&bytes);
            if let Some(later) = later {
                later(out);
            }
        }))
    }

    /// Number of requests whose answers are on their way.
    pub fn waiting(&self) -> usize {
        self.pending.len() + self.held.len() + self.outstanding
    }
}
