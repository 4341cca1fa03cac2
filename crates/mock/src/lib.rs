//! Mock agents: real processes on stdio that follow a scenario.
//!
//! They implement their protocol correctly by default. With a mutant, they are wrong in exactly one
//! way. This crate does not use the runtime, so that tests of the runtime do not depend on the code
//! under test.

mod acp;
mod acp_v2;
pub mod aoi;
mod faults;
pub mod llm;
mod mailbox;
mod mcp;
pub mod model;
pub mod mutants;
mod repl;
mod rpc;
pub mod scenario;
mod store;
mod turn;
pub mod variants;
mod wire;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use agentproto_mock_agents::{Bundle, bundles};
use chrono::{DateTime, SecondsFormat};
use mutants::Mutant;
use rpc::Peer;
use scenario::{Process, Scenario};
use variants::{Hand, Variant};

/// How long a process with `ignore_eof` runs after its stdin has ended, so that it does not run
/// forever if nothing kills it.
const DEAF_FOR: Duration = Duration::from_secs(600);

/// Protocol of a mock agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Kind {
    /// Agent Client Protocol, version 1.
    Acp,
    /// Agent Client Protocol, draft of version 2.
    AcpV2,
    /// Model Context Protocol over stdio.
    Mcp,
    /// Command-line agent that prints its turns as JSON lines.
    Repl,
}

impl Kind {
    /// All kinds.
    pub const ALL: &'static [Kind] = <Kind as strum::VariantArray>::VARIANTS;

    /// Name on the command line, for example `acp-v2`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Configuration of one mock agent process.
pub struct Play {
    /// Protocol of the mock agent.
    pub kind: Kind,
    /// What the agent does in each turn.
    pub scenario: Scenario,
    /// Defect of the agent, if any.
    pub mutant: Option<&'static Mutant>,
    /// Conforming variation of the agent, if any.
    pub variant: Option<&'static Variant>,
    /// Arguments after `--`, which belong to the agent itself.
    pub args: Vec<String>,
    /// Directory for sessions that outlive the process.
    pub state: Option<PathBuf>,
}

/// Runs a mock agent until its stdin ends, and returns the exit code.
pub fn run(play: Play) -> std::io::Result<u8> {
    let process = &play.scenario.process;
    if let Some(code) = start(process) {
        return Ok(code);
    }
    let deaf = process.ignore_eof;
    // The mutant changes a message first, and then the variant does.
    let wrong = play.mutant.map(|mutant| &mutant.made.tamper);
    let other = play
        .variant
        .and_then(|variant| variant.made.tamper.as_ref());
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

/// Applies the settings that take effect before the first message is read. Returns an exit code if
/// the process must exit immediately.
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

/// Formats a time as ISO 8601 with milliseconds, in UTC.
fn iso8601(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or_default();
    let time = DateTime::from_timestamp(seconds, since.subsec_nanos()).unwrap_or_default();
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_calendar_dates() {
        let at = |seconds, millis| {
            let since = Duration::from_secs(seconds) + Duration::from_millis(millis);
            iso8601(UNIX_EPOCH + since)
        };
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_399, 5), "2000-02-28T23:59:59.005Z");
        assert_eq!(at(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_709_251_200, 0), "2024-03-01T00:00:00.000Z");
        assert_eq!(at(1_767_225_599, 0), "2025-12-31T23:59:59.000Z");
    }

    #[test]
    fn every_kind_has_a_name() {
        let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names, ["acp", "acp-v2", "mcp", "repl"]);
    }
}
