//! `agentproto mcp`: serves the sessions of this host to the MCP client that started this process.

use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::agents::client::Runtime;
use crate::cli::args::Global;
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_daemon::mcp::{self, Daemon, End, Offer, Own, Relay, Server};
use agentproto_daemon::{Config, Registry};
use agentproto_runtime::home::Home;
use agentproto_text::plain;

#[derive(Args, Debug)]
#[command(
    after_help = "If a daemon (`agentproto serve`) is running, its sessions are served. They are also available over HTTP, and they continue when the client disconnects. Otherwise this process hosts its own sessions, which end with it. Stdout carries only MCP messages. Exit codes: 0 the client disconnected · 64 usage · 73 the state cannot be written · 130/143 interrupted"
)]
pub struct Mcp {
    /// Host its own sessions, even if a daemon is running
    #[arg(long)]
    pub own: bool,
    /// Look up adapters in DIR first; only for its own sessions
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// Also offer the tools under their later names: agent_start, agent_prompt,
    /// agent_sessions_list, agent_output, agent_kill
    #[arg(long, alias = "mcp-aliases")]
    pub aliases: bool,
}

pub fn run(args: &Mcp, global: &Global) -> Outcome {
    let home = Home::from_env()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(io_failure)?;
    let ended = runtime.block_on(serve(args, global, &home));
    // A read of the client's pipe may still be pending, but its result is not needed.
    runtime.shutdown_background();
    ended
}

async fn serve(args: &Mcp, global: &Global, home: &Home) -> Outcome {
    let offer = Offer {
        aliases: args.aliases,
    };
    let say = |what: &str| {
        if !global.quiet {
            eprintln!("agentproto: {}", plain(what));
        }
    };
    if !args.own
        && let Some(relay) = daemon(home).await
    {
        say(&format!("serving the sessions of {}", relay.url()));
        if !args.adapters.is_empty() {
            say("`--adapters` has no effect: the daemon uses its own adapters");
        }
        return until_over(Server::relay(relay, offer)).await;
    }
    let own = Own::make(home)?;
    let mut config = Config::new(home.clone());
    config.state = own.state.clone();
    config.adapters.clone_from(&args.adapters);
    let (registry, warnings) = Registry::open(config)?;
    for warning in warnings {
        say(&warning);
    }
    say("not using a daemon: this process hosts its own sessions, which end with it");
    let ended = until_over(Server::own(registry.clone(), offer)).await;
    tokio::select! {
        () = registry.shutdown() => {}
        // A second signal skips the orderly shutdown.
        _ = told_to_stop() => {}
    }
    drop(own);
    ended
}

/// The daemon of this home, if it responds.
async fn daemon(home: &Home) -> Option<Relay> {
    let home = home.clone();
    let found = tokio::task::spawn_blocking(|| {
        Relay::find(move || {
            let told = Runtime::read(&home).ok().flatten()?;
            Some(Daemon {
                url: told.url.trim_end_matches('/').to_owned(),
                token: told.token,
            })
        })
    });
    found.await.ok().flatten()
}

/// Serves until the client disconnects or a signal arrives.
async fn until_over(server: Server) -> Outcome {
    tokio::select! {
        end = mcp::stdio(server) => match end.map_err(io_failure)? {
            End::Closed => Ok(exit::CLEAN),
            End::Fault(why) => Err(Failure::new(exit::INTERNAL, why)),
        },
        code = told_to_stop() => Ok(code),
    }
}

async fn told_to_stop() -> u8 {
    let by = |kind| async move {
        match signal(kind) {
            Ok(mut signals) => {
                signals.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = by(SignalKind::interrupt()) => exit::INTERRUPTED,
        () = by(SignalKind::terminate()) => exit::TERMINATED,
        () = by(SignalKind::hangup()) => exit::TERMINATED,
    }
}
