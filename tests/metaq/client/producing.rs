//! Sending.

use std::collections::BTreeSet;
use std::time::Duration;

use metaq::client::{AutoBatch, Client, Durability, Error, Message, MessageQueue};
use metaq::env::real;
use metaq::proto::message::{parse, properties, BodyCrc, Parsed};
use metaq::proto::remoting::{request, response, Command, Response};

use super::support::{route, Cluster, Server, LIMIT};
use crate::cluster::support::{bodies, pull_command};

fn sent_answer() -> Response {
    Response::success().with("msgId", "0".repeat(32)).with("queueId", "0").with("queueOffset", "7")
}

#[tokio::test]
async fn a_message_arrives_as_it_was_sent() {
    let cluster = Cluster::start(1, "").await;
    let client = cluster.client();
    let producer = client.producer("pg").start().unwrap();
    let message = Message::new("Orders", "a book").tag("paid").key("k1").key("k2").property("region", "eu").flag(7);
    let sent = producer.send(message).await.unwrap();
    assert_eq!((sent.durability, sent.offset, sent.failed_attempts.len()), (Durability::AsAsked, 0, 0));

    let broker = cluster.brokers[0].as_ref().unwrap().client().await;
    let mut pull = pull_command("cg", "Orders", 0, LIMIT);
    pull.ext.set("queueId", &sent.queue.queue_id.to_string());
    let answer = broker.get(pull).await;
    let Ok(Parsed::Record(record)) = parse(&answer.body, BodyCrc::Verify) else { panic!("no record") };
    assert_eq!((record.body(), record.flag()), (&b"a book"[..], 7));
    let text = record.properties();
    for (name, value) in [("TAGS", "paid"), ("KEYS", "k1 k2"), ("region", "eu"), ("UNIQ_KEY", &sent.message_id)] {
        assert_eq!(properties::find(&text, name), Some(value));
    }
    assert_eq!(client.admin().message_by_id(&sent.offset_message_id).await.unwrap().body, b"a book");
}

#[tokio::test]
async fn a_message_with_a_time_can_be_taken_back_until_it_comes() {
    let cluster = Cluster::start(1, "recallMessageEnable=true\n").await;
    let client = cluster.client();
    let producer = client.producer("pg").start().unwrap();
    let sent = producer.send(Message::new("Orders", "a reminder").delay(Duration::from_secs(60))).await.unwrap();
    let handle = sent.recall_handle.unwrap();
    assert_eq!(producer.recall("Orders", &handle).await.unwrap(), sent.message_id);
    let error = producer.recall("Orders", "nonsense").await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    let over = producer.send(Message::new("Orders", "at once").deliver_at(metaq::env::Millis(1))).await.unwrap();
    assert_eq!(over.recall_handle, None);
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_here() {
    let cluster = Cluster::start(1, "").await;
    let client = cluster.client();
    let producer = client.producer("pg").start().unwrap();
    let long = "x".repeat(32_700);
    for message in [
        Message::new("no blanks", "a"),
        Message::new("Orders", ""),
        Message::new("Orders", "a").property("", "b"),
        Message::new("Orders", "a").property("a", "b\u{1}c"),
        Message::new("Orders", "a").property("UNIQ_KEY", "mine"),
        // PRO-3: properties of 40,000 bytes were stored damaged.
        Message::new("Orders", "a").property("p", &long),
    ] {
        let error = producer.send(message.clone()).await.unwrap_err();
        assert!(matches!(error.error, Error::Invalid(_)) && !error.retryable() && !error.may_be_stored(), "{error}");
        producer.send_batch(vec![message]).await.unwrap_err();
    }
    assert!(client.producer("pg").start().is_err(), "the group has a producer here");
    drop(producer);
    client.producer("pg").start().unwrap();
}

/// PRO-7: a queue of another topic was taken.
#[tokio::test]
async fn pro_7_a_queue_of_another_topic_is_refused() {
    let cluster = Cluster::start(1, "").await;
    let producer = cluster.client().producer("pg").start().unwrap();
    let queue = producer.send(Message::new("T2", "a")).await.unwrap().queue;
    let error = producer.send_to(Message::new("T1", "a"), &queue).await.unwrap_err();
    assert!(matches!(error.error, Error::Invalid(_)), "{error}");
    assert_eq!(producer.send_to(Message::new("T2", "a"), &queue).await.unwrap().queue, queue);
}

#[tokio::test]
async fn queues_take_turns_and_keys_keep_their_queue() {
    let cluster = Cluster::start(2, "").await;
    cluster.make_topic("Orders", 4).await;
    let producer = cluster.client().producer("pg").start().unwrap();
    let mut used = BTreeSet::new();
    for _ in 0..8 {
        used.insert(producer.send(Message::new("Orders", "a")).await.unwrap().queue);
    }
    assert_eq!(used.into_iter().collect::<Vec<_>>(), producer.queues("Orders").await.unwrap());
    let queue = producer.send_ordered(Message::new("Orders", "a"), "key").await.unwrap().queue;
    for _ in 0..3 {
        assert_eq!(producer.send_ordered(Message::new("Orders", "a"), "key").await.unwrap().queue, queue);
    }
    let chosen = producer.send_with(Message::new("Orders", "a"), |queues, _| queues.len() - 1).await.unwrap().queue;
    assert_eq!((chosen.broker_name.as_str(), chosen.queue_id), ("broker-b", 3));
    assert!(producer.send_with(Message::new("Orders", "a"), |queues, _| queues.len()).await.is_err());
}

/// PRO-1: a broker that hangs used up the whole time-out.
#[tokio::test]
async fn pro_1_a_hanging_broker_leaves_time_for_another() {
    let hanging = Server::start(|_| None).await;
    let working = Server::start(|_| Some(sent_answer())).await;
    let nameserver = Server::nameserver("Orders", &[("a", &hanging.address), ("b", &working.address)]).await;
    let client = Client::new(&real::env(), &nameserver.address).unwrap();
    let producer = client.producer("pg").timeout(Duration::from_secs(2)).start().unwrap();
    let mut failed = Vec::new();
    for _ in 0..2 {
        failed.extend(producer.send(Message::new("Orders", "a")).await.unwrap().failed_attempts);
    }
    assert_eq!(failed.len(), 1, "the second send avoids the broker that hangs");
    assert!(failed[0].broker == "a" && failed[0].took >= Duration::from_millis(900), "{failed:?}");
    let keys = |server: &Server| -> Vec<String> {
        let sends = server.asked(request::SEND_MESSAGE_V2);
        sends.iter().map(|send| properties::find(send.ext("i").unwrap(), "UNIQ_KEY").unwrap().to_owned()).collect()
    };
    assert!(keys(&working).contains(&keys(&hanging)[0]), "all attempts share the message id");
}

#[tokio::test]
async fn errors_say_what_is_known() {
    let busy = Server::start(|_| Some(Response::error(response::SYSTEM_BUSY, "busy"))).await;
    let illegal = Server::start(|_| Some(Response::error(response::MESSAGE_ILLEGAL, "bad"))).await;
    let hanging = Server::start(|_| None).await;
    for (server, retryable, unknown, tries) in
        [(&busy, true, false, 3), (&illegal, false, false, 1), (&hanging, true, true, 1)]
    {
        let nameserver = Server::nameserver("Orders", &[("a", &server.address)]).await;
        let client = Client::new(&real::env(), &nameserver.address).unwrap();
        let producer = client.producer("pg").timeout(Duration::from_secs(1)).start().unwrap();
        let error = producer.send(Message::new("Orders", "a")).await.unwrap_err();
        assert_eq!((error.retryable(), error.may_be_stored()), (retryable, unknown), "{error}");
        assert_eq!(server.asked(request::SEND_MESSAGE_V2).len(), tries, "{error}");
        let error = producer.send(Message::new("Unknown", "a")).await.unwrap_err();
        assert_eq!(error.error, Error::NoRoute { topic: "Unknown".into() });
    }
    let client = Client::new(&real::env(), "127.0.0.1:1").unwrap();
    let error = client.producer("pg").start().unwrap().send(Message::new("Orders", "a")).await.unwrap_err();
    assert!(matches!(error.error, Error::NoNameServer { .. }) && !error.may_be_stored(), "{error}");
}

/// An ordered send is not repeated once it may be stored; its order would be lost.
#[tokio::test]
async fn ordered_sends_are_repeated_only_where_nothing_was_stored() {
    let codes = [response::SYSTEM_BUSY, response::SYSTEM_ERROR];
    for (code, tries) in codes.into_iter().zip([3, 1]) {
        let server = Server::start(move |_| Some(Response::error(code, "no"))).await;
        let nameserver = Server::nameserver("Orders", &[("a", &server.address)]).await;
        let client = Client::new(&real::env(), &nameserver.address).unwrap();
        let producer = client.producer("pg").start().unwrap();
        producer.send_ordered(Message::new("Orders", "a"), "key").await.unwrap_err();
        assert_eq!(server.asked(request::SEND_MESSAGE_V2).len(), tries);
    }
}

#[tokio::test]
async fn stored_but_less_safe_than_asked_is_no_error() {
    for (code, durability) in
        [(10, Durability::NotFlushed), (12, Durability::NotReplicated), (11, Durability::NoReplica)]
    {
        let server = Server::start(move |_| Some(Response { code, ..sent_answer() })).await;
        let nameserver = Server::nameserver("Orders", &[("a", &server.address)]).await;
        let client = Client::new(&real::env(), &nameserver.address).unwrap();
        let sent = client.producer("pg").start().unwrap().send(Message::new("Orders", "a")).await.unwrap();
        assert_eq!((sent.durability, sent.offset), (durability, 7));
    }
}

#[tokio::test]
async fn a_dead_broker_is_replaced_and_comes_back() {
    let mut cluster = Cluster::start(2, "").await;
    cluster.make_topic("Orders", 1).await;
    let producer = cluster.client().producer("pg").start().unwrap();
    for _ in 0..4 {
        producer.send(Message::new("Orders", "a")).await.unwrap();
    }
    cluster.stop_broker(0).await;
    for _ in 0..8 {
        let sent = producer.send(Message::new("Orders", "b")).await.unwrap();
        assert_eq!(sent.queue.broker_name, "broker-b");
    }
}

/// While a slave was promoted, a client learned that there was no master, and said so to every send for 30 s.
#[tokio::test]
async fn a_master_that_is_being_replaced_is_waited_for() {
    let broker = Server::start(|_| Some(sent_answer())).await;
    let address = broker.address.clone();
    let say = move |asked| route([("broker-a", i64::from(asked < 2), &*address)].into_iter());
    let nameserver = Server::nameserver_saying("Orders", say).await;
    let client = Client::new(&real::env(), &nameserver.address).unwrap();
    let producer = client.producer("pg").timeout(LIMIT).start().unwrap();
    let (any, ordered) = (Message::new("Orders", "a"), Message::new("Orders", "b"));
    let (any, ordered) = tokio::join!(producer.send(any), producer.send_ordered(ordered, "key"));
    assert_eq!(any.unwrap().queue.broker_name, "broker-a");
    assert_eq!(ordered.unwrap().queue.broker_name, "broker-a");
    assert_eq!(nameserver.asked(request::GET_ROUTEINFO_BY_TOPIC).len(), 3, "not more often than makes sense");
}

#[tokio::test]
async fn batches_are_stored_in_a_row_with_ids_of_their_own() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    let producer = client.producer("pg").start().unwrap();
    let batch: Vec<_> =
        (0..3).map(|number| Message::new("Orders", format!("m{number}")).key(format!("k{number}"))).collect();
    let sent = producer.send_batch(batch).await.unwrap();
    assert_eq!(sent.iter().map(|sent| sent.offset).collect::<Vec<_>>(), [0, 1, 2]);
    for (number, sent) in sent.iter().enumerate() {
        let stored = client.admin().message_by_id(&sent.offset_message_id).await.unwrap();
        assert_eq!(stored.body, format!("m{number}").as_bytes());
        // PRO-4: properties of a message and of its batch ran into each other.
        assert_eq!(
            (stored.message_id(), stored.keys().collect::<Vec<_>>()),
            (sent.message_id.clone(), vec![&*format!("k{number}")])
        );
    }
    let mixed = vec![Message::new("Orders", "a"), Message::new("Other", "a")];
    let delayed = vec![Message::new("Orders", "a").delay_level(1)];
    for batch in [vec![], mixed, delayed] {
        assert!(matches!(producer.send_batch(batch).await.unwrap_err().error, Error::Invalid(_)));
    }
}

#[tokio::test]
async fn batches_gather_by_themselves() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    let batch = AutoBatch { bytes: 2000, hold: Duration::from_millis(50) };
    let producer = client.producer("pg").auto_batch(batch).start().unwrap();
    let sends = (0..40).map(|number| producer.send(Message::new("Orders", format!("m{number:02}"))));
    let sent = futures::future::join_all(sends).await;
    let mut offsets: Vec<_> = sent.iter().map(|sent| sent.as_ref().unwrap().offset).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, (0..40).collect::<Vec<_>>());
    for (number, sent) in sent.iter().enumerate() {
        let id = &sent.as_ref().unwrap().offset_message_id;
        assert_eq!(client.admin().message_by_id(id).await.unwrap().body, format!("m{number:02}").as_bytes());
    }
    assert_eq!(producer.send(Message::new("Orders", "late").delay_level(1)).await.unwrap().failed_attempts, []);
}

#[tokio::test]
async fn one_way_and_delayed_messages_arrive() {
    let cluster = Cluster::start(1, "messageDelayLevel=1s\n").await;
    cluster.make_topic("Orders", 1).await;
    let producer = cluster.client().producer("pg").start().unwrap();
    producer.send(Message::new("Orders", "later").delay_level(1)).await.unwrap();
    producer.send_oneway(Message::new("Orders", "now")).await.unwrap();
    let broker = cluster.brokers[0].as_ref().unwrap().client().await;
    assert_eq!(bodies(&broker.wait_messages("cg", "Orders", 0).await), ["now"]);
    assert_eq!(bodies(&broker.wait_messages("cg", "Orders", 1).await), ["later"]);
}

/// A send whose future is dropped, as by a time-out of the application's, blocks nothing.
#[tokio::test]
async fn sends_may_be_given_up() {
    let hanging = Server::start(|command: &Command| {
        let first = command.body == b"first";
        (command.code == request::SEND_MESSAGE_V2 && !first).then(sent_answer)
    })
    .await;
    let nameserver = Server::nameserver("Orders", &[("a", &hanging.address)]).await;
    let client = Client::new(&real::env(), &nameserver.address).unwrap();
    let producer = client.producer("pg").in_flight_max(1, 1024).start().unwrap();
    let given_up =
        tokio::time::timeout(Duration::from_millis(200), producer.send(Message::new("Orders", "first"))).await;
    assert!(given_up.is_err());
    producer.send(Message::new("Orders", "second")).await.unwrap();
    let queue = MessageQueue { topic: "Orders".into(), broker_name: "gone".into(), queue_id: 0 };
    let error = producer.send_to(Message::new("Orders", "x"), &queue).await.unwrap_err();
    assert_eq!(error.error, Error::NoBroker { broker: "gone".into() });
}
