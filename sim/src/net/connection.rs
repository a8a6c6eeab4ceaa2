//! A connection as both kernels see it: two ends, and a way from each end to the other.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

use super::frames::Cutter;
use crate::world::NodeId;

/// First pause before a lost segment is sent again; each further one is twice as long.
pub(super) const RETRANSMIT_MIN: Duration = Duration::from_millis(200);
/// Longest such pause.
pub(super) const RETRANSMIT_MAX: Duration = Duration::from_secs(8);
/// A sender whose bytes stay unacknowledged for this long ends the connection. Linux needs about 15 minutes by
/// default; scenarios would only wait.
pub(super) const GIVE_UP: Duration = Duration::from_secs(15);
/// How much later [`Haste::Later`] is; Linux waits about as long.
pub(super) const ACKNOWLEDGE_AFTER: Duration = Duration::from_millis(40);
/// Bytes on the way and unread at the peer before a write waits.
pub(super) const WINDOW: u64 = 64 * 1024;

/// A connection and the index of its sending end.
pub(super) type WayId = (u64, usize);

/// What a program, or the kernel after it, holds of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Socket {
    /// Usable.
    Open,
    /// Still held by the program; every call fails.
    Failed(io::ErrorKind),
    /// The program closed it or died; the kernel still sends what was written.
    Closed,
    /// The machine lost its power: nobody sends again, nobody answers.
    Vanished,
}

impl Socket {
    /// True if a program still holds it.
    pub(super) fn is_held(self) -> bool {
        matches!(self, Socket::Open | Socket::Failed(_))
    }
}

/// One end.
pub(super) struct End {
    pub(super) node: NodeId,
    pub(super) address: SocketAddr,
    pub(super) socket: Socket,
    /// Arrived and not yet read.
    pub(super) input: VecDeque<u8>,
    /// The peer's end of stream has arrived.
    pub(super) ended: bool,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

impl End {
    pub(super) fn new(node: NodeId, address: SocketAddr) -> End {
        let input = VecDeque::new();
        End { node, address, socket: Socket::Open, input, ended: false, reader: None, writer: None }
    }

    /// Wakes whoever waits here.
    pub(super) fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    /// Ends it with an error; what was not read is gone.
    pub(super) fn fail(&mut self, kind: io::ErrorKind) {
        if self.socket == Socket::Open {
            self.socket = Socket::Failed(kind);
            self.input.clear();
            self.wake();
        }
    }
}

/// When a receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Haste {
    /// What arrived is acknowledged after a while, all of it together.
    Later,
    /// The sender is running out of room, and hears at once of what was read.
    AtOnce,
}

/// What travels on a way.
pub(super) enum Segment {
    Data(Vec<u8>),
    Fin,
}

impl Segment {
    /// Its part of the sequence space: as in TCP, the end of stream counts as one byte.
    pub(super) fn len(&self) -> u64 {
        match self {
            Segment::Data(bytes) => bytes.len() as u64,
            Segment::Fin => 1,
        }
    }
}

/// Bytes from one end to the other. All counters are positions in its sequence space.
#[derive(Default)]
pub(super) struct Way {
    /// Sent, not arrived, with the time of arrival if the link is open then.
    pub(super) segments: VecDeque<(Duration, Segment)>,
    /// An agenda entry for the first segment exists.
    pub(super) scheduled: bool,
    /// No more bytes follow: the end of stream was sent.
    pub(super) shut: bool,
    pub(super) sent: u64,
    pub(super) arrived: u64,
    pub(super) consumed: u64,
    /// `arrived` and `consumed` as the sender knows them.
    pub(super) known_arrived: u64,
    pub(super) known_consumed: u64,
    /// An acknowledgement is on its way back, or soon will be.
    pub(super) acknowledging: Option<Haste>,
    /// A check for [`GIVE_UP`] exists.
    pub(super) watched: bool,
    /// Pause before the next attempt over a cut link.
    pub(super) pause: Duration,
    /// Bytes that the receiver takes beyond what it has read; [`WINDOW`] if it is 0.
    pub(super) window: u64,
    /// Where frames begin and end.
    pub(super) cutter: Cutter,
}

impl Way {
    /// Bytes that may be sent now.
    pub(super) fn room(&self) -> u64 {
        self.window().saturating_sub(self.sent - self.known_consumed)
    }

    /// Bytes on the way and unread at the receiver before a write waits.
    pub(super) fn window(&self) -> u64 {
        if self.window == 0 {
            WINDOW
        } else {
            self.window
        }
    }

    /// Adds a segment behind the ones already on the way.
    pub(super) fn push(&mut self, arrival: Duration, segment: Segment) {
        let after = self.segments.back().map_or(Duration::ZERO, |(at, _)| *at);
        self.sent += segment.len();
        self.segments.push_back((arrival.max(after), segment));
    }
}

/// A connection.
pub(super) struct Connection {
    pub(super) ends: [End; 2],
    /// `ways[i]` leads from `ends[i]` to the other end.
    pub(super) ways: [Way; 2],
    /// Something between the machines has forgotten it: nothing comes through any more, and nobody is told.
    pub(super) forgotten: bool,
}

impl Connection {
    pub(super) fn new(ends: [End; 2]) -> Connection {
        Connection { ends, ways: Default::default(), forgotten: false }
    }

    /// True if no program holds it and nothing of it travels.
    pub(super) fn is_over(&self) -> bool {
        let idle = |i: usize| self.ways[i].segments.is_empty() || self.ends[i].socket == Socket::Vanished;
        !self.ends[0].socket.is_held() && !self.ends[1].socket.is_held() && idle(0) && idle(1)
    }
}
