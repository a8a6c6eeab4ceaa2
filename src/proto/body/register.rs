//! What a broker tells a NameServer: its topics. Body of REGISTER_BROKER (103), plain or compressed.
//!
//! The compressed form is one zlib stream of length-prefixed pieces:
//!
//! ```text
//! i32 length, DataVersion as JSON
//! i32 count of topics, each: i32 length, "topicName readQueueNums writeQueueNums perm topicFilterType attributes"
//! i32 length, filter servers as a JSON list
//! senders from version 413 on: i32 count of mappings, each: i32 length, JSON
//! ```

use std::collections::BTreeMap;
use std::io::{Read, Write};

use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use flate2::Compression;
use serde::{Deserialize, Serialize};

use super::json::{from_slice, to_vec, JsonError};
use super::topic::{TopicConfig, TopicConfigSerializeWrapper, TopicFilterType};
use super::DataVersion;

/// The most bytes a compressed body may inflate to: 100,000 topics take about a tenth of it.
pub const INFLATED_MAX: usize = 64 << 20;

/// What a broker has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RegisterBrokerBody {
    /// Filter servers beside the broker; none today.
    pub filter_server_list: Vec<String>,
    /// The topics and their version.
    pub topic_config_serialize_wrapper: TopicConfigAndMappingSerializeWrapper,
}

/// Topics as 5.x brokers register them: with static-topic mappings, which are empty here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicConfigAndMappingSerializeWrapper {
    /// Version of the topics.
    pub data_version: DataVersion,
    /// Version of the mappings; 4.x brokers send none.
    pub mapping_data_version: Option<DataVersion>,
    /// Topic by name.
    pub topic_config_table: BTreeMap<String, TopicConfig>,
    /// Mappings; not read.
    pub topic_queue_mapping_detail_map: Option<Nothing>,
    /// Mappings; not read.
    pub topic_queue_mapping_info_map: Option<Nothing>,
}

/// The plain form, or the bare table that senders below version 37 call a registration.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AnyForm {
    filter_server_list: Vec<String>,
    topic_config_serialize_wrapper: Option<TopicConfigAndMappingSerializeWrapper>,
    data_version: DataVersion,
    topic_config_table: BTreeMap<String, TopicConfig>,
}

impl From<AnyForm> for RegisterBrokerBody {
    fn from(read: AnyForm) -> RegisterBrokerBody {
        let bare = TopicConfigAndMappingSerializeWrapper {
            data_version: read.data_version,
            topic_config_table: read.topic_config_table,
            ..Default::default()
        };
        RegisterBrokerBody {
            filter_server_list: read.filter_server_list,
            topic_config_serialize_wrapper: read.topic_config_serialize_wrapper.unwrap_or(bare),
        }
    }
}

/// An object whose members do not matter, written as `{}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Nothing {}

/// Why a registration cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterBrokerError {
    /// The JSON or a piece of it cannot be read.
    #[error("the registration is not readable: {0}")]
    Json(#[from] JsonError),
    /// The stream is damaged.
    #[error("the registration does not inflate")]
    Inflate,
    /// The stream inflates to more than [`INFLATED_MAX`].
    #[error("the registration inflates to more than 64 MiB")]
    TooLarge,
    /// A piece is shorter than it says, or a topic's line is not one.
    #[error("the registration ends within its {piece}, or that is malformed")]
    Malformed {
        /// The piece.
        piece: &'static str,
    },
}

impl RegisterBrokerBody {
    /// The registration of some topics, as a 5.x broker sends it.
    pub fn new(topics: TopicConfigSerializeWrapper, mapping_data_version: DataVersion) -> RegisterBrokerBody {
        RegisterBrokerBody {
            filter_server_list: Vec::new(),
            topic_config_serialize_wrapper: TopicConfigAndMappingSerializeWrapper {
                data_version: topics.data_version,
                mapping_data_version: Some(mapping_data_version),
                topic_config_table: topics.topic_config_table,
                topic_queue_mapping_detail_map: Some(Nothing {}),
                topic_queue_mapping_info_map: Some(Nothing {}),
            },
        }
    }

    /// Reads either form: the first byte tells which, for 5.3.2 brokers call a compressed body uncompressed. No body
    /// at all is a registration without topics.
    pub fn decode(body: &[u8]) -> Result<RegisterBrokerBody, RegisterBrokerError> {
        const ZLIB_HEADER: u8 = 0x78;
        match body.first() {
            None => Ok(RegisterBrokerBody::default()),
            Some(&ZLIB_HEADER) => decode_compressed(body),
            Some(_) => Ok(from_slice::<AnyForm>(body)?.into()),
        }
    }

    /// Writes the plain form.
    pub fn encode(&self) -> Vec<u8> {
        to_vec(self)
    }

    /// Writes the compressed form of 5.x brokers, with an empty list of mappings.
    pub fn encode_compressed(&self) -> Vec<u8> {
        let topics = &self.topic_config_serialize_wrapper;
        let mut plain = Vec::new();
        put_piece(&mut plain, &to_vec(&topics.data_version));
        plain.extend_from_slice(&(topics.topic_config_table.len() as u32).to_be_bytes());
        for topic in topics.topic_config_table.values() {
            put_piece(&mut plain, line(topic).as_bytes());
        }
        put_piece(&mut plain, &to_vec(&self.filter_server_list));
        plain.extend_from_slice(&0u32.to_be_bytes());
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        // Writing to a vector does not fail.
        let _ = encoder.write_all(&plain);
        encoder.finish().unwrap_or_default()
    }
}

fn put_piece(out: &mut Vec<u8>, piece: &[u8]) {
    out.extend_from_slice(&(piece.len() as u32).to_be_bytes());
    out.extend_from_slice(piece);
}

fn line(topic: &TopicConfig) -> String {
    format!(
        "{} {} {} {} {} {}",
        topic.topic_name,
        topic.read_queue_nums,
        topic.write_queue_nums,
        topic.perm,
        topic.topic_filter_type.name(),
        String::from_utf8(to_vec(&topic.attributes)).unwrap_or_default()
    )
}

fn topic_of_line(line: &str) -> Option<TopicConfig> {
    let mut parts = line.splitn(6, ' ');
    let name = parts.next().filter(|name| !name.is_empty())?;
    let mut number = || parts.next()?.parse::<i32>().ok();
    let (read, write, perm) = (number()?, number()?, number()?);
    let filter_type = TopicFilterType::of_name(parts.next()?);
    let attributes = match parts.next() {
        None | Some("" | "null") => BTreeMap::new(),
        Some(json) => from_slice(json.as_bytes()).ok()?,
    };
    Some(TopicConfig {
        attributes,
        topic_filter_type: filter_type,
        write_queue_nums: write,
        ..TopicConfig::new(name, read, perm)
    })
}

fn decode_compressed(body: &[u8]) -> Result<RegisterBrokerBody, RegisterBrokerError> {
    let mut plain = Vec::new();
    let mut inflating = ZlibDecoder::new(body).take(INFLATED_MAX as u64 + 1);
    inflating.read_to_end(&mut plain).map_err(|_| RegisterBrokerError::Inflate)?;
    if plain.len() > INFLATED_MAX {
        return Err(RegisterBrokerError::TooLarge);
    }
    let mut pieces = Pieces { rest: &plain };
    let data_version = from_slice(pieces.piece("data version")?)?;
    let mut topic_config_table = BTreeMap::new();
    for _ in 0..pieces.count("number of topics")? {
        let malformed = RegisterBrokerError::Malformed { piece: "topics" };
        let line = String::from_utf8_lossy(pieces.piece("topics")?);
        let topic = topic_of_line(&line).ok_or(malformed)?;
        topic_config_table.insert(topic.topic_name.clone(), topic);
    }
    let filter_server_list = from_slice(pieces.piece("filter servers")?)?;
    // The mappings behind them, if any, belong to static topics.
    let topic_config_serialize_wrapper =
        TopicConfigAndMappingSerializeWrapper { data_version, topic_config_table, ..Default::default() };
    Ok(RegisterBrokerBody { filter_server_list, topic_config_serialize_wrapper })
}

struct Pieces<'a> {
    rest: &'a [u8],
}

impl<'a> Pieces<'a> {
    fn take(&mut self, count: usize, piece: &'static str) -> Result<&'a [u8], RegisterBrokerError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(RegisterBrokerError::Malformed { piece })?;
        self.rest = rest;
        Ok(taken)
    }

    fn count(&mut self, piece: &'static str) -> Result<usize, RegisterBrokerError> {
        let word = self.take(4, piece)?;
        Ok(word.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)))
    }

    fn piece(&mut self, piece: &'static str) -> Result<&'a [u8], RegisterBrokerError> {
        let length = self.count(piece)?;
        self.take(length, piece)
    }
}
