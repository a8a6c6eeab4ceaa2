//! Bodies that tell whether they arrived whole.

use metaq::proto::message::record::RecordView;

use crate::history::Message;

/// A body of `len` bytes, at least 8, for a message: its number, then bytes that follow from it.
pub fn body_of(message: Message, len: usize) -> Vec<u8> {
    let mut body = message.to_be_bytes().to_vec();
    body.resize(len.max(8), message as u8);
    body
}

/// The message whose body a record holds.
///
/// # Errors
/// Words for what is wrong with the body.
pub fn message_of(record: &RecordView<'_>) -> Result<Message, String> {
    let body = record.body();
    let message = body.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)).ok_or("a body without number")?;
    let intact = body[8..].iter().all(|byte| *byte == message as u8);
    intact.then_some(message).ok_or_else(|| format!("the body of {message} is damaged"))
}
