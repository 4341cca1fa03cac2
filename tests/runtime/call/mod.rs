//! `agentproto call` and the library behind it, with small shell scripts as tools (AIP-29).

mod entry;
mod host;
mod http;
mod inputs;
mod mcp;
mod results;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

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

struct Aviary {
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
    fn new(blocks: &str) -> Aviary {
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

    fn tool(&self, id: &str, properties: &str, argv: &str, more: &str) {
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

    fn replace(&self, path: &str, old: &str, new: &str) {
        let text = fs::read_to_string(self.at(path)).expect("a file");
        assert_eq!(text.matches(old).count(), 1, "{path}: {old}");
        self.write(path, &text.replace(old, new));
    }

    fn agentproto(&self, args: &[&str]) -> std::process::Command {
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
    fn is_running(&self, verb: &str) -> bool {
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

    fn audited(&self, event: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.at("home/audit/audit-log.jsonl")).unwrap_or_default();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let lines = lines.filter(|line| line["event"] == event);
        lines.map(|line| line["data"].clone()).collect()
    }
}

const LOGIN: &str = "auth:\n  state: { paths: [], env: [] }\n  login: { cmd: 'bird login', completes_when: { cmd: 'test -e session' } }\n\
    \x20 expiry: { detect: 'exit_code:7' }";
