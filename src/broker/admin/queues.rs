//! The entries of a queue: QUERY_CONSUME_QUEUE (321).

use serde::Serialize;

use crate::broker::clients::Clients;
use crate::proto::filter::{ExpressionType, SubscriptionData};
use crate::proto::remoting::{response, Response};
use crate::proto::QueueOffset;
use crate::store::{EntryForFilter, ReadLimits, Store};

use super::{json, unreadable, Answer};

/// Most entries of one answer.
pub const ENTRIES_MAX: i32 = 1024;

/// What to look at.
#[derive(Clone, Copy, Debug)]
pub struct EntryQuery<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The queue.
    pub queue_id: i32,
    /// The first entry.
    pub index: i64,
    /// How many.
    pub count: i32,
    /// A group whose filter is tried on them.
    pub group: Option<&'a str>,
}

/// The answer's body.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    filter_data: Option<String>,
    max_queue_index: i64,
    min_queue_index: i64,
    queue_data: Vec<EntryData>,
    subscription_data: Option<SubscriptionData>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryData {
    eval: bool,
    physic_offset: i64,
    physic_size: i32,
    tags_code: i64,
}

/// The subscription of the group that is asked about, taken out of the table before the store is read.
pub fn asked_subscription(query: &EntryQuery<'_>, clients: &Clients) -> Option<SubscriptionData> {
    let info = clients.consumers.info(query.group?)?;
    info.subscriptions.into_iter().find(|data| data.topic == query.topic).cloned()
}

/// 321: entries, and which of them the group's tags choose.
pub fn entries(query: &EntryQuery<'_>, subscription: Option<SubscriptionData>, store: &Store) -> Answer {
    let missing = |what: String| Ok(Response::error(response::SYSTEM_ERROR, what));
    let EntryQuery { topic, queue_id, index, .. } = *query;
    let queue = u32::try_from(queue_id).ok().and_then(|id| store.queue(topic, id));
    let Some(queue) = queue else { return missing(format!("{queue_id}@{topic} is not exist!")) };
    let (min, max) = (queue.min(), queue.max());
    let inside = |offset: u64| (min.0..max.0).contains(&offset);
    let Some(from) = u64::try_from(index).ok().filter(|offset| inside(*offset)) else {
        return missing(format!("Index {index} of {queue_id}@{topic} is not exist!"));
    };
    let tags = subscription.as_ref().filter(|data| data.expression_type == ExpressionType::Tag);
    let chosen = tags.map(SubscriptionData::tag_filter);
    let count = query.count.clamp(0, ENTRIES_MAX) as usize;
    let mut found = Vec::new();
    let (mut next, mut nothing) = (QueueOffset(from), Vec::new());
    while found.len() < count && next < max {
        // A filter sees every entry; one that chooses none reads no record.
        let mut look = |entry: &EntryForFilter| {
            found.push(EntryData {
                eval: chosen.as_ref().is_some_and(|filter| filter.matches(entry.tags_code)),
                physic_offset: entry.physical.0 as i64,
                physic_size: entry.size as i32,
                tags_code: entry.tags_code,
            });
            false
        };
        let limits = ReadLimits::new(1, 1);
        let seen = store.read(&queue, next, &limits, &mut look, &mut nothing).map_err(unreadable)?;
        if seen.next <= next {
            break;
        }
        next = seen.next;
    }
    found.truncate(count);
    let offline = query.group.filter(|_| subscription.is_none());
    Ok(json(&Body {
        filter_data: offline.map(|group| format!("{group}@{topic} is not online!")),
        max_queue_index: max.0 as i64,
        min_queue_index: min.0 as i64,
        queue_data: found,
        subscription_data: subscription,
    }))
}
