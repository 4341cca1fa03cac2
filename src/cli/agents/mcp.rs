//! `agentproto mcp`: the sessions of this host for an MCP client that started this process.

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
    after_help = "With a daemon (`agentproto serve`) running, its sessions are served: they are the same over HTTP, and live on when the client goes. Without one, this process has sessions of its own, which end with it. Standard output carries MCP and nothing else. Exit codes: 0 the client went · 64 usage · 73 the state cannot be written · 130/143 interrupted"
)]
pub struct Mcp {
    /// Have sessions of its own, even if a daemon runs
    #[arg(long)]
    pub own: bool,
    /// Look up adapters here first; only with sessions of its own
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// Offer the tools under their later names, too: agent_start, agent_prompt,
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
    // The client's pipe may still be waited for; nobody needs that any more.
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
            say("`--adapters` is for sessions of our own; the daemon has its own adapters");
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
    say("no daemon is used: sessions are our own, and end with this process");
    let ended = until_over(Server::own(registry.clone(), offer)).await;
    tokio::select! {
        () = registry.shutdown() => {}
        // Who asks twice does not want to wait.
        _ = told_to_stop() => {}
    }
    drop(own);
    ended
}

/// The daemon of this home, where one answers.
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

/// Until the client or whoever sends signals has had enough.
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
