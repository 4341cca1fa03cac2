//! `fs.read`, `fs.write`, `fs.deny` and AIP-36 `mounts`.

use crate::matrix::Control::{self, Escapes, Kernel, Root, RootAndKernel};
use crate::matrix::{Case, run, twin, wall};
use crate::policies::{listed, visible};

const READ: &str = "A29-SBX-06 A29-SEC-04";
const DENY: &str = "A29-SBX-07 A29-SEC-04";
const WRITE: &str = "A29-SBX-06 A29-SBX-01";

/// Attempts to reach a denied path under every name that it has or can get.
fn denied() -> Vec<Case> {
    let mut cases = vec![
        wall("read", "{write}/secret.txt", DENY, Escapes),
        wall("read", "{write}/secret/key", DENY, Escapes),
        wall("read", "{read}/secret.txt", DENY, Escapes),
        wall("read", "{read}/secret/key", DENY, Escapes),
        wall("read", "{write}/deep/middle/secret/key", DENY, Escapes),
        wall("list", "{write}/secret key", DENY, Escapes),
        wall("list", "{read}/secret key", DENY, Escapes),
        wall("write", "{write}/secret.txt", DENY, Escapes),
        wall("create", "{write}/secret", DENY, Escapes),
        wall("chmod", "{write}/secret.txt", DENY, Escapes),
        wall("chmod", "{write}/secret", DENY, Escapes),
        wall("remove", "{write}/secret.txt", DENY, Escapes),
        wall(
            "hard_link",
            "{write}/secret.txt {write}/link",
            DENY,
            Escapes,
        ),
        wall(
            "hard_link",
            "{write}/secret/key {write}/link",
            DENY,
            Escapes,
        ),
        wall("hard_link", "{read}/secret.txt {write}/link", DENY, Escapes),
        wall(
            "symbolic_link",
            "{write}/secret.txt {write}/link",
            DENY,
            Escapes,
        ),
        wall(
            "symbolic_link",
            "{read}/secret/key {write}/link",
            DENY,
            Escapes,
        ),
        wall(
            "rename",
            "{write}/secret {write}/moved {write}/moved/key",
            DENY,
            Escapes,
        ),
        wall(
            "rename",
            "{write}/secret.txt {write}/moved {write}/moved",
            DENY,
            Escapes,
        ),
        wall(
            "rename",
            "{write}/deep {write}/moved {write}/moved/middle/secret/key",
            DENY,
            Escapes,
        ),
        wall(
            "rename",
            "{write}/deep/middle {write}/moved {write}/moved/secret/key",
            DENY,
            Escapes,
        ),
        wall(
            "exchange",
            "{write}/secret {write}/plain {write}/plain/key",
            DENY,
            Kernel,
        ),
        wall(
            "exchange",
            "{write}/secret.txt {write}/open.txt {write}/open.txt",
            DENY,
            Kernel,
        ),
        wall(
            "replace",
            "{write}/deep/middle {write}/aside {write}/deep/middle/secret/key",
            DENY,
            Escapes,
        ),
        wall(
            "replace",
            "{write}/deep {write}/aside {write}/deep/middle/secret/key",
            DENY,
            Escapes,
        ),
        wall(
            "replace",
            "{write}/secret {write}/aside {write}/secret/key",
            DENY,
            Escapes,
        ),
        // The path does not exist at the start. It can be created neither as a file nor as a
        // directory.
        wall("write", "{write}/later", DENY, Escapes),
        wall("make_directory", "{write}/later", DENY, Escapes),
        wall(
            "write",
            "{write}/later/key",
            DENY,
            Control::None("outside, the directory does not exist"),
        ),
        wall(
            "rename",
            "{write}/plain {write}/later {write}/later/file",
            DENY,
            Escapes,
        ),
    ];
    if crate::world::is_root() {
        // Most hosts do not let unprivileged users create a hard link to a file they cannot write.
        cases.push(wall(
            "hard_link_follow",
            "{write}/secret.txt {write}/link",
            DENY,
            Escapes,
        ));
    } else {
        cases.push(wall(
            "hard_link_follow",
            "{write}/secret.txt {write}/link",
            DENY,
            Kernel,
        ));
    }
    cases
}

/// Attempts to read paths that no grant covers.
fn unseen() -> Vec<Case> {
    vec![
        wall("read", "{outside}/secret.txt", READ, Escapes),
        wall("read", "{home}/secret.txt", READ, Escapes),
        wall("read", "{read}/leads-out", READ, Escapes),
        wall("read", "{read}/../outside/secret.txt", READ, Escapes),
        wall(
            "symbolic_link",
            "{outside}/secret.txt {write}/link",
            READ,
            Escapes,
        ),
        wall(
            "hard_link",
            "{outside}/secret.txt {write}/link",
            READ,
            Escapes,
        ),
        wall("from_cwd", "{outside}/secret.txt", READ, Escapes),
        wall("read", "/proc/self/root{outside}/secret.txt", READ, Escapes),
        wall(
            "read",
            "/proc/thread-self/root{outside}/secret.txt",
            READ,
            Escapes,
        ),
        wall(
            "read",
            "/proc/1/root{outside}/secret.txt",
            READ,
            RootAndKernel,
        ),
        wall(
            "read",
            "/proc/1/cwd{outside}/secret.txt",
            READ,
            RootAndKernel,
        ),
        wall(
            "read",
            "/proc/{victim}/root{outside}/secret.txt",
            READ,
            Escapes,
        ),
        wall(
            "read",
            "/proc/{runner}/root{outside}/secret.txt",
            READ,
            Root,
        ),
        wall("read", "/proc/self/root{write}/secret.txt", DENY, Escapes),
        wall(
            "read",
            "/proc/1/root{write}/secret.txt",
            DENY,
            RootAndKernel,
        ),
        wall("descriptors_of", "{victim}", READ, Escapes),
        wall("descriptors_of", "1", READ, RootAndKernel),
        wall("list", "/ sys", READ, Escapes),
    ]
}

/// Attempts to write where no grant or only a read grant exists.
fn unwritable() -> Vec<Case> {
    let mut cases = vec![
        wall("create", "{read}", WRITE, Escapes),
        wall("create", "{outside}", WRITE, Escapes),
        wall("create", "{other}", WRITE, Escapes),
        wall("create", "/", WRITE, Root),
        wall("create", "/etc", WRITE, Root),
        wall("create", "/usr", WRITE, Root),
        wall("create", "/dev", WRITE, Root),
        wall("open_for_writing", "/proc/sys/kernel/hostname", WRITE, Root),
        wall(
            "open_for_writing",
            "/proc/sys/vm/overcommit_memory",
            WRITE,
            Root,
        ),
        wall(
            "open_for_writing",
            "/proc/sysrq-trigger",
            WRITE,
            RootAndKernel,
        ),
        wall("open_for_writing", "/proc/self/uid_map", WRITE, Escapes),
        wall(
            "open_for_writing",
            "/proc/self/oom_score_adj",
            WRITE,
            Escapes,
        ),
        wall("write", "{read}/open.txt", WRITE, Escapes),
        wall("write", "{outside}/secret.txt", WRITE, Escapes),
        wall("remove", "{read}/open.txt", WRITE, Escapes),
        wall("make_directory", "{read}/new", WRITE, Escapes),
        wall(
            "rename",
            "{read}/open.txt {write}/taken {write}/taken",
            WRITE,
            Escapes,
        ),
        wall(
            "symbolic_link",
            "{write}/open.txt {read}/link",
            WRITE,
            Escapes,
        ),
        wall("hard_link", "{write}/open.txt {read}/link", WRITE, Escapes),
        wall("chmod", "{read}/open.txt", WRITE, Escapes),
        wall("chown", "{read}/open.txt", WRITE, Escapes),
        wall("utimes", "{read}/open.txt", WRITE, Escapes),
        wall("truncate", "{read}/open.txt", WRITE, Escapes),
        wall("xattr", "{read}/open.txt", WRITE, Kernel),
        wall("remove_xattr", "{read}/open.txt", WRITE, Kernel),
        wall("chmod", "{read}", WRITE, Escapes),
        wall("chmod", "{probe}", WRITE, Escapes),
    ];
    // The device files are the host's own: the child may use them but not change them.
    for probe in ["chmod", "chown", "utimes"] {
        let why = "bubblewrap binds devices writable, and this backend cannot remount them";
        cases.push(wall(probe, "/dev/null", WRITE, Root).known("weak", why));
        cases.push(wall(probe, "/dev/urandom", WRITE, Root).known("weak", why));
    }
    cases
}

fn twins() -> Vec<Case> {
    vec![
        twin("read", "{read}/open.txt", "A29-SBX-06"),
        twin("read", "{write}/open.txt", "A29-SBX-06"),
        twin("write", "{write}/open.txt", "A29-SBX-06"),
        twin("create", "{write}", "A29-SBX-06"),
        twin("create", "/tmp", "A29-SBX-06"),
        twin("create", "/dev/shm", "A29-SBX-06"),
        twin("open_for_writing", "/dev/null", "A29-SBX-06"),
        twin("chmod", "{write}/open.txt", "A29-SBX-06"),
        twin("utimes", "{write}/open.txt", "A29-SBX-06"),
        twin(
            "rename",
            "{write}/plain {write}/moved {write}/moved/file",
            "A29-SBX-06",
        ),
        twin(
            "rename",
            "{write}/deep/file {write}/deep/new {write}/deep/new",
            "A29-SBX-06",
        ),
        twin("hard_link", "{write}/open.txt {write}/link", "A29-SBX-06"),
        twin(
            "symbolic_link",
            "{read}/open.txt {write}/link",
            "A29-SBX-06",
        ),
        twin("list", "{write} open.txt", "A29-SBX-06"),
    ]
}

/// The host creates the denied path while the child runs. The placeholder already occupies it.
fn made_by_the_host() -> Vec<Case> {
    let make = |world: &crate::world::World| {
        let _ = std::fs::write(world.path("write/later"), crate::world::SECRET);
        let moved = std::fs::rename(world.path("replacement"), world.path("write/later"));
        drop(moved);
    };
    vec![wall("read_waiting", "{write}/later", DENY, Escapes).meanwhile(make)]
}

#[tokio::test]
async fn listed_created_by_the_host() {
    run("later/29", listed, &made_by_the_host()).await;
}

#[tokio::test]
async fn listed_denied() {
    agentproto_suites::proves!("A29-SBX-07", "A29-SEC-04");
    run("deny/29", listed, &denied()).await;
}

#[tokio::test]
async fn listed_unseen() {
    agentproto_suites::proves!("A29-PRIN-02", "A29-SBX-06", "A29-SEC-04");
    run("read/29", listed, &unseen()).await;
}

#[tokio::test]
async fn listed_unwritable() {
    agentproto_suites::proves!("A29-SBX-01", "A29-SBX-06");
    run("write/29", listed, &unwritable()).await;
}

#[tokio::test]
async fn listed_twins() {
    run("files/29", listed, &twins()).await;
}

#[tokio::test]
async fn visible_denied() {
    run("deny/36", visible, &denied()).await;
}

#[tokio::test]
async fn visible_unseen() {
    run("read/36", visible, &unseen()).await;
}

#[tokio::test]
async fn visible_unwritable() {
    run("write/36", visible, &unwritable()).await;
}

#[tokio::test]
async fn visible_twins() {
    run("files/36", visible, &twins()).await;
}

/// The runner may have leaked a descriptor without the close-on-exec flag. The child must not get
/// it.
#[tokio::test]
async fn an_inherited_descriptor() {
    use std::os::fd::AsRawFd;
    let host = crate::world::Host::new();
    let world = crate::world::World::new(&host);
    let secret = std::fs::File::open(world.path("outside/secret.txt")).expect("secret");
    // SAFETY: plain integers; the descriptor is leaked on purpose.
    let leaked = unsafe { libc::fcntl(secret.as_raw_fd(), libc::F_DUPFD, 200) };
    assert!(leaked >= 200);
    let control = std::process::Command::new(crate::world::probe())
        .arg("descriptors")
        .output()
        .expect("control");
    let said = String::from_utf8_lossy(&control.stdout);
    assert!(said.contains("\"escaped\""), "control: {said}");
    let case = wall("descriptors", "", "A29-SBX-06 A29-SEC-04", Escapes);
    for (name, backend) in crate::matrix::backends() {
        for policy in [listed, visible] {
            let command = crate::matrix::command(&world, "descriptors", "");
            let plan = agentproto_sandbox::build::plan(&policy(&world), &command);
            let Ok(confined) = backend(plan.clone()) else {
                continue;
            };
            let seen = crate::matrix::observe(&confined, &world, &case).await;
            assert_eq!(seen.outcome, "blocked", "{name}: {}", seen.how);
            assert_eq!(
                seen.how, "0 descriptors besides the standard streams",
                "{name}"
            );
            let guard = crate::matrix::unconfined(plan);
            let seen = crate::matrix::observe(&guard, &world, &case).await;
            assert_eq!(seen.outcome, "blocked", "guard: {}", seen.how);
        }
    }
    // SAFETY: we own this descriptor.
    unsafe { libc::close(leaked) };
}

/// A mask covers a file, not a name. When another program on the host replaces the file with
/// `rename`, the kernel removes the mask. No mount can prevent this.
#[tokio::test]
#[ignore = "documents a known limit of masks and cannot pass"]
async fn replaced_by_the_host() {
    let replace = |world: &crate::world::World| {
        std::fs::rename(world.path("replacement"), world.path("read/secret.txt")).expect("rename");
    };
    let case = wall("read_waiting", "{read}/secret.txt", DENY, Escapes).meanwhile(replace);
    run("replaced/29", listed, &[case]).await;
}

/// A29-SBX-07: two sessions deny the same path. The end of one session does not lift the denial of
/// the other.
#[tokio::test]
async fn a_path_that_two_sessions_deny() {
    use agentproto_sandbox::build;
    use agentproto_sandbox::spawn::{Piece, SpawnOptions, spawn};
    let host = crate::world::Host::new();
    let later = "{write}/later";
    let case = wall("write_waiting", later, DENY, Escapes);
    for (name, backend) in crate::matrix::backends() {
        for ends_first in [true, false] {
            let world = crate::world::World::new(&host);
            let other = crate::matrix::command(&world, "stay", "x");
            let other = backend(build::plan(&visible(&world), &other)).expect("a plan");
            let own = crate::matrix::command(&world, "write_waiting", later);
            let own = backend(build::plan(&visible(&world), &own)).expect("a plan");
            let mut other = spawn(&other, SpawnOptions::default())
                .await
                .expect("started");
            let up = other.stdout.as_mut().expect("pipes").next().await;
            assert!(matches!(up, Some(Piece::Line { .. })), "{up:?}");
            let own = spawn(&own, SpawnOptions::default()).await.expect("started");
            if ends_first {
                other.kill().await;
            }
            let seen = crate::matrix::follow(own, &world, &case).await;
            assert_eq!(seen.outcome, "blocked", "{name}: {}", seen.how);
            other.kill().await;
            let gone = (0..100).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                !world.path("write/later").exists()
            });
            assert!(gone, "{name}: the placeholder was not removed");
        }
    }
}

/// A29-SBX-06: a directory that is replaced by a symlink between resolving the policy and starting
/// the child, for example by another session.
#[tokio::test]
async fn a_source_replaced_by_a_symlink() {
    use agentproto_sandbox::build;
    use agentproto_sandbox::policy::Access;
    let host = crate::world::Host::new();
    let world = crate::world::World::new(&host);
    let source = world.path("write/plain/inner");
    std::fs::create_dir(&source).expect("directory");
    let mut policy = visible(&world);
    let mut grant = crate::policies::grant(&source, Access::Read, false);
    grant.at = "/shown".into();
    policy.grants.push(grant);
    let command = crate::matrix::command(&world, "read", "/shown/secret.txt");
    let plan = build::plan(&policy, &command);
    std::fs::rename(world.path("write/plain"), world.path("write/aside")).expect("rename");
    std::fs::create_dir(world.path("outside/inner")).expect("directory");
    let secret = world.path("outside/inner/secret.txt");
    std::fs::write(secret, crate::world::SECRET).expect("file");
    let link = world.path("write/plain");
    std::os::unix::fs::symlink(world.path("outside"), link).expect("link");
    let case = wall("read", "", READ, Escapes);
    let seen = crate::matrix::observe(&plan, &world, &case).await;
    assert_eq!(seen.outcome, "refused", "{}", seen.how);
    assert!(seen.how.contains("open "), "{}", seen.how);
}
