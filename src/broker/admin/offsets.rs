//! Offsets of groups beside each other: QUERY_CORRECTION_OFFSET (308), CLONE_GROUP_OFFSET (314).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::broker::clients::Clients;
use crate::broker::directory::Directory;
use crate::broker::offsets::OffsetTable;
use crate::broker::topics::TopicView;
use crate::broker::Effect;
use crate::proto::body::offsets::QueryCorrectionOffsetBody;
use crate::store::Store;

use super::progress::{progress, Wanted};
use super::{json, Answer};

/// 308: per queue the smallest offset of all groups but those of `filter`, which has commas between them. Where
/// `compare` itself is behind that, there is nothing to correct: the largest number. Offsets below a queue's beginning
/// are of groups that went away and do not count.
pub fn correction_offsets(topic: &str, compare: &str, filter: &str, offsets: &OffsetTable, store: &Store) -> Answer {
    let filtered = |group: &str| filter.split(',').any(|name| name.trim() == group);
    let mut smallest: BTreeMap<i32, i64> = BTreeMap::new();
    for group in offsets.groups_of(topic).filter(|group| !filtered(group)) {
        for (queue, offset) in offsets.offsets(group, topic) {
            let min = store.queue(topic, queue as u32).map_or(0, |queue| queue.min().0 as i64);
            if offset >= min {
                smallest.entry(queue).and_modify(|known| *known = offset.min(*known)).or_insert(offset);
            }
        }
    }
    for (queue, own) in offsets.offsets(compare, topic) {
        let corrected = smallest.get(&queue).copied().filter(|smallest| *smallest <= own);
        smallest.insert(queue, corrected.unwrap_or(i64::MAX));
    }
    Ok(json(&QueryCorrectionOffsetBody { correction_offsets: smallest }))
}

/// 314: `destination` goes on where `source` is, in one topic or all of them. Unless `offline`, topics that the members
/// of `source` do not subscribe to are left out. Answers the number of queues copied.
pub fn clone_offsets(
    source: &str,
    destination: &str,
    (topic, offline): (Option<&str>, bool),
    (topics, clients): (&Directory<TopicView>, &Clients),
    offsets: &mut OffsetTable,
    out: &mut Vec<Effect>,
) -> usize {
    let wanted = Wanted::of(topic, None);
    let copied: Vec<Arc<str>> = if offline {
        wanted.topics(source, offsets).into_iter().filter(|topic| topics.get(topic).is_some()).collect()
    } else {
        progress(source, wanted, topics, clients, offsets).iter().map(|one| one.topic().clone()).collect()
    };
    if copied.is_empty() {
        return 0;
    }
    let names: Vec<&str> = copied.iter().map(|topic| &**topic).collect();
    offsets.clone_group(source, destination, &names, out)
}
