//! seccomp: blocks system calls that no confined program needs and that could lead out of the
//! sandbox.

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use crate::plan::Seccomp;

#[cfg(target_arch = "x86_64")]
const ARCH: Option<TargetArch> = Some(TargetArch::x86_64);
#[cfg(target_arch = "aarch64")]
const ARCH: Option<TargetArch> = Some(TargetArch::aarch64);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCH: Option<TargetArch> = None;

pub fn supported() -> bool {
    ARCH.is_some()
}

/// Mounts, other namespaces, other processes, the kernel itself, and interfaces that bypass other
/// checks (io_uring, key rings, user faults).
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
];

const NEW_NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

pub fn install(seccomp: Seccomp) -> io::Result<()> {
    block_x32_calls()?;
    for program in programs(seccomp)? {
        seccompiler::apply_filter(program).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Compiled once, and inherited by every copy of the spare helper.
static COMPILED: [OnceLock<Vec<BpfProgram>>; 4] = [const { OnceLock::new() }; 4];

/// Compiles the filters of all possible plans.
pub fn prepare() {
    for (no_fork, no_memory_exec) in [(false, false), (false, true), (true, false), (true, true)] {
        let _ = programs(Seccomp {
            no_fork,
            no_memory_exec,
        });
    }
}

fn programs(seccomp: Seccomp) -> io::Result<&'static [BpfProgram]> {
    let index = usize::from(seccomp.no_fork) * 2 + usize::from(seccomp.no_memory_exec);
    let Some(compiled_once) = COMPILED.get(index) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    if let Some(programs) = compiled_once.get() {
        return Ok(programs);
    }
    let compiled = compile(seccomp)?;
    Ok(compiled_once.get_or_init(|| compiled))
}

fn compile(seccomp: Seccomp) -> io::Result<Vec<BpfProgram>> {
    let arch = ARCH.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    let all = rules_by_errno(seccomp)?.into_iter().map(|(errno, rules)| {
        let action = SeccompAction::Errno(errno as u32);
        SeccompFilter::new(rules, SeccompAction::Allow, action, arch)
            .and_then(TryInto::try_into)
            .map_err(io::Error::other)
    });
    all.collect()
}

/// One filter per error code: ENOSYS for calls that programs have a fallback for, EPERM for the
/// rest.
fn rules_by_errno(seccomp: Seccomp) -> io::Result<Vec<(i32, Rules)>> {
    let mut forbidden: Rules = FORBIDDEN.iter().map(|nr| (*nr, vec![])).collect();
    let mut absent = Rules::new();
    for bit in bits(NEW_NAMESPACES) {
        push(&mut forbidden, libc::SYS_clone, vec![masked(0, bit, bit)?])?;
    }
    // Its flags are in memory, where a filter cannot look. Libraries fall back to `clone`.
    absent.insert(libc::SYS_clone3, vec![]);
    // These requests would type into the terminal of the user.
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        push(
            &mut forbidden,
            libc::SYS_ioctl,
            vec![masked(1, 0xffff_ffff, request)?],
        )?;
    }
    if seccomp.no_fork {
        // Threads share their thread group; everything else is a process.
        let thread = libc::CLONE_THREAD as u64;
        push(&mut forbidden, libc::SYS_clone, vec![masked(0, thread, 0)?])?;
        #[cfg(target_arch = "x86_64")]
        for nr in [libc::SYS_fork, libc::SYS_vfork] {
            forbidden.insert(nr, vec![]);
        }
    }
    if seccomp.no_memory_exec {
        // Blocked even with a seal against execution, because the ELF loader maps such a file and
        // runs it.
        absent.insert(libc::SYS_memfd_create, vec![]);
        absent.insert(libc::SYS_memfd_secret, vec![]);
    }
    Ok(vec![
        (libc::EPERM, forbidden),
        (libc::ENOSYS, absent),
        (libc::EAFNOSUPPORT, families()?),
    ])
}

/// Limits the socket families. IPv4 and IPv6 lead nowhere in an empty network, and routing queries
/// are harmless. Unix sockets by path could reach the host's daemons if a socket is in a granted
/// directory. Pairs of stream sockets need no path and stay allowed. But a datagram socket can send
/// to any path, even if it was created connected. vsock and other families have no namespaces.
fn families() -> io::Result<Rules> {
    let allowed = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let others = allowed
        .iter()
        .map(|family| condition(0, Len::Dword, Op::Ne, *family as u64))
        .collect::<io::Result<Vec<_>>>()?;
    let mut rules = Rules::new();
    push(&mut rules, libc::SYS_socket, others)?;
    let netlink = condition(0, Len::Dword, Op::Eq, libc::AF_NETLINK as u64)?;
    let not_route = condition(2, Len::Dword, Op::Ne, libc::NETLINK_ROUTE as u64)?;
    push(&mut rules, libc::SYS_socket, vec![netlink, not_route])?;
    // The upper bits of the type are flags. A raw Unix socket is a datagram socket.
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
        let datagrams = masked(1, 0xf, kind as u64)?;
        push(&mut rules, libc::SYS_socketpair, vec![datagrams])?;
    }
    let foreign = condition(0, Len::Dword, Op::Ne, libc::AF_UNIX as u64)?;
    push(&mut rules, libc::SYS_socketpair, vec![foreign])?;
    Ok(rules)
}

/// For a process without namespaces: files are the only way out. Routing queries stay allowed.
pub fn block_sockets() -> io::Result<()> {
    block_x32_calls()?;
    let arch = ARCH.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    let mut rules = families()?;
    for family in [libc::AF_INET, libc::AF_INET6] {
        let out = condition(0, Len::Dword, Op::Eq, family as u64)?;
        push(&mut rules, libc::SYS_socket, vec![out])?;
    }
    // io_uring creates sockets that no filter sees.
    for number in [
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
    ] {
        rules.insert(number, vec![]);
    }
    let action = SeccompAction::Errno(libc::EAFNOSUPPORT as u32);
    let program: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, action, arch)
        .and_then(TryInto::try_into)
        .map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

fn push(rules: &mut Rules, nr: libc::c_long, all: Vec<SeccompCondition>) -> io::Result<()> {
    let rule = SeccompRule::new(all).map_err(io::Error::other)?;
    rules.entry(nr).or_default().push(rule);
    Ok(())
}

fn condition(argument: u8, len: Len, op: Op, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(argument, len, op, value).map_err(io::Error::other)
}

fn masked(argument: u8, mask: u64, value: u64) -> io::Result<SeccompCondition> {
    condition(argument, Len::Qword, Op::MaskedEq(mask), value)
}

fn bits(set: u64) -> impl Iterator<Item = u64> {
    (0..64).map(|n| 1 << n).filter(move |bit| set & bit != 0)
}

/// Blocks x32 system calls. On x86_64 the same calls exist again under x32 numbers, which the
/// filters above would not match.
fn block_x32_calls() -> io::Result<()> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    const X32: u32 = 0x4000_0000;
    const LOAD_NUMBER: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const IF_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let line = |code, jt, jf, k| seccompiler::sock_filter { code, jt, jf, k };
    let program = vec![
        line(LOAD_NUMBER, 0, 0, 0),
        line(IF_AT_LEAST, 0, 1, X32),
        line(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        line(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}
