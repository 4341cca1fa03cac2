//! The files of a git repository that make git run code: its configuration, its hooks, and the
//! pointers to them. They are found by reading, without calling git.

use std::path::{Path, PathBuf};

use super::HiddenKind;
use super::git_config::CodePaths;
use crate::build::is_placeholder;

/// Maximum depth below a directory at which repositories are searched.
const MAX_DEPTH: usize = 3;
/// Maximum number of directory entries that are searched for repositories. More are an error: a
/// program could otherwise hide a repository from the next search by creating files.
const MAX_ENTRIES: usize = 500_000;
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
pub fn find(dir: &Path, home: &Path) -> Result<Vec<Repository>, TooManyEntries> {
    let mut search = Search {
        user: CodePaths::of_user(home),
        home,
        entries_left: MAX_ENTRIES,
        found: Vec::new(),
    };
    for dir in dir.ancestors().skip(1) {
        search.found.extend(search.repository_at(dir));
    }
    search.descend(dir, MAX_DEPTH)?;
    Ok(search.found)
}

/// A search for repositories.
struct Search<'h> {
    home: &'h Path,
    /// What the user's own configuration names for all repositories.
    user: CodePaths,
    entries_left: usize,
    found: Vec<Repository>,
}

impl Search<'_> {
    fn descend(&mut self, dir: &Path, depth: usize) -> Result<(), TooManyEntries> {
        self.found.extend(self.repository_at(dir));
        if depth == 0 {
            return Ok(());
        }
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        for entry in entries {
            self.entries_left = self.entries_left.checked_sub(1).ok_or(TooManyEntries)?;
            let name = entry.file_name();
            let skipped = name == ".git" || SKIPPED.iter().any(|skipped| name == *skipped);
            if !skipped && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.descend(&entry.path(), depth - 1)?;
            }
        }
        Ok(())
    }

    /// The repository whose working tree is a directory, or which is itself a directory without
    /// one.
    fn repository_at(&self, dir: &Path) -> Option<Repository> {
        let dot_git = dir.join(".git");
        let mut repository = Repository::default();
        match std::fs::symlink_metadata(&dot_git) {
            // Another session reserves the name.
            Ok(_) if is_placeholder(&dot_git) => return None,
            Ok(meta) if meta.is_dir() => self.git_dir(&dot_git, dir, &mut repository),
            Ok(meta) if meta.is_symlink() => repository.read_only.push(dot_git),
            Ok(_) => {
                repository.read_only.push(dot_git.clone());
                let pointer = read(&dot_git);
                if let Some(target) = pointer.trim().strip_prefix("gitdir:") {
                    self.git_dir(&dir.join(target.trim()), dir, &mut repository);
                }
            }
            Err(_) if is_git_dir(dir) => self.git_dir(dir, dir, &mut repository),
            Err(_) => return None,
        }
        Some(repository)
    }

    fn git_dir(&self, git: &Path, work_tree: &Path, repository: &mut Repository) {
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
        let config = common.join("config");
        let by_worktree = read(&config).to_ascii_lowercase();
        let by_worktree = by_worktree.contains("worktreeconfig");
        let mut configs = vec![config];
        let mut worktree_config = |dir: &Path| {
            let path = dir.join("config.worktree");
            configs.push(path.clone());
            match by_worktree {
                true => repository.reserved.push((path, EMPTY_CONFIG)),
                false => repository.read_only.push(path),
            }
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
        let own: Vec<CodePaths> = configs
            .iter()
            .map(|config| CodePaths::of(config, self.home))
            .collect();
        for paths in own.iter().chain([&self.user]) {
            let hooks = paths.hooks.iter().map(|path| work_tree.join(path));
            for path in hooks.chain(paths.included.iter().cloned()) {
                let path = agentproto_manifest::normalize(&path);
                repository.reserve(super::real_path(&path));
            }
        }
        nested(&common.join("modules"), repository, 4);
    }
}

/// Whether git would take a directory for a repository.
fn is_git_dir(dir: &Path) -> bool {
    dir.join("HEAD").is_file() && dir.join("objects").is_dir() && dir.join("refs").is_dir()
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

/// The text of a small file, or nothing.
pub(super) fn read(path: &Path) -> String {
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
        let search = |entries_left: usize| {
            let mut search = Search {
                home: Path::new("/nonexistent"),
                user: CodePaths::default(),
                entries_left,
                found: Vec::new(),
            };
            let done = search.descend(dir.path(), MAX_DEPTH);
            done.map(|()| search.found.len())
        };
        assert_eq!(search(2), Err(TooManyEntries));
        assert_eq!(search(4), Ok(1));
    }
}
