//! Errors as answers.

use crate::broker::send::SendRules;
use crate::broker::BrokerError;
use crate::proto::remoting::Response;
use crate::store::{Refusal, StoreError};

/// An error as the answer to a request.
pub fn refusal(error: &BrokerError) -> Response {
    Response::error(error.code(), error.to_string())
}

/// The answer to a refused send: clients read region and trace switch from it too.
pub fn send_refusal(rules: &SendRules, error: &BrokerError) -> Response {
    refusal(error)
        .with("MSG_REGION", rules.region.clone())
        .with("TRACE_ON", if rules.trace_on { "true" } else { "false" })
}

/// What the store refused, in the protocol's words: a full disk or a failed one makes the client try another broker.
pub fn store_failure(error: &StoreError) -> BrokerError {
    let what = error.to_string();
    match error {
        StoreError::Refused { refusal: Refusal::NoSegment | Refusal::NotReplicated, .. } => {
            BrokerError::StoreFailed { what }
        }
        StoreError::Refused { .. } => BrokerError::ServiceNotAvailable { disk: what },
        // The request was on its way while its topic was deleted: clients ask for the route again on this code.
        StoreError::QueueDeleted { topic, .. } => BrokerError::TopicNotExist { topic: topic.to_string() },
        _ => BrokerError::StoreFailed { what },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_met_the_deletion_of_its_topic_is_told_that_the_topic_is_gone() {
        let deleted = StoreError::QueueDeleted { topic: "Orders".into(), queue_id: 0 };
        let answer = refusal(&store_failure(&deleted));
        assert_eq!(answer.code, crate::proto::remoting::response::TOPIC_NOT_EXIST);
        assert!(answer.remark.is_some_and(|remark| remark.starts_with("topic[Orders] not exist")));
    }
}
