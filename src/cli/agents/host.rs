//! A session host as the target of `certify`: the host at `--url`, or our own daemon.

use std::path::Path;

use crate::cli::Failure;
use crate::cli::agents::certify::Certify;
use crate::cli::agents::client::Runtime;
use crate::cli::agents::file_errors::unreadable;
use crate::exit;
use agentproto_harness::sessions::{HostAddress, HostTarget, McpDoor};
use agentproto_harness::suite::{Suite, SuiteProtocol};
use agentproto_runtime::home::Home;

/// Maximum length of a token, in bytes.
const MAX_TOKEN_BYTES: usize = 64 << 10;

/// The host, if the suites are for session hosts. All suites must be for the same kind of target.
pub fn host_target(
    args: &Certify,
    suites: &[Suite],
) -> Result<Option<(String, HostTarget)>, Failure> {
    let of_hosts = |suite: &&Suite| suite.protocol == SuiteProtocol::Sessions;
    let session_suites = suites.iter().filter(of_hosts).count();
    let is_named = args.target.is_some() || args.mock.is_some() || !args.command.is_empty();
    if session_suites == 0 && args.url.is_none() {
        let host_only = [
            ("--token-file", args.token_file.is_some()),
            ("--adapter", args.adapter.is_some()),
            ("--cwd", args.cwd.is_some()),
            ("--mcp-command", args.mcp_command.is_some()),
        ];
        return match host_only.into_iter().find(|(_, is_set)| *is_set) {
            Some((option, _)) => Err(Failure::new(
                exit::USAGE,
                format!("{option} applies only to session hosts"),
            )
            .hint("add --suite sessions --url URL")),
            None => Ok(None),
        };
    }
    if session_suites < suites.len() || is_named {
        let what = "a session host takes session suites only, and no other target";
        return Err(Failure::new(exit::USAGE, what).hint("use --suite sessions --url URL"));
    }
    target(args).map(Some)
}

fn target(args: &Certify) -> Result<(String, HostTarget), Failure> {
    let (url, token) = match &args.url {
        Some(url) => (url.clone(), None),
        None => running_daemon()?,
    };
    let token = match &args.token_file {
        Some(path) => Some(read_token(path)?),
        None => token,
    };
    let address = HostAddress::parse(&url).map_err(|why| {
        Failure::new(exit::USAGE, why)
            .hint("use for example --url http://127.0.0.1:4646, without /sessions")
    })?;
    let mut host = HostTarget::new(address, token);
    host.prefix = path(&args.prefix, "--prefix")?;
    host.mcp = path(&args.mcp, "--mcp")?;
    host.door = args.mcp_command.as_deref().map(door).transpose()?;
    host.adapter = args.adapter.clone();
    host.cwd = args.cwd.clone();
    if let Some(cwd) = host.cwd.as_ref().filter(|cwd| !cwd.is_absolute()) {
        let what = format!(
            "--cwd must be an absolute path on the host, found {}",
            cwd.display()
        );
        return Err(Failure::new(exit::USAGE, what));
    }
    Ok((url, host))
}

/// The MCP server over stdio that a command starts.
fn door(command: &str) -> Result<McpDoor, Failure> {
    McpDoor::command(command).map_err(|why| {
        Failure::new(exit::USAGE, format!("--mcp-command: {why}"))
            .hint("use a command line such as \"agentproto mcp\"")
    })
}

/// The daemon of this user, if it is running.
fn running_daemon() -> Result<(String, Option<String>), Failure> {
    let home = Home::from_env()?;
    match Runtime::read(&home)? {
        Some(runtime) => Ok((runtime.url, Some(runtime.token))),
        None => Err(Failure::new(
            exit::UNAVAILABLE,
            "no host was given, and no daemon is running here",
        )
        .hint("add --url and --token-file, or start a daemon with `agentproto serve`")),
    }
}

fn path(text: &str, option: &str) -> Result<String, Failure> {
    let bare = text.trim_end_matches('/');
    let is_path = bare.starts_with('/') && bare.bytes().all(|b| b.is_ascii_graphic());
    match is_path && !bare.contains(['?', '#']) {
        true => Ok(bare.to_owned()),
        false => Err(Failure::new(
            exit::USAGE,
            format!("{option} must be a path such as /sessions, found `{text}`"),
        )),
    }
}

/// Reads the token itself, or a JSON object that holds it, as our daemon writes one.
fn read_token(path: &Path) -> Result<String, Failure> {
    let name = path.to_string_lossy();
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let json: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    let token = json.as_ref().and_then(|json| json.get("token")?.as_str());
    let token = token.unwrap_or(&text).trim();
    let is_token = !token.is_empty()
        && token.len() <= MAX_TOKEN_BYTES
        && token.bytes().all(|b| b.is_ascii_graphic());
    match is_token {
        true => Ok(token.to_owned()),
        false => {
            // The error does not quote the file, because it may contain a secret.
            let what = format!("{name} does not contain a token");
            Err(Failure::new(exit::DATA, what)
                .hint("the file must be one line with the token, or the runtime.json of a daemon"))
        }
    }
}
