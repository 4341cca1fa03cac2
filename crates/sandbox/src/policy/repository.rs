//! The files of a git repository that make git run code: its configuration, its hooks, and the
//! pointers to them. They are found by reading, without calling git.

use std::path::{Path, PathBuf};

use super::HiddenKind;
use crate::build::is_placeholder;

/// Maximum depth below a directory at which repositories are searched.
const MAX_DEPTH: usize = 3;
/// Maximum number of directory entries that are searched for repositories. More are an error: a
/// program could otherwise hide a repository from the next search by creating files.
const MAX_ENTRIES: usize = 100_000;
/// Maximum size in bytes of a file that is read.
const MAX_FILE: u64 = 1 << 20;
/// Directories that contain many files and no repository of the user.
const SKIPPED: [&str; 3] = ["node_modules", "target", ".venv"];

/// What decides which code git runs in one repository.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Repository {
    /// Paths that stay as they are.
    pub read_only: Vec<PathBuf>,
    /// Paths that stay as they are, or cannot be created, and how they are reserved.
    pub reserved: Vec<(PathBuf, HiddenKind)>,
}

/// Git refuses to work with a directory at this name. This text refers to the same directory.
const COMMON_DIR: HiddenKind = HiddenKind::ReservedFile(".\n");
/// A configuration without settings.
const EMPTY_CONFIG: HiddenKind = HiddenKind::ReservedFile("");

impl Repository {
    fn reserve(&mut self, path: PathBuf) {
        self.reserved.push((path, HiddenKind::Reserved));
    }
}

/// A directory has too many entries to be searched for repositories.
#[derive(Debug, PartialEq, Eq)]
pub struct TooManyEntries;

/// The repository that a directory belongs to, and repositories in it.
pub fn find(dir: &Path) -> Result<Vec<Repository>, TooManyEntries> {
    let mut found: Vec<Repository> = dir.ancestors().skip(1).filter_map(repository_at).collect();
    let mut entries_left = MAX_ENTRIES;
    search(dir, MAX_DEPTH, &mut entries_left, &mut found)?;
    Ok(found)
}

fn search(
    dir: &Path,
    depth: usize,
    entries_left: &mut usize,
    found: &mut Vec<Repository>,
) -> Result<(), TooManyEntries> {
    found.extend(repository_at(dir));
    if depth == 0 {
        return Ok(());
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries {
        *entries_left = entries_left.checked_sub(1).ok_or(TooManyEntries)?;
        let name = entry.file_name();
        let skipped = name == ".git" || SKIPPED.iter().any(|skipped| name == *skipped);
        if !skipped && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            search(&entry.path(), depth - 1, entries_left, found)?;
        }
    }
    Ok(())
}

/// The repository whose working tree is a directory, or which is itself a directory without one.
fn repository_at(dir: &Path) -> Option<Repository> {
    let dot_git = dir.join(".git");
    let mut repository = Repository::default();
    match std::fs::symlink_metadata(&dot_git) {
        // Another session reserves the name.
        Ok(_) if is_placeholder(&dot_git) => return None,
        Ok(meta) if meta.is_dir() => git_dir(&dot_git, dir, &mut repository),
        Ok(meta) if meta.is_symlink() => repository.read_only.push(dot_git),
        Ok(_) => {
            repository.read_only.push(dot_git.clone());
            let pointer = read(&dot_git);
            if let Some(target) = pointer.trim().strip_prefix("gitdir:") {
                git_dir(&dir.join(target.trim()), dir, &mut repository);
            }
        }
        Err(_) if is_git_dir(dir) => git_dir(dir, dir, &mut repository),
        Err(_) => return None,
    }
    Some(repository)
}

/// Whether git would take a directory for a repository.
fn is_git_dir(dir: &Path) -> bool {
    dir.join("HEAD").is_file() && dir.join("objects").is_dir() && dir.join("refs").is_dir()
}

fn git_dir(git: &Path, work_tree: &Path, repository: &mut Repository) {
    let Ok(git) = git.canonicalize() else {
        return;
    };
    let pointer = git.join("commondir");
    let common = match std::fs::symlink_metadata(&pointer) {
        Ok(_) => git.join(read(&pointer).trim()),
        Err(_) => git.clone(),
    };
    repository.reserved.push((pointer, COMMON_DIR));
    repository.read_only.push(git.join("gitdir"));
    let common = common.canonicalize().unwrap_or(common);
    for name in ["config", "hooks"] {
        repository.reserve(common.join(name));
    }
    let config = read(&common.join("config"));
    let by_worktree = config.to_ascii_lowercase().contains("worktreeconfig");
    let mut worktree_config = |dir: &Path| match by_worktree {
        true => {
            let path = dir.join("config.worktree");
            repository.reserved.push((path, EMPTY_CONFIG));
        }
        false => repository.read_only.push(dir.join("config.worktree")),
    };
    worktree_config(&git);
    worktree_config(&common);
    let worktrees = std::fs::read_dir(common.join("worktrees"));
    let worktrees = worktrees.into_iter().flatten().flatten();
    let worktrees: Vec<PathBuf> = worktrees.map(|entry| entry.path()).collect();
    worktrees.iter().for_each(|dir| worktree_config(dir));
    for dir in worktrees {
        repository.reserve(dir.join("commondir"));
        repository.read_only.push(dir.join("gitdir"));
    }
    for path in code_paths(&config) {
        // Hooks are relative to the working tree, and included files to the configuration.
        let base = if path.is_include { &common } else { work_tree };
        let path = base.join(path.path);
        let path = super::real_path(&agentproto_manifest::normalize(&path));
        repository.reserve(path);
    }
    nested(&common.join("modules"), repository, 4);
}

/// The repositories of submodules, which have names with any number of slashes.
fn nested(dir: &Path, repository: &mut Repository, depth: usize) {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if is_git_dir(&path) {
            for name in ["config", "hooks"] {
                repository.reserve(path.join(name));
            }
            repository
                .reserved
                .push((path.join("commondir"), COMMON_DIR));
            nested(&path.join("modules"), repository, depth);
        } else if depth > 0 && path.is_dir() && !path.is_symlink() {
            nested(&path, repository, depth - 1);
        }
    }
}

/// A path in a configuration that git runs or reads code from.
struct CodePath<'t> {
    path: &'t str,
    is_include: bool,
}

/// `core.hooksPath`, and `path` of the sections `include` and `includeIf`.
fn code_paths(config: &str) -> Vec<CodePath<'_>> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in config.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix('[') {
            let end = head.find([' ', ']', '"']).unwrap_or(head.len());
            section = head.get(..end).unwrap_or_default().to_ascii_lowercase();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let is_include = match (section.as_str(), key.trim().to_ascii_lowercase().as_str()) {
            ("core", "hookspath") => false,
            ("include" | "includeif", "path") => true,
            _ => continue,
        };
        let path = value.trim().trim_matches('"');
        // Paths with `~` are outside the repository, and mostly outside every grant.
        if !path.is_empty() && !path.starts_with('~') {
            found.push(CodePath { path, is_include });
        }
    }
    found
}

/// The text of a small file, or nothing.
fn read(path: &Path) -> String {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() && meta.len() <= MAX_FILE => {
            let bytes = std::fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_search_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["a", "b", "c/.git/hooks"] {
            std::fs::create_dir_all(dir.path().join(name)).expect("created");
        }
        let search = |mut entries: usize| {
            let mut found = Vec::new();
            search(dir.path(), MAX_DEPTH, &mut entries, &mut found).map(|()| found.len())
        };
        assert_eq!(search(2), Err(TooManyEntries));
        assert_eq!(search(4), Ok(1));
    }
}
