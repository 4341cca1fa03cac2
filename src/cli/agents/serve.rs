//! `agentproto serve`: the daemon, until it is told to stop.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use clap::Args;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::cli::agents::notes::Signals;
use crate::cli::args::{Global, LiveOutput};
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_daemon::http::server::{self, Limits};
use agentproto_daemon::http::{self, Door, Names, tls};
use agentproto_daemon::mcp::{self, Offer};
use agentproto_daemon::{Config, Registry};
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::Event;
use agentproto_runtime::home::{Home, Lock};
use agentproto_runtime::secrets::random;
use agentproto_text::plain;

/// Where clients find the host: `{"url","pid","token"}`.
pub const RUNTIME: &str = "runtime.json";
/// Held as long as the host lives: two on one state would bury each other's sessions.
const LOCK: &str = "serve";
/// Descriptors for connections and agents.
const DESCRIPTORS: u64 = 65_536;
/// For what still runs when everything is said.
const LEAVING: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub struct Serve {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = address)]
    pub bind: IpAddr,
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = 4646)]
    pub port: u16,
    /// Look for adapters here, before those of $AGENTPROTO_HOME
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// Do not offer the mock agents of this binary
    #[arg(long)]
    pub no_bundled: bool,
    /// Living sessions at a time
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_sessions: u32,
    /// Sessions started a second, in the long run; up to --max-sessions at once
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub spawn_rate: u32,
    /// Open connections at a time
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,
    /// Print a link that opens the dashboard once, without pasting the token
    #[arg(long)]
    pub open: bool,
    /// Answer to this name, too
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Certificate chain (PEM): serve HTTPS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Listen beyond this machine without TLS: the token and all output travel readable
    #[arg(long)]
    pub insecure_bind: bool,
    /// Offer the MCP tools under their later names, too: agent_start, agent_prompt,
    /// agent_sessions_list, agent_output, agent_kill
    #[arg(long)]
    pub mcp_aliases: bool,
    /// Output format: sentences, or events until it is stopped
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = LiveOutput::Human)]
    pub output: LiveOutput,
}

fn address(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        text => text
            .parse()
            .map_err(|_| "an IP address is wanted, for example 127.0.0.1 or ::1".to_owned()),
    }
}

pub fn run(args: &Serve, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    if !args.bind.is_loopback() && args.tls_cert.is_none() && !args.insecure_bind {
        return Err(Failure::new(
            exit::USAGE,
            format!("{} is reachable from other machines, and there is no TLS", args.bind),
        )
        .typed("insecure_bind")
        .hint("give `--tls-cert` and `--tls-key`, or say `--insecure-bind` if the network is yours alone"));
    }
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => {
            let acceptor = tls::acceptor(cert, key);
            Some(acceptor.map_err(|why| {
                Failure::new(exit::CONFIG, why).hint("both files are PEM, and belong together")
            })?)
        }
        _ => None,
    };
    let home = Home::from_env()?;
    let _lock = alone(&home)?;
    raise_descriptors();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .enable_all()
        .build()
        .map_err(|e| Failure::new(exit::INTERNAL, format!("no runtime: {e}")))?;
    let mut face = Face::new(args, global, out).map_err(io_failure)?;
    let served = runtime.block_on(serve(args, &home, tls, &mut face));
    // Whatever still runs goes with it.
    runtime.shutdown_timeout(LEAVING);
    face.end(served, started)
}

/// Half of the processors: the agents need theirs, and two threads of a host that has little to
/// do wake each other more than they help.
fn workers() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).max(1)
}

fn alone(home: &Home) -> Result<Lock, Failure> {
    if let Some(lock) = home.try_lock(LOCK)? {
        return Ok(lock);
    }
    let other = crate::cli::agents::client::Runtime::read(home)
        .ok()
        .flatten();
    let whose = match other {
        Some(other) => format!(": {} (process {})", other.url, other.pid),
        None => String::new(),
    };
    let what = format!("a host serves `{}` already{whose}", home.root().display());
    Err(Failure::new(exit::UNAVAILABLE, what)
        .typed("already_serving")
        .hint("use that one, stop it, or set AGENTPROTO_HOME to another directory"))
}

/// Every session and every reader takes some; the usual limit is for programs without them.
fn raise_descriptors() {
    // SAFETY: both calls get a struct of ours.
    unsafe {
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max.min(DESCRIPTORS).max(limit.rlim_cur);
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// The exit code of the signal that ended it.
async fn serve(
    args: &Serve,
    home: &Home,
    tls: Option<tokio_rustls::TlsAcceptor>,
    face: &mut Face<'_>,
) -> Result<u8, Failure> {
    // From here on signals are ours: none ends the process before the sessions have ended.
    let mut signals = Signals::new();
    let wanted = SocketAddr::new(args.bind, args.port);
    let listener = TcpListener::bind(wanted).await;
    let listener = listener.map_err(|error| cannot_listen(wanted, &error))?;
    let bound = listener
        .local_addr()
        .map_err(|error| cannot_listen(wanted, &error))?;
    let mut config = Config::new(home.clone());
    config.adapters = args.adapters.clone();
    config.bundled = !args.no_bundled;
    config.most_alive = usize::try_from(args.max_sessions).unwrap_or(usize::MAX);
    config.starts = Config::starts(args.spawn_rate, args.max_sessions);
    let (registry, warnings) = Registry::open(config)?;
    for warning in &warnings {
        face.warning(warning).map_err(io_failure)?;
    }
    let token = random::token()?;
    let names = Names {
        beyond_loopback: !args.bind.is_loopback(),
        also: args.allow_host.clone(),
    };
    let door = Arc::new(Door::new(registry.clone(), token.clone(), names));
    let link = match args.open {
        true => Some(
            door.link_code()
                .map_err(|e| Failure::new(exit::INTERNAL, e.message))?,
        ),
        false => None,
    };
    let limits = Limits {
        connections: usize::try_from(args.max_connections).unwrap_or(usize::MAX),
        ..Limits::default()
    };
    let url = url(bound, tls.is_some());
    let offer = Offer {
        aliases: args.mcp_aliases,
    };
    let mcp = mcp::service(registry.clone(), offer);
    let mcp_stop = mcp.config.cancellation_token.clone();
    let app = http::router(door, Router::new().fallback_service(mcp));
    let (stop, stopped) = watch::channel(false);
    let serving = tokio::spawn(server::serve(listener, app, tls, limits, stopped));
    let mut told = json!({ "url": url, "pid": std::process::id(), "token": token });
    // A certificate of one's own is known to nobody else.
    if let Some(cert) = args.tls_cert.as_ref().and_then(|c| c.canonicalize().ok()) {
        told["cert"] = cert.to_string_lossy().into();
    }
    let written = home.write(RUNTIME, format!("{told:#}\n").as_bytes());
    let ready = match written {
        Ok(()) => face
            .listening(&url, home, link.as_deref())
            .map_err(io_failure),
        Err(fault) => Err(Failure::from(fault)),
    };
    let code = match ready {
        // Whoever reads the events starts and ends it; without a reader it ends, too.
        Ok(()) if face.is_machine() => tokio::select! {
            code = signals.next() => Ok(code),
            Ok(()) = crate::cli::agents::notes::output_closed() => Ok(exit::CLEAN),
        },
        Ok(()) => Ok(signals.next().await),
        Err(failure) => Err(failure),
    };
    // Found by nobody any more; then the sessions, whose streams come to their end; then the
    // connections. Whoever cannot wait says so again.
    let _ = std::fs::remove_file(home.path(RUNTIME));
    let leaving = async {
        registry.shutdown().await;
        mcp_stop.cancel();
        let _ = stop.send(true);
        let _ = serving.await;
    };
    tokio::select! {
        () = leaving => {}
        again = signals.next() => return Ok(again),
    }
    code
}

fn url(bound: SocketAddr, over_tls: bool) -> String {
    let scheme = if over_tls { "https" } else { "http" };
    // No address to connect to: that of this machine is one of them.
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
            .hint("another program has that port; `--port 0` takes a free one"),
        io::ErrorKind::PermissionDenied => failure
            .typed("port_forbidden")
            .hint("take a port from 1024 on"),
        _ => failure
            .typed("cannot_listen")
            .hint("`--bind` takes an address of this machine"),
    }
}

/// How it talks to whoever started it.
enum Face<'w> {
    Human { out: &'w mut dyn Write, quiet: bool },
    Machine(Emitter<'w>),
}

impl<'w> Face<'w> {
    fn new(args: &Serve, global: &Global, out: &'w mut dyn Write) -> io::Result<Self> {
        if args.output == LiveOutput::Human {
            return Ok(Face::Human {
                out,
                quiet: global.quiet,
            });
        }
        let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
        emitter.meta("serve")?;
        Ok(Face::Machine(emitter))
    }

    fn is_machine(&self) -> bool {
        matches!(self, Face::Machine(_))
    }

    fn warning(&mut self, text: &str) -> io::Result<()> {
        match self {
            Face::Human { .. } => {
                writeln!(io::stderr().lock(), "agentproto: warning: {}", plain(text))
            }
            Face::Machine(emitter) => emitter.warning("state_mended", text, None),
        }
    }

    fn listening(&mut self, url: &str, home: &Home, link: Option<&str>) -> io::Result<()> {
        let file = home.path(RUNTIME);
        match self {
            Face::Human { out, quiet } => {
                if !*quiet {
                    writeln!(out, "agentproto serves on {url}")?;
                    writeln!(out, "  token: in {}", plain(&file.to_string_lossy()))?;
                }
                if let Some(code) = link {
                    writeln!(out, "  open once, within 5 minutes: {url}/#code={code}")?;
                }
                out.flush()
            }
            Face::Machine(emitter) => {
                let mut fields = object(json!({
                    "url": url, "pid": std::process::id(), "file": file.to_string_lossy(),
                }));
                if let Some(code) = link {
                    fields.insert("link".to_owned(), format!("{url}/#code={code}").into());
                }
                emitter.event(Event::Listening, &fields)
            }
        }
    }

    fn end(self, served: Result<u8, Failure>, started: Instant) -> Outcome {
        let mut emitter = match self {
            Face::Human { .. } => return served,
            Face::Machine(emitter) => emitter,
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
