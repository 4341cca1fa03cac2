//! Helpers shared by the tests that start child processes: a plan that mounts the system
//! directories, and a second run of the tests as an unprivileged user.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

use agentproto_sandbox::bwrap::{self, Bubblewrap, HelperCapability};
use agentproto_sandbox::helper;
use agentproto_sandbox::plan::{Confinement, Mount, MountKind, PlanKind, Raw, Rights, SpawnPlan};
use agentproto_sandbox::probe;
use agentproto_sandbox::spawn::{Child, Piece};

/// Path of the binary in the second run, because its user may not have access to the build
/// directory.
const BINARY: &str = "AGENTPROTO_TEST_BINARY";

/// The mechanism that starts the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Guard,
    Native,
    Bubblewrap,
    /// Bubblewrap on a system where it has no privilege to mount.
    WeakBubblewrap,
}

pub const ALL: [Backend; 4] = [
    Backend::Guard,
    Backend::Native,
    Backend::Bubblewrap,
    Backend::WeakBubblewrap,
];
pub const CONFINED: [Backend; 3] = [
    Backend::Native,
    Backend::Bubblewrap,
    Backend::WeakBubblewrap,
];

impl Backend {
    /// Converts a native plan to a plan for this backend.
    pub fn carry(self, plan: SpawnPlan) -> SpawnPlan {
        let bubblewrap = |capability| {
            let found = probe::bubblewrap().expect("bubblewrap works");
            let found = Bubblewrap {
                capability,
                ..found.clone()
            };
            bwrap::plan(plan.clone(), &found).expect("a plan")
        };
        match self {
            Self::Guard => SpawnPlan {
                kind: PlanKind::Guard,
                confinement: None,
                ..plan
            },
            Self::Native => plan,
            Self::Bubblewrap => bubblewrap(HelperCapability::Mounts),
            Self::WeakBubblewrap => bubblewrap(HelperCapability::LandlockOnly),
        }
    }
}

pub fn plan(backend: Backend, argv: &[&str]) -> SpawnPlan {
    backend.carry(native(argv))
}

pub fn native(argv: &[&str]) -> SpawnPlan {
    let binary = std::env::var_os(BINARY);
    helper::use_binary(binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_agentproto").into()));
    SpawnPlan {
        kind: PlanKind::Native,
        argv: argv.iter().map(Raw::from).collect(),
        env: vec![(Raw::from("PATH"), Raw::from("/usr/bin:/bin"))],
        cwd: Raw::from("/"),
        tty: false,
        no_stdin: false,
        linger_ms: 0,
        rlimits: vec![],
        cgroups: vec![],
        leftovers: vec![],
        confinement: Some(system()),
        sources: vec![],
        source_identities: vec![],
        inner: None,
    }
}

/// The system directories, read-only, and nothing else.
pub fn system() -> Confinement {
    let mut mounts = vec![];
    let mut landlock = vec![];
    for path in ["/usr", "/etc"] {
        let bind = MountKind::Bind {
            source: Raw::from(path),
            writable: false,
            exec: true,
        };
        mounts.push(at(path, bind));
        landlock.push(rights(path, false, true));
    }
    for (path, to) in [
        ("/bin", "usr/bin"),
        ("/lib", "usr/lib"),
        ("/lib64", "usr/lib64"),
    ] {
        mounts.push(at(path, MountKind::Symlink { to: Raw::from(to) }));
    }
    mounts.push(at("/proc", MountKind::Proc));
    let size = 64 << 20;
    mounts.push(at("/dev", MountKind::Dev { size }));
    let exec = false;
    mounts.push(at("/tmp", MountKind::Private { exec, size }));
    for (path, write) in [("/proc", false), ("/dev", true), ("/tmp", true)] {
        landlock.push(rights(path, write, false));
    }
    Confinement {
        mounts,
        landlock,
        ..Confinement::default()
    }
}

pub fn at(path: impl AsRef<Path>, what: MountKind) -> Mount {
    Mount {
        at: Raw::from(path.as_ref()),
        what,
    }
}

pub fn rights(path: impl AsRef<Path>, write: bool, exec: bool) -> Rights {
    Rights {
        path: Raw::from(path.as_ref()),
        write,
        exec,
    }
}

pub async fn lines(child: &mut Child) -> Vec<String> {
    let mut all = vec![];
    let stdout = child.stdout.as_mut().expect("pipes");
    while let Some(piece) = stdout.next().await {
        match piece {
            Piece::Line { bytes, .. } => all.push(String::from_utf8_lossy(&bytes).into_owned()),
            other => all.push(format!("{other:?}")),
        }
    }
    all
}

/// An argument of `sleep` that no other process uses.
pub fn marker(runner: u32, backend: Backend) -> String {
    format!("{}.{}", 300_000 + runner, backend as u32)
}

/// Whether a process with this argument is alive.
pub fn runs(marker: &str) -> bool {
    std::fs::read_dir("/proc")
        .expect("proc")
        .flatten()
        .any(|entry| {
            std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| {
                line.split(|b| *b == 0)
                    .any(|word| word == marker.as_bytes())
            })
        })
}

/// Runs this test binary again as the user `nobody`, with `/` as the working directory.
pub fn again_as_user() {
    // SAFETY: `getuid` takes no arguments and cannot fail.
    if unsafe { libc::getuid() } != 0 {
        return;
    }
    let dir = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()
        .expect("directory");
    let copy = |from: &Path, name: &str| -> PathBuf {
        let to = dir.path().join(name);
        std::fs::copy(from, &to).expect("copied");
        to
    };
    let tests = copy(&std::env::current_exe().expect("this test"), "tests");
    let binary = copy(Path::new(env!("CARGO_BIN_EXE_agentproto")), "agentproto");
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(tests)
        .env(BINARY, binary)
        .env("HOME", "/nonexistent")
        .current_dir("/")
        .output();
    let Ok(output) = output else { return };
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
