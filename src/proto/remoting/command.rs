//! A whole request or response, owned: for clients, tools, tests and what a broker asks of its clients.

use super::ext::{ExtFields, ToExt};
use super::ext_list::ExtList;
use super::frame::{RawFrame, Serialization, MAX_FRAME_LEN};
use super::head::{Head, HeadError, FLAG_ONEWAY, FLAG_RESPONSE};
use super::language::Language;
use super::version;
use super::writer::{close_frame, open_frame, Members, MAX_BINARY_NAME_LEN};

/// Room that ext fields get at once, and their text: enough for a send.
const FIELDS_USUAL: usize = 16;
const TEXT_USUAL: usize = 256;

/// A request or a response with everything in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// A request code or, in a response, a response code.
    pub code: i32,
    /// What the sender is written in.
    pub language: Language,
    /// The sender's release.
    pub version: i32,
    /// The number that ties an answer to its request.
    pub opaque: i32,
    /// [`FLAG_RESPONSE`] and [`FLAG_ONEWAY`].
    pub flag: i32,
    /// What an error says.
    pub remark: Option<String>,
    /// The named values, each name once.
    pub ext: ExtList,
    /// What follows the header.
    pub body: Vec<u8>,
}

impl Command {
    /// A request without fields and body, from metaq itself. The connection fills in `opaque`.
    pub fn request(code: i32) -> Self {
        Self {
            code,
            language: Language::Java,
            version: version::CURRENT,
            opaque: 0,
            flag: 0,
            remark: None,
            ext: ExtList::default(),
            body: Vec::new(),
        }
    }

    /// With the fields of `ext` added.
    pub fn with_ext(mut self, ext: &impl ToExt) -> Self {
        self.ext.reserve(FIELDS_USUAL, TEXT_USUAL);
        ext.encode(&mut self.ext);
        self
    }

    /// With one field added.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.ext.push(name, value);
        self
    }

    /// With this body.
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Marked as not to be answered.
    pub fn oneway(mut self) -> Self {
        self.flag |= FLAG_ONEWAY;
        self
    }

    /// Whether this answers a request.
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether this must not be answered.
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }

    /// The text of a field.
    pub fn ext(&self, name: &str) -> Option<&str> {
        self.ext.get(name)
    }

    /// The fields in the form that the types of [`requests`](super::requests) decode.
    pub fn ext_fields(&self) -> Result<ExtFields<'_>, HeadError> {
        ExtFields::from_pairs(self.ext.iter())
    }

    /// Copies a command out of a frame.
    pub fn decode(frame: &RawFrame<'_>) -> Result<Self, HeadError> {
        Ok(Self::of(&Head::parse(frame.serialization, frame.header)?, frame))
    }

    /// Copies a command out of a frame whose header has been read.
    pub fn of(head: &Head<'_>, frame: &RawFrame<'_>) -> Self {
        let mut ext = ExtList::default();
        ext.reserve(head.ext.as_slice().len(), frame.header.len());
        for (position, field) in head.ext.iter().enumerate() {
            let name = field.name.str();
            let repeated = head.ext.as_slice()[position + 1..].iter().any(|later| later.name.str() == name);
            if let Some(value) = field.value.filter(|_| !repeated) {
                ext.push(&name, &value.str());
            }
        }
        Self {
            code: head.code,
            language: head.language,
            version: head.version,
            opaque: head.opaque,
            flag: head.flag,
            remark: head.remark.map(|remark| remark.str().into_owned()),
            ext,
            body: frame.body.to_vec(),
        }
    }

    /// Appends the command's frame to `out`. On an error `out` is as before.
    pub fn encode(&self, serialization: Serialization, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_with(&self.body, serialization, out)
    }

    /// As [`Command::encode`], with this body instead.
    pub fn encode_with(&self, body: &[u8], serialization: Serialization, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if serialization == Serialization::RocketMq {
            if let Some((name, _)) = self.ext.iter().find(|(name, _)| name.len() > MAX_BINARY_NAME_LEN) {
                return Err(EncodeError::NameTooLong(name.len()));
            }
        }
        let start = out.len();
        let members = Members {
            code: self.code,
            language: self.language,
            version: self.version,
            opaque: self.opaque,
            flag: self.flag,
            remark: self.remark.as_deref(),
        };
        open_frame(out, serialization, members, |ext| {
            for (name, value) in self.ext.iter() {
                ext.put(name, value);
            }
        });
        out.extend_from_slice(body);
        close_frame(out, start).map_err(EncodeError::FrameTooLong)
    }
}

/// A command that has no form on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A field's name whose length does not fit the 16 bits of a binary header; cutting it would rename the field.
    #[error("an ext field's name of {0} bytes is longer than the {MAX_BINARY_NAME_LEN} bytes of a binary header")]
    NameTooLong(usize),
    /// The frame would exceed [`MAX_FRAME_LEN`].
    #[error("a frame of {0} bytes exceeds the limit of {MAX_FRAME_LEN} bytes")]
    FrameTooLong(usize),
}

#[cfg(test)]
mod tests {
    use super::super::frame;
    use super::*;

    const BOTH: [Serialization; 2] = [Serialization::Json, Serialization::RocketMq];

    #[test]
    fn commands_survive_the_wire() {
        let mut command = Command::request(105).with_body([0, 1, 2]).oneway();
        command.opaque = i32::MIN;
        command.remark = Some("a \"remark\"".into());
        command.ext = ExtList::from_iter([("topic", "Topic\u{1}Test"), ("nämé\n", "\\")]);
        for serialization in BOTH {
            let mut out = Vec::new();
            command.encode(serialization, &mut out).unwrap();
            let frame = frame::next(&out).unwrap().unwrap();
            assert_eq!(frame.serialization, serialization);
            assert_eq!(Command::decode(&frame).unwrap(), command);
        }
    }

    #[test]
    fn of_repeated_fields_the_last_is_kept() {
        let header = br#"{"code":1,"extFields":{"a":"1","b":"2","a":null,"c":"3","b":4}}"#;
        let frame = RawFrame { serialization: Serialization::Json, header, body: &[], len: 0 };
        let command = Command::decode(&frame).unwrap();
        assert_eq!(command.ext, ExtList::from_iter([("c", "3"), ("b", "4")]));
        assert_eq!(command.ext("b"), Some("4"));
        assert_eq!(command.ext("a"), None);
    }

    #[test]
    fn wir_6_a_name_too_long_for_a_binary_header_is_refused() {
        let mut command = Command::request(105);
        command.ext.push(&"k".repeat(32_767), "v");
        for serialization in BOTH {
            let mut out = Vec::new();
            command.encode(serialization, &mut out).unwrap();
            assert_eq!(Command::decode(&frame::next(&out).unwrap().unwrap()).unwrap(), command);
        }
        command.ext = ExtList::from_iter([("k".repeat(32_768), "v")]);
        let mut out = b"earlier".to_vec();
        assert_eq!(command.encode(Serialization::RocketMq, &mut out), Err(EncodeError::NameTooLong(32_768)));
        assert_eq!(out, b"earlier");
        command.encode(Serialization::Json, &mut out).unwrap();
    }

    #[test]
    fn a_command_too_long_for_a_frame_is_refused() {
        for serialization in BOTH {
            let command = Command::request(10).with_body(vec![0; MAX_FRAME_LEN]);
            let mut out = b"earlier".to_vec();
            assert!(matches!(command.encode(serialization, &mut out), Err(EncodeError::FrameTooLong(_))));
            assert_eq!(out, b"earlier");
        }
    }
}
