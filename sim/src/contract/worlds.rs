//! The suite in both worlds.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

use futures::FutureExt;

use super::{all, Contract, Place};
use crate::testing::simulate;

/// The contracts that are broken.
fn broken(check: impl Fn(&'static Contract) -> bool) -> Vec<&'static str> {
    all().filter(|contract| !check(contract)).map(|contract| contract.name).collect()
}

#[test]
fn the_simulated_world_keeps_every_contract() {
    let check = |contract: &'static Contract| {
        (0..5).all(|seed| {
            simulate(seed, |world| async move {
                let (client, server) = (world.add_node("client"), world.add_node("server"));
                let (client, server) = (world.env(client), world.env(server));
                let directory = PathBuf::from("/contract");
                server.disk.create_dir_all(&directory).unwrap();
                let place = Place { server, client, host: "server".to_owned(), directory };
                AssertUnwindSafe((contract.check)(place)).catch_unwind().await.is_ok()
            })
        })
    };
    assert_eq!(broken(check), Vec::<&str>::new());
}

#[test]
fn the_real_world_keeps_every_contract() {
    let check = |contract: &'static Contract| {
        let scratch = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let env = metaq::env::real::env();
            let place = Place {
                server: env.clone(),
                client: env,
                host: "127.0.0.1".to_owned(),
                directory: scratch.path().to_owned(),
            };
            AssertUnwindSafe((contract.check)(place)).catch_unwind().await.is_ok()
        })
    };
    assert_eq!(broken(check), Vec::<&str>::new());
}

#[test]
fn the_suite_is_as_large_as_it_is_said_to_be() {
    assert!(all().count() >= 45, "{}", all().count());
}
