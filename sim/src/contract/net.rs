//! Connections.

use std::future::{poll_fn, Future};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::{select, Either};
use metaq::env::{Env, Listener, Stream};

use super::{contracts, Place};

contracts! {
    both_ways: "bytes go both ways",
    in_order: "many small writes arrive in order",
    large: "a large write arrives whole",
    addresses: "both ends know both addresses",
    refused: "a port on which nobody listens refuses",
    unknown_names: "a name that nobody has fails",
    nonsense: "what is no address fails",
    free_ports: "port 0 is a free port",
    taken_ports: "a port is taken once",
    foreign_addresses: "only own addresses can be listened on",
    a_port_is_free_again: "a port is free once its listener is gone",
    nobody_listens_any_more: "a listener that is gone refuses",
    accepted_later: "a connection waits to be accepted",
    several: "several connections live side by side",
    end_of_stream: "who shuts down ends its stream, behind all it wrote, and still hears",
    after_the_end: "after its end nobody writes",
    shut_twice: "a stream can be ended twice",
    dropped: "who drops a connection ends its stream",
    dropped_unread: "who drops unread bytes resets the other",
    written_into_nothing: "writing to somebody who is gone fails in the end",
    slow_readers: "a write waits for who does not read",
    connections_outlive_listeners: "a connection outlives its listener",
}

const LIMIT: Duration = Duration::from_secs(20);

async fn listen(env: &Env) -> (Box<dyn Listener>, u16) {
    let listener = env.net.listen(([0, 0, 0, 0], 0).into()).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

async fn connect(place: &Place, port: u16) -> io::Result<Box<dyn Stream>> {
    place.client.net.connect(&format!("{}:{port}", place.host)).await
}

/// A connection: the client's end, the server's end, the listener.
async fn pair(place: &Place) -> (Box<dyn Stream>, Box<dyn Stream>, Box<dyn Listener>) {
    let (mut listener, port) = listen(&place.server).await;
    let near = connect(place, port).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    (near, far, listener)
}

async fn write(stream: &mut Box<dyn Stream>, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += poll_fn(|cx| stream.poll_write(cx, &bytes[done..])).await?;
    }
    Ok(())
}

async fn read(stream: &mut Box<dyn Stream>) -> io::Result<Vec<u8>> {
    let mut into = [0; 4096];
    let len = poll_fn(|cx| stream.poll_read(cx, &mut into)).await?;
    Ok(into[..len].to_vec())
}

async fn read_all(stream: &mut Box<dyn Stream>, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        let some = read(stream).await.unwrap();
        assert!(!some.is_empty(), "ended after {} bytes", all.len());
        all.extend(some);
    }
    all
}

async fn shut(stream: &mut Box<dyn Stream>) {
    poll_fn(|cx| stream.poll_shutdown(cx)).await.unwrap();
}

async fn within<T>(env: &Env, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    match select(std::pin::pin!(future), env.clock.sleep(limit)).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}

async fn both_ways(place: Place) {
    let (mut near, mut far, _listener) = pair(&place).await;
    write(&mut near, b"question").await.unwrap();
    assert_eq!(read_all(&mut far, 8).await, b"question");
    write(&mut far, b"answer").await.unwrap();
    assert_eq!(read_all(&mut near, 6).await, b"answer");
}

async fn in_order(place: Place) {
    let (mut near, mut far, _listener) = pair(&place).await;
    for number in 0..=255_u8 {
        write(&mut near, &[number; 3]).await.unwrap();
    }
    let expected: Vec<u8> = (0..=255).flat_map(|number| [number; 3]).collect();
    assert_eq!(read_all(&mut far, expected.len()).await, expected);
}

async fn large(place: Place) {
    let (mut near, mut far, _listener) = pair(&place).await;
    let data: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 253) as u8).collect();
    let (sent, got) = futures::join!(write(&mut near, &data), read_all(&mut far, data.len()));
    sent.unwrap();
    assert!(got == data);
}

async fn addresses(place: Place) {
    let (mut listener, port) = listen(&place.server).await;
    let near = connect(&place, port).await.unwrap();
    let (far, peer) = listener.accept().await.unwrap();
    assert_eq!(near.peer_addr().unwrap().port(), port);
    assert_eq!(far.local_addr().unwrap().port(), port);
    assert_eq!(far.peer_addr().unwrap(), peer);
    assert_eq!(near.local_addr().unwrap(), peer);
}

async fn refused(place: Place) {
    let (listener, port) = listen(&place.server).await;
    drop(listener);
    assert_eq!(connect(&place, port).await.err().unwrap().kind(), ErrorKind::ConnectionRefused);
}

async fn unknown_names(place: Place) {
    assert!(place.client.net.connect("no-such-host.invalid:1").await.is_err());
}

async fn nonsense(place: Place) {
    for text in ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", ":"] {
        assert!(place.client.net.connect(text).await.is_err(), "{text:?}");
    }
}

async fn free_ports(place: Place) {
    let ((first, a), (second, b)) = (listen(&place.server).await, listen(&place.server).await);
    assert!(a != 0 && b != 0 && a != b);
    assert_eq!(first.local_addr().unwrap().port(), a);
    assert_eq!(second.local_addr().unwrap().port(), b);
}

async fn taken_ports(place: Place) {
    let (listener, _) = listen(&place.server).await;
    let again = place.server.net.listen(listener.local_addr().unwrap()).await;
    assert_eq!(again.err().unwrap().kind(), ErrorKind::AddrInUse);
}

async fn foreign_addresses(place: Place) {
    let foreign: SocketAddr = ([203, 0, 113, 77], 0).into();
    assert_eq!(place.server.net.listen(foreign).await.err().unwrap().kind(), ErrorKind::AddrNotAvailable);
}

async fn a_port_is_free_again(place: Place) {
    let (listener, port) = listen(&place.server).await;
    drop(listener);
    place.server.net.listen(([0, 0, 0, 0], port).into()).await.unwrap();
}

async fn nobody_listens_any_more(place: Place) {
    let (mut near, _far, listener) = pair(&place).await;
    let port = near.peer_addr().unwrap().port();
    drop(listener);
    assert_eq!(connect(&place, port).await.err().unwrap().kind(), ErrorKind::ConnectionRefused);
    write(&mut near, b"still here").await.unwrap();
}

async fn accepted_later(place: Place) {
    let (mut listener, port) = listen(&place.server).await;
    let mut near = connect(&place, port).await.unwrap();
    write(&mut near, b"early").await.unwrap();
    place.server.clock.sleep(Duration::from_millis(20)).await;
    let (mut far, _) = listener.accept().await.unwrap();
    assert_eq!(read_all(&mut far, 5).await, b"early");
}

async fn several(place: Place) {
    let (mut listener, port) = listen(&place.server).await;
    let mut near = Vec::new();
    for number in 0..5_u8 {
        let mut stream = connect(&place, port).await.unwrap();
        write(&mut stream, &[number]).await.unwrap();
        near.push(stream);
    }
    let mut seen = Vec::new();
    for _ in 0..5 {
        let (mut far, _) = listener.accept().await.unwrap();
        seen.extend(read_all(&mut far, 1).await);
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

async fn end_of_stream(place: Place) {
    let (mut near, mut far, _listener) = pair(&place).await;
    write(&mut near, b"last").await.unwrap();
    shut(&mut near).await;
    assert_eq!(read_all(&mut far, 4).await, b"last");
    assert_eq!(read(&mut far).await.unwrap(), b"");
    assert_eq!(read(&mut far).await.unwrap(), b"", "and it stays ended");
    write(&mut far, b"heard").await.unwrap();
    assert_eq!(read_all(&mut near, 5).await, b"heard");
}

async fn after_the_end(place: Place) {
    let (mut near, _far, _listener) = pair(&place).await;
    shut(&mut near).await;
    assert_eq!(write(&mut near, b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
}

async fn shut_twice(place: Place) {
    let (mut near, mut far, _listener) = pair(&place).await;
    shut(&mut near).await;
    shut(&mut near).await;
    assert_eq!(read(&mut far).await.unwrap(), b"");
}

async fn dropped(place: Place) {
    let (mut near, far, _listener) = pair(&place).await;
    drop(far);
    assert_eq!(within(&place.client, LIMIT, read(&mut near)).await.unwrap().unwrap(), b"");
}

async fn dropped_unread(place: Place) {
    let (mut near, mut far, _listener) = pair(&place).await;
    write(&mut near, b"read this").await.unwrap();
    // One byte of it has come, and so the rest has, or will before the answer.
    let mut one = [0; 1];
    poll_fn(|cx| far.poll_read(cx, &mut one)).await.unwrap();
    place.server.clock.sleep(Duration::from_millis(50)).await;
    drop(far);
    assert_eq!(read(&mut near).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

async fn written_into_nothing(place: Place) {
    let (mut near, far, _listener) = pair(&place).await;
    drop(far);
    let writing = async {
        loop {
            if let Err(error) = write(&mut near, &[0; 1000]).await {
                return error.kind();
            }
            place.client.clock.sleep(Duration::from_millis(5)).await;
        }
    };
    let kind = within(&place.client, LIMIT, writing).await.unwrap();
    assert!(matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{kind}");
}

async fn slow_readers(place: Place) {
    let (mut near, mut far, _listener) = pair(&place).await;
    let data = vec![7; 32 << 20];
    {
        let mut writing = std::pin::pin!(write(&mut near, &data));
        assert!(within(&place.client, Duration::from_millis(300), writing.as_mut()).await.is_none(), "it all fitted");
        let (sent, got) = futures::join!(writing, read_all(&mut far, data.len()));
        sent.unwrap();
        assert_eq!(got.len(), data.len());
    }
}

async fn connections_outlive_listeners(place: Place) {
    let (mut near, mut far, listener) = pair(&place).await;
    drop(listener);
    write(&mut near, b"still").await.unwrap();
    assert_eq!(read_all(&mut far, 5).await, b"still");
}
