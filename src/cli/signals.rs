//! Ctrl-C, SIGTERM, and the terminal's hang-up.

/// Completes when the process is asked to stop.
pub async fn stop_requested() -> std::io::Result<()> {
    use tokio::signal::unix::{signal, SignalKind};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let signals = [&mut terminate, &mut interrupt, &mut hang_up].map(|signal| Box::pin(signal.recv()));
    futures::future::select_all(signals).await;
    Ok(())
}
