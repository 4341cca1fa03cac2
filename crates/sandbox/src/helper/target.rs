//! The last steps, in which this process becomes the target.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use super::{Step, StepError, filter, landlock, step, sys};
use crate::plan::{PlanKind, Raw, Resource, SpawnPlan};

/// Executes the target. Returns only if that failed.
pub fn exec_target(plan: &SpawnPlan) -> Result<(), StepError> {
    let argv = strings(&plan.argv)?;
    let env: Vec<CString> = plan
        .env
        .iter()
        .map(|(name, value)| {
            let mut pair = name.bytes().to_vec();
            pair.push(b'=');
            pair.extend_from_slice(value.bytes());
            c_string(pair)
        })
        .collect::<Result<_, StepError>>()?;
    // SAFETY: no arguments. Fails only for a group leader, which a fresh child is not.
    unsafe { libc::setsid() };
    if plan.tty {
        // SAFETY: stdin is our own terminal.
        sys::check(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) }.into())
            .step(step("take over the terminal"))?;
    }
    std::env::set_current_dir(plan.cwd.path())
        .step(|| format!("enter {}", plan.cwd.path().display()))?;
    for (resource, limit) in &plan.rlimits {
        limit_resource(*resource, *limit).step(|| format!("limit {resource:?}"))?;
    }
    if plan.no_stdin {
        // SAFETY: our own descriptor, which nothing here reads.
        unsafe { libc::close(0) };
    }
    default_signals();
    if let Some(confinement) = &plan.confinement {
        // Process 1 has already dropped all capabilities; this repeats it to be sure.
        sys::clear_capabilities().step(step("drop capabilities"))?;
        sys::no_new_privileges().step(step("give up privileges"))?;
        landlock::restrict(&confinement.landlock)?;
        filter::install(confinement.seccomp).step(step("install the seccomp filter"))?;
    }
    if plan.kind == PlanKind::Offline {
        sys::no_new_privileges().step(step("give up privileges"))?;
        filter::block_sockets().step(step("install the seccomp filter"))?;
    }
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        let strings = list.iter().map(|s| s.as_ptr());
        strings.chain([std::ptr::null()]).collect()
    };
    let (argv_pointers, env_pointers) = (pointers(&argv), pointers(&env));
    let program = argv
        .first()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
        .step(step("find the program"))?;
    // SAFETY: arrays of C strings that end with null and outlive the call.
    unsafe {
        libc::execve(
            program.as_ptr(),
            argv_pointers.as_ptr(),
            env_pointers.as_ptr(),
        )
    };
    Err(io::Error::last_os_error()).step(|| format!("execute {}", program.to_string_lossy()))
}

fn strings(list: &[Raw]) -> Result<Vec<CString>, StepError> {
    list.iter()
        .map(|text| c_string(text.bytes().to_vec()))
        .collect()
}

fn c_string(bytes: Vec<u8>) -> Result<CString, StepError> {
    CString::new(bytes)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
        .step(step("pass an argument with a NUL byte"))
}

fn limit_resource(resource: Resource, limit: u64) -> io::Result<()> {
    let which = match resource {
        Resource::AddressSpace => libc::RLIMIT_AS,
        Resource::CpuSeconds => libc::RLIMIT_CPU,
        Resource::Processes => libc::RLIMIT_NPROC,
        Resource::OpenFiles => libc::RLIMIT_NOFILE,
        Resource::CoreSize => libc::RLIMIT_CORE,
    };
    let limit = libc::rlimit {
        rlim_cur: limit,
        rlim_max: limit,
    };
    // SAFETY: plain data.
    sys::check(unsafe { libc::setrlimit(which, &limit) }.into()).map(drop)
}

/// Resets signals, so that the target does not inherit what the runner or this helper ignores or
/// blocks.
fn default_signals() {
    // SAFETY: plain numbers and an empty set; signals that cannot be changed are refused.
    unsafe {
        for number in 1..=31 {
            libc::signal(number, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

pub fn send_error(pipe: &OwnedFd, error: &StepError) {
    if let Ok(pipe) = pipe.try_clone() {
        let errno = error.error.raw_os_error().unwrap_or(0);
        let _ = write!(File::from(pipe), "{errno} {}", error.step);
    }
}

/// Waits until the target is executed, or returns the error.
pub fn receive_error(pipe: OwnedFd) -> Option<StepError> {
    let mut text = String::new();
    File::from(pipe).read_to_string(&mut text).ok()?;
    let (errno, step) = text.split_once(' ')?;
    Some(StepError {
        step: step.to_owned(),
        error: io::Error::from_raw_os_error(errno.parse().unwrap_or(0)),
    })
}
