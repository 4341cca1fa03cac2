//! Attempts to read denied files, and to write where only reading is allowed.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{Blocked, Error, Escaped, Outcome, SECRET, c, refused, refused_or_absent};

pub fn attempt(name: &str, args: &[&str]) -> Option<Outcome> {
    Some(match (name, args) {
        ("read", [path]) => read(path),
        ("read_waiting", [path]) => read_waiting(path),
        ("write_waiting", [path]) => write_waiting(path),
        ("list", [dir, entry]) => list(dir, entry),
        ("hard_link", [secret, link]) => linked(fs::hard_link(secret, link), link),
        ("hard_link_follow", [secret, link]) => hard_link_through_descriptor(secret, link),
        ("symbolic_link", [secret, link]) => linked(symlink(secret, link), link),
        ("rename", [from, to, secret]) => linked(fs::rename(from, to), secret),
        ("exchange", [from, with, secret]) => exchange(from, with, secret),
        ("replace", [directory, aside, file]) => replace(directory, aside, file),
        ("descriptors", []) => descriptors(),
        ("descriptors_of", [pid]) => descriptors_of(pid),
        ("write", [path]) => write(path),
        ("create", [directory]) => create(directory),
        ("make_directory", [path]) => {
            let done = fs::create_dir(path);
            simple("mkdir", done)
        }
        ("remove", [path]) => simple("unlink", fs::remove_file(path)),
        ("open_for_writing", [path]) => open_for_writing(path),
        ("chmod", [path]) => chmod(path),
        ("chown", [path]) => chown(path),
        ("utimes", [path]) => utimes(path),
        ("truncate", [path]) => truncate(path),
        ("xattr", [path]) => xattr(path),
        ("remove_xattr", [path]) => remove_xattr(path),
        ("from_cwd", [path]) => from_cwd(path),
        _ => return None,
    })
}

fn holds_secret(text: &[u8]) -> bool {
    text.windows(SECRET.len()).any(|w| w == SECRET.as_bytes())
}

fn simple(what: &str, done: std::io::Result<()>) -> Outcome {
    match done {
        Ok(()) => Escaped(what.into()),
        Err(error) => Blocked(format!("{what}: {error}")),
    }
}

pub fn read(path: &str) -> Outcome {
    match fs::read(path) {
        Ok(text) if holds_secret(&text) => Escaped(format!("read {path}")),
        Ok(text) => Blocked(format!("{path} contains {} other bytes", text.len())),
        Err(error) => Blocked(format!("{path}: {error}")),
    }
}

/// Reads a file after the test has changed it on the host.
fn read_waiting(path: &str) -> Outcome {
    println!("ready");
    let begin = Instant::now();
    loop {
        let outcome = read(path);
        if matches!(outcome, Escaped(_)) || begin.elapsed() > Duration::from_secs(1) {
            return outcome;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn write_waiting(path: &str) -> Outcome {
    println!("ready");
    let begin = Instant::now();
    loop {
        let outcome = write(path);
        if matches!(outcome, Escaped(_)) || begin.elapsed() > Duration::from_secs(1) {
            return outcome;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn list(dir: &str, entry: &str) -> Outcome {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => return Blocked(format!("{dir}: {error}")),
    };
    match entries.flatten().any(|e| e.file_name() == entry) {
        true => Escaped(format!("{dir} shows {entry}")),
        false => Blocked(format!("{dir} does not show {entry}")),
    }
}

fn linked(done: std::io::Result<()>, secret: &str) -> Outcome {
    match done {
        Ok(()) => read(secret),
        Err(error) => match read(secret) {
            Escaped(how) => Escaped(how),
            _ => Blocked(error.to_string()),
        },
    }
}

/// Links a descriptor that was opened without access to the content (`linkat`).
fn hard_link_through_descriptor(secret: &str, link: &str) -> Outcome {
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(secret);
    let file = match opened {
        Ok(file) => file,
        Err(error) => return Blocked(format!("open {secret}: {error}")),
    };
    let through = c(&format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&file)
    ));
    // SAFETY: C strings that outlive the call.
    let done = unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            through.as_ptr(),
            libc::AT_FDCWD,
            c(link).as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        )
    };
    if done < 0 {
        refused("linkat")
    } else {
        read(link)
    }
}

fn exchange(from: &str, with: &str, secret: &str) -> Outcome {
    // SAFETY: C strings that outlive the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            c(from).as_ptr(),
            libc::AT_FDCWD,
            c(with).as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    if done < 0 {
        return refused_or_absent("exchange");
    }
    read(secret)
}

/// Moves the directory of a masked path aside and creates it again without the mask.
fn replace(directory: &str, aside: &str, file: &str) -> Outcome {
    if let Err(error) = fs::rename(directory, aside) {
        return Blocked(format!("rename {directory}: {error}"));
    }
    let Some(parent) = Path::new(file).parent() else {
        return Error("a file without a parent".into());
    };
    match fs::create_dir_all(parent).and_then(|()| fs::write(file, "mine")) {
        Ok(()) => Escaped(format!("wrote {file}")),
        Err(error) => Blocked(format!("{file}: {error}")),
    }
}

/// Looks for descriptors that were left open.
fn descriptors() -> Outcome {
    let mut open = 0;
    for fd in 3..4096 {
        let mut text = [0_u8; 256];
        // SAFETY: room for what is read; an unknown number is an error.
        let read = unsafe { libc::pread(fd, text.as_mut_ptr().cast(), text.len(), 0) };
        if read > 0 && holds_secret(&text) {
            return Escaped(format!("descriptor {fd} contains the secret"));
        }
        // SAFETY: plain numbers.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0 {
            open += 1;
        }
    }
    Blocked(format!("{open} descriptors besides the standard streams"))
}

/// Tries to open or at least resolve the descriptors of another process.
fn descriptors_of(pid: &str) -> Outcome {
    let mut last = "no open descriptors".to_owned();
    for fd in 0..64 {
        let path = format!("/proc/{pid}/fd/{fd}");
        match fs::read_link(&path) {
            Ok(to) => return Escaped(format!("{path} is {}", to.display())),
            Err(error) => last = format!("{path}: {error}"),
        }
        if fs::File::open(&path).is_ok() {
            return Escaped(format!("opened {path}"));
        }
    }
    Blocked(last)
}

fn write(path: &str) -> Outcome {
    let done = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(b"mine"));
    match done {
        Ok(()) => Escaped(format!("wrote {path}")),
        Err(error) => Blocked(format!("{path}: {error}")),
    }
}

/// Creates a file and removes it again, because this may be a directory of the host.
fn create(directory: &str) -> Outcome {
    let path = Path::new(directory).join(format!(".escape-probe-{}", std::process::id()));
    let done = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path);
    match done {
        Ok(_) => {
            let _ = fs::remove_file(&path);
            Escaped(format!("created {}", path.display()))
        }
        Err(error) => Blocked(format!("{}: {error}", path.display())),
    }
}

/// Opens a file without writing to it, because this may be a setting of the host.
fn open_for_writing(path: &str) -> Outcome {
    match fs::OpenOptions::new().write(true).open(path) {
        Ok(_) => Escaped(format!("opened {path} for writing")),
        Err(error) => Blocked(format!("{path}: {error}")),
    }
}

/// Sets the mode that the file already has.
fn chmod(path: &str) -> Outcome {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) => return Blocked(format!("{path}: {error}")),
    };
    let mode = fs::Permissions::from_mode(meta.permissions().mode() & 0o7777);
    simple("chmod", fs::set_permissions(path, mode))
}

/// Sets the owner that the file already has.
fn chown(path: &str) -> Outcome {
    // SAFETY: no arguments, cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    simple(
        "chown",
        std::os::unix::fs::chown(path, Some(user), Some(group)),
    )
}

fn utimes(path: &str) -> Outcome {
    let times = [libc::timespec {
        tv_sec: 1,
        tv_nsec: 0,
    }; 2];
    // SAFETY: two times and a C string that outlive the call.
    let done = unsafe { libc::utimensat(libc::AT_FDCWD, c(path).as_ptr(), times.as_ptr(), 0) };
    crate::judged("utimensat", done.into())
}

fn truncate(path: &str) -> Outcome {
    // SAFETY: a C string that outlives the call.
    crate::judged(
        "truncate",
        unsafe { libc::truncate(c(path).as_ptr(), 0) }.into(),
    )
}

fn xattr(path: &str) -> Outcome {
    // SAFETY: C strings and a value of the length given.
    let done = unsafe {
        libc::setxattr(
            c(path).as_ptr(),
            c"user.escape".as_ptr(),
            c"1".as_ptr().cast(),
            1,
            0,
        )
    };
    crate::judged("setxattr", done.into())
}

fn remove_xattr(path: &str) -> Outcome {
    // SAFETY: C strings that outlive the call.
    let done = unsafe { libc::removexattr(c(path).as_ptr(), c"user.escape".as_ptr()) };
    match std::io::Error::last_os_error().raw_os_error() {
        _ if done == 0 => Escaped("removexattr".into()),
        // There is no such attribute, but the call was not blocked.
        Some(libc::ENODATA) => Escaped("removexattr was tried".into()),
        _ => refused_or_absent("removexattr"),
    }
}

/// Goes up from the working directory, which can leave a badly changed root.
fn from_cwd(path: &str) -> Outcome {
    let up = "../".repeat(64);
    let direct = format!("/proc/self/cwd/{up}{}", path.trim_start_matches('/'));
    if let Escaped(how) = read(&direct) {
        return Escaped(how);
    }
    let relative = format!("{up}{}", path.trim_start_matches('/'));
    read(&relative)
}
