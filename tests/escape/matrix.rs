//! Runs a table of attempts: inside the sandbox with each backend, and outside as a control.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use agentproto_sandbox::bwrap::{self, Bubblewrap, HelperCapability};
use agentproto_sandbox::plan::{PlanKind, SpawnPlan};
use agentproto_sandbox::policy::Policy;
use agentproto_sandbox::spawn::{Child, Piece, SpawnOptions, Stdio, spawn};
use agentproto_sandbox::{build, probe};

use crate::policies::clause;
use crate::world::{self, Host, World, is_root};

/// A backend converts a plan to its own kind of plan, or refuses it before anything starts.
pub type Backend = (&'static str, fn(SpawnPlan) -> Result<SpawnPlan, String>);

/// The backends that work on this machine. The others are reported once.
pub fn backends() -> Vec<Backend> {
    static TOLD: std::sync::Once = std::sync::Once::new();
    // Probing for backends starts the helper, and this test binary is not the helper.
    world::use_helper();
    let mut all: Vec<Backend> = vec![("native", Ok)];
    match probe::bubblewrap() {
        Ok(found) => {
            if found.capability == HelperCapability::Mounts {
                all.push(("bwrap", |plan| bubblewrap(plan, HelperCapability::Mounts)));
            }
            all.push(("weak", |plan| {
                bubblewrap(plan, HelperCapability::LandlockOnly)
            }));
        }
        Err(why) => TOLD.call_once(|| println!("bubblewrap is not tested: {why:?}")),
    }
    all
}

fn bubblewrap(plan: SpawnPlan, capability: HelperCapability) -> Result<SpawnPlan, String> {
    let found = probe::bubblewrap().map_err(|e| format!("{e:?}"))?;
    let found = Bubblewrap {
        capability,
        ..found.clone()
    };
    bwrap::plan(plan, &found).map_err(|e| e.to_string())
}

/// The expected result of the same attempt without a sandbox.
#[derive(Clone, Copy, PartialEq)]
pub enum Control {
    Escapes,
    /// Only root can do it without a sandbox.
    Root,
    /// The kernel may have been built or configured without it.
    Kernel,
    RootAndKernel,
    /// No control is possible, with the reason.
    None(&'static str),
}

pub struct Case {
    probe: &'static str,
    args: &'static str,
    rows: &'static str,
    control: Control,
    works: bool,
    replaces: bool,
    tty: bool,
    meanwhile: Option<fn(&World)>,
    /// A backend that is known not to block this for root, with the reason.
    known: Option<(&'static str, &'static str)>,
}

/// An attempt that must be blocked. `rows` names the requirements that it checks.
pub fn wall(probe: &'static str, args: &'static str, rows: &'static str, control: Control) -> Case {
    Case {
        probe,
        args,
        rows,
        control,
        works: false,
        replaces: false,
        tty: false,
        meanwhile: None,
        known: None,
    }
}

/// A counterpart: an action that the policy allows and that must work.
pub fn twin(probe: &'static str, args: &'static str, rows: &'static str) -> Case {
    Case {
        works: true,
        ..wall(probe, args, rows, Control::Escapes)
    }
}

impl Case {
    /// The probe is replaced by another program or killed, so no output counts as blocked.
    pub fn replaces(mut self) -> Self {
        self.replaces = true;
        self
    }

    pub fn on_terminal(mut self) -> Self {
        self.tty = true;
        self
    }

    /// Marks a backend that cannot block this for root, with the reason.
    pub fn known(mut self, backend: &'static str, why: &'static str) -> Self {
        self.known = Some((backend, why));
        self
    }

    /// An action on the host once the probe reports that it is ready.
    pub fn meanwhile(mut self, act: fn(&World)) -> Self {
        self.meanwhile = Some(act);
        self
    }
}

#[derive(Debug)]
pub struct Seen {
    pub outcome: String,
    pub how: String,
}

pub fn command(world: &World, probe_name: &str, args: &str) -> Vec<OsString> {
    let mut command = vec![world::probe().into_os_string(), probe_name.into()];
    command.extend(args.split_whitespace().map(|arg| world.fill(arg).into()));
    command
}

/// The same child without a sandbox.
pub fn unconfined(mut plan: SpawnPlan) -> SpawnPlan {
    plan.kind = PlanKind::Guard;
    plan.confinement = None;
    plan.leftovers.clear();
    plan.rlimits.clear();
    plan
}

pub async fn observe(plan: &SpawnPlan, world: &World, case: &Case) -> Seen {
    let options = SpawnOptions {
        stdio: match case.tty {
            true => Stdio::Terminal {
                rows: 24,
                columns: 200,
            },
            false => Stdio::Pipes,
        },
        timeout: Some(Duration::from_secs(30)),
        ..SpawnOptions::default()
    };
    match spawn(plan, options).await {
        Ok(child) => follow(child, world, case).await,
        Err(error) => Seen {
            outcome: "refused".into(),
            how: error.to_string(),
        },
    }
}

pub async fn follow(mut child: Child, world: &World, case: &Case) -> Seen {
    child.stdin = None;
    let mut text = String::new();
    if let Some(terminal) = &child.terminal {
        let mut part = [0; 1024];
        while let Ok(length @ 1..) = terminal.read(&mut part).await {
            text.push_str(&String::from_utf8_lossy(&part[..length]));
        }
    }
    if let Some(mut stdout) = child.stdout.take() {
        while let Some(piece) = stdout.next().await {
            let Piece::Line { bytes, .. } = piece else {
                continue;
            };
            let line = String::from_utf8_lossy(&bytes);
            if let (true, Some(act)) = (line == "ready", case.meanwhile) {
                act(world);
            }
            let _ = writeln!(text, "{line}");
        }
    }
    let exit = child.wait().await;
    let said = text.lines().find_map(|line| {
        // A terminal echoes its input, so JSON may start in the middle of a line.
        let json = line.get(line.find('{')?..)?;
        let value: serde_json::Value = serde_json::from_str(json.trim()).ok()?;
        Some(Seen {
            outcome: value["outcome"].as_str()?.into(),
            how: value["how"].as_str()?.into(),
        })
    });
    said.unwrap_or_else(|| Seen {
        outcome: match exit.status.signal() {
            Some(libc::SIGSYS) => "killed by the filter".into(),
            Some(libc::SIGSEGV) => "crashed".into(),
            _ => "silent".into(),
        },
        how: format!(
            "{}: {} {}",
            exit.status,
            child.stderr.text().trim(),
            text.trim()
        ),
    })
}

/// Runs a table under a policy. Reports every failure, not only the first.
pub async fn run(group: &str, policy: fn(&World) -> Policy, cases: &[Case]) {
    let host = Host::new();
    let who = if is_root() { "root" } else { "user" };
    let mut faults = String::new();
    let mut report = String::new();
    let mut counts = [0; 6];
    for case in cases {
        for (name, backend) in backends() {
            if let Some((_, why)) = case.known.filter(|(known, _)| is_root() && *known == name) {
                counts[5] += 1;
                let _ = writeln!(
                    report,
                    "{who:4} {name:6} {group}: known not to be blocked: {} {}: {why}",
                    case.probe, case.args
                );
                continue;
            }
            let world = World::new(&host);
            let seen = match backend(plan_of(policy(&world), &world, case)) {
                Ok(plan) => observe(&plan, &world, case).await,
                Err(why) => {
                    counts[4] += 1;
                    if counts[4] == 1 {
                        let _ = writeln!(
                            report,
                            "{who:4} {name:6} {group}: refused before the start: {why}"
                        );
                    }
                    continue;
                }
            };
            let good = match seen.outcome.as_str() {
                "blocked" => !case.works,
                "escaped" => case.works,
                "killed by the filter" | "silent" => case.replaces && !case.works,
                // If the kernel lacks the interface, nothing can escape through it.
                "error" => !case.works && seen.how.contains("absent"),
                _ => false,
            };
            counts[if !good {
                0
            } else if case.works {
                1
            } else {
                2
            }] += 1;
            let line = format!(
                "{who:4} {name:6} {group:12} {:8} {} {} [{}] {}",
                seen.outcome, case.probe, case.args, case.rows, seen.how
            );
            let _ = writeln!(report, "{line}");
            if !good {
                let _ = writeln!(faults, "{line}");
            }
        }
        if !case.works {
            control(
                group,
                who,
                policy,
                case,
                &host,
                &mut report,
                &mut faults,
                &mut counts,
            )
            .await;
        }
    }
    println!(
        "{report}{who} {group}: {} blocked, {} counterparts work, {} without a control, {} refused before the start, {} known not to be blocked, {} failures",
        counts[2], counts[1], counts[3], counts[4], counts[5], counts[0]
    );
    assert!(faults.is_empty(), "\n{faults}");
}

fn plan_of(policy: Policy, world: &World, case: &Case) -> SpawnPlan {
    let mut policy = policy;
    if case.tty {
        policy.tty = Some(clause("tty.required"));
    }
    build::plan(&policy, &command(world, case.probe, case.args))
}

#[expect(clippy::too_many_arguments, reason = "the running totals of one table")]
async fn control(
    group: &str,
    who: &str,
    policy: fn(&World) -> Policy,
    case: &Case,
    host: &Host,
    report: &mut String,
    faults: &mut String,
    counts: &mut [u32; 6],
) {
    let why_none = match case.control {
        Control::None(why) => Some(why),
        Control::Root | Control::RootAndKernel if !is_root() => {
            Some("needs root; the run as root has the control")
        }
        _ => None,
    };
    let mut without = |why: &str| {
        counts[3] += 1;
        let _ = writeln!(
            report,
            "{who:4} no control: {group} {} {}: {why}",
            case.probe, case.args
        );
    };
    if let Some(why) = why_none {
        return without(why);
    }
    let world = World::new(host);
    let plan = unconfined(plan_of(policy(&world), &world, case));
    let seen = observe(&plan, &world, case).await;
    let kernel = matches!(case.control, Control::Kernel | Control::RootAndKernel);
    if seen.outcome != "escaped" && kernel {
        return without(&format!("this kernel does not allow it: {}", seen.how));
    }
    if seen.outcome != "escaped" {
        let _ = writeln!(
            faults,
            "{who:4} control: {group} {} {} must succeed without a sandbox, but: {} {}",
            case.probe, case.args, seen.outcome, seen.how
        );
    }
}
