//! Consumers of a broker that says what a test wants.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use metaq::client::{Action, Client, ConsumeFrom};
use metaq::env::{real, Millis};
use metaq::proto::body::{from_slice, HeartbeatData};
use metaq::proto::message::{encode_record, patch_offsets, NewRecord};
use metaq::proto::remoting::{request, response, Command, Response};
use metaq::proto::{PhysicalOffset, QueueOffset};

use super::consuming::Seen;
use super::support::{until, Server};

/// A group's broker with one queue; its only member is whoever sends heartbeats. `script` answers first.
async fn broker(script: impl Fn(&Command) -> Option<Response> + Send + Sync + 'static) -> (Server, Server) {
    let member = Arc::new(Mutex::new(String::new()));
    let broker = Server::start(move |command| {
        if let Some(answer) = script(command) {
            return Some(answer);
        }
        match command.code {
            request::HEART_BEAT => {
                *member.lock().unwrap() = from_slice::<HeartbeatData>(&command.body).unwrap().client_id;
                Some(Response::success())
            }
            request::GET_CONSUMER_LIST_BY_GROUP => {
                let body = format!("{{\"consumerIdList\":[\"{}\"]}}", member.lock().unwrap());
                Some(Response::success().with_body(body))
            }
            // Held until something comes, which is never.
            request::PULL_MESSAGE => None,
            _ => Some(Response::success()),
        }
    })
    .await;
    let nameserver = Server::nameserver("Orders", &[("a", &broker.address)]).await;
    (nameserver, broker)
}

fn found(next: i64, record: Vec<u8>) -> Response {
    let fields = [("suggestWhichBrokerId", 0), ("nextBeginOffset", next), ("minOffset", 0), ("maxOffset", next)];
    fields
        .iter()
        .fold(Response::success(), |answer, (name, value)| answer.with(name, value.to_string()))
        .with_body(record)
}

fn record(body: &[u8]) -> Vec<u8> {
    let host = "127.0.0.1:10911".parse().unwrap();
    let mut out = Vec::new();
    let record = NewRecord {
        topic: "Orders",
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: Millis(1),
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: "",
        edits: &[],
    };
    encode_record(&mut out, &record).unwrap();
    patch_offsets(&mut out, QueueOffset(0), PhysicalOffset(0), Millis(1));
    out
}

/// OFF-1: without an answer to where the group is, the client took the beginning.
#[tokio::test]
async fn off_1_nothing_begins_before_its_start_is_known() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (nameserver, broker) = broker(move |command| {
        let answers = command.code == request::QUERY_CONSUMER_OFFSET;
        answers.then(|| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => Response::error(response::SYSTEM_ERROR, "starting"),
            1 => Response::error(response::SYSTEM_BUSY, "busy"),
            _ => Response::success().with("offset", "5000"),
        })
    })
    .await;
    let env = real::env();
    let client = Client::new(&env, &nameserver.address).unwrap();
    let consumer = client.push_consumer("cg").subscribe("Orders", "*").consume_from(ConsumeFrom::First);
    let _consumer = consumer.concurrently(|_| async { Action::Done }).await.unwrap();
    let pull = until(&env, async || broker.asked(request::PULL_MESSAGE).pop()).await;
    assert_eq!(pull.ext("queueOffset"), Some("5000"));
    assert_eq!(broker.asked(request::QUERY_CONSUMER_OFFSET).len(), 3);
    assert_eq!(broker.asked(request::PULL_MESSAGE).len(), 1);
}

/// RTY-1: the broker refused the hand-back, and the message was lost.
#[tokio::test]
async fn rty_1_a_message_that_nobody_takes_back_is_tried_again_here() {
    let (nameserver, broker) = broker(|command| match command.code {
        request::QUERY_CONSUMER_OFFSET => Some(Response::success().with("offset", "0")),
        request::PULL_MESSAGE if command.ext("queueOffset") == Some("0") => Some(found(1, record(b"m0"))),
        request::CONSUMER_SEND_MSG_BACK | request::SEND_MESSAGE_V2 => {
            Some(Response::error(response::SYSTEM_ERROR, "the disk is on fire"))
        }
        _ => None,
    })
    .await;
    let env = real::env();
    let client = Client::new(&env, &nameserver.address).unwrap();
    let seen = Seen::default();
    let heard = seen.clone();
    let consumer = client.push_consumer("cg").subscribe("Orders", "*");
    let consumer = consumer
        .concurrently(move |message| {
            heard.add(&message);
            async move {
                if message.reconsume_times == 0 {
                    Action::Retry
                } else {
                    Action::Done
                }
            }
        })
        .await
        .unwrap();
    until(&env, async || (seen.all().len() == 2).then_some(())).await;
    assert_eq!(seen.all()[1].reconsume_times, 1);
    assert_eq!(broker.asked(request::CONSUMER_SEND_MSG_BACK).len(), 1);
    assert_eq!(broker.asked(request::SEND_MESSAGE_V2)[0].ext("b"), Some("%RETRY%cg"), "then as a message of its own");
    let commits = || broker.asked(request::UPDATE_CONSUMER_OFFSET);
    assert_eq!(commits().len(), 0, "while it failed nothing was committed");
    consumer.stop(super::support::LIMIT).await;
    assert_eq!(commits()[0].ext("commitOffset"), Some("1"));
    let goodbye = broker.asked(request::UNREGISTER_CLIENT);
    assert_eq!(goodbye[0].ext("consumerGroup"), Some("cg"));
}
