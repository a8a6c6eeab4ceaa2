//! What sessions hand to the log writer.

use std::sync::Arc;

use super::consume_queue::ConsumeQueue;
use super::deduplication::UniqueSend;
use super::error::StoreError;
use super::index::KeyHashes;
use crate::env::Millis;
use crate::proto::{PhysicalOffset, QueueOffset};

/// Encoded records back to back and what the writer has to know of each. Reusable: `clear` keeps the memory.
#[derive(Default)]
pub struct AppendBatch {
    /// Records of `encode_record`, one behind the other.
    pub bytes: Vec<u8>,
    /// One for each record, in order of `start`.
    pub items: Vec<AppendItem>,
    /// It makes room: what it copies can be deleted then. So a disk that is nearly full takes it.
    pub makes_room: bool,
}

/// One record of an [`AppendBatch`].
#[derive(Clone)]
pub struct AppendItem {
    /// Where it begins in the batch's bytes.
    pub start: usize,
    /// Bytes of it.
    pub len: usize,
    /// Where it is to be found by consumers.
    pub queue: Arc<ConsumeQueue>,
    /// What its entry says about it.
    pub tags_code: TagsCode,
    /// Neighbours with the same id are one unit.
    pub group: GroupId,
    /// What it is known by if it is sent again; without it every send is stored.
    pub unique: Option<UniqueSend>,
    /// What the index will hold of it, by [`key_hashes`](super::key_hashes); without it that is read from the log.
    pub keys: Option<KeyHashes>,
}

/// Neighbouring items of one id are stored together: all or none, in one segment, with offsets in a row. Used for the
/// messages of a client batch; single messages have ids of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupId(pub u32);

/// The third field of a consume-queue entry, as far as it is known before the message is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagsCode {
    /// The hash of the tag, 0 without one.
    Fixed(i64),
    /// The time of delivery: this many milliseconds after the message is stored. For entries of the delay topic.
    DeliverAfter(i64),
}

impl TagsCode {
    /// The value for a message stored at `stored`.
    pub fn at(self, stored: Millis) -> i64 {
        match self {
            TagsCode::Fixed(code) => code,
            TagsCode::DeliverAfter(millis) => stored.plus(millis).0,
        }
    }
}

/// Where a message went. It is readable at once under ASYNC_FLUSH and after the next sync under SYNC_FLUSH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Where its record begins in the log; part of its id.
    pub physical: PhysicalOffset,
    /// Where the record ends: it survives a power cut once the log is flushed up to here.
    pub end: PhysicalOffset,
    /// Its number in its queue.
    pub queue_offset: QueueOffset,
    /// When it was stored.
    pub store_time: Millis,
    /// It was stored by an earlier send, whose answer named this queue; nothing is stored now.
    pub repeated_in: Option<u32>,
}

/// What became of one item.
pub type AppendResult = Result<Stored, StoreError>;

impl AppendBatch {
    /// Adds the record that was just encoded to the end of `bytes`, beginning at `start`, as a unit of its own.
    pub fn push(&mut self, start: usize, queue: Arc<ConsumeQueue>, tags_code: TagsCode) -> &mut AppendItem {
        let group = self.next_group();
        self.push_to_group(start, queue, tags_code, group)
    }

    /// Adds the record that was just encoded to the end of `bytes`, beginning at `start`, to a unit that
    /// [`AppendBatch::next_group`] named. Only the newest unit can grow.
    pub fn push_to_group(
        &mut self,
        start: usize,
        queue: Arc<ConsumeQueue>,
        tags_code: TagsCode,
        group: GroupId,
    ) -> &mut AppendItem {
        let len = self.bytes.len().saturating_sub(start);
        let at = self.items.len();
        self.items.push(AppendItem { start, len, queue, tags_code, group, unique: None, keys: None });
        &mut self.items[at]
    }

    /// An id for the messages of a client batch that are added next.
    pub fn next_group(&self) -> GroupId {
        GroupId(self.items.last().map_or(0, |item| item.group.0.wrapping_add(1)))
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
        self.makes_room = false;
    }
}
