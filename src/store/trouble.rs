//! One log line when something begins to fail and one when it works again, however often it is tried in between.

use std::fmt::Display;

/// Whether something that is tried again and again works at present.
#[derive(Debug, Default)]
pub struct Trouble {
    failures: u64,
    told: String,
}

/// What is worth a line in the log.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// It fails from now on, or for another reason than before.
    Fails,
    /// It works again, after so many failures.
    Works {
        /// How many.
        failures: u64,
    },
}

impl Trouble {
    /// Takes note of a try and logs what has changed. `what` says what was tried: "save the topics".
    pub fn note<T, E: Display>(&mut self, what: impl Display, result: &Result<T, E>) {
        match self.change(result) {
            Some(Change::Fails) => tracing::error!("cannot {what}: {}; trying on, in silence", self.told),
            Some(Change::Works { failures }) => tracing::info!(failures, "it works again to {what}"),
            None => {}
        }
    }

    /// What a try changes.
    pub fn change<T, E: Display>(&mut self, result: &Result<T, E>) -> Option<Change> {
        match result {
            Ok(_) if self.failures == 0 => None,
            Ok(_) => Some(Change::Works { failures: std::mem::take(self).failures }),
            Err(error) => {
                self.failures += 1;
                let error = error.to_string();
                let new = self.failures == 1 || error != self.told;
                self.told = error;
                new.then_some(Change::Fails)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_told() {
        let mut trouble = Trouble::default();
        let mut note = |result: Result<(), &str>| trouble.change(&result);
        assert_eq!(note(Ok(())), None);
        assert_eq!(note(Err("full")), Some(Change::Fails));
        assert_eq!(note(Err("full")), None);
        assert_eq!(note(Err("broken")), Some(Change::Fails), "another reason is news");
        assert_eq!(note(Err("broken")), None);
        assert_eq!(note(Ok(())), Some(Change::Works { failures: 4 }));
        assert_eq!(note(Ok(())), None);
        assert_eq!(note(Err("broken")), Some(Change::Fails), "and so is the same one later");
    }
}
