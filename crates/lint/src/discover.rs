//! Finds the files to lint below the paths that a user names.

use std::collections::HashSet;
use std::fs::Metadata;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, WalkBuilder, WalkState};
use parking_lot::Mutex;

use crate::LintTarget;
use agentproto_manifest::{ConfinedDisk, Doctype, normalize};

/// A path that the user named and that does not exist or cannot be accessed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` {why}", .path.display())]
pub struct NotFound {
    /// The path as the user wrote it.
    pub path: PathBuf,
    /// What is wrong with it, for example `does not exist`.
    pub why: String,
}

/// The files to lint: directories are walked, files are taken as they are.
///
/// `exclude` does not apply to files named on the command line, unless `force_exclude` is set.
/// Hook runners need that, because they name every file.
///
/// A directory that is reached through a symbolic link out of `disk` is not walked. It becomes a
/// target, so that it is reported.
pub fn targets(
    paths: &[PathBuf],
    disk: &ConfinedDisk,
    excluded: &Excludes,
    force_exclude: bool,
    threads: usize,
) -> Result<Vec<LintTarget>, NotFound> {
    let mut targets = Vec::new();
    for path in paths {
        let meta = check(path)?;
        let is_dir = meta.is_dir() || (meta.is_symlink() && path.is_dir());
        if is_dir && !is_manifest_name(path) && disk.contains(path) {
            walk(path, disk, excluded, threads, &mut targets);
        } else if !(force_exclude && excluded.matches(path)) {
            targets.push(LintTarget::named(clean(path)));
        }
    }
    // Sort by bytes. Comparing paths by component is slower, and any fixed order is fine.
    targets.sort_by(|a, b| {
        a.path
            .as_os_str()
            .cmp(b.path.as_os_str())
            .then(b.named.cmp(&a.named))
    });
    targets.dedup_by(|a, b| a.path == b.path);
    without_duplicates(&mut targets);
    Ok(targets)
}

/// Reads the metadata of a path that the user named.
pub fn check(path: &Path) -> Result<Metadata, NotFound> {
    std::fs::symlink_metadata(path).map_err(|error| NotFound {
        path: path.to_owned(),
        why: reason(&error),
    })
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}

/// Whether a walk would consider a file with this path.
pub fn is_candidate(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "md")
}

fn is_manifest_name(path: &Path) -> bool {
    path.file_name()
        .and_then(|n| n.to_str())
        .is_some_and(|n| Doctype::from_file_name(n).is_some())
}

/// Normalizes a path, so that a file has the same path as references to it: `./x` and `y/../x`
/// become `x`. A path is kept if `y` is a symlink and the result would be a different file.
pub fn clean(path: &Path) -> PathBuf {
    if !path.components().any(|part| part == Component::ParentDir) {
        return path
            .strip_prefix(".")
            .map_or_else(|_| path.to_owned(), Path::to_owned);
    }
    let short = normalize(path);
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    if real(&short) == real(path) {
        short
    } else {
        path.to_owned()
    }
}

/// Removes absolute paths of files that are also listed by a relative path.
fn without_duplicates(targets: &mut Vec<LintTarget>) {
    let mixed = |t: &&LintTarget| t.path.is_absolute();
    let absolute = targets.iter().filter(mixed).count();
    if absolute == 0 || absolute == targets.len() {
        return;
    }
    let working_dir = std::env::current_dir().unwrap_or_default();
    let mut seen = HashSet::new();
    for target in targets.iter().filter(|t| !t.path.is_absolute()) {
        seen.insert(normalize(&working_dir.join(&target.path)));
    }
    targets.retain(|t| !t.path.is_absolute() || !seen.contains(&t.path));
}

fn walk(
    dir: &Path,
    disk: &ConfinedDisk,
    excluded: &Excludes,
    threads: usize,
    out: &mut Vec<LintTarget>,
) {
    let rules = IgnoreFiles {
        root: disk.real_root().to_owned(),
        refused: Mutex::default(),
    };
    if !rules.can_be_read(dir) || !rules.can_be_read_above(dir) {
        out.append(&mut rules.refused.into_inner());
        return;
    }
    let rules = Arc::new(rules);
    let filter = Arc::clone(&rules);
    // Hidden directories are walked, because bundles use some (`.cli/`, `.secrets/`).
    let mut builder = WalkBuilder::new(dir);
    builder
        .hidden(false)
        .require_git(false)
        // `.git/info/exclude` is not part of the repository, and a `.git` file can name any file of
        // the machine in its place.
        .git_exclude(false)
        .follow_links(false)
        .threads(threads)
        .filter_entry(move |entry| {
            let skipped = matches!(
                entry.file_name().to_str(),
                Some(".git" | "node_modules" | ".hg")
            );
            let is_dir = entry.file_type().is_some_and(|t| t.is_dir());
            !skipped && (!is_dir || filter.can_be_read(entry.path()))
        });
    if threads < 2 {
        out.extend(builder.build().filter_map(|entry| found(entry, excluded)));
        out.append(&mut rules.refused.lock());
        return;
    }
    let all = Mutex::new(Vec::new());
    builder.build_parallel().run(|| {
        let mut own = ThreadTargets {
            all: &all,
            found: Vec::new(),
        };
        Box::new(move |entry| {
            own.found.extend(found(entry, excluded));
            WalkState::Continue
        })
    });
    out.append(&mut all.into_inner());
    out.append(&mut rules.refused.lock());
}

/// Guards the files that say what a walk skips. Reading a device or a pipe might never end, and a
/// file outside the workspace is not read.
struct IgnoreFiles {
    /// Workspace without links.
    root: PathBuf,
    /// Files that must not be read. Their directories are not walked, and they are reported.
    refused: Mutex<Vec<LintTarget>>,
}

impl IgnoreFiles {
    /// Whether the walk may read these files of a directory.
    fn can_be_read(&self, dir: &Path) -> bool {
        let bad = |file: &PathBuf| match std::fs::symlink_metadata(file) {
            Ok(meta) if meta.is_symlink() => !std::fs::canonicalize(file)
                .is_ok_and(|real| real.starts_with(&self.root) && real.is_file()),
            Ok(meta) => !meta.is_file() && !meta.is_dir(),
            Err(_) => false,
        };
        let files = [".gitignore", ".ignore"].map(|name| dir.join(name));
        let bad: Vec<PathBuf> = files.into_iter().filter(bad).collect();
        let readable = bad.is_empty();
        let bad = bad.iter().map(|file| LintTarget::named(clean(file)));
        self.refused.lock().extend(bad);
        readable
    }

    /// Whether the walk may read these files of the directories above, up to the workspace.
    fn can_be_read_above(&self, dir: &Path) -> bool {
        let real = std::fs::canonicalize(dir).unwrap_or_default();
        let above = real.ancestors().skip(1);
        above
            .take_while(|dir| dir.starts_with(&self.root))
            .all(|dir| self.can_be_read(dir))
    }
}

/// The files that one thread of the walk found. They are moved to `all` when the thread ends.
struct ThreadTargets<'w> {
    all: &'w Mutex<Vec<LintTarget>>,
    found: Vec<LintTarget>,
}

impl Drop for ThreadTargets<'_> {
    fn drop(&mut self) {
        self.all.lock().append(&mut self.found);
    }
}

/// The target for an entry of a walk, if it may be a manifest.
fn found(entry: Result<DirEntry, ignore::Error>, excluded: &Excludes) -> Option<LintTarget> {
    let entry = match entry {
        Ok(entry) => entry,
        // An unreadable directory becomes a target, so that it is reported. The walk continues.
        Err(error) => return error_path(&error).map(|path| LintTarget::named(clean(&path))),
    };
    let path = entry.path();
    if !is_candidate(path) || entry.depth() == 0 {
        return None;
    }
    let is_dir = entry.file_type().is_some_and(|t| t.is_dir());
    if (is_dir && !is_manifest_name(path)) || excluded.matches(path) {
        return None;
    }
    Some(LintTarget {
        walked: true,
        ..target(path)
    })
}

/// A target for a file that a walk or git found. It is certainly a manifest if its name says so.
pub fn target(path: &Path) -> LintTarget {
    LintTarget {
        path: clean(path),
        named: is_manifest_name(path),
        walked: false,
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

/// `exclude` of the configuration. Patterns are matched like lines of a .gitignore in the
/// configuration's directory.
#[derive(Default)]
pub struct Excludes(Option<Globs>);

impl Excludes {
    /// Excludes all paths that the globs match.
    pub fn new(globs: Globs) -> Excludes {
        Excludes(Some(globs))
    }

    /// Whether a path is excluded.
    pub fn matches(&self, path: &Path) -> bool {
        self.0.as_ref().is_some_and(|globs| globs.matches(path))
    }
}

/// A pattern that cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidGlob(String);

/// Globs of the configuration. They never match files outside its directory.
pub struct Globs {
    working_dir: PathBuf,
    lines: Gitignore,
}

impl Globs {
    /// Compiles the patterns of a configuration file in `dir`.
    pub fn new(dir: &Path, patterns: &[String]) -> Result<Globs, InvalidGlob> {
        let working_dir = std::env::current_dir().unwrap_or_default();
        let mut builder = GitignoreBuilder::new(normalize(&working_dir.join(dir)));
        for pattern in patterns {
            let added = builder.add_line(None, pattern);
            added.map_err(|error| InvalidGlob(format!("`{pattern}`: {error}")))?;
        }
        let lines = builder.build();
        let lines = lines.map_err(|error| InvalidGlob(error.to_string()))?;
        Ok(Globs { working_dir, lines })
    }

    /// Whether a glob matches the path or one of its parent directories.
    pub fn matches(&self, path: &Path) -> bool {
        let absolute = normalize(&self.working_dir.join(path));
        absolute
            .strip_prefix(self.lines.path())
            .is_ok_and(|inside| {
                self.lines
                    .matched_path_or_any_parents(inside, false)
                    .is_ignore()
            })
    }
}
