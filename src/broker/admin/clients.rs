//! Who is connected: 203, 204, 328, 345.

use crate::broker::clients::{Clients, Connection as Known};
use crate::broker::BrokerError;
use crate::env::Millis;
use crate::proto::body::client::QuerySubscriptionResponseBody;
use crate::proto::body::{Connection, ConsumerConnection, ProducerConnection, ProducerInfo, ProducerTableInfo};

use super::{json, Answer};

/// 203
pub fn consumer_connections(group: &str, clients: &Clients) -> Answer {
    let info = clients.consumers.info(group);
    let info = info.ok_or_else(|| BrokerError::ConsumerNotOnline { group: group.to_owned() })?;
    Ok(json(&ConsumerConnection {
        connection_set: info.members.iter().map(|member| connection(&member.client, member.connection)).collect(),
        consume_from_where: info.consume_from_where,
        consume_type: info.consume_type,
        message_model: info.message_model,
        subscription_table: info.subscriptions.iter().map(|data| (data.topic.clone(), (*data).clone())).collect(),
    }))
}

/// 204
pub fn producer_connections(group: &str, clients: &Clients) -> Answer {
    let members = clients.producers.members(group).map(|member| connection(&member.client, member.connection));
    let connection_set: Vec<Connection> = members.collect();
    if connection_set.is_empty() {
        return Err(BrokerError::NoProducer { group: group.to_owned() });
    }
    Ok(json(&ProducerConnection { connection_set }))
}

/// 328. Clients are remembered by the monotonic `now`; tools want the time of the wall clock.
pub fn all_producers(clients: &Clients, now: Millis, wall: Millis) -> Answer {
    let mut table = ProducerTableInfo::default();
    for (group, members) in clients.producers.iter() {
        let info = members.map(|member| ProducerInfo {
            client_id: member.client.to_string(),
            language: member.connection.language.name().to_owned(),
            last_update_timestamp: wall.plus(-(now.since(member.last_seen) as i64)).0,
            remote_ip: member.connection.peer.ip().to_string(),
            version: member.connection.version,
        });
        table.data.insert(group.to_string(), info.collect());
    }
    Ok(json(&table))
}

/// 345: what the group's members subscribe to, else what its pulls brought. Nothing is no error.
pub fn subscription(group: &str, topic: &str, clients: &Clients) -> Answer {
    let info = clients.consumers.info(group);
    let registered = info.iter().flat_map(|info| &info.subscriptions).find(|data| data.topic == topic).copied();
    Ok(json(&QuerySubscriptionResponseBody {
        group: group.to_owned(),
        subscription_data: registered.or_else(|| clients.pull_subscriptions.get(group, topic)).cloned(),
        topic: topic.to_owned(),
    }))
}

fn connection(client: &str, known: Known) -> Connection {
    Connection {
        client_addr: known.peer.to_string(),
        client_id: client.to_owned(),
        language: known.language.name().to_owned(),
        version: known.version,
    }
}
