//! Real programs work under tight policies, and fail with a message about the clause when a
//! permission that they need is removed. `tests/programs/run` installs the programs and runs these
//! tests.
#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentproto_sandbox::backend;
use agentproto_sandbox::confined;
use agentproto_sandbox::diagnose::diagnose;
use agentproto_sandbox::egress::SystemResolver;
use agentproto_sandbox::egress::audit::AuditEntry;
use agentproto_sandbox::helper;
use agentproto_sandbox::policy::{self, HostContext, SandboxManifest};
use agentproto_sandbox::spawn::{Piece, SpawnOptions};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

/// A workspace with a policy.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new(programs: &[&str]) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        for program in programs {
            let there = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
            assert!(there, "{program} is not installed: run tests/programs/run");
        }
        let dir = tempfile::Builder::new()
            .prefix("programs-")
            .tempdir()
            .expect("temporary directory");
        for name in ["work", "data"] {
            fs::create_dir(dir.path().join(name)).expect("directory");
        }
        let place = Self { dir };
        fs::write(place.path("data/text"), "a word to be found\n").expect("file");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.dir.path())
            .expect("real path")
            .join(name)
    }

    /// Runs a command in `work` with this sandbox block. `DIR` in the block is replaced with this
    /// directory.
    fn run(&self, backend: &str, block: &str, command: &[&str]) -> Output {
        let here = self.path("").display().to_string();
        let here = here.trim_end_matches('/');
        let policy = self.path("policy.yaml");
        fs::write(&policy, block.replace("DIR", here)).expect("policy");
        Command::new(env!("CARGO_BIN_EXE_agentproto"))
            .args(["sandbox", "run", "--backend", backend])
            .arg(&policy)
            .arg("--")
            .args(command.iter().map(|word| word.replace("DIR", here)))
            .current_dir(self.path("work"))
            .output()
            .expect("started")
    }

    fn works(&self, block: &str, command: &[&str]) -> String {
        let mut said = String::new();
        for backend in backends() {
            let output = self.run(backend, block, command);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{backend}: {command:?}: {errors}");
            said = String::from_utf8_lossy(&output.stdout).into_owned();
            let _ = fs::remove_dir_all(self.path("work/copy"));
        }
        said
    }

    /// Expects a failure whose message names the clause.
    fn fails(&self, block: &str, command: &[&str], clause: &str) {
        for backend in backends() {
            let output = self.run(backend, block, command);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(
                !output.status.success(),
                "{backend}: {command:?} works without {clause}"
            );
            let named = errors
                .lines()
                .any(|line| line.starts_with("agentproto: ") && line.contains(clause));
            assert!(named, "{backend}: {clause} is not named: {errors}");
        }
    }
}

/// All backends. If this machine lacks one, the test fails.
fn backends() -> [&'static str; 2] {
    [
        backend::Backend::Native.as_str(),
        backend::Backend::Bubblewrap.as_str(),
    ]
}

fn run_plainly(dir: &Path, command: &[&str]) {
    let output = Command::new(command[0])
        .args(&command[1..])
        .current_dir(dir)
        .output()
        .expect("started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}

/// A29-SBX-06, A29-SBX-09.
#[test]
#[ignore = "needs git"]
fn git_clones() {
    let place = Place::new(&["git", "sh"]);
    let source = place.path("data");
    for command in [
        &["git", "init", "-q"][..],
        &["git", "add", "."],
        &[
            "git",
            "-c",
            "user.name=n",
            "-c",
            "user.email=e",
            "commit",
            "-qm",
            "one",
        ],
    ] {
        run_plainly(&source, command);
    }
    let clone = ["git", "clone", "DIR/data", "copy"];
    let all = "{fs: {read: [DIR/data/**], write: [DIR/work/**]}, exec: {allow: true, spawn: [git, git-upload-pack, sh]}}";
    place.works(all, &clone);
    let unread = all.replace("read: [DIR/data/**], ", "");
    place.fails(&unread, &clone, "`fs.read`");
    let unwritten = all.replace("write: [DIR/work/**]", "write: [DIR/elsewhere/**]");
    place.fails(
        &unwritten.replace("read: [", "read: [DIR/work/**, "),
        &clone,
        "`fs.write`",
    );
    let alone = all.replace(
        "allow: true, spawn: [git, git-upload-pack, sh]",
        "allow: false",
    );
    place.fails(&alone, &clone, "`exec.allow`");
}

/// A29-SBX-06, A29-SBX-08.
#[test]
#[ignore = "needs python3"]
fn python_reads_and_writes() {
    let place = Place::new(&["python3"]);
    let all = "{fs: {read: [DIR/data/**], write: [DIR/work/**]}, exec: {allow: false}}";
    let copy = "import json, ssl, sqlite3; open('out', 'w').write(open('DIR/data/text').read()); print('done')";
    let command = ["python3", "-c", copy];
    assert_eq!(place.works(all, &command), "done\n");
    assert!(place.path("work/out").exists());
    place.fails(
        &all.replace("DIR/data/**", "DIR/none/**"),
        &command,
        "`fs.read`",
    );
    let unwritten = "{fs: {read: [DIR/data/**, DIR/work/**]}, exec: {allow: false}}";
    place.fails(unwritten, &command, "`fs.write`");
    let child = ["python3", "-c", "import os; os.fork()"];
    place.fails(all, &child, "`exec.allow`");
}

/// A29-SBX-06, A29-SBX-08, A29-SBX-09.
#[test]
#[ignore = "needs node"]
fn node_starts_listed_programs() {
    let place = Place::new(&["node"]);
    let read = [
        "node",
        "-e",
        "console.log(require('fs').readFileSync('DIR/data/text', 'utf8'))",
    ];
    let all = "{fs: {read: [DIR/data/**, DIR/work/**]}, exec: {allow: true, spawn: [node]}}";
    assert!(place.works(all, &read).contains("a word"));
    place.fails(&all.replace("DIR/data/**, ", ""), &read, "`fs.read`");
    let child = [
        "node",
        "-e",
        "console.log(require('child_process').execFileSync('node', ['-p', '6 * 7'], {encoding: 'utf8'}))",
    ];
    assert!(place.works(all, &child).contains("42"));
    let alone = all.replace("allow: true, spawn: [node]", "allow: false");
    place.fails(&alone, &child, "`exec.allow`");
}

/// A29-SBX-06, A29-SBX-08.
#[test]
#[ignore = "needs ripgrep"]
fn ripgrep_searches() {
    let place = Place::new(&["rg"]);
    let all = "{fs: {read: [DIR/data/**]}, exec: {allow: false}}";
    let search = ["rg", "a word", "DIR/data"];
    assert!(place.works(all, &search).contains("a word to be found"));
    place.fails(
        "{fs: {read: [DIR/work/**]}, exec: {allow: false}}",
        &search,
        "`fs.read`",
    );
}

/// A45-SBX-02: a compiler, a linker and the programs that they start. With AIP-29, cargo works as
/// far as its list of programs allows.
#[test]
#[ignore = "needs a C compiler"]
fn cargo_builds() {
    let place = Place::new(&["cargo", "rustc", "cc"]);
    let work = place.path("work");
    fs::create_dir(work.join("src")).expect("directory");
    let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    fs::write(work.join("Cargo.toml"), manifest).expect("manifest");
    let source = "fn main() { println!(\"built\") }\n";
    fs::write(work.join("src/main.rs"), source).expect("source");
    let build = ["cargo", "build", "--offline", "--target-dir", "copy"];
    place.works("{provider: local}", &build);
    let mount = |mode: &str| {
        format!(
            "{{provider: local, mounts: [{{source: workspace, at: /workspace, mode: {mode}}}]}}"
        )
    };
    place.works(&mount("read-write"), &build);
    place.fails(&mount("read-only"), &build, "`mounts`");
    let no_compiler =
        "{fs: {read: [~/.rustup/**], write: [DIR/work/**]}, exec: {allow: true, spawn: [cargo]}}";
    place.fails(no_compiler, &build, "`exec.spawn`");
}

/// The example agent of the ACP SDK, and the directory of the packages that it imports.
fn example_agent() -> (PathBuf, PathBuf) {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/programs/node_modules");
    let agent = packages.join("@agentclientprotocol/sdk/dist/examples/agent.js");
    assert!(
        agent.is_file(),
        "the ACP SDK is not installed: run tests/programs/run"
    );
    (agent, packages)
}

/// The response of an agent to the first request, and the sandbox's hints after its exit.
struct Meeting {
    answer: Option<serde_json::Value>,
    ended_well: bool,
    hints: Vec<String>,
    errors: String,
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;

impl Place {
    /// Starts an agent, sends `initialize`, and stops it step by step.
    async fn meet(&self, backend: backend::Backend, block: &str, command: &[OsString]) -> Meeting {
        helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
        let file = self.path("policy.yaml");
        fs::write(&file, block).expect("policy");
        let target = SandboxManifest::load(&file).expect("a target");
        let mut around = HostContext::of_this_process(&target.dir()).expect("surroundings");
        around.cwd = self.path("work");
        let policy = policy::resolve(&target, &around, command).expect("a policy");
        assert!(policy.egress.is_empty(), "the agent needs no network");
        let mut words = command.to_vec();
        words[0] = around.find(&command[0]).expect("a program").into();
        let backend = backend::choose(Some(backend));
        let prepared = confined::prepare(&policy, &words, &backend).expect("prepared");
        let sink = Arc::new(Mutex::new(Vec::<AuditEntry>::new()));
        let start = confined::start(
            prepared,
            SpawnOptions::default(),
            Arc::new(SystemResolver),
            sink,
        );
        let mut agent = start.await.expect("started");
        let stdin = agent.child.stdin.as_mut().expect("stdin");
        // An agent that has already exited does not read it.
        let _ = stdin.write_all(format!("{INITIALIZE}\n").as_bytes()).await;
        let stdout = agent.child.stdout.as_mut().expect("stdout");
        let heard = tokio::time::timeout(Duration::from_secs(30), stdout.next()).await;
        let answer = match heard.expect("an answer or an end in time") {
            Some(Piece::Line { bytes, .. }) => {
                Some(serde_json::from_slice(&bytes).expect("an answer in JSON"))
            }
            Some(other) => panic!("expected a line, found: {other:?}"),
            None => None,
        };
        let exit = agent.stop().await;
        agent.child.stderr.finish().await;
        let errors = agent.child.stderr.text();
        Meeting {
            answer,
            ended_well: exit.status.success(),
            hints: diagnose(&policy, &errors, &[]),
            errors,
        }
    }
}

/// A29-SBX-06, A29-SBX-09, A45-SBX-02: an agent built with the TypeScript SDK of ACP works inside
/// the sandbox, without a network.
#[tokio::test]
#[ignore = "needs node and the ACP SDK"]
async fn an_acp_agent_responds() {
    let place = Place::new(&["node", "env"]);
    let (agent, packages) = example_agent();
    let by_node: [OsString; 3] = ["env".into(), "node".into(), agent.clone().into()];
    let packages = packages.display();
    let all =
        format!("{{fs: {{read: [\"{packages}/**\"]}}, exec: {{allow: true, spawn: [node]}}}}");
    for backend in [backend::Backend::Native, backend::Backend::Bubblewrap] {
        let local = [agent.clone().into()];
        for (block, command) in [("{provider: local}", &local[..]), (&all, &by_node)] {
            let met = place.meet(backend, block, command).await;
            let errors = &met.errors;
            let answer = met.answer.expect("an answer");
            assert_eq!(answer["id"], 0, "{backend:?}: {block}: {answer}");
            let version = &answer["result"]["protocolVersion"];
            assert_eq!(version, 1, "{backend:?}: {block}: {answer} {errors}");
            assert!(met.ended_well, "{backend:?}: {block}: {errors}");
        }
        let no_node = all.replace("[node]", "[git]");
        let met = place.meet(backend, &no_node, &by_node).await;
        assert!(met.answer.is_none() && !met.ended_well, "{backend:?}");
        let named = met.hints.iter().any(|hint| hint.contains("`exec.spawn`"));
        assert!(named, "{backend:?}: {:?} {}", met.hints, met.errors);
        let no_package = all.replace(&format!("{packages}/**"), &format!("{packages}/zod/**"));
        let met = place.meet(backend, &no_package, &by_node).await;
        assert!(met.answer.is_none() && !met.ended_well, "{backend:?}");
        assert!(met.errors.contains("Cannot find module"), "{}", met.errors);
        let named = met.hints.iter().any(|hint| hint.contains("`fs.read`"));
        assert!(named, "{backend:?}: {:?} {}", met.hints, met.errors);
    }
}
