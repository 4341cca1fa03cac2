//! Starting children, with and without a sandbox: streams, signals, the end, and that
//! nothing outlives it (A45-LIFE-09, A44-LIFEC-03, A44-SEC-08).
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use agentproto::runtime::helper;
use agentproto::runtime::sandbox::plan::{Confinement, Kind, Mount, Plan, Raw, Rights, What};
use agentproto::runtime::spawn::{Options, Piece, SpawnError, Stdio, spawn};
use tokio::io::AsyncWriteExt;

fn plan(kind: Kind, argv: &[&str]) -> Plan {
    helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
    Plan {
        kind,
        argv: argv.iter().map(Raw::from).collect(),
        env: vec![(Raw::from("PATH"), Raw::from("/usr/bin:/bin"))],
        cwd: Raw::from("/"),
        tty: false,
        rlimits: vec![],
        cgroups: vec![],
        leftovers: vec![],
        confinement: (kind == Kind::Native).then(system),
    }
}

/// The system directories, read-only, and nothing else.
fn system() -> Confinement {
    let mut mounts = vec![];
    let mut landlock = vec![];
    let at = |path: &str, what| Mount {
        at: Raw::from(path),
        what,
    };
    for path in ["/usr", "/etc"] {
        mounts.push(at(
            path,
            What::Bind {
                source: Raw::from(path),
                writable: false,
                exec: true,
            },
        ));
        landlock.push(Rights {
            path: Raw::from(path),
            write: false,
            exec: true,
        });
    }
    for (path, to) in [
        ("/bin", "usr/bin"),
        ("/lib", "usr/lib"),
        ("/lib64", "usr/lib64"),
    ] {
        mounts.push(at(path, What::Symlink { to: Raw::from(to) }));
    }
    mounts.push(at("/proc", What::Proc));
    mounts.push(at("/dev", What::Dev));
    mounts.push(at("/tmp", What::Private { exec: false }));
    for (path, write) in [("/proc", false), ("/dev", true), ("/tmp", true)] {
        landlock.push(Rights {
            path: Raw::from(path),
            write,
            exec: false,
        });
    }
    Confinement {
        mounts,
        landlock,
        proxy: false,
        ..Confinement::default()
    }
}

const KINDS: [Kind; 2] = [Kind::Guard, Kind::Native];

async fn lines(child: &mut agentproto::runtime::spawn::Child) -> Vec<String> {
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

#[tokio::test]
async fn streams_and_exit_status() {
    for kind in KINDS {
        let plan = plan(kind, &["/bin/sh", "-c", "cat; echo tail >&2; exit 3"]);
        let mut child = spawn(&plan, Options::default()).await.expect("started");
        let mut stdin = child.stdin.take().expect("stdin");
        stdin.write_all(b"one\ntwo\n").await.expect("written");
        drop(stdin);
        assert_eq!(lines(&mut child).await, ["one", "two"], "{kind:?}");
        let exit = child.wait().await;
        assert_eq!(exit.status.code(), Some(3), "{kind:?}");
        assert_eq!(child.stderr.text(), "tail\n", "{kind:?}");
        assert!(exit.usage.peak_kb > 0, "{kind:?}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told() {
    for kind in KINDS {
        let plan = plan(kind, &["/no/such/program"]);
        let error = spawn(&plan, Options::default())
            .await
            .err()
            .expect("refused");
        let SpawnError::Failed { step, error } = error else {
            panic!("{kind:?}: {error}");
        };
        assert_eq!(step, "execute /no/such/program", "{kind:?}");
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{kind:?}");
    }
}

#[tokio::test]
async fn the_ladder_ends_what_ignores_it() {
    for kind in KINDS {
        let plan = plan(
            kind,
            &[
                "/bin/sh",
                "-c",
                "trap '' TERM; echo up; while :; do sleep 1; done",
            ],
        );
        let mut child = spawn(&plan, Options::default()).await.expect("started");
        let up = child.stdout.as_mut().expect("pipes").next().await;
        assert!(matches!(up, Some(Piece::Line { .. })));
        let begin = Instant::now();
        let exit = child
            .stop_within(Duration::from_millis(50), Duration::from_millis(300))
            .await;
        assert!(begin.elapsed() >= Duration::from_millis(350), "{kind:?}");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&exit.status),
            Some(9)
        );
    }
}

/// Children in other sessions, double forks and daemons go with it.
#[tokio::test]
async fn nothing_outlives_the_child() {
    for kind in KINDS {
        let marker = format!("{}", 300_000 + std::process::id() + kind as u32);
        let script = format!(
            "setsid sleep {marker} & (setsid sh -c 'sleep {marker} & sleep {marker}' &) ; sleep {marker} & sleep 0.2; echo ready; exit 0"
        );
        let plan = plan(kind, &["/bin/sh", "-c", &script]);
        let mut child = spawn(&plan, Options::default()).await.expect("started");
        let exit = child.wait().await;
        assert_eq!(exit.status.code(), Some(0));
        assert!(exit.usage.survivors >= 3, "{kind:?}: {:?}", exit.usage);
        assert!(!runs(&marker), "{kind:?}");
    }
}

/// Whether a process with this argument is alive.
fn runs(marker: &str) -> bool {
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

#[tokio::test]
async fn a_time_limit_kills() {
    for kind in KINDS {
        let plan = plan(kind, &["/bin/sleep", "60"]);
        let options = Options {
            timeout: Some(Duration::from_millis(100)),
            ..Options::default()
        };
        let mut child = spawn(&plan, options).await.expect("started");
        let exit = child.wait().await;
        assert!(exit.timed_out, "{kind:?}");
    }
}

/// A29-SBX-12.
#[tokio::test]
async fn a_terminal_is_a_terminal() {
    for kind in KINDS {
        let mut plan = plan(
            kind,
            &["/bin/sh", "-c", "test -t 0 && test -t 1 && stty size"],
        );
        plan.tty = true;
        let options = Options {
            stdio: Stdio::Terminal {
                rows: 33,
                columns: 77,
            },
            ..Options::default()
        };
        let mut child = spawn(&plan, options).await.expect("started");
        let terminal = child.terminal.take().expect("terminal");
        let mut text = Vec::new();
        let mut buffer = [0; 256];
        while let Ok(read) = terminal.read(&mut buffer).await {
            if read == 0 {
                break;
            }
            text.extend_from_slice(&buffer[..read]);
        }
        assert_eq!(String::from_utf8_lossy(&text).trim(), "33 77", "{kind:?}");
        assert_eq!(child.wait().await.status.code(), Some(0), "{kind:?}");
    }
}

#[tokio::test]
async fn the_sandbox_has_its_own_processes_and_files() {
    let script = "ls /; ps ax 2>/dev/null | wc -l; ls /root /home 2>&1; cat /proc/1/environ 2>&1; id -u; ls /proc/self/fd | wc -l";
    let plan = plan(Kind::Native, &["/bin/sh", "-c", script]);
    let mut child = spawn(&plan, Options::default()).await.expect("started");
    let text = lines(&mut child).await;
    assert!(!text.iter().any(|l| l == "work" || l == "home"), "{text:?}");
}
