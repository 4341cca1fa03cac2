//! Guesses which clause made a child fail: from its stderr, from what the proxy refused, and from
//! what the policy does not grant. The results are hints, not verdicts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::egress::audit::{AuditEntry, AuditEvent};
use super::policy::{Access, Exec, HiddenKind, Policy, SandboxSpec};

/// Maximum number of hints.
const MAX_HINTS: usize = 6;

/// Texts by which programs report that access was denied: sentences in any letter case, and names
/// of errors in exact case.
struct Phrases(&'static [&'static str], &'static [&'static str]);

const MISSING: Phrases = Phrases(
    &[
        "no such file or directory",
        "not found",
        "does not exist",
        "cannot find module",
    ],
    &["ENOENT"],
);
/// The error of a denied fork. Denied reads and writes seldom give it.
const NOT_PERMITTED: Phrases = Phrases(&["operation not permitted"], &["EPERM"]);
const DENIED: Phrases = Phrases(
    &[
        "could not execute",
        "permission denied",
        "operation not permitted",
        "read-only file system",
    ],
    &["EACCES", "EPERM", "EROFS"],
);
const READ_ONLY: Phrases = Phrases(&["read-only file system"], &["EROFS"]);
const NO_NETWORK: Phrases = Phrases(
    &[
        "could not resolve",
        "name resolution",
        "name or service not known",
        "network is unreachable",
    ],
    &["EAI_AGAIN", "ENOTFOUND", "ENETUNREACH"],
);
const NO_PROCESS: Phrases = Phrases(&["fork", "spawn", "child process", "exec"], &[]);

impl Phrases {
    fn are_in(&self, line: &str, lower: &str) -> bool {
        let whole = |name: &&str| {
            line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .any(|word| word == *name)
        };
        self.0.iter().any(|text| lower.contains(text)) || self.1.iter().any(whole)
    }
}

/// Hints on the clauses that would have to change, each with what was requested.
pub fn diagnose(policy: &Policy, stderr: &str, refused: &[AuditEntry]) -> Vec<String> {
    let mut hints = BTreeSet::new();
    for entry in refused.iter().filter(|e| e.event == AuditEvent::Refused) {
        hints.insert(format!(
            "`network.egress` does not list `{}` (port {})",
            entry.host, entry.port
        ));
    }
    for line in stderr.lines() {
        let lower = line.to_lowercase();
        let has = |phrases: &Phrases| phrases.are_in(line, &lower);
        if has(&NO_NETWORK) && hints.is_empty() {
            hints.insert(match policy.egress.is_empty() {
                true => "`network.egress` is empty: no host can be reached".to_owned(),
                false => "only the hosts in `network.egress` can be reached, through the proxy in HTTP_PROXY and ALL_PROXY".to_owned(),
            });
        }
        if let Exec::Listed { fork, .. } = policy.exec {
            let no_process = has(&NO_PROCESS) && !has(&READ_ONLY);
            if !fork && (has(&NOT_PERMITTED) || no_process && has(&DENIED)) {
                hints.insert("`exec.allow` is false: no process can be created".to_owned());
            } else if fork && no_process && has(&MISSING) && !is_listed(policy, "sh") {
                hints.insert(
                    "`exec.spawn` does not list `sh`, which many programs use to start others"
                        .to_owned(),
                );
            }
        }
        if has(&READ_ONLY) {
            // Nothing was to be executed here, so a bare word in quotes is a file.
            let paths = words(line).filter(|word| word.contains('/'));
            for path in quoted(line).chain(paths) {
                hints.extend(hint_for_path(policy, &absolute(policy, path), true));
            }
        } else if has(&MISSING) || has(&DENIED) {
            for word in words(without_reporter(line)).filter(|word| word.contains('/')) {
                hints.extend(hint_for_path(policy, &absolute(policy, word), has(&DENIED)));
            }
            for name in names(line) {
                hints.extend(hint_for_program(policy, name));
            }
        }
    }
    hints.into_iter().take(MAX_HINTS).collect()
}

/// Parts of a line that may be paths or programs.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| {
        c.is_whitespace() || matches!(c, '\'' | '"' | '`' | ',' | '(' | ')' | '‘' | '’')
    })
    .map(|word| word.trim_matches(|c| matches!(c, ':' | ';' | '[' | ']')))
    .map(|word| word.trim_end_matches('.'))
    .filter(|word| !word.is_empty() && word.len() < 4096)
}

/// The line without the path of the program that printed it, as in `/usr/bin/sh: 1: ls: not found`.
fn without_reporter(line: &str) -> &str {
    let first = line
        .split_once(": ")
        .filter(|(first, _)| first.starts_with('/'));
    match first {
        Some((first, rest)) if Path::new(first).is_file() => rest,
        _ => line,
    }
}

/// Bare words that may be programs: they are in quotes or before a colon, or the line is about
/// starting a program. Other words are prose, such as `open` in `cannot open directory`.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let lower = line.to_lowercase();
    let starts_program = NO_PROCESS.are_in(line, &lower);
    let before_colon = line.split_whitespace();
    let before_colon = before_colon.filter_map(|word| word.strip_suffix(':'));
    let all = words(line).filter(move |_| starts_program);
    let names = quoted(line).chain(before_colon).chain(all);
    names.filter(|name| !name.contains(['/', ' ']))
}

/// The parts of a line that are in quotes.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split(['\'', '"', '`', '‘', '’'])
        .skip(1)
        .step_by(2)
        .filter(|name| !name.is_empty() && name.len() < 4096)
}

fn hint_for_program(policy: &Policy, name: &str) -> Option<String> {
    // A word of the message "no such file or directory", and also the name of a program.
    let is_prose = name.eq_ignore_ascii_case("file") || name.eq_ignore_ascii_case("directory");
    if is_prose || is_listed(policy, name) || !is_program(policy, name) {
        return None;
    }
    Some(match policy.exec {
        Exec::Listed { fork: false, .. } => {
            format!("`exec.allow` is false, so the command cannot start `{name}`")
        }
        _ => format!("`exec.spawn` does not list `{name}`"),
    })
}

/// Whether a program with this name may run, because it or its directory is listed.
fn is_listed(policy: &Policy, name: &str) -> bool {
    let Exec::Listed { programs, .. } = &policy.exec else {
        return true;
    };
    programs.iter().any(|path| {
        path.file_name().is_some_and(|own| own == name)
            || path.join(name).is_file()
            || real_name(policy, name).is_some_and(|real| real == *path)
    })
}

/// The file that a name on the search path refers to.
fn real_name(policy: &Policy, name: &str) -> Option<PathBuf> {
    let (_, path) = policy.env.iter().rev().find(|(n, _)| n == "PATH")?;
    std::env::split_paths(path).find_map(|dir| dir.join(name).canonicalize().ok())
}

fn absolute(policy: &Policy, word: &str) -> PathBuf {
    let word = word
        .split_once("~/")
        .map_or_else(|| PathBuf::from(word), |(_, rest)| policy.home.join(rest));
    agentproto_manifest::normalize(&policy.cwd.join(word))
}

fn hint_for_path(policy: &Policy, path: &Path, denied: bool) -> Option<String> {
    let shown = path.display();
    let protected = || {
        let hint = "agentproto protects `{}`, because it decides about later runs; see `agentproto sandbox explain`";
        Some(hint.replace("{}", &shown.to_string()))
    };
    if let Some(denial) = policy.denials.iter().find(|d| path.starts_with(&d.path)) {
        return match denial.kind {
            HiddenKind::Reserved | HiddenKind::ReservedFile(_) | HiddenKind::State => protected(),
            _ => Some(format!("`fs.deny` hides `{shown}`")),
        };
    }
    let (read, write) = match policy.spec {
        SandboxSpec::Aip29 => ("fs.read", "fs.write"),
        SandboxSpec::Aip36 => ("mounts", "mounts"),
    };
    let grants = policy.grants.iter().filter(|g| path.starts_with(&g.at));
    match grants.max_by_key(|g| g.at.components().count()) {
        // The path does not exist on the host, so the sandbox is not the cause.
        None if !path.exists() => None,
        None => Some(format!("`{read}` does not include `{shown}`")),
        Some(grant) if denied && grant.access == Access::Read && grant.clause.is_some() => {
            Some(format!("`{write}` does not include `{shown}`"))
        }
        Some(grant)
            if denied && grant.access == Access::Read && is_inside_writable(policy, path) =>
        {
            protected()
        }
        Some(_) => None,
    }
}

fn is_inside_writable(policy: &Policy, path: &Path) -> bool {
    let writable = policy.grants.iter().filter(|g| g.access == Access::Write);
    writable.map(|g| &g.at).any(|at| path.starts_with(at))
}

/// Whether the host has a program with this name where the child would look for it.
fn is_program(policy: &Policy, name: &str) -> bool {
    let path = policy.env.iter().rev().find(|(n, _)| n == "PATH");
    let Some((_, path)) = path else { return false };
    std::env::split_paths(path).any(|dir| dir.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clause;
    use crate::policy::{Denial, PathGrant};

    fn policy(fork: bool) -> Policy {
        let clause = || Clause::new("/sandbox/x", "x");
        let grant = |path: &str, access| PathGrant {
            source: path.into(),
            at: path.into(),
            access,
            exec: false,
            create: None,
            clause: Some(clause()),
        };
        Policy {
            spec: SandboxSpec::Aip29,
            egress: vec![],
            ingress: vec![],
            grants: vec![grant("/usr/share", Access::Read)],
            links: vec![],
            denials: vec![Denial {
                path: "/usr/share/doc".into(),
                kind: HiddenKind::Directory,
                clause: clause(),
            }],
            ineffective: vec![],
            exec: Exec::Listed {
                fork,
                programs: vec!["/opt/tool".into()],
                clause: clause(),
            },
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            env_clauses: vec![],
            tty: None,
            limits: vec![],
            private_size: 64 << 20,
            create: vec![],
            protected: vec![],
            cwd: "/usr/share".into(),
            home: "/root".into(),
            unenforceable: vec![],
            notes: vec![],
        }
    }

    #[test]
    fn error_messages_lead_to_a_clause() {
        for (fork, stderr, hint) in [
            (
                true,
                "sh: 1: cat: not found",
                "`exec.spawn` does not list `cat`",
            ),
            (
                true,
                "fatal: cannot exec 'git-upload-pack': No such file or directory",
                "`exec.spawn` does not list `sh`, which many programs use to start others",
            ),
            (
                false,
                "Error: spawn EPERM",
                "`exec.allow` is false: no process can be created",
            ),
            (
                false,
                "/usr/bin/sh: 1: ls: not found",
                "`exec.allow` is false, so the command cannot start `ls`",
            ),
            (
                true,
                "env: ‘cat’: Permission denied",
                "`exec.spawn` does not list `cat`",
            ),
            (
                true,
                "Error: spawn cat ENOENT",
                "`exec.spawn` does not list `cat`",
            ),
            (
                true,
                "cat: /etc/passwd: No such file or directory",
                "`fs.read` does not include `/etc/passwd`",
            ),
            (
                true,
                "Error: Cannot find module '/etc/passwd'",
                "`fs.read` does not include `/etc/passwd`",
            ),
            (
                true,
                "cat: doc/x: Permission denied",
                "`fs.deny` hides `/usr/share/doc/x`",
            ),
            (
                true,
                "OSError: [Errno 30] Read-only file system: 'new'",
                "`fs.write` does not include `/usr/share/new`",
            ),
            (
                true,
                "getaddrinfo EAI_AGAIN example.com",
                "`network.egress` is empty: no host can be reached",
            ),
        ] {
            let hints = diagnose(&policy(fork), stderr, &[]);
            assert!(hints.iter().any(|h| h == hint), "{stderr}: {hints:?}");
        }
    }

    #[test]
    fn a_protected_file_is_named() {
        let mut policy = policy(true);
        policy.grants.push(PathGrant {
            source: "/w".into(),
            at: "/w".into(),
            access: Access::Write,
            exec: false,
            create: None,
            clause: Some(Clause::new("", "workspace")),
        });
        policy.grants.push(PathGrant {
            access: Access::Read,
            at: "/w/.git/config".into(),
            source: "/w/.git/config".into(),
            clause: None,
            exec: false,
            create: None,
        });
        policy.denials.push(Denial {
            path: "/w/.vscode".into(),
            kind: HiddenKind::Reserved,
            clause: Clause::new("", "files that other programs execute"),
        });
        for stderr in [
            "sh: 1: cannot create /w/.git/config: Read-only file system",
            "mkdir: cannot create directory '/w/.vscode/x': Read-only file system",
        ] {
            let hints = diagnose(&policy, stderr, &[]);
            let found = hints
                .iter()
                .any(|h| h.starts_with("agentproto protects `/w/."));
            assert!(found, "{stderr}: {hints:?}");
        }
        let other = "sh: 1: cannot create /w/src/x: Read-only file system";
        assert_eq!(diagnose(&policy, other, &[]), [""; 0]);
    }

    #[test]
    fn a_message_names_only_what_is_missing() {
        for (fork, stderr, expected) in [
            (
                false,
                "/usr/bin/sh: 1: ls: not found",
                "`exec.allow` is false, so the command cannot start `ls`",
            ),
            (
                true,
                "/usr/bin/ls: cannot open directory '/etc': Permission denied",
                "`fs.read` does not include `/etc`",
            ),
        ] {
            let hints = diagnose(&policy(fork), stderr, &[]);
            assert_eq!(hints, [expected], "{stderr}");
        }
    }

    #[test]
    fn unrelated_errors_get_no_hint() {
        for stderr in [
            "FileNotFoundError: [Errno 2] No such file or directory: '/no/such/place'",
            "error: expected `;`",
            "",
        ] {
            let hints = diagnose(&policy(true), stderr, &[]);
            assert!(hints.is_empty(), "{stderr}: {hints:?}");
        }
    }
}
