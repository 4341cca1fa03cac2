//! Attempts to access other processes, and to exceed resource limits.

use std::fs;
use std::io::Read;

use crate::{Blocked, Error, Escaped, Outcome, SECRET, judged, number, refused, refused_or_absent};

pub fn attempt(name: &str, args: &[&str]) -> Option<Outcome> {
    Some(match (name, args) {
        ("victim", []) => victim(),
        ("linger", [_mark]) => linger(false),
        ("stay", [_mark]) => linger(true),
        ("user", []) => {
            // SAFETY: no arguments, cannot fail.
            Escaped(format!("user {}.", unsafe { libc::geteuid() }))
        }
        ("environment", []) => environment(),
        ("environ_of", [pid]) => environ_of(&who(pid)),
        ("memory_file_of", [pid, address]) => memory_file_of(&who(pid), address),
        ("memory_of", [pid, address]) => memory_of(number(&who(pid)) as i32, address),
        ("signal", [pid]) => {
            // SAFETY: signal 0 only asks.
            let done = unsafe { libc::kill(number(&who(pid)) as i32, 0) };
            judged("kill", done.into())
        }
        ("signal_descriptor", [pid]) => match pidfd(pid) {
            // SAFETY: plain numbers; signal 0 only asks.
            Ok(fd) => judged("pidfd_send_signal", unsafe {
                libc::syscall(libc::SYS_pidfd_send_signal, fd, 0, 0, 0)
            }),
            Err(outcome) => outcome,
        },
        ("trace", [pid]) => {
            const SEIZE: libc::c_long = 0x4206;
            // SAFETY: seizing does not stop the process, and ends when this process exits.
            judged("ptrace", unsafe {
                libc::syscall(libc::SYS_ptrace, SEIZE, number(&who(pid)), 0, 0)
            })
        }
        ("descriptor_of", [pid, fd]) => descriptor_of(pid, number(fd)),
        ("compare", [pid]) => {
            // SAFETY: plain numbers; asks whether both share their memory.
            judged("kcmp", unsafe {
                libc::syscall(libc::SYS_kcmp, libc::getpid(), number(&who(pid)), 1, 0, 0)
            })
        }
        ("enter_namespace_of", [pid]) => match pidfd(pid) {
            // SAFETY: plain numbers.
            Ok(fd) => judged("setns", unsafe {
                libc::setns(fd, libc::CLONE_NEWNET).into()
            }),
            Err(outcome) => outcome,
        },
        ("priority_of", [pid]) => {
            // SAFETY: asks for the limits of another process and sets none.
            judged("prlimit", unsafe {
                libc::prlimit(
                    number(&who(pid)) as i32,
                    libc::RLIMIT_NOFILE,
                    std::ptr::null(),
                    std::ptr::null_mut(),
                )
                .into()
            })
        }
        ("many_processes", [wanted]) => many_processes(number(wanted)),
        ("much_memory", [megabytes]) => much_memory(number(megabytes)),
        ("type_into_terminal", []) => {
            // SAFETY: one byte for the terminal.
            judged("TIOCSTI", unsafe {
                libc::ioctl(0, libc::TIOCSTI, c"x".as_ptr()).into()
            })
        }
        ("privileges", []) => privileges(),
        _ => return None,
    })
}

/// The process id as text. `parent` is the parent process.
fn who(pid: &str) -> String {
    match pid {
        // SAFETY: no arguments, cannot fail.
        "parent" => unsafe { libc::getppid() }.to_string(),
        other => other.to_owned(),
    }
}

/// A process of the host with the secret in its memory, its environment and an open file. Every
/// process of the same user may inspect it. It exits when its stdin is closed.
fn victim() -> Outcome {
    let secret = SECRET.to_owned();
    // SAFETY: plain numbers; without effect where no such restriction exists.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    println!("{}", secret.as_ptr() as usize);
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    // Keep the secret in memory until here.
    drop(secret);
    std::process::exit(0)
}

/// Leaves a daemon and its child behind, each in its own process session. If `stays` is true,
/// this process does not exit either.
fn linger(stays: bool) -> Outcome {
    // SAFETY: one thread; the children only wait to be killed.
    unsafe {
        for generation in 0..2 {
            match libc::fork() {
                0 if generation == 0 => {
                    libc::setsid();
                    libc::fork();
                    loop {
                        libc::pause();
                    }
                }
                0 => loop {
                    libc::pause();
                },
                pid if pid < 0 => return refused("fork"),
                _ => {}
            }
        }
        if stays {
            println!("up");
            loop {
                libc::pause();
            }
        }
    }
    Escaped("left processes behind".into())
}

fn environment() -> Outcome {
    let all: Vec<String> = std::env::vars().map(|(k, v)| format!("{k}={v}")).collect();
    Escaped(all.join("\n"))
}

fn has_secret(text: &[u8]) -> bool {
    text.windows(SECRET.len()).any(|w| w == SECRET.as_bytes())
}

fn environ_of(pid: &str) -> Outcome {
    match fs::read(format!("/proc/{pid}/environ")) {
        Ok(text) if has_secret(&text) => Escaped("read its environment".into()),
        Ok(text) => Blocked(format!("{} other bytes", text.len())),
        Err(error) => Blocked(error.to_string()),
    }
}

fn memory_file_of(pid: &str, address: &str) -> Outcome {
    use std::os::unix::fs::FileExt;
    let mut text = vec![0; SECRET.len()];
    let read = fs::File::open(format!("/proc/{pid}/mem"))
        .and_then(|file| file.read_exact_at(&mut text, number(address) as u64));
    match read {
        Ok(()) if has_secret(&text) => Escaped("read its memory".into()),
        Ok(()) => Error("other memory".into()),
        Err(error) => Blocked(error.to_string()),
    }
}

fn memory_of(pid: libc::pid_t, address: &str) -> Outcome {
    let mut text = vec![0_u8; SECRET.len()];
    let own = libc::iovec {
        iov_base: text.as_mut_ptr().cast(),
        iov_len: text.len(),
    };
    let other = libc::iovec {
        iov_base: number(address) as *mut libc::c_void,
        iov_len: text.len(),
    };
    // SAFETY: room for what is read.
    let read = unsafe { libc::process_vm_readv(pid, &own, 1, &other, 1, 0) };
    match read {
        read if read < 0 => refused_or_absent("process_vm_readv"),
        _ if has_secret(&text) => Escaped("read its memory".into()),
        _ => Error("other memory".into()),
    }
}

fn pidfd(pid: &str) -> Result<libc::c_int, Outcome> {
    // SAFETY: plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, number(&who(pid)), 0) };
    if fd < 0 {
        return Err(refused_or_absent("pidfd_open"));
    }
    Ok(fd as libc::c_int)
}

fn descriptor_of(pid: &str, wanted: i64) -> Outcome {
    match pidfd(pid) {
        // SAFETY: plain numbers.
        Ok(fd) => judged("pidfd_getfd", unsafe {
            libc::syscall(libc::SYS_pidfd_getfd, fd, wanted, 0)
        }),
        Err(outcome) => outcome,
    }
}

/// Acts like a fork bomb, but stops at a number that exceeds all limits of the tests.
fn many_processes(wanted: i64) -> Outcome {
    let mut children = Vec::new();
    let mut stopped = None;
    for _ in 0..wanted {
        // SAFETY: the child only waits to be killed.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: no arguments.
                unsafe { libc::pause() };
            },
            pid if pid < 0 => {
                stopped = Some(refused("fork"));
                break;
            }
            pid => children.push(pid),
        }
    }
    for pid in &children {
        // SAFETY: our own children, not waited for yet.
        unsafe {
            libc::kill(*pid, libc::SIGKILL);
            libc::waitpid(*pid, std::ptr::null_mut(), 0);
        }
    }
    stopped.unwrap_or_else(|| Escaped(format!("{} processes", children.len())))
}

fn much_memory(megabytes: i64) -> Outcome {
    let mut held: Vec<Vec<u8>> = Vec::new();
    for _ in 0..megabytes / 16 {
        let mut part = Vec::new();
        if part.try_reserve_exact(16 << 20).is_err() {
            return Blocked(format!("no more than {} MB", held.len() * 16));
        }
        part.resize(16 << 20, 1);
        held.push(part);
    }
    Escaped(format!("{} MB", held.len() * 16))
}

/// Checks for capabilities in any set, and whether a set-user-id program could add some.
fn privileges() -> Outcome {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name));
        line.unwrap_or_default()
            .trim_start_matches(':')
            .trim()
            .to_owned()
    };
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let value = field(set);
        if value.is_empty() {
            return Error("no /proc/self/status".into());
        }
        if !value.trim_matches('0').is_empty() {
            return Escaped(format!("{set} {value}"));
        }
    }
    if field("NoNewPrivs") != "1" || field("Seccomp") != "2" {
        return Escaped("new privileges are possible, or the seccomp filter is missing".into());
    }
    Blocked("no capabilities, and no way to get any".into())
}
