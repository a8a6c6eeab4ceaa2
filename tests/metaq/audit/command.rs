//! `metaq audit` as a user runs it.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::tool::Server;

fn arguments<'a>(topic: &'a str, histories: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["audit", "run", "--topic", topic, "--group", topic, "--history", histories];
    arguments.extend(["--producers", "2", "--size", "3000"]);
    arguments.extend(more);
    arguments
}

fn outcome_of<'a>(verdict: &'a Value, promise: &str) -> &'a str {
    let promises = verdict["promises"].as_array().unwrap();
    let found = promises.iter().find(|one| one["promise"].as_str().unwrap().starts_with(promise));
    found.unwrap_or_else(|| panic!("no promise `{promise}` in {verdict}"))["outcome"].as_str().unwrap()
}

#[test]
fn a_run_proves_that_nothing_is_lost_and_finds_what_is() {
    let (server, directory) = (Server::start(), TempDir::new().unwrap());
    let histories = directory.path().to_str().unwrap();
    let verdict = server.json(&arguments("Shop", histories, &["--seconds", "1", "--rate", "200", "--fail", "100"]));
    assert!(verdict["ok"] == true && verdict["messages"].as_i64() > Some(10), "{verdict}");
    for promise in ["acknowledged", "offsets are dense", "messages are stored once", "consumers get everything"] {
        assert_eq!(outcome_of(&verdict, promise), "held", "{verdict}");
    }
    assert_eq!(outcome_of(&verdict, "consumers skip nothing"), "not asked");

    // Again, in order; then somebody else's messages come, and the topic is only read: all histories are judged together.
    let more = ["--seconds", "0.5", "--rate", "100", "--orderly", "--record-only"];
    let recorded = server.run(&arguments("Shop", histories, &more));
    assert_eq!((recorded.code, recorded.out.as_str()), (Some(0), ""), "{recorded:?}");
    server.done(&["send", "Shop", "a book"]);
    let none = ["--producers", "0", "--consumers", "0", "--seconds", "0"];
    let read = ["audit", "run", "--topic", "Shop", "--history", histories];
    let out = server.done(&[&read[..], &none].concat());
    assert!(out.contains("1 messages of others") && out.lines().last().unwrap().starts_with("ok: "), "{out}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);

    // A topic made anew has none of what was acknowledged.
    server.done(&["topic", "delete", "Shop", "--yes"]);
    server.done(&["topic", "create", "Shop", "--queues", "4"]);
    let ran = server.run(&[&read[..], &none].concat());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("BROKEN     acknowledged messages are kept"), "{ran:?}");
    assert!(ran.out.contains("what matters") && ran.out.contains(" acknowledged   1"), "{ran:?}");
    let again = server.run(&["audit", histories, "--json"]);
    let verdict: Value = serde_json::from_str(&again.out).unwrap();
    assert!(again.code == Some(1) && verdict["ok"] == false, "{again:?}");
    assert_eq!(outcome_of(&verdict, "acknowledged"), "broken");
    let lost = server.run(&["audit", histories, "--may-lose"]);
    assert!(!lost.out.contains("BROKEN     acknowledged"), "{lost:?}");
}

#[test]
fn what_is_no_history_is_refused() {
    let (server, directory) = (Server::start(), TempDir::new().unwrap());
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    server.fails(&["audit", &path("")], 1, &["there are no histories", "hint: "]);
    server.fails(&["audit", &path("missing")], 1, &["missing"]);
    std::fs::write(Path::new(&path("x.history")), "no history").unwrap();
    server.fails(&["audit", &path("x.history")], 1, &["it is no history"]);
    assert_eq!(server.run(&["audit", "run", "--topic", "Shop"]).code, Some(2));
}
