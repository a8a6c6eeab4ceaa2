//! What a broker is to its group, as everybody in it may ask at any time.
//!
//! A [`Role`] is a few atomics behind one handle: sessions ask it for every send and pull, and neither wait nor lock.
//! Whatever depends on being the master (taking messages, delivering delayed ones, resetting offsets) asks it each time
//! and remembers nothing, so that a change of the role counts at once.
//!
//! A slave becomes the master in [`Step`]s, one after the other:
//!
//! ```text
//! slave ─▶ StopFollowing ─▶ AskOthers ─▶ StopCopying ─▶ LowerOffsets ─▶ BeginEpoch ─▶ SaveRole
//!   ▲            └──────────────┴─────────────┴──────────────┴─────────────┴────────────┤
//!   └──────────── a step that fails: it follows again                                   ▼
//!                                         master ◀─ Register ◀─ TakeWrites ◀─ Supersede ┘
//! ```
//!
//! Sends are refused, with an answer that has them tried elsewhere or again, until the last but one (ROL-10). A [`Promotion`]
//! only says which step is next; whoever drives it, a person's request today, carries them out.

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
    changing: AtomicBool,
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
            changing: AtomicBool::new(false),
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

    /// Whether the role is being changed: nobody begins to follow a master meanwhile.
    pub fn is_changing(&self) -> bool {
        self.0.changing.load(Ordering::Acquire)
    }

    /// Another broker has become the master of this one's name meanwhile: what this one still took would be on it alone.
    /// `true` if it took messages until now.
    pub fn fence(&self) -> bool {
        self.0.takes_writes.swap(false, Ordering::AcqRel)
    }

    /// It is the master from now on.
    fn take_writes(&self) {
        self.0.broker_id.store(MASTER_ID, Ordering::Release);
        self.0.master_registered.store(false, Ordering::Release);
        self.0.takes_writes.store(true, Ordering::Release);
    }
}

/// What is to be done on the way from a slave to the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Take no byte of the old master's log any more: from here on the log is this broker's.
    StopFollowing,
    /// Have the other slaves leave the old master too, which hangs perhaps and goes on: with one of them it would go on
    /// acknowledging (ROL-3). None of them may have more of the log than this one.
    AskOthers,
    /// Take nothing of its tables any more.
    StopCopying,
    /// Offsets above the end of their queue come down to it: the messages between are lost with the old master, and others
    /// will get their numbers.
    LowerOffsets,
    /// Begin an epoch where the log ends, so that every other broker of the name finds where its log parts from this one.
    BeginEpoch,
    /// Read what producers have not decided. Only now is what the old master's end cut in two the last thing in the log.
    LoadTransactions,
    /// Save that it is the master, so that it still is after a restart.
    SaveRole,
    /// Tell the old master, should it be there, that it is none any more. One that hangs or cannot be reached is told later.
    Supersede,
    /// Take messages, and deliver delayed ones. [`Promotion::done`] has published the role when this is next.
    TakeWrites,
    /// Tell the NameServers.
    Register,
}

/// Why a broker is not promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromoteError {
    /// There is nothing to do.
    #[error("this broker is the master")]
    IsMaster,
    /// One change at a time.
    #[error("this broker is being promoted already")]
    UnderWay,
    /// Two masters would take messages of which each loses some.
    #[error("the NameServers name a master: stop it first")]
    MasterIsThere,
}

/// A promotion under way. However it ends, another one may begin then.
#[derive(Debug)]
pub struct Promotion {
    role: Role,
    step: Step,
}

/// How a promotion goes on.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// With this step.
    Next(Step),
    /// It is over: the broker is the master.
    Finished,
    /// It is over, and the broker is a slave as before: have it follow its master again.
    GivenUp {
        /// The step that failed.
        step: Step,
        /// Why.
        why: String,
    },
}

impl Promotion {
    /// Begins, with [`Step::StopFollowing`]. `despite_master`: although NameServers name a master.
    ///
    /// # Errors
    /// Why not.
    pub fn begin(role: &Role, despite_master: bool) -> Result<Promotion, PromoteError> {
        if role.takes_writes() {
            return Err(PromoteError::IsMaster);
        }
        if role.master_is_registered() && !despite_master {
            return Err(PromoteError::MasterIsThere);
        }
        if role.0.changing.swap(true, Ordering::AcqRel) {
            return Err(PromoteError::UnderWay);
        }
        Ok(Promotion { role: role.clone(), step: Step::StopFollowing })
    }

    /// The step to carry out.
    pub fn step(&self) -> Step {
        self.step
    }

    /// The step has been carried out, or not. After [`Step::SaveRole`] there is no way back: what fails then is tried again
    /// by whoever does it anyway.
    pub fn done(&mut self, result: Result<(), String>) -> Progress {
        let next = match self.step {
            Step::StopFollowing => Step::AskOthers,
            Step::AskOthers => Step::StopCopying,
            Step::StopCopying => Step::LowerOffsets,
            Step::LowerOffsets => Step::BeginEpoch,
            Step::BeginEpoch => Step::LoadTransactions,
            Step::LoadTransactions => Step::SaveRole,
            Step::SaveRole => Step::Supersede,
            Step::Supersede => Step::TakeWrites,
            Step::TakeWrites => Step::Register,
            Step::Register => return Progress::Finished,
        };
        match result {
            Err(why) if !self.role.takes_writes() => return Progress::GivenUp { step: self.step, why },
            _ => {}
        }
        if next == Step::TakeWrites {
            self.role.take_writes();
        }
        self.step = next;
        Progress::Next(next)
    }
}

impl Drop for Promotion {
    fn drop(&mut self) {
        self.role.0.changing.store(false, Ordering::Release);
    }
}

impl Default for Role {
    fn default() -> Role {
        Role::master()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ROL-10: messages that came while a node changed its role were lost.
    #[test]
    fn rol_10_nothing_is_taken_before_all_is_ready() {
        let role = Role::slave(2);
        let mut promotion = Promotion::begin(&role, false).unwrap();
        let mut steps = vec![promotion.step()];
        while let Progress::Next(step) = promotion.done(Ok(())) {
            assert_eq!(role.takes_writes(), matches!(step, Step::TakeWrites | Step::Register), "{step:?}");
            steps.push(step);
        }
        assert_eq!(steps.len(), 10);
        drop(promotion);
        assert_eq!((role.broker_id(), role.is_changing()), (MASTER_ID, false));
        assert_eq!(Promotion::begin(&role, true).unwrap_err(), PromoteError::IsMaster);
    }

    #[test]
    fn a_promotion_that_fails_leaves_a_slave() {
        let role = Role::slave(2);
        for fails_at in 0..7 {
            let mut promotion = Promotion::begin(&role, false).unwrap();
            assert_eq!(Promotion::begin(&role, false).unwrap_err(), PromoteError::UnderWay);
            (0..fails_at).for_each(|_| drop(promotion.done(Ok(()))));
            let step = promotion.step();
            assert_eq!(promotion.done(Err("no".into())), Progress::GivenUp { step, why: "no".into() });
            assert!(role.is_slave() && role.broker_id() == 2);
        }
        role.set_master_registered(true);
        assert_eq!(Promotion::begin(&role, false).unwrap_err(), PromoteError::MasterIsThere);
        assert!(Promotion::begin(&role, true).is_ok());
    }
}
