//! A TCP proxy for each way from one machine to another, and the state of those ways.
//!
//! What is held is not lost, as a packet on a cut link is not: it waits, and arrives when the link is whole. New
//! connections are taken by the proxy's kernel and wait as well.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Both directions between all machines. Cheap to clone.
#[derive(Clone, Default)]
pub struct Links {
    ways: Arc<Mutex<Ways>>,
}

/// The state of each way, from one machine to the other.
type Ways = BTreeMap<(String, String), watch::Sender<Way>>;

/// One direction.
#[derive(Clone, Copy, Default)]
struct Way {
    /// So many faults hold what is sent here.
    holds: u32,
    /// Everything takes so much longer.
    delay: Duration,
    /// Connections that began before the last reset are gone.
    resets: u64,
}

impl Links {
    /// Holds what is sent from one machine to another, or lets it go again.
    pub fn hold(&self, from: &str, to: &str, held: bool) {
        self.change(from, to, |way| way.holds = if held { way.holds + 1 } else { way.holds.saturating_sub(1) });
    }

    /// Delays it from now on.
    pub fn delay(&self, from: &str, to: &str, delay: Duration) {
        self.change(from, to, |way| way.delay = delay);
    }

    /// Resets all connections between two machines.
    pub fn reset(&self, a: &str, b: &str) {
        self.change(a, b, |way| way.resets += 1);
        self.change(b, a, |way| way.resets += 1);
    }

    fn change(&self, from: &str, to: &str, change: impl FnOnce(&mut Way)) {
        self.ways().entry((from.to_owned(), to.to_owned())).or_default().send_modify(change);
    }

    fn watch(&self, from: &str, to: &str) -> watch::Receiver<Way> {
        self.ways().entry((from.to_owned(), to.to_owned())).or_default().subscribe()
    }

    fn ways(&self) -> MutexGuard<'_, Ways> {
        self.ways.lock().expect("no holder panics")
    }

    /// Takes connections that machine `from` makes to `at`, and carries them to machine `to`, which serves at `server`.
    pub async fn carry(&self, from: &str, to: &str, at: SocketAddr, server: SocketAddr) -> std::io::Result<()> {
        let listener = TcpListener::bind(at).await?;
        let (there, back) = (self.watch(from, to), self.watch(to, from));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connection(client, server, there.clone(), back.clone()));
            }
        });
        Ok(())
    }
}

/// Carries one connection to its end.
async fn connection(
    client: TcpStream,
    server: SocketAddr,
    mut there: watch::Receiver<Way>,
    back: watch::Receiver<Way>,
) {
    let begun = there.borrow().resets;
    // A handshake needs both directions.
    let (mut open_there, mut open_back) = (there.clone(), back.clone());
    let opened = open_there.wait_for(|way| way.holds == 0).await.is_ok();
    if !opened || open_back.wait_for(|way| way.holds == 0).await.is_err() {
        return;
    }
    let Ok(upstream) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), upstream.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), upstream.into_split());
    let both = futures::future::join(
        direction(from_client, to_server, there.clone()),
        direction(from_server, to_client, back),
    );
    let reset = there.wait_for(|way| way.resets != begun);
    futures::pin_mut!(both, reset);
    // Whichever is first: dropped halves with bytes unread are a reset for both ends.
    let _ = futures::future::select(both, reset).await;
}

/// Carries bytes one way until one end closes.
async fn direction(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut way: watch::Receiver<Way>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let delay = way.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if way.wait_for(|way| way.holds == 0).await.is_err() || to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    // What closes on one side closes on the other, but not through a cut.
    let _ = way.wait_for(|way| way.holds == 0).await;
    let _ = to.shutdown().await;
}
