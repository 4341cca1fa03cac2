//! The second backend. Outside, the guard executes bubblewrap and waits for it. Inside, process 1
//! does what bubblewrap has no option for, and then serves the runner as in the native backend.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::sys::{self, Fork};
use super::{Step, StepError, init, native, step, target};
use crate::plan::{CONTROL_FD, Mount, MountKind, PLACEHOLDER_MODE, PLAN_FD, SpawnPlan};

/// The target's stderr. Until process 1 runs, bubblewrap's errors go elsewhere.
const STDERR_FD: RawFd = 5;
/// One byte in it means that process 1 runs, and will report its own errors.
const STARTED_FD: RawFd = 6;

/// Executes bubblewrap and waits for its end.
pub fn guard(control: &OwnedFd, plan: &SpawnPlan, inner: &SpawnPlan) -> Result<(), StepError> {
    let inner = serde_json::to_vec(inner)
        .map_err(io::Error::other)
        .and_then(|text| sys::memory_file(&text))
        .step(step("write the inner plan"))?;
    // Process 1 takes over the terminal.
    let command = SpawnPlan {
        tty: false,
        ..plan.clone()
    };
    let held = hold_placeholders(plan)?;
    let pipe = || sys::pipe().step(step("create a pipe"));
    let ((failure, failure_writer), (started, started_writer), (stderr, stderr_writer)) =
        (pipe()?, pipe()?, pipe()?);
    let pid = match sys::fork().step(step("start bubblewrap"))? {
        Fork::Child => {
            let moved = move_descriptors(control, &inner, &started_writer, &stderr_writer)
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

/// Creates and locks directories on the host for denied paths that do not exist. Bubblewrap would
/// create them, but would not lock them against the end of another session.
fn hold_placeholders(plan: &SpawnPlan) -> Result<Vec<OwnedFd>, StepError> {
    let mut held = Vec::new();
    for path in plan.leftovers.iter().map(|raw| raw.path()) {
        if path.join("cgroup.procs").exists() {
            continue;
        }
        let holding = sys::c_path(path)
            .and_then(|c| sys::lock_directory(libc::AT_FDCWD, &c, PLACEHOLDER_MODE))
            .step(|| format!("hide {}", path.display()))?;
        held.extend(holding);
    }
    Ok(held)
}

/// Moves the descriptors to where process 1 expects them. Bubblewrap passes them through.
fn move_descriptors(
    control: &OwnedFd,
    inner: &OwnedFd,
    started_writer: &OwnedFd,
    stderr_writer: &OwnedFd,
) -> io::Result<()> {
    // SAFETY: only plain numbers.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as _, 0)?;
    // Copies with high numbers, so that no descriptor is overwritten before it is used.
    let high = |fd: RawFd| -> io::Result<OwnedFd> {
        // SAFETY: plain numbers; the descriptor is new.
        unsafe {
            let copy = sys::check(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 32).into())?;
            Ok(OwnedFd::from_raw_fd(copy as RawFd))
        }
    };
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

/// Process 1 inside bubblewrap. If the plan has mounts, it can restrict them. Otherwise bubblewrap
/// has dropped all capabilities.
pub fn run_inside(control: &OwnedFd, plan: &SpawnPlan) -> Result<(), StepError> {
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as _, 0).step(step("tie to the helper"))?;
    if let Some(confinement) = &plan.confinement {
        native::listen(control, confinement)?;
        if !confinement.mounts.is_empty() {
            restrict_mounts(&confinement.mounts)?;
        }
    }
    init::watch(control, plan)
}

fn restrict_mounts(mounts: &[Mount]) -> Result<(), StepError> {
    for mount in mounts.iter().filter(|m| m.what == MountKind::Dev) {
        mount_terminals(&mount.at.path().join("pts")).step(step("mount terminals"))?;
    }
    let table = fs::read("/proc/self/mountinfo").step(step("read the mounts"))?;
    // The directory that this process was executed from is not part of the plan, and loses
    // execution like the rest.
    let points: Vec<PathBuf> = table
        .split(|b| *b == b'\n')
        .filter_map(mount_point)
        .collect();
    for point in &points {
        let mut attributes = 0;
        if !is_executable(mounts, point) {
            attributes |= sys::ATTR_NOEXEC;
        }
        if is_device(mounts, point) {
            attributes |= sys::ATTR_RDONLY;
        }
        if attributes == 0 {
            continue;
        }
        let restricted = sys::c_path(point)
            .and_then(|path| sys::open_path(libc::AT_FDCWD, &path))
            .and_then(|fd| sys::restrict_mount(fd.as_fd(), attributes, false));
        match restricted {
            Err(e) if is_covered(mounts, point, &e) => {}
            other => other.step(|| format!("restrict {}", point.display()))?,
        }
    }
    Ok(())
}

/// Whether this is a device node of the host. It stays writable, but root, which owns it, could
/// change its mode. With bubblewrap's own option for read-only mounts the device could not be used.
fn is_device(mounts: &[Mount], point: &Path) -> bool {
    let own = ["shm", "pts"].map(|name| Some(OsStr::new(name)));
    let devices = mounts.iter().find(|m| m.what == MountKind::Dev);
    devices
        .is_some_and(|m| point.parent() == Some(m.at.path()) && !own.contains(&point.file_name()))
}

/// Whether the mount is hidden by another one, so that the target cannot reach it either.
fn is_covered(mounts: &[Mount], point: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::PermissionDenied => deepest_mount(mounts, point)
            .is_some_and(|mount| matches!(mount.what, MountKind::Mask { .. })),
        _ => false,
    }
}

fn mount_terminals(at: &Path) -> io::Result<()> {
    let options = [(c"ptmxmode", c"0666"), (c"mode", c"0620")];
    let mount = sys::new_mount(c"devpts", &options, sys::ATTR_NOSUID | sys::ATTR_NOEXEC)?;
    sys::attach(mount.as_fd(), libc::AT_FDCWD, &sys::c_path(at)?)
}

/// The deepest mount of the plan that contains a path decides.
fn deepest_mount<'a>(mounts: &'a [Mount], point: &Path) -> Option<&'a Mount> {
    let holding = mounts.iter().filter(|m| point.starts_with(m.at.path()));
    holding.max_by_key(|m| m.at.path().components().count())
}

fn is_executable(mounts: &[Mount], point: &Path) -> bool {
    deepest_mount(mounts, point).is_some_and(|mount| match mount.what {
        MountKind::Bind { exec, .. } | MountKind::Private { exec } => exec,
        _ => false,
    })
}

/// The fifth field of a line of the mount table, in which special bytes are octal.
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(|b| *b == b' ').nth(4)?;
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'\\', [a, b, c, ..]) if [a, b, c].iter().all(|d| (b'0'..=b'7').contains(d)) => {
                let digit = |d: &u8| u32::from(d - b'0');
                path.push(u8::try_from(digit(a) * 64 + digit(b) * 8 + digit(c)).ok()?);
                rest = after.get(3..)?;
            }
            _ => path.push(*first),
        }
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Raw;

    fn bind(at: &str, exec: bool) -> Mount {
        Mount {
            at: Raw::from(at),
            what: MountKind::Bind {
                source: Raw::from(at),
                writable: false,
                exec,
            },
        }
    }

    #[test]
    fn the_deepest_mount_decides() {
        let mounts = [bind("/a", false), bind("/a/b", true), bind("/a/b/c", false)];
        let all = [
            "/", "/a", "/a/x", "/a/b", "/a/b/x", "/a/b/c", "/a/b/c/d", "/ab",
        ];
        let exec: Vec<&str> = all
            .into_iter()
            .filter(|p| is_executable(&mounts, Path::new(p)))
            .collect();
        assert_eq!(exec, ["/a/b", "/a/b/x"]);
    }

    #[test]
    fn mount_points_with_special_bytes_are_parsed() {
        let line = b"36 35 98:0 / /a\\040b\\134c rw - ext4 /dev/x rw";
        assert_eq!(mount_point(line), Some(PathBuf::from("/a b\\c")));
        assert_eq!(mount_point(b""), None);
    }

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
