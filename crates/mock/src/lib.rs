//! Mock agents: real processes on stdio that do what a scenario says.
//!
//! They are correct servers of their protocol unless told otherwise, and wrong in exactly one
//! way when a mutant is on. This room knows nothing of the runtime: what it proves must not
//! prove itself.

mod acp;
mod acp_v2;
pub mod aoi;
mod faults;
pub mod llm;
mod mailbox;
mod mcp;
pub mod mutants;
mod repl;
mod rpc;
pub mod scenario;
mod store;
mod turn;
pub mod variants;
mod wire;

use std::path::PathBuf;
use std::time::Duration;

pub use agentproto_mock_agents::{Bundle, bundles};
use mutants::Mutant;
use rpc::Peer;
use scenario::{Process, Scenario};
use variants::{Hand, Variant};

/// A deaf process must not stay for ever where nobody kills it.
const DEAF_FOR: Duration = Duration::from_secs(600);

/// Which protocol a mock speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Acp,
    /// The draft of version 2.
    AcpV2,
    Mcp,
    Repl,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Acp, Kind::AcpV2, Kind::Mcp, Kind::Repl];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Acp => "acp",
            Kind::AcpV2 => "acp-v2",
            Kind::Mcp => "mcp",
            Kind::Repl => "repl",
        }
    }

    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Everything that decides what a mock does.
pub struct Play {
    pub kind: Kind,
    pub scenario: Scenario,
    pub mutant: Option<&'static Mutant>,
    pub variant: Option<&'static Variant>,
    /// Arguments of the agent itself.
    pub args: Vec<String>,
    /// Where sessions outlive the process.
    pub state: Option<PathBuf>,
}

/// Runs a mock until its stdin ends; the exit code.
pub fn run(play: Play) -> std::io::Result<u8> {
    let process = &play.scenario.process;
    if let Some(code) = start(process) {
        return Ok(code);
    }
    let deaf = process.ignore_eof;
    // What is wrong is said in the variant's way.
    let wrong = play.mutant.map(|mutant| &mutant.tamper);
    let other = play.variant.and_then(|variant| variant.tamper.as_ref());
    let layers: Vec<_> = wrong.into_iter().chain(other).collect();
    let hand = play.variant.map_or(Hand::PLAIN, |variant| variant.hand);
    let peer = Peer::new(&layers, hand)?;
    if let Some(banner) = &process.banner {
        peer.raw(|out| writeln!(out, "{banner}"));
    }
    let code = match play.kind {
        Kind::Acp => acp::run(play, peer).map(|()| 0)?,
        Kind::AcpV2 => acp_v2::run(play, peer).map(|()| 0)?,
        Kind::Mcp => mcp::run(play, peer).map(|()| 0)?,
        Kind::Repl => repl::run(play, peer)?,
    };
    if deaf {
        std::thread::sleep(DEAF_FOR);
    }
    Ok(code)
}

/// What happens before the first message is read; an exit code if that is all.
fn start(process: &Process) -> Option<u8> {
    if process.ignore_sigterm {
        faults::ignore_sigterm();
    }
    if let Some(text) = &process.stderr {
        eprintln!("{text}");
    }
    std::thread::sleep(Duration::from_millis(process.start_delay_ms));
    process.exit_at_start
}
