//! Entry modules of CLI bundles in Node (AIP-29, `defineCli`). tests/runtime/call/entry.rs tests
//! hooks in Rust.

use std::fs;
use std::io::Write;
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

/// Every attempt fails with a typed error before a tool runs, and nothing happens outside.
#[test]
#[ignore = "needs node"]
fn loading_a_module_has_no_side_effects() {
    proves!("A29-DEFCLI-16");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let port = listener.local_addr().expect("an address").port();
    let made = tempfile::tempdir().expect("a directory");
    let made = made.path().join("made");
    let path = made.display();
    let end = "export default defineCli(bird);";
    for (line, words) in [
        (format!("writeFileSync('{path}', 'x');"), "ENOENT"),
        ("writeFileSync('made', 'x');".to_owned(), "threw an error"),
        ("readFileSync('notes');".to_owned(), "ENOENT"),
        (
            "const { error } = spawnSync('/bin/sh', ['-c', 'exit 0']); if (error) throw error;"
                .to_owned(),
            "spawnSync",
        ),
        (format!("connect({port}, '127.0.0.1');"), "E"),
        (
            format!(
                "const dialed = await dial({port}); if (dialed !== 'done') throw new Error(dialed);"
            ),
            "E",
        ),
        ("setInterval(() => {}, 1000);".to_owned(), "Timeout"),
        (
            "throw new Error('no such bird');".to_owned(),
            "no such bird",
        ),
        ("process.exit(3);".to_owned(), "exited with code 3"),
        (
            "await new Promise(() => {});".to_owned(),
            "exited with code 13",
        ),
        ("process.abort();".to_owned(), "signal 6"),
        (
            "writeSync(1, 'hello\\n');".to_owned(),
            "wrote to its stdout: \"hello\"",
        ),
        ("import './other.mjs';".to_owned(), "Cannot find module"),
    ] {
        let aviary = Aviary::plain(&format!("{line}\n{end}"));
        let ran = aviary.call("say", "x");
        assert!(!aviary.at("work/made").exists() && !made.exists(), "{line}");
        ran.has_failed(words);
        let log = fs::read_to_string(aviary.at("home/audit/audit-log.jsonl")).expect("a log");
        assert!(
            !log.contains("tool.invoke") && log.contains("entry_failed"),
            "{log}"
        );
        aviary.nothing_is_left();
    }
    assert!(listener.accept().is_err(), "nothing has connected");
    for (module, words) in [
        (
            "export const a = 1;",
            "must export one result of defineCli(), found 0",
        ),
        (
            "export const a = defineCli(bird); export const b = defineCli(bird);",
            "found 2",
        ),
        (
            "export default defineCli({ ...bird, bin: 3 });",
            "`bin` must be a string",
        ),
        (
            "export default defineCli({ ...bird, login: 3 });",
            "`login` must be a function",
        ),
        (
            "export default defineCli({ ...bird, metadata: 3n });",
            "BigInt",
        ),
        ("export default (", "SyntaxError"),
    ] {
        Aviary::plain(module).call("say", "x").has_failed(words);
    }
    // The sibling without side effects is loaded, also with the global and twice exported.
    for module in [
        end,
        "export default globalThis.defineCli(bird);",
        "const cli = defineCli(bird); export { cli, cli as default };",
    ] {
        Aviary::plain(module).call("say", "x").exits(0);
    }
}

#[test]
#[ignore = "needs node"]
fn a_module_that_never_stops_loading_is_killed() {
    for line in [
        "for (;;);",
        "for (;;) writeSync(1, 'x'.repeat(65536));",
        "for (;;) writeSync(2, 'x\\n'.repeat(65536));",
    ] {
        let aviary = Aviary::plain(&format!("{line}\nexport default defineCli(bird);"));
        let started = Instant::now();
        aviary.call("say", "x").has_failed("while it was loaded");
        assert!(started.elapsed() < Duration::from_secs(25), "{line}");
        aviary.nothing_is_left();
    }
}

#[test]
#[ignore = "needs node"]
fn parse_output_has_neither_network_nor_files() {
    proves!("A29-DEFCLI-14");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let port = listener.local_addr().expect("an address").port();
    // The sandbox of the bundle allows all of this, except for the network.
    let aviary = Aviary::new(
        "",
        "allow: true, spawn: [sh]",
        &format!(
            "export default defineCli({{ ...bird,
              parseOutput: async () => ({{ ok: true, value: {{
                read: attempt(() => readFileSync(process.cwd() + '/notes')),
                bundle: attempt(() => readFileSync('BUNDLE/CLI.md')),
                write: attempt(() => writeFileSync('made', 'x')),
                spawn: spawned('/bin/sh'),
                dial: await dial({port}),
                key: process.env.BIRD_KEY ?? null,
              }} }}),
            }});"
        ),
    );
    let module = fs::read_to_string(aviary.at("bird/cli.mjs")).expect("a module");
    let bundle = aviary.at("bird");
    aviary.write(
        "bird/cli.mjs",
        &module.replace("BUNDLE", bundle.to_str().expect("text")),
    );
    let mut call = aviary.command(&["call", "--output", "json", "../bird", "say", "--arg", "x"]);
    let output = call.env("BIRD_KEY", "canary-0815-hunter").output();
    let output = output.expect("it runs").stdout;
    let result: Value = serde_json::from_slice(&output).expect("JSON");
    let value = &result["value"];
    assert_eq!(value["key"], Value::Null, "{result}");
    for attempt in ["read", "bundle", "write", "spawn", "dial"] {
        let code = value[attempt].as_str().unwrap_or_default();
        assert!(code.starts_with('E'), "{attempt}: {result}");
    }
    assert!(!aviary.at("work/made").exists());
    assert!(listener.accept().is_err(), "nothing has connected");
    aviary.nothing_is_left();
}

#[test]
#[ignore = "needs node"]
fn an_output_hook_that_fails_is_a_typed_error_after_the_run() {
    for (body, words) in [
        ("throw new Error('no such output')", "no such output"),
        ("return 'text'", "wrong form"),
        ("return { ok: 'yes' }", "wrong form"),
        (
            "return { ok: false, error: { message: 'x' } }",
            "wrong form",
        ),
        ("return { ok: true, value: 3n }", "BigInt"),
        ("process.exit(4)", "exited with code 4"),
        (
            "return { ok: true, value: 'x'.repeat(20 << 20) }",
            "wrote a line of",
        ),
        ("for (;;);", "did not finish within 10 s"),
        ("for (;;) writeSync(1, 'x\\n')", "wrote to its stdout"),
    ] {
        let aviary = Aviary::plain(&format!(
            "export default defineCli({{ ...bird, parseOutput() {{ {body} }} }});"
        ));
        let result = aviary.call("say", "x").exits(69).json();
        let error = &result["error"];
        assert_eq!(error["code"], "entry_failed", "{result}");
        assert_eq!(error["details"]["during"], "parseOutput", "{result}");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains(words) && message.len() < 2000, "{message}");
        let hint = error["hint"].as_str().unwrap_or_default();
        assert!(hint.contains("the tool has run"), "{hint}");
        assert_eq!(result["text"], "x");
        aviary.nothing_is_left();
    }
    // The text output of the tool needs no hook.
    let module = "export default defineCli({ ...bird, parseOutput() { throw 1 } });";
    let ran = Aviary::plain(module).run(&["call", "../bird", "say", "--arg", "x"]);
    assert_eq!(ran.exits(0).out, "x");
}

#[test]
#[ignore = "needs node"]
fn login_and_refresh_run_in_the_sandbox_of_the_bundle() {
    proves!("A29-DEFCLI-15");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let port = listener.local_addr().expect("an address").port();
    let outside = tempfile::tempdir().expect("a directory");
    let outside = outside.path().join("made");
    let auth = "auth:\n  state: { paths: [], env: [] }\n  login: { cmd: 'bird fail' }\n";
    let module = format!(
        "const tried = async () => ({{
            sh: spawned('/bin/sh'), cat: spawned('/bin/cat'), dial: await dial({port}),
            outside: attempt(() => writeFileSync('{}', 'x')),
          }});
          export default defineCli({{ ...bird,
            async login() {{ writeFileSync('login', JSON.stringify(await tried())); return {{ ok: true }}; }},
            async refresh() {{ writeFileSync('refresh', JSON.stringify(await tried())); return {{ ok: true }}; }},
          }});",
        outside.display()
    );
    for (exec, sh) in [
        ("allow: false", "E"),
        ("allow: true, spawn: [sh]", "exit 0"),
    ] {
        let aviary = Aviary::new(auth, exec, &module);
        aviary.run(&["auth", "login", "../bird"]).exits(0);
        aviary.run(&["auth", "refresh", "../bird"]).exits(0);
        for hook in ["work/login", "work/refresh"] {
            let tried = fs::read(aviary.at(hook)).expect("the hook ran");
            let tried: Value = serde_json::from_slice(&tried).expect("JSON");
            let code = |name: &str| tried[name].as_str().unwrap_or_default().to_owned();
            assert!(code("sh").starts_with(sh), "{exec}: {tried}");
            for denied in ["cat", "dial", "outside"] {
                assert!(code(denied).starts_with('E'), "{denied}: {tried}");
            }
        }
        aviary.nothing_is_left();
    }
    assert!(!outside.exists());
    assert!(listener.accept().is_err(), "nothing has connected");
}

#[test]
#[ignore = "needs node"]
fn a_failed_login_hook_is_a_typed_error() {
    for (body, code, words) in [
        (
            "return { ok: false, reason: 'upstream_error', message: 'busy' }",
            77,
            "the service refused the login: busy",
        ),
        (
            "return { ok: false, reason: 'callback_failed' }",
            77,
            "the callback of the login failed",
        ),
        ("return { ok: false, reason: 'tired' }", 69, "wrong form"),
        ("return { ok: false }", 69, "`reason` is missing"),
        ("return true", 69, "wrong form"),
        (
            "throw new Error(`key ${process.env.BIRD_KEY}`)",
            69,
            "key [secret]",
        ),
        ("process.exit(5)", 69, "exited with code 5"),
    ] {
        let aviary = Aviary::new(
            AUTH,
            "allow: true, spawn: [sh, test]",
            &format!("export default defineCli({{ ...bird, async login() {{ {body} }} }});"),
        );
        let mut login = aviary.command(&["auth", "login", "../bird"]);
        let login = login.env("BIRD_KEY", "canary-0815-hunter").output();
        let login = login.expect("it runs");
        let err = String::from_utf8_lossy(&login.stderr);
        assert_eq!(login.status.code(), Some(code), "{err}");
        assert!(err.contains(words) && !err.contains("canary-0815"), "{err}");
        aviary.nothing_is_left();
    }
}

/// The module gets an AbortSignal, and is killed if it does not obey.
#[test]
#[ignore = "needs node"]
fn a_canceled_login_of_a_module_ends() {
    proves!("A29-DEFCLI-05", "A29-DEFCLI-13");
    let auth = AUTH.replace(
        "cmd: 'bird fail',",
        "cmd: 'bird fail', requires_callback_url: true,",
    );
    for (body, obeys) in [
        (
            "await new Promise((done) => signal.addEventListener('abort', done)); writeFileSync('aborted', '');",
            true,
        ),
        (
            "await Promise.race([context.callback(), new Promise((done) => signal.addEventListener('abort', done))]); writeFileSync('aborted', '');",
            true,
        ),
        (
            "await new Promise(() => setInterval(() => {}, 1000));",
            false,
        ),
        (
            "spawn('/bin/sh', ['-c', 'while :; do :; done']); for (;;);",
            false,
        ),
    ] {
        let aviary = Aviary::new(
            &auth,
            "allow: true, spawn: [sh, test]",
            &format!(
                "export default defineCli({{ ...bird, async login({{ context, signal }}) {{
                   context.show('waiting for ' + context.callbackUrl); writeFileSync('started', '');
                   {body}
                   return {{ ok: false, reason: 'user_cancelled' }}; }} }});"
            ),
        );
        let mut login = aviary.command(&["auth", "login", "../bird"]);
        let mut login = login.stderr(Stdio::piped()).spawn().expect("it starts");
        let until = Instant::now() + Duration::from_secs(20);
        while !aviary.at("work/started").exists() {
            assert!(Instant::now() < until, "the hook does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        let pid = login.id().to_string();
        let interrupted = Instant::now();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .expect("kill")
                .success()
        );
        let status = login.wait().expect("an exit");
        assert!(interrupted.elapsed() < Duration::from_secs(6), "{body}");
        assert_eq!(status.code(), Some(130), "{body}");
        assert_eq!(aviary.at("work/aborted").exists(), obeys, "{body}");
        aviary.nothing_is_left();
    }
}

#[test]
#[ignore = "needs node"]
fn a_callback_reaches_the_login_hook() {
    let auth = AUTH.replace(
        "cmd: 'bird fail',",
        "cmd: 'bird fail', requires_callback_url: true,",
    );
    let aviary = Aviary::new(
        &auth,
        "allow: true, spawn: [sh, test]",
        "export default defineCli({ ...bird, async login({ context }) {
           writeFileSync('url', context.callbackUrl);
           const query = await context.callback();
           writeFileSync('session', JSON.stringify(query));
           return { ok: true }; } });",
    );
    let mut login = aviary.command(&["auth", "login", "../bird"]);
    let mut login = login.spawn().expect("it starts");
    let until = Instant::now() + Duration::from_secs(20);
    let url = loop {
        match fs::read_to_string(aviary.at("work/url")) {
            Ok(url) if !url.is_empty() => break url,
            _ => assert!(Instant::now() < until, "the hook does not start"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let address = url.trim_start_matches("http://");
    let (host, path) = address.split_once('/').expect("a path");
    let mut stream = std::net::TcpStream::connect(host).expect("connected");
    write!(
        stream,
        "GET /{path}?code=canary-0815-hunter HTTP/1.1\r\nHost: {host}\r\n\r\n"
    )
    .expect("sent");
    assert_eq!(login.wait().expect("an exit").code(), Some(0));
    let session = fs::read_to_string(aviary.at("work/session")).expect("a session");
    assert_eq!(session, r#"{"code":"canary-0815-hunter"}"#);
}

#[test]
#[ignore = "needs node"]
fn typescript_is_used_where_node_can_load_it() {
    let aviary = Aviary::plain("");
    fs::remove_file(aviary.at("bird/cli.mjs")).expect("removed");
    let module = |types: &str| {
        format!(
            "{HEAD}export default defineCli({{ ...bird, parseOutput: (args{types}) => ({{ ok: true, value: args.stdout }}) }});"
        )
    };
    aviary.write("bird/cli.ts", &module(""));
    let result = aviary.call("say", "x").exits(0).json();
    assert_eq!(result["value"], "x");
    aviary.write("bird/cli.ts", &module(": any"));
    let ran = aviary.call("say", "x").exits(0);
    let is_used = ran.json()["value"] == "x";
    // Without support, the CLI.md alone is used, with a warning.
    assert!(
        is_used || ran.err.contains("entry_unavailable"),
        "{}",
        ran.err
    );
    // Without Node, too.
    let path = tempfile::tempdir().expect("a directory");
    let mut call = aviary.command(&["call", "--output", "json", "../bird", "say", "--arg", "x"]);
    let output = call.env("PATH", path.path()).output().expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("entry_unavailable: "), "{err}");
    assert_eq!(output.status.code(), Some(0), "{err}");
}
