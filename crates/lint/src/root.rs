//! How far references may go: the root of a run.

use std::path::{Component, Path, PathBuf};

use crate::CONFIG_FILE as FILE_NAME;
use agentproto_manifest::normalize;

/// The first that there is, seen from the directory that holds all linted paths: the
/// repository around it, the nearest directory above it with a configuration file, the
/// current directory if the paths are named as parts of it, that directory itself.
///
/// So a bundle gets the same verdict from wherever it is linted, and a reference between two
/// named directories is followed.
pub fn of(paths: &[PathBuf]) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    let anchor = paths
        .iter()
        .map(|path| directory(&normalize(&here.join(path))))
        .reduce(|a, b| common(&a, &b))
        .unwrap_or_else(|| here.clone());
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
    fn the_root_holds_every_path() {
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
