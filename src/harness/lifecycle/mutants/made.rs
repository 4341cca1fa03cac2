//! From a few changed words to a bundle on disk, and to a report about it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::harness::lifecycle::{BundleTarget, Choices};
use crate::harness::model::{Report, Target};
use crate::harness::run::process::Launcher;
use crate::harness::run::{self, Options, Progress, Setting, Workspace, prompts};
use crate::harness::suite;
use crate::mock;
use crate::runtime::bundle::Bundle;
use crate::runtime::context::Sandboxing;
use crate::runtime::helper;
use crate::runtime::home::write_with_mode;

const WRAPPER: &str = include_str!("../../../../mock-agents/shell/wrapper.sh");
const ADAPTER: &str = include_str!("../../../../mock-agents/shell/adapter.sh");

/// Patience with mocks, which answer at once or never.
const PATIENCE: Duration = Duration::from_secs(8);

/// Of a file, the words that are replaced.
pub type Edit = (&'static str, &'static str, &'static str);

/// What stands behind `bin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The mock itself.
    Mock,
    /// A script, `agent.sh`, that becomes the mock.
    Script,
    /// A script, `adapter.sh`, that is an executable adapter.
    Adapter,
}

/// How a bundle is made.
#[derive(Debug)]
pub struct Made {
    /// The mock bundle that it starts from.
    pub from: &'static str,
    pub body: Body,
    pub edits: &'static [Edit],
    /// Variables of the caller.
    pub variables: &'static [(&'static str, &'static str)],
    /// Confirmed beforehand: setup steps run.
    pub yes: bool,
}

/// The manifest with a script for `bin`.
const SCRIPTED: &[Edit] = &[
    ("AGENT-CLI.md", "bin: agentproto\n", "bin: ./agent.sh\n"),
    (
        "AGENT-CLI.md",
        r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#,
        "bin_args: [serve]",
    ),
    (
        "AGENT-CLI.md",
        "cmd: agentproto --version",
        "cmd: ./agent.sh --version",
    ),
];

/// The manifest of an executable adapter.
const ADAPTED: &[Edit] = &[
    (
        "AGENT-CLI.md",
        "codec: claude-stream-json",
        "adapter_exec: [./adapter.sh]",
    ),
    (
        "AGENT-CLI.md",
        "bidirectional: false",
        "bidirectional: true",
    ),
    (
        "AGENT-CLI.md",
        "supported: [native-resume, transcript, none]",
        "supported: [native-resume, pinned-session, transcript, none]",
    ),
];

impl Made {
    pub const fn of(from: &'static str, edits: &'static [Edit]) -> Made {
        Made {
            from,
            body: Body::Mock,
            edits,
            variables: &[],
            yes: false,
        }
    }

    pub const fn script(edits: &'static [Edit]) -> Made {
        Made {
            body: Body::Script,
            ..Made::of("mock-acp", edits)
        }
    }

    pub const fn adapter(edits: &'static [Edit]) -> Made {
        Made {
            body: Body::Adapter,
            ..Made::of("mock-repl", edits)
        }
    }

    pub const fn with(self, variables: &'static [(&'static str, &'static str)]) -> Made {
        Made { variables, ..self }
    }

    pub const fn confirmed(self) -> Made {
        Made { yes: true, ..self }
    }

    /// Writes the bundle into a directory.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        let bundle = mock::bundles().iter().find(|b| b.name == self.from);
        let bundle = bundle.ok_or_else(|| io::Error::other("there is no such mock"))?;
        let mut files: Vec<(String, String, u32)> = Vec::new();
        for (name, bytes, _) in bundle.files {
            let text = String::from_utf8_lossy(bytes).into_owned();
            files.push(((*name).to_owned(), text, 0o600));
        }
        let own: &[Edit] = match self.body {
            Body::Mock => &[],
            Body::Script => {
                // A sandbox shows a script with the package around it.
                let package = "{ \"private\": true }\n".to_owned();
                files.push(("package.json".to_owned(), package, 0o600));
                files.push(("agent.sh".to_owned(), WRAPPER.to_owned(), 0o700));
                program(dir)?;
                SCRIPTED
            }
            Body::Adapter => {
                files.push(("adapter.sh".to_owned(), ADAPTER.to_owned(), 0o700));
                ADAPTED
            }
        };
        for (file, old, new) in own.iter().chain(self.edits) {
            let there = files.iter_mut().find(|(name, _, _)| name == file);
            match there {
                Some((_, text, _)) if text.contains(old) => *text = text.replacen(old, new, 1),
                _ => {
                    let what = format!("`{old}` is not in {file}");
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
        // `agentproto` is this very binary.
        bundle.built_in = true;
        let mut choices = Choices {
            sandboxing,
            yes: self.yes,
            ..Choices::default()
        };
        for (name, value) in self.variables {
            choices.host_env.retain(|(known, _)| known != name);
            choices.host_env.push((name.into(), value.into()));
        }
        Ok(BundleTarget::new(bundle, choices, run))
    }
}

/// The mock's program beside the script, without its bytes where that is possible.
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

struct Silent;
impl Progress for Silent {}

static GO_ON: AtomicBool = AtomicBool::new(false);

/// The lifecycle suite over a bundle that was made; `only` as in `certify --only`.
pub async fn trial(
    made: &Made,
    only: &[String],
    jobs: usize,
    sandboxing: Sandboxing,
) -> Result<Report, String> {
    let suite = suite::built_in("lifecycle").and_then(Result::ok);
    let suite = suite.ok_or_else(|| "there is no suite of the lifecycle".to_owned())?;
    let workspace = Workspace::new().map_err(|error| error.to_string())?;
    let target = made.target(workspace.path(), sandboxing)?;
    let told = Target {
        kind: "bundle".to_owned(),
        name: target.name(),
        ..Target::default()
    };
    let setting = Setting {
        launcher: Launcher::of_bundle(Arc::new(target)),
        prompts: prompts::of_mock(),
        timeout: PATIENCE,
        quiet: Duration::from_millis(300),
        grace: Duration::from_millis(1000),
        auth_method: None,
        model: None,
        workspace,
        home: None,
        state_variable: None,
    };
    let options = Options {
        jobs,
        shard: None,
        stop: &GO_ON,
        keep_transcripts: false,
        only: only.to_vec(),
    };
    let (report, _) = run::run(vec![suite], told, setting, options, Arc::new(Silent)).await;
    Ok(report)
}
