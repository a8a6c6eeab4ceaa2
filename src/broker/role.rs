//! What a broker is to its group, as everybody in it may ask at any time.
//!
//! A [`Role`] is a few atomics behind one handle: sessions ask it for every send and pull, and neither wait nor lock.
//! Whatever depends on being the master (taking messages, delivering delayed ones, resetting offsets) asks it each time
//! and remembers nothing, so that a change of the role counts at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// The id of a master within its broker name; slaves have larger ids.
pub const MASTER_ID: u64 = 0;

/// A broker's role. Cheap to clone; all clones tell the same.
#[derive(Clone, Debug)]
pub struct Role(Arc<Published>);

#[derive(Debug)]
struct Published {
    takes_writes: AtomicBool,
    broker_id: AtomicU64,
    master_registered: AtomicBool,
}

impl Role {
    /// A master takes messages from the start.
    pub fn master() -> Role {
        Role::new(MASTER_ID, true)
    }

    /// A slave; no master of its name is known yet.
    pub fn slave(broker_id: u64) -> Role {
        Role::new(broker_id, false)
    }

    fn new(broker_id: u64, takes_writes: bool) -> Role {
        Role(Arc::new(Published {
            takes_writes: AtomicBool::new(takes_writes),
            broker_id: AtomicU64::new(broker_id),
            master_registered: AtomicBool::new(false),
        }))
    }

    /// Whether it takes messages, and does by itself what stores some: only a master does.
    #[inline]
    pub fn takes_writes(&self) -> bool {
        self.0.takes_writes.load(Ordering::Acquire)
    }

    /// Whether it copies a master. One that is being promoted is a slave to the last step.
    #[inline]
    pub fn is_slave(&self) -> bool {
        !self.takes_writes()
    }

    /// 0 for a master, else the slave's own.
    pub fn broker_id(&self) -> u64 {
        self.0.broker_id.load(Ordering::Acquire)
    }

    /// Whether a NameServer names a master of this broker's name: then clients are sent there.
    #[inline]
    pub fn master_is_registered(&self) -> bool {
        self.0.master_registered.load(Ordering::Acquire)
    }

    /// What the NameServers say; `true` if they said something else before.
    pub fn set_master_registered(&self, registered: bool) -> bool {
        self.0.master_registered.swap(registered, Ordering::AcqRel) != registered
    }
}

impl Default for Role {
    fn default() -> Role {
        Role::master()
    }
}
