//! Runs the checks named on the command line, or all, several at a time, with metaq's own client library.
//!
//! Reads NAMESRV_ADDR, INTEROP_DRIVER (the name to report under) and INTEROP_RUN (what makes this run's topics and groups
//! unique). Checks whose name ends in "-after" need a broker restart after "all", or another driver's part, and have to be
//! named.

mod across;
mod consume;
mod find;
mod group;
mod scene;
mod send;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;

use futures::future::LocalBoxFuture;
use futures::stream::{self, StreamExt};
use futures::FutureExt;

use scene::Scene;

/// A check passes unless it panics.
type Check = (&'static str, fn(Arc<Scene>) -> LocalBoxFuture<'static, ()>);

const AT_A_TIME: usize = 8;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let checks: Vec<Check> =
        [&send::CHECKS[..], &group::CHECKS, &consume::CHECKS, &find::CHECKS, &across::CHECKS].concat();
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| match wanted.first() {
        None => !name.ends_with("-after"),
        Some(all) if all == "all" => !name.ends_with("-after"),
        Some(_) => wanted.iter().any(|wanted| wanted == name),
    };
    let planned: Vec<Check> = checks.into_iter().filter(|(name, _)| is_wanted(name)).collect();
    let names: Vec<&str> = planned.iter().map(|(name, _)| *name).collect();
    println!("plan {}", names.join(" "));
    let passed: Vec<bool> = stream::iter(planned).map(run).buffer_unordered(AT_A_TIME).collect().await;
    if passed.into_iter().all(|passed| passed) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn run((name, check): Check) -> bool {
    let driver = std::env::var("INTEROP_DRIVER").unwrap_or_else(|_| "rust".into());
    let scene = Arc::new(Scene::new(&driver, name));
    let ended = AssertUnwindSafe(check(Arc::clone(&scene))).catch_unwind().await;
    scene.close().await;
    let Err(problem) = ended else {
        println!("ok {driver} {name}");
        return true;
    };
    let text = problem.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| problem.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
    println!("FAIL {driver} {name}: {}", text.split_whitespace().collect::<Vec<_>>().join(" "));
    false
}
