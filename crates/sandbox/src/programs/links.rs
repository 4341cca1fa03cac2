//! Follows symbolic links one by one, so that the sandbox can have the same links.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::policy::Link;

/// Maximum number of links, as in the kernel.
const MOST_LINKS: usize = 40;

/// The links on the way to files.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    pub links: Vec<Link>,
}

impl Trail {
    /// The path without links. Every link on the way is recorded.
    pub fn follow(&mut self, path: &Path) -> io::Result<PathBuf> {
        let walked = walk(path, &mut self.links)?;
        match walked.rest.as_os_str().is_empty() {
            true => Ok(walked.real),
            false => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    /// Like `follow`, for a path whose end may not exist.
    pub fn follow_lenient(&mut self, path: &Path) -> io::Result<Walked> {
        walk(path, &mut self.links)
    }

    pub fn extend(&mut self, other: Trail) {
        for link in other.links {
            if !self.links.contains(&link) {
                self.links.push(link);
            }
        }
    }
}

/// How far a path exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// The existing part, without links.
    pub real: PathBuf,
    /// The missing part after it.
    pub rest: PathBuf,
}

impl Walked {
    pub fn whole(&self) -> PathBuf {
        match self.rest.as_os_str().is_empty() {
            true => self.real.clone(),
            false => self.real.join(&self.rest),
        }
    }
}

fn walk(path: &Path, links: &mut Vec<Link>) -> io::Result<Walked> {
    if !path.is_absolute() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path is not absolute",
        ));
    }
    let mut real = PathBuf::from("/");
    let mut followed = 0;
    // Components that are still to be followed, in reverse order.
    let mut waiting = reversed(path);
    while let Some(name) = waiting.pop() {
        if name == Path::new("..") {
            real.pop();
            continue;
        }
        let next = real.join(&name);
        match std::fs::symlink_metadata(&next) {
            Ok(meta) if meta.is_symlink() => {
                followed += 1;
                if followed > MOST_LINKS {
                    return Err(io::Error::other("too many symbolic links"));
                }
                let to = std::fs::read_link(&next)?;
                if to.is_absolute() {
                    real = PathBuf::from("/");
                }
                waiting.extend(reversed(&to));
                let link = Link { at: next, to };
                if !links.contains(&link) {
                    links.push(link);
                }
            }
            Ok(_) => real = next,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut rest = name;
                // `..` after a missing directory cannot be resolved.
                while let Some(name) = waiting.pop() {
                    if name == Path::new("..") {
                        return Err(error);
                    }
                    rest.push(name);
                }
                return Ok(Walked { real, rest });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Walked {
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
        let mut trail = Trail::default();
        let real = trail.follow(&root.join("lib/x.1")).expect("found");
        assert_eq!(real, root.join("usr/lib/x.1.2"));
        let at: Vec<_> = trail.links.iter().map(|l| l.at.clone()).collect();
        assert_eq!(at, [root.join("lib"), root.join("usr/lib/x.1")]);
        let walked = trail
            .follow_lenient(&root.join("lib/new/dir"))
            .expect("fine");
        assert_eq!(walked.whole(), root.join("usr/lib/new/dir"));
        assert!(trail.follow(&root.join("lib/new")).is_err());
        assert!(trail.follow_lenient(&root.join("no/../../etc")).is_err());
        symlink("loop", root.join("loop")).expect("linked");
        assert!(trail.follow(&root.join("loop")).is_err());
        assert!(trail.follow(Path::new("x")).is_err());
    }
}
