//! `metaq send` and `metaq tail`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use tempfile::TempDir;

use super::process::{metaq, Process};
use super::tool::{file, Server};

#[test]
fn what_is_sent_is_shown() {
    let server = Server::start();
    let sent =
        server.json(&["send", "Orders", "a book", "-k", "order-1", "-k", "order-2", "-t", "paid", "-p", "region=eu"]);
    assert_eq!((&sent["topic"], &sent["durability"]), (&"Orders".into(), &"stored".into()));
    let listed = server.done(&["send", "Orders", "a pen", "two pens"]);
    assert_eq!(listed.lines().count(), 2);
    assert!(listed.starts_with("broker-a/"), "{listed}");

    let shown = server.done(&["tail", "Orders"]);
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].ends_with("  [paid] order-1 order-2: a book") && lines[2].ends_with("  two pens"), "{shown}");
    let one = server.json(&["tail", "Orders", "--tag", "paid"]);
    assert_eq!((&one["body"], &one["key"], &one["tag"]), (&"a book".into(), &"order-1".into(), &"paid".into()));
    assert_eq!((&one["id"], &one["properties"]["region"]), (&sent["id"], &"eu".into()));
    let none = server.run(&["tail", "Orders", "--tag", "lost"]);
    assert!(none.out.is_empty() && none.err.contains("none of the 3 messages there has such a tag"), "{none:?}");
    let formatted = server.done(&["tail", "Orders", "--from", "begin", "--format", r"{tag}\t{key}\t{body}"]);
    assert_eq!(formatted, "paid\torder-1\ta book\n\t\ta pen\n\t\ttwo pens\n");
    let places = ["tail", "Orders", "--from", "1h", "--max", "2", "--format", "{body}"];
    assert_eq!(server.done(&places), "a book\na pen\n");
    assert_eq!(server.done(&["tail", "Orders", "-l", "1", "--format", "{body}"]), "two pens\n");
    let queue = format!("{}/{}", sent["broker"].as_str().unwrap(), sent["queue"]);
    let offset = sent["offset"].to_string();
    let at = ["tail", "Orders", "--queue", &queue, "--from", &offset, "--max", "1", "--format", "{body}"];
    assert_eq!(server.done(&at), "a book\n");
    let nothing = server.run(&["tail", "Orders", "--from", "end"]);
    assert!(nothing.out.is_empty() && nothing.err.contains("hint: "), "{nothing:?}");
}

#[test]
fn messages_are_chosen_by_their_properties() {
    let server = Server::with(&["--set", "enablePropertyFilter=true"]);
    for n in ["4", "5.5", "12"] {
        server.done(&["send", "Orders", &format!("costs {n}"), "-p", &format!("price={n}")]);
    }
    let bodies = ["tail", "Orders", "--format", "{body}", "--sql"];
    assert_eq!(server.done(&[&bodies[..], &["price > 5 AND price < 10"]].concat()), "costs 5.5\n");
    let grouped = [&bodies[..], &["price > 5", "-g", "billing", "--from", "begin", "--max", "2"]].concat();
    let mut lines: Vec<String> = server.done(&grouped).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["costs 12", "costs 5.5"]);
    let none = server.run(&["tail", "Orders", "--sql", "price > 50"]);
    assert!(none.out.is_empty() && none.err.contains("none of the 3 messages there fits the expression"), "{none:?}");
    server.fails(
        &["tail", "Orders", "--sql", "price > 'x'"],
        2,
        &["character 9: strings", "price > 'x'\n", "        ^"],
    );

    let without = Server::start();
    without.done(&["send", "Orders", "a"]);
    without.fails(
        &["tail", "Orders", "--sql", "price > 5"],
        1,
        &["filter message by SQL92", "enablePropertyFilter=true"],
    );
}

#[test]
fn a_message_without_traces_says_so() {
    let server = Server::with(&["--set", "traceTopicEnable=true"]);
    let sent = server.json(&["send", "Orders", "a", "-k", "order-1"]);
    let id = sent["id"].as_str().unwrap();
    server.fails(&["message", "trace", id], 1, &["no client noted anything", "when told to"]);
    server.fails(
        &["message", "trace", id, "--trace-topic", "Other"],
        1,
        &["there is no trace topic", "traceTopicEnable"],
    );
    // A record as Java's client writes it, and one of a consumer.
    let sent = format!(
        "Pub|1700000000000|DefaultRegion|pg|Orders|{id}|paid|order-1|10.0.0.1:10911|1|3|0|0A00|true|10.0.0.9\u{2}"
    );
    let before = format!("SubBefore|1700000000100|DefaultRegion|cg|r1|{id}|1|order-1\u{2}");
    let after = format!("SubAfter|r1|{id}|25|false|order-1|1|1700000000125|cg\u{2}");
    for record in [after, before, sent] {
        let record = record.replace('|', "\u{1}");
        server.done(&["send", "RMQ_SYS_TRACE_TOPIC", &record, "-k", id]);
    }
    let format = ["--format", "{at} {what} {group} {client} {tookMs} {result} {retries}"];
    let arguments = [&["message", "trace", id][..], &format].concat();
    // The index follows sends within moments.
    let mut stories = (0..200).map(|_| server.run(&arguments)).filter(|ran| ran.out.lines().count() == 2);
    let story = stories.next().expect("a story of two lines").out;
    let lines: Vec<&str> = story.lines().collect();
    assert!(lines[0].ends_with(" sent pg 10.0.0.9 3 stored ") && lines.len() == 2, "{story}");
    assert!(lines[1].ends_with(" consumed cg  25 timed out 1"), "{story}");
}

#[test]
fn lines_and_files_become_messages() {
    let (server, directory) = (Server::start(), TempDir::new().unwrap());
    let lines: String = (0..500).map(|n| format!("k{}:{n}\n\n", n % 7)).collect();
    let sent = server.run_with(&["send", "Lines", "--split", ":", "--ordered"], &lines);
    assert_eq!((sent.code, sent.out.lines().count()), (Some(0), 10), "{sent:?}");
    assert!(sent.err.contains("sent 500 messages to Lines"), "{sent:?}");
    let shown = server.done(&["tail", "Lines", "--from", "begin", "--format", "{key} {body} {queue}"]);
    let mut last = std::collections::BTreeMap::new();
    assert_eq!(shown.lines().count(), 500);
    for line in shown.lines() {
        let [key, body, queue] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let body: u32 = body.parse().unwrap();
        if let Some((before, at)) = last.insert(key.to_owned(), (body, queue.to_owned())) {
            assert!(before < body && at == queue, "{line}");
        }
    }
    let unordered = server.run_with(&["send", "Lines", "-q"], &"x\n".repeat(300));
    assert_eq!((unordered.code, unordered.out.as_str()), (Some(0), ""), "{unordered:?}");

    let binary = file(&directory, "binary", b"\xff\x00line\nline");
    server.done(&["send", "Files", "-f", &binary]);
    let one = server.json(&["tail", "Files"]);
    assert_eq!(one["body"]["base64"], "/wBsaW5lCmxpbmU=");
    assert!(server.done(&["tail", "Files"]).contains(r"\u{0}line\nline"), "nothing moves the cursor");
    let raw = metaq(&["tail", "Files", "-n", server.nameserver(), "--format", "{body}"]).output().unwrap();
    assert_eq!(raw.stdout, b"\xff\x00line\nline\n", "a pipe gets the bytes");
    let piped = server.run_with(&["send", "Files", "-f", "-"], "two\nlines");
    assert_eq!(piped.code, Some(0), "{piped:?}");
    assert_eq!(server.done(&["tail", "Files", "-l", "1", "--format", "{body}"]), "two\nlines\n");
}

#[test]
fn delayed_messages_come_later() {
    let server = Server::start();
    server.done(&["topic", "create", "Later"]);
    server.done(&["send", "Later", "--delay", "1s", "a reminder"]);
    let mut tail = follow(&server, &["tail", "Later", "--follow", "--max", "1", "--format", "{body}"]);
    assert_eq!(tail.line("a "), "reminder");
    assert_eq!(tail.ended().code, Some(0));
    // No broker has a level for it.
    server.done(&["send", "Later", "--delay", "1200ms", "in time"]);
    let over = server.json(&["send", "Later", "--at", "1000000000000", "at once"]);
    assert_eq!(over["recallHandle"], serde_json::Value::Null);
    let waits = server.json(&["send", "Later", "--delay", "36h", "tomorrow"]);
    assert!(waits["recallHandle"].as_str().is_some_and(|handle| handle.len() > 20), "{waits}");
    let all = ["tail", "Later", "--from", "begin", "--format", "{body}"];
    let came = server.until(&all, |ran| ran.out.contains("in time"));
    assert!(came.out.contains("at once") && !came.out.contains("tomorrow"), "{came:?}");
}

fn follow(server: &Server, args: &[&str]) -> Process {
    Process::start(&[args, &["-n", server.nameserver()]].concat())
}

#[test]
fn a_group_consumes_and_goes_on_where_it_was() {
    let server = Server::start();
    server.done(&["topic", "create", "Orders", "--queues", "1"]);
    server.done(&["send", "Orders", "1", "2", "3"]);
    let consume = ["tail", "Orders", "-g", "billing", "--from", "begin", "--format", "{body}"];
    assert_eq!(server.done(&[&consume[..], &["--max", "2"]].concat()), "1\n2\n");
    assert_eq!(server.done(&consume), "3\n");
    assert_eq!(server.json(&["group", "lag", "billing"])[0]["lag"], 0);
    let mut tail = follow(&server, &["tail", "Orders", "-g", "billing", "-f", "--format", "{body}"]);
    server.done(&["send", "Orders", "four"]);
    assert_eq!(tail.line("fo"), "ur");
    tail.signal(libc::SIGINT);
    assert_eq!(tail.ended().code, Some(0));
    assert_eq!(server.json(&["group", "lag", "billing"])[0]["lag"], 0, "it commits when it is stopped");
}

#[test]
fn a_pipe_that_closes_ends_it() {
    let server = Server::start();
    server.run_with(&["send", "Orders", "-q"], &"x\n".repeat(2000));
    let args = ["tail", "Orders", "--from", "begin", "-n", server.nameserver()];
    let mut child = metaq(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.ends_with("  x\n"), "{line}");
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    let mut child = metaq(&["topic", "list", "-n", server.nameserver()]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let server = Server::with(&["--set", "autoCreateTopicEnable=false"]);
    server.done(&["topic", "create", "Orders"]);
    let near = ["error: topic `Ordrs` not found", "hint: did you mean `Orders`? list all with `metaq topic list`"];
    server.fails(&["send", "Ordrs", "x"], 1, &near);
    server.fails(&["tail", "Ordrs"], 1, &near);
    server.fails(&["send", "Orders", ""], 2, &["body is empty"]);
    server.fails(&["send", "Orders"], 2, &["there was nothing to send"]);
    server.fails(
        &["send", "Orders", "x", "--delay", "soon"],
        2,
        &["`soon` is no time to wait", "hint: it is like `10s`"],
    );
    server.fails(&["send", "Orders", "x", "--ordered"], 2, &["hint: add `--key KEY`"]);
    server.fails(&["send", "Orders", "x", "-p", "novalue"], 2, &["`--property novalue` is no NAME=VALUE"]);
    server.fails(&["send", "Orders", "-f", "/nowhere/x"], 1, &["/nowhere/x cannot be read"]);
    server.fails(&["tail", "Orders", "--format", "{bdy}"], 2, &["`{bdy}` stands for nothing here", "{body}"]);
    server.fails(&["tail", "Orders", "--queue", "17"], 1, &["has no queue `17`", "metaq topic show Orders"]);
    server.fails(&["tail", "Orders", "--from", "soon"], 2, &["is no time"]);
    server.fails(&["tail", "Orders", "-g", "cg", "--from", "3"], 2, &["metaq group reset cg Orders"]);
    let elsewhere = ["tail", "Orders", "-n", "127.0.0.1:1"];
    server.fails(&elsewhere, 3, &["no NameServer answered", "hint: is a NameServer running there? `metaq up`"]);
    let ran = server.run(&["tail", "Ordrs", "-n", server.nameserver()]);
    assert!(ran.err.contains("list all with `metaq topic list`"), "{ran:?}");
}

#[test]
fn long_bodies_are_shown_whatever_they_were_compressed_with() {
    let server = Server::start();
    let body = "a long story, ".repeat(500);
    for how in ["zlib", "lz4", "zstd", "none"] {
        let sent = server.json(&["send", "Orders", &body, "--compress", how]);
        let shown = server.json(&["message", "show", sent["offsetId"].as_str().unwrap()]);
        assert_eq!(shown["body"], body.as_str(), "{how}");
        let size = shown["size"].as_u64().unwrap();
        assert_eq!(size < 1000, how != "none", "{how}: {size}");
    }
    let shown = server.done(&["tail", "Orders", "--format", "{body}"]);
    assert_eq!(shown, format!("{body}\n").repeat(4));
    server.fails(&["send", "Orders", "a", "--compress", "snappy"], 2, &["zstd"]);
}
