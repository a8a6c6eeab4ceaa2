//! Worlds for unit tests.

use std::future::Future;

use crate::world::{Options, World};

/// Runs a test in a fresh world. Without actors, several worlds in one process do no harm.
pub(crate) fn simulate<F: Future>(seed: u64, test: impl FnOnce(World) -> F) -> F::Output {
    let runtime = madsim::runtime::Runtime::with_seed_and_config(seed, madsim::Config::default());
    runtime.block_on(async move {
        let world = World::start(&Options { seed, ..Options::default() });
        test(world).await
    })
}
