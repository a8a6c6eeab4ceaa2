//! Opening a store: find out what is there, read what has to be read, put right what is wrong.
//!
//! The log is the truth. Its end is where records stop; everything else derives from it. `plan` decides what is read,
//! `queues` compares consume queues with what was read. A crash during recovery repeats it with the same result.

mod log_end;
mod open;
mod plan;
mod queues;
mod report;
mod scan;
mod segments;

use std::io;
use std::sync::Arc;

pub(super) use open::forget_queue_table;
pub use open::{open, Opened};
pub use plan::Exit;
pub use report::{QueueName, RecoveryReport, Repair};

use super::checkpoint::Checkpoint;
use super::commit_log::Segments;
use super::consume_queue::{ConsumeQueue, QueueEntry, QueueFiles};
use super::deleted_topics::Ends;
use super::error::OpenError;
use super::index::{IndexGeometry, IndexOptions, IndexService};
use super::options::StoreOptions;
use super::paths;
use super::queue_table::QueueTable;
use super::queues::Queues;
use crate::env::{Canary, Env, Millis};
use crate::proto::message::record::BodyCrc;
use crate::proto::PhysicalOffset;
use log_end::LogEnd;
use plan::{decide, Facts, Plan};
use queues::{QueueReplay, Replays};
pub(super) use scan::Scanner;

/// Everything at hand while a store is recovered.
struct Recovery<'a> {
    env: &'a Env,
    options: &'a StoreOptions,
    exit: Exit,
    checkpoint: Checkpoint,
    segments: Segments,
    files: QueueFiles,
    queues: Queues,
    /// Topics that are gone although the log holds records of theirs.
    deleted: Ends,
}

/// What a run found.
struct Recovered {
    plan: Plan,
    end: LogEnd,
    /// The table, if it was used.
    table: Option<QueueTable>,
    /// The table was used, and the log shows that queues lack entries from before it.
    incomplete: bool,
    /// Queues with entries that found no place on a full disk.
    unwritten: Vec<Arc<ConsumeQueue>>,
    repairs: Vec<Repair>,
}

impl Recovery<'_> {
    async fn run(&mut self, table: Option<QueueTable>) -> Result<Recovered, OpenError> {
        let queue_dir = paths::consume_queue_dir(&self.options.root);
        let io = || OpenError::io("read or write queues below", &queue_dir);
        let (log_min, log_limit) = self.log_range();
        let mut table = match table {
            Some(table) if self.is_of_this_log(&table).map_err(io())? => Some(table),
            _ => None,
        };
        self.remove_deleted(table.as_mut()).await?;
        let mut replays = self.find_queues(table.as_ref()).map_err(io())?;
        let short_queue = match &table {
            Some(table) => self.trust_table(table, &mut replays).map_err(io())?,
            None => {
                replays.iter_mut().try_for_each(|replay| replay.compare_all(&self.files, log_min)).map_err(io())?;
                None
            }
        };
        let facts = Facts {
            exit: self.exit,
            log_min,
            last_segment: self.segments.last().map_or(0, |last| last.base()),
            table: table.as_ref().map(|table| table.log_end),
            short_queue,
            checkpoint_segment: match table {
                Some(_) => log_min,
                None => self.checkpoint_segment().map_err(io())?,
            },
        };
        let plan = decide(&facts);
        let (mut repairs, mut unwritten) = (Vec::new(), Vec::new());
        let end = log_end::read(self, &plan, &mut replays, &mut repairs).map_err(io())?;
        assert!(log_min <= end.at && end.at <= log_limit, "the log ends within its files");
        let incomplete = table.is_some() && replays.iter_mut().any(|replay| replay.lacks_entries());
        if !incomplete {
            self.end_log(&end, &plan, table.as_ref(), &mut repairs).await?;
            for replay in replays.into_iter() {
                let (queue, was) = (Arc::clone(&replay.queue), replay.was);
                let finished = replay.finish(&self.files, log_min.min(end.at), end.at).map_err(io())?;
                if was > queue.next() && self.env.canary(Canary::QueuesAheadOfLog) {
                    queue.set_next(was);
                    queue.publish(was);
                }
                repairs.extend(finished.repairs);
                unwritten.extend(finished.unwritten);
            }
        }
        Ok(Recovered { plan, end, table, incomplete, unwritten, repairs })
    }

    /// Takes up the index files that can be trusted, and says from where on records are to be indexed.
    fn load_index(&self, recovered: &Recovered) -> Result<(Option<IndexService>, u64), OpenError> {
        let end = recovered.end.at;
        if !self.options.index_enabled {
            return Ok((None, end));
        }
        let directory = paths::index_dir(&self.options.root);
        let mut options = IndexOptions::new(directory.clone());
        options.geometry = IndexGeometry::new(self.options.index_slots, self.options.index_entries);
        options.utc_offset_seconds = self.env.clock.local_offset_seconds();
        let failed = |error| OpenError::io("open the index", &directory)(io::Error::other(error));
        let synced_until = (self.exit == Exit::Unclean).then_some(self.checkpoint.index_msg_timestamp);
        let (index, loaded) = IndexService::load(Arc::clone(&self.env.disk), options, synced_until).map_err(failed)?;
        for (name, reason) in &loaded.deleted {
            crate::sometimes!("an index file was made again");
            tracing::warn!(name, reason, "deleted an index file; its records are indexed again");
        }
        let cut = index.truncate(PhysicalOffset(end)).map_err(failed)?;
        let next = index.next().0;
        let table = recovered.table.as_ref().filter(|table| {
            self.exit == Exit::Clean && loaded.deleted.is_empty() && cut == 0 && table.index_next == next
        });
        let from = table.map_or(next, |table| table.indexed.max(next));
        Ok((Some(index), from.clamp(self.log_range().0.min(end), end)))
    }

    fn log_range(&self) -> (u64, u64) {
        let first = self.segments.first().map_or(0, |first| first.base());
        (first, self.segments.last().map_or(0, |last| last.end()))
    }

    /// Removes queues of deleted topics that a power cut brought back, and forgets those that a table from before the
    /// deletion names. Whatever a newer topic of the same name has in its queues lies behind both, and is read again.
    async fn remove_deleted(&self, mut table: Option<&mut QueueTable>) -> Result<(), OpenError> {
        let queue_dir = paths::consume_queue_dir(&self.options.root);
        let mut removed = false;
        for (topic, deleted_at) in self.deleted.iter() {
            // A newer table was made after it, and tells what files the newer topic has; once the topic's records have
            // expired only the files tell.
            let newer = table.as_ref().is_some_and(|table| table.log_end > deleted_at);
            if newer || deleted_at <= self.log_range().0 || !paths::is_directory_name(topic) {
                continue;
            }
            if let Some(table) = &mut table {
                table.queues.retain(|(named, _), _| named != topic);
            }
            let directory = queue_dir.join(&**topic);
            if self.env.disk.exists(&directory) {
                self.queues.of_topic(topic).iter().for_each(|queue| self.files.forget(queue));
                self.env.disk.remove_dir_all(&directory).map_err(OpenError::io("remove", &directory))?;
                removed = true;
            }
        }
        if removed {
            self.env.disk.sync_dir(&queue_dir).await.map_err(OpenError::io("sync", &queue_dir))?;
        }
        Ok(())
    }

    /// The queues on disk and those the table names.
    fn find_queues(&self, table: Option<&QueueTable>) -> io::Result<Replays> {
        let mut replays = Replays::default();
        let mut find = |topic: &str, id: u32| -> io::Result<()> {
            if replays.get(topic, id).is_none() {
                let queue = self.queues.get_or_create(topic, id).map_err(io::Error::other)?;
                replays.insert(QueueReplay::find(queue, &self.files, self.exit, self.deleted.of(topic))?);
            }
            Ok(())
        };
        let directory = paths::consume_queue_dir(&self.options.root);
        for topic in self.env.disk.read_dir(&directory)?.iter().filter(|entry| entry.is_dir) {
            for entry in self.env.disk.read_dir(&directory.join(&topic.name))?.iter().filter(|entry| entry.is_dir) {
                // RocketMQ skips other names too.
                if let Ok(id) = entry.name.parse::<i32>().map(u32::try_from) {
                    find(&topic.name, id.map_err(io::Error::other)?)?;
                }
            }
        }
        for (topic, id) in table.into_iter().flat_map(|table| table.queues.keys()) {
            find(topic, *id)?;
        }
        Ok(replays)
    }

    /// Whether the table belongs to the log: the record that it calls the last one is there.
    fn is_of_this_log(&self, table: &QueueTable) -> io::Result<bool> {
        let (log_min, log_limit) = self.log_range();
        if table.log_end <= log_min || table.log_end > log_limit {
            // An empty log has nothing to compare, and nothing to lose.
            return Ok(table.log_end == log_min && table.queues.is_empty());
        }
        let mut scanner = Scanner::new(&self.segments);
        let last = scanner.record_at(table.last_record, BodyCrc::Trust)?;
        Ok(last.is_some_and(|last| {
            let end = table.last_record + u64::from(last.total_size());
            end <= table.log_end && last.store_timestamp() == table.last_store_time
        }))
    }

    /// Whether the record an entry points to is this queue's with this number.
    fn vouches(&self, topic: &str, id: u32, number: u64, entry: &QueueEntry) -> io::Result<bool> {
        let mut scanner = Scanner::new(&self.segments);
        let Some(record) = scanner.record_at(entry.physical.0, BodyCrc::Trust)? else { return Ok(false) };
        Ok(entry.physical.0 >= self.deleted.of(topic)
            && record.total_size() == entry.size
            && record.topic_bytes() == topic.as_bytes()
            && record.queue_id() as u32 == id
            && record.queue_offset().0 == number)
    }

    /// Takes the table's lengths, looks whether the files have them, and returns where the shortest of the others ends.
    fn trust_table(&self, table: &QueueTable, replays: &mut Replays) -> io::Result<Option<u64>> {
        let mut short = None;
        for replay in replays.iter_mut() {
            let name = (Arc::clone(replay.queue.topic()), replay.queue.id());
            let intact = match table.queues.get(&name) {
                Some(extent) => replay.trust_table(&self.files, *extent, table.log_end)?,
                // After a clean exit there can be no such queue: somebody put it there.
                None if self.exit == Exit::Clean => false,
                None => {
                    replay.trust_nothing();
                    true
                }
            };
            if !intact {
                let (topic, id) = &name;
                let min = table.queues.get(&name).map(|extent| extent.min);
                let ends = replay
                    .trust_disk(&self.files, min, &mut |number, entry| self.vouches(topic, *id, number, entry))?;
                short = Some(short.map_or(ends, |short: u64| short.min(ends)));
            }
        }
        Ok(short)
    }

    /// The newest segment whose first record is older than everything the checkpoint vouches for; the first one if
    /// there is none.
    fn checkpoint_segment(&self) -> io::Result<u64> {
        let vouched = self.checkpoint.min_timestamp();
        for segment in self.segments.iter().rev() {
            let mut scanner = Scanner::new(&self.segments);
            if let Some(first) = scanner.record_at(segment.base(), BodyCrc::Verify)? {
                let stored = first.store_timestamp();
                if stored != Millis(0) && stored <= vouched {
                    return Ok(segment.base());
                }
            }
        }
        Ok(self.segments.first().map_or(0, |first| first.base()))
    }

    /// Removes what lies behind the log's end and makes sure that everything before it is on disk.
    async fn end_log(
        &mut self,
        end: &LogEnd,
        plan: &Plan,
        table: Option<&QueueTable>,
        repairs: &mut Vec<Repair>,
    ) -> Result<(), OpenError> {
        segments::remove_behind(self.env, self.options, &mut self.segments, end.at, repairs).await?;
        let last = self.segments.last().filter(|last| end.at < last.end()).cloned();
        if let Some(last) = &last {
            // After our own clean exit nothing but zeros is there.
            let ours = table.is_some_and(|table| table.log_end == end.at);
            if self.exit == Exit::Clean && ours && !end.dirty {
                // On a full disk the store can be read, and every append tries again.
                let _ = last.allocate().await;
            } else {
                last.clear_from(end.at).await.map_err(OpenError::io("clear the end of", last.path()))?;
            }
        }
        if self.exit == Exit::Unclean {
            // What a killed process wrote may be in the page cache only, and consumers are about to see it. After a failed
            // sync the kernel even takes such pages for clean, so that only writing them again makes a sync bring them.
            let from = end.unsynced_from.unwrap_or(end.at);
            for segment in self.segments.iter().filter(|segment| segment.end() > from) {
                let rewritten = segment.rewrite(from.max(segment.base()), end.at.min(segment.end()));
                rewritten.map_err(OpenError::io("write again the end of", segment.path()))?;
            }
            for segment in self.segments.iter().filter(|segment| segment.end() > plan.verify_from) {
                segment.file().sync().await.map_err(OpenError::io("sync", segment.path()))?;
            }
        }
        Ok(())
    }
}
