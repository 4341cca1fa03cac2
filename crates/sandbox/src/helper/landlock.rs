//! Landlock: the second barrier behind the mounts, and the only one that distinguishes reading from
//! executing.

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope,
};

use super::StepError;
use crate::plan::Rights;

/// The Landlock version of this kernel, or 0 without Landlock.
pub fn abi() -> u32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: the version query takes no attributes.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0,
            VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// Restricts this process. Handles all rights of the kernel's version, and fails if any of them
/// cannot be enforced.
pub fn restrict(rights: &[Rights]) -> Result<(), StepError> {
    let version = match abi() {
        0 => return Err(landlock_error("this kernel does not support Landlock")),
        1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        _ => ABI::V6,
    };
    apply(rights, version).map_err(|error| landlock_error(&error))
}

fn apply(rights: &[Rights], version: ABI) -> Result<(), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(version))
        .map_err(|e| text(&e))?;
    if version >= ABI::V6 {
        ruleset = ruleset
            .scope(Scope::from_all(version))
            .map_err(|e| text(&e))?;
    }
    let mut created = ruleset.create().map_err(|e| text(&e))?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = AccessFs::from_all(version) & !AccessFs::Execute;
    for right in rights {
        let path = right.path.path();
        let fd = PathFd::new(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut access = if right.write { write } else { read };
        if right.exec {
            access |= AccessFs::Execute;
        }
        if !path.is_dir() {
            access &= AccessFs::from_file(version);
        }
        created = created
            .add_rule(PathBeneath::new(fd, access))
            .map_err(|e| format!("{}: {e}", path.display()))?;
    }
    created.restrict_self().map(drop).map_err(|e| text(&e))
}

fn landlock_error(why: &str) -> StepError {
    StepError {
        step: format!("apply Landlock: {why}"),
        error: std::io::Error::from_raw_os_error(libc::ENOTSUP),
    }
}
