//! The second backend. Outside, the guard executes bubblewrap and waits for it. Inside, process 1
//! makes or checks the mounts, and then serves the runner as in the native backend.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::sys::{self, Fork};
use super::{Step, StepError, init, native, root, step, target};
use crate::plan::{
    CONTROL_FD, FIRST_SOURCE_FD, Mount, MountKind, PLACEHOLDER_FILE_MODE, PLACEHOLDER_MODE,
    PLAN_FD, PlanKind, Raw, SpawnPlan,
};

/// The target's stderr. Until process 1 runs, bubblewrap's errors go elsewhere.
const STDERR_FD: RawFd = 5;
/// One byte in it means that process 1 runs, and will report its own errors.
const STARTED_FD: RawFd = 6;

/// Executes bubblewrap and waits for its end.
pub fn guard(control: &OwnedFd, plan: &SpawnPlan, inner: &SpawnPlan) -> Result<(), StepError> {
    let held = match (inner.kind, &inner.confinement) {
        (PlanKind::InnerMounted, Some(confinement)) => {
            hold_placeholders(plan, &confinement.mounts)?
        }
        _ => Vec::new(),
    };
    let sources = open_sources(&plan.sources)?;
    let identities = sources
        .iter()
        .map(|fd| sys::mount_identity(fd.as_fd()))
        .map(|identity| identity.map(|(_, device, inode)| (device, inode)))
        .collect::<io::Result<Vec<_>>>()
        .step(step("inspect the sources"))?;
    let inner = SpawnPlan {
        source_identities: identities,
        ..inner.clone()
    };
    let inner = serde_json::to_vec(&inner)
        .map_err(io::Error::other)
        .and_then(|text| sys::memory_file(&text))
        .step(step("write the inner plan"))?;
    // Process 1 takes over the terminal.
    let command = SpawnPlan {
        tty: false,
        ..plan.clone()
    };
    let pipe = || sys::pipe().step(step("create a pipe"));
    let ((failure, failure_writer), (started, started_writer), (stderr, stderr_writer)) =
        (pipe()?, pipe()?, pipe()?);
    let pid = match sys::fork().step(step("start bubblewrap"))? {
        Fork::Child => {
            let moved = move_descriptors(control, &inner, &started_writer, &stderr_writer)
                .and_then(|()| move_sources(&sources))
                .step(step("hand descriptors to bubblewrap"));
            let error = moved
                .and_then(|()| init::join_cgroups(plan))
                .and_then(|()| target::exec_target(&command));
            if let Err(error) = error {
                target::send_error(&failure_writer, &error);
            }
            // SAFETY: ends the child that could not become bubblewrap.
            unsafe { libc::_exit(127) }
        }
        Fork::Parent(pid) => pid,
    };
    drop((failure_writer, started_writer, stderr_writer, inner));
    let error = target::receive_error(failure);
    let _ = init::release_streams();
    init::wait_for(pid);
    let error = error.or_else(|| {
        let mut byte = [0];
        let is_started = File::from(started).read(&mut byte).is_ok_and(|n| n == 1);
        (!is_started).then(|| parse_error(stderr))
    });
    if let Some(error) = error {
        super::report_error(control, &error);
    }
    // The runner must see the end now, not after the cleanup.
    // SAFETY: closed once; the owner never uses it again.
    unsafe { libc::close(control.as_raw_fd()) };
    drop(held);
    init::remove_leftovers(plan);
    Ok(())
}

/// Creates and locks the placeholders on the host. Bubblewrap would create directories, but would
/// not lock them against the end of another session.
fn hold_placeholders(plan: &SpawnPlan, mounts: &[Mount]) -> Result<Vec<OwnedFd>, StepError> {
    let mut held = Vec::new();
    for path in plan.leftovers.iter().map(|raw| raw.path()) {
        if path.join("cgroup.procs").exists() {
            continue;
        }
        let text = mounts.iter().find_map(|mount| match &mount.what {
            MountKind::ReservedFile { source, text } if source.path() == path => Some(text),
            _ => None,
        });
        let holding = sys::c_path(path)
            .and_then(|c| match text {
                Some(text) => {
                    sys::lock_file(libc::AT_FDCWD, &c, text, PLACEHOLDER_FILE_MODE).map(Some)
                }
                None => sys::lock_directory(libc::AT_FDCWD, &c, PLACEHOLDER_MODE),
            })
            .step(|| format!("hide {}", path.display()))?;
        held.extend(holding);
    }
    Ok(held)
}

/// Opens the sources. A link on the way to one is an error, as in the native backend. The descriptors
/// have numbers that neither bubblewrap's command line nor process 1 uses.
pub fn open_sources(sources: &[Raw]) -> Result<Vec<OwnedFd>, StepError> {
    root::raise_descriptor_limit();
    let first = FIRST_SOURCE_FD + sources.len() as RawFd;
    let open = |source: &Raw| {
        sys::open_without_links(source.path())
            .and_then(|opened| sys::duplicate_from(opened.as_raw_fd(), first))
            .step(|| format!("open {}", source.path().display()))
    };
    sources.iter().map(open).collect()
}

/// Moves the sources to where the command line expects them.
pub fn move_sources(sources: &[OwnedFd]) -> io::Result<()> {
    for (source, to) in sources.iter().zip(FIRST_SOURCE_FD..) {
        sys::dup2(source.as_raw_fd(), to)?;
    }
    Ok(())
}

/// Moves the descriptors to where process 1 expects them. Bubblewrap passes them through.
fn move_descriptors(
    control: &OwnedFd,
    inner: &OwnedFd,
    started_writer: &OwnedFd,
    stderr_writer: &OwnedFd,
) -> io::Result<()> {
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as _, 0)?;
    // Copies with high numbers, so that no descriptor is overwritten before it is used.
    let high = |fd: RawFd| sys::duplicate_from(fd, 32);
    let copies = [
        (high(2)?, STDERR_FD),
        (high(stderr_writer.as_raw_fd())?, 2),
        (high(inner.as_raw_fd())?, PLAN_FD),
        (high(started_writer.as_raw_fd())?, STARTED_FD),
        (high(control.as_raw_fd())?, CONTROL_FD),
    ];
    for (copy, to) in &copies {
        sys::dup2(copy.as_raw_fd(), *to)?;
    }
    Ok(())
}

/// The error message of bubblewrap, which mostly ends with the name of the error.
fn parse_error(stderr: OwnedFd) -> StepError {
    let mut text = Vec::new();
    let _ = File::from(stderr).take(4096).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    let message = text.lines().last().unwrap_or("it printed nothing").trim();
    let message = message.strip_prefix("bwrap: ").unwrap_or(message);
    for errno in 1..134 {
        let error = io::Error::from_raw_os_error(errno);
        let name = error.to_string();
        let name = name.split(" (os error").next().unwrap_or_default();
        if let Some(rest) = message.strip_suffix(name) {
            return StepError {
                step: format!("run bubblewrap: {}", rest.trim_end_matches([':', ' '])),
                error,
            };
        }
    }
    StepError {
        step: format!("run bubblewrap: {message}"),
        error: io::Error::from_raw_os_error(libc::EINVAL),
    }
}

/// The first action of process 1, before it reads anything.
pub fn signal_started() -> io::Result<()> {
    sys::dup2(STDERR_FD, 2)?;
    // SAFETY: the guard put it there for us; nothing else owns it.
    let mut started_writer = File::from(unsafe { OwnedFd::from_raw_fd(STARTED_FD) });
    started_writer.write_all(b"1")?;
    // SAFETY: as above; stderr has a copy.
    drop(unsafe { OwnedFd::from_raw_fd(STDERR_FD) });
    Ok(())
}

/// Process 1 inside bubblewrap. It makes the mounts as in the native backend, or checks those that
/// bubblewrap has made.
pub fn run_inside(control: &OwnedFd, plan: &SpawnPlan) -> Result<(), StepError> {
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as _, 0).step(step("tie to the helper"))?;
    if let Some(confinement) = &plan.confinement {
        native::listen(control, confinement)?;
        match plan.kind {
            PlanKind::Inner => root::build(&confinement.mounts)?,
            _ => check_mounts(&confinement.mounts, &plan.source_identities)?,
        }
    }
    init::watch(control, plan)
}

/// Checks that each mount is where the plan wants it. Bubblewrap follows links, which another
/// process could have put in its way.
fn check_mounts(mounts: &[Mount], identities: &[(u64, u64)]) -> Result<(), StepError> {
    let mut identities = identities.iter();
    for mount in mounts {
        let at = mount.at.path();
        let expected = match mount.what {
            MountKind::Bind { .. } | MountKind::ReservedFile { .. } => identities.next(),
            MountKind::Directory | MountKind::Symlink { .. } => continue,
            _ => None,
        };
        let checked = sys::open_without_links(at).and_then(|fd| sys::mount_identity(fd.as_fd()));
        // A mask without any mode bits can still be opened as a path.
        let (is_root, device, inode) = checked.step(|| format!("check {}", at.display()))?;
        if !is_root || expected.is_some_and(|e| *e != (device, inode)) {
            return Err(StepError {
                step: format!(
                    "mount {}, which was exchanged during the start",
                    at.display()
                ),
                error: io::Error::from_raw_os_error(libc::ELOOP),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_of_bubblewrap_are_parsed() {
        let parse = |text: &[u8]| {
            let (read, write) = sys::pipe().expect("pipe");
            File::from(write).write_all(text).expect("written");
            let error = parse_error(read);
            (error.step, error.error.raw_os_error())
        };
        let message = parse(b"bwrap: Can't mount proc on /newroot/proc: Operation not permitted\n");
        let step = "run bubblewrap: Can't mount proc on /newroot/proc";
        assert_eq!(message, (step.to_owned(), Some(libc::EPERM)));
        let message = parse(b"bwrap: Unknown option --x\n");
        assert_eq!(message.0, "run bubblewrap: Unknown option --x");
        assert_eq!(parse(b"").0, "run bubblewrap: it printed nothing");
    }
}
