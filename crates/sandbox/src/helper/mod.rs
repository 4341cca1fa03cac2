//! The process between the runner and its target: the same binary, executed again under another
//! name. It confines itself, and starts and watches the target. When the runner is gone, even if it
//! was killed, the helper ends everything.
//!
//! It has one thread and communicates only over its control socket. Its standard streams belong to
//! the target.

mod bubblewrap;
mod filter;
mod init;
mod landlock;
pub mod matching;
mod native;
pub mod reach;
mod root;
pub mod spare;
pub mod sys;
mod target;
pub mod trial;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

pub use filter::supported as seccomp_supported;
pub use landlock::abi as landlock_abi;

use crate::plan::{CONTROL_FD, Kind, PLAN_FD, Plan};
use crate::spawn::control::{self, Report};

/// The helper's `argv[0]`.
pub const NAME: &str = "agentproto-helper";

/// Runs the helper and never returns, if this process was started as one. A program that embeds the
/// runtime must call this first in its `main`, before it starts any thread.
pub fn enter_if_asked() {
    ENTERS.store(true, Ordering::Relaxed);
    if std::env::args_os().next().as_deref() == Some(OsStr::new(NAME)) {
        // A runner may have turned off huge pages, but only for itself.
        // SAFETY: only sets a flag of this process, which its children inherit.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 0, 0, 0, 0) };
        match std::env::args_os().nth(1) {
            None => run(None),
            Some(word) if word == spare::WORD => spare::run(),
            Some(word) if word == trial::WORD => trial::run(),
            Some(word) if word == trial::WORD_INSIDE => trial::run_inside(),
            Some(_) => {}
        }
        // SAFETY: ends the process before any code of the runner runs.
        unsafe { libc::_exit(0) }
    }
    let mut words = std::env::args_os().skip(1);
    if words.next().as_deref() == Some(OsStr::new(NAME)) {
        // Started as an ordinary child, whose first argument is its path.
        match words.next() {
            Some(word) if word == matching::WORD => matching::run(),
            Some(word) if word == reach::WORD => reach::run(),
            _ => {}
        }
        // SAFETY: as above.
        unsafe { libc::_exit(0) }
    }
}

static ENTERS: AtomicBool = AtomicBool::new(false);
static BINARY: OnceLock<PathBuf> = OnceLock::new();

/// Sets the binary that calls `enter_if_asked`, if it is not this one.
pub fn use_binary(path: impl Into<PathBuf>) {
    let _ = BINARY.set(path.into());
}

/// The binary to start as the helper. Without `enter_if_asked` or `use_binary` this is an error,
/// because the binary would start itself again and again.
pub fn binary() -> io::Result<&'static Path> {
    if let Some(path) = BINARY.get() {
        return Ok(path);
    }
    if ENTERS.load(Ordering::Relaxed) {
        return Ok(Path::new("/proc/self/exe"));
    }
    Err(io::Error::other(
        "this program neither calls `helper::enter_if_asked` first in its `main` nor sets a helper with `helper::use_binary`",
    ))
}

/// The path of the same binary, for bundles that use it as their program.
pub fn own_path() -> io::Result<PathBuf> {
    match BINARY.get() {
        Some(path) => path.canonicalize(),
        None => std::env::current_exe().map(in_its_place),
    }
}

/// Removes the suffix ` (deleted)` of a binary that was replaced while it runs, as by an update.
/// Bundles mean the file that is there now.
fn in_its_place(path: PathBuf) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let told = path.as_os_str().as_bytes();
    match told.strip_suffix(b" (deleted)") {
        Some(place) if !path.exists() => OsStr::from_bytes(place).into(),
        _ => path,
    }
}

/// An error and the step at which it occurred. Nothing was executed.
#[derive(Debug)]
struct Fault {
    step: String,
    error: io::Error,
}

trait Step<T> {
    fn step(self, what: impl FnOnce() -> String) -> Result<T, Fault>;
}

impl<T> Step<T> for io::Result<T> {
    fn step(self, what: impl FnOnce() -> String) -> Result<T, Fault> {
        self.map_err(|error| Fault {
            step: what(),
            error,
        })
    }
}

fn step(what: &'static str) -> impl FnOnce() -> String {
    move || what.to_owned()
}

/// Runs the helper. `arrived` is set if this process is already the first of its namespaces.
fn run(arrived: Option<native::Identity>) {
    // SAFETY: the runner put these two there for us; nothing else owns them.
    let (control, plan) = unsafe {
        (
            OwnedFd::from_raw_fd(CONTROL_FD),
            OwnedFd::from_raw_fd(PLAN_FD),
        )
    };
    if let Err(fault) = read(plan).and_then(|plan| carry_out(&control, &plan, arrived)) {
        tell(&control, &fault);
    }
}

fn read(plan: OwnedFd) -> Result<Plan, Fault> {
    let mut text = String::new();
    File::from(plan)
        .read_to_string(&mut text)
        .step(step("read the plan"))?;
    serde_json::from_str(&text)
        .map_err(io::Error::other)
        .step(step("read the plan"))
}

/// Reports an error to the runner, which may be gone.
fn tell(control: &OwnedFd, fault: &Fault) {
    let report = Report::Failed {
        step: fault.step.clone(),
        errno: fault.error.raw_os_error().unwrap_or(0),
    };
    let _ = control::send(control.as_fd(), &report, None);
}

fn carry_out(
    control: &OwnedFd,
    plan: &Plan,
    arrived: Option<native::Identity>,
) -> Result<(), Fault> {
    sys::close_on_exec(control.as_raw_fd()).step(step("keep the control socket"))?;
    if plan.kind == Kind::Inner {
        bubblewrap::arrive().step(step("take over stderr"))?;
    }
    // The target must not get other descriptors that the runner had open.
    sys::close_from(PLAN_FD).step(step("close inherited descriptors"))?;
    match (plan.kind, &plan.inner) {
        (Kind::Guard, None) | (Kind::Offline, _) => init::guard(control, plan),
        (Kind::Guard, Some(inner)) => bubblewrap::guard(control, plan, inner),
        (Kind::Native, _) => native::run(control, plan, arrived),
        (Kind::Inner, _) => bubblewrap::inside(control, plan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_binary_is_found_at_its_path() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = dir.path().join("tool");
        let told = dir.path().join("tool (deleted)");
        assert_eq!(in_its_place(place.clone()), place);
        assert_eq!(in_its_place(told.clone()), place);
        // A file may really have this name.
        std::fs::write(&told, "").expect("written");
        assert_eq!(in_its_place(told.clone()), told);
    }
}
