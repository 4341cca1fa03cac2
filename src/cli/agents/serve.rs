//! `agentproto serve`: runs the daemon until it is stopped.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use clap::Args;
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use crate::cli::agents::bundles;
use crate::cli::agents::client::{Client, HostOptions, Runtime};
use crate::cli::agents::notes::Signals;
use crate::cli::agents::sandbox_settings;
use crate::cli::args::{Global, LiveOutput};
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_daemon::http::server::{self, ServerLimits};
use agentproto_daemon::http::{self, AppState, HostNames};
use agentproto_daemon::mcp::{self, ToolOptions};
use agentproto_daemon::{HostConfig, Registry};
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_runtime::context::SandboxSettings;
use agentproto_runtime::home::Home;
use agentproto_runtime::secrets::random;
use agentproto_runtime::tls;
use agentproto_text::escape_line;

/// File where clients find the host: `{"url","pid","token"}`.
pub const RUNTIME_FILE: &str = "runtime.json";
/// Lock of a running host: two hosts with the same state would overwrite each other's sessions.
const LOCK_NAME: &str = "serve";
/// Limit of open descriptors, for connections and agents.
const MAX_DESCRIPTORS: u64 = 65_536;
/// Maximum number of connections that wait to be accepted. The kernel may have a lower limit.
const LISTEN_QUEUE: u32 = 4096;
/// Time limit for tasks that still run after the shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub struct Serve {
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = address)]
    pub bind: IpAddr,
    /// Listen on this port; 0 picks a free one
    #[arg(long, value_name = "N", default_value_t = 4646, value_parser = port)]
    pub port: u16,
    /// Look up adapters in DIR first
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// Do not offer the built-in mock agents
    #[arg(long)]
    pub no_bundled: bool,
    /// Use manifests that have errors
    #[arg(long)]
    pub allow_invalid: bool,
    /// Maximum number of live sessions
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_sessions: u32,
    /// Sustained limit on new sessions per second, with bursts of up to --max-sessions
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub spawn_rate: u32,
    /// Maximum number of open connections
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,
    /// Maximum number of open connections without a token, per address [default: a quarter of --max-connections]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_unauthenticated: Option<u32>,
    /// Close sessions after this many seconds without a turn; 0 never closes them
    /// [default: `session.idle_timeout_ms` of each manifest]
    #[arg(long, value_name = "SECONDS", value_parser = idle_timeout)]
    pub idle_timeout: Option<Duration>,
    /// Maximum size of the stored history in megabytes; the oldest output is deleted first
    #[arg(long, value_name = "MB", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub history_size: u64,
    /// Forget sessions this many days after their end; 0 keeps them
    #[arg(long, value_name = "DAYS", default_value_t = 90)]
    pub history_days: u32,
    /// Maximum number of ended sessions to remember; the oldest are forgotten first
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub history_sessions: u32,
    /// Replace the token of the running daemon, and exit; without a running daemon, start one
    #[arg(long)]
    pub rotate_token: bool,
    /// Print a one-time link that opens the dashboard without entering the token
    #[arg(long)]
    pub open: bool,
    /// Also accept requests for this host name
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Serve HTTPS with this certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Allow other machines to connect without TLS: the token and all output are sent unencrypted
    #[arg(long)]
    pub insecure_bind: bool,
    /// Also offer the MCP tools (start_agent_session, prompt_agent_session, …) under the newer names
    /// agent_start, agent_prompt, agent_sessions_list, agent_output and agent_kill
    #[arg(long)]
    pub mcp_aliases: bool,
    /// Also offer the tools of this CLI bundle at `/mcp`: an adapter's name, a CLI.md, or a
    /// directory that contains one
    #[arg(long, value_name = "TARGET")]
    pub bundle: Vec<String>,
    /// Output format: human text, or one JSON event per line
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = LiveOutput::Human)]
    pub output: LiveOutput,
}

/// A number of seconds. Zero means no limit, which is a very long time.
fn idle_timeout(text: &str) -> Result<Duration, String> {
    const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
    match text.parse::<f64>() {
        Ok(0.0) => Ok(NEVER),
        _ => super::seconds(text).map(Duration::from_secs_f64),
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse()
        .map_err(|_| "expected a port number from 0 to 65535".to_owned())
}

fn address(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        text => text
            .parse()
            .map_err(|_| "expected an IP address, for example 127.0.0.1 or ::1".to_owned()),
    }
}

pub fn run(args: &Serve, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    if !args.bind.is_loopback() && args.tls_cert.is_none() && !args.insecure_bind {
        return Err(Failure::new(
            exit::USAGE,
            format!("{} is reachable from other machines, but TLS is not enabled", args.bind),
        )
        .typed("insecure_bind")
        .hint("add `--tls-cert` and `--tls-key`, or add `--insecure-bind` if you trust everyone on this network"));
    }
    let sandbox = sandbox_settings::load(global, &args.adapters)?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => {
            let acceptor = tls::acceptor(cert, key);
            Some(acceptor.map_err(|why| {
                Failure::new(exit::CONFIG, why)
                    .hint("both files must be PEM, and the key must belong to the certificate")
            })?)
        }
        _ => None,
    };
    let home = Home::from_env()?;
    let Some(_lock) = home.try_lock(LOCK_NAME)? else {
        return match args.rotate_token {
            true => rotate_token(args, global, &home, out),
            false => Err(already_serving(args, &home)),
        };
    };
    raise_descriptors();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .enable_all()
        .build()
        .map_err(|e| {
            Failure::new(
                exit::INTERNAL,
                format!("cannot start the async runtime: {e}"),
            )
        })?;
    let mut output = ServeOutput::new(args, global, out).map_err(io_failure)?;
    let served = runtime.block_on(serve(args, &home, sandbox, tls, &mut output));
    // Also stops what still runs.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    output.end(served, started)
}

/// Half of the processors. The agents need the others, and the threads of a mostly idle host wake
/// each other more than they help.
fn workers() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).max(1)
}

/// Asks the running host to replace its token. The host writes the new one to `runtime.json`.
fn rotate_token(args: &Serve, global: &Global, home: &Home, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let client = Client::new(&HostOptions::default())?;
    client.post("/token/rotate", &json!({}))?;
    let output = ServeOutput::new(args, global, out).map_err(io_failure)?;
    output.rotated(home, started).map_err(io_failure)?;
    Ok(exit::CLEAN)
}

fn already_serving(args: &Serve, home: &Home) -> Failure {
    let other = Runtime::read(home).ok().flatten();
    let (other_host, stop) = match other {
        Some(other) => (
            format!(": {} (process {})", other.url, other.pid),
            format!("stop it (`kill {}`)", other.pid),
        ),
        None => (String::new(), "stop it".to_owned()),
    };
    let what = format!(
        "a daemon already uses the state directory `{}`{other_host}",
        home.root().display()
    );
    Failure::new(exit::UNAVAILABLE, what)
        .typed("already_serving")
        .hint(match args.open {
            true => "`agentproto sessions --open` prints a one-time link to that daemon".to_owned(),
            false => format!(
                "use the running daemon, {stop}, or set AGENTPROTO_HOME to another directory"
            ),
        })
}

/// Raises the descriptor limit. Every session and every reader needs some, and the default is too
/// low for that.
fn raise_descriptors() {
    // SAFETY: both calls get a pointer to a local struct.
    unsafe {
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max.min(MAX_DESCRIPTORS).max(limit.rlim_cur);
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// Serves until a signal arrives, and returns its exit code.
async fn serve(
    args: &Serve,
    home: &Home,
    sandbox: SandboxSettings,
    tls: Option<tokio_rustls::TlsAcceptor>,
    output: &mut ServeOutput<'_>,
) -> Result<u8, Failure> {
    // From here on, signals are handled here: none ends the process before the sessions have ended.
    let mut signals = Signals::new();
    let address = SocketAddr::new(args.bind, args.port);
    let listener = listen(address).map_err(|error| cannot_listen(address, &error))?;
    let bound = listener
        .local_addr()
        .map_err(|error| cannot_listen(address, &error))?;
    let mut config = HostConfig::new(home.clone());
    let (bundles, warnings) = bundles::tools(&args.bundle, &args.adapters, &sandbox, false)?;
    for warning in &warnings {
        output.warning(warning).map_err(io_failure)?;
    }
    config.adapters = args.adapters.clone();
    config.sandbox = sandbox;
    config.bundled = !args.no_bundled;
    config.idle_timeout = args.idle_timeout;
    config.allow_invalid = args.allow_invalid;
    config.max_live = usize::try_from(args.max_sessions).unwrap_or(usize::MAX);
    config.max_history = args.history_size << 20;
    let days = u64::from(args.history_days);
    config.max_age = (days > 0).then(|| Duration::from_secs(days * 24 * 60 * 60));
    config.max_ended = usize::try_from(args.history_sessions).unwrap_or(usize::MAX);
    config.starts = HostConfig::starts(args.spawn_rate, args.max_sessions);
    let (registry, warnings) = Registry::open(config)?;
    for warning in &warnings {
        output.warning(warning).map_err(io_failure)?;
    }
    let token = random::token()?;
    let names = HostNames {
        beyond_loopback: !args.bind.is_loopback(),
        allowed_hosts: args.allow_host.clone(),
    };
    let url = url(bound, tls.is_some());
    let mut runtime_info = json!({ "url": url, "pid": std::process::id() });
    // Our own clients would not trust a private certificate otherwise.
    if let Some(cert) = args.tls_cert.as_ref().and_then(|c| c.canonicalize().ok()) {
        runtime_info["cert"] = cert.to_string_lossy().into();
    }
    let runtime_home = home.clone();
    let write_runtime_file = Arc::new(move |token: &str| {
        let mut content = runtime_info.clone();
        content["token"] = token.into();
        runtime_home.write(RUNTIME_FILE, format!("{content:#}\n").as_bytes())
    });
    let save = Arc::clone(&write_runtime_file);
    let state = AppState::new(registry.clone(), token.clone(), names);
    let state = Arc::new(state.with_token_store(move |token| save(token)));
    let link = match args.open {
        true => Some(
            state
                .link_code()
                .map_err(|e| Failure::new(exit::INTERNAL, e.message))?,
        ),
        false => None,
    };
    let unauthenticated = args.max_unauthenticated.unwrap_or(args.max_connections / 4);
    let limits = ServerLimits {
        connections: usize::try_from(args.max_connections).unwrap_or(usize::MAX),
        unauthenticated: usize::try_from(unauthenticated).unwrap_or(usize::MAX),
        ..ServerLimits::default()
    };
    let offer = ToolOptions {
        aliases: args.mcp_aliases,
    };
    let mcp = mcp::service_with(registry.clone(), offer, bundles);
    let mcp_stop = mcp.config.cancellation_token.clone();
    let app = http::router(state, Router::new().fallback_service(mcp));
    let (stop, stopped) = watch::channel(false);
    let serving = tokio::spawn(server::serve(listener, app, tls, limits, stopped));
    let ready = match write_runtime_file(&token) {
        Ok(()) => output
            .listening(&url, home, link.as_deref())
            .map_err(io_failure),
        Err(error) => Err(Failure::from(error)),
    };
    let code = match ready {
        // In machine mode, the reader of the events controls the host: without a reader it stops.
        Ok(()) if output.is_machine() => tokio::select! {
            code = signals.next() => Ok(code),
            Ok(()) = crate::cli::agents::notes::output_closed() => Ok(exit::CLEAN),
        },
        Ok(()) => Ok(signals.next().await),
        Err(failure) => Err(failure),
    };
    // Shut down in order: first remove the file that clients find us by, then end the sessions and
    // their streams, then close the connections. A second signal skips the rest.
    let _ = std::fs::remove_file(home.path(RUNTIME_FILE));
    let shutdown = async {
        registry.shutdown().await;
        mcp_stop.cancel();
        let _ = stop.send(true);
        let _ = serving.await;
    };
    tokio::select! {
        () = shutdown => {}
        code = signals.next() => return Ok(code),
    }
    // Again, because a client may have replaced the token meanwhile, which writes the file.
    let _ = std::fs::remove_file(home.path(RUNTIME_FILE));
    code
}

/// Listens with a long queue: if it is full, a client waits a second for its next attempt.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(LISTEN_QUEUE)
}

fn url(bound: SocketAddr, over_tls: bool) -> String {
    let scheme = if over_tls { "https" } else { "http" };
    // Nothing can connect to the unspecified address, but it includes the loopback address.
    let reachable = match bound.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
    };
    format!("{scheme}://{}", SocketAddr::new(reachable, bound.port()))
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> Failure {
    let failure = Failure::new(
        exit::UNAVAILABLE,
        format!("cannot listen on {address}: {error}"),
    );
    match error.kind() {
        io::ErrorKind::AddrInUse => failure
            .typed("port_taken")
            .hint("another program uses that port; `--port 0` picks a free one"),
        io::ErrorKind::PermissionDenied => failure
            .typed("port_forbidden")
            .hint("use a port of 1024 or above"),
        _ => failure
            .typed("cannot_listen")
            .hint("`--bind` must be an address of this machine"),
    }
}

/// Output of the command, for people or for programs.
enum ServeOutput<'w> {
    Human { out: &'w mut dyn Write, quiet: bool },
    Machine(Emitter<'w>),
}

impl<'w> ServeOutput<'w> {
    fn new(args: &Serve, global: &Global, out: &'w mut dyn Write) -> io::Result<Self> {
        if args.output == LiveOutput::Human {
            return Ok(ServeOutput::Human {
                out,
                quiet: global.quiet,
            });
        }
        let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
        emitter.meta("serve")?;
        Ok(ServeOutput::Machine(emitter))
    }

    fn is_machine(&self) -> bool {
        matches!(self, ServeOutput::Machine(_))
    }

    fn warning(&mut self, text: &str) -> io::Result<()> {
        match self {
            ServeOutput::Human { .. } => {
                writeln!(
                    io::stderr().lock(),
                    "agentproto: warning: {}",
                    escape_line(text)
                )
            }
            ServeOutput::Machine(emitter) => emitter.warning("state_mended", text, None),
        }
    }

    fn listening(&mut self, url: &str, home: &Home, link: Option<&str>) -> io::Result<()> {
        let file = home.path(RUNTIME_FILE);
        match self {
            ServeOutput::Human { out, quiet } => {
                if !*quiet {
                    writeln!(out, "agentproto is serving on {url}")?;
                    writeln!(
                        out,
                        "  the token is in {}",
                        escape_line(&file.to_string_lossy())
                    )?;
                }
                if let Some(code) = link {
                    writeln!(
                        out,
                        "  one-time link, valid for 5 minutes: {url}/#code={code}"
                    )?;
                }
                out.flush()
            }
            ServeOutput::Machine(emitter) => {
                let mut fields = object(json!({
                    "url": url, "pid": std::process::id(), "file": file.to_string_lossy(),
                }));
                if let Some(code) = link {
                    fields.insert("link".to_owned(), format!("{url}/#code={code}").into());
                }
                emitter.event(EventType::Listening, &fields)
            }
        }
    }

    fn rotated(self, home: &Home, started: Instant) -> io::Result<()> {
        let file = home.path(RUNTIME_FILE);
        match self {
            ServeOutput::Human { quiet: true, .. } => Ok(()),
            ServeOutput::Human { out, .. } => {
                let file = file.to_string_lossy();
                writeln!(
                    out,
                    "the token was replaced; the new one is in {}",
                    escape_line(&file)
                )
            }
            ServeOutput::Machine(emitter) => {
                let fields = json!({ "rotated": true, "file": file.to_string_lossy() });
                emitter.summary(true, started.elapsed(), object(fields))
            }
        }
    }

    fn end(self, served: Result<u8, Failure>, started: Instant) -> Outcome {
        let mut emitter = match self {
            ServeOutput::Human { .. } => return served,
            ServeOutput::Machine(emitter) => emitter,
        };
        let code = served?;
        let failure = Failure::new(code, "stopped by a signal; its sessions were killed");
        let failure = failure.typed("interrupted");
        let fields = json!({ "reason": "interrupted", "partial": true });
        let error = failure.event();
        let error = error.as_failure();
        emitter.error(&error).map_err(io_failure)?;
        emitter
            .summary(false, started.elapsed(), object(fields))
            .map_err(io_failure)?;
        Ok(code)
    }
}
