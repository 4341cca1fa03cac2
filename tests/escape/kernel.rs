//! Mounts, namespaces, and kernel interfaces that could bypass the other restrictions.

use crate::matrix::Control::{self, Escapes, Kernel, Root, RootAndKernel};
use crate::matrix::{Case, run, wall};
use crate::policies::{listed, visible};

const SEC: &str = "A29-SEC-04";
const NO_MASK: Control = Control::None("without a sandbox there is no mask to remove");

/// CLONE_NEWUSER, then NEWNS, NEWPID, NEWNET, NEWIPC, NEWUTS and NEWCGROUP, each alone (for root)
/// and together with NEWUSER (for all users).
const NAMESPACES: [(&str, Control); 13] = [
    ("268435456", Escapes),
    ("131072", Root),
    ("268566528", Escapes),
    ("536870912", Root),
    ("805306368", Escapes),
    ("1073741824", Root),
    ("1342177280", Escapes),
    ("134217728", Root),
    ("402653184", Escapes),
    ("67108864", Root),
    ("335544320", Escapes),
    ("33554432", RootAndKernel),
    ("301989888", Kernel),
];

fn cases() -> Vec<Case> {
    let mut cases = vec![
        wall("mount", "{write}/plain", SEC, Root),
        wall("mount_new", "", SEC, Root),
        wall("open_tree", "{write}", SEC, Root),
        wall("mount_setattr", "/proc", SEC, Root),
        wall("unmount", "{write}/secret {write}/secret/key", SEC, NO_MASK),
        wall(
            "unmount",
            "{write}/secret.txt {write}/secret.txt",
            SEC,
            NO_MASK,
        ),
        wall("remount", "{read} {read}/open.txt", SEC, NO_MASK),
        wall(
            "pivot_root",
            "{write}",
            SEC,
            Control::None("it would change the root directory of the host"),
        ),
        wall("chroot", "{write}", SEC, Root),
        wall("file_handle", "{write}", SEC, RootAndKernel),
        wall("add_key", "", SEC, Kernel),
        wall("key_ring", "", SEC, Kernel),
        wall("bpf", "", SEC, RootAndKernel),
        wall("perf", "", SEC, Kernel),
        wall("io_uring", "", SEC, Kernel),
        wall("userfault", "", SEC, Kernel),
        wall("kernel_log", "", SEC, RootAndKernel),
        wall("host_name", "", SEC, Root),
    ];
    for (flag, control) in NAMESPACES {
        cases.push(wall("unshare", flag, SEC, control));
        cases.push(wall("clone_namespace", flag, SEC, control));
        cases.push(wall("clone3_namespace", flag, SEC, control));
    }
    #[cfg(target_arch = "x86_64")]
    cases.extend([
        wall("x32", "", SEC, Kernel),
        wall("int80", "", SEC, Kernel).replaces(),
    ]);
    cases
}

#[tokio::test]
async fn listed_kernel() {
    run("kernel/29", listed, &cases()).await;
}

#[tokio::test]
async fn visible_kernel() {
    run("kernel/36", visible, &cases()).await;
}
