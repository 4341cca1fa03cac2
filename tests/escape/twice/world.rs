//! A fresh tree for each preparation: a working directory, a bundle, the state of agentproto, and a
//! victim outside.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::preparation::{Kind, Preparation};
use crate::world::probe;

/// An environment variable of the host with the secret.
pub const VARIABLE: &str = "TWICE_SECRET";

/// The binary, which the run as an unprivileged user has a copy of.
pub fn binary() -> PathBuf {
    match std::env::var_os(crate::accounts::HELPER) {
        Some(staged) => staged.into(),
        None => env!("CARGO_BIN_EXE_agentproto").into(),
    }
}

pub struct World {
    _dir: TempDir,
    pub root: PathBuf,
    /// The contents of the victim.
    pub secret: String,
    /// A word that only the preparation writes.
    pub payload: String,
    /// The bundle directory, or the directory of the policy.
    pub bundle: PathBuf,
    /// `$AGENTPROTO_HOME`.
    pub state: PathBuf,
    words: Vec<(&'static str, String)>,
}

impl World {
    pub fn new(preparation: &Preparation) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("twice-")
            .tempdir()
            .expect("temporary directory");
        let root = fs::canonicalize(dir.path()).expect("real path");
        for name in [
            "work",
            "victim/cache",
            "user",
            "adapters",
            "shared",
            "other",
        ] {
            fs::create_dir_all(root.join(name)).expect("directory");
        }
        let (secret, payload) = (random("secret"), random("payload"));
        for name in ["victim/key", "victim/cache/key", "victim/key.txt"] {
            fs::write(root.join(name), &secret).expect("victim");
        }
        fs::write(root.join("work/open.txt"), "open to all").expect("file");
        let bundle = root.join(preparation.bundle);
        fs::create_dir_all(&bundle).expect("directory");
        let state = root.join(preparation.state);
        fs::create_dir_all(&state).expect("directory");
        let mut world = World {
            words: Vec::new(),
            _dir: dir,
            secret,
            payload,
            bundle,
            state,
            root,
        };
        world.name_words(preparation);
        world.write_bundle(preparation);
        world
    }

    fn name_words(&mut self, preparation: &Preparation) {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        // The texts come first, because they contain the names below.
        let manifest = self.bundle.join(preparation.kind.manifest());
        self.words = vec![
            ("<wide>", wide(preparation.kind)),
            ("<wide agent>", wide(Kind::Agent29)),
            ("<wide cli>", wide(Kind::Cli)),
            ("<wide policy>", wide(Kind::Plain)),
            ("<wide sandbox>", wide(Kind::Agent36)),
            ("<hook>", HOOK.to_owned()),
            ("<manifest>", text(&manifest)),
            ("<bundle>", text(&self.bundle)),
            ("<state>", text(&self.state)),
            ("<work>", text(&self.path("work"))),
            ("<victim>", text(&self.path("victim"))),
            ("<root>", text(&self.root)),
            ("<probe>", text(&probe())),
            ("<payload>", self.payload.clone()),
        ];
    }

    /// Replaces the `<names>`.
    pub fn fill(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (name, value) in &self.words {
            out = out.replace(name, value);
        }
        out
    }

    /// A list of steps as the probe takes it.
    pub fn steps(&self, list: &[&[&str]]) -> String {
        let filled: Vec<Vec<String>> = list
            .iter()
            .map(|step| step.iter().map(|word| self.fill(word)).collect())
            .collect();
        serde_json::to_string(&filled).expect("JSON")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A command of the host in the working directory.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let (own, probe) = (binary(), probe());
        let dirs = [&probe, &own].map(|file| file.parent().expect("directory").to_owned());
        let host = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(dirs.into_iter().chain(std::env::split_paths(&host)));
        command
            .env_clear()
            .env("PATH", path.expect("search path"))
            .env("HOME", self.path("user"))
            .env("AGENTPROTO_HOME", &self.state)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env(VARIABLE, &self.secret)
            .current_dir(self.path("work"));
        command
    }

    /// Carries out steps without a sandbox.
    pub fn unconfined(&self, list: &[&[&str]]) -> String {
        let mut command = self.command(&probe());
        command.arg("steps").arg(self.steps(list));
        let output = command.output().expect("probe");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Every file of the victim with its contents.
    pub fn victim(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut left = vec![self.path("victim")];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let path = entry.path();
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => {
                        found.insert(path.clone(), Vec::new());
                        left.push(path);
                    }
                    Ok(kind) if kind.is_file() => {
                        found.insert(path.clone(), fs::read(&path).unwrap_or_default());
                    }
                    _ => drop(found.insert(path, Vec::new())),
                }
            }
        }
        found
    }

    /// Whether a text holds the secret, in either direction.
    pub fn leaks(&self, text: &str) -> bool {
        let backwards: String = self.secret.chars().rev().collect();
        text.contains(&self.secret) || text.contains(&backwards)
    }

    fn write_bundle(&self, preparation: &Preparation) {
        let put = |name: &str, text: &str| {
            let path = self.bundle.join(name);
            fs::create_dir_all(path.parent().expect("directory")).expect("directory");
            fs::write(path, self.fill(text)).expect("manifest");
        };
        let block = block(preparation, "  ");
        let state = match preparation.state_paths {
            [] => String::new(),
            paths => format!("auth:\n  state:\n    paths: {}\n", quoted(paths)),
        };
        let sandbox = match preparation.mounted {
            true => SANDBOX.replace(
                "network:",
                "mounts: [{source: workspace, at: /workspace}]\nnetwork:",
            ),
            false => SANDBOX.to_owned(),
        };
        match preparation.kind {
            Kind::Plain => put("policy.yaml", &format!("sandbox:\n{block}")),
            Kind::Cli => put("CLI.md", &cli(&block)),
            Kind::Tool => {
                put("../CLI.md", &cli(&block));
                put("TOOL.md", TOOL);
            }
            Kind::Sandbox => put("SANDBOX.md", &sandbox),
            Kind::Agent36 | Kind::Named => {
                put(
                    preparation.kind.manifest(),
                    &agent(&state, "sandbox: ./SANDBOX.md\n"),
                );
                put("SANDBOX.md", &sandbox);
                put("ACP.md", ACP);
            }
            Kind::Agent29 => {
                put(
                    "AGENT-CLI.md",
                    &agent(&state, &format!("sandbox:\n{block}")),
                );
                put("ACP.md", ACP);
            }
        }
    }
}

fn random(what: &str) -> String {
    use std::hash::{BuildHasher, Hasher};
    let hasher = || std::hash::RandomState::new().build_hasher().finish();
    format!("{what}-{:016x}{:016x}", hasher(), hasher())
}

fn quoted(list: &[&str]) -> String {
    let all: Vec<String> = list.iter().map(|entry| format!("{entry:?}")).collect();
    format!("[{}]", all.join(", "))
}

fn block(preparation: &Preparation, indent: &str) -> String {
    let read = quoted(&[&["./**"], preparation.read].concat());
    let write = quoted(&[&["./**"], preparation.write].concat());
    let deny = match preparation.deny {
        [] => String::new(),
        list => format!(", deny: {}", quoted(list)),
    };
    format!(
        "{indent}network: {{egress: []}}\n\
         {indent}fs: {{read: {read}, write: {write}{deny}}}\n\
         {indent}exec: {{allow: true, spawn: [escape_probe]}}\n"
    )
}

/// A block that grants everything of the world, in the manifest of this kind.
fn wide(kind: Kind) -> String {
    let block = "  network: {egress: []}\n  \
                 fs: {read: [\"<root>/**\"], write: [\"<root>/**\"]}\n  \
                 exec: {allow: true, spawn: [escape_probe]}\n";
    match kind {
        Kind::Plain => format!("sandbox:\n{block}"),
        Kind::Cli | Kind::Tool => cli(block),
        // AIP-36 grants no other paths, but it passes variables of the host.
        Kind::Sandbox | Kind::Agent36 => SANDBOX.replace(
            "network:",
            &format!("env: {{passthrough: [{VARIABLE}]}}\nnetwork:"),
        ),
        Kind::Agent29 | Kind::Named => agent("", &format!("sandbox:\n{block}")),
    }
}

fn agent(state: &str, sandbox: &str) -> String {
    format!(
        "---\nname: bundle\nid: bundle\ndescription: The agent of the second escape matrix.\n\
         version: 1.0.0\nbin: escape_probe\nbin_args: [agent]\n\
         version_check:\n  cmd: escape_probe version\n  parse: '(\\S+)'\n  range: \">=1 <2\"\n\
         protocol: acp\nacp: ./ACP.md\n{state}{sandbox}---\n"
    )
}

fn cli(block: &str) -> String {
    format!(
        "---\nname: bundle\nid: bundle\ndescription: The tool of the second escape matrix.\n\
         version: 1.0.0\nbin: escape_probe\nsandbox:\n{block}---\n"
    )
}

const TOOL: &str = "---\nname: probe\nid: probe\ndescription: A tool.\nversion: 1.0.0\n---\n";

const SANDBOX: &str = "---\nschema: sandbox/v1\nid: \"@agentproto/twice\"\nversion: 1.0.0\n\
                       provider: local\nnetwork: {egress: []}\n---\n";

const ACP: &str = "---\nname: bundle\nid: bundle-server\ndescription: The ACP server.\n\
                   version: 1.0.0\nkind: server\ntransport: stdio\n---\n";

/// A program that leaves a trace at the victim.
const HOOK: &str = "#!/bin/sh\necho <payload> > <victim>/executed\n";
