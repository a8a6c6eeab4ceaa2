//! Sockets without a runtime, for the bench: a measuring client must cost less than what it measures, and the ceiling
//! probe shows what the machine gives to a server that does nothing else.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Events taken with one call.
const EVENTS: usize = 256;

/// A connection that never waits.
pub struct Socket(TcpStream);

impl Socket {
    /// Connects, waiting at most `limit`.
    pub fn connect(address: SocketAddr, limit: Duration) -> io::Result<Self> {
        Self::new(TcpStream::connect_timeout(&address, limit)?)
    }

    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Socket(stream))
    }

    /// What has come, at most `into.len()` bytes; `None` if nothing has. 0 bytes are the peer's end.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        unless_waiting(self.0.read(into))
    }

    /// Writes what there is room for; `None` if there is none.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        unless_waiting(self.0.write(bytes))
    }
}

/// A listening socket that never waits.
pub struct Acceptor(TcpListener);

impl Acceptor {
    /// Listens; port 0 picks a free one.
    pub fn listen(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Acceptor(listener))
    }

    /// The address with the real port.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The next connection that has come.
    pub fn accept(&mut self) -> io::Result<Option<Socket>> {
        match unless_waiting(self.0.accept())? {
            Some((stream, _)) => Socket::new(stream).map(Some),
            None => Ok(None),
        }
    }
}

fn unless_waiting<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits for sockets. Edge-triggered: a socket is told of once when something comes or room appears, so read until a
/// read gives less than asked for.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    /// A poller of this thread. Its waits end within a few microseconds of their time.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes no memory; the descriptor that comes back is owned by nobody else.
        let epoll = unsafe {
            let descriptor = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(descriptor)
        };
        // SAFETY: sets a number of the calling thread, no memory is passed. By default the kernel adds up to 50 µs.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        Ok(Poller { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS] })
    }

    /// Tells of this connection as `token` from now on, until it is dropped.
    pub fn watch(&self, socket: &Socket, token: u64) -> io::Result<()> {
        self.add(socket.0.as_raw_fd(), token, libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET)
    }

    /// Tells of connections that wait to be accepted.
    pub fn watch_acceptor(&self, acceptor: &Acceptor, token: u64) -> io::Result<()> {
        self.add(acceptor.0.as_raw_fd(), token, libc::EPOLLIN)
    }

    fn add(&self, descriptor: libc::c_int, token: u64, events: libc::c_int) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: both descriptors are open, and the kernel copies `event` before the call returns.
        match unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, descriptor, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits until something has come or `limit` has passed, and gives the tokens of those concerned. A signal ends the
    /// wait too.
    pub fn wait(&mut self, limit: Option<Duration>, tokens: &mut Vec<u64>) -> io::Result<()> {
        tokens.clear();
        let limit = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(limit.subsec_nanos() as i32),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: `events` has room for EVENTS events and `limit` is null or points to a timespec; both outlive the
        // call. No signal mask is passed. The bare system call (Linux 5.11) asks for no newer C library.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS as libc::c_int,
                limit,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        };
        tokens.extend(self.events[..count].iter().map(|event| event.u64));
        Ok(())
    }
}
