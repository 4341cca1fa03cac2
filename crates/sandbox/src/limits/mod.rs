//! Limits on memory, processor time and processes: by control groups if possible, otherwise by
//! resource limits. Notes describe what resource limits do not cover.

pub mod cgroup;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use super::clause::{Assessment, Enforcement};
use super::plan::{Raw, Resource, SpawnPlan};
use super::policy::{LimitKind, PolicyLimit};
use cgroup::{CgroupParent, CgroupParents, CgroupVersion, CpuMeter};

/// Interval at which processor time is checked.
pub const CPU_INTERVAL: Duration = Duration::from_millis(50);

/// What starts the target. Its own processes are in the same groups and must not count as the
/// target's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitContext {
    /// The helper without a sandbox.
    Guard,
    /// The native backend.
    Native,
    /// Bubblewrap.
    Bubblewrap,
}

impl LimitContext {
    fn processes_in_group(self) -> u64 {
        match self {
            Self::Guard => 0,
            Self::Native => 1,
            Self::Bubblewrap => 2,
        }
    }

    /// Number of our processes that count for the user. `None` without a user namespace, because
    /// then all processes of the user count.
    fn processes_of_user(self) -> Option<u64> {
        match self {
            Self::Guard => None,
            Self::Native => Some(2),
            Self::Bubblewrap => Some(1),
        }
    }
}

/// Maximum processor time, and where it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuBudget {
    /// Where the processor time is read.
    pub meter: CpuMeter,
    /// Maximum processor time.
    pub max: Duration,
}

impl CpuBudget {
    /// Whether the processor time is used up.
    pub fn is_spent(&self) -> bool {
        self.meter.spent().is_some_and(|spent| spent >= self.max)
    }
}

/// The limits of one spawn. Dropping it removes groups that no helper has removed. Groups in use
/// stay until their helper ends.
#[derive(Debug, Default)]
pub struct Limiter {
    /// `cgroup.procs` files to join.
    pub cgroups: Vec<Raw>,
    /// Directories that the helper removes at the end.
    pub leftovers: Vec<Raw>,
    /// Resource limits to set, with their values.
    pub rlimits: Vec<(Resource, u64)>,
    /// Time limit for `spawn::SpawnOptions`.
    pub timeout: Option<Duration>,
    /// Processor time limit for `spawn::SpawnOptions`.
    pub cpu: Option<CpuBudget>,
}

impl Limiter {
    /// Adds the limits to a plan.
    pub fn apply(&self, plan: &mut SpawnPlan) {
        plan.cgroups.extend(self.cgroups.iter().cloned());
        plan.leftovers.extend(self.leftovers.iter().cloned());
        plan.rlimits.extend(self.rlimits.iter().copied());
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        for dir in &self.leftovers {
            let _ = fs::remove_dir(dir.path());
        }
    }
}

/// Why a limit could not be set.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// The control group could not be created.
    #[error("cannot create a control group in {}: {error}", dir.display())]
    Create {
        /// The parent group.
        dir: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The limit of a control group could not be written.
    #[error("cannot set the limit of the control group {}: {error}", dir.display())]
    Set {
        /// The group.
        dir: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

/// Creates the groups. Limits that `assess` reports as unenforceable are skipped, because the
/// caller has already refused them.
pub fn prepare(limits: &[PolicyLimit], context: LimitContext) -> Result<Limiter, LimitError> {
    prepare_at(limits, context, cgroup::parents(), is_root())
}

fn prepare_at(
    limits: &[PolicyLimit],
    context: LimitContext,
    parents: &CgroupParents,
    root: bool,
) -> Result<Limiter, LimitError> {
    let mut limiter = Limiter::default();
    let mut groups = Groups::default();
    for limit in limits {
        let mechanism = mechanism(limit.kind, context, parents, root);
        if is_skipped(limit, &mechanism) {
            continue;
        }
        match (mechanism, limit.kind) {
            (Mechanism::Runner, LimitKind::Timeout(max)) => {
                limiter.timeout = Some(limiter.timeout.map_or(max, |t| t.min(max)));
            }
            (Mechanism::Group(group), kind) => {
                let dir = groups.at(group, &mut limiter)?;
                let set = match kind {
                    LimitKind::Memory { bytes } => {
                        let bytes = bytes.min(group.memory_ceiling.unwrap_or(u64::MAX));
                        cgroup::limit_memory(group.version, &dir, bytes)
                    }
                    LimitKind::Processes(count) => {
                        let count = count.saturating_add(context.processes_in_group());
                        let count = count.min(group.pids_ceiling.unwrap_or(u64::MAX));
                        cgroup::limit_pids(&dir, count)
                    }
                    LimitKind::Cpu(max) => {
                        let meter = CpuMeter::new(group.version, &dir);
                        limiter.cpu = Some(CpuBudget { meter, max });
                        Ok(())
                    }
                    LimitKind::Timeout(_) => Ok(()),
                };
                set.map_err(|error| LimitError::Set { dir, error })?;
            }
            (Mechanism::Rlimit(resource, value), _) => limiter.rlimits.push((resource, value)),
            (Mechanism::Runner | Mechanism::None(_), _) => {}
        }
    }
    Ok(limiter)
}

/// One directory per hierarchy and spawn.
#[derive(Default)]
struct Groups<'a>(Vec<(&'a Path, PathBuf)>);

impl<'a> Groups<'a> {
    fn at(
        &mut self,
        group: &'a CgroupParent,
        limiter: &mut Limiter,
    ) -> Result<PathBuf, LimitError> {
        if let Some((_, dir)) = self.0.iter().find(|(parent, _)| *parent == group.dir) {
            return Ok(dir.clone());
        }
        static REMOVE_STALE: Once = Once::new();
        REMOVE_STALE.call_once(|| {
            let parents = cgroup::parents();
            let all = [&parents.memory, &parents.pids, &parents.cpu];
            all.into_iter()
                .flatten()
                .for_each(|group| cgroup::remove_stale(&group.dir));
        });
        let dir = cgroup::create(&group.dir).map_err(|error| LimitError::Create {
            dir: group.dir.clone(),
            error,
        })?;
        limiter.cgroups.push(Raw::from(dir.join("cgroup.procs")));
        limiter.leftovers.push(Raw::from(&dir));
        self.0.push((&group.dir, dir.clone()));
        Ok(dir)
    }
}

/// How a limit is enforced on this machine.
enum Mechanism<'a> {
    Runner,
    Group(&'a CgroupParent),
    Rlimit(Resource, u64),
    /// It cannot be enforced: the reason, and what would help.
    None(String),
}

fn mechanism(
    kind: LimitKind,
    context: LimitContext,
    parents: &CgroupParents,
    root: bool,
) -> Mechanism<'_> {
    match kind {
        LimitKind::Timeout(_) => Mechanism::Runner,
        LimitKind::Memory { bytes } => match &parents.memory {
            Ok(group) => Mechanism::Group(group),
            Err(_) => Mechanism::Rlimit(Resource::AddressSpace, bytes),
        },
        LimitKind::Cpu(max) => match &parents.cpu {
            Ok(group) => Mechanism::Group(group),
            Err(_) => {
                let whole = max.as_secs() + u64::from(max.subsec_nanos() > 0);
                Mechanism::Rlimit(Resource::CpuSeconds, whole.max(1))
            }
        },
        LimitKind::Processes(count) => match (&parents.pids, context.processes_of_user()) {
            (Ok(group), _) => Mechanism::Group(group),
            (Err(why), _) if root => Mechanism::None(format!(
                "{why}, and the kernel exempts root from RLIMIT_NPROC: run as an ordinary user, \
                 or where control groups are writable"
            )),
            (Err(why), None) => Mechanism::None(format!(
                "{why}, and without a sandbox RLIMIT_NPROC would count all processes of this \
                 user: run in a sandbox, or where control groups are writable"
            )),
            (Err(_), Some(own)) => {
                Mechanism::Rlimit(Resource::Processes, count.saturating_add(own))
            }
        },
    }
}

/// Whether a default is not worth its cost on this machine. A limit on the address space keeps
/// programs such as node from starting.
fn is_skipped(limit: &PolicyLimit, mechanism: &Mechanism) -> bool {
    let too_strict = matches!(
        mechanism,
        Mechanism::None(_) | Mechanism::Rlimit(Resource::AddressSpace, _)
    );
    limit.default && too_strict
}

/// How each limit is enforced. Creates nothing.
pub fn assess(limits: &[PolicyLimit], context: LimitContext) -> Vec<Assessment> {
    let (parents, root) = (cgroup::parents(), is_root());
    limits
        .iter()
        .filter(|limit| !is_skipped(limit, &mechanism(limit.kind, context, parents, root)))
        .map(|limit| {
            let (enforcement, note) = enforcement(limit.kind, context, parents, root);
            Assessment {
                clause: limit.clause.clone(),
                enforcement,
                note,
            }
        })
        .collect()
}

fn enforcement(
    kind: LimitKind,
    context: LimitContext,
    parents: &CgroupParents,
    root: bool,
) -> (Enforcement, Option<String>) {
    let by = |by: &str| Enforcement::Enforced { by: by.to_owned() };
    let note = |text: &str| Some(text.to_owned());
    match mechanism(kind, context, parents, root) {
        Mechanism::Runner => (by("the runner kills the child after this time"), None),
        Mechanism::None(why) => (Enforcement::Unenforceable { why }, None),
        Mechanism::Group(group) => {
            let version = match group.version {
                CgroupVersion::V1 => "v1",
                CgroupVersion::V2 => "v2",
            };
            match kind {
                LimitKind::Cpu(_) => (
                    by(&format!(
                        "the runner checks a control group (cgroup {version}) and kills the child"
                    )),
                    note("it is checked every 50 ms, so the child may use slightly more"),
                ),
                _ => (by(&format!("a control group (cgroup {version})")), None),
            }
        }
        Mechanism::Rlimit(Resource::AddressSpace, _) => (
            by("RLIMIT_AS"),
            note(
                "limits the address space of each process, not the memory of all: programs that \
                 reserve much and use little, such as node, may not start",
            ),
        ),
        Mechanism::Rlimit(Resource::CpuSeconds, _) => (
            by("RLIMIT_CPU"),
            note("counts each process separately, in whole seconds"),
        ),
        Mechanism::Rlimit(..) => (
            by("RLIMIT_NPROC in a user namespace"),
            note("threads count as processes"),
        ),
    }
}

/// Whether we are root of the machine, not only of a container. Only the former is exempt from
/// `RLIMIT_NPROC`.
fn is_root() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    // SAFETY: no arguments, cannot fail.
    let user = unsafe { libc::getuid() };
    user == 0 && root_is_root(&map)
}

/// Parses lines of: first user inside, first user outside, number of users.
fn root_is_root(map: &str) -> bool {
    let zero = map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace();
        (numbers.next()? == "0").then(|| numbers.next() == Some("0"))
    });
    zero.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clause;

    fn no_cgroups() -> CgroupParents {
        let none = || Err("control groups are not writable".to_owned());
        CgroupParents {
            memory: none(),
            pids: none(),
            cpu: none(),
        }
    }

    fn limit(kind: LimitKind) -> PolicyLimit {
        PolicyLimit {
            default: false,
            clause: Clause::new("/sandbox/limits", "limits"),
            kind,
        }
    }

    #[test]
    fn without_groups_there_are_resource_limits() {
        let limits = [
            limit(LimitKind::Memory { bytes: 1 << 20 }),
            limit(LimitKind::Cpu(Duration::from_millis(1500))),
            limit(LimitKind::Processes(8)),
            limit(LimitKind::Timeout(Duration::from_secs(3))),
        ];
        let limiter =
            prepare_at(&limits, LimitContext::Native, &no_cgroups(), false).expect("prepared");
        assert_eq!(
            limiter.rlimits,
            [
                (Resource::AddressSpace, 1 << 20),
                (Resource::CpuSeconds, 2),
                (Resource::Processes, 10),
            ]
        );
        assert_eq!(limiter.timeout, Some(Duration::from_secs(3)));
        assert!(limiter.cgroups.is_empty() && limiter.leftovers.is_empty());
    }

    #[test]
    fn a_default_is_skipped_where_it_would_do_harm() {
        let default = |kind| PolicyLimit {
            default: true,
            ..limit(kind)
        };
        let limits = [
            default(LimitKind::Memory { bytes: 1 << 20 }),
            default(LimitKind::Processes(8)),
        ];
        let rlimits = |root| {
            let limiter = prepare_at(&limits, LimitContext::Native, &no_cgroups(), root);
            limiter.expect("prepared").rlimits.clone()
        };
        assert_eq!(rlimits(false), [(Resource::Processes, 10)]);
        assert_eq!(rlimits(true), []);
    }

    #[test]
    fn the_root_of_a_container_is_not_root() {
        assert!(root_is_root("         0          0 4294967295\n"));
        assert!(!root_is_root("0 100000 65536\n"));
        assert!(root_is_root(""));
    }

    #[test]
    fn limits_that_cannot_be_enforced_have_a_reason() {
        let kind = LimitKind::Processes(8);
        let why = |context, root| match enforcement(kind, context, &no_cgroups(), root).0 {
            Enforcement::Unenforceable { why } => why,
            Enforcement::Enforced { by } => panic!("enforced by {by}"),
        };
        assert!(why(LimitContext::Native, true).contains("exempts root"));
        assert!(why(LimitContext::Guard, false).contains("all processes of this user"));
    }
}
