//! TCP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::env::{BoxFuture, Listener, Net, Stream};

/// Connections that the kernel queues while the broker does not accept.
const ACCEPT_BACKLOG: u32 = 1024;

/// The machine's TCP.
pub(super) struct TcpNet;

impl Net for TcpNet {
    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            // A restarted broker takes its port back while old connections still linger in TIME_WAIT.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            Ok(Box::new(Accepting(socket.listen(ACCEPT_BACKLOG)?)) as Box<dyn Listener>)
        })
    }

    fn own_address(&self) -> IpAddr {
        // Connecting a datagram socket sends nothing: the kernel only chooses the address it would send from.
        let chosen = || -> io::Result<IpAddr> {
            let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
            Ok(socket.local_addr()?.ip())
        };
        match chosen() {
            Ok(address) if !address.is_unspecified() => address,
            _ => Ipv4Addr::LOCALHOST.into(),
        }
    }

    fn own_name(&self) -> String {
        let mut name = [0_u8; 256];
        // SAFETY: the kernel writes at most the length given into the buffer we own.
        let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
        if failed {
            String::new()
        } else {
            String::from_utf8_lossy(&name[..end]).into_owned()
        }
    }

    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(Connection(stream)) as Box<dyn Stream>)
        })
    }
}

struct Accepting(TcpListener);

impl Listener for Accepting {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>> {
        Box::pin(async move {
            let (stream, peer) = self.0.accept().await?;
            stream.set_nodelay(true)?;
            Ok((Box::new(Connection(stream)) as Box<dyn Stream>, peer))
        })
    }
}

struct Connection(TcpStream);

impl Stream for Connection {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(into);
        match Pin::new(&mut self.0).poll_read(cx, &mut buffer) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
