//! Process 1 of the sandbox, or the guard if there is none. It starts the target, forwards signals,
//! reaps orphans, and leaves no process behind.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::{Duration, Instant};

use super::sys::{self, Fork};
use super::{Step, StepError, step, target};
use crate::plan::SpawnPlan;
use crate::spawn::control::{self, HelperCommand, HelperReport, TargetExit};

/// Which processes are killed when the target has ended.
#[derive(Clone, Copy, PartialEq)]
enum KillScope {
    /// Everything in this process namespace, which process 1 can signal at once.
    Namespace,
    /// Everything below this process, which is their subreaper.
    Descendants,
}

pub fn join_cgroups(plan: &SpawnPlan) -> Result<(), StepError> {
    for procs in &plan.cgroups {
        fs::write(procs.path(), "0")
            .step(|| format!("join the control group {}", procs.path().display()))?;
    }
    Ok(())
}

/// Runs without a sandbox. Children that lose their parent become our children.
pub fn guard(control: &OwnedFd, plan: &SpawnPlan) -> Result<(), StepError> {
    sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0).step(step("adopt orphans"))?;
    // Without a sandbox, the target can stop this process. If the runner dies after that, this
    // process continues, sees that the runner is gone, and ends everything.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGCONT as _, 0)
        .step(step("bind the process to the runner"))?;
    let done = start_and_watch(control, plan, KillScope::Descendants);
    remove_leftovers(plan);
    done
}

pub fn watch(control: &OwnedFd, plan: &SpawnPlan) -> Result<(), StepError> {
    start_and_watch(control, plan, KillScope::Namespace)
}

/// The helper outside the namespaces: waits for process 1, then cleans up on the host.
pub fn wait_and_clean_up(control: &OwnedFd, first: libc::pid_t, plan: &SpawnPlan) {
    let _ = release_streams();
    // The runner must see the end of process 1, not of this process.
    // SAFETY: closed once; the owner never uses it again.
    unsafe { libc::close(control.as_raw_fd()) };
    wait_for(first);
    remove_leftovers(plan);
}

pub fn wait_for(child: libc::pid_t) {
    // SAFETY: our own child; the status is not needed.
    while unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

/// Removes control groups, and empty directories that masks were mounted on. Never removes anything
/// with content.
pub fn remove_leftovers(plan: &SpawnPlan) {
    for path in &plan.leftovers {
        // A control group is busy until the kernel has released its last process.
        for _ in 0..50 {
            match sys::remove_unlocked(path.path()) {
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                _ => break,
            }
        }
    }
}

/// Replaces our standard streams, because the target's pipes must end when the target ends.
pub fn release_streams() -> io::Result<()> {
    let null = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    for stream in 0..3 {
        sys::dup2(null.as_raw_fd(), stream)?;
    }
    Ok(())
}

fn start_and_watch(control: &OwnedFd, plan: &SpawnPlan, scope: KillScope) -> Result<(), StepError> {
    if scope == KillScope::Namespace {
        // The mounts are made, so neither this process nor the target needs capabilities.
        sys::drop_capabilities().step(step("drop capabilities"))?;
        sys::no_new_privileges().step(step("give up privileges"))?;
    }
    // Without a network namespace, the counters are those of the whole machine.
    let has_own_network = scope == KillScope::Namespace;
    let attempts_before = if has_own_network {
        network_attempts()
    } else {
        0
    };
    let children = block_child_signal().step(step("watch for the end of children"))?;
    let (failure, failure_writer) = sys::pipe().step(step("create a pipe"))?;
    let guard = std::process::id();
    let target = match sys::fork().step(step("start the target"))? {
        Fork::Child => {
            drop(failure);
            let joined = match scope {
                KillScope::Descendants => join_guard(guard, plan),
                KillScope::Namespace => Ok(()),
            };
            if let Err(error) = joined.and_then(|()| target::exec_target(plan)) {
                target::send_error(&failure_writer, &error);
            }
            // SAFETY: ends the child that could not become the target.
            unsafe { libc::_exit(127) }
        }
        Fork::Parent(pid) => pid,
    };
    drop(failure_writer);
    if let Some(error) = target::receive_error(failure) {
        reap_all(scope);
        return Err(error);
    }
    let output = pipe_of(1);
    release_streams().step(step("release the standard streams"))?;
    // Other processes should not inspect this one.
    let _ = sys::prctl(libc::PR_SET_DUMPABLE, 0, 0);
    if control::send(control.as_fd(), &HelperReport::Started, None).is_err() {
        reap_all(scope);
        return Ok(());
    }
    let status = serve(control, &children, target);
    let held = status.is_some() && wait_for_output(plan.linger_ms, output);
    let survivors = reap_all(scope);
    if let Some(status) = status {
        let attempts = if has_own_network {
            network_attempts()
        } else {
            0
        };
        let ended = TargetExit {
            held,
            network_attempts: attempts.saturating_sub(attempts_before),
            ..ended(status, survivors)
        };
        let _ = control::send(control.as_fd(), &HelperReport::Ended(ended), None);
    }
    Ok(())
}

/// Prepares the target of a guard. It ends with the guard, which it can kill.
fn join_guard(guard: u32, plan: &SpawnPlan) -> Result<(), StepError> {
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as _, 0)
        .step(step("bind the target to the helper"))?;
    if std::os::unix::process::parent_id() != guard {
        return Err(io::Error::from_raw_os_error(libc::ESRCH)).step(step("find the helper"));
    }
    // The guard stays outside the groups, so that it can remove them.
    join_cgroups(plan)
}

/// A descriptor that becomes readable when a child changes its state.
fn block_child_signal() -> io::Result<OwnedFd> {
    // SAFETY: a zeroed set is valid for sigemptyset; the descriptor is new.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        sys::check(libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()).into())?;
        let fd =
            sys::check(libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK).into())?;
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

/// Serves the runner until the target has ended (returns its status) or the runner is gone.
fn serve(control: &OwnedFd, children: &OwnedFd, target: libc::pid_t) -> Option<i32> {
    loop {
        if let Some(status) = reap_until(target) {
            return Some(status);
        }
        let mut ready = [control, children].map(|fd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: two entries.
        unsafe { libc::poll(ready.as_mut_ptr(), 2, -1) };
        if ready[1].revents != 0 {
            let mut drained = [0_u8; 512];
            // SAFETY: there is space for what is read; the contents are not needed.
            while unsafe {
                libc::read(
                    children.as_raw_fd(),
                    drained.as_mut_ptr().cast(),
                    drained.len(),
                )
            } > 0
            {}
        }
        if ready[0].revents != 0 {
            match control::receive::<HelperCommand>(control.as_fd()) {
                Ok(Some((command, _))) => match handle_command(control, command, target) {
                    Next::Continue => {}
                    Next::Kill => return wait_killed(target),
                },
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

enum Next {
    Continue,
    Kill,
}

fn handle_command(control: &OwnedFd, command: HelperCommand, target: libc::pid_t) -> Next {
    match command {
        HelperCommand::Signal { number, all } => {
            // The target was not waited for yet, so its pid is still valid.
            // SAFETY: only plain numbers. -1 does not include process 1.
            unsafe { libc::kill(if all { -1 } else { -target }, number) };
            Next::Continue
        }
        HelperCommand::SignalTarget { number } => {
            // SAFETY: as above.
            unsafe { libc::kill(target, number) };
            Next::Continue
        }
        HelperCommand::Socket => {
            // SAFETY: a new descriptor.
            let socket =
                unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
            if socket >= 0 {
                // SAFETY: as above.
                let socket = unsafe { OwnedFd::from_raw_fd(socket) };
                let _ = control::send(control.as_fd(), &HelperReport::Socket, Some(socket.as_fd()));
            }
            Next::Continue
        }
        HelperCommand::Kill => Next::Kill,
    }
}

fn wait_killed(target: libc::pid_t) -> Option<i32> {
    let mut status = 0;
    // SAFETY: our own child, not waited for yet.
    unsafe {
        libc::kill(-target, libc::SIGKILL);
        libc::kill(target, libc::SIGKILL);
        while libc::waitpid(target, &mut status, 0) < 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return None;
            }
        }
    }
    Some(status)
}

/// Waits for all children that have ended. Returns the status of the target if it is among them.
fn reap_until(target: libc::pid_t) -> Option<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid for writes.
        let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
        if pid == target {
            return Some(status);
        }
        if pid <= 0 {
            return None;
        }
    }
}

/// Kills and waits for everything that is left, and counts it.
fn reap_all(scope: KillScope) -> u32 {
    let mut count = 0;
    // A process may fork while it is killed, so repeat until none is left.
    for _ in 0..10_000 {
        match scope {
            // SAFETY: -1 is everything in the namespace except us.
            KillScope::Namespace => unsafe {
                libc::kill(-1, libc::SIGKILL);
            },
            KillScope::Descendants => kill_descendants(std::process::id()),
        }
        loop {
            // SAFETY: the status is not needed.
            let pid = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
            if pid > 0 {
                count += 1;
                continue;
            }
            if pid < 0 {
                return count;
            }
            break;
        }
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    count
}

/// Kills everything below a subreaper.
pub fn kill_descendants(of: u32) {
    for pid in descendants(of) {
        // SAFETY: plain numbers. The process was there a moment ago, so its pid is not reused yet.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

/// Everything below a subreaper, found through `/proc`. Orphans have become its children.
fn descendants(of: u32) -> Vec<libc::pid_t> {
    let mut found = Vec::new();
    let mut pending = vec![of];
    while let Some(pid) = pending.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|n| n.parse().ok()) {
                pending.push(child);
                found.push(child as libc::pid_t);
            }
        }
    }
    found
}

/// Device and inode number, which identify a pipe.
type Inode = (u64, u64);

/// The pipe on one of our own descriptors.
fn pipe_of(fd: i32) -> Option<Inode> {
    let about = fs::metadata(format!("/proc/self/fd/{fd}")).ok()?;
    about
        .file_type()
        .is_fifo()
        .then(|| (about.dev(), about.ino()))
}

/// Lets processes that the target left behind finish its output. Returns whether one still holds it
/// at the end.
fn wait_for_output(ms: u32, output: Option<Inode>) -> bool {
    let Some(output) = output.filter(|_| ms > 0) else {
        return false;
    };
    let end = Instant::now() + Duration::from_millis(ms.into());
    while descendants(std::process::id())
        .iter()
        .any(|pid| holds(*pid, output))
    {
        if Instant::now() >= end {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

fn holds(pid: libc::pid_t, pipe: Inode) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let mut open = open.into_iter().flatten().flatten();
    open.any(|fd| {
        let about = fs::metadata(fd.path());
        about.is_ok_and(|about| (about.dev(), about.ino()) == pipe)
    })
}

fn ended(status: i32, survivors: u32) -> TargetExit {
    // SAFETY: plain data that the kernel fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let micros = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    TargetExit {
        status,
        survivors,
        held: false,
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
        peak_kb: usage.ru_maxrss as u64,
        network_attempts: 0,
    }
}

/// Counters of the kernel that grow with every packet or connection that a process of this network
/// namespace tries to send, even without a route.
const ATTEMPTS: [(&str, &str); 3] = [
    ("Ip:", "OutNoRoutes"),
    ("Tcp:", "ActiveOpens"),
    ("Udp:", "OutDatagrams"),
];
/// The same for IPv6, in a file with one counter per line.
const ATTEMPTS_6: [&str; 2] = ["Ip6OutNoRoutes", "Udp6OutDatagrams"];

/// Number of attempts to use the network of this namespace so far. 0 if the kernel does not report
/// it.
fn network_attempts() -> u64 {
    let read = |name: &str| fs::read_to_string(name).unwrap_or_default();
    attempts_in(&read("/proc/self/net/snmp"), &read("/proc/self/net/snmp6"))
}

/// Adds the counters. In `snmp`, a line with names precedes each line with numbers.
fn attempts_in(snmp: &str, snmp6: &str) -> u64 {
    let mut sum: u64 = 0;
    let lines: Vec<&str> = snmp.lines().collect();
    for pair in lines.windows(2) {
        let [names, numbers] = pair else { continue };
        for (group, wanted) in ATTEMPTS {
            if names.starts_with(group) && numbers.starts_with(group) {
                let place = names.split_whitespace().position(|name| name == wanted);
                let number = place.and_then(|at| numbers.split_whitespace().nth(at));
                let number = number.and_then(|number| number.parse().ok());
                sum = sum.saturating_add(number.unwrap_or(0));
            }
        }
    }
    for line in snmp6.lines() {
        let mut words = line.split_whitespace();
        if words.next().is_some_and(|name| ATTEMPTS_6.contains(&name)) {
            let number = words.next().and_then(|number| number.parse().ok());
            sum = sum.saturating_add(number.unwrap_or(0));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_in_both_files() {
        let snmp = "Ip: Forwarding OutRequests OutNoRoutes\nIp: 2 5 3\n\
                    Tcp: MaxConn ActiveOpens\nTcp: 200 1\n\
                    UdpLite: OutDatagrams\nUdpLite: 9\n";
        let snmp6 = "Ip6OutRequests 4\nIp6OutNoRoutes 2\n";
        assert_eq!(attempts_in(snmp, snmp6), 6);
        assert_eq!(attempts_in("", ""), 0);
        assert_eq!(
            attempts_in("Ip: OutNoRoutes\nIp: many\n", "Ip6OutNoRoutes"),
            0
        );
    }
}
