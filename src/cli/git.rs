//! What git says has changed. Called as argv, never through a shell.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Failure;
use crate::exit;

/// Paths relative to the current directory.
pub fn changed(reference: &str) -> Result<Vec<PathBuf>, Failure> {
    if reference.starts_with('-') {
        return Err(Failure::new(
            exit::USAGE,
            format!("`{reference}` is not a git revision"),
        ));
    }
    let mut paths = names(&[
        "diff",
        "--name-only",
        "-z",
        "--relative",
        "--diff-filter=d",
        reference,
        "--",
    ])?;
    paths.extend(names(&[
        "ls-files",
        "--others",
        "--exclude-standard",
        "-z",
    ])?);
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Staged paths with their staged texts; what is not UTF-8 is left to the file itself.
pub fn staged() -> Result<Vec<(PathBuf, String)>, Failure> {
    let paths = names(&[
        "diff",
        "--cached",
        "--name-only",
        "-z",
        "--relative",
        "--diff-filter=d",
        "--",
    ])?;
    let mut texts = Vec::new();
    for path in paths
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
    {
        let bytes = show(&path, "")?;
        texts.push((path, String::from_utf8_lossy(&bytes).into_owned()));
    }
    Ok(texts)
}

/// Text of a file at a revision; `None` where it did not exist.
pub fn text_at(reference: &str, path: &Path) -> Option<String> {
    let bytes = show(path, reference).ok()?;
    String::from_utf8(bytes).ok()
}

fn show(path: &Path, reference: &str) -> Result<Vec<u8>, Failure> {
    let mut object = std::ffi::OsString::from(reference);
    object.push(":./");
    object.push(path);
    output(&[OsStr::new("show"), &object])
}

fn names(args: &[&str]) -> Result<Vec<PathBuf>, Failure> {
    let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
    let out = output(&args)?;
    Ok(out
        .split(|b| *b == 0)
        .filter(|name| !name.is_empty())
        .map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned()))
        .collect())
}

fn output(args: &[&OsStr]) -> Result<Vec<u8>, Failure> {
    let run = Command::new("git").args(args).output().map_err(|error| {
        Failure::new(exit::UNAVAILABLE, format!("git cannot be run: {error}"))
            .hint("`--changed` and `--staged` need git on PATH")
    })?;
    if run.status.success() {
        return Ok(run.stdout);
    }
    let said = String::from_utf8_lossy(&run.stderr);
    let said = said
        .lines()
        .next()
        .unwrap_or("no message")
        .trim_start_matches("fatal: ");
    Err(Failure::new(exit::UNAVAILABLE, format!("git: {said}")))
}
