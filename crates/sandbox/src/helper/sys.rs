//! System calls that neither `std` nor our dependencies wrap, with errors as values. The helper is
//! single-threaded and short, and a wrapper crate would be larger than this file.

use std::ffi::{CStr, CString};
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(crate) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn check_zero(result: libc::c_int) -> io::Result<()> {
    check(result.into()).map(drop)
}

pub(crate) fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the path contains a NUL byte"))
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

pub(crate) fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: changes only this process, which has one thread.
    check_zero(unsafe { libc::unshare(flags) })
}

pub(crate) enum Fork {
    Child,
    Parent(libc::pid_t),
}

/// Forks. Only for the helper: it has one thread, so the child may do anything.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: one thread, no locks held.
    match check(unsafe { libc::fork() }.into())? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid as libc::pid_t)),
    }
}

pub(crate) fn prctl(
    option: libc::c_int,
    a: libc::c_ulong,
    b: libc::c_ulong,
) -> io::Result<libc::c_int> {
    // SAFETY: options used here take plain numbers.
    check(unsafe { libc::prctl(option, a, b, 0, 0) }.into()).map(|n| n as libc::c_int)
}

/// Closes all descriptors from `first` up.
pub(crate) fn close_from(first: RawFd) -> io::Result<()> {
    // SAFETY: nothing in the helper owns descriptors that high yet.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }).map(drop)
}

pub(crate) fn close_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }.into()).map(drop)
}

/// A pipe: the reading end and the writing end, both closed on exec.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: space for two descriptors, both new.
    unsafe {
        check_zero(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// A file in memory with these bytes, positioned at its start and closed on exec.
pub(crate) fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    // SAFETY: a C string; the descriptor is new.
    let fd = unsafe { libc::memfd_create(c"plan".as_ptr(), libc::MFD_CLOEXEC) };
    let mut file = std::fs::File::from(owned(fd.into())?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// A copy of a descriptor with a number of at least `least`, closed on exec.
pub(crate) fn duplicate_from(fd: RawFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the descriptor is new.
    owned(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, least) }.into())
}

pub(crate) fn dup2(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::dup2(from, to) }.into()).map(drop)
}

// --- mounts -------------------------------------------------------------------------------

pub(crate) const ATTR_RDONLY: u64 = 0x1;
pub(crate) const ATTR_NOSUID: u64 = 0x2;
pub(crate) const ATTR_NODEV: u64 = 0x4;
pub(crate) const ATTR_NOEXEC: u64 = 0x8;
const AT_RECURSIVE: libc::c_int = 0x8000;
const OPEN_TREE_CLONE: libc::c_int = 1;

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// A detached copy of a path and of all mounts below it. The path had no links when the policy was
/// resolved. A link now is an error, because its target was chosen by a process that can
/// write there.
pub(crate) fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    clone_at(open_without_links(path)?.as_raw_fd(), c"")
}

/// Opens an absolute path without access to the contents. A link anywhere in it is an error.
pub(crate) fn open_without_links(path: &Path) -> io::Result<OwnedFd> {
    const NO_SYMLINKS: u64 = 0x4;
    let path = c_path(path)?;
    let how = [
        (libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW) as u64,
        0,
        NO_SYMLINKS,
    ];
    // SAFETY: a C string and three words, as the first version of `open_how` has them.
    owned(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            how.as_ptr(),
            size_of_val(&how),
        )
    })
}

/// Creates a directory and its parents with mode 0700, if they are missing, and adds the new ones
/// to `created`. A link on the way is an error.
pub(crate) fn make_directories(path: &Path, created: &mut Vec<PathBuf>) -> io::Result<()> {
    open_or_make_directories(path, created).map(drop)
}

fn open_or_make_directories(path: &Path, created: &mut Vec<PathBuf>) -> io::Result<OwnedFd> {
    let mut at = open_directory(libc::AT_FDCWD, c"/")?;
    let mut done = PathBuf::from("/");
    for part in path.components() {
        if let std::path::Component::Normal(name) = part {
            done.push(name);
            let name = c_path(Path::new(name))?;
            at = match open_directory(at.as_raw_fd(), &name) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    make_directory(at.as_raw_fd(), &name, 0o700)?;
                    created.push(done.clone());
                    open_directory(at.as_raw_fd(), &name)?
                }
                other => other?,
            };
        }
    }
    Ok(at)
}

/// Creates an empty file with mode 0600, and its directories as [`make_directories`] does. An
/// existing file is kept.
pub(crate) fn make_empty_file(path: &Path, created: &mut Vec<PathBuf>) -> io::Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    };
    let dir = open_or_make_directories(dir, created)?;
    let name = c_path(Path::new(name))?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: the name is a C string that outlives the call.
    let fd = unsafe { libc::openat(dir.as_raw_fd(), name.as_ptr(), flags, 0o600) };
    match owned(fd.into()) {
        Ok(_) => created.push(path.to_owned()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Removes an empty directory or an empty file. Everything else is kept. A link on the way is an
/// error.
pub(crate) fn remove_empty(path: &Path) -> io::Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let dir = open_without_links(dir)?;
    let name = c_path(Path::new(name))?;
    // SAFETY: zeroed is a valid stat; the call fills it. The name outlives the call.
    let (status, size) = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        let status = libc::fstatat(
            dir.as_raw_fd(),
            name.as_ptr(),
            &mut stat,
            libc::AT_SYMLINK_NOFOLLOW,
        );
        check(status.into())?;
        (stat.st_mode & libc::S_IFMT, stat.st_size)
    };
    let flags = match status {
        libc::S_IFDIR => libc::AT_REMOVEDIR,
        libc::S_IFREG if size == 0 => 0,
        _ => return Ok(()),
    };
    // SAFETY: see above. A directory with contents is not removed.
    check(unsafe { libc::unlinkat(dir.as_raw_fd(), name.as_ptr(), flags) }.into()).map(drop)
}

/// Whether an open path is the root of a mount, and its device and inode.
pub(crate) fn mount_identity(fd: BorrowedFd) -> io::Result<(bool, u64, u64)> {
    // SAFETY: zeroed is a valid statx; the call fills it.
    unsafe {
        let mut stat: libc::statx = std::mem::zeroed();
        check_zero(libc::statx(
            fd.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_INO,
            &mut stat,
        ))?;
        let is_root = stat.stx_attributes & libc::STATX_ATTR_MOUNT_ROOT as u64 != 0;
        let device = libc::makedev(stat.stx_dev_major, stat.stx_dev_minor);
        Ok((is_root, device, stat.stx_ino))
    }
}

/// A copy of what is at a path below a directory, or of the directory itself if the path is empty.
pub(crate) fn clone_at(dir: RawFd, path: &CStr) -> io::Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE
        | libc::O_CLOEXEC
        | AT_RECURSIVE
        | libc::AT_SYMLINK_NOFOLLOW
        | libc::AT_EMPTY_PATH;
    // SAFETY: the path is a C string that outlives the call.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, dir, path.as_ptr(), flags) })
}

/// Adds attributes to a mount, and if `deep` also to all mounts below it.
pub(crate) fn restrict_mount(fd: BorrowedFd, set: u64, deep: bool) -> io::Result<()> {
    let attr = MountAttr {
        set,
        clear: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: 0,
    };
    let flags = libc::AT_EMPTY_PATH | if deep { AT_RECURSIVE } else { 0 };
    // SAFETY: `attr` has the size given and outlives the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    })
    .map(drop)
}

/// A new file system that is not mounted yet.
pub(crate) fn new_mount(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: u64,
) -> io::Result<OwnedFd> {
    const SET_STRING: libc::c_uint = 1;
    const CREATE: libc::c_uint = 6;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: C strings that outlive the calls; descriptors are ours.
    unsafe {
        let context = owned(libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 1))?;
        let fd = context.as_raw_fd();
        for (key, value) in options {
            check(libc::syscall(
                libc::SYS_fsconfig,
                fd,
                SET_STRING,
                key.as_ptr(),
                value.as_ptr(),
                0,
            ))?;
        }
        check(libc::syscall(libc::SYS_fsconfig, fd, CREATE, none, none, 0))?;
        owned(libc::syscall(libc::SYS_fsmount, fd, 1, attributes))
    }
}

/// Mounts a detached mount at a path below a directory.
pub(crate) fn attach(mount: BorrowedFd, dir: RawFd, path: &CStr) -> io::Result<()> {
    const FROM_IS_FD: libc::c_uint = 4;
    const TO_IS_FD: libc::c_uint = 0x40;
    let to = if path.is_empty() { TO_IS_FD } else { 0 };
    // SAFETY: C strings that outlive the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            dir,
            path.as_ptr(),
            FROM_IS_FD | to,
        )
    })
    .map(drop)
}

/// Makes the current directory the root, and detaches the old root.
pub(crate) fn pivot_here() -> io::Result<()> {
    // SAFETY: C strings; only this mount namespace changes.
    unsafe {
        check(libc::syscall(
            libc::SYS_pivot_root,
            c".".as_ptr(),
            c".".as_ptr(),
        ))?;
        check_zero(libc::umount2(c".".as_ptr(), libc::MNT_DETACH))?;
        check_zero(libc::chdir(c"/".as_ptr()))
    }
}

/// Keeps mounts here from propagating elsewhere, and the other way round.
pub(crate) fn private_mounts() -> io::Result<()> {
    let none = std::ptr::null();
    // SAFETY: C strings; null where the kernel ignores the argument.
    check_zero(unsafe {
        libc::mount(
            none,
            c"/".as_ptr(),
            none,
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    })
}

/// Opens a path without following a link at its end, and without access to the contents.
pub(crate) fn open_path(dir: RawFd, path: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    // SAFETY: a C string that outlives the call.
    owned(unsafe { libc::openat(dir, path.as_ptr(), flags) }.into())
}

/// Opens a directory. A link in its place is an error.
pub(crate) fn open_directory(dir: RawFd, path: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_DIRECTORY;
    // SAFETY: a C string that outlives the call.
    owned(unsafe { libc::openat(dir, path.as_ptr(), flags) }.into())
}

pub(crate) fn is_directory(fd: BorrowedFd) -> io::Result<bool> {
    // SAFETY: zeroed is a valid stat; fstat fills it.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor and a valid pointer.
    check_zero(unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) })?;
    Ok(stat.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

pub(crate) fn make_directory(dir: RawFd, path: &CStr, mode: libc::mode_t) -> io::Result<()> {
    // SAFETY: a C string that outlives the call.
    match check_zero(unsafe { libc::mkdirat(dir, path.as_ptr(), mode) }) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Opens a directory, creates it if it is missing, and locks it against `remove_unlocked` as long
/// as the descriptor is open. Returns `None` if we may not open it.
pub(crate) fn lock_directory(
    dir: RawFd,
    path: &CStr,
    mode: libc::mode_t,
) -> io::Result<Option<OwnedFd>> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // Another session may remove it between two steps. Then it is created again.
    for _ in 0..100 {
        // SAFETY: a C string that outlives the calls.
        let made = match check_zero(unsafe { libc::mkdirat(dir, path.as_ptr(), mode) }) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => false,
            Err(e) => return Err(e),
            Ok(()) => true,
        };
        // SAFETY: as above.
        let locked = match owned(unsafe { libc::openat(dir, path.as_ptr(), flags) }.into()) {
            Ok(locked) => locked,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
            Err(e) => return Err(e),
        };
        if made {
            // Set the mode independently of the umask. By descriptor, because another process may
            // have replaced the directory by a link.
            // SAFETY: an open descriptor.
            check_zero(unsafe { libc::fchmod(locked.as_raw_fd(), mode) })?;
        }
        if lock(&locked, libc::LOCK_SH).is_ok() && is_at(&locked, dir, path)? {
            return Ok(Some(locked));
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Like `lock_directory`, for a small file with a text.
pub(crate) fn lock_file(
    dir: RawFd,
    path: &CStr,
    text: &str,
    mode: libc::mode_t,
) -> io::Result<OwnedFd> {
    for _ in 0..100 {
        let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_RDONLY;
        // SAFETY: a C string that outlives the call.
        let opened = owned(unsafe { libc::openat(dir, path.as_ptr(), flags) }.into());
        let locked = match opened {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                match make_complete_file(dir, path, text, mode) {
                    Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                    _ => continue,
                }
            }
            Err(e) => return Err(e),
        };
        // A file of somebody else appeared since the policy was resolved.
        let is_ours = std::fs::File::from(locked.try_clone()?)
            .metadata()
            .is_ok_and(|meta| meta.is_file() && meta.mode() & 0o7777 == mode);
        if is_ours && lock(&locked, libc::LOCK_SH).is_ok() && is_at(&locked, dir, path)? {
            return Ok(locked);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Creates a file that has its text and its mode as soon as it has its name: git would not work
/// with an empty one.
fn make_complete_file(dir: RawFd, path: &CStr, text: &str, mode: libc::mode_t) -> io::Result<()> {
    let now = std::time::SystemTime::now();
    let now = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let mut name = path.to_bytes().to_vec();
    name.extend(format!(".{:x}{:x}.tmp", now.as_nanos(), std::process::id()).bytes());
    let name = std::ffi::CString::new(name)?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a C string that outlives the call.
    let file = owned(unsafe { libc::openat(dir, name.as_ptr(), flags, 0o600) }.into())?;
    let mut file = std::fs::File::from(file);
    let renamed = file.write_all(text.as_bytes()).and_then(|()| {
        // SAFETY: an open descriptor.
        check_zero(unsafe { libc::fchmod(file.as_raw_fd(), mode) })?;
        let (from, to) = (name.as_ptr(), path.as_ptr());
        // SAFETY: C strings that outlive the call.
        check_zero(unsafe { libc::renameat2(dir, from, dir, to, libc::RENAME_NOREPLACE) })
    });
    if renamed.is_err() {
        // SAFETY: as above.
        unsafe { libc::unlinkat(dir, name.as_ptr(), 0) };
    }
    renamed
}

/// Whether this user owns an open file or directory.
pub(crate) fn is_own(file: RawFd) -> io::Result<bool> {
    // SAFETY: filled by the call; all-zero bytes are a valid value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor and a place for the answer.
    check_zero(unsafe { libc::fstat(file, &raw mut stat) })?;
    // SAFETY: no arguments, cannot fail.
    Ok(stat.st_uid == unsafe { libc::geteuid() })
}

/// Removes a placeholder: an empty directory, or a file with its mode. Returns `false` if a session
/// holds it.
pub(crate) fn remove_unlocked(path: &Path) -> io::Result<bool> {
    let locked = open_to_lock(path);
    if let Ok(locked) = &locked
        && lock(locked, libc::LOCK_EX).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    {
        return Ok(false);
    }
    match std::fs::symlink_metadata(path)?.is_dir() {
        true => std::fs::remove_dir(path)?,
        false if crate::build::is_placeholder(path) => std::fs::remove_file(path)?,
        false => {}
    }
    Ok(true)
}

fn open_to_lock(path: &Path) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a C string that outlives the call.
    owned(unsafe { libc::open(c_path(path)?.as_ptr(), flags) }.into())
}

fn lock(fd: &OwnedFd, how: libc::c_int) -> io::Result<()> {
    // SAFETY: plain numbers.
    check_zero(unsafe { libc::flock(fd.as_raw_fd(), how | libc::LOCK_NB) })
}

/// Whether an open directory is still the one at a path.
fn is_at(fd: &OwnedFd, dir: RawFd, path: &CStr) -> io::Result<bool> {
    // SAFETY: zeroed is a valid stat; the calls fill them.
    unsafe {
        let mut open: libc::stat = std::mem::zeroed();
        let mut named: libc::stat = std::mem::zeroed();
        check_zero(libc::fstat(fd.as_raw_fd(), &mut open))?;
        let found = libc::fstatat(dir, path.as_ptr(), &mut named, libc::AT_SYMLINK_NOFOLLOW);
        Ok(found == 0 && (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino))
    }
}

/// Creates a file to mount something onto. An existing file is not touched, because it may be on a
/// read-only mount.
pub(crate) fn make_file(dir: RawFd, path: &CStr, mode: libc::mode_t) -> io::Result<()> {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC;
    // SAFETY: a C string that outlives the call.
    match owned(unsafe { libc::openat(dir, path.as_ptr(), flags, mode) }.into()) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

pub(crate) fn make_symlink(to: &CStr, dir: RawFd, path: &CStr) -> io::Result<()> {
    // SAFETY: C strings that outlive the call.
    match check_zero(unsafe { libc::symlinkat(to.as_ptr(), dir, path.as_ptr()) }) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

// --- network ------------------------------------------------------------------------------

/// Brings up the loopback interface of this network namespace.
pub(crate) fn loopback_up() -> io::Result<()> {
    // SAFETY: plain data for the kernel; the name fits.
    unsafe {
        let socket =
            owned(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).into())?;
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        check_zero(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS,
            &request,
        ))
    }
}

// --- privileges ---------------------------------------------------------------------------

/// Drops all capabilities for good, for any user.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    const NO_ROOT_AND_LOCKED: libc::c_ulong = 0x3;
    const NO_SETUID_FIXUP_AND_LOCKED: libc::c_ulong = 0xC;
    // Fails if this process has no capabilities, which is fine.
    let _ = prctl(
        libc::PR_SET_SECUREBITS,
        NO_ROOT_AND_LOCKED | NO_SETUID_FIXUP_AND_LOCKED,
        0,
    );
    for capability in 0..64 {
        if prctl(libc::PR_CAPBSET_DROP, capability, 0).is_err() {
            break;
        }
    }
    clear_capabilities()
}

/// Clears all capability sets. Cheap enough to repeat where another process has already dropped
/// them.
pub(crate) fn clear_capabilities() -> io::Result<()> {
    let _ = prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as _, 0);
    // Version 3 of the header for this process, and both halves of three empty sets.
    let header = [0x2008_0522_u32, 0];
    let data = [0_u32; 6];
    // SAFETY: both have the size that version 3 requires.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) })?;
    Ok(())
}

pub(crate) fn no_new_privileges() -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).map(drop)
}
