//! Reading the ROCKETMQ (binary) header.
//!
//! ```text
//! | code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark length 4 | remark |
//! | ext fields length 4 | ( key length 2 | key | value length 4 | value )* |          big-endian, lengths signed
//! ```

use super::codes::request;
use super::head::{Head, HeadError};
use super::language::Language;
use super::text::Text;

/// Reads a binary header into `head`, which is empty.
pub(super) fn read<'a>(header: &'a [u8], head: &mut Head<'a>) -> Result<(), HeadError> {
    let mut reader = Reader { rest: header };
    let code = i16::from_be_bytes(reader.array("the code")?);
    let [language] = reader.array("the language")?;
    head.language = Language::from_byte(language);
    head.version = i32::from(i16::from_be_bytes(reader.array("the version")?));
    head.opaque = i32::from_be_bytes(reader.array("the opaque")?);
    head.flag = i32::from_be_bytes(reader.array("the flag")?);
    head.code = if head.is_response() { i32::from(code) } else { request_code(code) };
    head.remark = reader.text4("the remark")?;
    let mut fields = Reader { rest: reader.piece4("the ext fields")? };
    while !fields.rest.is_empty() {
        let name = fields.text2("a field's name")?;
        let value = fields.text4("a field's value")?;
        // Java takes an empty name for null, under which nobody looks for anything.
        if let Some(name) = name {
            head.ext.push(name, value)?;
        }
    }
    Ok(())
}

/// The request code behind the 16 bits a binary header has for it: Java cuts the codes of POP off, and nothing else
/// uses what is left of them.
fn request_code(short: i16) -> i32 {
    const POP: [i32; 8] = [
        request::POP_MESSAGE,
        request::ACK_MESSAGE,
        request::PEEK_MESSAGE,
        request::CHANGE_MESSAGE_INVISIBLETIME,
        request::NOTIFICATION,
        request::POLLING_INFO,
        request::POP_ROLLBACK,
        request::BATCH_ACK_MESSAGE,
    ];
    POP.into_iter().find(|code| *code as i16 == short).unwrap_or(i32::from(short))
}

/// Takes pieces off the front of the header.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn array<const LEN: usize>(&mut self, what: &'static str) -> Result<[u8; LEN], HeadError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(HeadError::Truncated(what))?;
        self.rest = rest;
        Ok(*array)
    }

    /// A piece behind its own length of four bytes.
    fn piece4(&mut self, what: &'static str) -> Result<&'a [u8], HeadError> {
        let len = i32::from_be_bytes(self.array(what)?);
        self.piece(usize::try_from(len), what)
    }

    fn text4(&mut self, what: &'static str) -> Result<Option<Text<'a>>, HeadError> {
        text(self.piece4(what)?)
    }

    /// Text behind its own length of two bytes.
    fn text2(&mut self, what: &'static str) -> Result<Option<Text<'a>>, HeadError> {
        let len = i16::from_be_bytes(self.array(what)?);
        text(self.piece(usize::try_from(len), what)?)
    }

    fn piece<E>(&mut self, len: Result<usize, E>, what: &'static str) -> Result<&'a [u8], HeadError> {
        let split = len.ok().and_then(|len| self.rest.split_at_checked(len));
        let (piece, rest) = split.ok_or(HeadError::Truncated(what))?;
        self.rest = rest;
        Ok(piece)
    }
}

/// Text of a binary header, where no text and an empty one are the same.
fn text(bytes: &[u8]) -> Result<Option<Text<'_>>, HeadError> {
    let text = std::str::from_utf8(bytes).map_err(|_| HeadError::NotUtf8)?;
    Ok((!text.is_empty()).then_some(Text::plain(text)))
}

#[cfg(test)]
mod tests {
    use super::super::Serialization;
    use super::*;

    fn parse(header: &[u8]) -> Result<Head<'_>, HeadError> {
        Head::parse(Serialization::RocketMq, header)
    }

    const MINIMAL: [u8; 21] = [0, 105, 9, 1, 61, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    fn with_fields(fields: &[u8]) -> Vec<u8> {
        let mut header = MINIMAL[..17].to_vec();
        header.extend((fields.len() as i32).to_be_bytes());
        header.extend(fields);
        header
    }

    #[test]
    fn the_smallest_header() {
        let head = parse(&MINIMAL).unwrap();
        assert_eq!((head.code, head.language, head.version), (105, Language::Go, 317));
        assert_eq!((head.opaque, head.flag, head.remark), (7, 0, None));
        assert!(head.ext.is_empty());
        for end in 0..MINIMAL.len() {
            assert!(matches!(parse(&MINIMAL[..end]), Err(HeadError::Truncated(_))), "{end} bytes");
        }
    }

    #[test]
    fn empty_names_are_dropped_and_empty_values_null() {
        let header = with_fields(&[0, 0, 0, 0, 0, 1, b'x', 0, 1, b'a', 0, 0, 0, 0, 0, 1, b'b', 0, 0, 0, 1, b'\\']);
        let head = parse(&header).unwrap();
        assert_eq!(head.ext.as_slice().len(), 2);
        assert_eq!(head.ext.str("a"), None);
        assert_eq!(head.ext.str("b").as_deref(), Some("\\"));
    }

    #[test]
    fn wir_1_lengths_beyond_the_header_are_errors() {
        for fields in [
            &[0x7F, 0xFF, b'a'][..],
            &[0xFF, 0xFF, b'a'],
            &[0, 1, b'a', 0x7F, 0xFF, 0xFF, 0xFF],
            &[0, 1, b'a', 0xFF, 0xFF, 0xFF, 0xFF],
            &[0, 1, b'a'],
            &[0],
        ] {
            assert!(matches!(parse(&with_fields(fields)), Err(HeadError::Truncated(_))), "{fields:?}");
        }
        let mut header = with_fields(&[]);
        header[17] = 0x80;
        assert_eq!(parse(&header).unwrap_err(), HeadError::Truncated("the ext fields"));
        assert_eq!(parse(&with_fields(&[0, 1, 0xFF, 0, 0, 0, 0])).unwrap_err(), HeadError::NotUtf8);
    }

    #[test]
    fn codes_are_16_bits_wide() {
        let mut header = MINIMAL;
        header[..2].copy_from_slice(&3442i16.to_be_bytes());
        assert_eq!(parse(&header).unwrap().code, request::POP_MESSAGE);
        header[..2].copy_from_slice(&3543i16.to_be_bytes());
        assert_eq!(parse(&header).unwrap().code, request::BATCH_ACK_MESSAGE);
        // In a response the same number is what it says.
        header[12] = 1;
        assert_eq!(parse(&header).unwrap().code, 3543);
        header[..2].copy_from_slice(&[0xFC, 0x18]);
        assert_eq!(parse(&header).unwrap().code, -1000);
    }
}
