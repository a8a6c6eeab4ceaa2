//! Faults of single frames: a rule picks requests or their answers by request code and drops, delays, doubles or
//! damages them.
//!
//! The bytes of a way are cut at frame boundaries all the time, so that a rule may begin in the middle of a frame;
//! frames are held together only while rules exist.

use std::collections::BTreeMap;
use std::time::Duration;

use metaq::proto::remoting::{frame, Head};

use crate::random::Stream;
use crate::world::NodeId;

/// Requests whose answers have not passed yet, of one connection; older ones are forgotten.
const ASKED_MAX: usize = 1024;
/// Bytes of the length field.
const LENGTH: usize = 4;

/// What befalls a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// It never comes; the connection stays.
    Drop,
    /// It comes later, and later ones overtake it.
    Delay(Duration),
    /// It comes, and once more after this time.
    Duplicate(Duration),
    /// One bit of its first eight bytes is wrong: length, serialization, header length.
    Damage,
}

/// Which frames of the chosen codes a rule means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// Those that ask.
    Requests,
    /// Those that answer.
    Responses,
}

/// Picks frames and says what befalls them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRule {
    /// Only frames from this node.
    pub from: Option<NodeId>,
    /// Only frames to this node.
    pub to: Option<NodeId>,
    /// Requests or answers.
    pub frames: Frames,
    /// Only requests of these codes, or answers to them; all if empty.
    pub codes: Vec<i32>,
    /// What befalls them.
    pub fault: FrameFault,
    /// Of 1,000 such frames, how many.
    pub per_mille: u64,
    /// How many frames in all.
    pub left: u32,
    /// The kind of fault it belongs to; that is marked when a frame is hit.
    pub kind: &'static str,
}

/// What was cut off a byte stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Bytes of a frame that is let through as it comes.
    Through(Vec<u8>),
    /// A whole frame.
    Frame(Vec<u8>),
}

/// Cuts the bytes of one way.
#[derive(Default)]
pub(super) struct Cutter {
    /// Of a frame that is let through: its length field so far, and how many of its bytes are still to come.
    length: Vec<u8>,
    left: u64,
    /// Bytes of a frame that is held together.
    kept: Vec<u8>,
    /// Request codes by number, of requests that went this way.
    pub(super) asked: BTreeMap<i32, i32>,
}

impl Cutter {
    /// Cuts what was written. `hold` says whether frames that begin now are held together.
    pub(super) fn cut(&mut self, mut bytes: &[u8], hold: bool) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let at_boundary = self.left == 0 && self.length.is_empty();
            if !self.kept.is_empty() || (hold && at_boundary) {
                let wanted = match self.kept.first_chunk::<LENGTH>() {
                    Some(length) => LENGTH + u32::from_be_bytes(*length) as usize,
                    None => LENGTH,
                };
                let (now, rest) = bytes.split_at(bytes.len().min(wanted.saturating_sub(self.kept.len())));
                self.kept.extend_from_slice(now);
                bytes = rest;
                if self.is_whole() {
                    pieces.push(Piece::Frame(std::mem::take(&mut self.kept)));
                }
            } else {
                let len = self.pass(bytes);
                pieces.push(Piece::Through(bytes[..len].to_vec()));
                bytes = &bytes[len..];
            }
        }
        pieces
    }

    /// Goes over bytes that are let through as they come; false if the beginning of their frame is held.
    pub(super) fn passes(&mut self, mut bytes: &[u8]) -> bool {
        while self.kept.is_empty() && !bytes.is_empty() {
            bytes = &bytes[self.pass(bytes)..];
        }
        self.kept.is_empty()
    }

    /// What is held of a frame whose end never came.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.kept)
    }

    fn is_whole(&self) -> bool {
        self.kept.first_chunk::<LENGTH>().is_some_and(|length| {
            let length = u32::from_be_bytes(*length) as usize;
            // Nobody sends such frames; waiting for their end would hold the stream for ever.
            length > frame::MAX_FRAME_LEN || self.kept.len() >= LENGTH + length
        })
    }

    /// Goes over bytes that are let through, up to the end of a length field or of a frame.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        if self.left > 0 {
            let len = self.left.min(bytes.len() as u64);
            self.left -= len;
            return len as usize;
        }
        let len = bytes.len().min(LENGTH - self.length.len());
        self.length.extend_from_slice(&bytes[..len]);
        if let Some(length) = self.length.first_chunk::<LENGTH>() {
            self.left = u64::from(u32::from_be_bytes(*length));
            self.length.clear();
        }
        len
    }

    fn remember(&mut self, opaque: i32, code: i32) {
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_first();
        }
        self.asked.insert(opaque, code);
    }
}

/// The rules in force.
pub(super) struct Rules {
    list: Vec<FrameRule>,
    random: Stream,
}

impl Rules {
    pub(super) fn new(random: Stream) -> Rules {
        Rules { list: Vec::new(), random }
    }

    pub(super) fn add(&mut self, rule: FrameRule) {
        self.list.push(rule);
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// Takes back the rules that are like this one, whatever is left of them.
    pub(super) fn remove(&mut self, rule: &FrameRule) {
        self.list.retain(|other| FrameRule { left: rule.left, ..other.clone() } != *rule);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What befalls a frame from one node to another, and the request code it was picked by. `there` is its own way,
    /// `back` the way of the requests that it may answer.
    pub(super) fn judge(
        &mut self,
        (from, to): (NodeId, NodeId),
        bytes: &[u8],
        there: &mut Cutter,
        back: &mut Cutter,
    ) -> Option<(FrameFault, i32, &'static str)> {
        let frame = frame::next(bytes).ok()??;
        let head = Head::parse(frame.serialization, frame.header).ok()?;
        let (frames, code) = if head.is_response() {
            (Frames::Responses, back.asked.remove(&head.opaque)?)
        } else {
            there.remember(head.opaque, head.code);
            (Frames::Requests, head.code)
        };
        let random = &mut self.random;
        let rule = self.list.iter_mut().find(|rule| {
            rule.left > 0
                && rule.frames == frames
                && rule.from.is_none_or(|node| node == from)
                && rule.to.is_none_or(|node| node == to)
                && (rule.codes.is_empty() || rule.codes.contains(&code))
                && random.chance(rule.per_mille)
        })?;
        rule.left -= 1;
        Some((rule.fault, code, rule.kind))
    }

    /// Changes one bit of a frame's first eight bytes.
    pub(super) fn damage(&mut self, frame: &mut [u8]) {
        let bits = frame.len().min(8) as u64 * 8;
        let bit = self.random.below(bits) as usize;
        if let Some(byte) = frame.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32).to_be_bytes()[..], body].concat()
    }

    fn all(pieces: &[Piece]) -> Vec<u8> {
        let bytes = |piece: &Piece| match piece {
            Piece::Through(bytes) | Piece::Frame(bytes) => bytes.clone(),
        };
        pieces.iter().flat_map(bytes).collect()
    }

    #[test]
    fn frames_are_held_together_from_the_next_boundary_on() {
        let stream = [frame(b"first"), frame(b"second"), frame(b""), frame(b"last")].concat();
        for step in 1..stream.len() {
            for begin in 0..stream.len() {
                let mut cutter = Cutter::default();
                let mut pieces = cutter.cut(&stream[..begin], false);
                for chunk in stream[begin..].chunks(step) {
                    pieces.extend(cutter.cut(chunk, true));
                }
                assert_eq!(all(&pieces), stream, "nothing is lost or turned round");
                assert!(cutter.rest().is_empty());
                let frames = pieces.iter().filter(|piece| matches!(piece, Piece::Frame(_))).count();
                let ends = [0, 9, 19, 23];
                assert_eq!(frames, ends.iter().filter(|end| **end >= begin).count(), "from byte {begin}");
            }
        }
    }

    #[test]
    fn bytes_that_pass_at_once_end_where_frames_end() {
        let stream = [frame(b"first"), frame(b""), frame(b"last")].concat();
        for end in 0..stream.len() {
            let mut cutter = Cutter::default();
            assert!(cutter.passes(&stream[..end]));
            let frames = cutter.cut(&stream[end..], true).into_iter().filter(|piece| matches!(piece, Piece::Frame(_)));
            assert_eq!(frames.count(), [0, 9, 13].iter().filter(|begin| **begin >= end).count(), "from byte {end}");
        }
        let mut cutter = Cutter::default();
        assert_eq!(cutter.cut(&stream[..6], true), []);
        assert!(!cutter.passes(&stream[6..]), "the rest of a frame that is held");
    }

    #[test]
    fn what_is_no_frame_is_let_through() {
        let mut cutter = Cutter::default();
        assert_eq!(cutter.cut(&[0xff; 100], true).len(), 25, "a length beyond every limit is not waited for");
        assert_eq!(cutter.cut(b"ab", true), []);
        assert_eq!(cutter.rest().len(), 2);
    }
}
