//! What happened, as a rolling hash and, on replay, as readable lines.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use madsim::time::TimeHandle;
use smallvec::SmallVec;

use crate::world::NodeId;

/// FNV-1a, 64 bits: fast, and the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv(pub u64);

impl Fnv {
    /// The hash of nothing.
    pub const EMPTY: Fnv = Fnv(0xcbf2_9ce4_8422_2325);

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_be_bytes());
    }
}

/// A rolling hash that takes eight bytes at a step: a run notes a hundred thousand events a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rolling(u64);

impl Rolling {
    fn number(&mut self, number: u64) {
        // Odd constants; the upper half of the product brings every bit down again.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_add(0x2545_f491_4f6c_dd1d);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        for chunk in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.number(u64::from_be_bytes(word));
        }
    }
}

/// The numbers of an event; few have more than four.
pub type Numbers = SmallVec<[u64; 4]>;

/// One event as it was noted.
#[derive(Clone, Debug)]
pub struct Noted {
    /// When.
    pub at: Duration,
    /// On which machine.
    pub node: NodeId,
    /// What happened.
    pub what: &'static str,
    /// With which numbers.
    pub numbers: Numbers,
    /// With which words.
    pub words: Box<str>,
}

impl Noted {
    /// As a line: time in seconds, machine, event, numbers, words.
    pub fn line(&self, names: &[String]) -> String {
        let name = names.get(self.node.0 as usize).map_or("?", String::as_str);
        line(self.at, name, self.what, &self.numbers, &self.words)
    }
}

/// Everything a run noted.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Names of the machines; the world comes first.
    pub names: Vec<String>,
    /// The events in their order.
    pub events: Vec<Noted>,
}

/// Events kept of a run at most; it goes on being hashed.
const KEPT_MAX: usize = 2_000_000;

struct Inner {
    hash: Rolling,
    recording: Recording,
    /// All events, kept or not.
    events: u64,
}

/// The trace of one run. Two runs of one seed have the same hash.
pub struct Trace {
    time: TimeHandle,
    print: bool,
    inner: Mutex<Inner>,
}

impl Trace {
    /// A trace without events; `print` writes each event to standard output as a line.
    pub fn new(print: bool) -> Trace {
        let recording = Recording { names: vec!["world".to_owned()], events: Vec::new() };
        let inner = Inner { hash: Rolling(0), events: 0, recording };
        Trace { time: TimeHandle::current(), print, inner: Mutex::new(inner) }
    }

    /// Gives the next node its name in readable lines.
    pub fn name_node(&self, name: &str) {
        self.inner.lock().expect("trace").recording.names.push(name.to_owned());
    }

    /// Notes an event: what happened, on which node, with which numbers and words.
    pub fn note(&self, node: NodeId, what: &'static str, numbers: &[u64], words: &str) {
        let now = self.time.elapsed();
        let mut inner = self.inner.lock().expect("trace");
        inner.events += 1;
        inner.hash.number(now.as_nanos() as u64);
        inner.hash.number(u64::from(node.0));
        inner.hash.text(what);
        for number in numbers {
            inner.hash.number(*number);
        }
        inner.hash.text(words);
        let noted = Noted { at: now, node, what, numbers: numbers.into(), words: words.into() };
        if self.print {
            // Who reads has seen enough when the pipe is closed.
            if writeln!(std::io::stdout(), "{}", noted.line(&inner.recording.names)).is_err() {
                std::process::exit(0);
            }
        }
        if inner.recording.events.len() < KEPT_MAX {
            inner.recording.events.push(noted);
        }
    }

    /// Simulated time since the start.
    pub fn now(&self) -> Duration {
        self.time.elapsed()
    }

    /// Everything so far. It is handed over: the trace begins a new recording, without names.
    pub fn take_recording(&self) -> Recording {
        std::mem::take(&mut self.inner.lock().expect("trace").recording)
    }

    /// Hash and number of the events so far.
    pub fn digest(&self) -> (u64, u64) {
        let inner = self.inner.lock().expect("trace");
        (inner.hash.0, inner.events)
    }
}

fn line(now: Duration, node: &str, what: &str, numbers: &[u64], words: &str) -> String {
    let mut line = format!("{:>14.6} {node:<12} {what:<16}", now.as_secs_f64());
    for number in numbers {
        let _ = write!(line, " {number}");
    }
    if !words.is_empty() {
        let _ = write!(line, " {words}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_and_every_byte_counts() {
        let hash = |numbers: &[u64], text: &str| {
            let mut hash = Rolling(0);
            numbers.iter().for_each(|number| hash.number(*number));
            hash.text(text);
            hash.0
        };
        let mut seen: Vec<u64> = (0..64).map(|bit| hash(&[1 << bit, 7], "")).collect();
        seen.extend([hash(&[], ""), hash(&[0], ""), hash(&[0, 0], ""), hash(&[1, 2], ""), hash(&[2, 1], "")]);
        seen.extend((1..40).map(|len| hash(&[], &"a".repeat(len))));
        seen.extend([hash(&[], "a\0"), hash(&[], "b"), hash(&[], "ab"), hash(&[], "ba")]);
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }
}
