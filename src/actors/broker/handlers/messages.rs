//! Stored messages, looked up by key or by id.

use super::{Call, Refused};
use crate::actors::broker::errors::{refusal, store_failure};
use crate::broker::BrokerError;
use crate::env::Millis;
use crate::proto::remoting::requests::{QueryMessage, QueryMessageResponse, ViewMessageById};
use crate::proto::remoting::Response;
use crate::proto::PhysicalOffset;
use crate::store::index::KeyQuery;
use crate::store::StoreError;

/// Records that a query for a unique key returns at most (`defaultQueryMaxNum`).
const UNIQUE_KEY_RECORDS_MAX: usize = 32;

/// 12
pub fn query(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = QueryMessage::decode(&ext)?;
    let query = KeyQuery {
        topic: &header.topic,
        key: &header.key,
        max: match header.unique_key_query {
            true => UNIQUE_KEY_RECORDS_MAX,
            false => usize::try_from(header.max_num).unwrap_or(0),
        },
        begin: Millis(header.begin_timestamp),
        end: Millis(header.end_timestamp),
    };
    let mut records = Vec::new();
    let found = call.shared.store.query_by_key(&query, &mut records).map_err(|error| store_failure(&error))?;
    if found.records == 0 {
        // Clients read both fields from this answer too.
        let nothing = QueryMessageResponse { index_last_update_timestamp: 0, index_last_update_phyoffset: 0 };
        return Err(Refused(refusal(&BrokerError::NoMessageByKey).with_ext(&nothing)));
    }
    let index = QueryMessageResponse {
        index_last_update_timestamp: found.last_update_timestamp.0,
        index_last_update_phyoffset: found.last_update_offset.0 as i64,
    };
    Ok(Response::success().with_ext(&index).with_body(records))
}

/// 33
pub fn view(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = ViewMessageById::decode(&ext)?;
    let offset = header.offset;
    let at = u64::try_from(offset).map_err(|_| BrokerError::NoMessageAtOffset { offset })?;
    let mut record = Vec::new();
    call.shared.store.record_at(PhysicalOffset(at), &mut record).map_err(|error| match error {
        StoreError::NoRecord { .. } => BrokerError::NoMessageAtOffset { offset },
        error => store_failure(&error),
    })?;
    Ok(Response::success().with_body(record))
}
