//! After many spawns, and after the runner was killed, nothing is left: no process, zombie, mount,
//! namespace, control group, placeholder or descriptor (A45-LIFE-09, A44-LIFEC-03, A44-SEC-08). As
//! root, everything runs a second time as an unprivileged user.
#![cfg(target_os = "linux")]

#[path = "escape/accounts.rs"]
mod accounts;
#[allow(dead_code, reason = "shared with the escape matrix")]
#[path = "escape/policies.rs"]
mod policies;
#[allow(dead_code, reason = "shared with the escape matrix")]
#[path = "escape/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentproto_sandbox::plan::{PlanKind, Raw, SpawnPlan};
use agentproto_sandbox::spawn::{Piece, SpawnOptions, spawn};
use agentproto_sandbox::{build, bwrap, probe};

use world::{Host, World};

/// A process with its start time, so that it is not confused with a later process with the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    pid: u32,
    since: String,
}

struct Status {
    process: Process,
    parent: u32,
    zombie: bool,
    command: String,
}

fn processes() -> Vec<Status> {
    let entries = fs::read_dir("/proc").expect("proc").flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let rest: Vec<&str> = stat.get(stat.rfind(')')? + 2..)?.split(' ').collect();
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            Some(Status {
                process: Process {
                    pid,
                    since: (*rest.get(19)?).to_owned(),
                },
                parent: rest.get(1)?.parse().ok()?,
                zombie: rest.first() == Some(&"Z"),
                command: String::from_utf8_lossy(&command).replace('\0', " "),
            })
        })
        .collect()
}

/// All descendants of a process, without the process itself.
fn descendants(of: u32) -> Vec<Status> {
    let mut all = processes();
    let mut known = BTreeSet::from([of]);
    let mut found = vec![];
    loop {
        let (mine, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|s| known.contains(&s.parent));
        if mine.is_empty() {
            return found;
        }
        known.extend(mine.iter().map(|s| s.process.pid));
        found.extend(mine);
        all = others;
    }
}

fn mounts() -> usize {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    table.lines().count()
}

fn descriptors() -> BTreeSet<String> {
    let entries = fs::read_dir("/proc/self/fd")
        .expect("descriptors")
        .flatten();
    entries
        .filter_map(|entry| {
            let to = fs::read_link(entry.path()).ok()?;
            Some(format!("{:?} {}", entry.file_name(), to.display()))
        })
        .collect()
}

/// The namespaces of these processes and of this process's open files.
fn namespaces(of: &[Status]) -> BTreeSet<PathBuf> {
    let of = of.iter().map(|s| s.process.pid);
    of.filter_map(|pid| fs::read_dir(format!("/proc/{pid}/ns")).ok())
        .flat_map(|dir| dir.flatten())
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .collect()
}

/// Creates a control group with a process limit, if this user can.
fn process_group(mark: &str, number: usize) -> Option<PathBuf> {
    let roots = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(Path::new);
    let root = roots
        .into_iter()
        .find(|root| root.join("cgroup.procs").exists())?;
    let group = root.join(format!("{mark}-{number}"));
    fs::create_dir(&group).ok()?;
    Some(group)
}

/// How a child is started.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Starter {
    Guard,
    Native,
    Bubblewrap,
}

/// The starters that work on this machine.
fn starters() -> Vec<Starter> {
    // Probing for them starts the helper, and this test binary is not the helper.
    world::use_helper();
    let mut all = vec![Starter::Guard, Starter::Native];
    match probe::bubblewrap() {
        Ok(_) => all.push(Starter::Bubblewrap),
        Err(why) => println!("bubblewrap is not tested: {}", why.text),
    }
    all
}

fn plan(world: &World, starter: Starter, args: &[&str]) -> SpawnPlan {
    let mut command = vec![world::probe().into_os_string()];
    command.extend(args.iter().map(Into::into));
    let mut plan = build::plan(&policies::visible(world), &command);
    if starter == Starter::Guard {
        plan.kind = PlanKind::Guard;
        plan.confinement = None;
        plan.leftovers.clear();
    }
    plan
}

/// Converts a finished plan for bubblewrap.
fn carried(plan: SpawnPlan, starter: Starter) -> SpawnPlan {
    match (starter, probe::bubblewrap()) {
        (Starter::Bubblewrap, Ok(found)) => bwrap::plan(plan, found).expect("a plan"),
        _ => plan,
    }
}

async fn eventually(what: &str, within: Duration, mut is_so: impl FnMut() -> Result<(), String>) {
    let begin = Instant::now();
    loop {
        match is_so() {
            Ok(()) => return,
            Err(left) if begin.elapsed() > within => panic!("{what}: {left}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

const SPAWNS: usize = 500;
const AT_ONCE: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_spawns_leave_nothing() {
    // The other tests of this file open descriptors and start children.
    let _alone = ALONE.lock().await;
    let host = Host::new();
    let world = std::sync::Arc::new(World::new(&host));
    let mark = format!("leftover-{}", std::process::id());
    let own = std::process::id();
    let known_namespaces = namespaces(&processes());
    let mounts_before = mounts();
    // The first spawns open descriptors that the runtime keeps, and start its spare helper.
    for starter in [starters(), starters()].concat() {
        one(&world, starter, &mark, 0).await;
    }
    let before: BTreeSet<Process> = descendants(own).into_iter().map(|s| s.process).collect();
    let descriptors_before = descriptors();
    let next = std::sync::Arc::new(AtomicUsize::new(1));
    let workers: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (world, next, mark, all) = (world.clone(), next.clone(), mark.clone(), starters());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= SPAWNS {
                        return;
                    }
                    let starter = all[number % all.len()];
                    one(&world, starter, &mark, number).await;
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("worker");
    }
    let within = Duration::from_secs(2);
    eventually("processes", within, || {
        let marked = processes()
            .into_iter()
            .filter(|s| s.command.contains(&mark));
        let below = descendants(own)
            .into_iter()
            .filter(|s| !before.contains(&s.process));
        let left: Vec<String> = marked
            .chain(below)
            .map(|s| format!("{} {} zombie={}", s.process.pid, s.command, s.zombie))
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join("\n"))
        }
    })
    .await;
    eventually("descriptors", within, || {
        let now = descriptors();
        let new: Vec<&String> = now.difference(&descriptors_before).collect();
        if now.len() <= descriptors_before.len() {
            Ok(())
        } else {
            Err(format!("{new:?}"))
        }
    })
    .await;
    assert_eq!(mounts(), mounts_before, "mounts");
    let held = descriptors();
    let namespace = |d: &String| {
        ["net:[", "mnt:[", "pid:[", "user:[", "ipc:["]
            .iter()
            .any(|n| d.contains(n))
    };
    assert!(!held.iter().any(namespace), "{held:?}");
    // Only our own: other processes may run next to this test.
    let left: Vec<_> = namespaces(&descendants(own))
        .difference(&known_namespaces)
        .cloned()
        .collect();
    assert!(left.is_empty(), "namespaces: {left:?}");
    for root in ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"] {
        let entries = fs::read_dir(root).into_iter().flatten().flatten();
        let left: Vec<_> = entries
            .filter(|e| e.file_name().to_string_lossy().starts_with(&mark))
            .map(|e| e.path())
            .collect();
        assert!(left.is_empty(), "control groups were not removed: {left:?}");
    }
    assert!(
        !world.path("write/later").exists(),
        "a placeholder was not removed"
    );
}

/// Starts one child that leaves three processes behind. Every fifth child is killed while it runs.
async fn one(world: &World, starter: Starter, mark: &str, number: usize) {
    let killed = number / 3 % 5 == 1;
    let mut plan = plan(
        world,
        starter,
        &[if killed { "stay" } else { "linger" }, mark],
    );
    if let Some(group) = process_group(mark, number) {
        plan.cgroups.push(Raw::from(&group.join("cgroup.procs")));
        plan.leftovers.push(Raw::from(&group));
    }
    let plan = carried(plan, starter);
    let mut child = spawn(&plan, SpawnOptions::default())
        .await
        .expect("started");
    if killed {
        let up = child.stdout.as_mut().expect("pipes").next().await;
        assert!(matches!(up, Some(Piece::Line { .. })), "{up:?}");
        child.kill().await;
    } else {
        let exit = child.wait().await;
        assert_eq!(
            exit.status.code(),
            Some(0),
            "{starter:?} {}",
            child.stderr.text()
        );
        // The third process may not have been started yet.
        assert!(
            (2..=3).contains(&exit.usage.survivors),
            "{starter:?} {:?}",
            exit.usage
        );
    }
}

static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Starter that the process started by `the_runner_is_killed` uses.
const RUNNER: &str = "LEFTOVERS_RUNNER";
const SESSIONS: usize = 10;

/// Not an independent test: `the_runner_is_killed` starts it and kills it.
#[tokio::test]
async fn runner() {
    let Ok(kind) = std::env::var(RUNNER) else {
        return;
    };
    let starter = match kind.as_str() {
        "Guard" => Starter::Guard,
        "Native" => Starter::Native,
        _ => Starter::Bubblewrap,
    };
    let host = Host::new();
    let world = World::new(&host);
    println!("\nworld {}", world.root().display());
    let mut children = vec![];
    for _ in 0..SESSIONS {
        let mut child = spawn(
            &carried(plan(&world, starter, &["stay", "x"]), starter),
            SpawnOptions::default(),
        )
        .await
        .expect("started");
        let up = child.stdout.as_mut().expect("pipes").next().await;
        assert!(matches!(up, Some(Piece::Line { .. })), "{up:?}");
        children.push(child);
    }
    println!("all children run");
    tokio::time::sleep(Duration::from_secs(120)).await;
}

#[tokio::test]
async fn the_runner_is_killed() {
    let _alone = ALONE.lock().await;
    let killed = starters().into_iter().map(|starter| (starter, false));
    // Without a sandbox, the targets can stop their helpers first.
    for (starter, are_stopped) in killed.chain([(Starter::Guard, true)]) {
        let kind = &format!("{starter:?}");
        let mounts_before = mounts();
        let mut runner = Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", "runner", "--nocapture"])
            .env(RUNNER, kind)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("runner");
        let mut world = None;
        for line in BufReader::new(runner.stdout.take().expect("piped")).lines() {
            let line = line.expect("text");
            if let Some(at) = line.strip_prefix("world ") {
                world = Some(PathBuf::from(at));
            }
            if line == "all children run" {
                break;
            }
        }
        let world = world.expect("the runner's world");
        let alive: BTreeSet<Process> = descendants(runner.id())
            .into_iter()
            .map(|s| s.process)
            .collect();
        // For each session: one or two helpers, a target and its three children.
        assert!(alive.len() >= SESSIONS * 5, "{kind}: {}", alive.len());
        if are_stopped {
            for helper in descendants(runner.id()) {
                if helper.parent == runner.id() && helper.command.starts_with("agentproto-helper") {
                    // SAFETY: a process of this test.
                    unsafe { libc::kill(helper.process.pid as i32, libc::SIGSTOP) };
                }
            }
        }
        runner.kill().expect("SIGKILL");
        runner.wait().expect("its end");
        let begin = Instant::now();
        eventually(kind, Duration::from_secs(2), || {
            let left: Vec<String> = processes()
                .into_iter()
                // Zombies are reaped by process 1 of the host.
                .filter(|s| alive.contains(&s.process) && !s.zombie)
                .map(|s| format!("{} {}", s.process.pid, s.command))
                .collect();
            if left.is_empty() {
                Ok(())
            } else {
                Err(left.join("\n"))
            }
        })
        .await;
        println!(
            "{kind}: {} processes gone after {:?}",
            alive.len(),
            begin.elapsed()
        );
        assert_eq!(mounts(), mounts_before, "{kind}: mounts");
        assert!(
            !world.join("write/later").exists(),
            "{kind}: a placeholder was not removed"
        );
        fs::remove_dir_all(&world).expect("the runner's world");
    }
}
