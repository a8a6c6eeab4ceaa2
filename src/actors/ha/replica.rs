//! The actor of a slave: it follows the master it is told of.
//!
//! The master may be an Apache broker: it is addressed with epochs first, and one that does not understand them is asked
//! again in the plain protocol.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{select, Either};
use futures::lock::Mutex;
use futures::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::damage::{next_record, MasterDamage};
use super::{FollowState, HaState};
use crate::actors::log_writer::{Change, LogWriterHandle};
use crate::env::{BoxFuture, Canary, Millis, Stream};
use crate::ha::follower::{FollowError, Follower, Protocol};
use crate::proto::ha::switch::MasterHandshake;
use crate::proto::PhysicalOffset;
use crate::store::config_file::ConfigSaveError;
use crate::store::epoch::Epochs;
use crate::store::{FlushMode, ReplicateError, StoreError};

/// How long a connection attempt may take.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Pause after a connection ended.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Pause before a master is looked at again that this log does not fit to.
const REFUSED_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Bytes of the log that are appended at once.
const APPENDED_BYTES: usize = 256 << 10;
/// How soon a task that rests notices that it is to stop.
const STOP_LOOK: Duration = Duration::from_millis(100);
/// The longest record, or filler, that may come in pieces.
const RECORD_BYTES_MAX: usize = 32 << 20;
/// An Apache master that has the beginning of its log sends it within this time, in milliseconds.
const FIRST_BYTES_MS: u64 = 15_000;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// What the actor is told.
pub enum ReplicaMessage {
    /// Follow this master; `None`: there is none.
    Follow {
        /// Where it is.
        master: Option<Leader>,
    },
    /// Follow nobody any more.
    Stop {
        /// Told when the task that followed has ended.
        done: oneshot::Sender<()>,
    },
}

/// Where a master is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// It serves its log there, `host:port`.
    pub ha_address: String,
    /// It answers requests there, `host:port`, if that is known.
    pub address: Option<String>,
}

/// See the module's text.
pub struct Replica;

/// What the actor starts with.
pub struct ReplicaArguments {
    /// What is known of replication.
    pub ha: HaState,
    /// Appends what the master has.
    pub writer: LogWriterHandle,
    /// This broker's id.
    pub broker_id: u64,
}

/// The running actor.
#[derive(Clone)]
pub struct ReplicaHandle {
    actor: ActorRef<ReplicaMessage>,
}

#[doc(hidden)]
pub struct State {
    arguments: ReplicaArguments,
    followed: Option<Leader>,
    /// Ends the task that follows.
    stop: Arc<AtomicBool>,
    /// Held by the task that follows: the next one begins when it has ended.
    turn: Arc<Mutex<()>>,
}

impl ReplicaHandle {
    /// Starts the actor. Its end is reported to `supervisor`.
    ///
    /// # Errors
    /// If it cannot be spawned.
    pub async fn start<M: ractor::Message>(
        arguments: ReplicaArguments,
        supervisor: &ActorRef<M>,
    ) -> anyhow::Result<ReplicaHandle> {
        let (actor, _) = Actor::spawn_linked(None, Replica, arguments, supervisor.get_cell()).await?;
        Ok(ReplicaHandle { actor })
    }

    /// Follows this master; with `None` nobody.
    pub fn follow(&self, master: Option<Leader>) {
        // An actor that is gone follows nobody.
        let _ = self.actor.cast(ReplicaMessage::Follow { master });
    }
}

impl ReplicaHandle {
    /// Follows nobody any more; when this returns nothing of the last master is under way.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        if self.actor.cast(ReplicaMessage::Stop { done }).is_ok() {
            let _ = stopped.await;
        }
    }
}

impl Actor for Replica {
    type Msg = ReplicaMessage;
    type State = State;
    type Arguments = ReplicaArguments;

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(State { arguments, followed: None, stop: Arc::default(), turn: Arc::default() })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let master = match message {
            ReplicaMessage::Follow { master } => master,
            ReplicaMessage::Stop { done } => {
                state.end();
                state.followed = None;
                state.arguments.ha.set_following(None, FollowState::Alone);
                let turn = Arc::clone(&state.turn);
                ractor::concurrency::spawn(async move {
                    let _turn = turn.lock().await;
                    let _ = done.send(());
                });
                return Ok(());
            }
        };
        if master == state.followed {
            return Ok(());
        }
        state.end();
        state.followed.clone_from(&master);
        let ReplicaArguments { ha, writer, broker_id } = &state.arguments;
        match master {
            Some(master) => {
                let (ha, writer, stop) = (ha.clone(), writer.clone(), Arc::clone(&state.stop));
                let damage = MasterDamage::default();
                let following = Following { ha, writer, broker_id: *broker_id, master, stop, damage };
                let turn = Arc::clone(&state.turn);
                ractor::concurrency::spawn(async move {
                    let _turn = turn.lock().await;
                    following.run().await;
                });
            }
            None => ha.set_following(None, FollowState::Alone),
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Self::Msg>, state: &mut Self::State) -> Result<(), ActorProcessingErr> {
        state.end();
        Ok(())
    }
}

impl State {
    fn end(&mut self) {
        std::mem::take(&mut self.stop).store(true, Ordering::Release);
        self.arguments.ha.signal().notify();
    }
}

/// Why a connection to a master ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("the master closed the connection")]
    Closed,
    #[error("the master cannot be reached: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(transparent)]
    Replicate(#[from] ReplicateError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Epochs(#[from] ConfigSaveError),
    #[error("a record has more than {RECORD_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the log writer has stopped")]
    Stopped,
    #[error("{0}")]
    Refused(String),
}

/// A task that follows one master until it is told to stop.
pub(super) struct Following {
    pub ha: HaState,
    writer: LogWriterHandle,
    broker_id: u64,
    pub master: Leader,
    stop: Arc<AtomicBool>,
    damage: MasterDamage,
}

impl Following {
    async fn run(self) {
        let mut protocol = Protocol::Switch;
        let mut said = String::new();
        while !self.is_stopped() {
            self.tell(FollowState::Connecting);
            let end = match self.connect(protocol).await {
                Ok(()) | Err(End::Stopped) => return,
                Err(end) => end,
            };
            protocol = match end {
                End::Follow(FollowError::Plain) => Protocol::Plain,
                // The next one there may be another broker.
                _ => Protocol::Switch,
            };
            let (state, pause) = match &end {
                End::Refused(why) => (FollowState::Refusing(why.clone()), REFUSED_AGAIN_AFTER),
                End::Replicate(error @ (ReplicateError::Damaged { .. } | ReplicateError::FileSize { .. })) => {
                    (FollowState::Refusing(error.to_string()), REFUSED_AGAIN_AFTER)
                }
                _ => (FollowState::Connecting, RETRY_AFTER),
            };
            if self.is_stopped() {
                return;
            }
            let why = end.to_string();
            if why != said {
                crate::sometimes!("a slave did not follow its master");
                tracing::warn!(
                    master = self.master.ha_address,
                    why,
                    "this slave does not follow its master; trying on"
                );
                said = why;
            }
            self.tell(state);
            self.rest(pause).await;
        }
    }

    /// Sleeps, but not on when it is told to stop.
    async fn rest(&self, pause: Duration) {
        let clock = &self.ha.env().clock;
        let until = clock.monotonic() + pause;
        while !self.is_stopped() && clock.monotonic() < until {
            clock.sleep(STOP_LOOK).await;
        }
    }

    fn tell(&self, state: FollowState) {
        if !self.is_stopped() {
            self.ha.set_following(Some(self.master.ha_address.clone()), state);
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// One connection from its beginning to its end.
    async fn connect(&self, protocol: Protocol) -> Result<(), End> {
        let env = self.ha.env();
        let stream = match select(env.net.connect(&self.master.ha_address), env.clock.sleep(CONNECT_LIMIT)).await {
            Either::Left((stream, _)) => stream?,
            Either::Right(_) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        };
        let mut out = Vec::new();
        let follower = Follower::new(protocol, self.broker_id, self.now(), &mut out);
        let mut link = MasterLink { task: self, stream, follower, out, written: 0, seen: 0, log: Vec::new(), protocol };
        let mut may_be_silent = true;
        match protocol {
            Protocol::Switch => {
                let handshake = link.handshake().await?;
                self.meet(&handshake).await?;
            }
            Protocol::Plain => may_be_silent = self.meet_plainly().await?,
        }
        link.follow(may_be_silent).await
    }

    pub(super) async fn operate(&self, change: Change) -> Result<(), End> {
        Ok(self.writer.operate(change).await.ok_or(End::Stopped)??)
    }

    fn now(&self) -> Millis {
        Millis(self.ha.env().clock.monotonic().as_millis() as i64)
    }
}

/// The connection to a master.
struct MasterLink<'a> {
    task: &'a Following,
    stream: Box<dyn Stream>,
    follower: Follower,
    out: Vec<u8>,
    written: usize,
    seen: u64,
    /// Bytes of the log that came and are not appended.
    log: Vec<u8>,
    protocol: Protocol,
}

impl MasterLink<'_> {
    async fn handshake(&mut self) -> Result<MasterHandshake, End> {
        loop {
            if let Some(handshake) = self.follower.handshake()? {
                return Ok(handshake);
            }
            self.turn().await?;
            if self.task.is_stopped() {
                return Err(End::Stopped);
            }
        }
    }

    /// Follows until something ends it. A plain master may send nothing for long only if it `may_be_silent`.
    async fn follow(&mut self, may_be_silent: bool) -> Result<(), End> {
        let (task, now) = (self.task, self.task.now());
        let store = task.ha.store();
        let mut end = store.end().0;
        if end == 0 && self.protocol == Protocol::Plain {
            // For 0 an Apache master begins with its newest file. The first byte of any log is 0, the highest of a size.
            self.log.push(0);
            end = 1;
        }
        self.follower.begin(end, task.ha.epochs().last(), now, &mut self.out);
        task.tell(FollowState::Following);
        while !task.is_stopped() {
            self.append().await?;
            let waits_for_first = store.end() == store.min() && !may_be_silent;
            if waits_for_first && task.now().since(now) > FIRST_BYTES_MS {
                return Err(End::Refused(
                    "the master sends nothing from the beginning of its log: it is empty, or its oldest files have \
                     expired; in that case copy its `commitlog` folder to this slave while both are stopped"
                        .to_owned(),
                ));
            }
            let held = match store.flush_mode() {
                FlushMode::Sync if !task.ha.env().canary(Canary::SlaveReportsUnsynced) => store.flushed(),
                FlushMode::Sync => store.end(),
                FlushMode::Async => store.end(),
            };
            self.follower.on_held(held.0, task.now(), &mut self.out);
            self.turn().await?;
        }
        Ok(())
    }

    /// Appends what has come.
    async fn append(&mut self) -> Result<(), End> {
        let (task, segment_size) = (self.task, self.task.ha.store().options().segment_size);
        loop {
            let most = APPENDED_BYTES.max(self.log.len() + 1);
            let taken = self.follower.take(segment_size, most, &mut self.log)?;
            if taken.frames == 0 {
                return Ok(());
            }
            if let Some(base) = taken.begins_at {
                task.operate(Change::BeginAnew(PhysicalOffset(base))).await?;
            }
            if let Some(epoch) = taken.epoch {
                // Before the first byte of it: else a crash would leave bytes of which nobody knows whose they are.
                let mut epochs = Epochs::clone(&task.ha.epochs());
                epochs.cut(epoch.start);
                epochs.push(epoch);
                task.ha.save_epochs(epochs).await?;
            }
            let confirmed = taken.confirmed.map(PhysicalOffset);
            if let Some(confirmed) = confirmed {
                task.ha.set_master_confirmed(confirmed.0);
            }
            if task.is_stopped() {
                return Err(End::Stopped);
            }
            let (at, bytes) = (task.ha.store().end(), std::mem::take(&mut self.log));
            let replicated = task.writer.replicate(at, bytes, confirmed).await;
            let replicated = replicated.ok_or(End::Stopped)?;
            self.log = replicated.rest;
            match replicated.result {
                Err(ReplicateError::Damaged { at: damaged, what }) => {
                    self.log.drain(..(damaged.0 - at.0) as usize);
                    let lasts = task.damage.lasts(damaged, &self.log, task.now());
                    if !lasts || task.ha.env().canary(Canary::SlaveStopsAtDamage) {
                        return Err(ReplicateError::Damaged { at: damaged, what }.into());
                    }
                    self.take_damaged(damaged).await?;
                }
                result => result?,
            }
            if self.log.len() > RECORD_BYTES_MAX {
                return Err(End::TooLarge);
            }
        }
    }

    /// Takes what the master has at `at` as it is, up to the next record, if that is here already.
    async fn take_damaged(&mut self, at: PhysicalOffset) -> Result<(), End> {
        let segment_size = self.task.ha.store().options().segment_size;
        let in_file = segment_size - at.0 % segment_size;
        let Some(len) = next_record(&self.log, at.0, in_file) else { return Ok(()) };
        tracing::error!(
            position = at.0,
            bytes = len,
            "the master's log is damaged, and nobody has mended it: this slave has the same damage now; what was there is lost"
        );
        let bytes = self.log.drain(..len).collect();
        self.task.operate(Change::TakeDamaged { at, bytes }).await
    }

    /// Writes what is to be written and waits for something to happen.
    async fn turn(&mut self) -> Result<(), End> {
        let now = self.task.now();
        self.follower.on_tick(now, &mut self.out)?;
        let wait = Duration::from_millis(self.follower.wake_at().since(now).max(1));
        let mut timer = self.task.ha.env().clock.sleep(wait);
        poll_fn(|cx| self.poll(cx, &mut timer)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>, timer: &mut BoxFuture<'static, ()>) -> Poll<Result<(), End>> {
        while self.written < self.out.len() {
            match self.stream.poll_write(cx, &self.out[self.written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(End::Closed)),
                Poll::Ready(Ok(written)) => self.written += written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => break,
            }
        }
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
        let mut came = 0;
        // What is appended at once is gathered first: each append is a message there and one back.
        while came < APPENDED_BYTES {
            match self.stream.poll_read(cx, self.follower.room(READ_BYTES)) {
                Poll::Ready(Ok(read @ 1..)) => {
                    self.follower.on_read(read, self.task.now());
                    came += read;
                }
                // What came before the end counts; the end is there the next time, too.
                _ if came > 0 => break,
                Poll::Ready(Ok(_)) => return Poll::Ready(Err(End::Closed)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => break,
            }
        }
        let mut ready = came > 0;
        // A sync that has ended is news for the master.
        ready |= self.task.ha.signal().poll_changed(&mut self.seen, cx).is_ready();
        ready |= timer.poll_unpin(cx).is_ready();
        match ready {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }
}
