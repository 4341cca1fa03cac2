//! Entry modules of CLI bundles in Node (AIP-29, `defineCli`). tests/runtime/call/entry.rs tests
//! hooks in Rust.

mod load;
mod login;
mod output;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentproto_suites::proves;
use serde_json::{Value, json};

const BIN: &str = r#"#!/bin/sh
case "$1" in
  --version) echo 'bird 1.5.0' ;;
  say) printf '%s' "$2"; echo 'a note' >&2 ;;
  exit) echo 'it broke' >&2; exit "$2" ;;
esac
"#;

const HEAD: &str = r#"
import { defineCli } from "@agentproto/cli-runtime";
import { spawnSync, spawn } from "node:child_process";
import { readFileSync, writeFileSync, writeSync } from "node:fs";
import { connect } from "node:net";
const bird = { id: "bird", name: "Bird", description: "Talks.", bin: "bird" };
// The error code of an attempt to do something, or "done".
const attempt = (work) => { try { work(); return "done"; } catch (problem) { return problem.code ?? String(problem); } };
const dial = (port) => new Promise((done) => {
  const socket = connect(port, "127.0.0.1", () => { socket.destroy(); done("done"); });
  socket.on("error", (problem) => done(problem.code));
});
const spawned = (program) => { const { error, status } = spawnSync(program, ["-c", "exit 0"]); return error?.code ?? `exit ${status}`; };
"#;

const AUTH: &str = "auth:\n  state: { paths: [], env: [BIRD_KEY] }\n\
    \x20 login: { cmd: 'bird fail', completes_when: { cmd: 'test -e session' } }\n";

/// A port that must not be reached.
fn unreachable() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

struct Aviary {
    dir: tempfile::TempDir,
}

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    #[track_caller]
    fn exits(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}{}", self.out, self.err))
    }
    /// Checks that the error is typed, has a hint, and contains these words.
    #[track_caller]
    fn has_failed(self, words: &str) {
        let ran = self.exits(69);
        assert!(ran.err.contains("entry_failed: "), "{}", ran.err);
        assert!(ran.err.contains(words), "{words}\n{}", ran.err);
        assert!(ran.err.contains("while it") || ran.err.contains("in the module"));
    }
}

impl Aviary {
    fn new(blocks: &str, exec: &str, module: &str) -> Aviary {
        let aviary = Aviary {
            dir: tempfile::tempdir().expect("a directory"),
        };
        for name in ["work", "user"] {
            fs::create_dir(aviary.at(name)).expect("made");
        }
        aviary.write("work/notes", "private");
        aviary.write("bird/bin/bird", BIN);
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(aviary.at("bird/bin/bird"), mode).expect("executable");
        aviary.write(
            "bird/CLI.md",
            &format!(
                "---\nname: Bird\nid: bird\ndescription: Talks.\nversion: 1.0.0\nbin: bird\n\
                 install:\n  - {{ method: vendored, path: ./bin/bird }}\n\
                 version_check: {{ cmd: 'bird --version', parse: 'bird (\\S+)', range: '>=1 <2' }}\n\
                 sandbox:\n  network: {{ egress: [] }}\n  fs: {{ read: ['./**'], write: ['./**'] }}\n\
                 \x20 exec: {{ {exec} }}\n  env: {{ pass: [BIRD_KEY], set: {{ }} }}\n{blocks}\
                 commands: {{ say: ./tools/say/TOOL.md, exit: ./tools/exit/TOOL.md }}\n---\n"
            ),
        );
        for (verb, kind) in [("say", "string"), ("exit", "integer")] {
            aviary.write(
                &format!("bird/tools/{verb}/TOOL.md"),
                &format!(
                    "---\nname: Tool {verb}\nid: bird-{verb}\ndescription: Does {verb}.\nversion: 1.0.0\n\
                     inputs: {{ type: object, properties: {{ arg: {{ type: {kind} }} }} }}\noutputs: {{ }}\n\
                     runner: {{ cli: ../../CLI.md, argv: [{verb}, \"${{input.arg}}\"] }}\n---\n"
                ),
            );
        }
        aviary.write("bird/cli.mjs", &format!("{HEAD}{module}"));
        aviary
    }

    /// A bundle whose tools need no login and start nothing.
    fn plain(module: &str) -> Aviary {
        Aviary::new("", "allow: false", module)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentproto"));
        command
            .args(args)
            .current_dir(self.at("work"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.at("user"))
            .env("AGENTPROTO_HOME", self.at("home"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let ran = Ran {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        };
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }

    fn call(&self, verb: &str, arg: &str) -> Ran {
        self.run(&["call", "--output", "json", "../bird", verb, "--arg", arg])
    }

    /// Processes that run the host script of this test.
    fn running(&self) -> usize {
        let home = self.at("home");
        let home = home.to_str().expect("text");
        let entries = fs::read_dir("/proc").expect("processes").flatten();
        let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines
            .filter(|line| String::from_utf8_lossy(line).contains(&format!("{home}/entry/")))
            .count()
    }

    #[track_caller]
    fn nothing_is_left(&self) {
        let until = Instant::now() + Duration::from_secs(5);
        while self.running() > 0 {
            assert!(Instant::now() < until, "a process is still running");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
#[ignore = "needs node"]
fn the_hooks_of_a_module_are_used() {
    proves!(
        "A29-DEFCLI-01",
        "A29-DEFCLI-06",
        "A29-DEFCLI-08",
        "A29-DEFCLI-09",
        "A29-DEFCLI-10",
        "A29-DEFCLI-12"
    );
    let refresh = format!("{AUTH}  refresh: {{ cmd: 'bird fail', every: PT24H }}\n");
    let aviary = Aviary::new(
        &refresh,
        "allow: true, spawn: [sh, test]",
        r#"export default defineCli({ ...bird, name: "Another name",
          async login({ context, signal }) {
            console.log("noise on standard output");
            context.show(`open ${context.bundle} ${context.surface} ${signal.aborted} ${process.env.BIRD_KEY}`);
            writeFileSync("session", "");
            return { ok: true };
          },
          async refresh({ context, signal }) {
            writeFileSync("refreshed", "");
            return { ok: true, nextRefreshAt: "2999-01-01T00:00:00Z" };
          },
          parseOutput(args) {
            if (args.exitCode === 3) return { ok: false, error: { code: "stale", message: args.stderr.trim(), retryable: true } };
            return { ok: true, value: args };
          },
          detectExpiry: ({ exitCode, stdout }) => stdout === "expired",
        });"#,
    );
    aviary.call("say", "x").exits(77);
    let mut login = aviary.command(&["auth", "login", "../bird"]);
    let login = login.env("BIRD_KEY", "canary-0815-hunter").output();
    let login = login.expect("it runs");
    let err = String::from_utf8_lossy(&login.stderr);
    assert_eq!(login.status.code(), Some(0), "{err}");
    assert!(err.contains("open bird@1 headless false [secret]"), "{err}");
    assert!(err.contains("entry_conflict: `name`"), "{err}");
    let result = aviary.call("say", "x").exits(0).json();
    let expected = json!({ "exitCode": 0, "stdout": "x", "stderr": "a note\n", "expected": { "format": "text" } });
    assert_eq!(result["value"], expected);
    assert_eq!(result["warnings"][0]["code"], "entry_conflict");
    let error = &aviary.call("exit", "3").exits(1).json()["error"];
    assert_eq!(
        error["details"],
        json!({ "code": "stale", "retryable": true })
    );
    aviary.run(&["auth", "refresh", "../bird"]).exits(0);
    assert!(aviary.at("work/refreshed").exists());
    let status = aviary.run(&["auth", "status", "--output", "jsonl", "../bird"]);
    assert!(status.out.contains("32472144000"), "{}", status.out);
    let expired = aviary.call("say", "expired").exits(77).json();
    assert_eq!(expired["meaning"], "auth_required");
    aviary.nothing_is_left();
}

/// The MCP server uses the same hooks.
#[test]
#[ignore = "needs node"]
fn the_hooks_are_used_for_an_mcp_client() {
    let aviary = Aviary::plain(
        "export default defineCli({ ...bird, parseOutput: ({ stdout }) => stdout === 'bad' ?
           { ok: false, error: { code: 'stale', message: 'too old', retryable: true } } :
           { ok: true, value: { words: stdout.split(' ') } } });",
    );
    let mut server = aviary.command(&["mcp", "--bundle", "../bird"]);
    let server = server.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = server.spawn().expect("started");
    let mut input = server.stdin.take().expect("stdin");
    let mut output = BufReader::new(server.stdout.take().expect("stdout"));
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } });
    let call = |arg: &str| json!({ "name": "bird_say", "arguments": { "arg": arg } });
    let mut request = |method: &str, params: Value| {
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        writeln!(input, "{line}").expect("written");
        let mut answer = String::new();
        output.read_line(&mut answer).expect("a line");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        if method == "initialize" {
            let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            writeln!(input, "{done}").expect("written");
        }
        answer["result"].clone()
    };
    request("initialize", hello);
    let good = request("tools/call", call("a b"));
    assert_eq!(
        good["structuredContent"],
        json!({ "words": ["a", "b"] }),
        "{good}"
    );
    let bad = request("tools/call", call("bad"));
    assert_eq!(bad["isError"], true, "{bad}");
    let text = bad["content"][0]["text"].as_str().unwrap_or_default();
    assert!(
        text.contains("too old") && text.contains("retryable"),
        "{text}"
    );
    drop(input);
    assert!(server.wait().expect("an exit").success());
    aviary.nothing_is_left();
}
