//! `exec.allow` and `exec.spawn`.

use crate::matrix::Control::{Escapes, Kernel};
use crate::matrix::{Case, run, twin, wall};
use crate::policies::{listed, no_exec, visible};

const LIST: &str = "A29-SBX-09 A29-SEC-04";
const FORK: &str = "A29-SBX-08 A29-SEC-04";

/// Every way to start a program that no list names.
fn unlisted() -> Vec<Case> {
    let mut cases = vec![
        wall("exec", "{other}/unlisted", LIST, Escapes),
        wall("exec_by_descriptor", "{other}/unlisted", LIST, Escapes),
        wall("loader", "{loader} {other}/unlisted", LIST, Escapes),
        wall("memory", "{probe}", LIST, Kernel),
        wall("memory_executable", "{probe}", LIST, Kernel),
        wall("memory_loader", "{probe} {loader}", LIST, Kernel),
        wall("memory_sealed_loader", "{probe} {loader}", LIST, Kernel),
    ];
    for directory in WRITABLE {
        cases.extend([
            wall("exec_copy", directory[0], LIST, Escapes),
            wall("loader_copy", directory[1], LIST, Escapes),
            wall("script", directory[0], LIST, Escapes),
            wall("map_written", directory[2], LIST, Escapes),
            wall("protect_written", directory[2], LIST, Escapes),
        ]);
    }
    cases.into_iter().map(Case::replaces).collect()
}

/// Every directory that the child can write to: arguments for the three kinds of probes.
const WRITABLE: [[&str; 3]; 3] = [
    ["{probe} {write}", "{loader} {probe} {write}", "{write}"],
    ["{probe} /tmp", "{loader} {probe} /tmp", "/tmp"],
    ["{probe} /dev/shm", "{loader} {probe} /dev/shm", "/dev/shm"],
];

#[tokio::test]
async fn only_listed_programs() {
    agentproto_suites::proves!("A29-PRIN-02", "A29-SBX-09", "A29-SEC-04");
    let mut cases = unlisted();
    cases.push(wall("run", "{other}/unlisted", LIST, Escapes));
    cases.push(wall("posix_spawn", "{other}/unlisted", LIST, Escapes));
    cases.push(twin("exec", "{probe}", LIST));
    cases.push(twin("run", "{probe}", LIST));
    cases.push(twin("fork", "", LIST));
    cases.push(twin("posix_spawn", "{probe}", LIST));
    cases.push(twin("thread", "", LIST));
    run("exec/29", listed, &cases).await;
}

#[tokio::test]
async fn no_processes_are_allowed() {
    agentproto_suites::proves!("A29-SBX-08", "A29-SEC-04");
    let mut cases = unlisted();
    cases.extend([
        wall("fork", "", FORK, Escapes),
        wall("clone", "", FORK, Escapes),
        wall("clone_as_thread_of_none", "", FORK, Escapes),
        wall("clone3", "", FORK, Kernel),
        wall("posix_spawn", "{probe}", FORK, Escapes),
        wall("run", "{probe}", FORK, Escapes),
        twin("thread", "", FORK),
    ]);
    #[cfg(target_arch = "x86_64")]
    cases.extend([
        wall("vfork", "", FORK, Escapes),
        wall("x32_fork", "", FORK, Kernel),
    ]);
    run("no exec/29", no_exec, &cases).await;
}

/// AIP-36 does not list programs: every visible program runs, including those that the agent
/// builds.
#[tokio::test]
async fn visible_programs() {
    let cases = [
        twin("exec", "{other}/unlisted", "A45-SBX-02"),
        twin("run", "{other}/unlisted", "A45-SBX-02"),
        twin("exec_copy", "{probe} {write}", "A45-SBX-02"),
        twin("script", "{probe} {write}", "A45-SBX-02"),
        twin("thread", "", "A45-SBX-02"),
        wall("exec_copy", "{probe} /dev/shm", "A45-SBX-02", Escapes).replaces(),
    ];
    run("exec/36", visible, &cases).await;
}
