//! Time.

use std::time::Duration;

use futures::future::{select, Either};

use super::{contracts, Place};

contracts! {
    sleeps_long_enough: "a sleep lasts as long as it was asked to",
    zero_is_no_time: "a sleep of no time ends",
    monotonic_never_falls: "monotonic time never falls",
    wall_clock_goes_on: "the wall clock goes on while one sleeps",
    sleeps_end_in_order: "a shorter sleep ends first",
    a_dropped_sleep_is_gone: "a sleep can be dropped",
}

const STEP: Duration = Duration::from_millis(20);

async fn sleeps_long_enough(place: Place) {
    let clock = place.server.clock;
    let began = clock.monotonic();
    clock.sleep(STEP).await;
    // Resolution is a millisecond.
    assert!(clock.monotonic() - began + Duration::from_millis(1) >= STEP);
}

async fn zero_is_no_time(place: Place) {
    place.server.clock.sleep(Duration::ZERO).await;
}

async fn monotonic_never_falls(place: Place) {
    let clock = place.server.clock;
    let mut last = clock.monotonic();
    for _ in 0..10 {
        clock.sleep(Duration::from_millis(1)).await;
        let now = clock.monotonic();
        assert!(now >= last);
        last = now;
    }
}

async fn wall_clock_goes_on(place: Place) {
    let clock = place.server.clock;
    let began = clock.now();
    clock.sleep(STEP).await;
    assert!(clock.now().since(began) >= 10);
}

async fn sleeps_end_in_order(place: Place) {
    let clock = place.server.clock;
    match select(clock.sleep(STEP * 10), clock.sleep(STEP)).await {
        Either::Left(_) => panic!("the longer one ended first"),
        Either::Right(((), longer)) => longer.await,
    }
}

async fn a_dropped_sleep_is_gone(place: Place) {
    let clock = place.server.clock;
    let began = clock.monotonic();
    drop(clock.sleep(Duration::from_secs(1_000)));
    clock.sleep(STEP).await;
    assert!(clock.monotonic() - began < Duration::from_secs(100));
}
