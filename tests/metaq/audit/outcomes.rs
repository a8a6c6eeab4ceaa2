//! What a producer's history says of answers of all kinds.

use std::time::Duration;

use metaq::audit::file::{decode, Entry};
use metaq::audit::history::Event;
use metaq::client::{Client, Message, Recorder};
use metaq::env::real;
use metaq::proto::remoting::{request, response, Response};
use tempfile::TempDir;

use crate::client::support::Server;

/// What is recorded of one send to a broker that answers so.
async fn outcome(answer: impl Fn() -> Option<Response> + Send + Sync + 'static, message: Message, cut: bool) -> Event {
    let broker = Server::start(move |command| match command.code {
        request::SEND_MESSAGE_V2 => answer(),
        _ => Some(Response::success()),
    })
    .await;
    let nameserver = Server::nameserver("Orders", &[("broker-a", &broker.address)]).await;
    let (env, directory) = (real::env(), TempDir::new().unwrap());
    let path = directory.path().join("x.history");
    let recorder = Recorder::create(&env, &path).unwrap();
    let client = Client::new(&env, &nameserver.address).unwrap();
    client.record(&recorder).unwrap();
    let producer = client.producer("pg").retries(0).timeout(Duration::from_millis(300)).start().unwrap();
    if cut {
        // The application no longer waits.
        let _ = tokio::time::timeout(Duration::from_millis(100), producer.send(message)).await;
    } else {
        let _ = producer.send(message).await;
    }
    recorder.close().unwrap();
    let entries = decode(&std::fs::read(&path).unwrap()).unwrap().entries;
    assert!(matches!(entries[0], Entry::Producer(_)) && matches!(entries[1], Entry::Event(_, Event::Sending(_))));
    assert_eq!((entries.len(), &entries[3]), (4, &Entry::End));
    match &entries[2] {
        Entry::Event(_, event) => event.clone(),
        other => panic!("{other:?}"),
    }
}

fn stored(code: i32) -> impl Fn() -> Option<Response> + Send + Sync + 'static {
    move || {
        let fields = [("msgId", "7F00000100002A9F0000000000000000"), ("queueId", "0"), ("queueOffset", "5")];
        let answer = fields.into_iter().fold(Response::error(code, ""), |answer, (key, value)| answer.with(key, value));
        Some(answer)
    }
}

fn message() -> Message {
    Message::new("Orders", "a book")
}

#[tokio::test]
async fn only_a_whole_promise_is_recorded_as_one() {
    let acknowledged = outcome(stored(response::SUCCESS), message(), false).await;
    assert!(matches!(&acknowledged, Event::Acknowledged(_, (queue, 5)) if queue.to_string() == "broker-a/Orders/0"));
    let scheduled = outcome(stored(response::SUCCESS), message().delay_level(3), false).await;
    assert!(matches!(scheduled, Event::Scheduled(_, delay) if delay == Duration::from_secs(10)));
    for (code, message) in [
        (response::FLUSH_DISK_TIMEOUT, message()),
        (response::SLAVE_NOT_AVAILABLE, message()),
        (response::SUCCESS, message().wait_stored(false)),
    ] {
        let unknown = outcome(stored(code), message, false).await;
        assert!(matches!(unknown, Event::Unknown(_)), "{code}: {unknown:?}");
    }
}

#[tokio::test]
async fn a_refusal_counts_only_if_nothing_can_be_stored() {
    for code in [response::SYSTEM_BUSY, response::NO_PERMISSION] {
        let refused = outcome(move || Some(Response::error(code, "no")), message(), false).await;
        assert!(matches!(refused, Event::Refused(_)), "{code}: {refused:?}");
    }
    let system_error = || Some(Response::error(response::SYSTEM_ERROR, "who knows"));
    assert!(matches!(outcome(system_error, message(), false).await, Event::Unknown(_)));
    assert!(matches!(outcome(|| None, message(), false).await, Event::Unknown(_)), "no answer");
    assert!(matches!(outcome(|| None, message(), true).await, Event::Unknown(_)), "nobody waits");
}
