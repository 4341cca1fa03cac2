//! Clause by clause: what holds it on this machine, or why nothing does.

use super::backend::Backend;
use super::bwrap::{BwrapError, Power};
use super::clause::{Assessment, Clause, Standing};
use super::egress::HostRules;
use super::ingress;
use super::policy::{Exec, Hidden, Policy};
use super::probe;

/// Every clause of a policy with its standing, limits aside. `backend` is what will enforce
/// it, or the reason why none can.
pub fn assess(policy: &Policy, backend: &Result<Backend, String>) -> Vec<Assessment> {
    let mut list = List {
        backend,
        policy,
        all: Vec::new(),
    };
    list.network();
    list.files();
    list.exec();
    for clause in &policy.env_clauses {
        list.by_us(clause, "the environment is built from nothing");
    }
    if let Some(clause) = &policy.tty {
        list.by_us(clause, "a pseudo-terminal of the runner");
    }
    for (clause, why) in &policy.absent {
        list.by_backend(clause, &format!("absence: {why}"));
    }
    for (clause, why) in &policy.impossible {
        let why = why.clone();
        list.push(clause, Standing::Unenforceable { why });
    }
    list.all
}

struct List<'a> {
    backend: &'a Result<Backend, String>,
    policy: &'a Policy,
    all: Vec<Assessment>,
}

impl List<'_> {
    fn push(&mut self, clause: &Clause, standing: Standing) {
        let notes = self.policy.notes.iter();
        let note = notes.filter(|(at, _)| at == clause).map(|(_, n)| n.clone());
        self.all.push(Assessment {
            clause: clause.clone(),
            standing,
            note: note.reduce(|a, b| format!("{a}; {b}")),
        });
    }

    /// What the runner does itself, whatever the kernel.
    fn by_us(&mut self, clause: &Clause, by: &str) {
        let by = by.to_owned();
        self.push(clause, Standing::Enforced { by });
    }

    /// What needs a backend.
    fn by_backend(&mut self, clause: &Clause, by: &str) {
        if self.policy.impossible.iter().any(|(at, _)| at == clause) {
            return;
        }
        let standing = match self.backend {
            Ok(_) => Standing::Enforced { by: by.to_owned() },
            Err(why) => Standing::Unenforceable { why: why.clone() },
        };
        self.push(clause, standing);
    }

    fn network(&mut self) {
        if self.policy.egress.is_empty() {
            let none = Clause::new("/sandbox/network/egress", "network.egress: none");
            self.by_backend(&none, "an empty network namespace");
        }
        for (clause, host) in &self.policy.egress {
            match HostRules::parse([host]) {
                Ok(_) => {
                    self.by_backend(clause, "an empty network namespace and the runner's proxy")
                }
                Err(error) => {
                    let why = error.to_string();
                    self.push(clause, Standing::Unenforceable { why });
                }
            }
        }
        for (clause, url) in &self.policy.ingress {
            match ingress::port(url) {
                Ok(_) => self.by_backend(clause, "a relay from the host's loopback port"),
                Err(why) => self.push(clause, Standing::Unenforceable { why }),
            }
        }
    }

    fn files(&mut self) {
        let mut seen: Vec<&Clause> = Vec::new();
        for clause in self.policy.grants.iter().filter_map(|g| g.clause.as_ref()) {
            if !seen.contains(&clause) {
                seen.push(clause);
                self.by_backend(clause, "a mount namespace of its own, and Landlock");
            }
        }
        let mut seen: Vec<&Clause> = Vec::new();
        for denial in &self.policy.denials {
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
                (false, _) => "absence: no grant takes it in",
                (true, Hidden::Missing) => "a mask that holds the name",
                (true, _) => "a mask over it",
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
            && found.power == Power::LandlockOnly
        {
            let why = BwrapError::Exec.to_string();
            self.push(clause, Standing::Unenforceable { why });
            return;
        }
        let by = if *fork {
            "only listed programs are mounted executable; Landlock, and seccomp for memory files"
        } else {
            "seccomp: no process can be created; Landlock: nothing else can be executed"
        };
        self.by_backend(clause, by);
    }
}
