//! Ctrl-C and SIGTERM.

/// Completes when the process is asked to stop.
pub async fn stop_requested() -> std::io::Result<()> {
    use tokio::signal::unix::{signal, SignalKind};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    futures::future::select(Box::pin(terminate.recv()), Box::pin(interrupt.recv())).await;
    Ok(())
}
