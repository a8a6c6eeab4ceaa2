//! What the writer does beside appending: the next segment, present pages, queue files, the checkpoint. The work that
//! may wait for the device is handed out as futures, so that it runs beside the writer.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use futures::future::{FutureExt, Shared};

use super::append::KEPT_ENTRIES;
use super::pages::PagesAhead;
use super::LogWriter;
use crate::env::{BoxFuture, Millis};
use crate::proto::PhysicalOffset;
use crate::store::checkpoint::{Checkpoint, CheckpointFile};
use crate::store::config_file::ConfigFile;
use crate::store::consume_queue::ConsumeQueue;
use crate::store::error::{Refusal, StoreError};
use crate::store::queue_table::QueueTable;
use crate::store::segment::Segment;
use crate::store::trouble::Trouble;

/// Queues whose entries go to their files in one call of [`LogWriter::maintain`] at most.
const QUEUES_PER_PASS: usize = 512;
/// With more dirty queues than this, none keeps written entries in memory.
const KEEPING_QUEUES_MAX: usize = 4096;
/// A queue that got nothing for this long gives its memory back.
const COOLING_MS: u64 = 10_000;
/// How often the checkpoint is written.
const CHECKPOINT_MS: u64 = 1_000;
/// How often queue files are synced and the table of queue lengths is written: what recovery has to read again.
const QUEUE_SYNC_MS: u64 = 10_000;

type Prepared = Result<Arc<Segment>, Arc<io::Error>>;

/// A segment being made. Its job's value may come back long after the writer waited for it itself, when the next one is
/// being made already.
#[derive(Clone)]
struct Preparation {
    number: u64,
    segment: Shared<BoxFuture<'static, Prepared>>,
}

/// State of the work beside appending.
pub(super) struct Upkeep {
    next: Option<Arc<Segment>>,
    /// The segment being made. Shared: the writer may have to wait for it itself.
    preparing: Option<Preparation>,
    /// Segments asked for so far; tells one preparation from the next.
    preparations: u64,
    pub(super) pages: PagesAhead,
    /// Queues by the time their entries were written, with their length then.
    cooling: VecDeque<(Millis, Arc<ConsumeQueue>, u64)>,
    checkpoint: CheckpointState,
    preparing_ahead: Trouble,
    saving: Trouble,
    saving_queues: Trouble,
}

/// What the files of the store's state hold and will hold.
struct CheckpointState {
    /// The values as they are true now.
    current: Checkpoint,
    saved: Checkpoint,
    saved_at: Millis,
    files: Option<StateFiles>,
    /// A queue sync that has begun: everything below `log_end` gets into queue files, then they are synced.
    gathering: Option<Gathering>,
    queues_synced_at: Millis,
}

/// The files themselves travel with the job that writes them.
pub(crate) struct StateFiles {
    pub(crate) checkpoint: CheckpointFile,
    pub(crate) queue_table: ConfigFile,
}

struct Gathering {
    /// The lengths of all queues when it began: what has to be in their files.
    table: QueueTable,
    store_time: Millis,
    /// Dirty queues that stood before the others when it began and are still to be written.
    left: usize,
}

/// A job of [`LogWriter::maintain`] has ended; goes to [`LogWriter::finish_job`].
pub struct JobDone(Done);

enum Done {
    Pages,
    Segment(u64, Prepared),
    Checkpoint { files: StateFiles, saved: Checkpoint, queues: Option<Gathering>, result: io::Result<()> },
}

impl Upkeep {
    pub(super) fn new(files: StateFiles, checkpoint: Checkpoint, now: Millis) -> Upkeep {
        Upkeep {
            next: None,
            preparing: None,
            preparations: 0,
            pages: PagesAhead::default(),
            cooling: VecDeque::new(),
            checkpoint: CheckpointState {
                current: checkpoint,
                saved: checkpoint,
                saved_at: now,
                files: Some(files),
                gathering: None,
                queues_synced_at: now,
            },
            preparing_ahead: Trouble::default(),
            saving: Trouble::default(),
            saving_queues: Trouble::default(),
        }
    }

    /// What was confirmed when the checkpoint was last saved.
    pub(super) fn confirmed_before(&self) -> PhysicalOffset {
        self.checkpoint.saved.confirmed()
    }

    /// The prepared segment, if there is one.
    pub(super) fn next(&self) -> Option<&Arc<Segment>> {
        self.next.as_ref()
    }

    /// Takes the prepared segment, if there is one.
    pub(super) fn take_next(&mut self) -> Option<Arc<Segment>> {
        self.next.take()
    }

    /// The segment made ahead, or being made, if any.
    pub(super) async fn take_unused(&mut self) -> Option<Arc<Segment>> {
        match (self.next.take(), self.preparing.take()) {
            (None, Some(preparing)) => preparing.segment.await.ok(),
            (next, _) => next,
        }
    }

    /// The state's files and what the checkpoint has to say, for the last save.
    pub(super) fn take_state(&mut self) -> Result<(StateFiles, Checkpoint), StoreError> {
        let files = self.checkpoint.files.take().ok_or_else(|| {
            StoreError::io("save the checkpoint")(io::Error::other("an earlier save has not come back"))
        })?;
        Ok((files, self.checkpoint.current))
    }

    /// The log was cut behind a record stored at `store_time`: no queue's length is known on disk, and nothing that was
    /// stored later is. The state's files must be here.
    pub(super) async fn begin_again(&mut self, queue_table: ConfigFile, store_time: Millis) -> io::Result<()> {
        let state = &mut self.checkpoint;
        let checkpoint = &mut state.current;
        checkpoint.physic_msg_timestamp = checkpoint.physic_msg_timestamp.min(store_time);
        checkpoint.logics_msg_timestamp = checkpoint.logics_msg_timestamp.min(store_time);
        state.gathering = None;
        let Some(files) = &mut state.files else { return Err(io::Error::other("an earlier save has not come back")) };
        files.queue_table = queue_table;
        files.checkpoint.save(checkpoint).await?;
        state.saved = *checkpoint;
        Ok(())
    }

    /// The log has been synced up to a record stored at `store_time`.
    pub(super) fn on_flushed(&mut self, store_time: Millis) {
        let physic = &mut self.checkpoint.current.physic_msg_timestamp;
        *physic = store_time.max(*physic);
    }
}

impl LogWriter {
    /// Does the small things that are due and returns the jobs that may wait for the device, mostly none: run each
    /// beside the writer and bring its value to [`LogWriter::finish_job`]. To be called every 100 ms to 1 s, and when
    /// [`LogWriter::wants_upkeep`] says so.
    pub fn maintain(&mut self, now: Millis) -> Vec<BoxFuture<'static, JobDone>> {
        self.write_queues(now);
        self.cool_queues(now);
        let mut jobs = Vec::new();
        jobs.extend(self.prepare_pages().map(|pages| pages.map(|()| JobDone(Done::Pages)).boxed()));
        jobs.extend(self.prepare_ahead());
        jobs.extend(self.save_state(now));
        jobs
    }

    /// Whether the pages or the segment ahead run short, so that [`LogWriter::maintain`] should not wait for its time.
    /// Cheap: to be asked after every batch.
    pub fn wants_upkeep(&self) -> bool {
        self.wants_pages() || self.wants_segment()
    }

    /// Takes note of an ended job.
    pub fn finish_job(&mut self, done: JobDone) {
        match done.0 {
            Done::Pages => self.upkeep.pages.done(),
            Done::Segment(number, prepared) => self.take_prepared(number, prepared),
            Done::Checkpoint { files, saved, queues, result } => {
                // The log is what counts: without the checkpoint a recovery only reads more of it.
                // Two files: the one may find space where the other does not.
                match queues {
                    Some(_) => self.upkeep.saving_queues.note("save the lengths of the queues", &result),
                    None => self.upkeep.saving.note("save the checkpoint", &result),
                }
                let state = &mut self.upkeep.checkpoint;
                state.files = Some(files);
                if result.is_ok() {
                    state.saved = saved;
                    if let Some(queues) = queues {
                        self.store.queues_synced.fetch_max(queues.table.log_end, Ordering::AcqRel);
                    }
                }
            }
        }
    }

    /// Waits until the active segment has space, for [`LogWriter::finish_append`].
    pub(super) async fn make_room(&mut self) -> Result<(), StoreError> {
        if let Some(active) = self.active.clone().filter(|active| !active.is_allocated()) {
            active.allocate().await.map_err(|error| self.no_segment(&error))?;
        } else if self.upkeep.next.is_none() {
            let Preparation { number, segment } = self.prepare();
            let prepared = segment.await;
            if let Err(error) = &prepared {
                let refused = self.no_segment(error);
                self.upkeep.preparing = None;
                return Err(refused);
            }
            self.take_prepared(number, prepared);
        }
        Ok(())
    }

    /// There is no segment yet or half of it is used, and the next one does not exist.
    fn wants_segment(&self) -> bool {
        let half = self.store.options.segment_size / 2;
        let used = self.active.as_ref().is_none_or(|active| self.position - active.base() >= half);
        used && self.upkeep.next.is_none() && self.upkeep.preparing.is_none()
    }

    fn prepare_ahead(&mut self) -> Option<BoxFuture<'static, JobDone>> {
        self.wants_segment().then(|| {
            let Preparation { number, segment } = self.prepare();
            segment.map(move |prepared| JobDone(Done::Segment(number, prepared))).boxed()
        })
    }

    /// Begins to make the next segment, or joins who is at it.
    fn prepare(&mut self) -> Preparation {
        if let Some(preparing) = &self.upkeep.preparing {
            return preparing.clone();
        }
        let base = self.active.as_ref().map_or(self.position, |active| active.end());
        let options = &self.store.options;
        let made = Segment::create(self.store.env.clone(), options.commit_log_dir.clone(), base, options.segment_size);
        let segment = made.map(|made| made.map(Arc::new).map_err(Arc::new)).boxed().shared();
        self.upkeep.preparations += 1;
        let preparation = Preparation { number: self.upkeep.preparations, segment };
        self.upkeep.preparing = Some(preparation.clone());
        preparation
    }

    fn take_prepared(&mut self, number: u64, prepared: Prepared) {
        // The writer may have waited for it itself, before the job's own value came back.
        if self.upkeep.preparing.take_if(|preparing| preparing.number == number).is_none() {
            return;
        }
        self.upkeep.preparing_ahead.note("make the next segment ahead of time", &prepared);
        self.upkeep.next = prepared.ok();
    }

    /// The error for a batch that found no segment. Nothing was written, so the next batch may try again.
    fn no_segment(&self, error: &io::Error) -> StoreError {
        if error.kind() == io::ErrorKind::StorageFull {
            self.store.no_space.store(true, Ordering::Release);
        }
        let directory = self.store.options.commit_log_dir.display();
        let reason = format!("cannot make the next segment in {directory}: {error}").into();
        StoreError::Refused { refusal: Refusal::NoSegment, reason }
    }

    /// Writes the entries of dirty queues to their files.
    fn write_queues(&mut self, now: Millis) {
        let keep = if self.dirty.len() > KEEPING_QUEUES_MAX { 0 } else { KEPT_ENTRIES };
        for _ in 0..self.dirty.len().min(QUEUES_PER_PASS) {
            let Some(queue) = self.dirty.pop_front() else { break };
            if let Err(error) = queue.write_tail(&self.store.files, keep) {
                self.dirty.push_front(queue);
                self.refuse_queue_files(&error);
                return;
            }
            if let Some(gathering) = &mut self.upkeep.checkpoint.gathering {
                gathering.left = gathering.left.saturating_sub(1);
            }
            let length = queue.next();
            self.upkeep.cooling.push_back((now, queue, length));
        }
        self.store.state.allow(Refusal::QueueFiles);
    }

    /// Writes the entries of one queue whose memory is full.
    pub(super) fn write_queue(&mut self, queue: &Arc<ConsumeQueue>) {
        if let Err(error) = queue.write_tail(&self.store.files, KEPT_ENTRIES) {
            self.refuse_queue_files(&error);
        }
    }

    fn refuse_queue_files(&self, error: &io::Error) {
        let root = self.store.options.root.display();
        self.store.state.refuse(Refusal::QueueFiles, || format!("cannot write consume queues in {root}: {error}"));
    }

    fn cool_queues(&mut self, now: Millis) {
        let cooled = |(written, ..): &(Millis, Arc<ConsumeQueue>, u64)| now.since(*written) >= COOLING_MS;
        while self.upkeep.cooling.front().is_some_and(cooled) {
            let Some((_, queue, length)) = self.upkeep.cooling.pop_front() else { break };
            if queue.next() == length {
                queue.rest();
            }
        }
    }

    /// Writes the checkpoint, and with it, every now and then, syncs queue files and writes the table of their lengths.
    fn save_state(&mut self, now: Millis) -> Option<BoxFuture<'static, JobDone>> {
        self.gather(now);
        let flushed = self.store.log.flushed();
        let confirmed = self.store.log.confirmed().min(flushed);
        let state = &mut self.upkeep.checkpoint;
        state.current.confirm_phy_offset = confirmed as i64;
        state.current.index_msg_timestamp = Millis(self.store.index_synced.load(Ordering::Acquire));
        let gathered =
            state.gathering.as_ref().is_some_and(|queues| queues.left == 0 && queues.table.log_end <= flushed);
        let due = now.since(state.saved_at) >= CHECKPOINT_MS && state.current != state.saved;
        if !gathered && !due {
            return None;
        }
        let mut files = state.files.take()?;
        state.saved_at = now;
        let queues = if gathered { state.gathering.take() } else { None };
        if let Some(queues) = &queues {
            state.current.logics_msg_timestamp = queues.store_time.max(state.current.logics_msg_timestamp);
        }
        let saved = state.current;
        let store = Arc::clone(&self.store);
        let table = queues.as_ref().map(|queues| (store.files.take_unsynced(), queues.table.encode()));
        Some(Box::pin(async move {
            let result = async {
                if let Some((unsynced, table)) = table {
                    store.files.sync(unsynced).await?;
                    let table = table.map_err(io::Error::other)?;
                    files.queue_table.save(&table).await.map_err(io::Error::other)?;
                    store.save_deleted_topics().await?;
                }
                files.checkpoint.save(&saved).await
            };
            let result = result.await;
            JobDone(Done::Checkpoint { files, saved, queues, result })
        }))
    }

    /// Begins a queue sync when one is due and there is something new.
    fn gather(&mut self, now: Millis) {
        let state = &mut self.upkeep.checkpoint;
        if state.gathering.is_some() || state.files.is_none() {
            return;
        }
        let new = self.position > self.store.queues_synced.load(Ordering::Acquire);
        let due = new && now.since(state.queues_synced_at) >= QUEUE_SYNC_MS;
        if due || self.store.queue_deleted.swap(false, Ordering::AcqRel) {
            state.queues_synced_at = now;
            let table = self.queue_table();
            let state = &mut self.upkeep.checkpoint;
            state.gathering = Some(Gathering { table, store_time: self.last_store_time, left: self.dirty.len() });
        }
    }
}
