//! What a recorded message carries, so that everybody who gets it knows which one it is, and whether it is whole.

use super::history::Message;

/// The property that holds it. Its name is none of RocketMQ's, so every broker keeps it and every client shows it.
pub const PROPERTY: &str = "metaqAudit";

/// A message of nobody who records: only its place tells it from others.
pub const FOREIGN: Message = 0;

/// The mark of a message: who sent it, its number there, and the CRC-32 of its body.
///
/// ```text
/// recorder 8 | number 8 | CRC-32 8        hexadecimal digits
/// ```
/// The unique key would tell messages apart too, but it says neither whose history has to know it nor what the body was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which message: its recorder above its number, as [`number`] has it.
    pub message: Message,
    /// Of the body as its sender gave it.
    pub checksum: u32,
}

/// The number of the `count`-th message of a recorder.
pub fn number(recorder: u32, count: u32) -> Message {
    u64::from(recorder) << 32 | u64::from(count)
}

/// The recorder of a message and its count there.
pub fn parts(message: Message) -> (u32, u32) {
    ((message >> 32) as u32, message as u32)
}

impl Mark {
    /// The mark of a message.
    pub fn new(message: Message, body: &[u8]) -> Mark {
        Mark { message, checksum: crc32fast::hash(body) }
    }

    /// As the property's value.
    pub fn encode(&self) -> String {
        format!("{:016x}{:08x}", self.message, self.checksum)
    }

    /// Reads a property's value; `None` if it is none of ours.
    pub fn decode(value: &str) -> Option<Mark> {
        // A sign would pass as a digit.
        if value.len() != 24 || !value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let (message, checksum) = value.split_at_checked(16)?;
        let message = u64::from_str_radix(message, 16).ok()?;
        Some(Mark { message, checksum: u32::from_str_radix(checksum, 16).ok()? })
    }

    /// Whether this is the body that was sent.
    pub fn fits(&self, body: &[u8]) -> bool {
        crc32fast::hash(body) == self.checksum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mark_says_which_message_it_is_and_whether_it_is_whole() {
        let mark = Mark::new(number(0xabcd, 17), b"a book");
        assert_eq!(Mark::decode(&mark.encode()), Some(mark));
        assert_eq!(parts(mark.message), (0xabcd, 17));
        assert!(mark.fits(b"a book") && !mark.fits(b"a nook"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_mark_or_none(text: String) {
            if let Some(mark) = Mark::decode(&text) {
                prop_assert_eq!(mark.encode(), text.to_ascii_lowercase());
            }
        }
    }
}
