//! Asks git what has changed. Git is called with an argument list, never through a shell.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::Failure;
use crate::exit;

/// The changed files, relative to the current directory.
pub fn changed(reference: &str) -> Result<Vec<PathBuf>, Failure> {
    if reference.starts_with('-') {
        return Err(Failure::new(
            exit::USAGE,
            format!("`{reference}` is not a git revision"),
        ));
    }
    let differing = names(&[
        "diff",
        "--name-only",
        "-z",
        "--relative",
        "--no-ext-diff",
        "--diff-filter=d",
        reference,
        "--",
    ]);
    let mut paths = match differing {
        Err(_) if names(&["rev-parse", "--git-dir"]).is_ok() => {
            return Err(Failure::new(
                exit::USAGE,
                format!("unknown git revision `{reference}`"),
            ));
        }
        differing => differing?,
    };
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

/// The git index, as far as it differs from the disk.
pub struct Staged {
    /// Files that were added or changed since the last commit.
    pub paths: Vec<PathBuf>,
    /// Staged texts, or `None` if the index does not have the file.
    pub texts: BTreeMap<PathBuf, Option<String>>,
}

/// What would be committed. References also resolve to staged texts. So files that are only edited,
/// deleted or untracked on disk appear as the index has them.
pub fn staged() -> Result<Staged, Failure> {
    let diff = |more: &[&str]| {
        let mut args = vec!["diff", "--name-only", "-z", "--relative", "--no-ext-diff"];
        args.extend(more);
        names(&args)
    };
    let is_markdown = |path: &PathBuf| path.extension().is_some_and(|e| e == "md");
    let mut paths = diff(&["--cached", "--diff-filter=d", "--"])?;
    paths.retain(is_markdown);
    paths.sort();
    let removed = diff(&["--cached", "--diff-filter=D", "--"])?;
    let untracked = names(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let mut texts: BTreeMap<PathBuf, Option<String>> = removed
        .into_iter()
        .chain(untracked)
        .filter(is_markdown)
        .map(|path| (path, None))
        .collect();
    let edited = diff(&["--"])?;
    for path in paths.iter().chain(edited.iter().filter(|p| is_markdown(p))) {
        // A staged file that is not text is checked as it is on disk.
        if let Ok(text) = String::from_utf8(show(path, "")?) {
            texts.insert(path.clone(), Some(text));
        }
    }
    Ok(Staged { paths, texts })
}

/// The text of a file at a revision, or `None` if it did not exist.
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
        .map(path_of)
        .collect())
}

#[cfg(unix)]
fn path_of(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(OsStr::from_bytes(name))
}

#[cfg(not(unix))]
fn path_of(name: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(name).into_owned())
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
