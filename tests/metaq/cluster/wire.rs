//! Connections that send what no client sends, and many that come and go.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;

use futures::future::{join, join_all};
use metaq::env::Stream;
use metaq::proto::remoting::requests::{GetMaxOffset, UnregisterClient};
use metaq::proto::remoting::{frame, request, Command, Language, Serialization};

use super::support::{send_command, until, Broker};

/// A connection without a session behind it.
struct Raw(Box<dyn Stream>);

impl Raw {
    async fn connect(broker: &Broker) -> Raw {
        Raw(broker.env.net.connect(&broker.address().to_string()).await.unwrap())
    }

    async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|cx| self.0.poll_write(cx, bytes)).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Reads answers until the one numbered `last` has come: by number, all that came.
    async fn answers_until(&mut self, last: i32) -> BTreeMap<i32, Vec<Command>> {
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        let mut answers: BTreeMap<i32, Vec<Command>> = BTreeMap::new();
        while !answers.contains_key(&last) {
            let read = poll_fn(|cx| self.0.poll_read(cx, &mut buffer)).await.unwrap();
            assert_ne!(read, 0, "the broker closed the connection");
            bytes.extend_from_slice(&buffer[..read]);
            while let Some(frame) = frame::next(&bytes).unwrap() {
                let (answer, used) = (Command::decode(&frame).unwrap(), frame.len);
                answers.entry(answer.opaque).or_default().push(answer);
                bytes.drain(..used);
            }
        }
        answers
    }

    /// True once the broker has ended the connection without a word.
    async fn is_closed(&mut self) -> bool {
        let mut buffer = [0; 64];
        matches!(poll_fn(|cx| self.0.poll_read(cx, &mut buffer)).await, Ok(0) | Err(_))
    }
}

fn encoded(mut command: Command, opaque: i32, serialization: Serialization) -> Vec<u8> {
    command.opaque = opaque;
    let mut out = Vec::new();
    command.encode(serialization, &mut out).unwrap();
    out
}

fn max_offset() -> Command {
    let header = GetMaxOffset { topic: "Orders".into(), queue_id: 0, committed: true };
    Command::request(request::GET_MAX_OFFSET).with_ext(&header)
}

fn malformed_frames() -> Vec<Vec<u8>> {
    let frame = |length: u32, kind: u8, header: u32| {
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend_from_slice(&(u32::from(kind) << 24 | header).to_be_bytes());
        bytes.extend_from_slice(b"{\"code\":34}.....");
        bytes
    };
    let mut frames = Vec::new();
    frames.extend((0..4).map(|length| frame(length, 0, 0)));
    frames.extend([u32::MAX, 1 << 31, 17 << 20].map(|length| frame(length, 0, 0)));
    frames.extend((2..=255).map(|kind| frame(15, kind, 11)));
    frames.extend([0, 1].map(|kind| frame(15, kind, 12)));
    frames.extend([0, 1].map(|kind| frame(15, kind, 0xFF_FFFF)));
    frames.extend([0, 1].map(|kind| frame(4, kind, 0)));
    frames.push(frame(15, 1, 11));
    frames
}

/// WIR-1: malformed frames close their own connection and nothing else.
#[tokio::test]
async fn wir_1_malformed_frames_close_only_their_connection() {
    let broker = Broker::start("").await;
    let bystander = broker.client().await;
    bystander.send("Orders", "a", &[]).await;
    for bytes in malformed_frames() {
        let mut raw = Raw::connect(&broker).await;
        // The broker may close before all is written.
        let _ = raw.write(&bytes).await;
        assert!(raw.is_closed().await, "{bytes:x?}");
    }
    assert_eq!(bystander.send("Orders", "b", &[]).await.queue_offset, 1);
}

/// WIR-3: every code, with nothing in the request, gets exactly one answer that is marked as one; a one-way request
/// gets none. Unknown codes are answered with 3.
#[tokio::test]
async fn wir_3_every_request_has_one_answer_and_a_oneway_none() {
    let broker = Broker::start("").await;
    let codes = || (1..=420).chain(900..=1010).chain(200_049..=200_060).chain([-7, 3_000, 999_999]);
    for serialization in [Serialization::Json, Serialization::RocketMq] {
        let mut raw = Raw::connect(&broker).await;
        let (mut requests, mut number) = (Vec::new(), 1);
        for code in codes().filter(|code| serialization == Serialization::Json || i16::try_from(*code).is_ok()) {
            requests.extend(encoded(Command::request(code).oneway(), number, serialization));
            requests.extend(encoded(Command::request(code), number + 1, serialization));
            number += 2;
        }
        raw.write(&requests).await.unwrap();
        // The last handlers are still at work when a later request is answered: ask until no more is to come.
        let mut answers: BTreeMap<i32, Vec<Command>> = BTreeMap::new();
        let mut last = number;
        while answers.len() < number as usize / 2 {
            last += 1;
            raw.write(&encoded(max_offset(), last, serialization)).await.unwrap();
            let mut more = raw.answers_until(last).await;
            more.remove(&last);
            for (number, more) in more {
                answers.entry(number).or_default().extend(more);
            }
        }
        for (opaque, answers) in answers {
            assert!(opaque % 2 == 0, "a one-way request was answered: {answers:?}");
            let [answer] = answers.as_slice() else { panic!("not one answer: {answers:?}") };
            assert!(answer.is_response() && answer.language == Language::Java && answer.version == 479);
        }
    }
    let client = broker.client().await;
    let unknown = client.ask(Command::request(999_999)).await;
    assert_eq!((unknown.code, unknown.remark.as_deref()), (3, Some(" request type 999999 not supported")));
}

/// WIR-4: a batch has one answer, stored or refused, whatever comes with it in one read.
#[tokio::test]
async fn wir_4_a_batch_is_answered_once() {
    let broker = Broker::start("").await;
    let mut item = 31_u32.to_be_bytes().to_vec();
    item.extend_from_slice(&[0; 12]);
    item.extend_from_slice(&4_u32.to_be_bytes());
    item.extend_from_slice(b"body\0\x05K\x01v\x02.");
    let batch = |topic: &str| {
        let mut command = send_command(topic, "", &[]).with_body([item.as_slice(), &item].concat());
        command.code = request::SEND_BATCH_MESSAGE;
        command.ext.set("m", "true");
        command
    };
    let mut raw = Raw::connect(&broker).await;
    let mut requests = Vec::new();
    let commands = [batch("Orders"), batch("%RETRY%cg"), batch("Orders"), send_command("Orders", "", &[])];
    for (command, number) in commands.into_iter().zip(1..) {
        requests.extend(encoded(command, number, Serialization::Json));
    }
    raw.write(&requests).await.unwrap();
    let mut answers = BTreeMap::new();
    for last in 100.. {
        raw.write(&encoded(max_offset(), last, Serialization::Json)).await.unwrap();
        let mut more = raw.answers_until(last).await;
        more.remove(&last);
        answers.append(&mut more);
        if answers.len() == 4 {
            break;
        }
    }
    let codes: Vec<Vec<i32>> =
        answers.values().map(|answers| answers.iter().map(|answer| answer.code).collect()).collect();
    assert_eq!(codes, [vec![0], vec![13], vec![0], vec![13]]);
    assert_eq!(answers[&1][0].ext("msgId").map(str::len), Some(32 + 1 + 32), "one id for each message");
}

/// RES-1: producers and consumers that leave, in order or by a cut, leave nothing behind.
#[tokio::test]
async fn res_1_who_has_left_leaves_nothing_behind() {
    let broker = Broker::start("").await;
    let clients = join_all((0..200).map(|_| broker.client())).await;
    for (client, n) in clients.iter().zip(0..) {
        client.produce_as(&format!("c{n}"), &format!("p{n}")).await;
        if n % 10 == 0 {
            client.join(&format!("c{n}"), "cg", "Orders", Language::Java).await;
        }
        if n % 2 == 0 {
            let header = UnregisterClient {
                client_id: format!("c{n}").into(),
                producer_group: Some(format!("p{n}").into()),
                consumer_group: None,
            };
            client.get(Command::request(request::UNREGISTER_CLIENT).with_ext(&header)).await;
        }
    }
    let shared = broker.handle().shared();
    let present = || {
        let clients = shared.clients();
        (clients.producers.len(), clients.consumers.len())
    };
    assert_eq!(present(), (100, 20));
    clients.iter().for_each(|client| client.handle.close());
    until(&broker.env, async || shared.connections().is_empty().then_some(())).await;
    assert_eq!(present(), (0, 0));
}

/// Connections that begin large frames and do not go on hold a bounded number of bytes: others with large frames wait for
/// room, everybody else goes on.
#[tokio::test]
async fn large_frames_that_do_not_come_hold_bounded_memory() {
    let broker = Broker::start("inFlightBytesPerBroker=8000000\n").await;
    let bystander = broker.client().await;
    let mut stuck = Raw::connect(&broker).await;
    stuck.write(&[&[0, 0x70, 0, 0, 0, 0, 0, 100][..], &vec![b' '; 200_000]].concat()).await.unwrap();
    for n in 0..50 {
        assert_eq!(bystander.send("Orders", "a", &[]).await.queue_offset, n, "small frames need no room");
    }
    let mut waiting = Raw::connect(&broker).await;
    let large = encoded(send_command("Orders", &"x".repeat(3_000_000), &[]), 1, Serialization::Json);
    let written = join(waiting.write(&large), async {
        for n in 50..250 {
            assert_eq!(bystander.send("Orders", "a", &[]).await.queue_offset, n, "the large one was not read");
        }
        drop(stuck);
    });
    written.await.0.unwrap();
    let answers = waiting.answers_until(1).await;
    assert_eq!((answers[&1][0].code, answers[&1][0].ext("queueOffset")), (0, Some("250")));
}
