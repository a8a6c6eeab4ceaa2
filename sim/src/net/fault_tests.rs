//! What each fault of the network does, and that healing ends it.

use std::io;
use std::time::Duration;

use metaq::env::Stream;
use metaq::proto::remoting::{frame, request, Command, Serialization};

use super::tests::{connect_error, connected_test, nodes, read, read_all, within, write, Pair, PORT};
use super::{Barred, FrameFault, FrameRule, Frames, LinkSettings, Shape, Spread};
use crate::testing::simulate;

fn frame_of(code: i32, opaque: i32, response: bool) -> Vec<u8> {
    let mut command = Command::request(code);
    command.opaque = opaque;
    command.flag = i32::from(response);
    let mut bytes = Vec::new();
    command.encode(Serialization::Json, &mut bytes).unwrap();
    bytes
}

fn rule(frames: Frames, codes: &[i32], fault: FrameFault) -> FrameRule {
    FrameRule { from: None, to: None, frames, codes: codes.to_vec(), fault, per_mille: 1_000, left: 1, kind: "test" }
}

/// The numbers of the frames that arrive.
async fn arrivals(stream: &mut Box<dyn Stream>, world: &crate::world::World) -> Vec<i32> {
    let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
    while let Some(Ok(some)) = within(world, Duration::from_secs(5), read(stream)).await {
        bytes.extend(some);
        while let Ok(Some(frame)) = frame::next(&bytes) {
            numbers.push(Command::decode(&frame).unwrap().opaque);
            let len = frame.len;
            bytes.drain(..len);
        }
    }
    numbers
}

#[test]
fn a_rule_befalls_the_frames_it_names_and_no_others() {
    for (fault, expected) in [
        (FrameFault::Drop, vec![1, 3]),
        (FrameFault::Delay(Duration::from_secs(1)), vec![1, 3, 2]),
        (FrameFault::Duplicate(Duration::from_secs(1)), vec![1, 2, 3, 2]),
    ] {
        connected_test(1, |p| async move {
            let mut p: Pair = p.whole();
            p.world.network().add_frame_rule(rule(Frames::Requests, &[request::LOCK_BATCH_MQ], fault));
            for (code, opaque) in [(request::HEART_BEAT, 1), (request::LOCK_BATCH_MQ, 2), (request::LOCK_BATCH_MQ, 3)] {
                write(&mut p.near, &frame_of(code, opaque, false)).await.unwrap();
            }
            assert_eq!(arrivals(&mut p.far, &p.world).await, expected, "{fault:?}");
        });
    }
}

#[test]
fn an_answer_is_known_by_the_request_it_answers() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        p.world.network().add_frame_rule(rule(Frames::Responses, &[request::LOCK_BATCH_MQ], FrameFault::Drop));
        write(&mut p.near, &frame_of(request::HEART_BEAT, 1, false)).await.unwrap();
        write(&mut p.near, &frame_of(request::LOCK_BATCH_MQ, 2, false)).await.unwrap();
        assert_eq!(arrivals(&mut p.far, &p.world).await, [1, 2]);
        write(&mut p.far, &frame_of(0, 2, true)).await.unwrap();
        write(&mut p.far, &frame_of(0, 1, true)).await.unwrap();
        assert_eq!(arrivals(&mut p.near, &p.world).await, [1], "the lock's answer was lost");
    });
}

#[test]
fn a_damaged_frame_is_wrong_in_one_bit() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        p.world.network().add_frame_rule(rule(Frames::Requests, &[], FrameFault::Damage));
        let sent = frame_of(request::HEART_BEAT, 1, false);
        write(&mut p.near, &sent).await.unwrap();
        let got = read_all(&mut p.far, sent.len()).await.unwrap();
        let wrong: u32 = sent.iter().zip(&got).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!((wrong, sent[8..] == got[8..]), (1, true));
    });
}

#[test]
fn a_barred_port_refuses_or_is_silent_until_it_is_healed() {
    simulate(1, |world| async move {
        let (client, server, _listener) = nodes(&world).await;
        let env = world.env(client);
        world.network().bar_port(server, 7000, Some(Barred::Refused));
        assert_eq!(connect_error(&env, PORT).await, io::ErrorKind::ConnectionRefused);
        world.network().bar_port(server, 7000, Some(Barred::Silent));
        assert_eq!(connect_error(&env, PORT).await, io::ErrorKind::TimedOut);
        world.network().heal();
        env.net.connect(PORT).await.unwrap();
    });
}

#[test]
fn names_fail_and_addresses_do_not() {
    simulate(1, |world| async move {
        let (client, server, _listener) = nodes(&world).await;
        let env = world.env(client);
        world.network().fail_names(client, true);
        assert_eq!(connect_error(&env, PORT).await, io::ErrorKind::NotFound);
        env.net.connect(&format!("{}:7000", world.ip(server))).await.unwrap();
    });
}

#[test]
fn without_sockets_nobody_is_accepted_and_the_listener_lives_on() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        p.world.network().limit_sockets(p.server, 1);
        let second = p.world.env(p.client).net.connect(PORT).await.unwrap();
        let error = p.listener.accept().await.err().unwrap();
        assert_eq!(error.raw_os_error(), Some(24));
        drop(p.far);
        p.listener.accept().await.unwrap();
        p.world.network().limit_sockets(p.client, 1);
        assert_eq!(p.world.env(p.client).net.connect(PORT).await.err().unwrap().raw_os_error(), Some(24));
        drop(second);
    });
}

#[test]
fn a_full_backlog_is_silent() {
    simulate(1, |world| async move {
        let (client, server, mut listener) = nodes(&world).await;
        world.network().limit_backlog(server, Some(1));
        let env = world.env(client);
        let _first = env.net.connect(PORT).await.unwrap();
        world.sleep(Duration::from_millis(100)).await;
        assert_eq!(connect_error(&env, PORT).await, io::ErrorKind::TimedOut);
        let _accepted = listener.accept().await.unwrap();
        env.net.connect(PORT).await.unwrap();
    });
}

#[test]
fn a_small_window_makes_writers_wait() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        p.world.network().limit_window(p.server, Some(10));
        let writing = write(&mut p.near, &[1; 100]);
        assert!(within(&p.world, Duration::from_secs(5), writing).await.is_none());
        assert_eq!(read_all(&mut p.far, 10).await.unwrap(), [1; 10]);
        p.world.network().heal();
        within(&p.world, Duration::from_secs(1), write(&mut p.near, &[2; 1_000])).await.unwrap().unwrap();
    });
}

#[test]
fn a_forgotten_connection_is_half_open_on_both_sides() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        assert_eq!(p.world.network().forget_connections(p.client, p.server), 1);
        write(&mut p.near, b"hello?").await.unwrap();
        assert!(within(&p.world, Duration::from_secs(600), read(&mut p.far)).await.is_none(), "nobody tells it");
        assert_eq!(read(&mut p.near).await.unwrap_err().kind(), io::ErrorKind::TimedOut, "who writes gives up");
        p.world.env(p.client).net.connect(PORT).await.expect("new connections are known");
    });
}

#[test]
fn a_reset_from_between_ends_both_sides() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        assert_eq!(p.world.network().reset_connections(p.server, p.client), 1);
        for stream in [&mut p.near, &mut p.far] {
            assert_eq!(read(stream).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        }
    });
}

#[test]
fn bandwidth_loss_and_latency_take_time() {
    let slow =
        LinkSettings { latency_min: Duration::from_secs(1), latency_max: Duration::from_secs(2), ..LinkSettings::LAN };
    for (settings, least) in [
        (slow, 1_000),
        (LinkSettings { bytes_per_second: Some(10_000), ..LinkSettings::LAN }, 2_000),
        (LinkSettings { loss_per_mille: 1_000, ..LinkSettings::LAN }, 200),
        (LinkSettings { spread: Spread::TwoPaths, segment_max: 500, ..LinkSettings::LAN }, 5),
        (LinkSettings { spread: Spread::Tail, ..slow }, 1_000),
    ] {
        connected_test(1, |p| async move {
            let mut p = p.whole();
            p.world.network().set_link_settings(p.client, p.server, settings);
            let began = p.world.now();
            write(&mut p.near, &[7; 20_000]).await.unwrap();
            read_all(&mut p.far, 20_000).await.unwrap();
            let took = p.world.now() - began;
            assert!(took >= Duration::from_millis(least), "{settings:?} took {took:?}");
            p.world.network().heal();
            let began = p.world.now();
            write(&mut p.near, &[7; 2_000]).await.unwrap();
            read_all(&mut p.far, 2_000).await.unwrap();
            assert!(p.world.now() - began < Duration::from_secs(1), "healed");
        });
    }
}

#[test]
fn a_healed_core_leaves_the_rest_broken() {
    simulate(1, |world| async move {
        let (client, server, _listener) = nodes(&world).await;
        let other = world.add_node("other");
        let mut random = world.random("shape");
        for (from, to) in Shape::IsolateOne.cuts(&[client, server, other], &mut random) {
            world.network().set_link(from, to, super::LinkState::Cut);
        }
        world.network().cut(client, server);
        world.network().cut(other, server);
        world.network().heal_among(&[client, server].into());
        world.env(client).net.connect(PORT).await.unwrap();
        assert_eq!(connect_error(&world.env(other), PORT).await, io::ErrorKind::TimedOut);
    });
}
