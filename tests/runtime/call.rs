//! `agentproto call` and the library behind it, with small shell scripts as tools (AIP-29).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use agentproto_suites::proves;

/// A tool that shows its arguments and its environment, and ends as asked.
const BIN: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo 'bird 1.5.0'; exit 0; fi
[ "$1" = -q ] && shift
case "$1" in
  args) for a in "$@"; do printf '<%s>' "$a"; done; echo ;;
  env) echo "$2=$(eval echo \$$2)" ;;
  say) printf '%s' "$2"; printf 'a note\n' >&2 ;;
  json) echo '{"items":[1,2],"args":"'"$*"'"}' ;;
  yaml) printf 'items:\n- 1\n- two\n' ;;
  exit) echo 'it broke' >&2; exit "$2" ;;
  sleep) echo started; sleep 60 ;;
  flood) while :; do printf '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n'; done ;;
  bytes) printf '\377\000a' ;;
  tty) if test -t 1; then echo terminal; else echo pipe; fi ;;
  write) echo x > "$2" ;;
  leave) (sleep 300 &) ; echo left ;;
  kill) kill -9 $$ ;;
  login) echo yes > session ;;
  *) echo "unknown $1" >&2; exit 2 ;;
esac
"#;

pub struct Aviary {
    dir: tempfile::TempDir,
}

struct Ran {
    code: i32,
    out: Vec<u8>,
    err: String,
}

impl Ran {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_slice(&self.out)
            .unwrap_or_else(|e| panic!("{e}: {}\n{}", self.text(), self.err))
    }
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.text(), self.err);
        self
    }
}

/// A TOOL.md with these inputs and arguments.
fn tool(id: &str, properties: &str, argv: &str, more: &str) -> String {
    format!(
        "---\nname: Tool {id}\nid: bird-{id}\ndescription: Does {id}.\nversion: 1.0.0\n\
         inputs:\n  type: object\n  properties: {properties}\noutputs: {{ }}\n{more}\n\
         runner:\n  cli: ../../CLI.md\n  argv: {argv}\n---\n"
    )
}

impl Aviary {
    /// A bundle whose CLI.md has these additional blocks.
    pub fn new(blocks: &str) -> Aviary {
        Aviary::with_sandbox(blocks, "  tty: { required: false }")
    }

    fn with_sandbox(blocks: &str, sandbox: &str) -> Aviary {
        let dir = tempfile::tempdir().expect("a directory");
        let aviary = Aviary { dir };
        for name in ["work", "user"] {
            fs::create_dir(aviary.at(name)).expect("made");
        }
        aviary.write("bird/bin/bird", BIN);
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(aviary.at("bird/bin/bird"), mode).expect("executable");
        let spawn = "[sh, sleep, cat, printf, test, kill]";
        aviary.write(
            "bird/CLI.md",
            &format!(
                "---\nname: Bird CLI\nid: bird\ndescription: Talks about birds.\nversion: 1.0.0\nbin: bird\n\
                 install:\n  - {{ method: vendored, path: ./bin/bird }}\n\
                 version_check: {{ cmd: 'bird --version', parse: 'bird (\\S+)', range: '>=1 <2' }}\n\
                 sandbox:\n  network: {{ egress: [] }}\n  fs: {{ read: ['./**'], write: ['./**'] }}\n\
                 \x20 exec: {{ allow: true, spawn: {spawn} }}\n\
                 \x20 env: {{ pass: [BIRD_KEY, HOME], set: {{ FIXED: '1' }} }}\n{sandbox}\n{blocks}\n\
                 commands:\n  show:\n    args: ./tools/args/TOOL.md\n    env: ./tools/env/TOOL.md\n\
                 \x20 run:\n    say: ./tools/say/TOOL.md\n    exit: ./tools/exit/TOOL.md\n    any: ./tools/any/TOOL.md\n\
                 \x20 plain: ./tools/plain/TOOL.md\n---\n"
            ),
        );
        let show = "{ title: { type: string, description: Title of the bird }, state: { type: string, enum: [open, closed] }, \
                    limit: { type: integer, minimum: 1 }, draft: { type: boolean }, labels: { type: array, items: { type: string } }, \
                    base_branch: { type: string } }";
        let argv = r#"[args, --title, "${input.title}", --state, "${input.state | default('open')}", --limit, "${input.limit}", "${input.draft | flag('--draft')}", --label, "${input.labels}", "--base=${input.base_branch}"]"#;
        aviary.tool("args", show, argv, "idempotent: true");
        aviary.tool(
            "env",
            "{ name: { type: string } }",
            r#"[env, "${input.name}"]"#,
            "",
        );
        aviary.tool(
            "say",
            "{ text: { type: string } }",
            r#"[say, "${input.text}"]"#,
            "",
        );
        aviary.tool(
            "exit",
            "{ code: { type: integer } }",
            r#"[exit, "${input.code}"]"#,
            "",
        );
        aviary.tool(
            "any",
            "{ verb: { type: string }, arg: { type: string } }",
            r#"["${input.verb}", "${input.arg}"]"#,
            "timeout_ms: 20000",
        );
        aviary.write("bird/tools/plain/TOOL.md", "---\nname: Plain\nid: plain\ndescription: No template.\nversion: 1.0.0\ninputs: { type: object }\noutputs: { }\n---\n");
        aviary
    }

    pub fn tool(&self, id: &str, properties: &str, argv: &str, more: &str) {
        self.write(
            &format!("bird/tools/{id}/TOOL.md"),
            &tool(id, properties, argv, more),
        );
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    pub fn replace(&self, path: &str, old: &str, new: &str) {
        let text = fs::read_to_string(self.at(path)).expect("a file");
        assert_eq!(text.matches(old).count(), 1, "{path}: {old}");
        self.write(path, &text.replace(old, new));
    }

    pub fn agentproto(&self, args: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_agentproto"));
        command
            .args(args)
            .current_dir(self.at("work"))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.at("user"))
            .env("AGENTPROTO_HOME", self.at("home"))
            .stdin(std::process::Stdio::null());
        command
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        self.agentproto(&[&["call"], args].concat())
    }

    /// Whether a process runs this verb of this bundle's program.
    pub fn is_running(&self, verb: &str) -> bool {
        let program = self.at("bird/bin/bird");
        let program = program.to_str().expect("text");
        let processes = fs::read_dir("/proc").expect("processes").flatten();
        let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.into_iter().any(|line| {
            let line = String::from_utf8_lossy(&line).into_owned();
            let words: Vec<&str> = line.split('\0').collect();
            words.windows(2).any(|pair| pair == [program, verb])
        })
    }

    fn call(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().expect("it runs");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!err.contains("panicked"), "{err}");
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: output.stdout,
            err,
        }
    }

    /// Calls with `../bird` as the target.
    fn bird(&self, words: &[&str]) -> Ran {
        self.call(&[&["../bird"], words].concat())
    }

    /// The result as JSON.
    #[track_caller]
    fn result(&self, words: &[&str], code: i32) -> Value {
        let ran = self.call(&[&["--output", "json", "../bird"], words].concat());
        ran.exits(code).json()
    }

    pub fn audited(&self, event: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.at("home/audit/audit-log.jsonl")).unwrap_or_default();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let lines = lines.filter(|line| line["event"] == event);
        lines.map(|line| line["data"].clone()).collect()
    }
}

#[test]
fn the_command_path_and_the_template_become_the_arguments() {
    proves!(
        "A29-CMD-02",
        "A29-CMD-04",
        "A29-CMD-06",
        "A29-CMD-07",
        "A29-OPT-06",
        "A29-OPT-07"
    );
    let aviary = Aviary::new("");
    let ran = aviary
        .bird(&["show", "args", "--title", "A tit", "--limit", "3"])
        .exits(0);
    assert_eq!(
        ran.text(),
        "<args><--title><A tit><--state><open><--limit><3>\n"
    );
    // Without a template, the words of the command are the arguments.
    let ran = aviary.bird(&["plain"]).exits(1);
    assert!(ran.err.contains("unknown plain"), "{}", ran.err);
}

#[test]
fn inputs_are_options_of_their_type() {
    let aviary = Aviary::new("");
    let words = [
        "show",
        "args",
        "--draft",
        "--labels",
        "a",
        "--labels=b",
        "--base-branch",
        "main",
    ];
    let ran = aviary.bird(&words).exits(0);
    assert_eq!(
        ran.text(),
        "<args><--state><open><--draft><--label><a><--label><b><--base=main>\n"
    );
    let ran = aviary
        .bird(&["show", "args", "--no-draft", "--draft"])
        .exits(64);
    assert!(ran.err.contains("given twice"), "{}", ran.err);
    let input = r#"{"limit":2,"draft":false,"labels":["x"]}"#;
    let ran = aviary
        .call(&["--input", input, "../bird", "show", "args"])
        .exits(0);
    assert_eq!(
        ran.text(),
        "<args><--state><open><--limit><2><--label><x>\n"
    );
}

#[test]
fn invalid_inputs_and_commands_are_refused_with_the_place_and_a_suggestion() {
    let aviary = Aviary::new("");
    for (words, code, expected) in [
        (
            &["show", "args", "--limit", "many"][..],
            "input_invalid",
            "`/limit`",
        ),
        (
            &["show", "args", "--limit", "0"],
            "input_invalid",
            "`/limit`",
        ),
        (
            &["show", "args", "--state", "opne"],
            "input_invalid",
            "`/state`",
        ),
        (
            &["show", "args", "--titel", "x"],
            "input_invalid",
            "did you mean `title`?",
        ),
        (
            &["show", "args", "--title"],
            "input_invalid",
            "needs a value",
        ),
        (
            &["show", "args", "extra"],
            "command_unknown",
            "show args extra",
        ),
        (
            &["show", "args", "--output", "json"],
            "input_invalid",
            "put it before the target",
        ),
        (
            &["show", "agrs"],
            "command_unknown",
            "did you mean `show args`?",
        ),
        (&["nothing"], "command_unknown", "lists the commands"),
        (
            &["show", "--title", "x"],
            "command_unknown",
            "group of commands",
        ),
    ] {
        let ran = aviary.bird(words).exits(64);
        assert!(
            ran.err.contains(code) && ran.err.contains(expected),
            "{words:?}: {}",
            ran.err
        );
        assert_eq!(ran.text(), "");
    }
    for input in ["{", "[]", "7", r#"{"limit":"x"}"#, r#"{"nope":1}"#] {
        let ran = aviary
            .call(&["--input", input, "../bird", "show", "args"])
            .exits(64);
        assert!(ran.err.contains("input_invalid"), "{input}: {}", ran.err);
    }
    let ran = aviary
        .call(&["--input", "{}", "../bird", "show", "args", "--title", "x"])
        .exits(64);
    assert!(ran.err.contains("--input"), "{}", ran.err);
    let ran = aviary.call(&["--outptu", "json", "../bird"]).exits(64);
    assert!(ran.err.contains("did you mean `--output`?"), "{}", ran.err);
    // Nothing was started.
    assert!(aviary.audited("tool.invoke").is_empty());
    assert!(!aviary.audited("tool.refused").is_empty());
}

#[test]
fn values_are_arguments_and_never_shell_code_or_options() {
    proves!("A29-CMD-08");
    let aviary = Aviary::new("");
    for text in [
        "$(touch made)",
        "`touch made`",
        "; touch made",
        "a' b\" && touch made",
        "a\nb",
    ] {
        let ran = aviary.bird(&["show", "args", "--title", text]).exits(0);
        assert_eq!(
            ran.text(),
            format!("<args><--title><{text}><--state><open>\n")
        );
        assert!(!aviary.at("work/made").exists());
    }
    let ran = aviary
        .bird(&["show", "args", "--title", "--help me"])
        .exits(0);
    assert_eq!(ran.text(), "<args><--title=--help me><--state><open>\n");
    let ran = aviary
        .bird(&["run", "say", "--text", "--version"])
        .exits(64);
    assert!(ran.err.contains("`/text` begins with `-`"), "{}", ran.err);
}

#[test]
fn commands_and_inputs_are_listed() {
    let aviary = Aviary::new("");
    let ran = aviary.bird(&[]).exits(0);
    assert!(
        ran.text().contains("  show args  Does args.\n"),
        "{}",
        ran.text()
    );
    let ran = aviary.bird(&["run"]).exits(0);
    assert!(ran.text().contains("run say") && !ran.text().contains("show args"));
    let list = aviary.result(&[], 0);
    let commands = list["commands"].as_array().expect("commands");
    assert_eq!(commands.len(), 6);
    assert_eq!(commands[0]["path"], json!(["show", "args"]));
    assert_eq!(commands[0]["id"], "bird-args");
    assert_eq!(
        commands[0]["inputs"]["properties"]["limit"]["type"],
        "integer"
    );
    for help in ["--help", "-h"] {
        let ran = aviary.bird(&["show", "args", help]).exits(0);
        let text = ran.text();
        assert!(
            text.contains("--title <STRING>") && text.contains("Title of the bird"),
            "{text}"
        );
        assert!(
            text.contains("--labels <STRING>…") && text.contains("  --draft\n"),
            "{text}"
        );
        assert!(text.contains("[possible values: open, closed]"), "{text}");
    }
    // One broken tool does not hide the others.
    fs::remove_file(aviary.at("bird/tools/say/TOOL.md")).expect("removed");
    let ran = aviary.bird(&[]).exits(0);
    assert!(ran.text().contains("cannot be called"), "{}", ran.text());
    aviary.bird(&["show", "args"]).exits(0);
    aviary.bird(&["run", "say", "--text", "x"]).exits(65);
}

#[test]
fn a_target_is_a_name_a_file_or_a_tool() {
    let aviary = Aviary::new("");
    let adapters = aviary.at("home/adapters");
    fs::create_dir_all(&adapters).expect("made");
    std::os::unix::fs::symlink(aviary.at("bird"), adapters.join("bird")).expect("linked");
    for target in ["bird", "../bird/CLI.md", "../bird"] {
        aviary.call(&[target, "show", "args"]).exits(0);
    }
    let ran = aviary
        .call(&["../bird/tools/args/TOOL.md", "--title", "x"])
        .exits(0);
    assert_eq!(ran.text(), "<args><--title><x><--state><open>\n");
    let ran = aviary.call(&["mock-acp", "x"]).exits(65);
    assert!(ran.err.contains("describes an agent"), "{}", ran.err);
    aviary.call(&["../nothing"]).exits(66);
}

#[test]
fn fixed_arguments_and_the_json_flag_surround_the_template() {
    proves!("A29-OPT-02", "A29-OPT-03", "A29-OUT-02", "A29-OUT-03");
    let blocks = "bin_args: [-q]\noutput: { default_format: text, json_flag: '--format json', json_flag_args: ['a,b'] }";
    let aviary = Aviary::new(blocks);
    aviary.tool(
        "any",
        "{ arg: { type: string } }",
        r#"[json, --, "${input.arg}"]"#,
        "",
    );
    let result = aviary.result(&["run", "any", "--arg", "-x"], 0);
    assert_eq!(result["value"]["args"], "json --format json a,b -- -x");
    aviary.tool("any", "{ }", "[json, last]", "");
    let result = aviary.result(&["run", "any"], 0);
    assert_eq!(result["value"]["args"], "json last --format json a,b");
    // A tool that passes the flag itself does not get it twice.
    aviary.tool("any", "{ }", "[json, --format, json, own]", "");
    let result = aviary.result(&["run", "any"], 0);
    assert_eq!(result["value"]["args"], "json --format json own");
    // Plain output does not ask for JSON.
    let ran = aviary.bird(&["show", "args"]).exits(0);
    assert_eq!(ran.text(), "<args><--state><open>\n");
}

#[test]
fn the_result_has_its_schema_and_the_output_in_its_format() {
    proves!("A29-OUT-01", "A29-OUT-14");
    let schema: Value =
        serde_json::from_str(include_str!("../../schemas/call-result.schema.json")).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let aviary = Aviary::new("");
    let result = aviary.result(&["run", "say", "--text", "hello"], 0);
    assert!(schema.is_valid(&result), "{result:#}");
    assert_eq!(result["schema"], "agentproto.call/v1");
    assert_eq!(result["command"], "run say");
    assert_eq!(result["target"]["id"], "bird");
    assert_eq!(
        (&result["ok"], &result["exit_code"], &result["meaning"]),
        (&json!(true), &json!(0), &json!("ok"))
    );
    assert_eq!(
        (&result["text"], &result["value"]),
        (&json!("hello"), &Value::Null)
    );
    assert_eq!(result["stderr"], "a note\n");
    let cases = [("json", "json"), ("yaml", "yaml"), ("binary", "bytes")];
    for (format, verb) in cases {
        let aviary = Aviary::new(&format!("output: {{ default_format: {format} }}"));
        let result = aviary.result(&["run", "any", "--verb", verb], 0);
        assert!(schema.is_valid(&result), "{result:#}");
        match format {
            "json" => assert_eq!(result["value"]["items"], json!([1, 2])),
            "yaml" => assert_eq!(result["value"], json!({ "items": [1, "two"] })),
            _ => assert_eq!(
                (&result["base64"], &result["text"]),
                (&json!("/wBh"), &Value::Null)
            ),
        }
        if format == "binary" {
            assert_eq!(
                aviary.bird(&["run", "any", "--verb", "bytes"]).exits(0).out,
                b"\xff\0a"
            );
        }
    }
}

#[test]
fn output_that_is_not_in_its_format_is_reported() {
    let aviary = Aviary::new("output: { default_format: json }");
    let result = aviary.result(&["run", "say", "--text", "{ not json"], 1);
    assert_eq!(result["ok"], false);
    assert_eq!(result["error"]["code"], "output_invalid");
    assert_eq!(result["text"], "{ not json");
    let more = "x-unused: 1\n".replace("x-unused: 1\n", "");
    aviary.write(
        "bird/tools/say/TOOL.md",
        &tool(
            "say",
            "{ text: { type: string } }",
            r#"[say, "${input.text}"]"#,
            &more,
        )
        .replace(
            "outputs: { }",
            "outputs: { type: object, required: [number] }",
        ),
    );
    let result = aviary.result(&["run", "say", "--text", "{}"], 0);
    assert_eq!(result["warnings"][0]["code"], "output_schema_mismatch");
    let result = aviary.result(&["run", "say", "--text", "{\"number\":1}"], 0);
    assert_eq!(result["warnings"], json!([]));
}

#[test]
fn exit_codes_have_declared_and_reserved_meanings() {
    proves!(
        "A29-OUT-04",
        "A29-OUT-06",
        "A29-OUT-07",
        "A29-OUT-09",
        "A29-OUT-10",
        "A29-OUT-11"
    );
    let aviary = Aviary::new("output: { exit_codes: { 0: ok, 3: rate_limited, 5: ok } }");
    for (tool_code, meaning, code) in [
        ("1", "error", 1),
        ("2", "usage_error", 1),
        ("3", "rate_limited", 1),
        ("4", "auth_required", 77),
        ("5", "ok", 0),
        ("9", "error", 1),
        ("124", "timeout", 75),
        ("137", "killed", 1),
    ] {
        let result = aviary.result(&["run", "exit", "--code", tool_code], code);
        assert_eq!(result["meaning"], meaning, "{tool_code}");
        assert_eq!(result["exit_code"].to_string(), tool_code);
        assert_eq!(result["stderr"], "it broke\n");
        assert_eq!(result["ok"], code == 0);
    }
    let result = aviary.result(&["run", "any", "--verb", "kill"], 1);
    assert_eq!(
        (&result["meaning"], &result["exit_code"]),
        (&json!("killed"), &json!(137))
    );
    let ran = aviary.bird(&["run", "exit", "--code", "3"]).exits(1);
    assert!(
        ran.err.contains("it broke\n") && ran.err.contains("exit code 3 (rate_limited)"),
        "{}",
        ran.err
    );
}

pub const LOGIN: &str = "auth:\n  state: { paths: [], env: [] }\n  login: { cmd: 'bird login', completes_when: { cmd: 'test -e session' } }\n\
    \x20 expiry: { detect: 'exit_code:7' }";

#[test]
fn an_unauthed_or_expired_login_is_auth_required_with_the_login_command() {
    proves!(
        "A29-AUTH-11",
        "A29-LOGIN-04",
        "A29-LOGIN-05",
        "A29-LOGIN-06"
    );
    let aviary = Aviary::new(LOGIN);
    let ran = aviary.bird(&["show", "args"]).exits(77);
    assert!(
        ran.err.contains("auth_required") && ran.err.contains("bird login"),
        "{}",
        ran.err
    );
    assert_eq!(ran.text(), "");
    assert!(aviary.audited("tool.invoke").is_empty());
    aviary.write("work/session", "");
    aviary.bird(&["show", "args"]).exits(0);
    let result = aviary.result(&["run", "exit", "--code", "7"], 77);
    assert_eq!(result["meaning"], "auth_required");
    assert_eq!(result["error"]["details"]["login"], "bird login");
    // The state is unauthed again, so the next call checks the login first.
    fs::remove_file(aviary.at("work/session")).expect("removed");
    aviary.bird(&["show", "args"]).exits(77);
    let states = aviary.audited("auth.state");
    assert_eq!(
        states.last().map(|state| state["to"].clone()),
        Some(json!("unauthed"))
    );
}

#[test]
fn a_due_refresh_runs_before_the_call() {
    proves!("A29-AUTH-09", "A29-LOGIN-07");
    let aviary = Aviary::new(&format!(
        "{LOGIN}\n  refresh: {{ cmd: 'bird write refreshed', every: PT1S }}"
    ));
    aviary.write("work/session", "");
    aviary.bird(&["show", "args"]).exits(0);
    assert!(!aviary.at("work/refreshed").exists());
    std::thread::sleep(Duration::from_millis(2100));
    aviary.bird(&["show", "args"]).exits(0);
    assert!(aviary.at("work/refreshed").exists());
}

#[test]
fn setup_values_and_secrets_reach_the_tool_and_nothing_else_does() {
    proves!("A29-SETUP-17", "A29-SBX-10", "A29-SBX-11");
    let setup = "setup:\n  - { id: pick, kind: prompt, prompt: Name, default: robin, persist: { env: BIRD_NAME } }\n\
                 auth: { state: { env: [BIRD_KEY] } }";
    let aviary = Aviary::new(setup);
    let ran = aviary
        .bird(&["show", "env", "--name", "BIRD_NAME"])
        .exits(78);
    assert!(ran.err.contains("setup_required"), "{}", ran.err);
    let call = |name: &str| {
        let mut command = aviary.command(&["--yes", "../bird", "show", "env", "--name", name]);
        command
            .env("BIRD_KEY", "canary-0815-hunter")
            .env("OTHER", "no");
        String::from_utf8(command.output().expect("it runs").stdout).expect("text")
    };
    assert_eq!(call("BIRD_NAME"), "BIRD_NAME=robin\n");
    assert_eq!(call("FIXED"), "FIXED=1\n");
    assert_eq!(call("OTHER"), "OTHER=\n");
    // The tool gets the secret, and its output is masked.
    assert_eq!(call("BIRD_KEY"), "BIRD_KEY=[secret]\n");
    let log = fs::read_to_string(aviary.at("home/audit/audit-log.jsonl")).expect("a log");
    assert!(!log.contains("canary-0815-hunter"));
}

#[test]
fn the_sandbox_of_the_tool_narrows_that_of_the_bundle() {
    proves!(
        "A29-INHERIT-01",
        "A29-INHERIT-02",
        "A29-INHERIT-03",
        "A29-SBX-01",
        "A29-SBX-06"
    );
    let aviary = Aviary::new("");
    let words = ["run", "any", "--verb", "write", "--arg", "made"];
    aviary.bird(&words).exits(0);
    assert!(aviary.at("work/made").exists());
    fs::remove_file(aviary.at("work/made")).expect("removed");
    let properties = "{ verb: { type: string }, arg: { type: string } }";
    let argv = r#"["${input.verb}", "${input.arg}"]"#;
    aviary.tool("any", properties, argv, "sandbox: { fs: { write: [] } }");
    aviary.bird(&words).exits(1);
    assert!(!aviary.at("work/made").exists());
    aviary.tool(
        "any",
        properties,
        argv,
        "sandbox: { network: { egress: [api.example.com] } }",
    );
    for more in [&[][..], &["--sandbox", "off"]] {
        let ran = aviary
            .call(&[more, &["../bird"], &words].concat())
            .exits(65);
        assert!(ran.err.contains("sandbox_widens"), "{}", ran.err);
    }
    assert!(!aviary.at("work/made").exists());
}

/// A tool cannot name another bundle as its parent to get a wider sandbox.
#[test]
fn the_called_bundle_is_the_one_that_is_narrowed() {
    proves!("A29-INHERIT-03");
    let aviary = Aviary::new("");
    let wide = fs::read_to_string(aviary.at("bird/CLI.md")).expect("a file");
    aviary.write(
        "wide/CLI.md",
        &wide.replace("egress: []", "egress: ['api.example.com']"),
    );
    let text = tool(
        "any",
        "{ }",
        "[args]",
        "sandbox: { network: { egress: [api.example.com] } }",
    );
    aviary.write(
        "bird/tools/any/TOOL.md",
        &text.replace("../../CLI.md", "../../../wide/CLI.md"),
    );
    let ran = aviary.bird(&["run", "any"]).exits(65);
    assert!(ran.err.contains("sandbox_widens"), "{}", ran.err);
}

#[test]
fn a_tool_that_requires_a_terminal_gets_one() {
    proves!("A29-SBX-12");
    for (required, expected) in [(true, "terminal"), (false, "pipe")] {
        let aviary = Aviary::with_sandbox("", &format!("  tty: {{ required: {required} }}"));
        let result = aviary.result(&["run", "any", "--verb", "tty"], 0);
        assert_eq!(result["text"], format!("{expected}\n"));
    }
}

#[test]
fn a_slow_tool_is_killed_at_its_time_limit() {
    let aviary = Aviary::new("");
    let started = Instant::now();
    let ran = aviary.call(&[
        "--timeout",
        "1",
        "--output",
        "json",
        "../bird",
        "run",
        "any",
        "--verb",
        "sleep",
    ]);
    let result = ran.exits(75).json();
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(
        (&result["meaning"], &result["text"]),
        (&json!("timeout"), &json!("started\n"))
    );
    assert_eq!(result["error"]["code"], "tool_timeout");
    // The TOOL.md's own limit applies, and the caller cannot extend it.
    aviary.tool(
        "any",
        "{ verb: { type: string } }",
        r#"["${input.verb}"]"#,
        "timeout_ms: 500",
    );
    let ran = aviary.call(&[
        "--timeout",
        "50",
        "--output",
        "json",
        "../bird",
        "run",
        "any",
        "--verb",
        "sleep",
    ]);
    let result = ran.exits(75).json();
    assert_eq!(result["warnings"][0]["code"], "timeout_not_extended");
}

#[test]
fn a_flood_is_cut_in_the_result_and_streamed_as_text() {
    let aviary = Aviary::new("");
    aviary.tool(
        "any",
        "{ verb: { type: string } }",
        r#"["${input.verb}"]"#,
        "timeout_ms: 3000",
    );
    let ran = aviary.call(&[
        "--output", "json", "../bird", "run", "any", "--verb", "flood",
    ]);
    let result = ran.exits(75).json();
    assert_eq!(result["truncated"], true);
    assert!(
        result["text"]
            .as_str()
            .is_some_and(|text| text.len() <= 8 << 20)
    );
    // A reader that stops reading ends the tool.
    let mut command = aviary.command(&["../bird", "run", "any", "--verb", "flood"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let mut first = [0; 64];
    let mut stdout = child.stdout.take().expect("a pipe");
    std::io::Read::read_exact(&mut stdout, &mut first).expect("output");
    drop(stdout);
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}

#[test]
fn an_interrupt_ends_the_tool() {
    let aviary = Aviary::new("");
    for output in ["text", "jsonl"] {
        let args = [
            "--output", output, "../bird", "run", "any", "--verb", "sleep",
        ];
        let mut command = aviary.command(&args);
        let mut child = command
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("started");
        let mut stdout = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
        let mut lines = String::new();
        while !lines.contains("started") {
            assert_ne!(
                std::io::BufRead::read_line(&mut stdout, &mut lines).expect("a line"),
                0,
                "{lines}"
            );
        }
        // SAFETY: a process of this test.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        std::io::Read::read_to_string(&mut stdout, &mut lines).expect("the rest");
        assert_eq!(child.wait().expect("an end").code(), Some(130), "{lines}");
        if output == "jsonl" {
            let last: Value =
                serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
            assert_eq!(
                (&last["type"], &last["reason"]),
                (&json!("aoi:summary"), &json!("interrupted"))
            );
        }
    }
}

#[test]
fn background_processes_do_not_outlive_the_call() {
    let aviary = Aviary::new("");
    let started = Instant::now();
    aviary.bird(&["run", "any", "--verb", "leave"]).exits(0);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn events_show_the_output_and_then_the_result() {
    let aviary = Aviary::new("");
    let ran = aviary
        .call(&[
            "--output", "jsonl", "../bird", "run", "say", "--text", "hällo",
        ])
        .exits(0);
    let text = ran.text();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let kinds: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["type"].as_str())
        .collect();
    let kinds: Vec<&str> = kinds
        .into_iter()
        .filter(|kind| *kind != "aoi:progress")
        .collect();
    assert_eq!(kinds.first(), Some(&"aoi:meta"));
    assert_eq!(kinds[kinds.len() - 2..], ["result", "aoi:summary"]);
    let said = lines
        .iter()
        .filter(|line| line["type"] == "tool-output" && line["stream"] == "stdout");
    let said: String = said.filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(said, "hällo");
    let ran = aviary
        .call(&["--output", "jsonl", "../bird", "run", "exit", "--code", "1"])
        .exits(1);
    assert!(ran.text().contains("\"TOOL_FAILED\""), "{}", ran.text());
    let ran = aviary.call(&["--output", "jsonl", "../bird"]).exits(0);
    assert_eq!(ran.text().matches("\"type\":\"tool-command\"").count(), 6);
}

#[test]
fn a_program_that_vanishes_is_a_typed_error() {
    let aviary = Aviary::new("");
    // The version check removes the program.
    let text = fs::read_to_string(aviary.at("bird/CLI.md")).expect("a file");
    let text = text.replace(
        "cmd: 'bird --version'",
        "cmd: 'sh -c \"echo bird 1.5.0; rm ../bird/bin/bird\"'",
    );
    aviary.write("bird/CLI.md", &text);
    let ran = aviary
        .call(&["--sandbox", "off", "../bird", "show", "args"])
        .exits(69);
    assert!(
        ran.err.contains("program_not_found") || ran.err.contains("spawn_failed"),
        "{}",
        ran.err
    );
}

#[test]
fn requirements_are_checked_even_if_the_program_is_there() {
    proves!("A29-INSTALL-16");
    let aviary = Aviary::new("requires: { os: [windows] }");
    let ran = aviary.bird(&["show", "args"]).exits(69);
    assert!(ran.err.contains("install_failed"), "{}", ran.err);
    let aviary = Aviary::new("requires: { os: [linux, windows] }");
    aviary.bird(&["show", "args"]).exits(0);
}

#[test]
fn templates_with_unknown_inputs_or_secrets_are_invalid() {
    let aviary = Aviary::new("");
    for argv in [
        r#"[args, "${input.nope}"]"#,
        r#"[args, "${secrets.key}"]"#,
        r#"[args, "${env.HOME}"]"#,
        r#"[args, "${input.arg"]"#,
        r#"[args, "${input.arg | nope}"]"#,
    ] {
        aviary.tool("any", "{ arg: { type: string } }", argv, "");
        let ran = aviary.bird(&["run", "any", "--arg", "x"]).exits(65);
        assert!(
            ran.err.contains("manifest_invalid") && ran.err.contains("TOOL.md:"),
            "{argv}: {}",
            ran.err
        );
    }
}

#[test]
fn every_call_is_audited_without_secrets() {
    let aviary = Aviary::new("");
    aviary.tool(
        "any",
        "{ token: { type: string }, arg: { type: string } }",
        r#"[args, "${input.arg}"]"#,
        "",
    );
    aviary
        .bird(&["run", "any", "--arg", "x", "--token", "canary-0815-hunter"])
        .exits(0);
    let calls = aviary.audited("tool.invoke");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["command"], "run any");
    assert_eq!(
        calls[0]["input"],
        json!({ "arg": "x", "token": "[redacted]" })
    );
    let ends = aviary.audited("tool.exit");
    assert_eq!(
        (&ends[0]["id"], &ends[0]["meaning"]),
        (&calls[0]["id"], &json!("ok"))
    );
    let log = fs::read_to_string(aviary.at("home/audit/audit-log.jsonl")).expect("a log");
    assert!(!log.contains("canary-0815-hunter"));
}
