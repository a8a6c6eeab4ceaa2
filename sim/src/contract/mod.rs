//! What the product may rely on at its doors, as checks that run on the simulated world and on the real one: loopback TCP,
//! a real file system, the system's clock. A simulator that is kinder or stranger than the world proves nothing.
//!
//! Left out is what the product does not do and the two worlds do differently: renames between directories, opening a
//! directory as a file, and a second lock of one process (a lock of the real world excludes other processes only).

mod clock;
mod disk;
mod net;
mod worlds;

use std::path::{Path, PathBuf};

use futures::future::LocalBoxFuture;
use metaq::env::Env;

/// Where a contract is checked: an empty directory, and two machines, which may be one.
#[derive(Clone)]
pub(crate) struct Place {
    /// Doors of the machine that listens and has the directory.
    pub(crate) server: Env,
    /// Doors of the machine that connects.
    pub(crate) client: Env,
    /// How the client calls the server.
    pub(crate) host: String,
    directory: PathBuf,
}

impl Place {
    /// A path in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() {
            self.directory.clone()
        } else {
            self.directory.join(Path::new(name))
        }
    }
}

/// One promise. The check panics if it is broken.
pub(crate) struct Contract {
    /// The promise.
    pub(crate) name: &'static str,
    /// Its check.
    pub(crate) check: fn(Place) -> LocalBoxFuture<'static, ()>,
}

/// All promises.
pub(crate) fn all() -> impl Iterator<Item = &'static Contract> {
    [disk::CONTRACTS, net::CONTRACTS, clock::CONTRACTS].into_iter().flatten()
}

/// A list of contracts from async functions.
macro_rules! contracts {
    ($($name:ident: $text:literal,)+) => {
        /// The promises of this door.
        pub(super) const CONTRACTS: &[$crate::contract::Contract] =
            &[$($crate::contract::Contract { name: $text, check: |place| Box::pin($name(place)) }),+];
    };
}
use contracts;
