//! Whether the store takes writes, and if not, why.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::{Refusal, StoreError};

/// The reasons for which writes are refused at present.
#[derive(Default)]
pub(crate) struct WriteState {
    refusing: AtomicBool,
    reasons: Mutex<BTreeMap<Refusal, Arc<str>>>,
}

impl WriteState {
    /// The error every write gets at present; the most serious one if there are several.
    #[inline]
    pub(crate) fn refusal(&self) -> Option<StoreError> {
        if !self.refusing.load(Ordering::Acquire) {
            return None;
        }
        let reasons = self.reasons();
        let (refusal, reason) = reasons.first_key_value()?;
        Some(StoreError::Refused { refusal: *refusal, reason: Arc::clone(reason) })
    }

    /// Refuses writes until [`WriteState::allow`] and returns the error they get. Of several reasons of one kind the
    /// first is told.
    pub(crate) fn refuse(&self, refusal: Refusal, reason: impl FnOnce() -> String) -> StoreError {
        let mut reasons = self.reasons();
        let reason = reasons.entry(refusal).or_insert_with(|| {
            let reason = reason();
            match refusal {
                Refusal::Closing => tracing::debug!(reason, "the store takes no writes"),
                _ => tracing::error!(?refusal, reason, "the store takes no writes"),
            }
            reason.into()
        });
        self.refusing.store(true, Ordering::Release);
        StoreError::Refused { refusal, reason: Arc::clone(reason) }
    }

    /// This reason is gone.
    pub(crate) fn allow(&self, refusal: Refusal) {
        assert_ne!(refusal, Refusal::Poisoned, "only opening the store again cures it");
        if !self.refusing.load(Ordering::Acquire) {
            return;
        }
        let mut reasons = self.reasons();
        if reasons.remove(&refusal).is_some() {
            tracing::info!(?refusal, "this reason to take no writes is gone");
        }
        self.refusing.store(!reasons.is_empty(), Ordering::Release);
    }

    /// The error of a poisoned store.
    pub(crate) fn poisoned(&self) -> Option<StoreError> {
        let refused = self.refusal()?;
        // The most serious reason, which is told first.
        matches!(refused, StoreError::Refused { refusal: Refusal::Poisoned, .. }).then_some(refused)
    }

    fn reasons(&self) -> MutexGuard<'_, BTreeMap<Refusal, Arc<str>>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_go_on_when_every_reason_is_gone() {
        let state = WriteState::default();
        state.refuse(Refusal::DiskFull, || "91 %".into());
        state.refuse(Refusal::QueueFiles, || "no space".into());
        assert_eq!(state.refusal().map(|error| error.to_string()), Some("91 %".to_owned()));
        state.allow(Refusal::DiskFull);
        assert_eq!(state.refusal().map(|error| error.to_string()), Some("no space".to_owned()));
        state.allow(Refusal::QueueFiles);
        assert!(state.refusal().is_none());
    }

    #[test]
    fn the_first_cause_of_poisoning_is_told() {
        let state = WriteState::default();
        state.refuse(Refusal::Poisoned, || "first".into());
        state.refuse(Refusal::Poisoned, || "second".into());
        assert_eq!(state.refusal().map(|error| error.to_string()), Some("first".to_owned()));
    }
}
