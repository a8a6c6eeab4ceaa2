//! Messages: stored records, properties, batches, ids and names.
//!
//! A message travels as a body and a text of properties, and lies in the commit log as a *record*, the same bytes a
//! consumer gets. Reading is zero-copy ([`record::RecordView`] borrows from the log), writing appends straight to the
//! batch that goes to the log ([`encode::encode_record`]). No map is built from properties and nothing is allocated
//! per message on the way in or out.

pub mod batch;
pub mod delay_levels;
pub mod encode;
pub mod fuzzing;
pub mod hash;
pub mod ids;
pub mod names;
pub mod properties;
pub mod recall_handle;
pub mod record;
pub mod sys_flag;
pub mod system;
pub mod unique_key;
pub mod trace;
mod view;

pub use delay_levels::DelayLevels;
pub use encode::{encode_record, patch_offsets, EncodeError, NewRecord};
pub use properties::Edit;
pub use recall_handle::RecallHandle;
pub use record::{parse, BodyCrc, Parsed, RecordError, RecordView};
pub use unique_key::UniqueKeys;
