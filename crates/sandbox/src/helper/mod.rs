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
pub(crate) mod spare;
pub mod sys;
mod target;
pub(crate) mod trial;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use bubblewrap::move_sources;
pub(crate) use filter::supported as seccomp_supported;
pub(crate) use init::kill_descendants;
pub(crate) use landlock::abi as landlock_abi;

use crate::plan::{CONTROL_FD, PLAN_FD, PlanKind, Raw, SpawnPlan};
use crate::spawn::control::{self, HelperReport};

/// The helper's `argv[0]`.
pub const NAME: &str = "agentproto-helper";

/// The argument after `NAME` that starts the helper inside bubblewrap.
pub(crate) const INSIDE_MODE: &str = "inside";

/// Runs the helper and never returns, if this process was started as one. A program that embeds the
/// runtime must call this first in its `main`, before it starts any thread.
pub fn run_if_helper() {
    RUNS_HELPER.store(true, Ordering::Relaxed);
    if std::env::args_os().next().as_deref() == Some(OsStr::new(NAME)) {
        // A runner may have turned off huge pages, but only for itself.
        // SAFETY: only sets a flag of this process, which its children inherit.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 0, 0, 0, 0) };
        match std::env::args_os().nth(1) {
            None => run(None),
            Some(mode) if mode == spare::MODE => spare::run(),
            Some(mode) if mode == trial::MODE => trial::run(),
            Some(mode) if mode == trial::MODE_INSIDE => trial::run_inside(),
            Some(_) => {}
        }
        // SAFETY: ends the process before any code of the runner runs.
        unsafe { libc::_exit(0) }
    }
    let mut words = std::env::args_os().skip(1);
    if words.next().as_deref() == Some(OsStr::new(NAME)) {
        // Started as an ordinary child, whose first argument is its path.
        match words.next() {
            Some(mode) if mode == INSIDE_MODE => run(None),
            Some(mode) if mode == trial::MODE_INSIDE => trial::run_inside(),
            Some(mode) if mode == matching::MODE => matching::run(),
            Some(mode) if mode == reach::MODE => reach::run(),
            _ => {}
        }
        // SAFETY: as above.
        unsafe { libc::_exit(0) }
    }
}

static RUNS_HELPER: AtomicBool = AtomicBool::new(false);
static BINARY: OnceLock<PathBuf> = OnceLock::new();

/// Sets the binary that calls `run_if_helper`, if it is not this one.
pub fn use_binary(path: impl Into<PathBuf>) {
    let _ = BINARY.set(path.into());
}

/// The binary to start as the helper. Without `run_if_helper` or `use_binary` this is an error,
/// because the binary would start itself again and again.
pub fn binary() -> io::Result<&'static Path> {
    if let Some(path) = BINARY.get() {
        return Ok(path);
    }
    if RUNS_HELPER.load(Ordering::Relaxed) {
        return Ok(Path::new("/proc/self/exe"));
    }
    Err(io::Error::other(
        "this program neither calls `helper::run_if_helper` first in its `main` nor sets a helper with `helper::use_binary`",
    ))
}

/// The path of the same binary, for bundles that use it as their program.
pub fn own_path() -> io::Result<PathBuf> {
    match BINARY.get() {
        Some(path) => path.canonicalize(),
        None => std::env::current_exe().map(without_deleted_suffix),
    }
}

/// Removes the suffix ` (deleted)` of a binary that was replaced while it runs, as by an update.
/// Bundles mean the file that is there now.
fn without_deleted_suffix(path: PathBuf) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes();
    match bytes.strip_suffix(b" (deleted)") {
        Some(rest) if !path.exists() => OsStr::from_bytes(rest).into(),
        _ => path,
    }
}

/// Opens what bubblewrap mounts by descriptor.
pub(crate) fn open_sources(sources: &[Raw]) -> io::Result<Vec<OwnedFd>> {
    bubblewrap::open_sources(sources).map_err(|error| error.error)
}

/// An error and the step at which it occurred. Nothing was executed.
#[derive(Debug)]
struct StepError {
    step: String,
    error: io::Error,
}

trait Step<T> {
    fn step(self, what: impl FnOnce() -> String) -> Result<T, StepError>;
}

impl<T> Step<T> for io::Result<T> {
    fn step(self, what: impl FnOnce() -> String) -> Result<T, StepError> {
        self.map_err(|error| StepError {
            step: what(),
            error,
        })
    }
}

fn step(what: &'static str) -> impl FnOnce() -> String {
    move || what.to_owned()
}

/// Runs the helper. `outer_identity` is set if this process is already the first of its namespaces.
fn run(outer_identity: Option<native::Identity>) {
    // SAFETY: the runner put these two there for us; nothing else owns them.
    let (control, plan) = unsafe {
        (
            OwnedFd::from_raw_fd(CONTROL_FD),
            OwnedFd::from_raw_fd(PLAN_FD),
        )
    };
    if let Err(error) = read_plan(plan).and_then(|plan| run_plan(&control, &plan, outer_identity)) {
        report_error(&control, &error);
    }
    // It may be closed already. The process ends now.
    std::mem::forget(control);
}

fn read_plan(plan: OwnedFd) -> Result<SpawnPlan, StepError> {
    let mut text = String::new();
    File::from(plan)
        .read_to_string(&mut text)
        .step(step("read the plan"))?;
    serde_json::from_str(&text)
        .map_err(io::Error::other)
        .step(step("read the plan"))
}

/// Reports an error to the runner, which may be gone.
fn report_error(control: &OwnedFd, error: &StepError) {
    let report = HelperReport::Failed {
        step: error.step.clone(),
        errno: error.error.raw_os_error().unwrap_or(0),
    };
    let _ = control::send(control.as_fd(), &report, None);
}

fn run_plan(
    control: &OwnedFd,
    plan: &SpawnPlan,
    outer_identity: Option<native::Identity>,
) -> Result<(), StepError> {
    sys::close_on_exec(control.as_raw_fd()).step(step("keep the control socket"))?;
    if matches!(plan.kind, PlanKind::Inner | PlanKind::InnerMounted) {
        bubblewrap::signal_started().step(step("take over stderr"))?;
    }
    // The target must not get other descriptors that the runner had open.
    sys::close_from(PLAN_FD).step(step("close inherited descriptors"))?;
    match (plan.kind, &plan.inner) {
        (PlanKind::Guard, None) | (PlanKind::Offline, _) => init::guard(control, plan),
        (PlanKind::Guard, Some(inner)) => bubblewrap::guard(control, plan, inner),
        (PlanKind::Native, _) => native::run(control, plan, outer_identity),
        (PlanKind::Inner | PlanKind::InnerMounted, _) => bubblewrap::run_inside(control, plan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_binary_is_found_at_its_path() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("tool");
        let deleted = dir.path().join("tool (deleted)");
        assert_eq!(without_deleted_suffix(path.clone()), path);
        assert_eq!(without_deleted_suffix(deleted.clone()), path);
        // A file may really have this name.
        std::fs::write(&deleted, "").expect("written");
        assert_eq!(without_deleted_suffix(deleted.clone()), deleted);
    }
}
