//! What slaves ask of their master, a master that comes back of its slaves, and tools of both.

use std::time::Duration;

use futures::future::select;
use futures::pin_mut;

use super::{Call, Refused};
use crate::actors::broker::metadata_sync::{header, marks};
use crate::actors::ha::FollowState;
use crate::broker::metadata_sync::{tells_now, HOLD_MS, PROGRESS_EVERY_MS};
use crate::broker::BrokerError;
use crate::ha::replicas::SlaveId;
use crate::proto::body::{to_vec, DeletedTopics, HaClientRuntimeInfo, HaConnectionRuntimeInfo, HaRuntimeInfo};
use crate::proto::remoting::requests::{
    ExchangeBrokerHaInfo, KeptOffsetsResponse, LeaveMasterResponse, MetadataMarks, PromoteBroker,
    PromoteBrokerResponse, Standing, Supersede,
};
use crate::proto::remoting::{request, Response};

/// 70001. Answered when something has changed that the slave does not have.
pub async fn wait_metadata_change(call: &Call) -> Result<Response, Refused> {
    let seen = marks(&MetadataMarks::decode(&call.ext()?)?);
    let shared = &call.shared;
    let asked = shared.now();
    loop {
        // Registered before the tables are looked at: whatever changes from then on wakes.
        let changed = shared.metadata_changed.notified();
        pin_mut!(changed);
        changed.as_mut().enable();
        if shared.role.is_slave() {
            return Err(BrokerError::NotAMaster.into());
        }
        let (now, waited_ms) = (shared.marks(), shared.now().since(asked) as i64);
        if tells_now(now.since(Some(&seen)), waited_ms) || call.connection.is_closed() {
            let min_phy_offset = shared.store.min().0 as i64;
            return Ok(Response::success().with_ext(&MetadataMarks { min_phy_offset, ..header(Some(now)) }));
        }
        let look_again = PROGRESS_EVERY_MS.min(HOLD_MS - waited_ms).max(1);
        let pause = shared.env.clock.sleep(Duration::from_millis(look_again as u64));
        select(changed, pause).await;
    }
}

/// 70002
pub fn kept_offsets(call: &Call) -> Response {
    let shared = &call.shared;
    let kept = shared.offsets().kept(shared.now());
    let answer = KeptOffsetsResponse {
        confirmed: shared.store.confirmed().0 as i64,
        epoch: shared.ha.epochs().last().map_or(0, |epoch| epoch.number),
        end: shared.store.end().0 as i64,
    };
    Response::success().with_ext(&answer).with_body(to_vec(&kept))
}

/// 70005
pub async fn deleted_topics(call: &Call) -> Result<Response, Refused> {
    let shared = &call.shared;
    if shared.role.is_slave() {
        return Err(BrokerError::NotAMaster.into());
    }
    let deleted = shared.store.deletions().await;
    let deleted = deleted.into_iter().map(|(topic, end)| (topic.to_string(), end.0)).collect();
    Ok(Response::success().with_body(to_vec(&DeletedTopics { deleted })))
}

/// 70003
pub async fn promote(call: &Call) -> Result<Response, Refused> {
    let header = PromoteBroker::decode(&call.ext()?)?;
    let promoted = call.shared.promote(header.despite_master, header.despite_others).await?;
    let answer = PromoteBrokerResponse { epoch: promoted.epoch, end: promoted.end.0 as i64 };
    Ok(Response::success().with_ext(&answer))
}

/// 70004
pub async fn leave_master(call: &Call) -> Result<Response, Refused> {
    let shared = &call.shared;
    if shared.role.takes_writes() {
        return Err("this broker is the master".to_owned().into());
    }
    shared.leave_master().await;
    Ok(Response::success().with_ext(&LeaveMasterResponse { end: shared.store.end().0 as i64 }))
}

/// 70006
pub fn standing(call: &Call) -> Response {
    let shared = &call.shared;
    Response::success().with_ext(&Standing {
        is_master: shared.role.takes_writes(),
        is_changing: shared.role.is_changing(),
        state_version: shared.topics().version().state_version,
    })
}

/// 70007. Success says that this broker takes no messages. What is under way here already may still be answered.
pub fn supersede(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let by = Supersede::decode(&ext)?;
    let shared = &call.shared;
    let own = shared.topics().version().state_version;
    if shared.role.takes_writes() && by.state_version <= own {
        return Err(format!("this broker is the master, with state version {own}").into());
    }
    shared.superseded(&by.address);
    Ok(Response::success())
}

/// 906, as a slave asks it of its master. Who its master is a slave learns from the NameServers, not from this request.
pub fn ha_info(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let asked = ExchangeBrokerHaInfo::decode(&ext)?;
    let shared = &call.shared;
    if asked.master_ha_address.is_some() || !shared.role.takes_writes() {
        return Ok(Response::not_supported(request::EXCHANGE_BROKER_HA_INFO));
    }
    Ok(Response::success().with_ext(&ExchangeBrokerHaInfo {
        master_ha_address: Some(shared.ha_address.to_string().into()),
        master_flush_offset: Some(shared.store.flushed().0 as i64),
        master_address: Some(shared.advertised.to_string().into()),
    }))
}

/// 907
pub fn ha_status(call: &Call) -> Response {
    let status = call.shared.ha.status();
    let slaves = status.slaves.iter().map(|slave| HaConnectionRuntimeInfo {
        addr: slave.address.clone(),
        behind_millis: slave.behind.map(|_| slave.behind_ms as i64),
        broker_id: match slave.id {
            SlaveId::Broker(id) => Some(id as i64),
            SlaveId::Machine(_) => None,
        },
        diff: slave.behind.map_or(-1, |behind| behind as i64),
        in_sync: slave.in_sync,
        slave_ack_offset: slave.acked.unwrap_or(0) as i64,
        ..HaConnectionRuntimeInfo::default()
    });
    let refusal = match &status.following {
        FollowState::Refusing(why) => Some(why.clone()),
        _ => None,
    };
    Response::success().with_body(to_vec(&HaRuntimeInfo {
        master: !status.is_slave,
        master_commit_log_max_offset: status.end as i64,
        in_sync_slave_nums: if status.is_slave { 0 } else { status.in_sync.saturating_sub(1) as i32 },
        ha_connection_info: slaves.collect(),
        ha_client_runtime_info: HaClientRuntimeInfo {
            activated: status.following == FollowState::Following,
            master_addr: status.master,
            master_flush_offset: status.master_confirmed as i64,
            max_offset: status.end as i64,
            refusal,
            ..HaClientRuntimeInfo::default()
        },
    }))
}
