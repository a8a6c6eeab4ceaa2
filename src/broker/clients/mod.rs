//! Producers and consumers that live: who sent a heartbeat, over which connection, subscribed to what.

mod compensation;
mod conflict;
mod consumers;
mod heartbeat;
mod notices;
mod producers;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::env::Millis;
use crate::proto::remoting::Language;

use super::{ConnectionId, Effect, Report};

pub use compensation::PullSubscriptions;
pub use conflict::Conflict;
pub use consumers::{ConsumerGroups, GroupInfo, Member, Registration, Subscribed, Subscription};
pub use heartbeat::{on_heartbeat, HeartbeatReply, HeartbeatTables, UNIT_SUBSCRIPTION};
pub use notices::{Notices, TELL_EVERY_MS};
pub use producers::{Producer, ProducerGroups};

/// A client that was not heard of for this long is gone.
pub const EXPIRY_MS: u64 = 120_000;

/// A connection and what its requests say about the client behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The connection.
    pub id: ConnectionId,
    /// The client's address.
    pub peer: SocketAddr,
    /// The client's language.
    pub language: Language,
    /// The client's version number.
    pub version: i32,
}

/// All producers and consumers. `now` is monotonic time.
#[derive(Debug)]
pub struct Clients {
    /// Consumer groups with members.
    pub consumers: ConsumerGroups,
    /// Producer groups with members.
    pub producers: ProducerGroups,
    /// Subscriptions that only pulls told of.
    pub pull_subscriptions: PullSubscriptions,
}

impl Clients {
    /// Nobody yet, and no more than `clients_max` registrations of each kind ever.
    pub fn new(clients_max: usize, subscription_expiry_ms: u64) -> Clients {
        Clients {
            consumers: ConsumerGroups::new(clients_max),
            producers: ProducerGroups::new(clients_max),
            pull_subscriptions: PullSubscriptions::new(subscription_expiry_ms, clients_max),
        }
    }

    /// UNREGISTER_CLIENT. Empty names count as absent. Returns the client id that left the consumer group: its queue
    /// locks are to be given back.
    pub fn unregister(
        &mut self,
        connection: ConnectionId,
        producer_group: &str,
        consumer_group: &str,
        out: &mut Vec<Effect>,
    ) -> Option<Arc<str>> {
        if !producer_group.is_empty() {
            self.producers.unregister(producer_group, connection);
        }
        if consumer_group.is_empty() {
            return None;
        }
        self.consumers.unregister(consumer_group, connection, out)
    }

    /// A connection ended, in whatever way: everyone behind it has left.
    pub fn on_connection_closed(&mut self, connection: ConnectionId, out: &mut Vec<Effect>) {
        self.producers.on_connection_closed(connection);
        self.consumers.on_connection_closed(connection, out);
    }

    /// Every 10 s: removes who was not heard of for [`EXPIRY_MS`], tells the others, and closes connections behind which
    /// nobody is left. (RocketMQ leaves it to the closed connection to tell the others.)
    pub fn on_scan(&mut self, now: Millis, out: &mut Vec<Effect>) {
        let mut expired = self.producers.expire(now);
        expired.extend(self.consumers.expire(now, out));
        expired.sort();
        expired.dedup_by_key(|gone| gone.connection);
        for Expired { connection, client, idle_ms } in expired {
            if !self.producers.knows(connection) && !self.consumers.knows(connection) {
                out.push(Effect::Report(Report::ClientExpired { client, idle_ms }));
                out.push(Effect::Close(connection));
            }
        }
        self.pull_subscriptions.expire(now);
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Expired {
    connection: ConnectionId,
    client: Arc<str>,
    idle_ms: u64,
}
