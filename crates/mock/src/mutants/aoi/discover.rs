//! Check 1: schema and capabilities without login and network.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::tools::*;

pub(super) const SCHEMA: &[&str] = &["schema", "--output", "json"];
pub(super) const CAPABILITIES: &[&str] = &["capabilities", "--output", "json"];

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-01-schema-needs-variable", "AOI-01.schema-credentials")
            .describe("The schema requires a token in the environment.")
            .violates(&["AOI-3-01", "AOI-3.2-01", "AOI-3.2-04"])
            .run(SCHEMA)
            .start(|info| reject_if_missing(&LOGIN, info, "schema", is_set("MOCK_AOI_TOKEN"))),
        mutant(
            "aoi-01-schema-needs-variable-silently",
            "AOI-01.schema-credentials",
        )
        .describe(
            "Without a token in the environment, the schema command fails without an explanation.",
        )
        .violates(&["AOI-3-01", "AOI-3.2-01", "AOI-3.2-04"])
        .run(SCHEMA)
        .start(|info| reject_if_missing(&NOTHING, info, "schema", is_set("MOCK_AOI_TOKEN"))),
        mutant("aoi-01-schema-needs-home", "AOI-01.schema-credentials")
            .describe("The schema requires a token in the home directory.")
            .violates(&["AOI-3-01", "AOI-3.2-01", "AOI-3.2-04"])
            .run(SCHEMA)
            .start(|info| {
                let home = std::env::var_os("HOME").map(PathBuf::from);
                reject_if_missing(&LOGIN, info, "schema", home.is_some_and(has_token))
            }),
        mutant("aoi-01-schema-needs-account", "AOI-01.schema-credentials")
            .describe("The schema requires a token in the home directory from the user database.")
            .violates(&["AOI-3-01", "AOI-3.2-01", "AOI-3.2-04"])
            .run(SCHEMA)
            .start(|info| {
                reject_if_missing(
                    &LOGIN,
                    info,
                    "schema",
                    account_home().is_some_and(has_token),
                )
            }),
        mutant(
            "aoi-01-capabilities-need-variable",
            "AOI-01.capabilities-credentials",
        )
        .describe("The capabilities require a token in the environment.")
        .run(CAPABILITIES)
        .start(|info| reject_if_missing(&LOGIN, info, "capabilities", is_set("MOCK_AOI_TOKEN"))),
        mutant("aoi-01-schema-needs-tcp", "AOI-01.schema-network")
            .describe("The schema is fetched over the network first.")
            .violates(&["AOI-3-01", "AOI-3.2-03"])
            .run(SCHEMA)
            .start(|info| match info.command.as_str() {
                "schema" => reject_if_missing(&NETWORK, info, "schema", has_route()),
                _ => None,
            })
            .at(RunCondition::NoNetwork),
        mutant("aoi-01-schema-needs-udp", "AOI-01.schema-network")
            .describe("The schema is printed only if names can be resolved.")
            .violates(&["AOI-3-01", "AOI-3.2-03"])
            .run(SCHEMA)
            .start(|info| match info.command.as_str() {
                "schema" => reject_if_missing(&NETWORK, info, "schema", has_datagrams()),
                _ => None,
            })
            .at(RunCondition::NoNetwork),
        mutant(
            "aoi-01-capabilities-need-network",
            "AOI-01.capabilities-network",
        )
        .describe("The capabilities are requested from a server.")
        .run(CAPABILITIES)
        .start(|info| match info.command.as_str() {
            "capabilities" => reject_if_missing(&NETWORK, info, "capabilities", has_datagrams()),
            _ => None,
        })
        .at(RunCondition::NoNetwork),
        mutant("aoi-01-schema-needs-local-service", "AOI-01.schema-network")
            .describe("The schema comes from a service on the loopback address.")
            .violates(&["AOI-3-01", "AOI-3.2-03"])
            .run(SCHEMA)
            .start(|info| match info.command.as_str() {
                "schema" => reject_if_missing(&NETWORK, info, "schema", has_service()),
                _ => None,
            }),
        mutant("aoi-01-schema-needs-daemon", "AOI-01.schema-fails")
            .describe("The schema comes from a daemon behind a socket in /run.")
            .violates(&["AOI-3-01", "AOI-3.2-02"])
            .run(SCHEMA)
            .start(|info| match info.command.as_str() {
                "schema" => {
                    let daemon = UnixStream::connect("/run/mock-aoi/daemon.sock");
                    reject_if_missing(&DAEMON, info, "schema", daemon.is_ok())
                }
                _ => None,
            }),
        mutant("aoi-01-schema-needs-config", "AOI-01.schema-fails")
            .describe("The schema requires a configuration file in the working directory.")
            .violates(&["AOI-3.1-02", "AOI-3.2-02"])
            .run(SCHEMA)
            .start(|info| {
                let config = std::path::Path::new("mock-aoi.toml");
                reject_if_missing(&CONFIG, info, "schema", config.exists())
            }),
        mutant("aoi-01-schema-needs-query", "AOI-01.schema-fails")
            .describe("The schema is printed only together with a query.")
            .violates(&["AOI-3.2-05", "AOI-19-02"])
            .run(SCHEMA)
            .start(|info| reject_if_missing(&QUERY, info, "schema", info.has("--query"))),
        mutant("aoi-01-schema-crashes", "AOI-01.schema-fails")
            .describe("The schema command exits with code 70.")
            .violates(&["AOI-3-01", "AOI-16.2-01", "AOI-3.1-03"])
            .run(SCHEMA)
            .start(|info| (info.command == "schema").then_some(70)),
        mutant("aoi-01-schema-exits-one", "AOI-01.schema-fails")
            .describe("The schema is printed, but the exit code is 1.")
            .violates(&["AOI-3-01", "AOI-16.2-01", "AOI-3.1-03"])
            .run(SCHEMA)
            .exit(|info, code| match info.command.as_str() {
                "schema" => 1,
                _ => code,
            }),
        mutant("aoi-01-schema-is-silent", "AOI-01.schema-not-json")
            .describe("The schema command prints nothing.")
            .run(SCHEMA)
            .schema_as(|_| raw("")),
        mutant("aoi-01-schema-is-prose", "AOI-01.schema-not-json")
            .describe("The schema command describes the events in prose.")
            .run(SCHEMA)
            .schema_as(|_| raw("An event has a type and more.\n")),
        mutant("aoi-01-schema-has-banner", "AOI-01.schema-not-json")
            .describe("The schema comes after a greeting.")
            .run(SCHEMA)
            .schema_as(|d| raw(format!("mock-aoi 3.7.1\n{d:#}\n"))),
        mutant("aoi-01-schema-twice", "AOI-01.schema-not-json")
            .describe("The schema is printed twice.")
            .run(SCHEMA)
            .schema_as(|d| raw(format!("{d:#}\n{d:#}\n"))),
        mutant("aoi-01-schema-is-stream", "AOI-01.schema-is-stream")
            .describe("The schema is an event stream instead of one object.")
            .run(SCHEMA)
            .args(|args| match args.iter().any(|word| is_schema(word)) {
                true => {
                    let mut args = without(args, "--output", true);
                    args.extend(["--output".to_owned(), "jsonl".to_owned()]);
                    args
                }
                false => args,
            }),
        mutant("aoi-01-schema-invalid", "AOI-01.schema-invalid")
            .describe("The schema has a type that JSON Schema does not define.")
            .violates(&["AOI-10.1-01"])
            .run(SCHEMA)
            .schema(sets("type", "objekt")),
        mutant(
            "aoi-01-schema-dangling-reference",
            "AOI-01.schema-reference",
        )
        .describe("A reference in the schema has no target.")
        .run(SCHEMA)
        .schema(sets("not", json!({ "$ref": "#/$defs/absent" }))),
        mutant(
            "aoi-01-schema-remote-reference",
            "AOI-01.schema-remote-reference",
        )
        .describe("A part of the schema must be fetched from a server.")
        .violates(&["AOI-3-01", "AOI-3.1-02"])
        .run(SCHEMA)
        .schema(|d| {
            let remote = "https://schemas.example.com/aoi/hit.json";
            set(d, "anyOf", json!([{ "$ref": remote }, true]));
        }),
        mutant("aoi-01-schema-file-id", "AOI-01.schema-file-id")
            .describe("The `$id` of the schema is a path on one machine.")
            .run(SCHEMA)
            .schema(sets("$id", "file:///opt/mock-aoi/share/schema.json")),
        mutant("aoi-01-schema-coloured", "AOI-01.schema-ansi")
            .describe("The schema is printed in color.")
            .run(SCHEMA)
            .schema_as(
                |d| raw(format!("{d:#}\n").replace("\"$id\"", "\u{1b}[34m\"$id\"\u{1b}[0m")),
            ),
        mutant("aoi-01-schema-hangs", "AOI-01.schema-hangs")
            .describe("The schema command hangs.")
            .run(SCHEMA)
            .start(|info| match info.command.as_str() {
                "schema" => hang(),
                _ => None,
            })
            .hangs(),
        mutant("aoi-01-schema-depends-on-place", "AOI-01.schema-unstable")
            .describe("The schema is different in another directory.")
            .run(SCHEMA)
            .schema(|d| {
                let condition = std::env::current_dir().unwrap_or_default();
                let letters: usize = condition
                    .as_os_str()
                    .as_encoded_bytes()
                    .iter()
                    .map(|b| usize::from(*b))
                    .sum();
                set(d, "$comment", format!("made for place {letters}"));
            }),
        mutant("aoi-01-schema-flag-differs", "AOI-01.schema-forms-differ")
            .describe("The flag `--schema` prints a different schema from the command.")
            .violates(&["AOI-3-05"])
            .run(&["--schema", "--output", "json"])
            .documents(|info, mut document| {
                if info.has("--schema") && document.get("$defs").is_some() {
                    remove(&mut document, "allOf");
                }
                EventFrame::Json(document)
            }),
        mutant(
            "aoi-01-capabilities-flag-differs",
            "AOI-01.capabilities-forms-differ",
        )
        .describe("A command is missing from the output of the flag `--capabilities`.")
        .violates(&["AOI-3-05"])
        .run(&["--capabilities", "--output", "json"])
        .documents(|info, mut document| {
            let commands = document.get_mut("commands").and_then(Value::as_array_mut);
            if let (true, Some(commands)) = (info.has("--capabilities"), commands) {
                commands.pop();
            }
            EventFrame::Json(document)
        }),
        mutant("aoi-01-capabilities-fail", "AOI-01.capabilities-fails")
            .describe("The capabilities command exits with code 70.")
            .violates(&["AOI-3-02", "AOI-3-03", "AOI-16.2-03"])
            .run(CAPABILITIES)
            .start(|info| (info.command == "capabilities").then_some(70)),
        mutant(
            "aoi-01-capabilities-are-prose",
            "AOI-01.capabilities-not-json",
        )
        .describe("The capabilities are a human-readable table.")
        .run(CAPABILITIES)
        .documents(|_, document| match document.get("commands") {
            Some(_) => raw("search  finds\ndelete  removes\n"),
            None => EventFrame::Json(document),
        }),
        mutant(
            "aoi-01-capabilities-are-a-list",
            "AOI-01.capabilities-not-object",
        )
        .describe("The capabilities are a list instead of one object.")
        .run(CAPABILITIES)
        .documents(|_, document| match document.get("commands") {
            Some(commands) => EventFrame::Json(commands.clone()),
            None => EventFrame::Json(document),
        }),
    ]
}

/// Whether the argument is one of the names of the schema command.
fn is_schema(word: &str) -> bool {
    matches!(word, "schema" | "aoi-schema" | "--schema")
}

/// Message and exit code of a command that requires something that is missing.
struct MissingResource {
    message: &'static str,
    code: u8,
}

const LOGIN: MissingResource = MissingResource {
    message: "mock-aoi: please log in and try again\n",
    code: 77,
};
const NETWORK: MissingResource = MissingResource {
    message: "mock-aoi: cannot reach the registry: network is unreachable\n",
    code: 69,
};
const DAEMON: MissingResource = MissingResource {
    message: "mock-aoi: the daemon is not running\n",
    code: 69,
};
const CONFIG: MissingResource = MissingResource {
    message: "mock-aoi: mock-aoi.toml is missing\n",
    code: 78,
};
const QUERY: MissingResource = MissingResource {
    message: "mock-aoi: what is to be looked for?\n",
    code: 64,
};
const NOTHING: MissingResource = MissingResource {
    message: "",
    code: 70,
};

/// Rejects a command if what it requires is missing.
fn reject_if_missing(
    missing: &MissingResource,
    info: &RunInfo,
    command: &str,
    has_it: bool,
) -> Option<u8> {
    if info.command != command || has_it {
        return None;
    }
    stderr(missing.message);
    Some(missing.code)
}

impl AoiMutant {
    /// Prints something else instead of the schema.
    fn schema_as(self, put: impl Fn(Value) -> EventFrame + Send + Sync + 'static) -> AoiMutant {
        self.documents(move |info, document| {
            match info.command == "schema" && document.get("$defs").is_some() {
                true => put(document),
                false => EventFrame::Json(document),
            }
        })
    }

    /// Edits the schema.
    fn schema(self, edit: impl EventEdit) -> AoiMutant {
        self.schema_as(move |mut schema| {
            edit(&mut schema);
            EventFrame::Json(schema)
        })
    }
}

fn has_token(home: PathBuf) -> bool {
    home.join(".config/mock-aoi/token").exists()
}

/// Home directory in the user database, regardless of the environment.
fn account_home() -> Option<PathBuf> {
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    // SAFETY: a plain system call.
    let me = unsafe { libc::getuid() }.to_string();
    let mine = accounts
        .lines()
        .find(|line| line.split(':').nth(2) == Some(&me))?;
    mine.split(':').nth(5).map(PathBuf::from)
}

/// Address that is reserved for examples: nothing answers there, but a machine with a network has a
/// route to it.
fn elsewhere(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 77], port))
}

/// Whether there is a route. A timeout counts as a route, because only a machine without a network
/// fails immediately.
pub(super) fn has_route() -> bool {
    match TcpStream::connect_timeout(&elsewhere(443), Duration::from_millis(200)) {
        Ok(_) => true,
        Err(error) => matches!(
            error.kind(),
            std::io::ErrorKind::TimedOut
                | std::io::ErrorKind::ConnectionRefused
                | std::io::ErrorKind::HostUnreachable
        ),
    }
}

fn has_datagrams() -> bool {
    let socket = UdpSocket::bind("0.0.0.0:0");
    socket.is_ok_and(|socket| socket.connect(elsewhere(53)).is_ok())
}

fn has_service() -> bool {
    let service = SocketAddr::from(([127, 0, 0, 1], 9));
    TcpStream::connect_timeout(&service, Duration::from_millis(200)).is_ok()
}
