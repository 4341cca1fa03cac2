//! A machine for tests: a home, a working directory and a few programs in a temporary directory.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::policy::{Access, Exec, HostContext, Policy, PolicyError, SandboxManifest, resolve};

pub struct Machine {
    _dir: tempfile::TempDir,
    pub root: PathBuf,
    pub env: Vec<(OsString, OsString)>,
    pub extra: Vec<(OsString, OsString)>,
}

impl Machine {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("real");
        let machine = Machine {
            env: vec![("PATH".into(), root.join("bin").into())],
            extra: Vec::new(),
            _dir: dir,
            root,
        };
        for name in ["home", "work", "bundle"] {
            machine.dir(name);
        }
        for name in ["bin/tool", "bin/other", "bin/third"] {
            machine.program(name);
        }
        machine
    }

    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        std::fs::create_dir_all(&path).expect("made");
        path
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(&path, text).expect("written");
        path
    }

    pub fn program(&self, name: &str) -> PathBuf {
        let path = self.file(name, "#!/bin/sh\n");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("set");
        path
    }

    pub fn link(&self, name: &str, to: impl AsRef<Path>) {
        std::os::unix::fs::symlink(to, self.root.join(name)).expect("linked");
    }

    pub fn host_context(&self) -> HostContext {
        HostContext {
            host_env: self.env.clone(),
            home: self.root.join("home"),
            cwd: self.root.join("work"),
            bundle: self.root.join("bundle"),
            extra_env: self.extra.clone(),
            protection: Default::default(),
            defaults: Default::default(),
            state_creation: Default::default(),
        }
    }

    pub fn resolve(&self, file: &str) -> Result<Policy, PolicyError> {
        let manifest = SandboxManifest::load(&self.root.join(file))?;
        resolve(&manifest, &self.host_context(), &["tool".into()])
    }

    /// The policy of a plain YAML block.
    pub fn block(&self, yaml: &str) -> Result<Policy, PolicyError> {
        self.file("bundle/policy.yaml", yaml);
        self.resolve("bundle/policy.yaml")
    }

    pub fn policy(&self, yaml: &str) -> Policy {
        self.block(yaml).expect("a policy")
    }

    /// `-` is hidden, `r` readable, `w` writable, `x` also executable.
    pub fn sees(&self, policy: &Policy, name: &str) -> String {
        let path = self.root.join(name);
        let Some(grant) = policy.access(&path) else {
            return "-".into();
        };
        let access = if grant.access == Access::Write {
            "w"
        } else {
            "r"
        };
        format!("{access}{}", if grant.exec { "x" } else { "" })
    }

    pub fn runs(&self, policy: &Policy, name: &str) -> bool {
        match &policy.exec {
            Exec::Visible => true,
            Exec::Listed { programs, .. } => programs.contains(&self.root.join(name)),
        }
    }
}

/// The reasons why a policy cannot be enforced.
pub fn unenforceable(policy: &Policy) -> Vec<String> {
    let text = |(c, why): &(crate::Clause, String)| format!("{}: {why}", c.text);
    policy.unenforceable.iter().map(text).collect()
}

pub fn value(policy: &Policy, name: &str) -> Option<String> {
    let found = policy.env.iter().find(|(n, _)| n == name);
    found.map(|(_, v)| v.to_string_lossy().into_owned())
}
