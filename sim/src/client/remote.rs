//! One request after the other to one server.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use futures::future::{select, Either};
use metaq::env::{Env, Stream};
use metaq::proto::remoting::{frame, Command, Serialization};

/// A server and the connection to it, made when it is needed.
pub struct Remote {
    env: Env,
    address: String,
    stream: Option<Box<dyn Stream>>,
    received: Vec<u8>,
    chunk: Box<[u8; 8192]>,
    opaque: i32,
    connections: u64,
}

impl Remote {
    /// The server at `address`, not connected yet.
    pub fn new(env: Env, address: impl Into<String>) -> Remote {
        let (received, chunk) = (Vec::new(), Box::new([0; 8192]));
        Remote { env, address: address.into(), stream: None, received, chunk, opaque: 0, connections: 0 }
    }

    /// How many connections it has made.
    pub fn connections(&self) -> u64 {
        self.connections
    }

    /// Lets go of the connection.
    pub fn disconnect(&mut self) {
        self.stream = None;
        self.received.clear();
    }

    /// Sends a request and waits for its answer, for `limit` in all. After an error the connection is closed, and
    /// whether the server has carried the request out is unknown.
    pub async fn call(&mut self, request: Command, limit: Duration) -> io::Result<Command> {
        let clock = self.env.clock.clone();
        let answer = match select(Box::pin(self.exchange(request)), clock.sleep(limit)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        if answer.is_err() {
            self.disconnect();
        }
        answer
    }

    async fn exchange(&mut self, mut request: Command) -> io::Result<Command> {
        self.opaque += 1;
        request.opaque = self.opaque;
        let mut bytes = Vec::new();
        request.encode(Serialization::Json, &mut bytes).map_err(io::Error::other)?;
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let stream = self.env.net.connect(&self.address).await?;
                self.connections += 1;
                self.stream.insert(stream)
            }
        };
        let mut sent = 0;
        while sent < bytes.len() {
            sent += poll_fn(|cx| stream.poll_write(cx, &bytes[sent..])).await?;
        }
        loop {
            while let Some(frame) = frame::next(&self.received).map_err(io::Error::other)? {
                let command = Command::decode(&frame).map_err(io::Error::other)?;
                let len = frame.len;
                self.received.drain(..len);
                // Servers may ask something too; these clients do not listen.
                if command.is_response() && command.opaque == self.opaque {
                    return Ok(command);
                }
            }
            let chunk = &mut self.chunk[..];
            match poll_fn(|cx| stream.poll_read(cx, chunk)).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => self.received.extend_from_slice(&self.chunk[..len]),
            }
        }
    }
}
