//! A private network for one test: a loopback interface with two more addresses, one for the host
//! and one for a client that can disappear. It is not visible outside the test and needs no
//! external tools.

use std::ffi::{CStr, CString};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Address at which the host is reachable as a remote machine.
pub const HERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Address of the client, until it disappears.
pub const THERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Environment variable that is set in the process inside the private network.
const INSIDE: &str = "AGENTPROTO_TEST_NETWORK";

/// Runs the test again inside a private network. Returns true there. Outside, it waits for that run
/// to pass and returns false. If the network cannot be created, the test fails.
pub fn entered(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        up(c"lo").expect("loopback is up");
        add(c"lo:1", HERE).expect("an address for the host");
        add(c"lo:2", THERE).expect("an address for a client");
        return true;
    }
    let own = std::env::current_exe().expect("this test");
    let mut again = Command::new(own);
    again
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1");
    // SAFETY: both calls take no arguments and cannot fail.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    let maps = [
        (c"/proc/self/setgroups", c"deny".to_owned()),
        (c"/proc/self/uid_map", map(user)),
        (c"/proc/self/gid_map", map(group)),
    ];
    // SAFETY: between fork and exec the closure only makes system calls and allocates nothing.
    unsafe {
        again.pre_exec(move || {
            if libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) != 0 {
                return Err(io::Error::last_os_error());
            }
            maps.iter().try_for_each(|(path, text)| write(path, text))
        });
    }
    let ran = again.output().expect(
        "a network namespace: this test needs user namespaces (sysctl user.max_user_namespaces)",
    );
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success() && said.contains("1 passed"),
        "the run inside the private network failed: {}\n{said}\n{errors}",
        ran.status
    );
    false
}

/// Maps the current user to root inside the namespace, and no other user.
fn map(id: u32) -> CString {
    CString::new(format!("0 {id} 1")).expect("no zero byte")
}

/// Writes a file between fork and exec, so without allocating.
fn write(path: &CStr, text: &CStr) -> io::Result<()> {
    let bytes = text.to_bytes();
    // SAFETY: the path ends with a NUL byte, and the text has the given length.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        let written = libc::write(file, bytes.as_ptr().cast(), bytes.len());
        let error = io::Error::last_os_error();
        libc::close(file);
        match usize::try_from(written) == Ok(bytes.len()) {
            true => Ok(()),
            false => Err(error),
        }
    }
}

/// Removes the client's address. Packets to it are lost without any error.
pub fn vanish() {
    flags(c"lo:2", 0).expect("the address is gone");
}

fn up(name: &CStr) -> io::Result<()> {
    flags(name, libc::IFF_UP as libc::c_short)
}

fn flags(name: &CStr, flags: libc::c_short) -> io::Result<()> {
    let mut request = named(name);
    request.ifr_ifru.ifru_flags = flags;
    order(libc::SIOCSIFFLAGS, &mut request)
}

/// Adds exactly this address, with a host netmask.
fn add(name: &CStr, address: Ipv4Addr) -> io::Result<()> {
    for (what, value) in [
        (libc::SIOCSIFADDR, address),
        (libc::SIOCSIFNETMASK, Ipv4Addr::BROADCAST),
    ] {
        let mut request = named(name);
        request.ifr_ifru.ifru_addr = socket_address(value);
        order(what, &mut request)?;
    }
    Ok(())
}

fn named(name: &CStr) -> libc::ifreq {
    // SAFETY: an all-zero request is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes()) {
        *to = *from as libc::c_char;
    }
    request
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let place = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr {
            s_addr: u32::from(address).to_be(),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: both types have the same size, and the address family identifies the layout.
    unsafe { std::mem::transmute(place) }
}

fn order(what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the socket is new, and the request outlives the call.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(socket);
        match libc::ioctl(socket.as_raw_fd(), what as _, request as *mut libc::ifreq) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
