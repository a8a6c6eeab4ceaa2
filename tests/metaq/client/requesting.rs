//! Requests that are replied to, and traces.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use metaq::client::{Action, Client, ConsumeFrom, Message, Producer, PushConsumer, RequestError, TraceKind};

use super::support::{until, Cluster, LIMIT};

/// A service that answers each message with its body in reverse, except `silent`.
async fn service(client: &Client) -> (Producer, PushConsumer) {
    let producer = client.producer("service").start().unwrap();
    let replier = producer.clone();
    let consumer = client.push_consumer("service").subscribe("Questions", "*").consume_from(ConsumeFrom::First);
    let consumer = consumer.concurrently(move |request| {
        let replier = replier.clone();
        async move {
            let answer: Vec<u8> = request.body.iter().rev().copied().collect();
            if request.body != b"silent" {
                replier.reply(&request, answer).await.unwrap();
            }
            Action::Done
        }
    });
    (producer, consumer.await.unwrap())
}

#[tokio::test]
async fn each_request_gets_its_own_reply() {
    let cluster = Cluster::start(2, "").await;
    cluster.make_topic("Questions", 2).await;
    let (asking, answering) = (cluster.client(), cluster.client());
    let (_producer, consumer) = service(&answering).await;
    let producer = asking.producer("asker").start().unwrap();
    // Long ones travel compressed, both ways.
    let bodies: Vec<String> = (0..40).map(|n| format!("question {n} {}", "!".repeat(n * 200))).collect();
    let ask = |body: &String| {
        let (producer, message) = (producer.clone(), Message::new("Questions", body.clone()));
        async move { producer.request(message, LIMIT).await.unwrap() }
    };
    let replies = join_all(bodies.iter().map(ask)).await;
    for (body, reply) in bodies.iter().zip(replies) {
        assert_eq!(String::from_utf8(reply.body.clone()).unwrap(), body.chars().rev().collect::<String>());
        assert_eq!(&*reply.topic, "DefaultCluster_REPLY_TOPIC");
    }
    consumer.stop(LIMIT).await;
}

#[tokio::test]
async fn a_request_that_nobody_answers_ends_in_time() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Questions", 1).await;
    let (asking, answering) = (cluster.client(), cluster.client());
    let (replier, consumer) = service(&answering).await;
    let producer = asking.producer("asker").start().unwrap();
    let limit = Duration::from_millis(300);
    let silent = producer.request(Message::new("Questions", "silent"), limit).await.unwrap_err();
    assert_eq!(silent, RequestError::NoReply { after: limit });
    let unsent = producer.request(Message::new("Questions", ""), limit).await.unwrap_err();
    assert!(matches!(unsent, RequestError::NotSent(_)), "{unsent}");
    consumer.stop(LIMIT).await;

    // Who replies when nobody waits any more is told, and so is who replies to what is no request.
    let mut reader = answering.pull_consumer("looker").subscribe("Questions", "*").consume_from(ConsumeFrom::First);
    reader = reader.poll_max(8);
    let mut reader = reader.start().await.unwrap();
    let request = reader.poll(LIMIT).await.unwrap().remove(0);
    asking.close().await;
    let late = until(&cluster.env, async || replier.reply(&request, "too late").await.err()).await;
    assert!(late.to_string().contains("not found"), "{late}");
    let plain = cluster.client().producer("plain").start().unwrap();
    plain.send(Message::new("Questions", "plain")).await.unwrap();
    let plain = reader.poll(LIMIT).await.unwrap().remove(0);
    assert!(replier.reply(&plain, "x").await.unwrap_err().to_string().contains("is no request"));
}

#[tokio::test]
async fn a_traced_message_tells_its_story() {
    let cluster = Cluster::start(1, "traceTopicEnable=true\nmessageDelayLevel=1s 1s 1s 1s\n").await;
    cluster.make_topic("Orders", 1).await;
    let (client, silent) = (cluster.client(), cluster.client());
    client.trace().unwrap();
    assert!(client.trace().is_err(), "once is enough");
    let producer = client.producer("pg").start().unwrap();
    let sent = producer.send(Message::new("Orders", "a").key("order-1").tag("paid")).await.unwrap();
    let untraced =
        silent.producer("pg").start().unwrap().send(Message::new("Orders", "b").key("order-2")).await.unwrap();
    let listen = |message: Arc<metaq::client::Received>| async move {
        match message.reconsume_times {
            0 if message.body == b"a" => Action::RetryAtLevel(1),
            _ => Action::Done,
        }
    };
    let builder = client.push_consumer("cg").subscribe("Orders", "*").consume_from(ConsumeFrom::First);
    let consumer = builder.concurrently(listen).await.unwrap();
    let admin = silent.admin();
    // A failed call and a successful one, each with its beginning; and the send.
    let story = until(&cluster.env, async || {
        let traces = admin.traces("RMQ_SYS_TRACE_TOPIC", &sent.message_id).await.ok()?;
        (traces.len() == 5).then_some(traces)
    })
    .await;
    let by_key = admin.traces("RMQ_SYS_TRACE_TOPIC", "order-1").await.unwrap();
    assert_eq!(by_key, story);
    let TraceKind::Sent { topic, tags, success: true, offset_message_id, region, .. } = &story[0].kind else {
        panic!("{:?}", story[0])
    };
    assert_eq!((topic.as_str(), tags.as_str(), region.as_str()), ("Orders", "paid", "DefaultRegion"));
    assert_eq!((offset_message_id, &*story[0].group), (&sent.offset_message_id, "pg"));
    let calls: Vec<_> = story[1..].iter().map(|trace| (&*trace.group, &trace.kind)).collect();
    assert!(matches!(calls[0], ("cg", TraceKind::Consuming { retry_times: 0, .. })), "{calls:?}");
    assert!(matches!(calls[1], ("cg", TraceKind::Consumed { success: false, code: 4, .. })), "{calls:?}");
    assert!(matches!(calls[2], ("cg", TraceKind::Consuming { retry_times: 1, .. })), "{calls:?}");
    assert!(matches!(calls[3], ("cg", TraceKind::Consumed { success: true, code: 0, .. })), "{calls:?}");
    consumer.stop(LIMIT).await;

    let last = producer.send(Message::new("Orders", "c")).await.unwrap();
    client.close().await;
    until(&cluster.env, async || {
        let traces = admin.traces("RMQ_SYS_TRACE_TOPIC", &last.message_id).await.ok()?;
        (!traces.is_empty()).then_some(())
    })
    .await;
    let consumed_only = admin.traces("RMQ_SYS_TRACE_TOPIC", &untraced.message_id).await.unwrap();
    assert!(consumed_only.iter().all(|trace| !matches!(trace.kind, TraceKind::Sent { .. })), "{consumed_only:?}");
}

/// A broker with `traceOn=false` wants no traces of messages that it takes.
#[tokio::test]
async fn brokers_may_want_no_traces() {
    let cluster = Cluster::start(1, "traceTopicEnable=true\ntraceOn=false\n").await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    client.trace().unwrap();
    let producer = client.producer("pg").start().unwrap();
    producer.send(Message::new("Orders", "a")).await.unwrap();
    // What was noted before the end is written before the end.
    client.close().await;
    let admin = cluster.client().admin();
    let queues = admin.queues("RMQ_SYS_TRACE_TOPIC").await.unwrap();
    assert_eq!(admin.max_offset(&queues[0]).await.unwrap(), 0);
}
