//! `metaq txn`.

use metaq::client::{Client, LocalTransaction, Message};
use metaq::env::real;

use super::tool::Server;

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_listed_shown_and_decided() {
    let server = Server::start();
    assert_eq!(server.json(&["txn", "list"]), serde_json::json!([]));
    let client = Client::new(&real::env(), server.nameserver()).unwrap();
    let producer = client.producer("order-service").transactional(|_| async { LocalTransaction::Unknown }).unwrap();
    let mut ids = Vec::new();
    for body in ["a", "b", "c"] {
        let sent = producer.send(Message::new("Orders", body), |_| async { LocalTransaction::Unknown });
        ids.push(sent.await.unwrap().half.message_id);
    }
    producer.send(Message::new("Orders", "d"), |_| async { LocalTransaction::Rollback }).await.unwrap();
    let listed = server.json(&["txn", "list"]);
    let listed: Vec<_> = listed.as_array().unwrap().iter().map(|row| (&row["id"], &row["state"])).collect();
    assert_eq!(listed.len(), 3);
    assert!(ids.iter().zip(&listed).all(|(id, row)| row.0 == id && row.1 == "open"), "{listed:?}");
    assert_eq!(server.json(&["txn", "list", "-g", "other"]), serde_json::json!([]));
    assert_eq!(server.json(&["txn", "show", &ids[1]])["body"], "b");
    server.fails(&["txn", "commit", &ids[0]], 2, &["this would commit it"]);
    server.done(&["txn", "commit", &ids[0], "--yes"]);
    server.done(&["txn", "rollback", &ids[1], "--yes"]);
    server.fails(&["txn", "rollback", &ids[0], "--yes"], 1, &["is open or given up", "metaq txn list"]);
    assert_eq!(server.json(&["txn", "list"])[0]["id"], ids[2]);
    server.until(&["tail", "Orders", "--format", "{body}"], |ran| ran.out == "a\n");
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_was_given_up_can_still_be_committed() {
    let eager = ["--set", "transactionCheckMax=0", "--set", "transactionTimeOut=0"];
    let server = Server::with(&[&eager[..], &["--set", "transactionCheckInterval=100"]].concat());
    let client = Client::new(&real::env(), server.nameserver()).unwrap();
    let producer = client.producer("order-service").transactional(|_| async { LocalTransaction::Unknown }).unwrap();
    let sent = producer.send(Message::new("Orders", "a"), |_| async { LocalTransaction::Unknown }).await.unwrap();
    let id = sent.half.message_id;
    server.until(&["txn", "list"], |ran| ran.out.contains("given up"));
    // It may be given up again before the decision comes.
    server.until(&["txn", "commit", &id, "--yes"], |ran| ran.code == Some(0));
    server.until(&["tail", "Orders", "--format", "{body}"], |ran| ran.out == "a\n");
    client.close().await;
}
