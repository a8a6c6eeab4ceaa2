//! What the client library records of a real cluster, and what the checkers make of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use metaq::audit::file::{decode, encode, Block, Entry, Recorded};
use metaq::audit::history::Event;
use metaq::audit::judge::{judge, Judged, Outcome, Terms};
use metaq::audit::merge::merge;
use metaq::client::{Action, AutoBatch, Client, ConsumeFrom, Message, OrderlyAction, Recorder};
use tempfile::TempDir;

use crate::client::support::{until, Cluster};

/// A cluster and the histories of its clients.
struct Case {
    cluster: Cluster,
    directory: TempDir,
}

impl Case {
    /// One broker: of several, one may learn of a group's retry topic half a minute late.
    async fn start() -> Case {
        let cluster = Cluster::start(1, "messageDelayLevel=1s 1s 1s 1s 1s 1s\n").await;
        cluster.make_topic("Orders", 4).await;
        Case { cluster, directory: TempDir::new().unwrap() }
    }

    fn recorder(&self, name: &str) -> Recorder {
        Recorder::create(&self.cluster.env, self.path(name)).unwrap()
    }

    fn recorded(&self, recorder: &Recorder) -> Client {
        let client = self.cluster.client();
        client.record(recorder).unwrap();
        client
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name).with_extension("history")
    }

    /// Reads everything in the topic and ends the history.
    async fn read_all(&self, recorder: &Recorder, messages: usize) {
        let client = self.cluster.client();
        let queues = client.admin().queues("Orders").await.unwrap();
        let reader = client.reader().assign(queues).consume_from(ConsumeFrom::First);
        let mut reader = reader.start().await.unwrap();
        let mut found = 0;
        while found < messages {
            for message in reader.poll(Duration::from_secs(5)).await.unwrap() {
                recorder.found(&message);
                found += 1;
            }
        }
        recorder.read("Orders");
        recorder.close().unwrap();
    }
}

fn read(path: &Path) -> Recorded {
    decode(&std::fs::read(path).unwrap()).unwrap()
}

fn events(recorded: &Recorded) -> Vec<&Event> {
    recorded
        .entries
        .iter()
        .filter_map(|entry| if let Entry::Event(_, event) = entry { Some(event) } else { None })
        .collect()
}

/// Names of the checkers that object, and of the promises that held.
fn verdict(histories: &[Recorded]) -> (Vec<&'static str>, Vec<&'static str>) {
    let (mut broken, mut held) = (Vec::new(), Vec::new());
    for Judged { promise, outcome } in judge(&merge(histories), Terms::default()) {
        match outcome {
            Outcome::Broken(violation) => broken.push(violation.checker),
            Outcome::Held => held.push(promise),
            Outcome::NotAsked(_) => {}
        }
    }
    (broken, held)
}

async fn consumed(case: &Case, group: &str, recorder: &Recorder, path: &Path, messages: usize) {
    until(&case.cluster.env, async || {
        recorder.flush().unwrap();
        let history = read(path);
        let by = |event: &&&Event| matches!(event, Event::Consumed(by, ..) if **by == *group);
        (events(&history).iter().filter(by).count() >= messages).then_some(())
    })
    .await;
}

#[tokio::test]
async fn all_ways_to_send_and_consume_are_recorded_and_hold() {
    let case = Case::start().await;
    let (sends, takes) = (case.recorder("sends"), case.recorder("takes"));
    let client = case.recorded(&sends);
    let producer = client.producer("pg").retries(0).auto_batch(AutoBatch::default()).start().unwrap();
    let alone = case.recorded(&sends).producer("pg").retries(0).start().unwrap();
    let foreign = case.cluster.client().producer("pg").start().unwrap();
    let taker = case.recorded(&takes);
    let first = |group| taker.push_consumer(group).subscribe("Orders", "*").consume_from(ConsumeFrom::First);
    let many = first("many").concurrently(|message| async move {
        if message.reconsume_times == 0 && message.offset % 5 == 0 {
            Action::RetryAtLevel(1)
        } else {
            Action::Done
        }
    });
    let many = many.await.unwrap();
    let ordered = first("ordered").orderly(|_| async { OrderlyAction::Done }).await.unwrap();
    let polling = taker.pull_consumer("polling").subscribe("Orders", "*").consume_from(ConsumeFrom::First);
    let mut polling = polling.start().await.unwrap();

    for number in 0..30 {
        let message = || Message::new("Orders", format!("m{number}").repeat(1 + number * 40));
        let (one, two) = futures::join!(producer.send(message()), producer.send(message()));
        one.and(two).unwrap();
        alone.send_ordered(message(), "key").await.unwrap();
        alone.send_batch(vec![message(), message()]).await.unwrap();
        foreign.send(message()).await.unwrap();
    }
    alone.send_oneway(Message::new("Orders", "gone")).await.unwrap();
    let all = 30 * 6 + 1;
    let mut polled = 0;
    while polled < all {
        polled += polling.poll(Duration::from_secs(5)).await.unwrap().len();
    }
    for group in ["many", "ordered"] {
        consumed(&case, group, &takes, &case.path("takes"), all).await;
    }
    polling.close().await;
    many.stop(Duration::from_secs(5)).await;
    ordered.stop(Duration::from_secs(5)).await;
    takes.close().unwrap();
    case.read_all(&sends, all).await;

    let histories = [read(&case.path("takes")), read(&case.path("sends"))];
    let (broken, held) = verdict(&histories);
    assert_eq!(broken, [""; 0]);
    for promise in [
        "acknowledged messages",
        "messages are stored once",
        "one simple broker",
        "nothing is read",
        "consumers get everything",
        "what was handed back",
    ] {
        assert!(held.iter().any(|held| held.starts_with(promise)), "{promise} was not asked, only {held:?}");
    }
    let merged = merge(&histories);
    // In its own topic, and those that were handed back in their retry topic as well.
    assert!(merged.foreign >= 30, "{}", merged.foreign);
    let sending = events(&histories[1]).iter().filter(|event| matches!(event, Event::Sending(_))).count();
    assert_eq!(sending, 30 * 5 + 1);
    planted(&histories);
}

/// Faults put into good histories are found.
fn planted(histories: &[Recorded; 2]) {
    let without = |is: &dyn Fn(&Event) -> bool| {
        let mut changed = histories.clone();
        for history in &mut changed {
            let found = history.entries.iter().position(|entry| matches!(entry, Entry::Event(_, event) if is(event)));
            if let Some(found) = found {
                history.entries.remove(found);
                break;
            }
        }
        changed
    };
    let acknowledged = events(&histories[1]).into_iter().find_map(|event| match event {
        Event::Acknowledged(message, _) => Some(*message),
        _ => None,
    });
    let acknowledged = acknowledged.unwrap();
    let lost = without(&|event| matches!(event, Event::Found(message, _) if *message == acknowledged));
    assert!(verdict(&lost).0.contains(&"acknowledged messages are kept"));
    let never = without(
        &|event| matches!(event, Event::Consumed(group, message, _) if **group == *"ordered" && *message == acknowledged),
    );
    assert!(verdict(&never).0.contains(&"consumers get everything"));
    assert!(verdict(&never).0.contains(&"consumers skip nothing"));
    let invented = without(&|event| *event == Event::Sending(acknowledged));
    assert!(verdict(&invented).0.contains(&"consumers get whole messages"));
}

#[tokio::test]
async fn a_history_that_ends_early_accuses_nobody() {
    let case = Case::start().await;
    let (sends, takes) = (case.recorder("sends"), case.recorder("takes"));
    let producer = case.recorded(&sends).producer("pg").start().unwrap();
    let taker = case.recorded(&takes);
    let consumer = taker.push_consumer("cg").subscribe("Orders", "*").consume_from(ConsumeFrom::First);
    let consumer = consumer.concurrently(|_| async { Action::Done }).await.unwrap();
    for number in 0..40 {
        producer.send(Message::new("Orders", number.to_string())).await.unwrap();
        sends.flush().unwrap();
    }
    consumed(&case, "cg", &takes, &case.path("takes"), 40).await;
    consumer.stop(Duration::from_secs(5)).await;
    case.read_all(&takes, 40).await;
    // As if the sender had been killed at some moment.
    let (bytes, takes) = (std::fs::read(case.path("sends")).unwrap(), read(&case.path("takes")));
    let mut untold = Vec::new();
    for cut in (bytes.len() / 3..=bytes.len()).step_by(97) {
        let killed = decode(&bytes[..cut]).unwrap();
        assert_eq!(verdict(&[killed.clone(), takes.clone()]).0, [""; 0], "cut at {cut}");
        untold.push(merge(&[killed, takes.clone()]).untold);
    }
    assert!(untold.first() > Some(&10) && untold.last() < Some(&3), "{untold:?}");
    // A sender that ended in order would have told.
    let mut ended = decode(&bytes[..bytes.len() / 2]).unwrap();
    ended.entries.push(Entry::End);
    assert!(verdict(&[ended, takes]).0.contains(&"consumers get whole messages"));
}

#[tokio::test]
async fn a_damaged_body_and_a_reused_file_are_noticed() {
    let case = Case::start().await;
    let (sends, takes) = (case.recorder("sends"), case.recorder("takes"));
    let producer = case.recorded(&sends).producer("pg").start().unwrap();
    producer.send(Message::new("Orders", "a book")).await.unwrap();
    let reader = case.cluster.client();
    let queues = reader.admin().queues("Orders").await.unwrap();
    let mut reader = reader.reader().assign(queues).consume_from(ConsumeFrom::First).start().await.unwrap();
    let message = reader.poll(Duration::from_secs(5)).await.unwrap().remove(0);
    // The same mark on another body: what a broker would give that mixed two messages up.
    let mark = message.property("metaqAudit").unwrap().to_owned();
    let foreign = case.cluster.client().producer("other").start().unwrap();
    foreign.send(Message::new("Orders", "a pen").property("metaqAudit", mark)).await.unwrap();
    let mut taker = case.recorded(&takes).pull_consumer("cg").subscribe("Orders", "*");
    taker = taker.consume_from(ConsumeFrom::First);
    let mut taker = taker.start().await.unwrap();
    let mut taken = 0;
    while taken < 2 {
        taken += taker.poll(Duration::from_secs(5)).await.unwrap().len();
    }
    sends.close().unwrap();
    takes.close().unwrap();
    let (broken, _) = verdict(&[read(&case.path("sends")), read(&case.path("takes"))]);
    assert_eq!(broken, ["consumers get whole messages"]);

    let again = Recorder::create(&case.cluster.env, case.path("sends"));
    assert!(again.err().unwrap().to_string().contains("cannot be made"));
    let client = case.recorded(&takes);
    assert!(client.record(&takes).is_err(), "a client is recorded once");
}

#[test]
fn blocks_are_what_the_files_are_made_of() {
    let entries = vec![Entry::Event(5, Event::Healed), Entry::Read(5, Arc::from("Orders")), Entry::End];
    let block = Block { recorder: 9, name: "x".into(), zero_us: 3, entries };
    let bytes = encode(&block).unwrap();
    assert_eq!(&bytes[..12], b"metaqHIS\0\0\0\x01");
    assert_eq!(decode(&bytes).unwrap().entries, block.entries);
}
