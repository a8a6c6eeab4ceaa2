//! The doors to the world: time, network, disk, randomness and, in simulations, injected faults.
//!
//! Everything outside `env::real` reaches the operating system through one [`Env`] value that is handed down at start.
//! The simulator hands down another one, so the same source runs over TCP and in simulated clusters. [`LogLimit`] keeps
//! what is written to the log within bounds.

mod clock;
mod disk;
mod faults;
mod log_limit;
mod marks;
mod net;
#[cfg(feature = "tokio")]
pub mod real;
mod rng;

use std::sync::Arc;

pub use clock::{Clock, Millis};
pub use disk::{DirEntry, Disk, File, FileLock, Mapping, Metadata, OpenMode, Space};
pub use faults::{BuggifySite, Canaries, Canary, Faults};
pub use futures::future::BoxFuture;
pub use log_limit::{LogLimit, Pass};
pub use marks::{is_listed, listen, reached, MARKS};
pub use net::{ConnectionId, Listener, Net, Stream};
pub use rng::Rng;

/// All doors of one node, cheap to clone.
#[derive(Clone)]
pub struct Env {
    /// Time of this node.
    pub clock: Arc<dyn Clock>,
    /// Network of this node.
    pub net: Arc<dyn Net>,
    /// Disk of this node.
    pub disk: Arc<dyn Disk>,
    /// Random numbers of this node.
    pub rng: Arc<dyn Rng>,
    faults: Option<Arc<dyn Faults>>,
}

impl Env {
    /// An environment without injected faults.
    pub fn new(clock: Arc<dyn Clock>, net: Arc<dyn Net>, disk: Arc<dyn Disk>, rng: Arc<dyn Rng>) -> Self {
        Env { clock, net, disk, rng, faults: None }
    }

    /// The same environment with a source of injected faults; only builds with the feature `sim` ask it.
    pub fn with_faults(mut self, faults: Arc<dyn Faults>) -> Self {
        self.faults = Some(faults);
        self
    }

    /// True if the planted bug `canary` is switched on. Constant `false` in the shipped build.
    #[inline]
    pub fn canary(&self, canary: Canary) -> bool {
        cfg!(feature = "sim") && self.faults.as_ref().is_some_and(|faults| faults.canary(canary))
    }

    /// The planted bugs, for rules that have no doors.
    pub fn canaries(&self) -> Canaries {
        Canaries::new(self.faults.clone())
    }

    /// True if the rare but legal behaviour at `site` is to happen now. Constant `false` in the shipped build.
    #[inline]
    pub fn buggify(&self, site: BuggifySite) -> bool {
        cfg!(feature = "sim") && self.faults.as_ref().is_some_and(|faults| faults.buggify(site))
    }
}
