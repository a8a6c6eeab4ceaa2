//! The ceiling probe: the least a server can do for the same requests on this machine, in one thread.
//!
//! Real frames, a hand-scanned header, the body's CRC, the whole record in a mapped log whose pages are present, a
//! queue entry, a JSON answer, the answers of one read joined, pulls. No recovery, no filters, no limits, no topics to
//! look up: no features. A second port echoes, which is what the machine's network alone costs.

mod head;
mod log;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;

use self::head::{unescape, Head};
use self::log::{Log, Message};
use crate::cli::console::say;
use crate::env::real::poll::{Acceptor, Poller, Socket};
use crate::env::{real, Clock, Millis};
use crate::proto::remoting::{frame, request, RawFrame};

/// Arguments of the hidden `metaq bench probe-server`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// The log's file
    #[arg(long)]
    pub log: PathBuf,
    /// Its size
    #[arg(long)]
    pub bytes: u64,
}

/// Bytes asked for in one read.
const READ_BYTES: usize = 64 * 1024;
const SERVE: u64 = u64::MAX;
const ECHO: u64 = u64::MAX - 1;

/// Serves until the process is ended.
pub fn serve(args: &ProbeArgs) -> Result<std::convert::Infallible> {
    let env = real::env();
    let log = Log::create(&*env.disk, &args.log, args.bytes)?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut acceptors = [(Acceptor::listen(any_port)?, SERVE), (Acceptor::listen(any_port)?, ECHO)];
    let mut poller = Poller::new()?;
    for (acceptor, token) in &acceptors {
        poller.watch_acceptor(acceptor, *token)?;
    }
    say!("probe {} echo {}", acceptors[0].0.local_addr()?, acceptors[1].0.local_addr()?);

    let mut probe = Probe { log, clock: env.clock, scratch: Vec::new(), ids: Vec::new() };
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut tokens = Vec::new();
    loop {
        poller.wait(None, &mut tokens)?;
        for token in &tokens {
            if let Some((acceptor, kind)) = acceptors.iter_mut().find(|(_, kind)| kind == token) {
                while let Some(socket) = acceptor.accept()? {
                    poller.watch(&socket, connections.len() as u64)?;
                    connections.push(Some(Connection::new(socket, *kind == ECHO)));
                }
                continue;
            }
            let place = &mut connections[*token as usize];
            let Some(connection) = place else { continue };
            if connection.turn(&mut probe, &mut buffer).is_err() {
                *place = None;
            }
        }
    }
}

struct Connection {
    socket: Socket,
    echoes: bool,
    partial: Vec<u8>,
    out: Vec<u8>,
    written: usize,
    /// The topic last used and the handle of its first queue.
    topic: (Vec<u8>, usize),
}

impl Connection {
    fn new(socket: Socket, echoes: bool) -> Connection {
        Connection { socket, echoes, partial: Vec::new(), out: Vec::new(), written: 0, topic: (Vec::new(), usize::MAX) }
    }

    /// Takes what has come and answers it. An error ends the connection.
    fn turn(&mut self, probe: &mut Probe, buffer: &mut [u8]) -> Result<()> {
        self.flush()?;
        while let Some(read) = self.socket.read(buffer)? {
            anyhow::ensure!(read > 0, "the peer has ended");
            if self.echoes {
                self.out.extend_from_slice(&buffer[..read]);
            } else if self.partial.is_empty() {
                let used = self.requests(probe, &buffer[..read])?;
                self.partial.extend_from_slice(&buffer[used..read]);
            } else {
                let mut partial = std::mem::take(&mut self.partial);
                partial.extend_from_slice(&buffer[..read]);
                let used = self.requests(probe, &partial)?;
                partial.drain(..used);
                self.partial = partial;
            }
            self.flush()?;
            if read < buffer.len() {
                break;
            }
        }
        Ok(())
    }

    fn requests(&mut self, probe: &mut Probe, bytes: &[u8]) -> Result<usize> {
        let mut used = 0;
        let now = probe.clock.now();
        while let Some(frame) = frame::next(&bytes[used..])? {
            used += frame.len;
            let head = Head::scan(frame.header);
            if self.topic.0 != head.topic {
                self.topic = (head.topic.to_vec(), probe.log.topic(head.topic));
            }
            probe.answer(self.topic.1, &head, &frame, now, &mut self.out);
        }
        Ok(used)
    }

    fn flush(&mut self) -> Result<()> {
        while self.written < self.out.len() {
            match self.socket.write(&self.out[self.written..])? {
                Some(bytes) => self.written += bytes,
                None => return Ok(()),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }
}

struct Probe {
    log: Log,
    clock: Arc<dyn Clock>,
    scratch: Vec<u8>,
    ids: Vec<u8>,
}

impl Probe {
    fn answer(&mut self, topic: usize, head: &Head<'_>, frame: &RawFrame<'_>, now: Millis, out: &mut Vec<u8>) {
        match head.code as i32 {
            request::SEND_MESSAGE_V2 => {
                self.scratch.clear();
                unescape(head.properties, &mut self.scratch);
                let message = Message {
                    topic: head.topic,
                    queue: head.queue,
                    born: head.born,
                    body: frame.body,
                    properties: &self.scratch,
                    stored: now,
                };
                let (at, number) = self.log.append(topic, &message);
                self.ids.clear();
                push_id(&mut self.ids, at);
                write_stored(out, head, &self.ids, number, unique_key(&self.scratch));
            }
            request::SEND_BATCH_MESSAGE => {
                self.ids.clear();
                let mut first = None;
                for (body, properties) in (Items { rest: frame.body }) {
                    let message = Message {
                        topic: head.topic,
                        queue: head.queue,
                        born: head.born,
                        body,
                        properties,
                        stored: now,
                    };
                    let (at, number) = self.log.append(topic, &message);
                    if first.is_some() {
                        self.ids.push(b',');
                    }
                    first.get_or_insert(number);
                    push_id(&mut self.ids, at);
                }
                write_stored(out, head, &self.ids, first.unwrap_or_default(), b"");
            }
            request::PULL_MESSAGE => self.pull(topic, head, out),
            _ => write_frame(out, head.opaque, 3, |_| {}, |_| {}),
        }
    }

    fn pull(&mut self, topic: usize, head: &Head<'_>, out: &mut Vec<u8>) {
        let queue = topic + head.queue.clamp(0, 15) as usize;
        let (from, max) = (head.offset.max(0) as u64, self.log.len(queue));
        let next = max.min(from + head.wanted.clamp(1, 32) as u64);
        let code = if next > from { 0 } else { 19 };
        let fields = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"\"suggestWhichBrokerId\":\"0\",\"nextBeginOffset\":\"");
            push_decimal(out, next);
            out.extend_from_slice(b"\",\"minOffset\":\"0\",\"maxOffset\":\"");
            push_decimal(out, max);
            out.push(b'"');
        };
        write_frame(out, head.opaque, code, fields, |out| {
            self.log.read(queue, from, (next.saturating_sub(from)) as usize, out);
        });
    }
}

/// Bodies and properties of a batch body.
struct Items<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Items<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (_, rest) = self.rest.split_at_checked(16)?;
        let (len, rest) = rest.split_first_chunk()?;
        let (body, rest) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        let (len, rest) = rest.split_first_chunk()?;
        let (properties, rest) = rest.split_at_checked(u16::from_be_bytes(*len) as usize)?;
        self.rest = rest;
        Some((body, properties))
    }
}

/// The first property, which is the key in what the bench sends.
fn unique_key(properties: &[u8]) -> &[u8] {
    let key = properties.strip_prefix(b"UNIQ_KEY\x01").unwrap_or_default();
    &key[..key.iter().position(|byte| *byte == 2).unwrap_or(0)]
}

fn write_stored(out: &mut Vec<u8>, head: &Head<'_>, ids: &[u8], number: u64, key: &[u8]) {
    let fields = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"\"msgId\":\"");
        out.extend_from_slice(ids);
        out.extend_from_slice(b"\",\"queueId\":\"");
        push_decimal(out, head.queue as u64);
        out.extend_from_slice(b"\",\"queueOffset\":\"");
        push_decimal(out, number);
        out.extend_from_slice(b"\",\"transactionId\":\"");
        out.extend_from_slice(key);
        out.extend_from_slice(b"\",\"MSG_REGION\":\"DefaultRegion\",\"TRACE_ON\":\"true\"");
    };
    write_frame(out, head.opaque, 0, fields, |_| {});
}

fn write_frame(
    out: &mut Vec<u8>,
    opaque: i64,
    code: u64,
    fields: impl FnOnce(&mut Vec<u8>),
    body: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(b"{\"code\":");
    push_decimal(out, code);
    out.extend_from_slice(b",\"extFields\":{");
    fields(out);
    out.extend_from_slice(b"},\"flag\":1,\"language\":\"JAVA\",\"opaque\":");
    push_decimal(out, opaque as u64);
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}");
    let header = (out.len() - start - 8) as u32;
    body(out);
    let total = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&total.to_be_bytes());
    out[start + 4..start + 8].copy_from_slice(&header.to_be_bytes());
}

/// Address and position in hexadecimal.
fn push_id(out: &mut Vec<u8>, at: u64) {
    const HEX: [u8; 16] = *b"0123456789ABCDEF";
    out.extend_from_slice(b"7F00000100002A9F");
    for shift in (0..16).rev() {
        out.push(HEX[(at >> (shift * 4)) as usize & 15]);
    }
}

fn push_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::frames::{body_of, Answer, Numbers, Template};

    #[test]
    fn what_was_sent_is_pulled() {
        let directory = tempfile::tempdir().unwrap();
        let env = real::env();
        let log = Log::create(&*env.disk, &directory.path().join("log"), 1 << 16).unwrap();
        let mut probe = Probe { log, clock: env.clock, scratch: Vec::new(), ids: Vec::new() };
        let mut ask = |template: &Template, numbers| {
            let (mut request, mut out) = (Vec::new(), Vec::new());
            template.write(&mut request, numbers);
            let frame = frame::next(&request).unwrap().unwrap();
            let head = Head::scan(frame.header);
            let topic = probe.log.topic(head.topic);
            probe.answer(topic, &head, &frame, Millis(5), &mut out);
            out
        };
        let numbers = Numbers { slot: 9, queue: 1, ..Numbers::default() };
        let batch = ask(&Template::send("T", "b", 20, 2), numbers);
        let single = ask(&Template::send("T", "b", 100, 1), numbers);
        let pulled = ask(&Template::pull("T", "b", "g", 32, false), Numbers { offset: 1, ..numbers });
        let empty = ask(&Template::pull("T", "b", "g", 32, false), Numbers { offset: 3, ..numbers });
        let parsed = [&batch, &single, &pulled, &empty].map(|out| {
            let frame = frame::next(out).unwrap().unwrap();
            assert_eq!(frame.len, out.len());
            Answer::parse(frame.header, frame.body).unwrap()
        });
        assert_eq!(parsed.map(|answer| (answer.code, answer.slot)), [(0, 9), (0, 9), (0, 9), (19, 9)]);
        assert_eq!(parsed[1].field("queueOffset"), Some(2));
        let sizes: Vec<_> = parsed[2].records().map(|record| body_of(record).unwrap().len()).collect();
        assert_eq!((sizes, parsed[2].field("nextBeginOffset")), (vec![20, 100], Some(3)));
    }
}
