//! What a program that embeds the library does first.

use std::ffi::OsString;
use std::path::PathBuf;

use agentproto_mock::{AgentConfig, AgentKind, AgentNames};
use agentproto_runtime::built_in;

/// Call this first in `main`, before any thread starts.
///
/// The sandbox starts this same program again as its helper process, and the built-in mock agents
/// (`mock-acp`, …) run in it as well. In those cases this function does that work and does not
/// return. Without this call, agents cannot be started.
pub fn init() {
    agentproto_sandbox::helper::run_if_helper();
    if std::env::var_os(built_in::MARKER).is_none() {
        built_in::set_embedded();
        return;
    }
    let code = match run(std::env::args_os().skip(1)) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("agentproto: {message}");
            64
        }
    };
    std::process::exit(code.into());
}

/// Handles the two command lines that the manifests of built-in agents contain:
/// `--version` and `mock KIND [--state DIR] [-- ARG…]`.
fn run(args: impl Iterator<Item = OsString>) -> Result<u8, String> {
    let args: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    let (own, rest) = match args.iter().position(|arg| arg == "--") {
        Some(at) => (&args[..at], args[at + 1..].to_vec()),
        None => (&args[..], Vec::new()),
    };
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let (kind, state) = match own.as_slice() {
        ["--version"] => {
            println!("agentproto {}", env!("CARGO_PKG_VERSION"));
            return Ok(0);
        }
        ["mock", kind] => (*kind, None),
        ["mock", kind, "--state", dir] => (*kind, Some(PathBuf::from(dir))),
        _ => return Err(format!("unknown command line of a mock agent: {own:?}")),
    };
    let kind = AgentKind::ALL.iter().copied().find(|k| k.as_str() == kind);
    let kind = kind.ok_or_else(|| format!("unknown mock agent: {own:?}"))?;
    let names = AgentNames::default().or_variables();
    let config = AgentConfig::find(kind, &names, rest, state).map_err(|error| error.to_string())?;
    agentproto_mock::run(config).map_err(|error| error.to_string())
}
