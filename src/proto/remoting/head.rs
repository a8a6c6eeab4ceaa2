//! The header of a frame, read.

use super::ext::ExtFields;
use super::frame::Serialization;
use super::language::Language;
use super::text::Text;
use super::{binary, json};

/// Bit of `flag`: this is a response.
pub const FLAG_RESPONSE: i32 = 1;
/// Bit of `flag`: nobody waits for an answer. The Go client never sets it; the C++ client sets it on answers.
pub const FLAG_ONEWAY: i32 = 2;

/// A request's or response's header. Its texts are slices of the header's bytes.
#[derive(Clone, Debug, Default)]
pub struct Head<'a> {
    /// A request code or, in a response, a response code; 0 if absent.
    pub code: i32,
    /// What the sender is written in.
    pub language: Language,
    /// The sender's release, see [`version`](super::version); 0 if absent.
    pub version: i32,
    /// The number by which the requester knows the answer. Each end of a connection numbers its own requests.
    pub opaque: i32,
    /// [`FLAG_RESPONSE`] and [`FLAG_ONEWAY`].
    pub flag: i32,
    /// What an error says; Go and C++ clients send it empty.
    pub remark: Option<Text<'a>>,
    /// The named values.
    pub ext: ExtFields<'a>,
}

impl<'a> Head<'a> {
    /// Reads a header in one pass. Nothing is copied, and nothing allocated unless there are more fields than clients
    /// send.
    pub fn parse(serialization: Serialization, header: &'a [u8]) -> Result<Self, HeadError> {
        let mut head = Self::default();
        head.read(serialization, header)?;
        Ok(head)
    }

    /// Reads a header in the place of the last one. A head has room for many fields, so where one read brought many
    /// frames, it is quicker to use one for all of them. After an error its content means nothing.
    pub fn read(&mut self, serialization: Serialization, header: &'a [u8]) -> Result<(), HeadError> {
        self.clear();
        match serialization {
            Serialization::Json => json::read(header, self),
            Serialization::RocketMq => binary::read(header, self),
        }
    }

    fn clear(&mut self) {
        let Self { code, language, version, opaque, flag, remark, ext } = self;
        (*code, *language, *version, *opaque, *flag, *remark) = (0, Language::Java, 0, 0, 0, None);
        ext.clear();
    }

    /// Whether this answers a request.
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether this must not be answered.
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }
}

/// A header that cannot be read. There is no `opaque` to answer to: the connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Bytes that are no text where text belongs.
    #[error("the header is not UTF-8")]
    NotUtf8,
    /// A JSON header that is not JSON.
    #[error("the JSON header is broken at byte {at}: expected {expected}")]
    NotJson {
        /// Where in the header.
        at: usize,
        /// What would have gone on.
        expected: &'static str,
    },
    /// A JSON header with too many objects and arrays in each other.
    #[error("the JSON header is nested deeper than {max} levels", max = json::MAX_DEPTH)]
    TooDeep,
    /// A member the protocol needs as a number is none.
    #[error("the header's `{0}` is not a 32-bit integer")]
    NotANumber(&'static str),
    /// A binary header that ends too early, or a length in it that is negative or too large.
    #[error("the binary header ends inside {0}")]
    Truncated(&'static str),
    /// More ext fields than [`MAX_EXT_FIELDS`](super::MAX_EXT_FIELDS).
    #[error("the header has more than {max} ext fields", max = super::MAX_EXT_FIELDS)]
    TooManyFields,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_read_again_keeps_nothing() {
        let first = br#"{"code":1,"language":"GO","version":2,"opaque":3,"flag":1,"remark":"r","extFields":{"a":"b"}}"#;
        let binary = [0; 21];
        for (serialization, header) in [(Serialization::Json, &b"{}"[..]), (Serialization::RocketMq, &binary)] {
            let mut head = Head::parse(Serialization::Json, first).unwrap();
            assert_eq!(head.ext.str("a").as_deref(), Some("b"));
            head.read(serialization, header).unwrap();
            assert_eq!((head.code, head.version, head.opaque, head.flag), (0, 0, 0, 0));
            assert_eq!((head.language, head.remark), (Language::Java, None));
            assert!(head.ext.is_empty());
        }
    }
}
