//! Producers end transactions; tools put given-up ones into work again.

use super::{Call, Refused};
use crate::actors::broker::transaction::TransactionRequest;
use crate::broker::transaction::{Decision, Place};
use crate::broker::BrokerError;
use crate::proto::message::{ids, sys_flag};
use crate::proto::remoting::requests::{EndTransaction, ResumeCheckHalfMessage};
use crate::proto::remoting::{response, Response};
use crate::proto::{PhysicalOffset, QueueOffset};

/// 37. Clients send it one-way; it is answered if somebody waits for an answer.
pub async fn end(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = EndTransaction::decode(&ext)?;
    if call.shared.role.is_slave() {
        return Err(BrokerError::TransactionOnSlave.into());
    }
    let decision = match header.commit_or_rollback {
        sys_flag::TRANSACTION_COMMIT => Decision::Commit,
        sys_flag::TRANSACTION_ROLLBACK => Decision::Rollback,
        // Its producer does not know: it is asked later.
        _ => return Ok(Response::success()),
    };
    let offset = u64::try_from(header.tran_state_table_offset).map_err(|_| BrokerError::HalfOffset)?;
    let position = u64::try_from(header.commit_log_offset).map_err(|_| BrokerError::NoHalfMessage)?;
    let request = TransactionRequest::End {
        half: Place { offset: QueueOffset(offset), position: PhysicalOffset(position) },
        group: header.producer_group.into_owned(),
        id: header.transaction_id.map(Into::into),
        decision,
        from_check: header.from_transaction_check,
    };
    call.shared.transaction(request).await?;
    Ok(Response::success())
}

/// 323. The message is named by where it lies in the topic for what is given up.
pub async fn resume(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = ResumeCheckHalfMessage::decode(&ext)?;
    let (_, position) = ids::parse_offset_message_id(&header.msg_id)
        .map_err(|error| Refused(Response::error(response::SYSTEM_ERROR, error.to_string())))?;
    if call.shared.role.is_slave() {
        return Err(BrokerError::TransactionOnSlave.into());
    }
    call.shared.transaction(TransactionRequest::Resume { position }).await?;
    Ok(Response::success())
}
