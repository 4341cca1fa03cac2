//! `agentproto mcp`: serves the sessions of this host, or the tools of CLI bundles, to the MCP client
//! that started this process.

use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::agents::client::Runtime;
use crate::cli::agents::{bundles, sandbox_settings};
use crate::cli::args::Global;
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_daemon::mcp::{self, Daemon, McpServer, PrivateState, Relay, ServeEnd, ToolOptions};
use agentproto_daemon::{HostConfig, Registry};
use agentproto_runtime::home::Home;
use agentproto_text::escape_line;

#[derive(Args, Debug)]
#[command(
    after_help = "If a daemon (`agentproto serve`) is running, its sessions are served. They are also available over HTTP, and they continue when the client disconnects. Otherwise this process hosts its own sessions, which end with it. Stdout carries only MCP messages. Exit codes: 0 the client disconnected · 64 usage · 73 the state cannot be written · 130/143 interrupted"
)]
pub struct Mcp {
    /// Host separate sessions, even if a daemon is running
    #[arg(long)]
    pub own: bool,
    /// Look up adapters in DIR first; only without a daemon or with `--own`
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// Also offer the tools (start_agent_session, prompt_agent_session, …) under the newer names
    /// agent_start, agent_prompt, agent_sessions_list, agent_output and agent_kill
    #[arg(long, alias = "mcp-aliases")]
    pub aliases: bool,
    /// Offer the tools of this CLI bundle instead of sessions: an adapter's name, a CLI.md, or a
    /// directory that contains one
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["own", "aliases"])]
    pub bundle: Vec<String>,
    /// Use manifests that have errors
    #[arg(long, requires = "bundle")]
    pub allow_invalid: bool,
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
    let offer = ToolOptions {
        aliases: args.aliases,
    };
    let print = |what: &str| {
        if !global.quiet {
            eprintln!("agentproto: {}", escape_line(what));
        }
    };
    let sandbox = sandbox_settings::load(global, &args.adapters)?;
    let (bundles, warnings) =
        bundles::tools(&args.bundle, &args.adapters, &sandbox, args.allow_invalid)?;
    for warning in &warnings {
        print(warning);
    }
    if let Some(bundles) = bundles {
        return serve_until_end(McpServer::bundles(bundles)).await;
    }
    if !args.own
        && let Some(relay) = daemon(home).await
    {
        print(&format!("serving the sessions of {}", relay.url()));
        if !args.adapters.is_empty() {
            print("`--adapters` has no effect: the daemon uses its own adapters");
        }
        return serve_until_end(McpServer::relay(relay, offer)).await;
    }
    let own = PrivateState::create(home)?;
    let mut config = HostConfig::new(home.clone());
    config.state = own.state.clone();
    config.adapters.clone_from(&args.adapters);
    let (registry, warnings) = Registry::open(config)?;
    for warning in warnings {
        print(&warning);
    }
    print("not using a daemon: this process hosts its own sessions, which end with it");
    let ended = serve_until_end(McpServer::own(registry.clone(), offer)).await;
    tokio::select! {
        () = registry.shutdown() => {}
        // A second signal skips the orderly shutdown.
        _ = stop_signal() => {}
    }
    drop(own);
    ended
}

/// The daemon of this home, if it responds.
async fn daemon(home: &Home) -> Option<Relay> {
    let home = home.clone();
    let found = tokio::task::spawn_blocking(|| {
        Relay::find(move || {
            let runtime = Runtime::read(&home).ok().flatten()?;
            Some(Daemon {
                url: runtime.url.trim_end_matches('/').to_owned(),
                token: runtime.token,
            })
        })
    });
    found.await.ok().flatten()
}

/// Serves until the client disconnects or a signal arrives.
async fn serve_until_end(server: McpServer) -> Outcome {
    tokio::select! {
        end = mcp::stdio(server) => match end.map_err(io_failure)? {
            ServeEnd::Closed => Ok(exit::CLEAN),
            ServeEnd::Failed(why) => Err(Failure::new(exit::INTERNAL, why)),
        },
        code = stop_signal() => Ok(code),
    }
}

async fn stop_signal() -> u8 {
    let received = |kind| async move {
        match signal(kind) {
            Ok(mut signals) => {
                signals.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = received(SignalKind::interrupt()) => exit::INTERRUPTED,
        () = received(SignalKind::terminate()) => exit::TERMINATED,
        () = received(SignalKind::hangup()) => exit::TERMINATED,
    }
}
