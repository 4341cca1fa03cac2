//! Limits on memory, processor time and processes: by control groups if possible, otherwise by
//! resource limits. Notes describe what resource limits do not cover.

pub mod cgroup;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use super::clause::{Assessment, Standing};
use super::plan::{Plan, Raw, Resource};
use super::policy::{Limit, LimitKind};
use cgroup::{CpuMeter, Place, Places, Version};

/// Interval at which processor time is checked.
pub const CPU_INTERVAL: Duration = Duration::from_millis(50);

/// What starts the target. Its own processes are in the same groups and must not count as the
/// target's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    Guard,
    Native,
    Bubblewrap,
}

impl Within {
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
    pub meter: CpuMeter,
    pub most: Duration,
}

impl CpuBudget {
    pub fn is_spent(&self) -> bool {
        self.meter.spent().is_some_and(|spent| spent >= self.most)
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
    pub rlimits: Vec<(Resource, u64)>,
    /// Time limit for `spawn::Options`.
    pub timeout: Option<Duration>,
    /// Processor time limit for `spawn::Options`.
    pub cpu: Option<CpuBudget>,
}

impl Limiter {
    pub fn apply(&self, plan: &mut Plan) {
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

#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    #[error("cannot create a control group in {}: {error}", dir.display())]
    Make { dir: PathBuf, error: io::Error },
    #[error("cannot set the limit of the control group {}: {error}", dir.display())]
    Set { dir: PathBuf, error: io::Error },
}

/// Creates the groups. Limits that `assess` reports as unenforceable are skipped, because the
/// caller has already refused them.
pub fn prepare(limits: &[Limit], within: Within) -> Result<Limiter, LimitError> {
    prepare_at(limits, within, cgroup::places(), is_root())
}

fn prepare_at(
    limits: &[Limit],
    within: Within,
    places: &Places,
    root: bool,
) -> Result<Limiter, LimitError> {
    let mut limiter = Limiter::default();
    let mut groups = Groups::default();
    for limit in limits {
        match (means(limit.kind, within, places, root), limit.kind) {
            (Means::Runner, LimitKind::Timeout(most)) => {
                limiter.timeout = Some(limiter.timeout.map_or(most, |t| t.min(most)));
            }
            (Means::Group(place), kind) => {
                let dir = groups.at(place, &mut limiter)?;
                let set = match kind {
                    LimitKind::Memory { bytes } => {
                        let bytes = bytes.min(place.memory_ceiling.unwrap_or(u64::MAX));
                        cgroup::limit_memory(place.version, &dir, bytes)
                    }
                    LimitKind::Processes(count) => {
                        let count = count.saturating_add(within.processes_in_group());
                        let count = count.min(place.pids_ceiling.unwrap_or(u64::MAX));
                        cgroup::limit_pids(&dir, count)
                    }
                    LimitKind::Cpu(most) => {
                        let meter = CpuMeter::new(place.version, &dir);
                        limiter.cpu = Some(CpuBudget { meter, most });
                        Ok(())
                    }
                    LimitKind::Timeout(_) => Ok(()),
                };
                set.map_err(|error| LimitError::Set { dir, error })?;
            }
            (Means::Rlimit(resource, value), _) => limiter.rlimits.push((resource, value)),
            (Means::Runner | Means::None(_), _) => {}
        }
    }
    Ok(limiter)
}

/// One directory per hierarchy and spawn.
#[derive(Default)]
struct Groups<'a>(Vec<(&'a Path, PathBuf)>);

impl<'a> Groups<'a> {
    fn at(&mut self, place: &'a Place, limiter: &mut Limiter) -> Result<PathBuf, LimitError> {
        if let Some((_, dir)) = self.0.iter().find(|(parent, _)| *parent == place.dir) {
            return Ok(dir.clone());
        }
        static SWEEP: Once = Once::new();
        SWEEP.call_once(|| {
            let places = cgroup::places();
            let all = [&places.memory, &places.pids, &places.cpu];
            all.into_iter()
                .flatten()
                .for_each(|place| cgroup::sweep(&place.dir));
        });
        let dir = cgroup::make(&place.dir).map_err(|error| LimitError::Make {
            dir: place.dir.clone(),
            error,
        })?;
        limiter.cgroups.push(Raw::from(dir.join("cgroup.procs")));
        limiter.leftovers.push(Raw::from(&dir));
        self.0.push((&place.dir, dir.clone()));
        Ok(dir)
    }
}

/// How a limit is enforced on this machine.
enum Means<'a> {
    Runner,
    Group(&'a Place),
    Rlimit(Resource, u64),
    /// It cannot be enforced: the reason, and what would help.
    None(String),
}

fn means(kind: LimitKind, within: Within, places: &Places, root: bool) -> Means<'_> {
    match kind {
        LimitKind::Timeout(_) => Means::Runner,
        LimitKind::Memory { bytes } => match &places.memory {
            Ok(place) => Means::Group(place),
            Err(_) => Means::Rlimit(Resource::AddressSpace, bytes),
        },
        LimitKind::Cpu(most) => match &places.cpu {
            Ok(place) => Means::Group(place),
            Err(_) => {
                let whole = most.as_secs() + u64::from(most.subsec_nanos() > 0);
                Means::Rlimit(Resource::CpuSeconds, whole.max(1))
            }
        },
        LimitKind::Processes(count) => match (&places.pids, within.processes_of_user()) {
            (Ok(place), _) => Means::Group(place),
            (Err(why), _) if root => Means::None(format!(
                "{why}, and the kernel exempts root from RLIMIT_NPROC: run as an ordinary user, \
                 or where control groups are writable"
            )),
            (Err(why), None) => Means::None(format!(
                "{why}, and without a sandbox RLIMIT_NPROC would count all processes of this \
                 user: run in a sandbox, or where control groups are writable"
            )),
            (Err(_), Some(own)) => Means::Rlimit(Resource::Processes, count.saturating_add(own)),
        },
    }
}

/// How each limit is enforced. Creates nothing.
pub fn assess(limits: &[Limit], within: Within) -> Vec<Assessment> {
    let (places, root) = (cgroup::places(), is_root());
    limits
        .iter()
        .map(|limit| {
            let (standing, note) = standing(limit.kind, within, places, root);
            Assessment {
                clause: limit.clause.clone(),
                standing,
                note,
            }
        })
        .collect()
}

fn standing(
    kind: LimitKind,
    within: Within,
    places: &Places,
    root: bool,
) -> (Standing, Option<String>) {
    let by = |by: &str| Standing::Enforced { by: by.to_owned() };
    let said = |text: &str| Some(text.to_owned());
    match means(kind, within, places, root) {
        Means::Runner => (by("the runner kills the child after this time"), None),
        Means::None(why) => (Standing::Unenforceable { why }, None),
        Means::Group(place) => {
            let version = match place.version {
                Version::V1 => "v1",
                Version::V2 => "v2",
            };
            match kind {
                LimitKind::Cpu(_) => (
                    by(&format!(
                        "the runner checks a control group ({version}) and kills the child"
                    )),
                    said("it is checked every 50 ms, so the child may use slightly more"),
                ),
                _ => (by(&format!("a control group ({version})")), None),
            }
        }
        Means::Rlimit(Resource::AddressSpace, _) => (
            by("RLIMIT_AS"),
            said(
                "limits the address space of each process, not the memory of all: programs that \
                 reserve much and use little, such as node, may not start",
            ),
        ),
        Means::Rlimit(Resource::CpuSeconds, _) => (
            by("RLIMIT_CPU"),
            said("counts each process separately, in whole seconds"),
        ),
        Means::Rlimit(..) => (
            by("RLIMIT_NPROC in a user namespace"),
            said("threads count as processes"),
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

    fn nowhere() -> Places {
        let none = || Err("control groups are not writable".to_owned());
        Places {
            memory: none(),
            pids: none(),
            cpu: none(),
        }
    }

    fn limit(kind: LimitKind) -> Limit {
        Limit {
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
        let limiter = prepare_at(&limits, Within::Native, &nowhere(), false).expect("prepared");
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
    fn the_root_of_a_container_is_not_root() {
        assert!(root_is_root("         0          0 4294967295\n"));
        assert!(!root_is_root("0 100000 65536\n"));
        assert!(root_is_root(""));
    }

    #[test]
    fn limits_that_cannot_be_enforced_have_a_reason() {
        let kind = LimitKind::Processes(8);
        let why = |within, root| match standing(kind, within, &nowhere(), root).0 {
            Standing::Unenforceable { why } => why,
            Standing::Enforced { by } => panic!("enforced by {by}"),
        };
        assert!(why(Within::Native, true).contains("exempts root"));
        assert!(why(Within::Guard, false).contains("all processes of this user"));
    }
}
