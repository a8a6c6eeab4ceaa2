//! A task per slave: it sends the log as it grows and takes the slave's reports.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;

use super::HaState;
use crate::env::{BoxFuture, Millis, Stream};
use crate::ha::link::{Link, LinkError};
use crate::ha::replicas::SlaveId;
use crate::proto::PhysicalOffset;
use crate::store::StoreError;

/// What is gathered for one write to the socket.
const GATHERED_BYTES: usize = 256 << 10;

/// Why a slave's session ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("the slave closed the connection")]
    Closed,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("position {at} is not in the log any more")]
    Expired { at: u64 },
    #[error("this broker serves no slaves any more")]
    Stopped,
}

/// A connection to a slave.
pub(super) struct Session {
    /// Names it among all connections.
    pub number: u64,
    pub stream: Box<dyn Stream>,
    pub peer: SocketAddr,
    pub ha: HaState,
    /// Set when no slave is to be served any more.
    pub stopped: Arc<AtomicBool>,
    pub link: Link,
    /// Reports that were looked at.
    pub reports: u64,
    /// The record at which it begins was looked at.
    pub looked: bool,
    /// Who it is, once it is known to be a slave.
    pub slave: Option<SlaveId>,
    pub out: Vec<u8>,
    pub written: usize,
    pub seen: u64,
}

impl Session {
    /// Serves the slave until something ends it.
    pub(super) async fn run(mut self) -> End {
        let end = match self.serve().await {
            Ok(()) => End::Stopped,
            Err(end) => end,
        };
        if let Some(slave) = self.slave {
            self.ha.quorum().closed(slave, self.number);
        }
        end
    }

    async fn serve(&mut self) -> Result<(), End> {
        while !self.stopped.load(Ordering::Acquire) {
            let now = self.now();
            self.link.on_tick(now, &self.ha)?;
            self.note_slave();
            self.gather(now)?;
            let wait = Duration::from_millis(self.link.wake_at().since(now).max(1));
            let mut timer = self.ha.env().clock.sleep(wait);
            poll_fn(|cx| self.poll(cx, &mut timer)).await?;
        }
        Ok(())
    }

    /// Has the next parts of the log ready to be written.
    fn gather(&mut self, now: Millis) -> Result<(), End> {
        if self.written < self.out.len() {
            return Ok(());
        }
        self.out.clear();
        self.written = 0;
        let epochs = self.ha.epochs();
        // One that comes again and again cannot take what is there.
        if let Some(begins) = self.link.begins_at().filter(|_| !std::mem::replace(&mut self.looked, true)) {
            self.ha.store().look_at(PhysicalOffset(begins));
        }
        while self.out.len() < GATHERED_BYTES {
            let Some(batch) = self.link.next(now, &self.ha, &epochs, &mut self.out)? else { break };
            let at = PhysicalOffset(batch.at);
            if batch.len > 0 && !self.ha.store().transfer(at, batch.len as usize, &mut self.out)? {
                return Err(End::Expired { at: batch.at });
            }
        }
        Ok(())
    }

    /// Writes, reads, and looks for news; ready if there was any of it.
    fn poll(&mut self, cx: &mut Context<'_>, timer: &mut BoxFuture<'static, ()>) -> Poll<Result<(), End>> {
        let mut ready = false;
        while self.written < self.out.len() {
            match self.stream.poll_write(cx, &self.out[self.written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(End::Closed)),
                Poll::Ready(Ok(written)) => self.written += written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => break,
            }
            ready = self.written == self.out.len();
        }
        let mut bytes = [0; 1024];
        match self.stream.poll_read(cx, &mut bytes) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(End::Closed)),
            Poll::Ready(Ok(read)) => {
                let (now, epochs) = (self.now(), self.ha.epochs());
                let mut answer = Vec::new();
                if let Err(error) = self.link.on_bytes(&bytes[..read], now, &self.ha, &epochs, &mut answer) {
                    return Poll::Ready(Err(error.into()));
                }
                self.out.extend_from_slice(&answer);
                ready = true;
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
            Poll::Pending => {}
        }
        // With something left to write, what is new can wait.
        if self.written == self.out.len() {
            ready |= self.ha.signal().poll_changed(&mut self.seen, cx).is_ready();
        }
        ready |= timer.poll_unpin(cx).is_ready();
        match ready {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    /// Tells what the slave has said.
    fn note_slave(&mut self) {
        // Only its own word is news: what is told here wakes this session in turn.
        let Some(acked) = self.link.acked().filter(|_| self.link.reports() != self.reports) else { return };
        self.reports = self.link.reports();
        let quorum = self.ha.quorum();
        let id = *self.slave.get_or_insert_with(|| {
            let id = match self.link.slave() {
                Some(slave) => SlaveId::Broker(slave.broker_id),
                None => SlaveId::Machine(self.peer.ip()),
            };
            let counts = self.link.slave().is_none_or(|slave| !slave.async_learner);
            tracing::info!(peer = %self.peer, slave = ?id, acked, "a slave follows");
            quorum.connected(id, self.number, self.peer.to_string(), counts);
            id
        });
        quorum.acked(id, self.number, acked);
    }

    fn now(&self) -> Millis {
        Millis(self.ha.env().clock.monotonic().as_millis() as i64)
    }
}
