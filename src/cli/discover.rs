//! Command-line paths → the files to lint.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, WalkBuilder, WalkState};

use super::Failure;
use super::config::Config;
use crate::exit;
use crate::lint::Target;
use crate::manifest::Doctype;

/// Files named on the command line are linted even where `exclude` covers them, unless
/// `force_exclude` is set: a hook runner names every file. Directories are walked.
pub fn targets(
    paths: &[PathBuf],
    config: &Config,
    force_exclude: bool,
    threads: usize,
) -> Result<Vec<Target>, Failure> {
    let excluded = excludes(config)?;
    let mut targets = Vec::new();
    for path in paths {
        let meta = std::fs::symlink_metadata(path).map_err(|error| {
            Failure::new(
                exit::NO_INPUT,
                format!("{}: {}", path.display(), reason(&error)),
            )
            .hint("name a manifest, a directory, or `-` for standard input")
        })?;
        let is_dir = meta.is_dir() || (meta.is_symlink() && path.is_dir());
        if is_dir && !is_manifest_name(path) {
            walk(path, &excluded, threads, &mut targets);
        } else if !(force_exclude && excluded.hit(path)) {
            targets.push(Target::named(clean(path)));
        }
    }
    // By bytes: comparing paths component by component is slow, and any order will do.
    targets.sort_by(|a, b| {
        a.path
            .as_os_str()
            .cmp(b.path.as_os_str())
            .then(b.named.cmp(&a.named))
    });
    targets.dedup_by(|a, b| a.path == b.path);
    Ok(targets)
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file or directory".to_owned(),
        _ => error.to_string(),
    }
}

/// Whether a path, were it a file, would be taken up by a walk.
pub fn is_candidate(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "md")
}

fn is_manifest_name(path: &Path) -> bool {
    path.file_name()
        .and_then(|n| n.to_str())
        .is_some_and(|n| Doctype::from_file_name(n).is_some())
}

/// `./x` is shown as `x`.
pub fn clean(path: &Path) -> PathBuf {
    path.strip_prefix(".")
        .map_or_else(|_| path.to_owned(), Path::to_owned)
}

fn walk(dir: &Path, excluded: &Excludes, threads: usize, out: &mut Vec<Target>) {
    // Bundles live in hidden folders too (`.cli/`, `.secrets/`), so those are walked.
    let mut builder = WalkBuilder::new(dir);
    builder
        .hidden(false)
        .require_git(false)
        .follow_links(false)
        .threads(threads)
        .filter_entry(|entry| {
            !matches!(
                entry.file_name().to_str(),
                Some(".git" | "node_modules" | ".hg")
            )
        });
    if threads < 2 {
        out.extend(builder.build().filter_map(|entry| found(entry, excluded)));
        return;
    }
    let all = Mutex::new(Vec::new());
    builder.build_parallel().run(|| {
        let mut own = Own {
            all: &all,
            found: Vec::new(),
        };
        Box::new(move |entry| {
            own.found.extend(found(entry, excluded));
            WalkState::Continue
        })
    });
    out.append(&mut all.into_inner().unwrap_or_else(PoisonError::into_inner));
}

/// What one thread of the walk found; handed over when the thread is done.
struct Own<'w> {
    all: &'w Mutex<Vec<Target>>,
    found: Vec<Target>,
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .append(&mut self.found);
    }
}

/// The target behind an entry of a walk, if it may be a manifest.
fn found(entry: Result<DirEntry, ignore::Error>, excluded: &Excludes) -> Option<Target> {
    let entry = match entry {
        Ok(entry) => entry,
        // An unreadable directory is named, and the walk goes on.
        Err(error) => return error_path(&error).map(|path| Target::named(clean(&path))),
    };
    let path = entry.path();
    if !is_candidate(path) || entry.depth() == 0 {
        return None;
    }
    let is_dir = entry.file_type().is_some_and(|t| t.is_dir());
    if (is_dir && !is_manifest_name(path)) || excluded.hit(path) {
        return None;
    }
    Some(target(path))
}

/// A file that a walk or git found: a manifest by its name, or perhaps one by its shape.
pub fn target(path: &Path) -> Target {
    Target {
        path: clean(path),
        named: is_manifest_name(path),
    }
}

fn error_path(error: &ignore::Error) -> Option<PathBuf> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path.clone()),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            error_path(err)
        }
        ignore::Error::Loop { child, .. } => Some(child.clone()),
        _ => None,
    }
}

/// `exclude` of the configuration, matched like .gitignore lines at the file's directory.
pub struct Excludes(Option<(PathBuf, Gitignore)>);

impl Excludes {
    pub fn hit(&self, path: &Path) -> bool {
        let Some((here, globs)) = &self.0 else {
            return false;
        };
        let absolute = here.join(path);
        globs
            .matched_path_or_any_parents(absolute.strip_prefix(globs.path()).unwrap_or(path), false)
            .is_ignore()
    }
}

pub fn excludes(config: &Config) -> Result<Excludes, Failure> {
    if config.lint.exclude.is_empty() {
        return Ok(Excludes(None));
    }
    globs(&config.dir, &config.lint.exclude, "exclude").map(|g| {
        let here = std::env::current_dir().unwrap_or_default();
        Excludes(Some((here, g)))
    })
}

/// Compiles globs of the configuration.
pub fn globs(dir: &Path, patterns: &[String], field: &str) -> Result<Gitignore, Failure> {
    let root = std::env::current_dir().unwrap_or_default().join(dir);
    let mut builder = GitignoreBuilder::new(root);
    for pattern in patterns {
        builder.add_line(None, pattern).map_err(|error| {
            Failure::new(
                exit::CONFIG,
                format!("`{field}` in the configuration: `{pattern}`: {error}"),
            )
        })?;
    }
    builder.build().map_err(|error| {
        Failure::new(
            exit::CONFIG,
            format!("`{field}` in the configuration: {error}"),
        )
    })
}
