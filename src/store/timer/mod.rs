//! The timer log: what the timer knows, one small unit behind the other in files of their own.
//!
//! It derives from the commit log, which holds the waiting records in the timer topic and the copies that were delivered.
//! Whatever a crash leaves of it, a prefix of units, is enough: the timer reads on in its topic's queue from where the
//! units end, and looks in the commit log for copies that the units do not tell of.

mod files;
mod scan;
mod unit;

use std::io;

pub use files::{TimerLog, FILE_SIZE};
pub use scan::LogScan;
pub use unit::{Mark, Pending, PendingKind, Unit, UnitPosition, UNIT_SIZE};

/// A row of units that only grows at its end and is only cut at its beginning, whole files at a time.
pub trait UnitLog {
    /// The first unit that is there.
    fn begin(&self) -> UnitPosition;

    /// Behind the last one.
    fn end(&self) -> UnitPosition;

    /// Bytes of a file. A position's file begins at the last multiple of it.
    fn file_size(&self) -> u64;

    /// The unit at a position; `None` if there is none.
    ///
    /// # Errors
    /// The disk's.
    fn read(&mut self, at: UnitPosition) -> io::Result<Option<Unit>>;

    /// Calls `visit` for all units from the first on, until it says `false`.
    ///
    /// # Errors
    /// The disk's, or those of `visit`.
    fn walk(&mut self, visit: &mut dyn FnMut(UnitPosition, &Unit) -> io::Result<bool>) -> io::Result<()>;

    /// Adds a unit. It is there at once, and stays if the next [`UnitLog::write`] succeeds.
    fn append(&mut self, unit: &Unit) -> UnitPosition;

    /// Writes what was added. After an error it is tried again with the next call.
    ///
    /// # Errors
    /// The disk's.
    fn write(&mut self) -> io::Result<()>;

    /// Deletes the first file; nothing if it is the only one.
    ///
    /// # Errors
    /// The disk's.
    fn delete_first_file(&mut self) -> io::Result<()>;
}
