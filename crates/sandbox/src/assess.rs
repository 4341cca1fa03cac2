//! How each clause of a policy is enforced on this machine, or why it cannot be.

use super::backend::Backend;
use super::bwrap::{BwrapError, HelperCapability};
use super::clause::{Assessment, Clause, Enforcement, GRANTS_ALL, NO_EFFECT};
use super::egress::HostRules;
use super::ingress;
use super::policy::{Exec, HiddenKind, Policy, WHOLE_ENVIRONMENT};
use super::probe;

/// Assesses every clause of a policy except the limits. `backend` is what will enforce it, or the
/// reason why no backend can.
pub fn assess(policy: &Policy, backend: &Result<Backend, String>) -> Vec<Assessment> {
    let mut list = Assessments {
        backend,
        policy,
        all: Vec::new(),
    };
    list.network();
    list.files();
    list.exec();
    for (clause, by) in &policy.protected {
        list.by_backend(clause, by);
    }
    for clause in &policy.env_clauses {
        list.environment(clause);
    }
    if let Some(clause) = &policy.tty {
        list.by_runner(clause, "agentproto provides a pseudo-terminal");
    }
    for (clause, why) in &policy.ineffective {
        list.by_backend(clause, &format!("{NO_EFFECT}{why}"));
    }
    for (clause, why) in &policy.unenforceable {
        let why = why.clone();
        list.push(clause, Enforcement::Unenforceable { why });
    }
    list.all
}

struct Assessments<'a> {
    backend: &'a Result<Backend, String>,
    policy: &'a Policy,
    all: Vec<Assessment>,
}

impl Assessments<'_> {
    fn push(&mut self, clause: &Clause, enforcement: Enforcement) {
        let notes = self.policy.notes.iter();
        let note = notes.filter(|(at, _)| at == clause).map(|(_, n)| n.clone());
        self.all.push(Assessment {
            clause: clause.clone(),
            enforcement,
            note: note.reduce(|a, b| format!("{a}; {b}")),
        });
    }

    /// A clause that the runner enforces itself, on any kernel.
    fn by_runner(&mut self, clause: &Clause, by: &str) {
        let by = by.to_owned();
        self.push(clause, Enforcement::Enforced { by });
    }

    /// A clause that needs a backend.
    fn by_backend(&mut self, clause: &Clause, by: &str) {
        if self.policy.unenforceable.iter().any(|(at, _)| at == clause) {
            return;
        }
        let enforcement = match self.backend {
            Ok(_) => Enforcement::Enforced { by: by.to_owned() },
            Err(why) => Enforcement::Unenforceable { why: why.clone() },
        };
        self.push(clause, enforcement);
    }

    fn environment(&mut self, clause: &Clause) {
        let is_whole = |(at, note): &(Clause, String)| at == clause && note == WHOLE_ENVIRONMENT;
        if self.policy.notes.iter().any(is_whole) {
            let by = format!("{GRANTS_ALL}{WHOLE_ENVIRONMENT}");
            self.all.push(Assessment {
                clause: clause.clone(),
                enforcement: Enforcement::Enforced { by },
                note: None,
            });
            return;
        }
        self.by_runner(
            clause,
            "the environment starts empty, and only declared variables are set",
        );
    }

    fn network(&mut self) {
        if self.policy.egress.is_empty() {
            let none = Clause::new("/sandbox/network/egress", "network.egress: none");
            self.by_backend(&none, "no network access (empty network namespace)");
        }
        for (clause, host) in &self.policy.egress {
            match HostRules::parse([host]) {
                Ok(_) => {
                    let allowed = match host {
                        host if host.bytes().all(|b| matches!(b, b'*' | b'.')) => "every host",
                        host if host.contains('*') => "hosts that match",
                        _ => "this host",
                    };
                    let by = "no network access except through agentproto's proxy, which allows";
                    self.by_backend(clause, &format!("{by} {allowed}"));
                }
                Err(error) => {
                    let why = error.to_string();
                    self.push(clause, Enforcement::Unenforceable { why });
                }
            }
        }
        for (clause, url) in &self.policy.ingress {
            match ingress::port(url) {
                Ok(_) => self.by_backend(
                    clause,
                    "connections to this port on the host's loopback are forwarded into the sandbox",
                ),
                Err(why) => self.push(clause, Enforcement::Unenforceable { why }),
            }
        }
    }

    fn files(&mut self) {
        let mut seen: Vec<&Clause> = Vec::new();
        for clause in self.policy.grants.iter().filter_map(|g| g.clause.as_ref()) {
            if !seen.contains(&clause) {
                seen.push(clause);
                self.by_backend(
                    clause,
                    "only this path is mounted, and Landlock limits access to it",
                );
            }
        }
        let mut seen: Vec<&Clause> = Vec::new();
        for denial in &self.policy.denials {
            let is_protection = |(clause, _): &(Clause, String)| *clause == denial.clause;
            if self.policy.protected.iter().any(is_protection) {
                continue;
            }
            if seen.contains(&&denial.clause) {
                continue;
            }
            seen.push(&denial.clause);
            let granted = self
                .policy
                .grants
                .iter()
                .any(|grant| denial.path.starts_with(&grant.at));
            let by = match (granted, denial.kind) {
                (false, _) => "the path is not visible, because no other clause grants it",
                (true, HiddenKind::Missing) => "the path does not exist, and it cannot be created",
                (true, _) => "the path is hidden behind an empty mount",
            };
            self.by_backend(&denial.clause, by);
        }
    }

    fn exec(&mut self) {
        let Exec::Listed { fork, clause, .. } = &self.policy.exec else {
            return;
        };
        if *self.backend == Ok(Backend::Bubblewrap)
            && let Ok(found) = probe::bubblewrap()
            && found.capability == HelperCapability::LandlockOnly
        {
            let why = BwrapError::Exec.to_string();
            self.push(clause, Enforcement::Unenforceable { why });
            return;
        }
        let by = if *fork {
            "only the listed programs can be executed (mount options, Landlock and seccomp)"
        } else {
            "no new processes (seccomp), and no other program can be executed (Landlock)"
        };
        self.by_backend(clause, by);
    }
}
