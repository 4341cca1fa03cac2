//! The program to start for a target, and how the report names it.

use std::ffi::OsString;

use super::process::{Program, StartError};
use crate::model::{MOCK, Target};
use agentproto_runtime::built_in;

/// The mock agents that can be certified, each with the suite for its protocol.
pub const MOCKS: [(&str, &str); 3] = [("acp", "acp"), ("acp-v2", "acp-v2-draft"), ("mcp", "mcp")];

/// The suite for a command line, which is taken for an ACP agent.
pub const DEFAULT_SUITE: &str = "acp";

/// Name of a mock agent, without the prefix `mock-` of its bundle, and the suite for its protocol.
///
/// # Errors
/// No mock agent has this name.
pub fn mock_named(name: &str) -> Result<(&'static str, &'static str), StartError> {
    let name = name.strip_prefix("mock-").unwrap_or(name);
    let found = MOCKS.into_iter().find(|(known, _)| *known == name);
    found.ok_or_else(|| StartError::NoMock(name.to_owned()))
}

/// A built-in mock agent. Its program is this one.
///
/// # Errors
/// No mock agent has this name, or the path of this program is unknown.
pub fn mock(name: &str, env: &[(String, String)]) -> Result<(Target, Program), StartError> {
    let (name, _) = mock_named(name)?;
    let own = agentproto_sandbox::helper::own_path().map_err(|error| StartError::Failed {
        program: "agentproto".to_owned(),
        reason: error.to_string(),
    })?;
    let mut env = env.to_vec();
    if built_in::is_embedded() {
        env.push((built_in::MARKER.to_owned(), "1".to_owned()));
    }
    let target = Target {
        kind: MOCK.to_owned(),
        name: format!("mock {name}"),
        ..Target::default()
    };
    let argv = vec![own.into(), "mock".into(), name.into()];
    Ok((target, Program::new(argv, &env)?))
}

/// A command line. It runs in the current directory, so that relative arguments work. Sessions
/// still have their own directories.
///
/// # Errors
/// The program was not found.
pub fn command(
    argv: Vec<OsString>,
    env: &[(String, String)],
) -> Result<(Target, Program), StartError> {
    let words = argv.iter().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    let mut program = Program::new(argv, env)?;
    program.cwd = std::env::current_dir().ok();
    let target = Target {
        kind: "command".to_owned(),
        name: words.join(" "),
        command: words,
        ..Target::default()
    };
    Ok((target, program))
}
