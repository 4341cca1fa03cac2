//! A host of sessions as the target of `certify`: the one that `--url` names, or our own.

use std::path::Path;

use crate::cli::Failure;
use crate::cli::agents::certify::Certify;
use crate::cli::agents::client::Runtime;
use crate::exit;
use agentproto_harness::sessions::{Address, HostTarget};
use agentproto_harness::suite::{Protocol, Suite};
use agentproto_runtime::home::Home;

/// A token file holds a line.
const LONGEST_TOKEN: usize = 64 << 10;

/// The host, where the suites are about one. They are about one kind of target.
pub fn named(args: &Certify, suites: &[Suite]) -> Result<Option<(String, HostTarget)>, Failure> {
    let of_hosts = |suite: &&Suite| suite.protocol == Protocol::Sessions;
    let about = suites.iter().filter(of_hosts).count();
    let is_named = args.target.is_some() || args.mock.is_some() || !args.command.is_empty();
    if about == 0 && args.url.is_none() {
        let stray = [
            ("--token-file", args.token_file.is_some()),
            ("--adapter", args.adapter.is_some()),
            ("--cwd", args.cwd.is_some()),
        ];
        return match stray.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Failure::new(
                exit::USAGE,
                format!("{option} is about a host of sessions"),
            )
            .hint("--suite sessions --url URL")),
            None => Ok(None),
        };
    }
    if about < suites.len() || is_named {
        let what = "a host of sessions is certified by suites of sessions, and by nothing else";
        return Err(Failure::new(exit::USAGE, what).hint("--suite sessions --url URL"));
    }
    target(args).map(Some)
}

fn target(args: &Certify) -> Result<(String, HostTarget), Failure> {
    let (url, token) = match &args.url {
        Some(url) => (url.clone(), None),
        None => running()?,
    };
    let token = match &args.token_file {
        Some(path) => Some(read_token(path)?),
        None => token,
    };
    let address = Address::parse(&url).map_err(|why| {
        Failure::new(exit::USAGE, why).hint("--url http://127.0.0.1:4646, without /sessions")
    })?;
    let mut host = HostTarget::new(address, token);
    host.prefix = path(&args.prefix, "--prefix")?;
    host.mcp = path(&args.mcp, "--mcp")?;
    host.adapter = args.adapter.clone();
    host.cwd = args.cwd.clone();
    if let Some(cwd) = host.cwd.as_ref().filter(|cwd| !cwd.is_absolute()) {
        let what = format!(
            "--cwd is a directory of the host: {} is not absolute",
            cwd.display()
        );
        return Err(Failure::new(exit::USAGE, what));
    }
    Ok((url, host))
}

/// The daemon of this user, where it runs.
fn running() -> Result<(String, Option<String>), Failure> {
    let home = Home::from_env()?;
    match Runtime::read(&home)? {
        Some(runtime) => Ok((runtime.url, Some(runtime.token))),
        None => Err(Failure::new(
            exit::UNAVAILABLE,
            "no host is named, and no daemon runs here",
        )
        .hint("name one with --url and --token-file, or start ours with `agentproto serve`")),
    }
}

fn path(text: &str, option: &str) -> Result<String, Failure> {
    let bare = text.trim_end_matches('/');
    let is_path = bare.starts_with('/') && bare.bytes().all(|b| b.is_ascii_graphic());
    match is_path && !bare.contains(['?', '#']) {
        true => Ok(bare.to_owned()),
        false => Err(Failure::new(
            exit::USAGE,
            format!("{option} is a path such as /sessions, not `{text}`"),
        )),
    }
}

/// The token itself, or a JSON object that holds it, as our daemon writes one.
fn read_token(path: &Path) -> Result<String, Failure> {
    let name = path.to_string_lossy();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(exit::NO_INPUT, format!("{name} cannot be read: {error}")))?;
    let json: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    let token = json.as_ref().and_then(|json| json.get("token")?.as_str());
    let token = token.unwrap_or(&text).trim();
    let is_token = !token.is_empty()
        && token.len() <= LONGEST_TOKEN
        && token.bytes().all(|b| b.is_ascii_graphic());
    match is_token {
        true => Ok(token.to_owned()),
        false => {
            // What is in it is nobody's business.
            let what = format!("no token stands in {name}");
            Err(Failure::new(exit::DATA, what)
                .hint("one line with the token, or the runtime.json of a daemon"))
        }
    }
}
