//! Small clients for scenarios: they speak the wire format over the simulated network and record what they did and saw.
//!
//! They are written from the protocol's description and share only the header codec with the product.

mod asker;
mod consumer;
mod member;
mod message;
mod producer;
mod remote;
mod routes;

pub use asker::Asker;
pub use consumer::Consumer;
pub use member::{Member, LOCK_TRUST};
pub use message::{body_of, check_properties, message_of, properties_of};
pub use producer::Producer;
pub use remote::Remote;
pub use routes::{ClientError, Routes};
