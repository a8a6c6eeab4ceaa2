//! Frames, headers, request and response codes and their typed fields.
//!
//! From bytes to a request: [`frame::next`] cuts a frame off the stream, [`Head::parse`] reads its header, and a type
//! of [`requests`] picks the fields its code needs out of [`Head::ext`].

mod binary;
pub mod codes;
mod ext;
pub mod frame;
mod head;
mod json;
mod language;
mod text;
pub mod version;

pub use codes::{request, response};
pub use ext::{ExtField, ExtFields, FieldError, MAX_EXT_FIELDS};
pub use frame::{FrameError, RawFrame, Serialization};
pub use head::{Head, HeadError, FLAG_ONEWAY, FLAG_RESPONSE};
pub use language::Language;
pub use text::Text;
