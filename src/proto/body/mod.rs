//! JSON bodies of requests and responses, and the same types as they lie in the files of `config/`.
//!
//! The structs name their members in alphabetical order, because that is the order Java writes and `json` keeps the
//! order of the declaration. Every member may be missing; its default is the one Java's bean has.

pub mod client;
pub mod config_files;
pub mod connection;
pub mod data_version;
pub mod fuzzing;
pub mod group;
pub mod ha;
pub mod heartbeat;
pub mod json;
pub mod offsets;
pub mod permission;
pub mod queue;
pub mod register;
pub mod route;
pub mod small;
pub mod stats;
pub mod topic;

pub use client::{CheckClientRequestBody, ConsumeMessageDirectlyResult};
pub use connection::{Connection, ConsumerConnection, ProducerConnection, ProducerInfo, ProducerTableInfo};
pub use data_version::DataVersion;
pub use group::{
    GroupForbidden, GroupRetryPolicy, SimpleSubscriptionData, SubscriptionGroupConfig, SubscriptionGroupList,
    SubscriptionGroupWrapper,
};
pub use ha::{HaClientRuntimeInfo, HaConnectionRuntimeInfo, HaRuntimeInfo};
pub use heartbeat::{ConsumeFromWhere, ConsumeType, ConsumerData, HeartbeatData, MessageModel, ProducerData};
pub use json::{from_slice, to_vec, to_vec_pretty, JsonError};
pub use offsets::{
    ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper, GetConsumerStatusBody, QueryCorrectionOffsetBody,
    ResetOffsetBody, ResetOffsetBodyForC,
};
pub use queue::{
    LockBatchRequestBody, LockBatchResponseBody, MessageQueue, MessageQueueAssignment, MessageRequestMode,
    QueryAssignmentRequestBody, QueryAssignmentResponseBody, SetMessageRequestModeRequestBody,
};
pub use register::{RegisterBrokerBody, RegisterBrokerError};
pub use route::{BrokerData, BrokerMemberGroup, ClusterInfo, QueueData, TopicRouteData};
pub use small::{GroupList, KvTable, TopicList};
pub use stats::{
    BrokerStatsData, BrokerStatsItem, ConsumeStats, ConsumeStatsList, OffsetWrapper, QueryConsumeTimeSpanBody,
    QueueTimeSpan, TopicOffset, TopicStatsTable,
};
pub use topic::{DeletedTopics, TopicConfig, TopicConfigList, TopicConfigSerializeWrapper, TopicFilterType};
