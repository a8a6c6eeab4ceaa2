//! From where to where each queue is read.

use std::str::FromStr;

use anyhow::Result;

use super::{TailArgs, LAST};
use crate::cli::connect::Cluster;
use crate::cli::fail::Failure;
use crate::cli::show::When;
use crate::client::MessageQueue;
use crate::env::Millis;

/// A place in every queue of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The first message.
    Begin,
    /// Behind the last message.
    End,
    /// This number.
    Offset(i64),
    /// The first message stored then or later.
    Time(When),
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<From, String> {
        match text {
            "begin" | "first" | "earliest" => return Ok(From::Begin),
            "end" | "latest" => return Ok(From::End),
            _ => {}
        }
        // Whatever has fewer digits than a time in milliseconds is an offset.
        match text.parse::<i64>() {
            Ok(offset) if text.len() < 11 => Ok(From::Offset(offset)),
            _ => text.parse().map(From::Time).map_err(|error: String| format!("{error}, or `begin`, `end`, an offset")),
        }
    }
}

/// A part of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The queue.
    pub queue: MessageQueue,
    /// The first offset to read.
    pub from: i64,
    /// The first one that is not read any more.
    pub to: i64,
}

impl Range {
    /// Messages in it, whatever their tags.
    pub fn len(&self) -> i64 {
        (self.to - self.from).max(0)
    }
}

/// What to read of each queue.
pub async fn ranges(cluster: &Cluster, args: &TailArgs) -> Result<Vec<Range>> {
    let mut queues = cluster.admin.queues(&args.topic).await?;
    if queues.is_empty() {
        let failure = Failure::refused(format!("topic `{}` cannot be read", args.topic));
        let update = cluster.command(&format!("topic update '{}' --perm rw", args.topic));
        return Err(failure.hint(format!("{update} allows it")).into());
    }
    if let Some(wanted) = &args.queue {
        queues.retain(|queue| is_queue(queue, wanted));
        if queues.is_empty() {
            let failure = Failure::refused(format!("topic `{}` has no queue `{wanted}`", args.topic));
            return Err(failure.hint(cluster.command(&format!("topic show {}", args.topic)) + " lists them").into());
        }
    }
    let mut ranges = Vec::new();
    for queue in queues {
        let (min, max) = (cluster.admin.min_offset(&queue).await?, cluster.admin.max_offset(&queue).await?);
        let from = match args.from {
            Some(place) => offset_at(cluster, &queue, place, (min, max)).await?,
            // With a filter the last ones that fit may be anywhere.
            None if !args.chooses() => max - i64::try_from(args.last.unwrap_or(LAST)).unwrap_or(i64::MAX),
            None => min,
        };
        let to = match args.to {
            Some(place) => offset_at(cluster, &queue, place, (min, max)).await?,
            None => max,
        };
        let to = to.clamp(min, max);
        ranges.push(Range { from: from.clamp(min, max), to, queue });
    }
    Ok(ranges)
}

/// Whether a queue is called so: `BROKER/NUMBER` or `NUMBER`.
pub fn is_queue(queue: &MessageQueue, name: &str) -> bool {
    let number = queue.queue_id.to_string();
    match name.rsplit_once('/') {
        Some((broker, id)) => broker == queue.broker_name && id == number,
        None => name == number,
    }
}

/// The offset of a place in a queue whose ends are known.
pub async fn offset_at(cluster: &Cluster, queue: &MessageQueue, place: From, (min, max): (i64, i64)) -> Result<i64> {
    Ok(match place {
        From::Begin => min,
        From::End => max,
        From::Offset(offset) => offset,
        From::Time(when) => {
            let time: Millis = when.resolve(cluster.now(), cluster.screen.zone);
            cluster.admin.search_offset(queue, time).await?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart() {
        assert_eq!("begin".parse(), Ok(From::Begin));
        assert_eq!("17".parse(), Ok(From::Offset(17)));
        assert_eq!("17m".parse(), Ok(From::Time(When::Ago(17 * 60_000))));
        assert_eq!("1764000000000".parse(), Ok(From::Time(When::At(Millis(1_764_000_000_000)))));
        assert!("beginning".parse::<From>().unwrap_err().contains("is no time"));
        let queue = MessageQueue { topic: "t".into(), broker_name: "a/b".into(), queue_id: 3 };
        assert!(is_queue(&queue, "3") && is_queue(&queue, "a/b/3") && !is_queue(&queue, "b/3"));
    }
}
