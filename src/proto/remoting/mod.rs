//! Frames, headers, request and response codes and their typed fields.
//!
//! From bytes to a request: [`frame::next`] cuts a frame off the stream, [`Head::parse`] reads its header, and a type
//! of [`requests`] picks the fields its code needs out of [`Head::ext`].

mod answer;
mod binary;
pub mod codes;
mod command;
mod ext;
mod ext_list;
pub mod frame;
pub mod fuzzing;
mod head;
mod json;
mod language;
pub mod requests;
mod text;
pub mod version;
mod writer;

pub use answer::{encode_response, Response, ResponseFrame};
pub use codes::{own_request, request, response};
pub use command::{Command, EncodeError};
pub use ext::{ExtField, ExtFields, ExtSink, FieldError, ToExt, MAX_EXT_FIELDS};
pub use ext_list::ExtList;
pub use frame::{FrameError, RawFrame, Serialization};
pub use head::{Head, HeadError, FLAG_ONEWAY, FLAG_RESPONSE};
pub use language::Language;
pub use text::Text;
pub use writer::ExtWriter;

#[cfg(test)]
mod reference;
