//! `metaq up`, `nameserver` and `broker`: servers that run until they are asked to stop.

use std::fmt::Display;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};

use super::console::{say, tell};
use super::{signals, BrokerArgs, NameserverArgs, UpArgs, UsageError, EXIT_BUG};
use crate::actors::broker::BrokerHandle;
use crate::actors::nameserver::NameServerHandle;
use crate::actors::settings_file::SettingsFile;
use crate::config::broker::{BrokerConfig, BrokerRole};
use crate::config::nameserver::NameServerSettings;
use crate::env::{real, Env};

/// How long a stop may take before the process ends anyway; what is not flushed by then is recovered at the next start.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// How long `up` waits for its slaves.
const SYNC_LIMIT: Duration = Duration::from_secs(60);

/// `metaq up`
pub fn up(args: UpArgs) -> Result<ExitCode> {
    run(async move {
        // From here on: one that comes while the store is opened must end it in order, too.
        let stop = signals::stop_requested();
        let env = real::env();
        let nameserver_address = resolve(&args.nameserver)?;
        let broker_address = resolve(&args.broker)?;
        let mut configs = Vec::new();
        for id in 0..=args.slaves {
            configs.push(member_config(&args, broker_address, id)?);
        }
        let mut settings = NameServerSettings::default();
        apply_changed_nameserver(&mut settings, &args.data)?;
        let nameserver = NameServerHandle::start(&env, settings, nameserver_address, &args.data)
            .await
            .context("the NameServer did not start")?;
        let mut members = Vec::new();
        let started = start_members(&env, configs, broker_address, &nameserver, &mut members).await;
        if let Err(error) = started {
            // What is not stopped in order is recovered at the next start.
            let _ = stop_members(members).await;
            nameserver.stop().await;
            return Err(error).context("the broker did not start");
        }
        say!("nameserver  {}", nameserver.address());
        let (broker, slaves) = (&members[0], &members[1..]);
        if !until_in_sync(&env, broker, slaves.len()).await {
            tell!("warning: the slaves are not in sync yet; `metaq cluster list` shows how far they are");
        }
        // Who is told that it is ready may ask for a route at once.
        broker.registered().await;
        print_broker(broker, &args.data);
        for slave in slaves {
            say!("slave {}     {}", slave.shared().role.broker_id(), slave.address());
        }
        say!("ready       try: metaq send Orders 'a book'{}", named(reachable(nameserver.address())));
        let code = serve_until_stopped(&members, stop).await?;
        stop_members(members).await?;
        nameserver.stop().await;
        Ok(code)
    })
}

/// Ports between one member of a group in one process and the next: each has three, its own, the one above for slaves and
/// the one two below for old clients.
const PORTS_BETWEEN: u16 = 10;

/// The settings of the master, id 0, or of a slave. A slave stays one whatever `--set brokerRole` asks of its master.
fn member_config(args: &UpArgs, address: SocketAddr, id: u16) -> Result<BrokerConfig> {
    let data = if id == 0 { args.data.clone() } else { args.data.join(format!("slave-{id}")) };
    let mut config = BrokerConfig {
        broker_name: "broker-a".to_owned(),
        store_path_root_dir: data.display().to_string(),
        ..BrokerConfig::default()
    };
    if !address.ip().is_unspecified() {
        config.broker_ip1 = address.ip().to_string();
    }
    apply_changed(&mut config, &args.set)?;
    apply_sets(&mut config, &args.set)?;
    config.listen_port = member_port(address, id)?;
    if id > 0 {
        config.broker_id = u64::from(id);
        config.broker_role = BrokerRole::Slave;
        config.store_path_root_dir = data.display().to_string();
        config.store_path_commit_log = String::new();
        config.ha_listen_port = 0;
    }
    Ok(config)
}

/// Port 0 is any that is free.
fn member_port(address: SocketAddr, id: u16) -> Result<u16> {
    let above = |port: u16| port.checked_add(PORTS_BETWEEN * id);
    match address.port() {
        0 => Ok(0),
        port => above(port).ok_or_else(|| UsageError(format!("there is no port for slave {id} above {port}")).into()),
    }
}

async fn start_members(
    env: &Env,
    configs: Vec<BrokerConfig>,
    address: SocketAddr,
    nameserver: &NameServerHandle,
    members: &mut Vec<BrokerHandle>,
) -> Result<()> {
    for mut config in configs {
        config.namesrv_addr = reachable(nameserver.address()).to_string();
        let address = SocketAddr::new(address.ip(), config.listen_port);
        members.push(BrokerHandle::start(env, config, address).await?);
    }
    Ok(())
}

/// Waits until all slaves have the master's log, but not for ever: a large one takes its time.
async fn until_in_sync(env: &Env, master: &BrokerHandle, slaves: usize) -> bool {
    let deadline = env.clock.monotonic() + SYNC_LIMIT;
    while master.ha_status().in_sync <= slaves && slaves > 0 {
        if env.clock.monotonic() > deadline {
            return false;
        }
        env.clock.sleep(Duration::from_millis(20)).await;
    }
    true
}

/// Stops the master and then its slaves.
async fn stop_members(members: Vec<BrokerHandle>) -> Result<()> {
    let mut stopped = Ok(());
    for member in members {
        stopped = stopped.and(member.stop(STOP_LIMIT).await);
    }
    stopped
}

/// `metaq nameserver`
pub fn nameserver(args: NameserverArgs) -> Result<ExitCode> {
    let mut settings = NameServerSettings::default();
    if let Some(path) = &args.config {
        warn(Some(path), &settings.apply(&read_settings(path)?).with_context(|| path.display().to_string())?);
        settings.config_store_path = std::path::absolute(path).with_context(|| path.display().to_string())?;
    } else {
        apply_changed_nameserver(&mut settings, &args.data)?;
    }
    for pair in &args.set {
        warn(None, &settings.apply(checked(pair)?).map_err(|error| UsageError(error.to_string()))?);
    }
    if args.print {
        say!("{}", settings.to_properties().trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let address = match &args.listen {
        Some(address) => resolve(address)?,
        None => resolve(&format!("{}:{}", settings.bind_address, settings.listen_port))?,
    };
    run(async move {
        // From here on: one that comes while the store is opened must end it in order, too.
        let stop = signals::stop_requested();
        let env = real::env();
        let nameserver = NameServerHandle::start(&env, settings, address, &args.data).await?;
        say!("nameserver  {}", nameserver.address());
        say!("ready       try: metaq broker -n {}", reachable(nameserver.address()));
        stop.await?;
        nameserver.stop().await;
        Ok(ExitCode::SUCCESS)
    })
}

/// `metaq broker`
pub fn broker(args: BrokerArgs) -> Result<ExitCode> {
    let mut config = BrokerConfig::default();
    if let Some(path) = &args.config {
        warn(Some(path), &config.apply(&read_settings(path)?).with_context(|| path.display().to_string())?);
        config.broker_config_path = path.display().to_string();
    }
    if let Some(data) = &args.data {
        config.store_path_root_dir = data.display().to_string();
    }
    if args.config.is_none() {
        apply_changed(&mut config, &args.set)?;
    }
    if let Some(nameservers) = &args.nameservers {
        config.namesrv_addr = nameservers.clone();
    }
    if let Some(id) = args.broker_id {
        config.broker_id = id;
        config.broker_role = match (id, config.broker_role) {
            (0, BrokerRole::Slave) => BrokerRole::AsyncMaster,
            (0, role) => role,
            _ => BrokerRole::Slave,
        };
    }
    apply_sets(&mut config, &args.set)?;
    config.check_role().map_err(UsageError)?;
    if args.print {
        say!("{}", config.to_properties().trim_end());
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
        // From here on: one that comes while the store is opened must end it in order, too.
        let stop = signals::stop_requested();
        let env = real::env();
        let nameservers = config.namesrv_addr.clone();
        let data = config.store_path_root_dir.clone();
        let broker = BrokerHandle::start(&env, config, address).await?;
        print_broker(&broker, Path::new(&data));
        if nameservers.is_empty() {
            tell!("warning: no NameServer is configured: clients will not find this broker; use -n HOST:PORT");
            say!("ready");
        } else {
            say!("ready       try: NAMESRV_ADDR='{nameservers}' metaq bench produce");
        }
        let members = [broker];
        let code = serve_until_stopped(&members, stop).await?;
        stop_members(members.into()).await?;
        Ok(code)
    })
}

/// Waits until the process is asked to stop, or a broker can go on no longer.
async fn serve_until_stopped(members: &[BrokerHandle], stop: impl Future<Output = io::Result<()>>) -> Result<ExitCode> {
    use futures::future::{select, select_all, Either};
    let failed = select_all(members.iter().map(|member| Box::pin(member.failed())));
    match select(Box::pin(stop), failed).await {
        Either::Left((signal, _)) => {
            signal?;
            tracing::info!("stopping: flushing the store");
            Ok(ExitCode::SUCCESS)
        }
        Either::Right(((why, ..), _)) => {
            tell!("error: the broker stops: {why}");
            Ok(ExitCode::from(EXIT_BUG))
        }
    }
}

fn print_broker(broker: &BrokerHandle, data: &Path) {
    let old_clients = match broker.old_clients_address() {
        Some(address) => format!(" (old clients: {address})"),
        None => String::new(),
    };
    say!("broker      {}{old_clients}, clients are told {}", broker.address(), broker.advertised());
    say!("data        {}", data.display());
}

fn run(serving: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    start_logging();
    real::process::give_back_large_buffers();
    if let Err(error) = real::process::raise_open_files() {
        tracing::warn!(%error, "the number of files that may be open at once stays as it is");
    }
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
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(!plain)
        .with_writer(std::io::stderr)
        // It would tell of a closed standard error there, and panic.
        .log_internal_errors(false)
        .init();
}

fn resolve(address: &str) -> Result<SocketAddr> {
    let mut addresses = address.to_socket_addrs().map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => UsageError(format!("`{address}` is no HOST:PORT")),
        _ => UsageError(format!("`{address}` is no HOST:PORT that can be found: {error}")),
    })?;
    addresses.next().with_context(|| format!("`{address}` has no address"))
}

/// ` -n …`, where tools would look elsewhere for the NameServer.
fn named(nameserver: SocketAddr) -> String {
    if nameserver == SocketAddr::from(([127, 0, 0, 1], 9876)) {
        String::new()
    } else {
        format!(" -n {nameserver}")
    }
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
    let unreadable = || format!("settings file {} cannot be read", path.display());
    SettingsFile::read(&*real::env().disk, path).with_context(unreadable)
}

/// Takes what requests changed while the broker last ran on this store. The command line says where the store is, and
/// wins again afterwards.
fn apply_changed(config: &mut BrokerConfig, sets: &[String]) -> Result<()> {
    let mut where_it_is = config.clone();
    for pair in sets {
        where_it_is.apply(checked(pair)?).map_err(|error| UsageError(error.to_string()))?;
    }
    let path = where_it_is.settings_path();
    let unreadable = || format!("settings file {} cannot be read", path.display());
    let text = SettingsFile::read_if_there(&*real::env().disk, &path).with_context(unreadable)?;
    warn(Some(&path), &config.apply(&text).with_context(|| path.display().to_string())?);
    Ok(())
}

/// The same for a NameServer and its data folder.
fn apply_changed_nameserver(settings: &mut NameServerSettings, data: &Path) -> Result<()> {
    let path = data.join(&settings.config_store_path);
    let unreadable = || format!("settings file {} cannot be read", path.display());
    let text = SettingsFile::read_if_there(&*real::env().disk, &path).with_context(unreadable)?;
    warn(Some(&path), &settings.apply(&text).with_context(|| path.display().to_string())?);
    Ok(())
}

fn apply_sets(config: &mut BrokerConfig, sets: &[String]) -> Result<()> {
    for pair in sets {
        warn(None, &config.apply(checked(pair)?).map_err(|error| UsageError(error.to_string()))?);
    }
    Ok(())
}

/// What of the settings was not taken, and from which file.
fn warn(file: Option<&PathBuf>, warnings: &[impl Display]) {
    let from = file.map_or_else(String::new, |file| format!("{}: ", file.display()));
    for warning in warnings {
        tell!("warning: {from}{warning}");
    }
}

fn checked(pair: &str) -> Result<&str, UsageError> {
    match pair.split_once('=') {
        Some((key, _)) if !key.trim().is_empty() => Ok(pair),
        _ => Err(UsageError(format!("`--set {pair}` is no KEY=VALUE"))),
    }
}
