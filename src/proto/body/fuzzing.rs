//! What has to hold for any bytes: shared by the fuzz targets, the corpus and the property tests. Each function takes
//! whatever comes and panics only if a promise is broken.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::Serialize;

use super::*;
use crate::proto::filter::SubscriptionData;

/// Bytes are a heartbeat or an error; one that was read and written reads the same, and its subscriptions can be
/// taken for what they say.
pub fn heartbeat(bytes: &[u8]) {
    let Some(beat) = survives::<HeartbeatData>(bytes) else { return };
    for mut subscription in beat.consumer_data_set.into_iter().flat_map(|group| group.subscription_data_set) {
        if subscription.normalize().is_ok() {
            let once = subscription.clone();
            assert_eq!(subscription.normalize(), Ok(()));
            assert_eq!(subscription, once);
        }
        let _ = subscription.tag_filter().matches(0);
    }
}

/// Bytes are a registration or an error, and one survives being written in either form.
pub fn registration(bytes: &[u8]) {
    let Ok(body) = RegisterBrokerBody::decode(bytes) else { return };
    assert_eq!(RegisterBrokerBody::decode(&body.encode()).as_ref(), Ok(&body));
}

/// Whatever body the bytes are taken for, they are one or an error.
pub fn bodies(bytes: &[u8]) {
    heartbeat(bytes);
    registration(bytes);
    survives::<BrokerMemberGroup>(bytes);
    survives::<BrokerStatsData>(bytes);
    survives::<CheckClientRequestBody>(bytes);
    survives::<ClusterInfo>(bytes);
    survives::<ConsumeMessageDirectlyResult>(bytes);
    survives::<ConsumeStats>(bytes);
    survives::<ConsumeStatsList>(bytes);
    survives::<ConsumerConnection>(bytes);
    survives::<ConsumerOffsetSerializeWrapper>(bytes);
    survives::<DataVersion>(bytes);
    survives::<DelayOffsetSerializeWrapper>(bytes);
    survives::<GetConsumerStatusBody>(bytes);
    survives::<GroupForbidden>(bytes);
    survives::<GroupList>(bytes);
    survives::<KvTable>(bytes);
    survives::<LockBatchRequestBody>(bytes);
    survives::<LockBatchResponseBody>(bytes);
    survives::<ProducerConnection>(bytes);
    survives::<ProducerTableInfo>(bytes);
    survives::<QueryAssignmentRequestBody>(bytes);
    survives::<QueryAssignmentResponseBody>(bytes);
    survives::<QueryConsumeTimeSpanBody>(bytes);
    survives::<QueryCorrectionOffsetBody>(bytes);
    survives::<ResetOffsetBody>(bytes);
    survives::<ResetOffsetBodyForC>(bytes);
    survives::<SetMessageRequestModeRequestBody>(bytes);
    survives::<SubscriptionData>(bytes);
    survives::<SubscriptionGroupConfig>(bytes);
    survives::<SubscriptionGroupList>(bytes);
    survives::<SubscriptionGroupWrapper>(bytes);
    survives::<TopicConfig>(bytes);
    survives::<TopicConfigList>(bytes);
    survives::<TopicConfigSerializeWrapper>(bytes);
    survives::<TopicList>(bytes);
    survives::<TopicRouteData>(bytes);
    survives::<TopicStatsTable>(bytes);
}

/// What can be read can be written, in both forms, and reads the same again.
fn survives<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    let read: T = from_slice(bytes).ok()?;
    assert_eq!(from_slice::<T>(&to_vec(&read)).as_ref(), Ok(&read));
    assert_eq!(from_slice::<T>(&to_vec_pretty(&read)).as_ref(), Ok(&read));
    Some(read)
}
