//! Which clause may have stopped a child that failed: read from what it said, from what the
//! proxy refused, and from what the policy leaves out. Hints, never verdicts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::egress::audit::{Entry, Event};
use super::policy::{Access, Exec, Policy, Shape};

/// More hints than this help nobody.
const MOST: usize = 6;

/// How programs say that something was kept from them.
const MISSING: [&str; 4] = ["no such file", "not found", "does not exist", "enoent"];
/// The answer to a fork; what is kept from reading or writing is seldom answered so.
const NOT_PERMITTED: [&str; 2] = ["operation not permitted", "eperm"];
const READ_ONLY: [&str; 2] = ["read-only file system", "erofs"];
const DENIED: [&str; 7] = [
    "could not execute",
    "permission denied",
    "operation not permitted",
    "read-only file system",
    "eacces",
    "eperm",
    "erofs",
];
const NO_NETWORK: [&str; 8] = [
    "could not resolve",
    "name resolution",
    "name or service not known",
    "network is unreachable",
    "eai_again",
    "enotfound",
    "getaddrinfo",
    "connection refused",
];
const NO_PROCESS: [&str; 4] = ["fork", "spawn", "clone", "child process"];

/// Clauses that would have to change, each with what was asked for.
pub fn diagnose(policy: &Policy, stderr: &str, refused: &[Entry]) -> Vec<String> {
    let mut hints = BTreeSet::new();
    for entry in refused.iter().filter(|e| e.event == Event::Refused) {
        hints.insert(format!(
            "`network.egress` does not list `{}` (port {})",
            entry.host, entry.port
        ));
    }
    for line in stderr.lines() {
        let lower = line.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if says(&NO_NETWORK) && hints.is_empty() {
            hints.insert(match policy.egress.is_empty() {
                true => "`network.egress` is empty: there is no network".to_owned(),
                false => "only the hosts in `network.egress` can be reached, through the proxy that HTTP_PROXY and ALL_PROXY name".to_owned(),
            });
        }
        if let Exec::Listed { fork: false, .. } = policy.exec
            && (says(&NOT_PERMITTED) || says(&DENIED) && says(&NO_PROCESS))
        {
            hints.insert("`exec.allow` is false: no process can be created".to_owned());
        }
        if says(&READ_ONLY) {
            // Nothing was to be executed here, so a bare word is a file.
            for name in quoted(line) {
                hints.extend(about_path(policy, &absolute(policy, name), true));
            }
            let paths = words(line).filter(|word| word.contains('/'));
            for word in paths {
                hints.extend(about(policy, word, true));
            }
        } else if says(&MISSING) || says(&DENIED) {
            for word in words(line) {
                hints.extend(about(policy, word, says(&DENIED)));
            }
        }
    }
    hints.into_iter().take(MOST).collect()
}

/// Parts of a line that may be paths or programs.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| {
        c.is_whitespace() || matches!(c, '\'' | '"' | '`' | ',' | '(' | ')' | '‘' | '’')
    })
    .map(|word| word.trim_matches(|c| matches!(c, ':' | ';' | '.' | '[' | ']')))
    .filter(|word| !word.is_empty() && word.len() < 4096)
}

/// What stands between quotes.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split(['\'', '"', '`', '‘', '’'])
        .skip(1)
        .step_by(2)
        .filter(|name| !name.is_empty() && name.len() < 4096)
}

fn about(policy: &Policy, word: &str, denied: bool) -> Option<String> {
    if word.contains('/') {
        return about_path(policy, &absolute(policy, word), denied);
    }
    let Exec::Listed { programs, .. } = &policy.exec else {
        return None;
    };
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| name == word);
    if programs.iter().any(named) || !is_program(policy, word) {
        return None;
    }
    Some(format!("`exec.spawn` does not list `{word}`"))
}

fn absolute(policy: &Policy, word: &str) -> PathBuf {
    let word = word
        .split_once("~/")
        .map_or_else(|| PathBuf::from(word), |(_, rest)| policy.home.join(rest));
    crate::manifest::normalize(&policy.cwd.join(word))
}

fn about_path(policy: &Policy, path: &Path, denied: bool) -> Option<String> {
    let shown = path.display();
    if policy.denials.iter().any(|d| path.starts_with(&d.path)) {
        return Some(format!("`fs.deny` hides `{shown}`"));
    }
    let (read, write) = match policy.shape {
        Shape::Aip29 => ("fs.read", "fs.write"),
        Shape::Aip36 => ("mounts", "mounts"),
    };
    let grants = policy.grants.iter().filter(|g| path.starts_with(&g.at));
    match grants.max_by_key(|g| g.at.components().count()) {
        // The same on the host: the sandbox has not to do with it.
        None if !path.exists() => None,
        None => Some(format!("`{read}` does not take in `{shown}`")),
        Some(grant) if denied && grant.access == Access::Read => {
            Some(format!("`{write}` does not take in `{shown}`"))
        }
        Some(_) => None,
    }
}

/// Whether the host has a program of this name where the child would look.
fn is_program(policy: &Policy, name: &str) -> bool {
    let path = policy.env.iter().rev().find(|(n, _)| n == "PATH");
    let Some((_, path)) = path else { return false };
    std::env::split_paths(path).any(|dir| dir.join(name).is_file())
}
