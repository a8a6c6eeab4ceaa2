//! What connections leave behind.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{join, join_all};
use metaq::proto::remoting::response;

use crate::cluster::support::{pull_command, until, Broker};

const LONG: Duration = Duration::from_secs(20);

/// RES-4: port scans leaked a thread each. Connections that say nothing, or not enough for a frame, are closed after the
/// idle time, and others go on.
#[tokio::test]
async fn res_4_connections_that_say_nothing_are_freed() {
    let broker = Broker::start("serverChannelMaxIdleTimeSeconds=1\n").await;
    let env = &broker.env;
    let address = broker.address().to_string();
    let mut silent = Vec::new();
    for n in 0..200 {
        let mut stream = env.net.connect(&address).await.unwrap();
        if n % 2 == 0 {
            assert_eq!(poll_fn(|cx| stream.poll_write(cx, &[0, 0, 1])).await.unwrap(), 3);
        }
        silent.push(stream);
    }
    let shared = broker.handle().shared();
    until(env, async || (shared.connections().len() == silent.len()).then_some(())).await;
    until(env, async || shared.connections().is_empty().then_some(())).await;
    for mut stream in silent {
        let end = poll_fn(|cx| stream.poll_read(cx, &mut [0; 8])).await;
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    }
    assert_eq!(broker.client().await.send("Orders", "a", &[]).await.queue_offset, 0);
}

/// RES-5: the table of waiters grew with every wait, however short.
#[tokio::test]
async fn res_5_waits_that_end_leave_no_waiter() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    client.send("Orders", "a", &[]).await;
    let shared = broker.handle().shared();
    let queue = shared.store.queue("Orders", 0).unwrap();
    let waiting = || (shared.parked_pulls.load(Ordering::Relaxed), queue.waiting());
    for _ in 0..20 {
        let pulls = (0..500).map(|_| client.pull("cg", "Orders", 1, Duration::from_millis(1)));
        assert!(join_all(pulls).await.iter().all(|answer| answer.code == response::PULL_NOT_FOUND));
    }
    assert_eq!(waiting(), (0, 0), "after 10,000 waits that ended by themselves");

    let leaving = broker.client().await;
    let clock = &*leaving.env.clock;
    let pulls = (0..100).map(|_| leaving.handle.call(clock, pull_command("cg", "Orders", 1, LONG), LONG));
    join(join_all(pulls), async {
        until(&leaving.env, async || (waiting() == (100, 100)).then_some(())).await;
        leaving.handle.close();
    })
    .await;
    until(&client.env, async || (waiting() == (0, 0)).then_some(())).await;
}
