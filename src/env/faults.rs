//! Faults that simulations inject into the product itself.

use std::sync::Arc;

/// A bug planted on purpose: a checker counts once it has found one of these. Never on in the shipped build.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "sim", derive(Debug, serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Canary {
    /// A send is acknowledged under SYNC_FLUSH before its bytes are synced.
    AcknowledgeBeforeSync,
    /// A new log segment's directory entry is not synced.
    NoDirectorySync,
    /// Recovery trusts the file's length instead of checking records.
    TrustFileLength,
    /// Recovery builds queues of deleted topics from what the log still holds of them.
    ReviveDeletedTopics,
    /// A sync that failed counts as one that did not.
    IgnoreSyncError,
    /// Recovery does not compare bodies with their checksums.
    SkipChecksums,
    /// Recovery leaves queue entries of records that are not in the log any more.
    QueuesAheadOfLog,
    /// Under SYNC_FLUSH consumers see messages that are not synced yet.
    ShowUnsynced,
    /// A sync that takes too long is answered as one that has ended.
    AcknowledgeOnTimeOut,
    /// A batch that continues in a new segment is written there as a whole.
    RewriteBatch,
    /// Files are deleted long before their time.
    DeleteYoungFiles,
    /// Recovery takes a record whose properties were never written for whole.
    TornPropertiesKept,
    /// A slave that is promoted, or a broker that starts, passes over the half messages that wait already.
    PromotedForgetsHalves,
    /// Under ASYNC_FLUSH the log is never synced.
    NeverSynced,
    /// A SYNC_MASTER that hears nobody gives out and renews locks all the same.
    CutOffMasterLocks,
    /// A promoted slave does not tell the old master, and a master that starts asks nobody whether it still is one.
    OldMasterNotTold,
    /// A slave that hears of a deleted topic deletes whatever it has of that name.
    SlaveDeletesByItsOwnEnd,
    /// A master that lost what its slaves have confirmed goes on.
    LostMasterGoesOn,
    /// A master that comes back does not ask its slaves for the offsets that groups committed there.
    KeptOffsetsForgotten,
    /// A damaged record is passed over, although another broker has it.
    DamageSkipped,
    /// A slave waits for ever for damage in its master's log to be mended, although nobody has what was there.
    SlaveStopsAtDamage,
    /// A slave deletes files by its own rules alone, whatever its master still needs of them.
    SlaveDeletesFirst,
    /// A disk that has space again is still taken for full.
    FullForEver,
    /// A pull that begins to wait while another one waits is not told of messages.
    LostWakeUp,
    /// A pull that found messages but none that matches goes on at the end of its queue.
    UnmatchedSkipsAhead,
    /// A reply is handed to the one who sent it.
    ReplyGoesBack,
    /// A pull that has waited forgets its filter.
    WokenUnfiltered,
    /// A member that lost a queue still commits offsets of it.
    LateCommitCounts,
    /// Consumer offsets are not saved.
    OffsetsNotSaved,
    /// Who asks for a group's offset is told where it began its last pull.
    PullsForCommits,
    /// After a crash offsets above the end of their queue stay.
    OffsetsAboveEnd,
    /// A new group begins at the end of a young queue.
    NewGroupAtEnd,
    /// A topic is acknowledged before it is saved.
    TopicNotSaved,
    /// What has changed since `topics.json` was written is not looked at when a broker starts.
    TopicChangesForgotten,
    /// A goodbye on an old connection removes what was registered since on a newer one.
    LateGoodbye,
    /// A broker that registers again is still tied to its old connection, and goes with it.
    OldConnectionCounts,
    /// Brokers that register in time are taken for dead.
    LivingBrokerExpires,
    /// A message that could not be taken back is acknowledged all the same.
    HandBackErrorIgnored,
    /// Handing a message back does not count as a try.
    RetryForEver,
    /// A message that was tried as often as it may goes nowhere.
    NoDeadLetter,
    /// Delayed messages are delivered a second early.
    DelayedTooEarly,
    /// After a start nobody knows which delayed messages were delivered, and those that are there are taken for it.
    DelayForgotten,
    /// Messages with a time of their own are delivered a second early.
    TimerTooEarly,
    /// After a crash the timer does not look which messages it has delivered.
    TimerForgetsCopies,
    /// Segments are deleted although messages wait in them.
    RetentionTakesTimers,
    /// A message comes although it was taken back.
    TimerForgetsRecalls,
    /// A message that the timer could not deliver at once is not tried again.
    TimerGivesUp,
    /// A queue that somebody has locked is granted to another one too.
    LockNotExclusive,
    /// Renewing a lock does not make it last longer.
    LockNotRenewed,
    /// A lock of a client that is gone stays for ever.
    LockForEver,
    /// Anybody can give anybody's queue back.
    AnybodyUnlocks,
    /// A lock ends with its connection, while its client trusts in it.
    LockEndsWithConnection,
    /// A start does not look which messages were sent lately.
    DuplicatesForgotten,
    /// Who holds which queue is not saved.
    LocksNotSaved,
    /// A slave that becomes the master gives out locks at once.
    PromotedLocksAtOnce,
    /// A start does not know of resets that groups have not taken up.
    ResetsForgotten,
    /// Whoever lost a queue still commits in it.
    FencingOff,
    /// What the old master still says is taken over after a promotion.
    StaleOffsetsPushed,
    /// A slave is not told of changed groups.
    SlaveMissesChanges,
    /// A client whose connection ended stays a member of its groups.
    DeadMemberStays,
    /// What a slave says it has is believed, however much that is.
    SlaveOffsetTrusted,
    /// A slave that is gone counts as one that has everything.
    AbsentSlaveCounts,
    /// A SYNC_MASTER answers before slaves have the message.
    AcknowledgeBeforeSlaves,
    /// Consumers of a SYNC_MASTER see messages that slaves do not have.
    ShowUnreplicated,
    /// A slave with SYNC_FLUSH says that it has what is not synced there.
    SlaveReportsUnsynced,
    /// A master begins no epoch when it starts.
    NoNewEpoch,
    /// A transaction that was rolled back can still be committed (#8158).
    CommitAfterRollback,
    /// Two half messages of one transaction are decided about apart (#10199).
    HalvesApart,
    /// A transaction can be committed as often as its producer says so (#1517).
    CommitAgain,
    /// A transaction whose producer was asked often enough goes nowhere.
    NoGivenUpTopic,
    /// A question that nobody was there to hear counts as one.
    UnaskedCounts,
    /// Some runs fail although nothing is wrong.
    FailOnPurpose,
    /// Random numbers come from the machine that runs the simulation: no run can be repeated.
    RealEntropy,
    /// A consumer of the client library commits what it has pulled.
    ClientCommitsPulled,
    /// A call of the client library's orderly listener goes on after its lock's lease.
    ClientOutlivesLock,
    /// The client library takes a message for handed back though nobody took it.
    ClientForgetsFailures,
    /// The client library calls a listener again only when its last call is over, whatever the concurrency.
    ClientCallsOneByOne,
    /// The client library keeps a route whose brokers have no master until it asks for routes by itself.
    StaleRouteKept,
}

/// The planted bugs of an environment, for rules that have no doors. In the shipped build it says no to everything.
#[derive(Clone, Default)]
pub struct Canaries(Option<Arc<dyn Faults>>);

impl Canaries {
    pub(super) fn new(faults: Option<Arc<dyn Faults>>) -> Canaries {
        Canaries(faults)
    }

    /// True if the planted bug `canary` is switched on. Constant `false` in the shipped build.
    #[inline]
    pub fn has(&self, canary: Canary) -> bool {
        cfg!(feature = "sim") && self.0.as_ref().is_some_and(|faults| faults.canary(canary))
    }
}

impl std::fmt::Debug for Canaries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Canaries")
    }
}

/// A place where rare but legal behaviour can be forced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "sim", derive(Debug, serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum BuggifySite {
    /// The log writer commits a batch on its own instead of gathering more.
    ShortBatch,
    /// The log writer yields before it commits.
    LateFlush,
}

/// Decides which planted bugs are on and when rare behaviour happens.
pub trait Faults: Send + Sync + 'static {
    /// True if `canary` is on in this run.
    fn canary(&self, canary: Canary) -> bool;

    /// True if the rare behaviour at `site` happens this time.
    fn buggify(&self, site: BuggifySite) -> bool;
}
