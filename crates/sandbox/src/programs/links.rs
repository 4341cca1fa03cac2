//! Follows symbolic links one by one, so that the sandbox can have the same links.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::policy::Symlink;

/// Maximum number of links, as in the kernel.
const MAX_LINKS: usize = 40;

/// The links on the way to files.
#[derive(Clone, Debug, Default)]
pub struct FollowedLinks {
    pub links: Vec<Symlink>,
}

impl FollowedLinks {
    /// The path without links. Every link on the way is recorded.
    pub fn follow(&mut self, path: &Path) -> io::Result<PathBuf> {
        let resolved = resolve_links(path, &mut self.links)?;
        match resolved.rest.as_os_str().is_empty() {
            true => Ok(resolved.real),
            false => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    /// Like `follow`, for a path whose end may not exist.
    pub fn follow_lenient(&mut self, path: &Path) -> io::Result<ResolvedPath> {
        resolve_links(path, &mut self.links)
    }

    pub fn extend(&mut self, other: FollowedLinks) {
        for link in other.links {
            if !self.links.contains(&link) {
                self.links.push(link);
            }
        }
    }
}

/// How far a path exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedPath {
    /// The existing part, without links.
    pub real: PathBuf,
    /// The missing part after it.
    pub rest: PathBuf,
}

impl ResolvedPath {
    pub fn full_path(&self) -> PathBuf {
        match self.rest.as_os_str().is_empty() {
            true => self.real.clone(),
            false => self.real.join(&self.rest),
        }
    }
}

fn resolve_links(path: &Path, links: &mut Vec<Symlink>) -> io::Result<ResolvedPath> {
    if !path.is_absolute() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path is not absolute",
        ));
    }
    let mut real = PathBuf::from("/");
    let mut followed = 0;
    // Components that are still to be followed, in reverse order.
    let mut pending = reversed(path);
    while let Some(name) = pending.pop() {
        if name == Path::new("..") {
            real.pop();
            continue;
        }
        let next = real.join(&name);
        match std::fs::symlink_metadata(&next) {
            Ok(meta) if meta.is_symlink() => {
                followed += 1;
                if followed > MAX_LINKS {
                    return Err(io::Error::other("too many symbolic links"));
                }
                let to = std::fs::read_link(&next)?;
                if to.is_absolute() {
                    real = PathBuf::from("/");
                }
                pending.extend(reversed(&to));
                let link = Symlink { at: next, to };
                if !links.contains(&link) {
                    links.push(link);
                }
            }
            Ok(_) => real = next,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut rest = name;
                // `..` after a missing directory cannot be resolved.
                while let Some(name) = pending.pop() {
                    if name == Path::new("..") {
                        return Err(error);
                    }
                    rest.push(name);
                }
                return Ok(ResolvedPath { real, rest });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(ResolvedPath {
        real,
        rest: PathBuf::new(),
    })
}

fn reversed(path: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = path
        .components()
        .filter_map(|c| match c {
            Component::Normal(name) => Some(PathBuf::from(name)),
            Component::ParentDir => Some(PathBuf::from("..")),
            _ => None,
        })
        .collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_on_the_way_is_recorded() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("real");
        std::fs::create_dir_all(root.join("usr/lib")).expect("made");
        std::fs::write(root.join("usr/lib/x.1.2"), "").expect("written");
        symlink("usr/lib", root.join("lib")).expect("linked");
        symlink("x.1.2", root.join("usr/lib/x.1")).expect("linked");
        let mut followed = FollowedLinks::default();
        let real = followed.follow(&root.join("lib/x.1")).expect("found");
        assert_eq!(real, root.join("usr/lib/x.1.2"));
        let at: Vec<_> = followed.links.iter().map(|l| l.at.clone()).collect();
        assert_eq!(at, [root.join("lib"), root.join("usr/lib/x.1")]);
        let resolved = followed
            .follow_lenient(&root.join("lib/new/dir"))
            .expect("fine");
        assert_eq!(resolved.full_path(), root.join("usr/lib/new/dir"));
        assert!(followed.follow(&root.join("lib/new")).is_err());
        assert!(followed.follow_lenient(&root.join("no/../../etc")).is_err());
        symlink("loop", root.join("loop")).expect("linked");
        assert!(followed.follow(&root.join("loop")).is_err());
        assert!(followed.follow(Path::new("x")).is_err());
    }
}
