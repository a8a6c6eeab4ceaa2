//! A master that comes back asks its slaves for what groups have committed there meanwhile, before it serves: a group that
//! comes back to it goes on where it was. (RocketMQ's master does so only with `enableSlaveActingMaster`.)
//!
//! Before that it asks all others of its name whether one of them was promoted meanwhile, or is being promoted: then it takes
//! no messages, which would be cut off later. If nobody answers it serves, as RocketMQ's masters do.
//!
//! It also asks what of the log is confirmed there. A master that has less has lost it, with a disk that was rolled back or
//! replaced, say: if it went on, others would get the places of confirmed messages. So it takes none; whoever promotes the
//! slave has all of them. A master that begins while no such slave answers goes on, and the slave refuses to follow it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use super::shared::Shared;
use crate::actors::net::{connect, NoRequests};
use crate::broker::Effect;
use crate::config::broker::BrokerConfig;
use crate::env::{Canary, Env};
use crate::proto::body::route::GetBrokerMemberGroupResponseBody;
use crate::proto::body::{from_slice, ConsumerOffsetSerializeWrapper};
use crate::proto::remoting::requests::{GetBrokerMemberGroup, KeptOffsetsResponse, Standing};
use crate::proto::remoting::{own_request, request, response, Command};
use crate::store::FlushMode;

/// How long a connection and how long an answer may take. Whoever takes longer is done without: the groups' next commits
/// say the same.
const LIMIT: Duration = Duration::from_secs(1);

/// How often a master that starts looks whether a promotion has ended,
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// and for how long: all that a promotion waits for is over by then.
const PROMOTION_LIMIT: Duration = Duration::from_secs(30);

/// Asks all slaves that the NameServers know.
pub async fn catch_up(shared: &Shared) {
    if superseded(shared).await {
        return;
    }
    let slaves = all_slaves(shared).await;
    let answers = join_all(slaves.iter().map(|slave| kept_at(shared, slave))).await;
    let end_of = |topic: &str, id: i32| {
        let queue = u32::try_from(id).ok().and_then(|id| shared.store.queue(topic, id));
        queue.map_or(0, |queue| i64::try_from(queue.max().0).unwrap_or(i64::MAX))
    };
    let (mut effects, mut moved) = (Vec::new(), 0);
    let answers: Vec<Kept> = answers.into_iter().flatten().collect();
    if let Some(lost) = lost(shared, &answers).filter(|_| !shared.env.canary(Canary::LostMasterGoesOn)) {
        return give_up(shared, lost).await;
    }
    let forgets = shared.env.canary(Canary::KeptOffsetsForgotten);
    for Kept { offsets: kept, .. } in answers.into_iter().filter(|_| !forgets) {
        moved += shared.offsets().catch_up(&kept, end_of, &mut effects);
    }
    if moved > 0 {
        tracing::info!(moved, "took offsets that groups committed at slaves while this master was away");
        effects.push(Effect::PersistOffsets);
        // What could not be saved is logged, and saved again.
        let _ = shared.carry_out_now(effects).await;
    }
}

/// Whether another broker is the master of this one's name now. While one is being promoted this waits for how that ends.
async fn superseded(shared: &Shared) -> bool {
    let until = shared.env.clock.monotonic() + PROMOTION_LIMIT;
    let own = shared.topics().version().state_version;
    while !shared.env.canary(Canary::OldMasterNotTold) {
        let others = all_others(shared).await;
        let answers = join_all(others.iter().map(|other| standing_of(shared, other))).await;
        let mut known = others.iter().zip(answers).filter_map(|(other, answer)| Some((other, answer?)));
        let mut changing = false;
        let promoted = known.find(|(_, standing)| {
            changing |= standing.is_changing;
            standing.is_master && standing.state_version > own
        });
        if let Some((other, _)) = promoted {
            crate::sometimes!("a master started behind another one's promotion");
            shared.superseded(other);
            withdraw_epoch(shared).await;
            return true;
        }
        if !changing || shared.env.clock.monotonic() > until {
            break;
        }
        crate::sometimes!("a master started while a slave was promoted");
        shared.env.clock.sleep(LOOK_AGAIN_AFTER).await;
    }
    false
}

async fn standing_of(shared: &Shared, other: &str) -> Option<Standing> {
    let answer = ask(shared, other, Command::request(own_request::GET_STANDING), LIMIT).await?;
    Standing::decode(&answer.ext_fields().ok()?).ok()
}

/// Nothing was written in it; and the next start has to find the same.
async fn withdraw_epoch(shared: &Shared) {
    if let Err(error) = shared.ha.withdraw_epoch().await {
        tracing::warn!(%error, "the epoch of this start stays");
    }
}

/// What a slave says.
struct Kept {
    slave: String,
    offsets: ConsumerOffsetSerializeWrapper,
    state: KeptOffsetsResponse,
}

/// A slave that has more confirmed of the log that this one was, too.
fn lost<'a>(shared: &Shared, answers: &'a [Kept]) -> Option<&'a Kept> {
    let epochs = shared.ha.epochs();
    // The last one began with this start. A slave that lacks the one before has parted from this log: somebody else was
    // promoted, knowing that.
    let before = epochs.list().iter().rev().nth(1).map_or(0, |epoch| epoch.number);
    let end = shared.store.end().0 as i64;
    // What waited for a slave and for no sync may have been acknowledged although that slave was not told that it is confirmed.
    let unsynced = shared.ha.quorum().waits() && shared.store.flush_mode() == FlushMode::Async;
    let has = |kept: &Kept| if unsynced { kept.state.confirmed.max(kept.state.end) } else { kept.state.confirmed };
    answers.iter().find(|kept| has(kept) > end && kept.state.epoch >= before)
}

async fn give_up(shared: &Shared, lost: &Kept) {
    shared.role.fence();
    withdraw_epoch(shared).await;
    tracing::error!(
        slave = lost.slave,
        confirmed = lost.state.confirmed,
        end = shared.store.end().0,
        "this master has lost a part of its log that a slave has, confirmed: it takes no messages; promote the slave. To go on \
         without what is lost, start this broker while the slave is stopped"
    );
}

/// The addresses of all slaves of this broker's name that NameServers know.
pub async fn all_slaves(shared: &Shared) -> BTreeSet<String> {
    members(shared).await.into_iter().filter(|(id, _)| *id > 0).map(|(_, address)| address).collect()
}

/// The addresses of all other brokers of this one's name that NameServers know.
pub async fn all_others(shared: &Shared) -> BTreeSet<String> {
    let own = shared.advertised.to_string();
    members(shared).await.into_iter().map(|(_, address)| address).filter(|address| *address != own).collect()
}

/// Ids and addresses of all brokers of this one's name that NameServers know.
async fn members(shared: &Shared) -> Vec<(i64, String)> {
    members_of(&shared.env, &shared.settings().config).await
}

/// The same for a broker that has no shared state yet.
pub async fn members_of(env: &Env, config: &BrokerConfig) -> Vec<(i64, String)> {
    let asked = config.name_servers().map(|nameserver| members_at(env, config, nameserver));
    join_all(asked).await.into_iter().flatten().collect()
}

/// The brokers of this one's name as one NameServer knows them.
async fn members_at(env: &Env, config: &BrokerConfig, nameserver: &str) -> Vec<(i64, String)> {
    let header = GetBrokerMemberGroup {
        cluster_name: config.broker_cluster_name.as_str().into(),
        broker_name: config.broker_name.as_str().into(),
    };
    let command = Command::request(request::GET_BROKER_MEMBER_GROUP).with_ext(&header);
    let Some(answer) = ask_at(env, nameserver, command, LIMIT).await else { return Vec::new() };
    let group = from_slice::<GetBrokerMemberGroupResponseBody>(&answer.body).unwrap_or_default().broker_member_group;
    group.broker_addrs.into_iter().collect()
}

/// What one slave has kept. An Apache slave keeps nothing and does not know the question.
async fn kept_at(shared: &Shared, slave: &str) -> Option<Kept> {
    let answer = ask(shared, slave, Command::request(own_request::GET_KEPT_OFFSETS), LIMIT).await?;
    let state = KeptOffsetsResponse::decode(&answer.ext_fields().ok()?).ok()?;
    Some(Kept { slave: slave.to_owned(), offsets: from_slice(&answer.body).ok()?, state })
}

/// The answer of a server, if it is a success and comes soon.
pub async fn ask(shared: &Shared, address: &str, command: Command, limit: Duration) -> Option<Command> {
    ask_at(&shared.env, address, command, limit).await
}

/// The same without shared state.
pub async fn ask_at(env: &Env, address: &str, command: Command, limit: Duration) -> Option<Command> {
    let connection = connect(env, address, Arc::new(NoRequests), LIMIT).await.ok()?;
    let answer = connection.call(&*env.clock, command, limit).await;
    connection.close();
    answer.ok().filter(|answer| answer.code == response::SUCCESS)
}
