//! `metaq message` and `metaq dlq`.

use metaq::client::{Action, Client, ConsumeFrom};
use metaq::env::real;

use super::tool::Server;

#[test]
fn messages_are_found_shown_and_sent_again() {
    let server = Server::start();
    let sent = server.json(&["send", "Orders", "a book", "-k", "order-1", "-t", "paid", "-p", "region=eu"]);
    let (id, offset_id) = (sent["id"].as_str().unwrap(), sent["offsetId"].as_str().unwrap());
    server.until(&["message", "find", "Orders", "-k", "order-1"], |ran| ran.out.contains("a book"));
    let found = server.run(&["message", "find", "Orders", "-k", "order-1"]);
    assert!(
        found.err.contains(&format!("hint: see all of one with `metaq message show {id} --topic Orders`")),
        "{found:?}"
    );
    assert_eq!(server.json(&["message", "find", "Orders", "-k", "order-1", "--from", "1h"])[0]["id"], id);
    server.fails(&["message", "find", "Orders", "-k", "none"], 1, &["no message with key `none`"]);
    for args in [["message", "show", offset_id].as_slice(), &["message", "show", id, "--topic", "Orders"]] {
        let shown = server.json(args);
        assert_eq!((&shown["body"], &shown["tag"]), (&"a book".into(), &"paid".into()), "{args:?}");
        let text = server.done(args);
        assert!(text.contains("region") && text.ends_with("\na book\n"), "{text}");
    }
    server.fails(&["message", "show", "nonsense"], 2, &["add `--topic TOPIC`"]);
    server.fails(&["message", "show", "nonsense", "--topic", "Orders"], 1, &["message `nonsense` not found"]);
    server.fails(&["message", "resend", offset_id], 2, &["send it as a new message to topic Orders"]);
    let again = server.json(&["message", "resend", offset_id, "--yes"]);
    assert_ne!(again["id"], id);
    let shown = server.done(&["tail", "Orders", "--format", "{body} {key} {tag}"]);
    assert_eq!(shown, "a book order-1 paid\n".repeat(2));
    let nobody = ["message", "resend", offset_id, "--group", "TOOLS_CONSUMER", "--yes"];
    server.fails(&nobody, 1, &["nobody of group `TOOLS_CONSUMER` is connected"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_shown_and_consumed_again() {
    let server = Server::start();
    assert_eq!(server.json(&["dlq", "list"]), serde_json::json!([]));
    server.fails(&["dlq", "show", "billing"], 1, &["group `billing` has no dead letters", "metaq dlq list"]);
    for (body, tag) in [("bad 1", "a"), ("bad 2", "b"), ("bad 3", "a")] {
        server.done(&["send", "Orders", body, "-t", tag, "-k", "order-1"]);
    }
    let client = Client::new(&real::env(), server.nameserver()).unwrap();
    let start = async |action: Action| {
        let consumer = client.push_consumer("billing").subscribe("Orders", "*").consume_from(ConsumeFrom::First);
        let (heard, came) = tokio::sync::mpsc::unbounded_channel();
        let consumer = consumer.concurrently(move |message| {
            // Who does not want to know has dropped the other end.
            let _ = heard.send((message.topic.to_string(), String::from_utf8(message.body.clone()).unwrap()));
            async move { action }
        });
        (consumer.await.unwrap(), came)
    };
    let (gives_up, _) = start(Action::DeadLetter).await;
    let count = |ran: &super::tool::Ran| ran.out.matches("bad ").count();
    server.until(&["dlq", "show", "billing"], |ran| count(ran) == 3);
    gives_up.stop(super::LIMIT).await;
    assert_eq!(server.json(&["dlq", "list"])[0]["new"], 3);
    assert!(server.done(&["dlq", "show", "billing"]).starts_with("TOPIC   BROKER"));
    for (filter, found) in [
        (["--tag", "a"], 2),
        (["--contains", "bad 2"], 1),
        (["--key", "order-1"], 3),
        (["--topic", "Other"], 0),
        (["--from", "1h"], 3),
        (["--to", "1h"], 0),
    ] {
        let shown = server.json(&[&["dlq", "show", "billing"][..], &filter].concat());
        assert_eq!(shown.as_array().unwrap().len(), found, "{filter:?}");
    }
    server.fails(&["dlq", "redrive", "billing"], 2, &["send 3 dead letters to group billing"]);
    let dry = server.run(&["dlq", "redrive", "billing", "--dry-run"]);
    assert!(count(&dry) == 3 && dry.err.contains("nothing was changed"), "{dry:?}");

    let (consumes, mut came) = start(Action::Done).await;
    let one = server.json(&["dlq", "redrive", "billing", "--contains", "bad 2", "--yes"]);
    assert_eq!(one["redriven"], 1);
    assert_eq!(came.recv().await.unwrap(), ("Orders".to_owned(), "bad 2".to_owned()));
    assert_eq!(server.json(&["dlq", "redrive", "billing", "--yes"])["redriven"], 3);
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(came.recv().await.unwrap().1);
    }
    all.sort();
    assert_eq!(all, ["bad 1", "bad 2", "bad 3"]);
    consumes.stop(super::LIMIT).await;
    assert_eq!(server.json(&["dlq", "list"])[0]["new"], 0);
    let rest = server.run(&["dlq", "redrive", "billing", "--yes"]);
    assert!(rest.err.contains("nothing to redrive") && rest.err.contains("--again"), "{rest:?}");
    assert_eq!(server.json(&["dlq", "redrive", "billing", "--again", "--to-topic", "Orders", "--yes"])["redriven"], 3);
    assert_eq!(server.json(&["topic", "show", "Orders"])["messages"], 6);
    client.close().await;
}
