//! The native backend: namespaces that the helper creates itself.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use super::sys::{self, Fork};
use super::{Step, StepError, init, report_error, root, step};
use crate::plan::{Confinement, PROXY_PORT, SpawnPlan};
use crate::spawn::control::{self, HelperReport};

/// All namespaces except the mount namespace, which is created when no more host paths are needed.
pub const NAMESPACES: i32 =
    libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC;

/// The user and group outside. In a new user namespace they can no longer be queried.
#[derive(Clone, Copy)]
pub struct Identity {
    user: libc::uid_t,
    group: libc::gid_t,
}

impl Identity {
    pub fn current() -> Self {
        // SAFETY: no arguments, cannot fail.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        Self { user, group }
    }

    /// Maps the same user and group inside, and no others.
    fn map_ids(self) -> Result<(), StepError> {
        let Self { user, group } = self;
        fs::write("/proc/self/setgroups", "deny").step(step("deny setgroups"))?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1")).step(step("map the user"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1")).step(step("map the group"))
    }
}

pub fn run(
    control: &OwnedFd,
    plan: &SpawnPlan,
    outer_identity: Option<Identity>,
) -> Result<(), StepError> {
    let Some(confinement) = &plan.confinement else {
        return init::guard(control, plan);
    };
    if let Some(identity) = outer_identity {
        identity.map_ids()?;
        return first_process(control, plan, confinement);
    }
    let identity = Identity::current();
    sys::unshare(NAMESPACES).step(step("create user, process, network and IPC namespaces"))?;
    identity.map_ids()?;
    match sys::fork().step(step("start the first process"))? {
        Fork::Child => {
            let tied = sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as _, 0)
                .step(step("bind the process to the helper"));
            if let Err(error) = tied.and_then(|_| first_process(control, plan, confinement)) {
                report_error(control, &error);
            }
            Ok(())
        }
        Fork::Parent(pid) => {
            init::wait_and_clean_up(control, pid, plan);
            Ok(())
        }
    }
}

/// Process 1 of the sandbox.
fn first_process(
    control: &OwnedFd,
    plan: &SpawnPlan,
    confinement: &Confinement,
) -> Result<(), StepError> {
    init::join_cgroups(plan)?;
    sys::loopback_up().step(step("bring the loopback interface up"))?;
    listen(control, confinement)?;
    sys::unshare(libc::CLONE_NEWNS).step(step("create a mount namespace"))?;
    root::build(&confinement.mounts)?;
    init::watch(control, plan)
}

/// Listens for the egress proxy, and passes the socket to the runner.
pub fn listen(control: &OwnedFd, confinement: &Confinement) -> Result<(), StepError> {
    if confinement.proxy {
        let address = (std::net::Ipv4Addr::LOCALHOST, PROXY_PORT);
        let listener =
            std::net::TcpListener::bind(address).step(step("listen for the egress proxy"))?;
        control::send(
            control.as_fd(),
            &HelperReport::Listener,
            Some(listener.as_fd()),
        )
        .step(step("pass the proxy's socket to the runner"))?;
    }
    Ok(())
}
