//! `metaq up`, `nameserver` and `broker`: servers that run until they are asked to stop.

use std::future::Future;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use super::{signals, BrokerArgs, NameserverArgs, UpArgs, EXIT_BUG};
use crate::actors::broker::BrokerHandle;
use crate::actors::nameserver::NameServerHandle;
use crate::config::broker::BrokerConfig;
use crate::config::nameserver::NameServerSettings;
use crate::env::{real, Env};

/// How long a stop may take before the process ends anyway; what is not flushed by then is recovered at the next start.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// `metaq up`
pub fn up(args: UpArgs) -> Result<ExitCode> {
    run(async move {
        let env = real::env();
        let nameserver_address = resolve(&args.nameserver)?;
        let broker_address = resolve(&args.broker)?;
        let mut config = BrokerConfig {
            broker_name: "broker-a".to_owned(),
            listen_port: broker_address.port(),
            store_path_root_dir: args.data.display().to_string(),
            ..BrokerConfig::default()
        };
        if !broker_address.ip().is_unspecified() {
            config.broker_ip1 = broker_address.ip().to_string();
        }
        apply_sets(&mut config, &args.set)?;

        let nameserver = NameServerHandle::start(&env, NameServerSettings::default(), nameserver_address, &args.data)
            .await
            .context("the NameServer did not start")?;
        config.namesrv_addr = reachable(nameserver.address()).to_string();
        let broker = match BrokerHandle::start(&env, config, broker_address).await {
            Ok(broker) => broker,
            Err(error) => {
                nameserver.stop().await;
                return Err(error).context("the broker did not start");
            }
        };
        println!("nameserver  {}", nameserver.address());
        print_broker(&broker, &args.data);
        println!("ready       try: NAMESRV_ADDR={} metaq bench produce", reachable(nameserver.address()));
        let code = serve_until_stopped(&broker).await?;
        broker.stop(STOP_LIMIT).await?;
        nameserver.stop().await;
        Ok(code)
    })
}

/// `metaq nameserver`
pub fn nameserver(args: NameserverArgs) -> Result<ExitCode> {
    let mut settings = NameServerSettings::default();
    if let Some(path) = &args.config {
        settings = settings.changed_by(&read_settings(path)?)?;
    }
    for pair in &args.set {
        check_pair(pair)?;
        settings = settings.changed_by(pair)?;
    }
    if args.print {
        print!("{}", settings.to_properties());
        return Ok(ExitCode::SUCCESS);
    }
    let address = match &args.listen {
        Some(address) => resolve(address)?,
        None => resolve(&format!("{}:{}", settings.bind_address, settings.listen_port))?,
    };
    run(async move {
        let env = real::env();
        let nameserver = NameServerHandle::start(&env, settings, address, &args.data).await?;
        println!("nameserver  {}", nameserver.address());
        println!("ready       try: metaq broker -n {}", reachable(nameserver.address()));
        signals::stop_requested().await?;
        nameserver.stop().await;
        Ok(ExitCode::SUCCESS)
    })
}

/// `metaq broker`
pub fn broker(args: BrokerArgs) -> Result<ExitCode> {
    let mut config = BrokerConfig::default();
    if let Some(path) = &args.config {
        for warning in config.apply(&read_settings(path)?)? {
            eprintln!("warning: {}: {warning}", path.display());
        }
    }
    if let Some(data) = &args.data {
        config.store_path_root_dir = data.display().to_string();
    }
    if let Some(nameservers) = &args.nameservers {
        config.namesrv_addr = nameservers.clone();
    }
    apply_sets(&mut config, &args.set)?;
    if args.print {
        print!("{}", config.to_properties());
        return Ok(ExitCode::SUCCESS);
    }
    let address = match &args.listen {
        Some(address) => resolve(address)?,
        None => SocketAddr::from(([0, 0, 0, 0], config.listen_port)),
    };
    if args.listen.is_some() && config.broker_ip1.is_empty() && !address.ip().is_unspecified() {
        config.broker_ip1 = address.ip().to_string();
    }
    config.listen_port = address.port();
    run(async move {
        let env = real::env();
        let nameservers = config.namesrv_addr.clone();
        let data = config.store_path_root_dir.clone();
        let broker = BrokerHandle::start(&env, config, address).await?;
        print_broker(&broker, Path::new(&data));
        if nameservers.is_empty() {
            eprintln!("warning: no NameServer is configured: clients will not find this broker; use -n HOST:PORT");
        }
        println!("ready       try: NAMESRV_ADDR={nameservers} metaq bench produce");
        let code = serve_until_stopped(&broker).await?;
        broker.stop(STOP_LIMIT).await?;
        Ok(code)
    })
}

/// Waits until the process is asked to stop, or the broker can go on no longer.
async fn serve_until_stopped(broker: &BrokerHandle) -> Result<ExitCode> {
    use futures::future::{select, Either};
    match select(Box::pin(signals::stop_requested()), Box::pin(broker.failed())).await {
        Either::Left((signal, _)) => {
            signal?;
            eprintln!("stopping: flushing the store");
            Ok(ExitCode::SUCCESS)
        }
        Either::Right((why, _)) => {
            eprintln!("error: the broker stops: {why}");
            Ok(ExitCode::from(EXIT_BUG))
        }
    }
}

fn print_broker(broker: &BrokerHandle, data: &Path) {
    let old_clients = match broker.old_clients_address() {
        Some(address) => format!(" (old clients: {address})"),
        None => String::new(),
    };
    println!("broker      {}{old_clients}, clients are told {}", broker.address(), broker.advertised());
    println!("data        {}", data.display());
}

fn run(serving: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    start_logging();
    // One thread for sessions and log writer is the fastest on few cores: an actor message to another thread costs
    // more than the work it asks for. Syncs run on tokio's blocking threads.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(serving);
    // Whatever still waits on the disk may not keep a stopped process alive.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// Logs to standard error; `METAQ_LOG` chooses what, `info` by default.
fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("METAQ_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let plain = std::env::var_os("NO_COLOR").is_some() || !std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(!plain).with_writer(std::io::stderr).init();
}

fn resolve(address: &str) -> Result<SocketAddr> {
    address
        .to_socket_addrs()
        .with_context(|| format!("`{address}` is no HOST:PORT"))?
        .next()
        .with_context(|| format!("`{address}` has no address"))
}

/// The address by which a process on this machine reaches a listener.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::from(([127, 0, 0, 1], address.port()))
    } else {
        address
    }
}

fn read_settings(path: &Path) -> Result<String> {
    let env: Env = real::env();
    let file = env
        .disk
        .open(path, crate::env::OpenMode::Read)
        .with_context(|| format!("settings file {} cannot be read", path.display()))?;
    let mut bytes = vec![0; usize::try_from(file.len()?.min(1 << 20))?];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(String::from_utf8(bytes)?)
}

fn apply_sets(config: &mut BrokerConfig, sets: &[String]) -> Result<()> {
    for pair in sets {
        check_pair(pair)?;
        for warning in config.apply(pair)? {
            eprintln!("warning: {warning}");
        }
    }
    Ok(())
}

fn check_pair(pair: &str) -> Result<()> {
    if !pair.contains('=') {
        bail!("`--set {pair}`: write it as KEY=VALUE");
    }
    Ok(())
}
