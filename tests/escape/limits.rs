//! Memory and fork bombs: stopped by the limits of the plan, or refused before anything starts.

use std::path::{Path, PathBuf};

use agentproto_sandbox::build;
use agentproto_sandbox::plan::{Raw, Resource};

use crate::matrix::Control::Escapes;
use crate::matrix::{backends, command, observe, unconfined, wall};
use crate::policies::{listed, visible};
use crate::world::{Host, World, is_root};

/// A45-SBX-02 (`limits`).
#[tokio::test]
async fn a_memory_bomb() {
    let host = Host::new();
    let case = wall("much_memory", "1024", "A45-SBX-02", Escapes);
    for policy in [listed, visible] {
        let world = World::new(&host);
        let command = command(&world, "much_memory", "1024");
        let mut plan = build::plan(&policy(&world), &command);
        let control = observe(&unconfined(plan.clone()), &world, &case).await;
        assert_eq!(control.outcome, "escaped", "control: {}", control.how);
        plan.rlimits.push((Resource::AddressSpace, 256 << 20));
        for (name, backend) in backends() {
            let Ok(plan) = backend(plan.clone()) else {
                continue;
            };
            let seen = observe(&plan, &world, &case).await;
            assert_eq!(seen.outcome, "blocked", "{name}: {}", seen.how);
        }
    }
}

/// A45-SBX-02 (`limits`). The kernel does not limit the number of processes for root, so the run as
/// root needs a control group.
#[tokio::test]
async fn a_fork_bomb() {
    let host = Host::new();
    let case = wall("many_processes", "300", "A45-SBX-02", Escapes);
    for policy in [listed, visible] {
        let world = World::new(&host);
        let command = command(&world, "many_processes", "300");
        let plan = build::plan(&policy(&world), &command);
        let control = observe(&unconfined(plan.clone()), &world, &case).await;
        assert_eq!(control.outcome, "escaped", "control: {}", control.how);
        for (name, backend) in backends() {
            let mut plan = plan.clone();
            let group = is_root().then(|| process_group(40));
            match &group {
                Some(None) => {
                    println!(
                        "root: fork bomb not tested, because there is no control group with a process limit"
                    );
                    return;
                }
                Some(Some(group)) => {
                    plan.cgroups = vec![Raw::from(&group.join("cgroup.procs"))];
                    plan.leftovers.push(Raw::from(group));
                }
                None => plan.rlimits.push((Resource::Processes, 40)),
            }
            let group = group.flatten();
            let Ok(plan) = backend(plan) else {
                let _ = group.map(std::fs::remove_dir);
                continue;
            };
            let seen = observe(&plan, &world, &case).await;
            assert_eq!(seen.outcome, "blocked", "{name}: {}", seen.how);
            if let Some(group) = group {
                let gone = (0..100).any(|_| {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    !group.exists()
                });
                assert!(gone, "{} was not removed", group.display());
            }
        }
    }
}

/// Creates a control group with a process limit.
fn process_group(limit: u32) -> Option<PathBuf> {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    for root in ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"] {
        let group = Path::new(root).join(format!("escape-test-{}-{number}", std::process::id()));
        if std::fs::create_dir(&group).is_err() {
            continue;
        }
        if std::fs::write(group.join("pids.max"), limit.to_string()).is_ok() {
            return Some(group);
        }
        let _ = std::fs::remove_dir(&group);
    }
    None
}
