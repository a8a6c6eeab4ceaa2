//! De-duplication against a model that remembers everything, over restarts.

use metaq::env::Millis;
use metaq::store::{deduplication, AppendBatch, Deduplication, FlushMode, Stored, UniqueSend};

use super::support::{message, Running, World, START};

const WINDOW_MS: i64 = 10_000;
const KEYS_MAX: usize = 6;
const TOPICS: [&str; 2] = ["orders", "payments"];

/// A send: its topic, its key, the queue that this attempt goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attempt {
    topic: &'static str,
    key: u64,
    queue_id: i32,
}

/// All that was stored, in the order of the log.
#[derive(Default)]
struct Model {
    stored: Vec<(Attempt, Stored, Millis)>,
}

impl Model {
    /// The first result of a send, if it is to be known.
    fn known(&self, attempt: &Attempt, now: Millis) -> Option<(Stored, i32)> {
        let newest = self.stored.len().saturating_sub(KEYS_MAX);
        let same = |other: &Attempt| (other.topic, other.key) == (attempt.topic, attempt.key);
        let found = self.stored[newest..].iter().rev().find(|(other, ..)| same(other));
        let within = found.filter(|(.., at)| now.since(*at) <= WINDOW_MS as u64);
        within.map(|(other, stored, _)| (*stored, other.queue_id))
    }
}

fn window_of(topic: &str) -> i64 {
    if TOPICS.contains(&topic) {
        WINDOW_MS
    } else {
        0
    }
}

async fn open(world: &World) -> Running {
    let mut running = world.open().await;
    let now = world.env().clock.now();
    let windows = deduplication::Windows { of: window_of, longest_ms: WINDOW_MS };
    let table = deduplication::rebuild(&running.store, &windows, KEYS_MAX, now).unwrap();
    running.writer.set_deduplication(table);
    running
}

/// Sends a unit of attempts, as a client batch if there are several.
async fn send(running: &mut Running, attempts: &[Attempt]) -> Vec<Stored> {
    let mut batch = AppendBatch::default();
    let group = batch.next_group();
    for Attempt { topic, key, queue_id } in attempts {
        let properties = format!("UNIQ_KEY\u{1}{key}\u{2}");
        running.add(&mut batch, &message(topic, *queue_id, b"body", &properties));
        let item = batch.items.last_mut().unwrap();
        item.group = group;
        item.unique = UniqueSend::new(topic, &key.to_string(), window_of(topic), *queue_id);
    }
    running.append(&mut batch).await.into_iter().map(Result::unwrap).collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[tokio::test]
async fn sends_get_what_the_model_says() {
    let (mut repeated, mut evicted, mut over) = (0, 0, 0);
    for seed in 0..40 {
        let (mut random, world) = (Random(seed), World::new(FlushMode::Async));
        let (mut model, mut running) = (Model::default(), open(&world).await);
        for step in 0..60 {
            let now = Millis(world.clock.0.load(std::sync::atomic::Ordering::SeqCst));
            match random.below(12) {
                0 => {
                    // The process dies: nothing is closed.
                    drop(running);
                    running = open(&world).await;
                }
                1 | 2 => drop(world.clock.0.fetch_add(random.below(6_000) as i64, std::sync::atomic::Ordering::SeqCst)),
                what => {
                    let topic = TOPICS[random.below(2) as usize];
                    let (key, queue_id) = (random.below(7), random.below(2) as i32);
                    let count = if what == 3 { 2 } else { 1 };
                    let unit: Vec<_> = (0..count).map(|at| Attempt { topic, key: key + at, queue_id }).collect();
                    let firsts: Vec<_> = unit.iter().filter_map(|one| model.known(one, now)).collect();
                    let in_a_row = firsts.windows(2).all(|pair| {
                        let ((a, a_queue), (b, b_queue)) = (pair[0], pair[1]);
                        a_queue == b_queue && b.queue_offset.0 == a.queue_offset.0 + 1
                    });
                    let results = send(&mut running, &unit).await;
                    if firsts.len() == unit.len() && in_a_row {
                        repeated += 1;
                        for (result, (first, queue)) in results.iter().zip(&firsts) {
                            let place = (result.physical, result.queue_offset, result.repeated_in);
                            let wanted = (first.physical, first.queue_offset, Some(*queue as u32));
                            assert_eq!(place, wanted, "seed {seed} step {step}");
                        }
                        continue;
                    }
                    let was_there =
                        |one: &Attempt| model.stored.iter().any(|(o, ..)| (o.topic, o.key) == (one.topic, one.key));
                    evicted += usize::from(unit.iter().any(was_there));
                    over += usize::from(now.0 > START + WINDOW_MS);
                    for (attempt, result) in unit.into_iter().zip(results) {
                        assert_eq!(result.repeated_in, None, "seed {seed} step {step}: {attempt:?}");
                        model.stored.push((attempt, result, now));
                    }
                }
            }
        }
        for topic in TOPICS {
            for queue_id in 0..2 {
                let here = |one: &Attempt| (one.topic, one.queue_id) == (topic, queue_id);
                let stored = model.stored.iter().filter(|(one, ..)| here(one)).count();
                assert_eq!(running.bodies(topic, queue_id as u32).len(), stored, "seed {seed}");
            }
        }
    }
    assert!(repeated > 100 && evicted > 100 && over > 100, "all of it happened: {repeated} {evicted} {over}");
}

#[tokio::test]
async fn what_is_gone_is_stored_again() {
    let world = World::new(FlushMode::Async);
    let mut running = open(&world).await;
    let attempt = [Attempt { topic: "orders", key: 1, queue_id: 0 }];
    let first = send(&mut running, &attempt).await;
    assert_eq!(send(&mut running, &attempt).await[0].repeated_in, Some(0));
    running.store.delete_topic("orders").await.unwrap();
    let again = send(&mut running, &attempt).await;
    assert_eq!((again[0].queue_offset.0, again[0].repeated_in), (0, None), "a new topic of that name begins anew");
    assert!(again[0].physical > first[0].physical);
    assert_eq!(send(&mut running, &attempt).await[0].physical, again[0].physical);
}

#[tokio::test]
async fn without_a_window_or_a_table_every_send_is_stored() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    assert_eq!(UniqueSend::new("orders", "k", 0, 0), None);
    let attempt = [Attempt { topic: "orders", key: 1, queue_id: 0 }];
    for offset in 0..3 {
        assert_eq!(send(&mut running, &attempt).await[0].queue_offset.0, offset);
    }
    running.writer.set_deduplication(Deduplication::new(KEYS_MAX));
    let stored = send(&mut running, &attempt).await[0].queue_offset.0;
    assert_eq!((stored, send(&mut running, &attempt).await[0].queue_offset.0), (3, 3));
}

/// A delayed message lies in the topic of delayed ones until it is due, and is known by where it was sent.
#[tokio::test]
async fn a_delayed_message_is_known_after_a_restart() {
    let world = World::new(FlushMode::Async);
    let mut running = open(&world).await;
    let properties = "UNIQ_KEY\u{1}7\u{2}DELAY\u{1}3\u{2}REAL_TOPIC\u{1}orders\u{2}REAL_QID\u{1}1\u{2}";
    let delayed = running.send_with(&message("SCHEDULE_TOPIC_XXXX", 2, b"later", properties)).await.unwrap();
    drop(running);
    let mut running = open(&world).await;
    let again = send(&mut running, &[Attempt { topic: "orders", key: 7, queue_id: 0 }]).await;
    assert_eq!((again[0].physical, again[0].repeated_in), (delayed.physical, Some(1)));
}
