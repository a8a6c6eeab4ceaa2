//! The body of a client's batch: messages of one topic back to back.
//!
//! ```text
//! totalSize i32 | magic i32 0 | bodyCRC i32 0 | flag i32 | bodyLength i32 | body | propertiesLength i16 | properties
//! ```
//!
//! Each item becomes a record of its own; queue, time and sysFlag come from the request's header.

use super::properties::{self, Edit};
use super::record::PROPERTIES_MAX;
use super::view::i32_at;
use crate::proto::remoting::response;

/// Bytes of an item apart from body and properties.
pub const ITEM_OVERHEAD: usize = 22;

/// One message of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The application's own flag.
    pub flag: i32,
    /// The body.
    pub body: &'a [u8],
    /// The item's own properties.
    pub properties: &'a str,
}

/// Why a batch cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// An item ends behind the batch, or its lengths do not add up.
    #[error("the batch's item at byte {at} has lengths that do not fit")]
    Malformed {
        /// Where the item begins.
        at: usize,
    },
    /// The properties' length is negative: more than 32,767 bytes were written.
    #[error("the batch's item at byte {at} has more than 32767 bytes of properties")]
    PropertiesTooLong {
        /// Where the item begins.
        at: usize,
    },
    /// Properties are text.
    #[error("the properties of the batch's item at byte {at} are not UTF-8")]
    PropertiesNotText {
        /// Where the item begins.
        at: usize,
    },
    /// No item at all.
    #[error("the batch is empty")]
    Empty,
}

impl BatchError {
    /// RocketMQ's response code: MESSAGE_ILLEGAL if a message is, SYSTEM_ERROR if the batch makes no sense.
    pub fn code(&self) -> i32 {
        match self {
            BatchError::PropertiesTooLong { .. } | BatchError::PropertiesNotText { .. } => response::MESSAGE_ILLEGAL,
            BatchError::Malformed { .. } | BatchError::Empty => response::SYSTEM_ERROR,
        }
    }
}

/// The items of a batch in order; after an error there are no more.
pub fn items(batch: &[u8]) -> Items<'_> {
    Items { batch, at: 0 }
}

/// Checks a whole batch and counts its items, at least one.
pub fn count(batch: &[u8]) -> Result<usize, BatchError> {
    let count = items(batch).try_fold(0, |count, item| item.map(|_| count + 1))?;
    if count == 0 {
        return Err(BatchError::Empty);
    }
    Ok(count)
}

/// See [`items`].
#[derive(Clone, Debug)]
pub struct Items<'a> {
    batch: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.batch.len() {
            return None;
        }
        let at = std::mem::replace(&mut self.at, self.batch.len());
        Some(item(self.batch, at).map(|(item, size)| {
            self.at = at + size;
            item
        }))
    }
}

/// The item at byte `at`, and its size.
fn item(batch: &[u8], at: usize) -> Result<(Item<'_>, usize), BatchError> {
    let malformed = BatchError::Malformed { at };
    let rest = &batch[at..];
    if rest.len() < ITEM_OVERHEAD {
        return Err(malformed);
    }
    let total = usize::try_from(i32_at(rest, 0)).map_err(|_| malformed)?;
    let body_length = usize::try_from(i32_at(rest, 16)).map_err(|_| malformed)?;
    let body = rest.get(20..).and_then(|rest| rest.get(..body_length)).ok_or(malformed)?;
    let rest_length = rest.get(20 + body_length..20 + body_length + 2).ok_or(malformed)?;
    let properties_length = i16::from_be_bytes([rest_length[0], rest_length[1]]);
    let properties_length = usize::try_from(properties_length).map_err(|_| BatchError::PropertiesTooLong { at })?;
    let size = ITEM_OVERHEAD + body_length + properties_length;
    if total != size || size > rest.len() {
        return Err(malformed);
    }
    let properties = std::str::from_utf8(&rest[size - properties_length..size]);
    let properties = properties.map_err(|_| BatchError::PropertiesNotText { at })?;
    Ok((Item { flag: i32_at(rest, 12), body, properties }, size))
}

/// Appends an item to `batch`, as clients do.
pub fn push_item(batch: &mut Vec<u8>, item: &Item<'_>) -> Result<(), BatchError> {
    let at = batch.len();
    if item.properties.len() > PROPERTIES_MAX {
        return Err(BatchError::PropertiesTooLong { at });
    }
    let size = ITEM_OVERHEAD + item.body.len() + item.properties.len();
    let size = i32::try_from(size).map_err(|_| BatchError::Malformed { at })?;
    for word in [size, 0, 0, item.flag, item.body.len() as i32] {
        batch.extend_from_slice(&word.to_be_bytes());
    }
    batch.extend_from_slice(item.body);
    batch.extend_from_slice(&(item.properties.len() as i16).to_be_bytes());
    batch.extend_from_slice(item.properties.as_bytes());
    Ok(())
}

/// The edits by which an item gets the properties of its batch's header: only names it lacks, so every item keeps its
/// own UNIQ_KEY (Apache 4.9 to 5.3.3 appends all, and the batch's id then hides the message's).
pub fn edits<'a>(batch_properties: &'a str, out: &mut Vec<Edit<'a>>) {
    for (name, value) in properties::iterate(batch_properties) {
        // Of a repeated name the last one counts.
        let is_last = properties::find(batch_properties, name).is_some_and(|last| std::ptr::eq(last, value));
        if is_last {
            out.push(Edit::SetIfAbsent(name, value));
        }
    }
}
