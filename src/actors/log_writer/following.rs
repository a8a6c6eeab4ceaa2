//! The log writer of a slave: it appends what the master has.

use ractor::{ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::{LogMessage, State};
use crate::proto::PhysicalOffset;
use crate::store::{FlushMode, LogWriter, ReplicateError, StoreError};

/// A master's log goes on.
pub struct Replicate {
    /// Where the part of it begins: this log has to end there.
    pub at: PhysicalOffset,
    /// The part.
    pub bytes: Vec<u8>,
    /// Up to where it lets consumers read; `None` if it has not said.
    pub confirmed: Option<PhysicalOffset>,
    /// Gets the outcome.
    pub reply: oneshot::Sender<Replicated>,
}

/// What became of it.
pub struct Replicated {
    /// The buffer, with what is no whole record yet.
    pub rest: Vec<u8>,
    /// Whether everything else was appended.
    pub result: Result<(), ReplicateError>,
}

/// A change of the log that is no growth.
#[derive(Clone, Debug)]
pub enum Change {
    /// There is no log, or all of it has expired on the master, whose oldest file begins here.
    BeginAnew(PhysicalOffset),
    /// The log ends here; nothing confirmed may lie above.
    Truncate(PhysicalOffset),
    /// The master has these bytes where the log ends, and they are no record: it is damaged there.
    TakeDamaged {
        /// Where the log ends.
        at: PhysicalOffset,
        /// What stands there.
        bytes: Vec<u8>,
    },
}

/// A change and who waits for it.
pub(super) struct Surgery {
    pub change: Change,
    pub reply: oneshot::Sender<Result<(), StoreError>>,
}

impl State {
    /// Appends what the master has.
    pub(super) async fn replicate(
        &mut self,
        myself: &ActorRef<LogMessage>,
        part: Replicate,
    ) -> Result<(), ActorProcessingErr> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let Replicate { at, mut bytes, confirmed, reply } = part;
        let before = writer.end();
        let result = match writer.append_replicated(at, &bytes).await {
            Ok(done) => {
                bytes.drain(..done);
                Ok(())
            }
            Err(error) => Err(error),
        };
        // A master that says nothing lets consumers read what there is.
        writer.set_confirm_limit(confirmed);
        self.must_sync |= self.options.flush == FlushMode::Sync && writer.end() > before;
        let _ = reply.send(Replicated { rest: bytes, result });
        self.after_write(myself)
    }

    pub(super) fn is_following(&self) -> bool {
        self.writer.as_ref().is_some_and(LogWriter::is_following)
    }

    pub(super) fn set_following(&mut self, following: bool) {
        if let Some(writer) = &mut self.writer {
            writer.set_following(following);
        }
        if following {
            self.waiting.finish();
        } else {
            self.surgery = None;
            self.replicated();
        }
    }

    /// Changes the log once no work of the writer is under way.
    pub(super) async fn operate_if_idle(&mut self) {
        if self.jobs > 0 || self.writer.as_ref().is_some_and(LogWriter::is_syncing) {
            return;
        }
        let Some(Surgery { change, reply }) = self.surgery.take() else { return };
        let Some(writer) = &mut self.writer else { return };
        let result = match change {
            Change::BeginAnew(base) => writer.begin_anew(base).await,
            Change::Truncate(end) => writer.truncate(end).await,
            Change::TakeDamaged { at, bytes } => writer.take_damaged(at, &bytes).await,
        };
        let _ = reply.send(result);
    }
}
