//! Policies for the probes: the probe, the files it needs, and a few directories.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use agentproto_sandbox::clause::Clause;
use agentproto_sandbox::policy::{
    Access, Denial, Exec, HiddenKind, HostContext, PathGrant, Policy, SandboxManifest, SandboxSpec,
    resolve,
};

use crate::world::{World, probe};

/// The files that the probe maps: its libraries.
fn libraries() -> &'static [PathBuf] {
    static FOUND: OnceLock<Vec<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let output = Command::new(probe())
            .arg("libraries")
            .output()
            .expect("probe");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let list = said["how"].as_str().expect("text");
        list.lines().map(PathBuf::from).collect()
    })
}

/// The ELF interpreter of the probe; empty for a static binary.
pub fn loader() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let bytes = std::fs::read(probe()).expect("probe");
        let word = |at: usize, size: usize| {
            bytes[at..at + size]
                .iter()
                .rev()
                .fold(0_u64, |n, b| n << 8 | u64::from(*b)) as usize
        };
        let (table, size, count) = (word(32, 8), word(54, 2), word(56, 2));
        const INTERPRETER: usize = 3;
        let mut headers = (0..count).map(|n| table + n * size);
        let header = headers.find(|at| word(*at, 4) == INTERPRETER);
        header.map(|at| {
            let (begin, length) = (word(at + 8, 8), word(at + 32, 8));
            let text = &bytes[begin..begin + length - 1];
            PathBuf::from(String::from_utf8_lossy(text).into_owned())
        })
    };
    FOUND.get_or_init(|| find().unwrap_or_default()).clone()
}

pub fn clause(text: &str) -> Clause {
    Clause::new("/sandbox", text)
}

pub fn grant(path: impl AsRef<Path>, access: Access, exec: bool) -> PathGrant {
    let path = path.as_ref();
    PathGrant {
        source: path.to_owned(),
        at: path.to_owned(),
        access,
        exec,
        create: None,
        clause: None,
    }
}

fn denial(path: PathBuf, kind: HiddenKind) -> Denial {
    Denial {
        path,
        kind,
        clause: clause("fs.deny"),
    }
}

/// The part that all policies share.
fn common(world: &World, spec: SandboxSpec, exec: Exec) -> Policy {
    let mut grants = vec![
        grant(
            world.path("write"),
            Access::Write,
            spec == SandboxSpec::Aip36,
        ),
        // Like the resolver, mounts every directory on the path to a mask separately.
        grant(
            world.path("write/deep"),
            Access::Write,
            spec == SandboxSpec::Aip36,
        ),
        grant(
            world.path("write/deep/middle"),
            Access::Write,
            spec == SandboxSpec::Aip36,
        ),
        grant(world.path("read"), Access::Read, false),
        grant(world.host_path("sockets"), Access::Write, false),
        grant(
            world.path("other"),
            Access::Read,
            spec == SandboxSpec::Aip36,
        ),
        grant(probe(), Access::Read, true),
    ];
    grants.extend(
        libraries()
            .iter()
            .map(|path| grant(path, Access::Read, true)),
    );
    let interpreter = loader();
    if let (Ok(real), Some(parent)) = (interpreter.canonicalize(), interpreter.parent()) {
        // Mounted under the path that the probe asks for, with symlinks in its directory resolved.
        let parent = parent.canonicalize().expect("real path");
        let mut named = grant(&real, Access::Read, true);
        named.at = parent.join(interpreter.file_name().expect("name"));
        grants.push(named);
    }
    if Path::new("/etc/ld.so.cache").exists() {
        grants.push(grant("/etc/ld.so.cache", Access::Read, false));
    }
    let missing = denial(world.path("write/later"), HiddenKind::Missing);
    let denials = vec![
        denial(world.path("write/secret"), HiddenKind::Directory),
        denial(world.path("write/secret.txt"), HiddenKind::File),
        denial(
            world.path("write/deep/middle/secret"),
            HiddenKind::Directory,
        ),
        denial(world.path("read/secret"), HiddenKind::Directory),
        denial(world.path("read/secret.txt"), HiddenKind::File),
        missing,
    ];
    Policy {
        spec,
        egress: vec![],
        ingress: vec![],
        grants,
        links: vec![],
        denials,
        ineffective: vec![],
        exec,
        env: vec![(OsString::from("GIVEN"), OsString::from("value"))],
        env_clauses: vec![],
        tty: None,
        limits: vec![],
        private_size: 64 << 20,
        create: vec![],
        protected: vec![],
        cwd: world.path("write"),
        home: world.path("home"),
        unenforceable: vec![],
        notes: vec![],
    }
}

/// AIP-29 with only the probe in `exec.spawn`.
pub fn listed(world: &World) -> Policy {
    resolved(world, "{allow: true, spawn: [escape_probe]}")
}

/// AIP-29 with `exec.allow: false`.
pub fn no_exec(world: &World) -> Policy {
    resolved(world, "{allow: false}")
}

/// A sandbox block of a manifest, resolved as for any program.
fn resolved(world: &World, exec: &str) -> Policy {
    let block = world.fill(
        "fs:
  read: ['<read>/**', '<other>/**']
  write: ['<write>/**', '<sockets>/**']
  deny:
    - '<write>/secret/**'
    - '<write>/secret.txt'
    - '<write>/deep/middle/secret/**'
    - '<write>/later'
    - '<read>/secret/**'
    - '<read>/secret.txt'
env:
  set: 
    GIVEN: value
"
        .replace('<', "{")
        .replace('>', "}")
        .as_str(),
    );
    let file = world.path("policy.yaml");
    std::fs::write(&file, format!("{block}exec: {exec}\n")).expect("policy");
    let target = SandboxManifest::load(&file).expect("a policy");
    let directory = probe().parent().expect("directory").as_os_str().to_owned();
    let surroundings = HostContext {
        host_env: vec![
            ("PATH".into(), directory),
            ("LEAKED".into(), "from the runner".into()),
        ],
        home: world.path("home"),
        cwd: world.path("write"),
        bundle: world.root(),
        extra_env: vec![],
        protection: Default::default(),
        defaults: Default::default(),
        state_creation: Default::default(),
    };
    let policy = resolve(&target, &surroundings, &[probe().into_os_string()]).expect("a policy");
    assert!(
        policy.unenforceable.is_empty(),
        "{:?}",
        policy.unenforceable
    );
    policy
}

/// AIP-36: every visible program may run.
pub fn visible(world: &World) -> Policy {
    common(world, SandboxSpec::Aip36, Exec::Visible)
}

/// Like `visible`, plus the set-user-id program that the run as root created.
pub fn setuid(world: &World) -> Policy {
    let mut policy = visible(world);
    policy
        .grants
        .push(grant(world.host_path("setuid"), Access::Read, true));
    policy
}
