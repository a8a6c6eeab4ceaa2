//! Real processes under faults, and faults put where no promise allows them.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use metaq::audit::file::{decode, encode, Block, Entry};
use metaq::audit::history::Event;
use metaq::proto::message::record::{MAGIC_AT, MAGIC_V1};
use serde_json::Value;
use tempfile::TempDir;

use super::real::plan::{Fault, Plan};
use super::real::stage::{play, Played, Stage};
use crate::cli::process::run;

const METAQ: &str = env!("CARGO_BIN_EXE_metaq");

/// Plays a plan that the simulator's tests play as well.
async fn kept(plan: &str) -> (Plan, Played, TempDir) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sim/plans").join(plan);
    let plan = Plan::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let folder = TempDir::new().unwrap();
    let played = play(Path::new(METAQ), &plan, folder.path()).await;
    (plan, played, folder)
}

/// What came of a promise: `held`, `broken`, `not asked`.
fn outcome<'a>(verdict: &'a Value, promise: &str) -> &'a str {
    let promises = verdict["promises"].as_array().map_or(&[][..], Vec::as_slice);
    let found = promises.iter().find(|one| one["promise"].as_str().is_some_and(|name| name.starts_with(promise)));
    found.and_then(|one| one["outcome"].as_str()).unwrap_or("missing")
}

#[track_caller]
fn check(plan: &Plan, played: &Played) {
    let Played { verdict, trouble } = played;
    assert!(played.is_good(), "{trouble:?}\n{verdict:#}");
    assert!(plan.faults.iter().any(|timed| matches!(timed.fault, Fault::Kill { .. })), "the plan kills");
    for promise in [
        "acknowledged messages",
        "offsets are dense",
        "messages are stored once",
        "one simple broker",
        "nothing is read",
        "consumers get everything",
    ] {
        assert_eq!(outcome(verdict, promise), "held", "{promise}");
    }
    // The one that was killed in the middle, and nobody else, has not told everything.
    let histories = verdict["histories"].as_array().unwrap();
    let cut = histories.iter().filter(|history| history["complete"] == false).count();
    assert_eq!((histories.len(), cut), (5, 1), "{verdict:#}");
    assert!(verdict["messages"].as_i64() > Some(200), "{verdict:#}");
}

#[tokio::test]
async fn killed_stopped_and_cut_off_sync_flush_keeps_its_promises() {
    let (plan, played, folder) = kept("processes-sync.json").await;
    check(&plan, &played);
    a_dropped_message_is_found(&folder.path().join("histories"));
}

#[tokio::test]
async fn killed_stopped_and_cut_off_async_flush_keeps_its_promises() {
    let (plan, played, _folder) = kept("processes-async.json").await;
    check(&plan, &played);
}

/// The same histories, but one acknowledged message is not found at the end.
fn a_dropped_message_is_found(histories: &Path) {
    let dropped = std::fs::read_dir(histories).unwrap().map(|entry| entry.unwrap().path()).any(|path| {
        let mut history = decode(&std::fs::read(&path).unwrap()).unwrap();
        let found = history.entries.iter().position(|entry| matches!(entry, Entry::Event(_, Event::Found(..))));
        let Some(found) = found else { return false };
        history.entries.remove(found);
        let (recorder, zero_us, entries) = (history.recorder, history.zero_us, history.entries);
        std::fs::write(&path, encode(&Block { recorder, name: history.name, zero_us, entries }).unwrap()).unwrap();
        true
    });
    assert!(dropped);
    let judged = run(&["audit", histories.to_str().unwrap()]);
    assert_eq!(judged.code, Some(1), "{judged:?}");
    assert!(judged.says("BROKEN") && judged.says("is lost") | judged.says("is gone"), "{judged:?}");
}

#[tokio::test]
async fn a_log_that_was_cut_while_its_broker_was_down_is_found() {
    let folder = TempDir::new().unwrap();
    let settings = BTreeMap::from([("flushDiskType".to_owned(), "SYNC_FLUSH".to_owned())]);
    let stage = Stage::start(Path::new(METAQ), 1, 1, &settings, folder.path()).await;
    let load = ["--record-only", "--seconds", "1", "--producers", "2", "--consumers", "1"];
    let mut clients = stage.client("clients", load.map(str::to_owned).to_vec());
    clients.start();
    assert!(clients.ended(Duration::from_secs(60)).await.is_some_and(|status| status.success()), "{}", clients.said());
    stage.server("broker-0").unwrap().lock().await.kill();
    cut_log(&folder.path().join("broker-0"), 3_000);
    stage.server("broker-0").unwrap().lock().await.start();
    let verdict = &stage.judge().await;
    assert_eq!(verdict["ok"], false, "{verdict:#}");
    for promise in ["acknowledged messages", "nothing is read"] {
        assert_eq!(outcome(verdict, promise), "broken", "{promise} {verdict:#}");
    }
    assert_eq!(outcome(verdict, "offsets are dense"), "held", "what is left is a prefix: {verdict:#}");
}

/// Cuts the last records off what a broker's log holds, about so many bytes, as a disk would that lost them; the process
/// must not run. Only whole records: of one that is cut within its properties no checksum tells.
fn cut_log(store: &Path, bytes: usize) {
    let mut segments: Vec<PathBuf> =
        std::fs::read_dir(store.join("commitlog")).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    for segment in segments.iter().rev() {
        let content = std::fs::read(segment).unwrap();
        let Some(last) = content.iter().rposition(|byte| *byte != 0) else { continue };
        let wanted = (last + 1).saturating_sub(bytes);
        let magic = content[wanted..].windows(4).position(|bytes| bytes == MAGIC_V1.to_be_bytes());
        let from = wanted + magic.expect("a record begins there") - MAGIC_AT;
        let mut file = OpenOptions::new().write(true).open(segment).unwrap();
        file.seek(SeekFrom::Start(from as u64)).unwrap();
        file.write_all(&vec![0; last + 1 - from]).unwrap();
        return;
    }
    panic!("the log in {} is empty", store.display());
}
