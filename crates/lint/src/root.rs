//! Finds the workspace root of a run. References must not lead out of it.

use std::path::{Component, Path, PathBuf};

use crate::CONFIG_FILE as FILE_NAME;
use agentproto_manifest::normalize;

/// The workspace root for the paths to lint. The search starts at their common directory and
/// returns the first of:
///
/// 1. the git repository that contains it;
/// 2. the nearest parent directory with a configuration file;
/// 3. the working directory, if all paths are relative and inside it;
/// 4. the common directory itself.
///
/// A bundle therefore gets the same findings from every working directory, and references between
/// two of the given directories are followed.
pub fn of(paths: &[PathBuf]) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    let anchor = paths
        .iter()
        .map(|path| directory(&normalize(&here.join(path))))
        .reduce(|a, b| common(&a, &b))
        .unwrap_or_else(|| here.clone());
    let anchor = before_links(&here, anchor);
    let by_part = paths.iter().all(|path| path.is_relative());
    let above =
        |has: &dyn Fn(&Path) -> bool| anchor.ancestors().find(|d| has(d)).map(Path::to_owned);
    above(&|dir| dir.join(".git").exists())
        .or_else(|| above(&|dir| dir.join(FILE_NAME).is_file()))
        .unwrap_or(if by_part && anchor.starts_with(&here) {
            here
        } else {
            anchor
        })
}

/// The part of a directory below the working directory that is before the first symbolic link. A
/// link in an untrusted repository must not choose the root.
fn before_links(here: &Path, dir: PathBuf) -> PathBuf {
    let below = |path: &&Path| path.starts_with(here) && *path != here;
    let links = dir.ancestors().take_while(below).filter(|p| p.is_symlink());
    match links.last().and_then(Path::parent) {
        Some(parent) => parent.to_owned(),
        None => dir,
    }
}

fn directory(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !path.is_dir() => parent.to_owned(),
        _ => path.to_owned(),
    }
}

fn common(a: &Path, b: &Path) -> PathBuf {
    let same = |(a, b): &(Component<'_>, Component<'_>)| a == b;
    a.components()
        .zip(b.components())
        .take_while(same)
        .map(|(a, _)| a)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_contains_every_path() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::create_dir_all(top.join("a/c")).unwrap();
        let root = |paths: &[&str]| of(&paths.iter().map(|p| top.join(p)).collect::<Vec<_>>());
        assert_eq!(root(&["a/b"]), top.join("a/b"));
        assert_eq!(root(&["a/b/CLI.md"]), top.join("a/b"));
        assert_eq!(root(&["a/b/CLI.md", "a/c"]), top.join("a"));
        assert_eq!(root(&["a/c/../b"]), top.join("a/b"));
        std::fs::write(top.join("a").join(FILE_NAME), "").unwrap();
        assert_eq!(root(&["a/b"]), top.join("a"));
        std::fs::create_dir(top.join(".git")).unwrap();
        assert_eq!(root(&["a/b"]), top);
        assert!(std::env::current_dir().unwrap().starts_with(of(&[])));
    }
}
