//! Flow control: permits for bytes in flight.
//!
//! A request takes a permit for its bytes before it is handed on and gives it back once it is answered. No permit means
//! SYSTEM_BUSY. Both a session and the whole broker have a budget, so that neither one client nor many small ones can
//! fill the memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use super::BrokerError;

/// Bytes that may be in flight. Cheap to clone; all clones share one account.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    used: AtomicUsize,
    limit: usize,
    refused: AtomicUsize,
}

impl ByteBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> ByteBudget {
        ByteBudget { shared: Arc::new(Shared { used: AtomicUsize::new(0), limit, refused: AtomicUsize::new(0) }) }
    }

    /// Bytes in flight.
    pub fn used(&self) -> usize {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// How often a permit was refused.
    pub fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Takes `bytes`. A request larger than the whole budget goes through alone, so that a small budget slows large
    /// messages down and does not lock them out.
    fn take(&self, bytes: usize) -> bool {
        let fits = |used: usize| (used == 0 || used.saturating_add(bytes) <= self.shared.limit).then(|| used + bytes);
        let taken = self.shared.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        if !taken {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    fn give_back(&self, bytes: usize) {
        self.shared.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The budgets that one session's requests draw on.
#[derive(Clone, Debug)]
pub struct SessionFlow {
    session: ByteBudget,
    broker: ByteBudget,
}

/// Bytes in flight; dropping it gives them back.
#[derive(Debug)]
#[must_use = "dropping the permit gives its bytes back"]
pub struct Permit {
    flow: SessionFlow,
    bytes: usize,
}

impl SessionFlow {
    /// A session's own budget of `session_limit` bytes within the broker's.
    pub fn new(session_limit: usize, broker: ByteBudget) -> SessionFlow {
        SessionFlow { session: ByteBudget::new(session_limit), broker }
    }

    /// A permit for `bytes`, or [`BrokerError::Overload`].
    pub fn acquire(&self, bytes: usize) -> Result<Permit, BrokerError> {
        self.take(bytes)?;
        Ok(Permit { flow: self.clone(), bytes })
    }

    fn take(&self, bytes: usize) -> Result<(), BrokerError> {
        if !self.session.take(bytes) {
            return Err(BrokerError::Overload);
        }
        if !self.broker.take(bytes) {
            self.session.give_back(bytes);
            return Err(BrokerError::Overload);
        }
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        self.session.give_back(bytes);
        self.broker.give_back(bytes);
    }

    /// The session's bytes in flight.
    pub fn used(&self) -> usize {
        self.session.used()
    }
}

impl Permit {
    /// Makes it one for `bytes` more: a batch of requests has one permit. On an error it is as before.
    pub fn grow(&mut self, bytes: usize) -> Result<(), BrokerError> {
        self.flow.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives `bytes` of it back.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.flow.give_back(bytes);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.flow.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_cannot_use_up_the_broker() {
        let broker = ByteBudget::new(1000);
        let (greedy, modest) = (SessionFlow::new(600, broker.clone()), SessionFlow::new(600, broker.clone()));
        let first = greedy.acquire(500).unwrap();
        assert_eq!(greedy.acquire(200).err(), Some(BrokerError::Overload));
        let second = modest.acquire(400).unwrap();
        assert_eq!(modest.acquire(150).err(), Some(BrokerError::Overload), "the broker's budget is used up");
        assert_eq!((modest.used(), broker.used()), (400, 900), "a refusal takes nothing");
        drop(first);
        drop(second);
        assert_eq!((greedy.used(), broker.used(), broker.refused()), (0, 0, 1));
    }

    #[test]
    fn a_request_larger_than_the_budget_goes_alone() {
        let flow = SessionFlow::new(100, ByteBudget::new(100));
        let large = flow.acquire(500).unwrap();
        assert!(flow.acquire(1).is_err());
        drop(large);
        assert!(flow.acquire(1).is_ok());
    }

    #[test]
    fn a_permit_of_a_batch_grows_and_is_given_back_once() {
        let flow = SessionFlow::new(100, ByteBudget::new(100));
        let mut batch = flow.acquire(10).unwrap();
        batch.grow(30).unwrap();
        assert_eq!(batch.grow(61), Err(BrokerError::Overload));
        batch.shrink(10);
        assert_eq!(flow.used(), 30);
        drop(batch);
        assert_eq!(flow.used(), 0);
    }
}
