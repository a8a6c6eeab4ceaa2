//! The bench's client: one thread, any number of connections, as little work per message as possible.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use super::frames::Answer;
use crate::env::real::poll::{Poller, Socket};
use crate::env::real::process;
use crate::env::Clock;
use crate::proto::remoting::{frame, Serialization};

/// Bytes asked for in one read.
const READ_BYTES: usize = 256 * 1024;
/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// How long answers may take once nothing more is asked for.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// Waits are not longer, so that an interrupt is noticed.
const WAIT_MAX: Duration = Duration::from_millis(200);
/// Waits shorter than this are spun: waking up takes about as long.
const SPIN: Duration = Duration::from_micros(30);

/// A connection and the requests on it that wait for answers.
pub struct Link {
    socket: Socket,
    out: Vec<u8>,
    written: usize,
    partial: Vec<u8>,
    /// When each slot's request was sent, or should have been, in ns of the client's clock.
    slots: Vec<u64>,
    free: Vec<u32>,
}

impl Link {
    /// Slots without a request.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Takes a slot for a request that counts from `since`.
    pub fn take(&mut self, since: u64) -> Option<u32> {
        let slot = self.free.pop()?;
        self.slots[slot as usize] = since;
        Some(slot)
    }

    /// Where requests are written to.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Sends what has been written, as far as there is room.
    fn flush(&mut self) -> Result<()> {
        while self.written < self.out.len() {
            match self.socket.write(&self.out[self.written..]).context("the server closed a connection")? {
                Some(bytes) => self.written += bytes,
                None => return Ok(()),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }
}

/// What is asked for. Links are told apart by their position.
pub trait Load {
    /// Sends what is due now; called often. Returns when the next request is due, if time decides that.
    fn tick(&mut self, links: &mut [Link], now: u64) -> Option<u64>;

    /// An answer came to the request sent at `since`; its slot is free again and may be taken at once.
    ///
    /// # Errors
    /// What makes measuring pointless.
    fn answered(&mut self, link: (usize, &mut Link), answer: &Answer<'_>, since: u64, now: u64) -> Result<()>;

    /// Counts start anew.
    fn begin(&mut self);

    /// Whether what was asked for is done.
    fn is_done(&self) -> bool;

    /// No requests any more, and answers that come from now on do not count.
    fn stop(&mut self);
}

/// Connections to one server.
pub struct Client {
    poller: Poller,
    links: Vec<Link>,
    clock: Arc<dyn Clock>,
    buffer: Vec<u8>,
    tokens: Vec<u64>,
}

impl Client {
    /// Opens `connections`, each with room for `in_flight` requests.
    pub fn connect(clock: &Arc<dyn Clock>, address: SocketAddr, connections: usize, in_flight: usize) -> Result<Self> {
        let poller = Poller::new()?;
        let mut links = Vec::with_capacity(connections);
        for number in 0..connections {
            let socket =
                Socket::connect(address, CONNECT_LIMIT).with_context(|| format!("cannot connect to {address}"))?;
            poller.watch(&socket, number as u64)?;
            links.push(Link {
                socket,
                out: Vec::new(),
                written: 0,
                partial: Vec::new(),
                slots: vec![0; in_flight],
                free: (0..in_flight as u32).rev().collect(),
            });
        }
        Ok(Client { poller, links, clock: Arc::clone(clock), buffer: vec![0; READ_BYTES], tokens: Vec::new() })
    }

    /// Nanoseconds of the clock that all times here are of.
    pub fn now(&self) -> u64 {
        self.clock.monotonic().as_nanos() as u64
    }

    /// Requests that wait for answers.
    fn outstanding(&self) -> usize {
        self.links.iter().map(|link| link.slots.len() - link.free.len()).sum()
    }

    /// Runs the load for `limit`, or until it is done.
    pub fn run(&mut self, load: &mut dyn Load, limit: Duration) -> Result<()> {
        let end = self.now() + limit.as_nanos() as u64;
        loop {
            let mut now = self.now();
            if now >= end || load.is_done() {
                return Ok(());
            }
            let due = load.tick(&mut self.links, now);
            self.flush()?;
            now = self.now();
            let next = due.unwrap_or(end).min(end);
            self.turn(load, Duration::from_nanos(next.saturating_sub(now)))?;
        }
    }

    /// Ends the load and waits for the answers that are still on their way; those that do not come are not counted.
    pub fn drain(&mut self, load: &mut dyn Load) -> Result<()> {
        load.stop();
        let end = self.now() + DRAIN_LIMIT.as_nanos() as u64;
        while self.outstanding() > 0 && self.now() < end {
            self.turn(load, Duration::from_millis(50))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.links.iter_mut().filter(|link| !link.out.is_empty()).try_for_each(Link::flush)
    }

    /// Waits at most `limit` for answers and takes them.
    fn turn(&mut self, load: &mut dyn Load, limit: Duration) -> Result<()> {
        if process::interrupted() {
            bail!("interrupted");
        }
        let limit = if limit < SPIN { Duration::ZERO } else { limit.min(WAIT_MAX) };
        let mut tokens = std::mem::take(&mut self.tokens);
        self.poller.wait(Some(limit), &mut tokens)?;
        for token in &tokens {
            self.take_answers(*token as usize, load)?;
            self.links[*token as usize].flush()?;
        }
        self.tokens = tokens;
        Ok(())
    }

    fn take_answers(&mut self, number: usize, load: &mut dyn Load) -> Result<()> {
        loop {
            let link = &mut self.links[number];
            let Some(read) = link.socket.read(&mut self.buffer).context("the server closed a connection")? else {
                return Ok(());
            };
            if read == 0 {
                bail!("the server closed a connection");
            }
            let now = self.clock.monotonic().as_nanos() as u64;
            if link.partial.is_empty() {
                let used = take_frames((number, link), &self.buffer[..read], load, now)?;
                link.partial.extend_from_slice(&self.buffer[used..read]);
            } else {
                let mut partial = std::mem::take(&mut link.partial);
                partial.extend_from_slice(&self.buffer[..read]);
                let used = take_frames((number, link), &partial, load, now)?;
                partial.drain(..used);
                link.partial = partial;
            }
            if read < self.buffer.len() {
                return Ok(());
            }
            // What was asked for meanwhile need not wait for the rest.
            link.flush()?;
        }
    }
}

/// Hands over the answers in `bytes`; returns how many bytes they took.
fn take_frames(link: (usize, &mut Link), bytes: &[u8], load: &mut dyn Load, now: u64) -> Result<usize> {
    let (number, link) = link;
    let mut used = 0;
    while let Some(frame) = frame::next(&bytes[used..])? {
        used += frame.len;
        let answer = (frame.serialization == Serialization::Json).then(|| Answer::parse(frame.header, frame.body));
        let Some(answer) = answer.flatten() else { bail!("the server sent something that is no answer") };
        let since = *link.slots.get(answer.slot as usize).context("the server answered what was not asked")?;
        link.free.push(answer.slot);
        load.answered((number, &mut *link), &answer, since, now)?;
    }
    Ok(used)
}
