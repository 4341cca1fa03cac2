//! What a program that embeds the library does first.

use std::ffi::OsString;
use std::path::PathBuf;

use agentproto_mock::{AgentConfig, AgentKind, mutants, scenario, variants};
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
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let variant = find(named("MOCK_VARIANT"), |name| {
        variants::of(kind).find(|variant| variant.name == name)
    })?;
    let mutant = find(named("MOCK_MUTANT"), |id| {
        mutants::of(kind).find(|mutant| mutant.id == id)
    })?;
    let embedded = match named("MOCK_SCENARIO") {
        None => variant.map(|variant| variant.scenario.to_owned()),
        named => named,
    };
    let embedded = find(embedded.filter(|name| name != "default"), |name| {
        scenario::embedded().iter().find(|known| known.name == name)
    })?;
    let text = embedded.map_or(scenario::default_of(kind).text, |embedded| embedded.text);
    let scenario = scenario::parse(text).map_err(|errors| format!("{errors:?}"))?;
    let config = AgentConfig {
        kind,
        scenario,
        mutant,
        variant,
        args: rest,
        state,
    };
    agentproto_mock::run(config).map_err(|error| error.to_string())
}

/// Looks a name up, if there is one.
fn find<T>(
    name: Option<String>,
    lookup: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    match name {
        Some(name) => match lookup(&name) {
            Some(found) => Ok(Some(found)),
            None => Err(format!("unknown name `{name}`")),
        },
        None => Ok(None),
    }
}
