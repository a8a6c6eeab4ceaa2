//! One connection: a plain task with a hand-written poll loop.
//!
//! A session costs nothing while it idles: bytes are read into a buffer that all sessions of the thread share, and what
//! remains of an incomplete frame is all that a connection keeps.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::StreamExt;
use tokio::sync::mpsc;

use super::calls::Calls;
use super::connection::Outbound;
use super::room::FrameRoom;
use super::{ConnectionHandle, Output, Service};
use crate::env::{Clock, Stream};
use crate::proto::remoting::frame::{self, FrameError};
use crate::proto::remoting::{Command, Head, RawFrame, Serialization};

/// Bytes asked for in one read. With 16 KiB one client with 64 sends in flight costs 13 % more CPU; with 256 KiB all of them
/// come at once, and client and server wait for each other in turn.
const READ_BYTES: usize = 64 * 1024;
/// Bytes asked for while a frame of more than [`LARGE_FRAME`] bytes is coming in, as of batches. Each read ends within a
/// frame, which is copied once more then.
const READ_BYTES_OF_LARGE: usize = 256 * 1024;
const LARGE_FRAME: usize = 8 * 1024;
/// Unwritten bytes above which a session stops reading requests: the peer does not take its answers.
const UNWRITTEN_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Requests waiting for their answers above which a session stops reading more; parked pulls count too.
const WAITING_MAX: usize = 64 * 1024;
/// Rounds of reading and writing before other tasks get their turn.
const ROUNDS: usize = 16;

/// The largest buffer for answers that is kept for the next session with something to say.
const SPARE_BYTES_MAX: usize = 1024 * 1024;

thread_local! {
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES_OF_LARGE]);
    /// The buffer for answers of whichever session is at work: a busy one needs not grow its own again for every
    /// burst, an idle one holds none.
    static SPARE_OUTPUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// The connection broke.
    #[error("{0}")]
    Broken(std::io::Error),
    /// The peer ended its stream.
    #[error("the peer closed it")]
    Closed,
    /// This side asked for it.
    #[error("closed by this side")]
    Requested,
    /// The peer sent what cannot be answered.
    #[error("malformed input: {0}")]
    Malformed(Malformed),
}

/// What of a peer's input cannot be answered.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Malformed {
    /// What is wrong, without the numbers: one of few.
    pub kind: &'static str,
    /// What is wrong.
    pub what: String,
}

impl From<FrameError> for End {
    fn from(error: FrameError) -> End {
        End::Malformed(Malformed { kind: error.kind(), what: error.to_string() })
    }
}

pub(super) struct Session<S: Service> {
    pub stream: Box<dyn Stream>,
    pub service: Arc<S>,
    pub handle: ConnectionHandle,
    pub outbound: mpsc::Receiver<Outbound>,
    pub clock: Arc<dyn Clock>,
    /// Monotonic milliseconds of the last byte read or written; the listener closes idle sessions by it.
    pub last_active: Arc<AtomicU64>,
    /// For frames that come in many pieces.
    pub room: FrameRoom,
}

impl<S: Service> Session<S> {
    /// Serves the connection until it ends.
    pub async fn run(self) -> End {
        let peer = match self.stream.peer_addr() {
            Ok(peer) => peer,
            Err(error) => return End::Broken(error),
        };
        let state = self.service.connected(self.handle.clone(), peer);
        let mut running = Running {
            session: self,
            state,
            output: Output::default(),
            written: 0,
            partial: Vec::new(),
            backlog: false,
            calls: Calls::new(),
            next_opaque: 1,
            serialization: Serialization::Json,
            closing: false,
            active: false,
        };
        let end = poll_fn(|cx| running.poll(cx)).await;
        running.session.service.disconnected(running.state);
        end
    }
}

struct Running<S: Service> {
    session: Session<S>,
    state: S::Connection,
    output: Output,
    /// How much of `output.bytes` is on the wire.
    written: usize,
    /// The beginning of a frame whose rest has not come yet.
    partial: Vec<u8>,
    /// `partial` may hold complete frames.
    backlog: bool,
    /// Requests to the peer that wait for their answers.
    calls: Calls,
    next_opaque: i32,
    /// What the peer last used: requests to it are written the same way.
    serialization: Serialization,
    closing: bool,
    /// Something was read or written in this turn.
    active: bool,
}

impl<S: Service> Running<S> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.output.bytes.capacity() == 0 {
            self.output.bytes = SPARE_OUTPUT.take();
        }
        let end = self.rounds(cx);
        if end.is_pending() {
            self.calls.poll_late(&*self.session.clock, cx);
        }
        if std::mem::take(&mut self.active) {
            self.session.last_active.store(self.session.clock.monotonic().as_millis() as u64, Ordering::Relaxed);
        }
        if self.output.bytes.is_empty() {
            let buffer = std::mem::take(&mut self.output.bytes);
            if buffer.capacity() <= SPARE_BYTES_MAX {
                SPARE_OUTPUT.set(buffer);
            }
        }
        end
    }

    fn rounds(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        for _ in 0..ROUNDS {
            let mut progress = self.take_outbound(cx);
            progress |= self.take_answers(cx);
            let outstanding = self.output.outstanding;
            match self.write(cx) {
                Ok(wrote) => progress |= wrote,
                Err(end) => return Poll::Ready(end),
            }
            let unwritten = self.output.bytes.len() - self.written;
            if self.closing || self.session.handle.close_requested() {
                if unwritten == 0 && self.output.pending.is_empty() && self.output.outstanding == 0 {
                    return Poll::Ready(End::Requested);
                }
            } else if unwritten < UNWRITTEN_BYTES_MAX && self.output.waiting() < WAITING_MAX {
                let read = if self.backlog { self.read_on() } else { self.read(cx) };
                match read {
                    Ok(read) => progress |= read,
                    Err(end) => return Poll::Ready(end),
                }
                if self.output.outstanding > outstanding {
                    // Others go first with what was just handed to them: its answers are on their way while more is read.
                    self.active = true;
                    break;
                }
            }
            if !progress {
                return Poll::Pending;
            }
            self.active = true;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Encodes requests of ours to the peer.
    fn take_outbound(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        while let Poll::Ready(Some(outbound)) = self.session.outbound.poll_recv(cx) {
            progress = true;
            let (mut request, call) = match outbound {
                Outbound::OneWay(request) => (request, None),
                Outbound::Call(request, call) => (request, Some(call)),
                Outbound::Close => {
                    self.closing = true;
                    continue;
                }
            };
            let number = self.next_opaque;
            request.command.opaque = number;
            self.next_opaque = number.wrapping_add(1);
            if let Some(call) = call {
                self.calls.insert(number, call, &*self.session.clock);
            }
            let written = request.command.encode_with(request.body(), self.serialization, &mut self.output.bytes);
            if let Err(error) = written {
                tracing::warn!(connection = self.session.handle.id().0, %error, "a request to the peer was not sent");
            }
        }
        progress
    }

    /// Takes answers that have become ready.
    fn take_answers(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = self.session.service.answer(&mut self.state, cx, &mut self.output);
        let Running { output: Output { bytes, pending, held, .. }, written, .. } = self;
        for answers in [pending, held] {
            while bytes.len() - *written < UNWRITTEN_BYTES_MAX {
                let Poll::Ready(Some(answer)) = answers.poll_next_unpin(cx) else { break };
                progress = true;
                if let Some(answer) = answer {
                    answer(bytes);
                }
            }
        }
        progress
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        let mut progress = false;
        while self.written < self.output.bytes.len() {
            match self.session.stream.poll_write(cx, &self.output.bytes[self.written..]) {
                Poll::Ready(Ok(0)) => return Err(End::Broken(std::io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(bytes)) => {
                    self.written += bytes;
                    progress = true;
                }
                Poll::Ready(Err(error)) => return Err(End::Broken(error)),
                Poll::Pending => return Ok(progress),
            }
        }
        if progress {
            self.written = 0;
            self.output.bytes.clear();
        }
        Ok(progress)
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        if !self.session.room.may_read(&self.partial, cx) {
            return Ok(false);
        }
        READ_BUFFER.with_borrow_mut(|buffer| {
            let wanted = if self.partial.len() > LARGE_FRAME { READ_BYTES_OF_LARGE } else { READ_BYTES };
            let read = match self.session.stream.poll_read(cx, &mut buffer[..wanted]) {
                Poll::Ready(Ok(0)) => return Err(End::Closed),
                Poll::Ready(Ok(read)) => read,
                Poll::Ready(Err(error)) => return Err(End::Broken(error)),
                Poll::Pending => return Ok(false),
            };
            let mut used = self.complete(&buffer[..read])?;
            if self.partial.is_empty() {
                used += self.requests(&buffer[used..read])?;
            }
            self.partial.extend_from_slice(&buffer[used..read]);
            self.session.service.submit(&mut self.state, &mut self.output);
            Ok(true)
        })
    }

    /// Gives the frame that was begun what it lacks and no more, and hands it over once it is whole: the frames behind
    /// it need no copy. Returns the number of bytes it took.
    fn complete(&mut self, bytes: &[u8]) -> Result<usize, End> {
        /// What the length of a frame stands in.
        const LENGTH_LEN: usize = 4;
        let mut used = 0;
        while !self.partial.is_empty() && used < bytes.len() {
            let announced = frame::announced_len(&self.partial)?;
            let lacks = announced.unwrap_or(LENGTH_LEN).saturating_sub(self.partial.len());
            let taken = lacks.min(bytes.len() - used);
            self.partial.extend_from_slice(&bytes[used..used + taken]);
            used += taken;
            if taken == lacks && announced.is_some() {
                let whole = std::mem::take(&mut self.partial);
                if self.requests(&whole)? < whole.len() {
                    self.partial = whole;
                    break;
                }
            }
        }
        Ok(used)
    }

    /// Goes on with requests that have been read, now that some of their predecessors' answers are written.
    fn read_on(&mut self) -> Result<bool, End> {
        let mut partial = std::mem::take(&mut self.partial);
        let used = self.requests(&partial)?;
        partial.drain(..used);
        self.partial = partial;
        self.session.service.submit(&mut self.state, &mut self.output);
        Ok(true)
    }

    /// Hands over complete frames until their answers fill the buffer; returns the number of bytes they took.
    fn requests(&mut self, bytes: &[u8]) -> Result<usize, End> {
        let mut used = 0;
        // It has room for many fields: one serves all frames of a read.
        let mut head = Head::default();
        loop {
            self.backlog = self.output.bytes.len() - self.written >= UNWRITTEN_BYTES_MAX;
            if self.backlog {
                return Ok(used);
            }
            match frame::next(&bytes[used..]) {
                Ok(Some(frame)) => {
                    used += frame.len;
                    self.frame(&mut head, &frame)?;
                }
                Ok(None) => return Ok(used),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn frame<'a>(&mut self, head: &mut Head<'a>, frame: &RawFrame<'a>) -> Result<(), End> {
        head.read(frame.serialization, frame.header)
            .map_err(|error| malformed("a header that cannot be read", format!("header cannot be read: {error}")))?;
        self.serialization = frame.serialization;
        if !head.is_response() {
            return self
                .session
                .service
                .request(&mut self.state, head, frame, &mut self.output)
                .map_err(|what| malformed("a request that cannot be read", what));
        }
        // An answer nobody waits for came too late: its caller has been told so.
        if let Some(call) = self.calls.answered(head.opaque) {
            let _ = call.reply.send(Ok(Command::of(head, frame)));
        }
        Ok(())
    }
}

fn malformed(kind: &'static str, what: String) -> End {
    End::Malformed(Malformed { kind, what })
}
