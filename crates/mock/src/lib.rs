//! Mock agents: real processes on stdio that follow a scenario.
//!
//! They implement their protocol correctly by default. With a mutant, they are wrong in exactly one
//! way. This crate does not use the runtime, so that tests of the runtime do not depend on the code
//! under test.

#![deny(missing_docs)]

mod acp;
mod acp_v2;
pub mod aoi;
mod faults;
mod layers;
pub mod llm;
mod lookup;
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

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use agentproto_mock_agents::{Bundle, bundles};
use chrono::{DateTime, SecondsFormat};
pub use lookup::{AgentNames, LookupError, or_variable};
use mutants::AgentMutant;
use rpc::RpcPeer;
use scenario::{ProcessBehavior, Scenario};
use variants::{AgentVariant, Serialization};

/// How long a process with `ignore_eof` runs after its stdin has ended, so that it does not run
/// forever if nothing kills it.
const IGNORE_EOF_TIME: Duration = Duration::from_secs(600);

/// Protocol of a mock agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum AgentKind {
    /// Agent Client Protocol, version 1.
    Acp,
    /// Agent Client Protocol, draft of version 2.
    AcpV2,
    /// Model Context Protocol over stdio.
    Mcp,
    /// Command-line agent that prints its turns as JSON lines.
    Repl,
}

impl AgentKind {
    /// All kinds.
    pub const ALL: &'static [AgentKind] = <AgentKind as strum::VariantArray>::VARIANTS;

    /// Name on the command line, for example `acp-v2`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Configuration of one mock agent process.
pub struct AgentConfig {
    /// Protocol of the mock agent.
    pub kind: AgentKind,
    /// What the agent does in each turn.
    pub scenario: Scenario,
    /// Defect of the agent, if any.
    pub mutant: Option<&'static AgentMutant>,
    /// Conforming variation of the agent, if any.
    pub variant: Option<&'static AgentVariant>,
    /// Arguments after `--`, which belong to the agent itself.
    pub args: Vec<String>,
    /// Directory for sessions that outlive the process.
    pub state: Option<PathBuf>,
}

/// Runs a mock agent until its stdin ends, and returns the exit code.
pub fn run(config: AgentConfig) -> std::io::Result<u8> {
    let process = &config.scenario.process;
    if let Some(code) = start(process) {
        return Ok(code);
    }
    let ignores_eof = process.ignore_eof;
    // The mutant changes a message first, and then the variant does.
    let mutant_layer = config.mutant.map(|mutant| &mutant.data.tamper);
    let variant_layer = config
        .variant
        .and_then(|variant| variant.data.tamper.as_ref());
    let layers: Vec<_> = mutant_layer.into_iter().chain(variant_layer).collect();
    let serialization = config
        .variant
        .map_or(Serialization::PLAIN, |variant| variant.serialization);
    let peer = RpcPeer::new(&layers, serialization)?;
    if let Some(banner) = &process.banner {
        peer.raw(|out| writeln!(out, "{banner}"));
    }
    let code = match config.kind {
        AgentKind::Acp => acp::run(config, peer).map(|()| 0)?,
        AgentKind::AcpV2 => acp_v2::run(config, peer).map(|()| 0)?,
        AgentKind::Mcp => mcp::run(config, peer).map(|()| 0)?,
        AgentKind::Repl => repl::run(config, peer)?,
    };
    if ignores_eof {
        std::thread::sleep(IGNORE_EOF_TIME);
    }
    Ok(code)
}

/// Applies the settings that take effect before the first message is read. Returns an exit code if
/// the process must exit immediately.
fn start(process: &ProcessBehavior) -> Option<u8> {
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
        let names: Vec<&str> = AgentKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names, ["acp", "acp-v2", "mcp", "repl"]);
    }
}
