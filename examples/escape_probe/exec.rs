//! Attempts to run programs that are not allowed, and to start processes where none are allowed.

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

use crate::{Blocked, Error, Escaped, Outcome, c, judged, refused, refused_or_absent};

const MFD_NOEXEC_SEAL: libc::c_uint = 8;
const MFD_EXEC: libc::c_uint = 16;

pub fn attempt(name: &str, args: &[&str]) -> Option<Outcome> {
    Some(match (name, args) {
        // An escape executes this program again, which then reports the escape.
        ("executed", [how @ .., last]) => {
            tidy(last);
            Escaped(format!("was executed: {}", how.first().unwrap_or(last)))
        }
        ("libraries", []) => libraries(),
        ("exec", [program]) => exec(&[program, "executed", "exec"]),
        ("exec_by_descriptor", [program]) => exec_by_descriptor(program),
        ("exec_copy", [program, directory]) => match copy(program, directory) {
            Ok(copy) => exec(&[&copy, "executed", "exec_copy", &copy]),
            Err(outcome) => outcome,
        },
        ("loader", [loader, program]) => exec(&[loader, program, "executed", "loader"]),
        ("loader_copy", [loader, program, directory]) => match copy(program, directory) {
            Ok(copy) => exec(&[loader, &copy, "executed", "loader_copy", &copy]),
            Err(outcome) => outcome,
        },
        ("script", [interpreter, directory]) => script(interpreter, directory),
        ("memory", [program]) => memory(program, 0, None),
        ("memory_executable", [program]) => memory(program, MFD_EXEC, None),
        ("memory_loader", [program, loader]) => memory(program, 0, Some(loader)),
        ("memory_sealed_loader", [program, loader]) => {
            memory(program, MFD_NOEXEC_SEAL, Some(loader))
        }
        ("map_written", [directory]) => map_written(directory),
        ("protect_written", [directory]) => protect_written(directory),
        ("run", [program]) => run(program),
        ("setuid", [program]) => setuid(program),
        ("fork", []) => fork(),
        #[cfg(target_arch = "x86_64")]
        ("vfork", []) => vfork(),
        ("clone", []) => clone(0),
        ("clone_as_thread_of_none", []) => clone(libc::CLONE_VM | libc::CLONE_FILES),
        ("clone3", []) => clone3(0),
        ("posix_spawn", [program]) => posix_spawn(program),
        ("thread", []) => match std::thread::spawn(|| 7).join() {
            Ok(7) => Escaped("a thread ran".into()),
            _ => Blocked("no thread".into()),
        },
        _ => return None,
    })
}

/// The loader and the libraries of this program, which a policy must make readable.
fn libraries() -> Outcome {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let own = fs::read_link("/proc/self/exe").unwrap_or_default();
    let mut found: Vec<&str> = maps
        .lines()
        .filter_map(|line| line.find('/').and_then(|at| line.get(at..)))
        .filter(|path| std::path::Path::new(path) != own)
        .collect();
    found.sort_unstable();
    found.dedup();
    Escaped(found.join("\n"))
}

/// Replaces this process. Returns only if that failed.
fn exec(argv: &[&str]) -> Outcome {
    let strings: Vec<CString> = argv.iter().map(|text| c(text)).collect();
    let mut pointers: Vec<*const libc::c_char> = strings.iter().map(|s| s.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: an array of C strings that ends with null.
    unsafe { libc::execv(pointers[0], pointers.as_ptr()) };
    refused("execve")
}

fn exec_descriptor(fd: i32, name: &str) -> Outcome {
    let strings = [c(name), c("executed"), c(name)];
    let pointers = [
        strings[0].as_ptr(),
        strings[1].as_ptr(),
        strings[2].as_ptr(),
        std::ptr::null(),
    ];
    let env = [std::ptr::null::<libc::c_char>()];
    // SAFETY: arrays of C strings that end with null.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            fd,
            c"".as_ptr(),
            pointers.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    refused("execveat")
}

fn exec_by_descriptor(program: &str) -> Outcome {
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(program);
    match opened {
        Ok(file) => exec_descriptor(file.as_raw_fd(), "exec_by_descriptor"),
        Err(error) => Blocked(format!("open {program}: {error}")),
    }
}

/// A unique file name for this attempt. Process ids are reused, and in a shared directory another
/// user's file could have the same name.
fn own_file(directory: &str) -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let (id, now) = (std::process::id(), now.as_nanos());
    format!("{directory}/{OWN}{id}-{now}")
}

const OWN: &str = "escape-probe-";

/// Removes the executed file, because the process that wrote it no longer exists.
fn tidy(path: &str) {
    let name = path.rsplit('/').next().unwrap_or_default();
    if name.starts_with(OWN) {
        let _ = fs::remove_file(path);
    }
}

fn copy(program: &str, directory: &str) -> Result<String, Outcome> {
    let to = own_file(directory);
    let made = fs::read(program)
        .and_then(|bytes| fs::write(&to, bytes))
        .and_then(|()| fs::set_permissions(&to, fs::Permissions::from_mode(0o755)));
    made.map(|()| to)
        .map_err(|error| Error(format!("copy to {directory}: {error}")))
}

fn script(interpreter: &str, directory: &str) -> Outcome {
    let to = own_file(directory);
    let made = fs::write(&to, format!("#!{interpreter} executed\n"))
        .and_then(|()| fs::set_permissions(&to, fs::Permissions::from_mode(0o755)));
    match made {
        Ok(()) => exec(&[&to]),
        Err(error) => Error(format!("{to}: {error}")),
    }
}

fn memory(program: &str, flags: libc::c_uint, loader: Option<&str>) -> Outcome {
    // SAFETY: a C string.
    let fd = unsafe { libc::memfd_create(c"probe".as_ptr(), flags) };
    if fd < 0 {
        // ENOSYS means blocked here.
        return refused("memfd_create");
    }
    // SAFETY: a new descriptor.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    let written =
        fs::read(program).and_then(|bytes| fs::write(format!("/proc/self/fd/{fd}"), bytes));
    if let Err(error) = written {
        return Blocked(format!("write to memory: {error}"));
    }
    match loader {
        Some(loader) => exec(&[loader, &format!("/proc/self/fd/{fd}"), "executed", "memory"]),
        None => exec_descriptor(file.as_raw_fd(), "memory"),
    }
}

fn map(directory: &str, protection: libc::c_int) -> Result<*mut libc::c_void, Outcome> {
    let path = own_file(directory);
    fs::write(&path, [0x90; 4096]).map_err(|e| Error(format!("{path}: {e}")))?;
    let file = fs::File::open(&path).map_err(|e| Error(format!("{path}: {e}")))?;
    tidy(&path);
    // SAFETY: a new private mapping of a file of one page.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            protection,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(refused("mmap"));
    }
    Ok(at)
}

fn map_written(directory: &str) -> Outcome {
    match map(directory, libc::PROT_READ | libc::PROT_EXEC) {
        Ok(_) => Escaped("mapped for execution".into()),
        Err(outcome) => outcome,
    }
}

fn protect_written(directory: &str) -> Outcome {
    match map(directory, libc::PROT_READ) {
        // SAFETY: our own mapping.
        Ok(at) => judged("mprotect", unsafe {
            libc::mprotect(at, 4096, libc::PROT_READ | libc::PROT_EXEC).into()
        }),
        Err(outcome) => outcome,
    }
}

/// Starts a program as a child and waits for it.
fn run(program: &str) -> Outcome {
    match std::process::Command::new(program)
        .args(["executed", "run"])
        .output()
    {
        Ok(output) if output.stdout.windows(7).any(|w| w == b"escaped") => Escaped("it ran".into()),
        Ok(output) => Blocked(format!("it ended with {}", output.status)),
        Err(error) => Blocked(error.to_string()),
    }
}

/// Runs a set-user-id program of another user, which prints its user id.
fn setuid(program: &str) -> Outcome {
    // SAFETY: no arguments, cannot fail.
    let own = unsafe { libc::geteuid() };
    match std::process::Command::new(program).arg("user").output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            match text.contains(&format!("user {own}.")) {
                true => Blocked(format!("still user {own}")),
                false if text.contains("user ") => Escaped(text),
                false => Error(format!("{}: {text}", output.status)),
            }
        }
        Err(error) => Blocked(error.to_string()),
    }
}

/// Outcome of a fork, in the parent.
fn collected(pid: libc::c_long, what: &str) -> Outcome {
    if pid < 0 {
        return match std::io::Error::last_os_error().raw_os_error() {
            // A filter that cannot inspect the arguments blocks the call with ENOSYS.
            Some(libc::ENOSYS) => Blocked(format!("{what}: not available")),
            _ => refused_or_absent(what),
        };
    }
    // SAFETY: our own child.
    unsafe { libc::waitpid(pid as libc::pid_t, std::ptr::null_mut(), 0) };
    Escaped(format!("{what}: process {pid}"))
}

fn fork() -> Outcome {
    // SAFETY: the child exits at once.
    let pid = unsafe { libc::syscall(fork_number()) };
    if pid == 0 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) }
    }
    collected(pid, "fork")
}

#[cfg(target_arch = "x86_64")]
fn fork_number() -> libc::c_long {
    libc::SYS_fork
}

/// On architectures without `fork`, `clone` without flags is the same.
#[cfg(not(target_arch = "x86_64"))]
fn fork_number() -> libc::c_long {
    libc::SYS_clone
}

/// The child shares our stack, so it must do nothing but exit.
#[cfg(target_arch = "x86_64")]
fn vfork() -> Outcome {
    let result: libc::c_long;
    // SAFETY: the child calls `exit` (60) before it touches anything.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov edi, 0",
            "mov eax, 60",
            "syscall",
            "2:",
            inlateout("rax") libc::SYS_vfork => result,
            out("rcx") _, out("r11") _, out("rdi") _,
        );
    }
    match result {
        pid if pid >= 0 => collected(pid, "vfork"),
        error => Blocked(format!(
            "vfork: {}",
            std::io::Error::from_raw_os_error(-error as i32)
        )),
    }
}

extern "C" fn nothing(_: *mut libc::c_void) -> libc::c_int {
    0
}

pub fn clone(flags: libc::c_int) -> Outcome {
    let mut stack = vec![0_u8; 64 * 1024];
    // SAFETY: a stack for the child, which returns at once; the end is 16-byte aligned.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len());
        let top = top.sub(top as usize % 16);
        libc::clone(
            nothing,
            top.cast(),
            flags | libc::SIGCHLD,
            std::ptr::null_mut(),
        )
    };
    collected(pid.into(), "clone")
}

pub fn clone3(flags: u64) -> Outcome {
    let mut arguments = [0_u64; 11];
    arguments[0] = flags;
    arguments[4] = libc::SIGCHLD as u64;
    // SAFETY: arguments of the size given; the child exits at once.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            arguments.as_ptr(),
            size_of_val(&arguments),
        )
    };
    if pid == 0 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) }
    }
    collected(pid, "clone3")
}

fn posix_spawn(program: &str) -> Outcome {
    let strings = [c(program), c("executed"), c("posix_spawn")];
    let argv = [
        strings[0].as_ptr().cast_mut(),
        strings[1].as_ptr().cast_mut(),
        strings[2].as_ptr().cast_mut(),
        std::ptr::null_mut(),
    ];
    let env = [std::ptr::null_mut()];
    let mut pid = 0;
    // SAFETY: arrays of C strings that end with null.
    let code = unsafe {
        libc::posix_spawn(
            &mut pid,
            argv[0],
            std::ptr::null(),
            std::ptr::null(),
            argv.as_ptr(),
            env.as_ptr(),
        )
    };
    match code {
        0 => collected(pid.into(), "posix_spawn"),
        code => Blocked(std::io::Error::from_raw_os_error(code).to_string()),
    }
}
