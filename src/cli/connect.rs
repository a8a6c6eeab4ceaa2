//! The cluster that a command works with.

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::console::tell;
use super::fail::Failure;
use super::show::Screen;
use crate::client::{Admin, Client, Error};
use crate::config::keys::nearest;
use crate::env::{real, Env, Millis};
use crate::proto::body::TopicRouteData;

/// Where it is if nothing says otherwise.
const DEFAULT_NAMESERVER: &str = "127.0.0.1:9876";

/// Which cluster.
#[derive(Clone, Debug, Args)]
pub struct ClusterArgs {
    /// NameServers, separated by `;`
    #[arg(
        short = 'n',
        long = "namesrv",
        value_name = "HOST:PORT",
        env = "NAMESRV_ADDR",
        default_value = DEFAULT_NAMESERVER,
        hide_env_values = true
    )]
    nameservers: String,
}

/// A cluster, and the screen to show it on.
pub struct Cluster {
    /// Everything the client library has.
    pub client: Client,
    /// Its tools.
    pub admin: Admin,
    /// Clock and disk.
    pub env: Env,
    /// Standard output.
    pub screen: Screen,
    /// ` -n …` for the commands that hints show, if it is needed.
    named: String,
}

/// Runs a command on a cluster.
///
/// # Errors
/// What the command says.
pub fn run<F, W>(args: &ClusterArgs, work: F) -> Result<ExitCode>
where
    F: FnOnce(Cluster) -> W,
    W: Future<Output = Result<ExitCode>>,
{
    start_logging();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let env = real::env();
        let client = Client::new(&env, &args.nameservers)?;
        let assumed = std::env::var("NAMESRV_ADDR").unwrap_or_else(|_| DEFAULT_NAMESERVER.to_owned());
        let named = if assumed == args.nameservers { String::new() } else { format!(" -n '{}'", args.nameservers) };
        let (admin, screen) = (client.admin(), Screen::new(&env));
        let outcome = work(Cluster { client: client.clone(), admin, env, screen, named }).await;
        client.close().await;
        outcome
    });
    // A thread that waits for a line of standard input may not keep the process alive.
    runtime.shutdown_timeout(Duration::ZERO);
    outcome
}

/// The client library logs nothing unless `METAQ_LOG` asks for it.
fn start_logging() {
    if let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("METAQ_LOG") {
        let format = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
        format.with_writer(std::io::stderr).log_internal_errors(false).init();
    }
}

impl ClusterArgs {
    /// NameServers, separated by `;`.
    pub fn nameservers(&self) -> &str {
        &self.nameservers
    }
}

impl Cluster {
    /// Now.
    pub fn now(&self) -> Millis {
        self.env.clock.now()
    }

    /// A command for hints, complete.
    pub fn command(&self, command: &str) -> String {
        format!("`metaq {command}{}`", self.named)
    }

    /// Says what to type next.
    pub fn hint(&self, text: &str, command: &str) {
        tell!("hint: {text} {}", self.command(command));
    }

    /// The route of a topic that has to be there.
    ///
    /// # Errors
    /// If it is not there, with the name that was probably meant.
    pub async fn route(&self, topic: &str) -> Result<TopicRouteData> {
        match self.admin.route(topic).await {
            Err(Error::NoRoute { .. }) => Err(self.no_topic(topic).await.into()),
            other => Ok(other?),
        }
    }

    /// The error of a topic that is not there.
    pub async fn no_topic(&self, topic: &str) -> Failure {
        let known = self.admin.topics().await.unwrap_or_default();
        let failure = Failure::refused(format!("topic `{topic}` not found"));
        let list = self.command("topic list");
        match nearest(topic, known.iter().map(String::as_str)) {
            Some(near) => failure.hint(format!("did you mean `{near}`? list all with {list}")),
            None => failure
                .hint(format!("list all with {list}, make it with {}", self.command(&format!("topic create {topic}")))),
        }
    }

    /// The error of a group that is not there.
    pub async fn no_group(&self, group: &str) -> Failure {
        let known = self.admin.groups().await.unwrap_or_default();
        let failure = Failure::refused(format!("group `{group}` not found"));
        let list = self.command("group list");
        match nearest(group, known.keys().map(String::as_str)) {
            Some(near) => failure.hint(format!("did you mean `{near}`? list all with {list}")),
            None => failure.hint(format!("list all with {list}")),
        }
    }

    /// Waits until something is so, at most for `limit`.
    pub async fn until(&self, limit: Duration, mut so: impl AsyncFnMut() -> bool) -> bool {
        let deadline = self.env.clock.monotonic() + limit;
        loop {
            if so().await {
                return true;
            }
            if self.env.clock.monotonic() >= deadline {
                return false;
            }
            self.env.clock.sleep(Duration::from_millis(100)).await;
        }
    }
}
