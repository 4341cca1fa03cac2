//! Writes a changed mock bundle to disk and runs the lifecycle suite on it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agentproto_harness::lifecycle::{BundleOptions, BundleTarget};
use agentproto_harness::model::{Report, Target};
use agentproto_harness::run::process::Launcher;
use agentproto_harness::run::{self, RunConfig, RunDirectory, RunOptions, RunSecrets, prompts};
use agentproto_harness::suite::{self, Selection};
use agentproto_mock_agents::{self as mock, ADAPTER, WRAPPER};
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::context::Sandboxing;
use agentproto_runtime::home::write_with_mode;
use agentproto_sandbox::helper;

/// Response timeout. The mocks answer at once or never.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Last line of the script.
pub const EXEC: &str = "exec \"$here/agentproto\" mock acp --state .mock-agent -- \"$@\"";

/// The program that `bin` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// The mock itself.
    Mock,
    /// A script, `agent.sh`, that executes the mock.
    Script,
    /// A script, `adapter.sh`, that is an executable adapter.
    Adapter,
}

/// How a bundle is generated.
#[derive(Clone, Debug)]
pub struct BundleSpec {
    /// Name of the mock bundle that it starts from.
    from: &'static str,
    body: Body,
    /// Replacements: file, old text, new text.
    edits: Vec<(String, String, String)>,
    /// Environment variables of the caller.
    variables: Vec<(String, String)>,
    /// Whether setup steps are confirmed in advance.
    yes: bool,
}

fn of(from: &'static str, body: Body) -> BundleSpec {
    BundleSpec {
        from,
        body,
        edits: Vec::new(),
        variables: Vec::new(),
        yes: false,
    }
}

pub fn acp() -> BundleSpec {
    of("mock-acp", Body::Mock)
}

pub fn mcp() -> BundleSpec {
    of("mock-mcp", Body::Mock)
}

pub fn repl() -> BundleSpec {
    of("mock-repl", Body::Mock)
}

/// The ACP mock, started by a script.
pub fn script() -> BundleSpec {
    of("mock-acp", Body::Script)
        .manifest("bin: agentproto\n", "bin: ./agent.sh\n")
        .manifest("[mock, acp, --state, .mock-agent, \"--\"]", "[serve]")
        .manifest("agentproto --version", "./agent.sh --version")
}

/// An executable adapter in shell.
pub fn adapter() -> BundleSpec {
    of("mock-repl", Body::Adapter)
        .manifest("codec: claude-stream-json", "adapter_exec: [./adapter.sh]")
        .manifest("bidirectional: false", "bidirectional: true")
        .manifest("[native-resume, t", "[native-resume, pinned-session, t")
}

/// A script that drops all lines with a word before they reach the agent.
pub fn without_line(word: &str) -> String {
    let agent = EXEC.trim_start_matches("exec ");
    let keep = "printf '%s\\n' \"$line\"";
    let lines = [
        "while IFS= read -r line; do",
        "  case $line in",
        &format!("    *'{word}'*) ;;"),
        &format!("    *) {keep} ;;"),
        "  esac",
        &format!("done | {agent}"),
    ];
    lines.join("\n")
}

impl BundleSpec {
    /// Replaces the first occurrence of `old` in a file of the bundle.
    pub fn edit(mut self, file: &str, old: &str, new: &str) -> BundleSpec {
        let edit = [file, old, new].map(str::to_owned);
        self.edits.push(edit.into());
        self
    }

    /// Replaces the first occurrence of `old` in the manifest.
    pub fn manifest(self, old: &str, new: &str) -> BundleSpec {
        self.edit("AGENT-CLI.md", old, new)
    }

    /// Adds arguments of the mock, written as items of a YAML list.
    pub fn args(self, words: &str) -> BundleSpec {
        match self.from {
            "mock-mcp" => {
                // `bin_args` has the same words, but the server is started with `mcp.args`.
                let command = "command: agentproto\n  args: [mock, mcp,";
                self.manifest(command, &format!("{command} {words},"))
            }
            _ => self.manifest("[mock, acp,", &format!("[mock, acp, {words},")),
        }
    }

    /// Replaces the version command of the manifest.
    pub fn version_command(self, shell: &str) -> BundleSpec {
        let command = format!("cmd: \"sh -c '{shell}'\"");
        self.manifest("cmd: agentproto --version", &command)
    }

    /// Replaces the last line of the script.
    pub fn program(self, shell: &str) -> BundleSpec {
        self.edit("agent.sh", EXEC, shell)
    }

    /// Adds commands to the start of the script.
    pub fn before(self, shell: &str) -> BundleSpec {
        self.program(&format!("{shell}\n{EXEC}"))
    }

    /// Replaces the first occurrence of `old` in the adapter script.
    pub fn edit_adapter(self, old: &str, new: &str) -> BundleSpec {
        self.edit("adapter.sh", old, new)
    }

    /// Adds a login by an environment variable, which the caller has.
    pub fn with_login(self) -> BundleSpec {
        let sandbox = "sandbox: ./SANDBOX.md";
        let auth = format!("auth:\n  state: {{ env: [MOCK_TOKEN] }}\n\n{sandbox}");
        let mut bundle_spec = self.manifest(sandbox, &auth);
        let variable = ["MOCK_TOKEN", "a-token-of-the-caller"].map(str::to_owned);
        bundle_spec.variables.push(variable.into());
        bundle_spec
    }

    /// Declares no continuation except `none`.
    pub fn without_continuation(self) -> BundleSpec {
        let (default, supported) = ("default: native-resume", "[native-resume, pinned-session");
        self.manifest(default, "default: none")
            .manifest(supported, "[none")
            .manifest("[none, transcript, none]", "[none]")
    }

    /// Declares no tool calls, no questions and no continuation.
    pub fn without_optional(self) -> BundleSpec {
        self.manifest("tool_calls: true", "tool_calls: false")
            .manifest("bidirectional: true", "bidirectional: false")
            .without_continuation()
    }

    /// Confirms the setup steps in advance.
    pub fn confirmed(mut self) -> BundleSpec {
        self.yes = true;
        self
    }

    /// Writes the bundle into a directory.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        let bundle = mock::bundles().iter().find(|b| b.name == self.from);
        let bundle = bundle.ok_or_else(|| io::Error::other("unknown mock bundle"))?;
        let mut files: Vec<(String, String, u32)> = Vec::new();
        for (name, bytes, _) in bundle.files {
            let text = String::from_utf8_lossy(bytes).into_owned();
            files.push(((*name).to_owned(), text, 0o600));
        }
        match self.body {
            Body::Mock => {}
            Body::Script => {
                // A sandbox makes the package directory of a script readable.
                let package = "{ \"private\": true }\n".to_owned();
                files.push(("package.json".to_owned(), package, 0o600));
                files.push(("agent.sh".to_owned(), WRAPPER.to_owned(), 0o700));
                program(dir)?;
            }
            Body::Adapter => {
                files.push(("adapter.sh".to_owned(), ADAPTER.to_owned(), 0o700));
            }
        }
        for (file, old, new) in &self.edits {
            let there = files.iter_mut().find(|(name, _, _)| name == file);
            match there {
                Some((_, text, _)) if text.contains(old.as_str()) => {
                    *text = text.replacen(old.as_str(), new, 1)
                }
                _ => {
                    let what = format!("{file} does not contain `{old}`");
                    return Err(io::Error::other(what));
                }
            }
        }
        for (name, text, mode) in files {
            write_with_mode(&dir.join(name), text.as_bytes(), mode)?;
        }
        Ok(())
    }

    /// The bundle as a target of a run whose directory is `run`.
    pub fn target(&self, run: &Path, sandboxing: Sandboxing) -> Result<BundleTarget, String> {
        let dir = run.join("made").join("bundle");
        self.write(&dir).map_err(|error| error.to_string())?;
        let manifest = dir.join("AGENT-CLI.md");
        let mut bundle = Bundle::load(&manifest).map_err(|fault| fault.message)?;
        // `agentproto` in the bundle means this binary.
        bundle.built_in = true;
        let mut choices = BundleOptions {
            sandboxing,
            yes: self.yes,
            ..BundleOptions::default()
        };
        for (name, value) in &self.variables {
            choices.host_env.retain(|(known, _)| known != name.as_str());
            choices.host_env.push((name.into(), value.into()));
        }
        Ok(BundleTarget::new(bundle, choices, run))
    }
}

/// Puts the mock's program beside the script, as a hard link if possible.
fn program(dir: &Path) -> io::Result<PathBuf> {
    let own = helper::own_path()?;
    std::fs::create_dir_all(dir)?;
    let to = dir.join("agentproto");
    match std::fs::hard_link(&own, &to) {
        Ok(()) => {}
        Err(_) => {
            std::fs::copy(&own, &to)?;
        }
    }
    Ok(to)
}

static NEVER_STOP: AtomicBool = AtomicBool::new(false);

/// Runs the lifecycle suite on a bundle. `only` is the same as in `certify --only`.
pub async fn run_suite(
    bundle_spec: &BundleSpec,
    only: &[String],
    jobs: usize,
    sandboxing: Sandboxing,
) -> Result<Report, String> {
    let suite = suite::built_in("lifecycle").and_then(Result::ok);
    let suite = suite.ok_or_else(|| "the lifecycle suite is missing".to_owned())?;
    let suites = Arc::new(vec![suite]);
    let only = Selection::new(only, &suites);
    let only = only.map_err(|unknown| format!("unknown case or requirement `{}`", unknown.word))?;
    let workspace = RunDirectory::new("certify").map_err(|error| error.to_string())?;
    let target = bundle_spec.target(workspace.path(), sandboxing)?;
    let target_info = Target {
        kind: "bundle".to_owned(),
        name: target.name(),
        ..Target::default()
    };
    let launcher = Launcher::Bundle(Arc::new(target));
    let config = RunConfig {
        prompts: prompts::mock_prompts(),
        timeout: TIMEOUT,
        secrets: RunSecrets::default(),
        ..RunConfig::new(launcher, workspace)
    };
    let options = RunOptions {
        jobs,
        shard: None,
        stop: &NEVER_STOP,
        keep_transcripts: false,
        only,
        ..RunOptions::default()
    };
    let result = run::run(suites, target_info, config, options, Arc::new(())).await;
    Ok(result.report)
}
