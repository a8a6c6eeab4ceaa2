//! What is to happen later: the one timer queue of a simulation.
//!
//! madsim's timers cannot be taken back and wait at least a millisecond, so network, disk and clocks keep theirs here:
//! one ordered queue, emptied by one task. Entries of the same moment run in the order they were made.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use madsim::time::TimeHandle;

/// Place in the queue: time since the simulation began, then order of arrival.
type Key = (Duration, u64);

enum Entry {
    /// A sleeper that was polled at least once.
    Wake(Waker),
    /// Work of the simulated world.
    Call(Box<dyn FnOnce() + Send>),
}

#[derive(Default)]
struct Inner {
    queue: BTreeMap<Key, Entry>,
    next: u64,
    /// The task that empties the queue, and the next time at which it will look at it by itself.
    driver: Option<Waker>,
    armed: Option<Duration>,
}

/// The timer queue.
pub struct Agenda {
    time: TimeHandle,
    inner: Mutex<Inner>,
}

impl Agenda {
    /// A queue and the task that empties it. Call it once, inside the simulation, on the node that is never killed.
    pub fn start() -> Arc<Agenda> {
        let agenda = Arc::new(Agenda { time: TimeHandle::current(), inner: Mutex::default() });
        madsim::task::spawn_local(drive(agenda.clone()));
        agenda
    }

    /// Simulated time since the start.
    pub fn now(&self) -> Duration {
        self.time.elapsed()
    }

    /// Simulated wall-clock time without any node's error.
    pub fn wall(&self) -> std::time::SystemTime {
        self.time.now_time()
    }

    /// Runs `work` at the time `at`, or as soon as possible if that has passed.
    pub fn at(&self, at: Duration, work: impl FnOnce() + Send + 'static) {
        self.push(at, Entry::Call(Box::new(work)));
    }

    /// Completes after `duration`. Dropping it takes it off the queue.
    pub fn sleep(self: &Arc<Self>, duration: Duration) -> Sleep {
        Sleep { agenda: self.clone(), deadline: self.now() + duration, key: None }
    }

    fn push(&self, at: Duration, entry: Entry) -> Key {
        let mut inner = self.inner.lock().expect("agenda");
        let key = (at, inner.next);
        inner.next += 1;
        inner.queue.insert(key, entry);
        if inner.armed.is_none_or(|armed| at < armed) {
            if let Some(driver) = inner.driver.take() {
                driver.wake();
            }
        }
        key
    }

    fn pop_due(&self, now: Duration) -> Option<Entry> {
        let mut inner = self.inner.lock().expect("agenda");
        let first = inner.queue.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

/// Empties the queue for ever. madsim's timers cannot be taken back, so one that was set for a later time is used when
/// that time comes, and another one is set only for what is earlier than all of them.
fn drive(agenda: Arc<Agenda>) -> impl Future<Output = ()> {
    let mut alarms: BTreeSet<Duration> = BTreeSet::new();
    poll_fn(move |cx| loop {
        while let Some(entry) = agenda.pop_due(agenda.now()) {
            match entry {
                Entry::Wake(waker) => waker.wake(),
                Entry::Call(work) => work(),
            }
        }
        let now = agenda.now();
        while alarms.first().is_some_and(|alarm| *alarm <= now) {
            alarms.pop_first();
        }
        let mut inner = agenda.inner.lock().expect("agenda");
        let next = inner.queue.first_key_value().map(|(&(at, _), _)| at);
        let missing = next.filter(|at| alarms.first().is_none_or(|alarm| at < alarm));
        alarms.extend(missing);
        inner.driver = Some(cx.waker().clone());
        inner.armed = alarms.first().copied();
        drop(inner);
        let Some(at) = missing else { return Poll::Pending };
        let deadline = agenda.time.now_instant() + at.saturating_sub(now);
        let mut alarm = pin!(agenda.time.sleep_until(deadline));
        // A new sleep is rounded up to a millisecond, a reset one is not.
        alarm.as_mut().reset(deadline);
        if alarm.poll(cx).is_pending() {
            return Poll::Pending;
        }
    })
}

/// Made by [`Agenda::sleep`].
pub struct Sleep {
    agenda: Arc<Agenda>,
    deadline: Duration,
    key: Option<Key>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = Entry::Wake(cx.waker().clone());
        if self.agenda.now() >= self.deadline {
            return Poll::Ready(());
        }
        match self.key {
            Some(key) => {
                let mut inner = self.agenda.inner.lock().expect("agenda");
                inner.queue.insert(key, waker);
            }
            None => self.key = Some(self.agenda.push(self.deadline, waker)),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            // A task that is dropped because a panic unwinds must not panic again.
            if let Ok(mut inner) = self.agenda.inner.lock() {
                inner.queue.remove(&key);
            }
        }
    }
}
