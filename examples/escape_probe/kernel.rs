//! Attempts with kernel interfaces: mounts, namespaces, and calls that bypass other checks.

use std::fs;
use std::os::fd::AsRawFd;

use crate::{Blocked, Error, Escaped, Outcome, c, files, judged, number, refused};

pub fn attempt(name: &str, args: &[&str]) -> Option<Outcome> {
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: each call gets plain numbers, C strings that outlive it, or memory of the size
    // that is passed. Calls that would change the host are undone or change nothing.
    Some(unsafe {
        match (name, args) {
            ("unshare", [flags]) => judged("unshare", libc::unshare(number(flags) as i32).into()),
            ("clone_namespace", [flags]) => crate::exec::clone(number(flags) as i32),
            ("clone3_namespace", [flags]) => crate::exec::clone3(number(flags) as u64),
            ("mount", [at]) => mount(at),
            ("mount_new", []) => judged(
                "fsopen",
                libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0),
            ),
            ("open_tree", [path]) => judged(
                "open_tree",
                libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, c(path).as_ptr(), 1),
            ),
            ("mount_setattr", [path]) => mount_setattr(path),
            ("unmount", [at, secret]) => {
                let done = libc::umount2(c(at).as_ptr(), libc::MNT_DETACH);
                after(done.into(), "umount2", secret)
            }
            ("remount", [at, file]) => {
                let flags = libc::MS_REMOUNT | libc::MS_BIND;
                let null = std::ptr::null();
                let done = libc::mount(null, c(at).as_ptr(), null, flags, none);
                if done < 0 {
                    return Some(refused("mount"));
                }
                match fs::write(file, "mine") {
                    Ok(()) => Escaped(format!("wrote {file}")),
                    Err(error) => Blocked(error.to_string()),
                }
            }
            ("pivot_root", [to]) => judged(
                "pivot_root",
                libc::syscall(libc::SYS_pivot_root, c(to).as_ptr(), c(to).as_ptr()),
            ),
            ("chroot", [to]) => judged("chroot", libc::chroot(c(to).as_ptr()).into()),
            ("file_handle", [path]) => file_handle(path),
            ("add_key", []) => {
                const PROCESS_RING: libc::c_int = -2;
                judged(
                    "add_key",
                    libc::syscall(
                        libc::SYS_add_key,
                        c"user".as_ptr(),
                        c"escape-probe".as_ptr(),
                        c"x".as_ptr(),
                        1,
                        PROCESS_RING,
                    ),
                )
            }
            ("key_ring", []) => {
                const SESSION_RING: libc::c_int = -3;
                judged(
                    "keyctl",
                    libc::syscall(libc::SYS_keyctl, 0, SESSION_RING, 1),
                )
            }
            ("bpf", []) => bpf(),
            ("perf", []) => perf(),
            ("io_uring", []) => {
                let mut parameters = [0_u32; 30];
                judged(
                    "io_uring_setup",
                    libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()),
                )
            }
            // Only faults in user mode, which needs no privilege.
            ("userfault", []) => judged("userfaultfd", libc::syscall(libc::SYS_userfaultfd, 1)),
            ("kernel_log", []) => {
                const READ_ALL: libc::c_int = 3;
                let mut text = [0_u8; 64];
                judged(
                    "syslog",
                    libc::syscall(libc::SYS_syslog, READ_ALL, text.as_mut_ptr(), text.len()),
                )
            }
            ("host_name", []) => {
                let mut name = [0_u8; 256];
                libc::gethostname(name.as_mut_ptr().cast(), name.len());
                let length = name.iter().position(|b| *b == 0).unwrap_or(0);
                judged(
                    "sethostname",
                    libc::sethostname(name.as_ptr().cast(), length).into(),
                )
            }
            // System calls of x32 processes, called from this process.
            #[cfg(target_arch = "x86_64")]
            ("x32", []) => judged("x32 getpid", libc::syscall(0x4000_0000 + libc::SYS_getpid)),
            #[cfg(target_arch = "x86_64")]
            ("x32_fork", []) => {
                let pid = libc::syscall(0x4000_0000 + libc::SYS_fork);
                if pid == 0 {
                    libc::_exit(0);
                }
                judged("x32 fork", pid)
            }
            #[cfg(target_arch = "x86_64")]
            ("int80", []) => int80(),
            _ => return None,
        }
    })
}

fn after(done: libc::c_long, what: &str, secret: &str) -> Outcome {
    if done < 0 {
        return refused(what);
    }
    files::read(secret)
}

fn mount(at: &str) -> Outcome {
    // SAFETY: C strings; what was mounted is unmounted.
    unsafe {
        let kind = c"tmpfs".as_ptr();
        let done = libc::mount(kind, c(at).as_ptr(), kind, 0, std::ptr::null());
        if done == 0 {
            libc::umount2(c(at).as_ptr(), libc::MNT_DETACH);
        }
        judged("mount", done.into())
    }
}

/// Clears no attributes on a host mount. Inside the sandbox, it would clear "read-only".
fn mount_setattr(path: &str) -> Outcome {
    let attributes = [0_u64, 0, 0, 0];
    // SAFETY: a C string and attributes of the size given.
    judged("mount_setattr", unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            c(path).as_ptr(),
            0,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    })
}

/// Opens a file by its handle instead of its name.
fn file_handle(path: &str) -> Outcome {
    #[repr(C, align(8))]
    struct Handle {
        bytes: u32,
        kind: i32,
        data: [u8; 128],
    }
    let mut handle = Handle {
        bytes: 128,
        kind: 0,
        data: [0; 128],
    };
    let mut mount = 0;
    // SAFETY: room for the handle, whose size is passed.
    unsafe {
        let done = libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            c(path).as_ptr(),
            &raw mut handle,
            &raw mut mount,
            0,
        );
        if done < 0 {
            return crate::refused_or_absent("name_to_handle_at");
        }
        let Ok(at) = fs::File::open(path) else {
            return Error("cannot open the directory".into());
        };
        judged(
            "open_by_handle_at",
            libc::syscall(
                libc::SYS_open_by_handle_at,
                at.as_raw_fd(),
                &raw mut handle,
                libc::O_RDONLY,
            ),
        )
    }
}

/// Loads a socket filter that accepts everything, which is the simplest program.
fn bpf() -> Outcome {
    const PROG_LOAD: libc::c_int = 5;
    let program: [u64; 2] = [0x0000_0000_0000_00b7, 0x95];
    let mut attributes = [0_u64; 18];
    attributes[0] = 1 | 2 << 32;
    attributes[1] = program.as_ptr() as u64;
    attributes[2] = c"GPL".as_ptr() as u64;
    // SAFETY: attributes of the size given.
    judged("bpf", unsafe {
        libc::syscall(
            libc::SYS_bpf,
            PROG_LOAD,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    })
}

/// Measures the CPU time of this process in user mode.
fn perf() -> Outcome {
    const SOFTWARE: u32 = 1;
    const EXCLUDE_KERNEL_AND_HYPERVISOR: u64 = 1 << 5 | 1 << 6;
    let mut attributes = [0_u64; 14];
    attributes[0] = u64::from(SOFTWARE) | (size_of_val(&attributes) as u64) << 32;
    attributes[5] = EXCLUDE_KERNEL_AND_HYPERVISOR;
    // SAFETY: attributes of the size that they name.
    judged("perf_event_open", unsafe {
        libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0)
    })
}

/// Calls `getpid` (20) as a 32-bit system call.
#[cfg(target_arch = "x86_64")]
fn int80() -> Outcome {
    let result: u64;
    // SAFETY: a call without arguments; the old entry may change r8 to r11.
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inlateout("rax") 20_u64 => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    match result as i32 {
        pid if pid > 0 => Escaped(format!("process {pid}")),
        error => Error(format!("absent: {error}")),
    }
}
