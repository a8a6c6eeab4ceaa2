//! AutoSwitchHA.
//!
//! ```text
//! slave handshake    | 1 4 | syncFromLastFile 2 | asyncLearner 2 | broker id 8 |
//! slave report       | 2 4 | slave's end 8 |
//! master handshake   | 1 4 | bytes of the list 4 | master's end 8 | last epoch 4 | n × ( epoch 4 | start 8 ) |
//! master transfer    | 2 4 | size 4 | position 8 | epoch 4 | epoch's start 8 | confirmed 8 | bytes of the log |
//! ```

use super::{bytes, int, long, unsigned, Decoded, FrameError};
use crate::proto::PhysicalOffset;

/// Length of a slave's handshake.
pub const SLAVE_HANDSHAKE_SIZE: usize = 16;
/// Length of a slave's report.
pub const REPORT_SIZE: usize = 12;
/// Length of a master's handshake without its list of epochs.
pub const MASTER_HANDSHAKE_SIZE: usize = 20;
/// Length of what stands before bytes of the log.
pub const DATA_HEADER_SIZE: usize = 36;
/// Most epochs of a handshake.
pub const EPOCHS_MAX: usize = 1000;

/// The first number of handshakes.
pub const HANDSHAKE: i32 = 1;
/// The first number of reports and transfers.
pub const TRANSFER: i32 = 2;

const EPOCH_SIZE: usize = 12;
const _: () = assert!(SLAVE_HANDSHAKE_SIZE == 4 + 2 * 2 + 8);
const _: () = assert!(MASTER_HANDSHAKE_SIZE == 2 * 4 + 8 + 4);
const _: () = assert!(DATA_HEADER_SIZE == 2 * 4 + 8 + 4 + 2 * 8);

/// A stretch of the log that one master wrote in one go: from `start` to the next one's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Its number; higher is later.
    pub number: i32,
    /// Where it begins.
    pub start: PhysicalOffset,
}

/// How a slave introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlaveHandshake {
    /// Without a log of its own it wants the newest file only.
    pub sync_from_last_file: bool,
    /// It does not count for what is confirmed.
    pub async_learner: bool,
    /// Its broker id.
    pub broker_id: u64,
}

/// How a master answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterHandshake {
    /// Where its log ends.
    pub end: PhysicalOffset,
    /// Its epochs in order, [`EPOCHS_MAX`] at most.
    pub epochs: Vec<Epoch>,
}

/// Stands before bytes of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// How many bytes follow; 0 is a heartbeat.
    pub size: u32,
    /// Where in the log they belong.
    pub at: PhysicalOffset,
    /// Whose bytes they are.
    pub epoch: Epoch,
    /// Up to here consumers may read.
    pub confirmed: PhysicalOffset,
}

impl SlaveHandshake {
    /// The frame.
    pub fn encode(&self) -> [u8; SLAVE_HANDSHAKE_SIZE] {
        let mut bytes = [0; SLAVE_HANDSHAKE_SIZE];
        bytes[..4].copy_from_slice(&HANDSHAKE.to_be_bytes());
        bytes[5] = u8::from(self.sync_from_last_file);
        bytes[7] = u8::from(self.async_learner);
        bytes[8..].copy_from_slice(&self.broker_id.to_be_bytes());
        bytes
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// For numbers that no slave sends.
    pub fn decode(from: &[u8]) -> Result<Decoded<SlaveHandshake>, FrameError> {
        if bytes::<SLAVE_HANDSHAKE_SIZE>(from, 0).is_none() {
            return Ok(Decoded::Incomplete);
        }
        expect_state(from, HANDSHAKE)?;
        let flag = |field, at: usize| match bytes(from, at).map_or(0, i16::from_be_bytes) {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(FrameError::Field { field, found: i64::from(found) }),
        };
        let handshake = SlaveHandshake {
            sync_from_last_file: flag("syncFromLastFile", 4)?,
            async_learner: flag("asyncLearner", 6)?,
            broker_id: unsigned("broker id", long(from, 8))?,
        };
        Ok(Decoded::Frame(handshake, SLAVE_HANDSHAKE_SIZE))
    }
}

/// A slave's report: up to where it has the log.
pub fn report(end: PhysicalOffset) -> [u8; REPORT_SIZE] {
    let mut bytes = [0; REPORT_SIZE];
    bytes[..4].copy_from_slice(&TRANSFER.to_be_bytes());
    bytes[4..].copy_from_slice(&end.0.to_be_bytes());
    bytes
}

/// Reads a slave's report.
///
/// # Errors
/// For numbers that no slave sends.
pub fn decode_report(from: &[u8]) -> Result<Decoded<PhysicalOffset>, FrameError> {
    if bytes::<REPORT_SIZE>(from, 0).is_none() {
        return Ok(Decoded::Incomplete);
    }
    expect_state(from, TRANSFER)?;
    Ok(Decoded::Frame(PhysicalOffset(unsigned("position", long(from, 4))?), REPORT_SIZE))
}

impl MasterHandshake {
    /// The frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MASTER_HANDSHAKE_SIZE + self.epochs.len() * EPOCH_SIZE);
        bytes.extend_from_slice(&HANDSHAKE.to_be_bytes());
        bytes.extend_from_slice(&((self.epochs.len() * EPOCH_SIZE) as u32).to_be_bytes());
        bytes.extend_from_slice(&self.end.0.to_be_bytes());
        bytes.extend_from_slice(&self.epochs.last().map_or(0, |last| last.number).to_be_bytes());
        for epoch in &self.epochs {
            bytes.extend_from_slice(&epoch.number.to_be_bytes());
            bytes.extend_from_slice(&epoch.start.0.to_be_bytes());
        }
        bytes
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// For numbers that no master sends.
    pub fn decode(from: &[u8]) -> Result<Decoded<MasterHandshake>, FrameError> {
        if bytes::<4>(from, 0).is_none() {
            return Ok(Decoded::Incomplete);
        }
        expect_state(from, HANDSHAKE)?;
        if bytes::<MASTER_HANDSHAKE_SIZE>(from, 0).is_none() {
            return Ok(Decoded::Incomplete);
        }
        let list = unsigned("length of the epochs", i64::from(int(from, 4)))? as usize;
        if !list.is_multiple_of(EPOCH_SIZE) || list > EPOCHS_MAX * EPOCH_SIZE {
            return Err(FrameError::Field { field: "length of the epochs", found: list as i64 });
        }
        let end = PhysicalOffset(unsigned("position", long(from, 8))?);
        let Some(list) = from[MASTER_HANDSHAKE_SIZE..].get(..list) else { return Ok(Decoded::Incomplete) };
        let epoch = |entry: &[u8]| {
            let start = PhysicalOffset(unsigned("start of an epoch", long(entry, 4))?);
            Ok(Epoch { number: int(entry, 0), start })
        };
        let epochs = list.chunks_exact(EPOCH_SIZE).map(epoch).collect::<Result<_, _>>()?;
        Ok(Decoded::Frame(MasterHandshake { end, epochs }, MASTER_HANDSHAKE_SIZE + list.len()))
    }
}

impl DataHeader {
    /// The header.
    pub fn encode(&self) -> [u8; DATA_HEADER_SIZE] {
        let mut bytes = [0; DATA_HEADER_SIZE];
        bytes[..4].copy_from_slice(&TRANSFER.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.size.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.at.0.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.epoch.number.to_be_bytes());
        bytes[20..28].copy_from_slice(&self.epoch.start.0.to_be_bytes());
        bytes[28..].copy_from_slice(&self.confirmed.0.to_be_bytes());
        bytes
    }

    /// Reads the header.
    ///
    /// # Errors
    /// For numbers that no master sends, also if they stand where a master that knows no epoch leaves the header out.
    pub fn decode(from: &[u8]) -> Result<Decoded<DataHeader>, FrameError> {
        if bytes::<DATA_HEADER_SIZE>(from, 0).is_none() {
            return Ok(Decoded::Incomplete);
        }
        expect_state(from, TRANSFER)?;
        let header = DataHeader {
            size: unsigned("size", i64::from(int(from, 4)))? as u32,
            at: PhysicalOffset(unsigned("position", long(from, 8))?),
            epoch: Epoch {
                number: int(from, 16),
                start: PhysicalOffset(unsigned("start of an epoch", long(from, 20))?),
            },
            confirmed: PhysicalOffset(unsigned("confirmed position", long(from, 28))?),
        };
        Ok(Decoded::Frame(header, DATA_HEADER_SIZE))
    }
}

fn expect_state(from: &[u8], expected: i32) -> Result<(), FrameError> {
    match int(from, 0) {
        found if found == expected => Ok(()),
        found => Err(FrameError::State { found, expected }),
    }
}
