//! Puts fake secrets into command lines and files.

use std::path::{Path, PathBuf};

use super::{HINT, WHY};
use crate::canary;
use crate::model::CheckId;
use crate::rules::{Level, Rule, Topic};
use crate::run::RunDirs;

/// A fake secret, the rule that it tests, and its position.
#[derive(Clone, Debug)]
pub struct Secret {
    pub rule: &'static Rule,
    pub canary: String,
    pub position: String,
}

/// A command line with fake secrets.
#[derive(Clone, Debug)]
pub struct Bait {
    pub words: Vec<String>,
    pub secrets: Vec<Secret>,
}

const FLAGS: [&str; 5] = [
    "--token",
    "--password",
    "--api-key",
    "--secret",
    "--client-secret",
];

/// Arguments that look like secrets to every tool, whether it knows them or not.
pub fn usual_arguments() -> Vec<Vec<String>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let mut all: Vec<Vec<String>> = Vec::new();
    for flag in FLAGS {
        all.push(words(&[flag, "{canary}"]));
        all.push(words(&[&format!("{flag}={{canary}}")]));
    }
    all.push(words(&["--header", "Authorization: Bearer {canary}"]));
    all.push(words(&["--url", "https://user:{canary}@host.example/"]));
    let query = "https://host.example/?sig={canary}&token={canary}&access_token={canary}&code={canary}&key={canary}";
    all.push(words(&["--url", query]));
    all
}

/// One argument list of each kind, for commands whose runs are expensive.
pub fn few_arguments() -> Vec<Vec<String>> {
    let mut kinds = Vec::new();
    let mut few_arguments = usual_arguments();
    few_arguments.retain(|words| {
        let number = &mut 0;
        let kind: Vec<&str> = bait(words, number)
            .secrets
            .iter()
            .map(|secret| secret.rule.id)
            .collect();
        let is_first = !kinds.contains(&kind);
        kinds.push(kind);
        is_first
    });
    few_arguments
}

/// Replaces every `{canary}` by a fake secret of its own.
pub fn bait(words: &[String], number: &mut u64) -> Bait {
    let mut bait = Bait {
        words: Vec::new(),
        secrets: Vec::new(),
    };
    let mut before = "";
    for word in words {
        let mut filled = String::new();
        let mut rest = word.as_str();
        while let Some((head, tail)) = rest.split_once("{canary}") {
            filled.push_str(head);
            *number += 1;
            let canary = canary::new(*number);
            let flag = word
                .split(['=', ' '])
                .next()
                .filter(|flag| flag.starts_with('-'));
            let owner = flag.or(Some(before).filter(|word| word.starts_with('-')));
            let position = owner.unwrap_or("an operand").to_owned();
            bait.secrets.push(Secret {
                rule: kind(&filled, tail, before),
                canary: canary.clone(),
                position,
            });
            filled.push_str(&canary);
            rest = tail;
        }
        filled.push_str(rest);
        bait.words.push(filled);
        before = word;
    }
    bait
}

pub(super) static FLAG: Rule = Rule {
    id: "AOI-09.flag-value",
    check: CheckId::Number(9),
    level: Level::Must,
    section: "§11",
    requirement: "The value of a flag such as --token or --password is not printed, whether the flag \
              is accepted or rejected",
    why: WHY,
    hint: HINT,
    topic: Topic::Secrets,
    requirement_ids: &["AOI-11-02", "AOI-11-03", "AOI-16.1-13", "AOI-18.2-09"],
};

pub(super) static HEADER: Rule = Rule {
    id: "AOI-09.header",
    check: CheckId::Number(9),
    level: Level::Must,
    section: "§11",
    requirement: "The value of a custom header is not printed",
    why: WHY,
    hint: HINT,
    topic: Topic::Secrets,
    requirement_ids: &["AOI-11-02", "AOI-11-05"],
};

pub(super) static USERINFO: Rule = Rule {
    id: "AOI-09.url-userinfo",
    check: CheckId::Number(9),
    level: Level::Must,
    section: "§11",
    requirement: "The password of a URL is not printed",
    why: WHY,
    hint: "Print only the scheme, host and path of a URL.",
    topic: Topic::Secrets,
    requirement_ids: &["AOI-11-02", "AOI-11-04"],
};

pub(super) static QUERY: Rule = Rule {
    id: "AOI-09.url-query",
    check: CheckId::Number(9),
    level: Level::Must,
    section: "§11",
    requirement: "Tokens and signatures in the query of a URL are not printed",
    why: WHY,
    hint: "Print only the scheme, host and path of a URL.",
    topic: Topic::Secrets,
    requirement_ids: &["AOI-11-02", "AOI-11-04"],
};

/// The rule for a position, based on the surrounding text.
fn kind(head: &str, tail: &str, flag: &str) -> &'static Rule {
    match head.split_once("://") {
        Some((_, rest)) if rest.contains('?') => &QUERY,
        Some((_, rest)) if !rest.contains('/') && tail.contains('@') => &USERINFO,
        Some(_) => &QUERY,
        None if matches!(flag, "--header" | "-H") || head.starts_with("--header=") => &HEADER,
        None => &FLAG,
    }
}

/// Writes a fake secret to the tool's credential files. Returns the paths of these files.
pub fn in_files(dirs: &RunDirs, files: &[String], canary: &str) -> Vec<PathBuf> {
    let mut written = Vec::new();
    for file in files {
        let Some(inside) = file.strip_prefix("~/") else {
            continue;
        };
        // Paths must stay within the home directory of the run.
        if Path::new(inside)
            .components()
            .any(|part| part.as_os_str() == "..")
        {
            continue;
        }
        let path = dirs.home().join(inside.trim_end_matches('/'));
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_file = name.contains('.') || ["token", "credentials", "config"].contains(&&*name);
        let paths = match is_file {
            true => vec![path],
            false => ["token", "credentials"]
                .map(|name| path.join(name))
                .to_vec(),
        };
        for path in paths {
            let has_parent = path
                .parent()
                .is_some_and(|dir| std::fs::create_dir_all(dir).is_ok());
            if has_parent && std::fs::write(&path, format!("{canary}\n")).is_ok() {
                written.push(path);
            }
        }
    }
    written
}

/// The first file of the run that contains a fake secret, except the files in `own`.
pub fn leaked_file(
    dirs: &RunDirs,
    secrets: &[Secret],
    own: &[PathBuf],
) -> Option<(PathBuf, usize)> {
    let mut pending = vec![dirs.root.clone()];
    let mut looked_at = 0;
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(about) = std::fs::symlink_metadata(&path) else {
                continue;
            };
            looked_at += 1;
            if looked_at > MAX_FILES {
                return None;
            }
            if about.is_dir() {
                pending.push(path);
            } else if about.is_file() && about.len() <= MAX_FILE_BYTES && !own.contains(&path) {
                let bytes = std::fs::read(&path).unwrap_or_default();
                let found = secrets
                    .iter()
                    .position(|one| canary::leaked_form(&one.canary, &bytes).is_some());
                if let Some(which) = found {
                    let inside = path.strip_prefix(&dirs.root).unwrap_or(&path);
                    return Some((inside.to_owned(), which));
                }
            }
        }
    }
    None
}

/// Maximum number of files that are searched.
const MAX_FILES: usize = 20_000;

/// Maximum size of a searched file in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_has_its_own_canary_and_rule() {
        let rules = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let bait = bait(&words, &mut 0);
            assert!(
                bait.secrets
                    .iter()
                    .all(|one| bait.words.iter().any(|word| word.contains(&one.canary)))
            );
            let ids = bait.secrets.iter().map(|one| one.rule.id);
            ids.collect::<Vec<_>>()
        };
        assert_eq!(rules(&["--token", "{canary}"]), ["AOI-09.flag-value"]);
        assert_eq!(rules(&["--token={canary}"]), ["AOI-09.flag-value"]);
        assert_eq!(rules(&["-H", "X-Key: {canary}"]), ["AOI-09.header"]);
        assert_eq!(
            rules(&["--url", "https://u:{canary}@h.example/?sig={canary}"]),
            ["AOI-09.url-userinfo", "AOI-09.url-query"]
        );
        assert_eq!(rules(&["plain"]), [""; 0]);
    }
}
