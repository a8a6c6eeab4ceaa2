//! A master that comes back asks its slaves for what groups have committed there meanwhile, before it serves: a group that
//! comes back to it goes on where it was. (RocketMQ's master does so only with `enableSlaveActingMaster`.)

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use super::shared::Shared;
use crate::actors::net::{connect, NoRequests};
use crate::broker::Effect;
use crate::proto::body::route::GetBrokerMemberGroupResponseBody;
use crate::proto::body::{from_slice, ConsumerOffsetSerializeWrapper};
use crate::proto::remoting::requests::GetBrokerMemberGroup;
use crate::proto::remoting::{own_request, request, response, Command};

/// How long a connection and how long an answer may take. Whoever takes longer is done without: the groups' next commits
/// say the same.
const LIMIT: Duration = Duration::from_secs(1);

/// Asks all slaves that the NameServers know.
pub async fn catch_up(shared: &Shared) {
    let slaves = all_slaves(shared).await;
    let answers = join_all(slaves.iter().map(|slave| kept_at(shared, slave))).await;
    let end_of = |topic: &str, id: i32| {
        let queue = u32::try_from(id).ok().and_then(|id| shared.store.queue(topic, id));
        queue.map_or(0, |queue| i64::try_from(queue.max().0).unwrap_or(i64::MAX))
    };
    let (mut effects, mut moved) = (Vec::new(), 0);
    for kept in answers.into_iter().flatten() {
        moved += shared.offsets().catch_up(&kept, end_of, &mut effects);
    }
    if moved > 0 {
        tracing::info!(moved, "took offsets that groups committed at slaves while this master was away");
        effects.push(Effect::PersistOffsets);
        // What could not be saved is logged, and saved again.
        let _ = shared.carry_out_now(effects).await;
    }
}

/// The addresses of all slaves of this broker's name that NameServers know.
pub async fn all_slaves(shared: &Shared) -> BTreeSet<String> {
    let settings = shared.settings();
    let asked = settings.config.name_servers().map(|nameserver| slaves(shared, nameserver));
    join_all(asked).await.into_iter().flatten().collect()
}

/// The slaves' addresses as one NameServer knows them.
async fn slaves(shared: &Shared, nameserver: &str) -> Vec<String> {
    let config = &shared.settings().config;
    let header = GetBrokerMemberGroup {
        cluster_name: config.broker_cluster_name.as_str().into(),
        broker_name: config.broker_name.as_str().into(),
    };
    let command = Command::request(request::GET_BROKER_MEMBER_GROUP).with_ext(&header);
    let Some(answer) = ask(shared, nameserver, command, LIMIT).await else { return Vec::new() };
    let group = from_slice::<GetBrokerMemberGroupResponseBody>(&answer.body).unwrap_or_default().broker_member_group;
    group.broker_addrs.into_iter().filter(|(id, _)| *id > 0).map(|(_, address)| address).collect()
}

/// What one slave has kept. An Apache slave keeps nothing and does not know the question.
async fn kept_at(shared: &Shared, slave: &str) -> Option<ConsumerOffsetSerializeWrapper> {
    let answer = ask(shared, slave, Command::request(own_request::GET_KEPT_OFFSETS), LIMIT).await?;
    from_slice(&answer.body).ok()
}

/// The answer of a server, if it is a success and comes soon.
pub async fn ask(shared: &Shared, address: &str, command: Command, limit: Duration) -> Option<Command> {
    let connection = connect(&shared.env, address, Arc::new(NoRequests), LIMIT).await.ok()?;
    let answer = connection.call(&*shared.env.clock, command, limit).await;
    connection.close();
    answer.ok().filter(|answer| answer.code == response::SUCCESS)
}
