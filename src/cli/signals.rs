//! Ctrl-C, SIGTERM, and the terminal's hang-up.

use std::future::Future;
use std::io;

use futures::future::select_all;
use tokio::signal::unix::{signal, SignalKind};

/// Completes when the process is asked to stop. The signals are caught from this call on, not from the first poll: one
/// that came in between would end the process where it stands.
pub fn stop_requested() -> impl Future<Output = io::Result<()>> {
    let caught = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    async move {
        let mut signals = Vec::new();
        for signal in caught {
            signals.push(signal?);
        }
        select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
        Ok(())
    }
}
