//! Bodies that tell whether they arrived whole.

use metaq::proto::message::properties;
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

/// Properties of about `len` bytes for a message, none for 0: one pair, whose value follows from the message's number.
pub fn properties_of(message: Message, len: usize) -> String {
    match len {
        0 => String::new(),
        len => format!("{PAD}\u{1}{}\u{2}", String::from(letter(message)).repeat(len)),
    }
}

/// Whether a record's properties are those of its message.
///
/// # Errors
/// Words for what is wrong with them.
pub fn check_properties(record: &RecordView<'_>, message: Message) -> Result<(), String> {
    let text = record.properties();
    let padding = properties::find(&text, PAD).unwrap_or_default();
    let intact = !text.contains('\0') && padding.chars().all(|found| found == letter(message));
    intact.then_some(()).ok_or_else(|| format!("the properties of {message} are damaged"))
}

const PAD: &str = "PAD";

fn letter(message: Message) -> char {
    char::from(b'a' + (message % 26) as u8)
}
