//! What the simulated network promises, and what it does as a real one does.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use futures::future::{select, Either};
use metaq::env::{Env, Listener, Stream};

use super::LinkState;
use crate::testing::simulate;
use crate::world::{NodeId, World};

pub(super) const PORT: &str = "server:7000";

pub(super) struct Pair {
    pub(super) world: World,
    pub(super) client: NodeId,
    pub(super) server: NodeId,
    pub(super) near: Box<dyn Stream>,
    pub(super) far: Box<dyn Stream>,
    pub(super) listener: Box<dyn Listener>,
}

impl Pair {
    /// Itself: a block that names only some fields would drop the others, and with them their connections, too early.
    pub(super) fn whole(self) -> Pair {
        self
    }
}

pub(super) async fn nodes(world: &World) -> (NodeId, NodeId, Box<dyn Listener>) {
    let (client, server) = (world.add_node("client"), world.add_node("server"));
    let listener = world.env(server).net.listen(([0, 0, 0, 0], 7000).into()).await.unwrap();
    (client, server, listener)
}

async fn connected(world: World) -> Pair {
    let (client, server, mut listener) = nodes(&world).await;
    let near = world.env(client).net.connect(PORT).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    Pair { world, client, server, near, far, listener }
}

pub(super) fn connected_test<F: std::future::Future>(seed: u64, test: impl FnOnce(Pair) -> F) -> F::Output {
    simulate(seed, |world| async move { test(connected(world).await).await })
}

pub(super) async fn write(stream: &mut Box<dyn Stream>, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += poll_fn(|cx| stream.poll_write(cx, &bytes[done..])).await?;
    }
    Ok(())
}

pub(super) async fn read(stream: &mut Box<dyn Stream>) -> io::Result<Vec<u8>> {
    let mut into = [0; 4096];
    let len = poll_fn(|cx| stream.poll_read(cx, &mut into)).await?;
    Ok(into[..len].to_vec())
}

pub(super) async fn read_all(stream: &mut Box<dyn Stream>, len: usize) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < len {
        let some = read(stream).await?;
        assert!(!some.is_empty(), "ended after {} bytes", all.len());
        all.extend(some);
    }
    Ok(all)
}

/// The future's value, or `None` if it takes longer.
pub(super) async fn within<T>(
    world: &World,
    limit: Duration,
    future: impl std::future::Future<Output = T>,
) -> Option<T> {
    match select(std::pin::pin!(future), world.sleep(limit)).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}

pub(super) async fn connect_error(env: &Env, address: &str) -> io::ErrorKind {
    env.net.connect(address).await.err().expect("nobody should answer").kind()
}

#[test]
fn bytes_arrive_in_order_both_ways_after_a_while() {
    for seed in 0..20 {
        connected_test(seed, |p| async move {
            let mut p = p.whole();
            let data: Vec<u8> = (0..50_000_u32).map(|number| number as u8).collect();
            let began = p.world.now();
            write(&mut p.near, &data).await.unwrap();
            write(&mut p.far, b"hello").await.unwrap();
            assert_eq!(read_all(&mut p.far, data.len()).await.unwrap(), data);
            assert!(p.world.now() > began);
            assert_eq!(read_all(&mut p.near, 5).await.unwrap(), b"hello");
            assert_eq!(p.far.peer_addr().unwrap(), p.near.local_addr().unwrap());
            assert_eq!(p.near.peer_addr().unwrap().port(), 7000);
        });
    }
}

#[test]
fn a_write_waits_while_the_peer_does_not_read() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        let data = vec![7; 1 << 20];
        let writing = write(&mut p.near, &data);
        assert!(within(&p.world, Duration::from_secs(60), writing).await.is_none(), "a megabyte fitted the buffers");
        assert_eq!(p.world.now().as_secs(), 60, "waiting is no reason to give up");
        let got = read_all(&mut p.far, super::connection::WINDOW as usize).await.unwrap();
        assert_eq!(got.len() as u64, super::connection::WINDOW);
        within(&p.world, Duration::from_secs(1), write(&mut p.near, b"more")).await.unwrap().unwrap();
    });
}

#[test]
fn a_closed_port_refuses_and_a_dark_machine_is_silent() {
    simulate(1, |world| async move {
        let (client, server, listener) = nodes(&world).await;
        let env = world.env(client);
        assert_eq!(connect_error(&env, "server:7001").await, io::ErrorKind::ConnectionRefused);
        assert!(world.now() < Duration::from_secs(1));
        assert_eq!(connect_error(&env, "nowhere:7000").await, io::ErrorKind::NotFound);
        drop(listener);
        assert_eq!(connect_error(&env, PORT).await, io::ErrorKind::ConnectionRefused);
        world.power_cut(server);
        let began = world.now();
        assert_eq!(connect_error(&env, PORT).await, io::ErrorKind::TimedOut);
        assert!(world.now() - began > Duration::from_secs(10));
    });
}

#[test]
fn connecting_needs_both_directions() {
    simulate(1, |world| async move {
        let (client, server, _listener) = nodes(&world).await;
        let env = world.env(client);
        for (from, to) in [(client, server), (server, client)] {
            world.network().set_link(from, to, LinkState::Cut);
            assert_eq!(connect_error(&env, PORT).await, io::ErrorKind::TimedOut);
            world.network().heal();
        }
        world.network().cut(client, server);
        let connecting = env.net.connect(PORT);
        assert!(within(&world, Duration::from_secs(2), connecting).await.is_none());
        world.network().heal();
        env.net.connect(PORT).await.unwrap();
    });
}

#[test]
fn the_end_of_stream_comes_after_the_data_and_leaves_the_other_way_open() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        write(&mut p.near, b"last").await.unwrap();
        poll_fn(|cx| p.near.poll_shutdown(cx)).await.unwrap();
        assert_eq!(write(&mut p.near, b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(read_all(&mut p.far, 4).await.unwrap(), b"last");
        assert_eq!(read(&mut p.far).await.unwrap(), b"");
        write(&mut p.far, b"reply").await.unwrap();
        assert_eq!(read_all(&mut p.near, 5).await.unwrap(), b"reply");
    });
}

#[test]
fn a_killed_process_says_farewell_and_resets_who_still_writes() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        p.world.kill(p.server);
        assert_eq!(read(&mut p.near).await.unwrap(), b"", "its kernel ends the stream");
        write(&mut p.near, b"anybody there?").await.unwrap();
        p.world.sleep(Duration::from_secs(1)).await;
        assert_eq!(read(&mut p.near).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(write(&mut p.near, b"x").await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn unread_bytes_turn_the_farewell_into_a_reset() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        write(&mut p.near, b"never read").await.unwrap();
        p.world.sleep(Duration::from_secs(1)).await;
        drop(p.far);
        assert_eq!(read(&mut p.near).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_power_cut_is_silence_until_the_machine_is_back() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        p.world.power_cut(p.server);
        let heard = within(&p.world, Duration::from_secs(3_000), read(&mut p.near)).await;
        assert!(heard.is_none(), "half open for ever, but {heard:?}");
        p.world.restart(p.server);
        write(&mut p.near, b"still there?").await.unwrap();
        assert_eq!(read(&mut p.near).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn who_writes_into_silence_gives_up() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        p.world.power_cut(p.server);
        write(&mut p.near, b"hello?").await.unwrap();
        let began = p.world.now();
        assert_eq!(read(&mut p.near).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!((p.world.now() - began).as_secs(), super::connection::GIVE_UP.as_secs());
    });
}

#[test]
fn a_short_cut_delays_and_loses_nothing() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        p.world.network().set_link(p.client, p.server, LinkState::Cut);
        write(&mut p.near, b"late").await.unwrap();
        assert!(within(&p.world, Duration::from_secs(5), read(&mut p.far)).await.is_none());
        p.world.network().heal();
        assert_eq!(read_all(&mut p.far, 4).await.unwrap(), b"late");
        write(&mut p.far, b"thanks").await.unwrap();
        assert_eq!(read_all(&mut p.near, 6).await.unwrap(), b"thanks");
    });
}

#[test]
fn a_one_way_cut_lets_the_data_through_but_not_its_acknowledgement() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        p.world.network().set_link(p.server, p.client, LinkState::Cut);
        write(&mut p.near, b"data").await.unwrap();
        assert_eq!(read_all(&mut p.far, 4).await.unwrap(), b"data");
        assert_eq!(read(&mut p.near).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    });
}

#[test]
fn a_clog_holds_and_releases_at_once() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        p.world.network().set_link(p.client, p.server, LinkState::Clogged);
        write(&mut p.near, b"held").await.unwrap();
        assert!(within(&p.world, Duration::from_secs(10), read(&mut p.far)).await.is_none());
        p.world.network().heal();
        let got = within(&p.world, Duration::from_millis(100), read_all(&mut p.far, 4)).await;
        assert_eq!(got.unwrap().unwrap(), b"held");
    });
}

#[test]
fn a_farewell_into_a_cut_is_heard_after_it() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        p.world.network().cut(p.client, p.server);
        p.world.kill(p.server);
        assert!(within(&p.world, Duration::from_secs(5), read(&mut p.near)).await.is_none(), "nothing came through");
        p.world.network().heal();
        assert_eq!(read(&mut p.near).await.unwrap(), b"");
    });
}

#[test]
fn handles_of_a_dead_process_do_nothing() {
    connected_test(1, |p| async move {
        let mut p = p.whole();
        let port = p.listener.local_addr().unwrap();
        p.world.power_cut(p.server);
        assert!(write(&mut p.far, b"ghost").await.is_err());
        assert!(p.listener.accept().await.is_err());
        p.world.restart(p.server);
        let _again = p.world.env(p.server).net.listen(port).await.unwrap();
        drop(p.listener);
        drop(p.far);
        p.world.env(p.client).net.connect(PORT).await.expect("the old listener's drop must not close the new one");
        assert!(within(&p.world, Duration::from_secs(60), read(&mut p.near)).await.is_none(), "no farewell either");
    });
}

#[test]
fn ports_are_taken_once_and_free_ones_are_found() {
    simulate(1, |world| async move {
        let (_, server, listener) = nodes(&world).await;
        let net = world.env(server).net;
        let taken = net.listen(listener.local_addr().unwrap()).await;
        assert_eq!(taken.err().unwrap().kind(), io::ErrorKind::AddrInUse);
        let free = net.listen(([127, 0, 0, 1], 0).into()).await.unwrap().local_addr().unwrap();
        assert_ne!(free.port(), 0);
        let foreign = net.listen(([10, 0, 0, 77], 7002).into()).await;
        assert_eq!(foreign.err().unwrap().kind(), io::ErrorKind::AddrNotAvailable);
    });
}
