//! Messages that are sent together with a local transaction.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use metaq::client::{ConsumeFrom, LocalTransaction, Message, Received, TransactionProducer};
use metaq::env::Millis;
use metaq::proto::message::{encode_record, NewRecord};
use metaq::proto::remoting::{frame, request, response, Command, Response, Serialization};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver};

use super::support::{until, Cluster, LIMIT};

/// Producers are asked at once and often.
const EAGER: &str = "transactionTimeOut=0\ntransactionCheckInterval=100\n";

/// What a group gets of `Orders`.
async fn seen(cluster: &Cluster) -> Arc<Mutex<Vec<String>>> {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (heard, client) = (Arc::clone(&seen), cluster.client());
    let consumer = client.push_consumer("billing").subscribe("Orders", "*").consume_from(ConsumeFrom::First);
    let consumer = consumer.concurrently(move |message| {
        heard.lock().unwrap().push(String::from_utf8(message.body.clone()).unwrap());
        async { metaq::client::Action::Done }
    });
    let consumer = consumer.await.unwrap();
    tokio::spawn(async move {
        let _consumer = consumer;
        std::future::pending::<()>().await;
    });
    seen
}

fn producer(cluster: &Cluster, answer: LocalTransaction, asked: Arc<AtomicUsize>) -> TransactionProducer {
    let check = move |message: Received| {
        assert_eq!(&*message.topic, "Orders");
        asked.fetch_add(1, Ordering::SeqCst);
        async move { answer }
    };
    cluster.client().producer("order-service").transactional(check).unwrap()
}

#[tokio::test]
async fn what_the_local_transaction_says_happens() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 1).await;
    let seen = seen(&cluster).await;
    let producer = producer(&cluster, LocalTransaction::Unknown, Arc::default());
    for (body, state) in [("no", LocalTransaction::Rollback), ("yes", LocalTransaction::Commit)] {
        let order = Message::new("Orders", body).key("order-1").delay_level(3);
        let done = producer.send(order, |half| {
            assert_eq!(half.queue.topic, "Orders");
            async move { state }
        });
        let done = done.await.unwrap();
        assert_eq!((done.state, done.told), (state, Ok(())));
    }
    until(&cluster.env, async || (!seen.lock().unwrap().is_empty()).then_some(())).await;
    assert_eq!(*seen.lock().unwrap(), ["yes"]);
    producer.close().await;
}

#[tokio::test]
async fn a_producer_is_asked_about_what_another_one_did_not_say() {
    let cluster = Cluster::start(1, EAGER).await;
    cluster.make_topic("Orders", 1).await;
    let seen = seen(&cluster).await;
    let (never, asked) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
    let silent = producer(&cluster, LocalTransaction::Unknown, Arc::clone(&never));
    let order = Message::new("Orders", "slow");
    let done = silent.send(order, |_| async { LocalTransaction::Unknown }).await.unwrap();
    assert_eq!((done.state, done.told), (LocalTransaction::Unknown, Ok(())));
    until(&cluster.env, async || (never.load(Ordering::SeqCst) > 0).then_some(())).await;
    silent.close().await;
    let _knows = {
        let asked = Arc::clone(&asked);
        let producer = producer(&cluster, LocalTransaction::Commit, asked);
        // It is heard of when it is connected to.
        producer.send(Message::new("Orders", "fast"), |_| async { LocalTransaction::Commit }).await.unwrap();
        producer
    };
    until(&cluster.env, async || (seen.lock().unwrap().len() == 2).then_some(())).await;
    assert_eq!(*seen.lock().unwrap(), ["fast", "slow"]);
    assert!(asked.load(Ordering::SeqCst) > 0);
}

/// A message whose safety is in doubt is rolled back, and nothing is done for it.
#[tokio::test]
async fn the_local_transaction_does_not_run_for_a_message_in_doubt() {
    let broker = super::support::Server::start(|command: &Command| {
        Some(if command.code == request::SEND_MESSAGE_V2 {
            Response::error(response::FLUSH_DISK_TIMEOUT, "slow")
                .with("msgId", "7F00000100002A9F0000000000000000")
                .with("queueId", "0")
                .with("queueOffset", "7")
        } else {
            Response::success()
        })
    });
    let broker = broker.await;
    let nameserver = super::support::Server::nameserver("Orders", &[("broker-a", &broker.address)]).await;
    let client = metaq::client::Client::new(&metaq::env::real::env(), &nameserver.address).unwrap();
    let producer = client.producer("order-service").transactional(|_| async { LocalTransaction::Commit }).unwrap();
    let done = producer.send(Message::new("Orders", "a"), |_| async { panic!("it must not run") }).await.unwrap();
    assert_eq!((done.state, done.told), (LocalTransaction::Rollback, Ok(())));
    let ended = broker.asked(request::END_TRANSACTION);
    assert_eq!(ended[0].ext("commitOrRollback"), Some("12"));
    assert_eq!(ended[0].ext("tranStateTableOffset"), Some("7"));
    let sent = &broker.asked(request::SEND_MESSAGE_V2)[0];
    assert_eq!(sent.ext("f"), Some("4"), "marked as prepared");
}

/// TXN-8: a header that one client could not read was never answered. Questions come over the connection of the client, and
/// the answers go back on it.
#[tokio::test]
async fn txn_8_questions_are_answered_whatever_fields_they_have() {
    let full = [("topic", "H"), ("msgId", "K"), ("transactionId", "K"), ("offsetMsgId", "O"), ("bname", "broker-a")];
    let largest = i64::MAX.to_string();
    let question = |fields: &[(&str, &str)], body: Vec<u8>| {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Command { ext: fields, ..Command::request(request::CHECK_TRANSACTION_STATE).with_body(body) }
    };
    let place = [("tranStateTableOffset", "3"), ("commitLogOffset", "4096")];
    let far = [("tranStateTableOffset", largest.as_str()), ("commitLogOffset", largest.as_str())];
    let questions = [
        question(&[&place[..], &full].concat(), record("PGROUP\u{1}order-service\u{2}UNIQ_KEY\u{1}K\u{2}")),
        question(&place, record("PGROUP\u{1}order-service\u{2}UNIQ_KEY\u{1}K\u{2}")),
        question(&far, record("PGROUP\u{1}order-service\u{2}UNIQ_KEY\u{1}K\u{2}")),
        question(&place[..1], record("PGROUP\u{1}order-service\u{2}UNIQ_KEY\u{1}K\u{2}")),
        question(&place, record("PGROUP\u{1}other\u{2}UNIQ_KEY\u{1}K\u{2}")),
        question(&place, b"no record".to_vec()),
    ];
    let (asking, mut answers) = asking(questions.to_vec()).await;
    let nameserver = super::support::Server::nameserver("Orders", &[("broker-a", &asking)]).await;
    let client = metaq::client::Client::new(&metaq::env::real::env(), &nameserver.address).unwrap();
    let producer = client.producer("order-service").transactional(|_| async { LocalTransaction::Commit }).unwrap();
    // The connection is made by the send, which is never answered.
    let sending = tokio::spawn(async move {
        let _ = producer.send(Message::new("Orders", "a"), |_| async { LocalTransaction::Unknown }).await;
    });
    let (mut ended, mut codes) = (Vec::new(), std::collections::BTreeMap::new());
    while ended.len() < 3 || codes.len() < questions.len() {
        let command = tokio::time::timeout(LIMIT, answers.recv()).await.unwrap().unwrap();
        if command.code == request::END_TRANSACTION {
            let said = |name: &str| command.ext(name).unwrap_or_default().to_owned();
            assert_eq!((said("commitOrRollback"), said("fromTransactionCheck")), ("8".to_owned(), "true".to_owned()));
            ended.push(said("commitLogOffset"));
        } else {
            codes.insert(command.opaque, command.code);
        }
    }
    ended.sort();
    assert_eq!(ended, ["4096", "4096", &largest]);
    assert_eq!(codes.into_values().collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1], "an error, not silence");
    sending.abort();
}

fn record(text: &str) -> Vec<u8> {
    let host = "127.0.0.1:10911".parse().unwrap();
    let half = NewRecord {
        topic: "Orders",
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: Millis(1),
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"a",
        properties: text,
        edits: &[],
    };
    let mut out = Vec::new();
    encode_record(&mut out, &half).unwrap();
    out
}

/// A server that asks all these questions as soon as somebody sends something, and what it gets to hear then.
async fn asking(questions: Vec<Command>) -> (String, UnboundedReceiver<Command>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (hear, heard) = unbounded_channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut received, mut questions) = (Vec::new(), Some(questions));
        while stream.read_buf(&mut received).await.is_ok_and(|read| read > 0) {
            while let Some(frame) = frame::next(&received).unwrap() {
                let (command, len) = (Command::decode(&frame).unwrap(), frame.len);
                received.drain(..len);
                if command.is_response() || command.code == request::END_TRANSACTION {
                    let _ = hear.send(command);
                    continue;
                }
                if command.code != request::SEND_MESSAGE_V2 {
                    continue;
                }
                for (opaque, mut question) in (1_000..).zip(questions.take().unwrap_or_default()) {
                    let mut out = Vec::new();
                    question.opaque = opaque;
                    question.encode(Serialization::Json, &mut out).unwrap();
                    stream.write_all(&out).await.unwrap();
                }
            }
        }
    });
    (address, heard)
}
