//! Plans of the simulator, played with real processes over real TCP: the second line.
//!
//! NameServers, brokers and clients are processes of the built binary. Every connection goes through a [`proxy`] that can
//! hold, delay and reset what travels; [`machines`] are killed, stopped and started again; [`stage`] does to them what a
//! [`plan`] says, and the clients' histories are judged by `metaq audit`.
//!
//! The folder is compiled into the tests and into `examples/soak.rs`.

pub mod machines;
pub mod plan;
pub mod proxy;
pub mod stage;
