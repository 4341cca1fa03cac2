//! How each clause of a policy is enforced on this machine, or why it cannot be.

use super::backend::Backend;
use super::bwrap::{BwrapError, Power};
use super::clause::{Assessment, Clause, Standing};
use super::egress::HostRules;
use super::ingress;
use super::policy::{Exec, Hidden, Policy};
use super::probe;

/// Assesses every clause of a policy except the limits. `backend` is what will enforce it, or the
/// reason why no backend can.
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
        list.by_us(
            clause,
            "the environment starts empty, and only declared variables are set",
        );
    }
    if let Some(clause) = &policy.tty {
        list.by_us(clause, "the runner provides a pseudo-terminal");
    }
    for (clause, why) in &policy.absent {
        list.by_backend(clause, &format!("the clause has no effect: {why}"));
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

    /// A clause that the runner enforces itself, on any kernel.
    fn by_us(&mut self, clause: &Clause, by: &str) {
        let by = by.to_owned();
        self.push(clause, Standing::Enforced { by });
    }

    /// A clause that needs a backend.
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
            self.by_backend(&none, "the network namespace is empty");
        }
        for (clause, host) in &self.policy.egress {
            match HostRules::parse([host]) {
                Ok(_) => self.by_backend(
                    clause,
                    "the network namespace is empty, and only the runner's proxy leads out",
                ),
                Err(error) => {
                    let why = error.to_string();
                    self.push(clause, Standing::Unenforceable { why });
                }
            }
        }
        for (clause, url) in &self.policy.ingress {
            match ingress::port(url) {
                Ok(_) => self.by_backend(
                    clause,
                    "the host's loopback port is relayed into the sandbox",
                ),
                Err(why) => self.push(clause, Standing::Unenforceable { why }),
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
                    "the path is mounted in a private mount namespace, and Landlock limits access",
                );
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
                (false, _) => "the path is not mounted: no grant includes it",
                (true, Hidden::Missing) => {
                    "the path does not exist, and a mask prevents its creation"
                }
                (true, _) => "the path is hidden by a mask",
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
            "only listed programs are mounted executable; Landlock blocks other files, and \
             seccomp blocks memory files"
        } else {
            "seccomp blocks new processes, and Landlock blocks the execution of other files"
        };
        self.by_backend(clause, by);
    }
}
