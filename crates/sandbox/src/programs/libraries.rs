//! Finds libraries as the loader would, by reading files only.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::elf::{Elf, HeaderCache};
use super::links::FollowedLinks;

/// Maximum depth of `include` lines in the loader's configuration, which may include each other.
const MAX_INCLUDE_DEPTH: usize = 8;
/// Maximum number of libraries. It ends loops of malicious files.
const MAX_LIBRARIES: usize = 2000;

/// Library directories of this machine, in the order of the loader.
#[derive(Clone, Debug)]
pub struct LibraryDirs {
    configured: Vec<PathBuf>,
    default: Vec<PathBuf>,
    headers: HeaderCache,
}

impl LibraryDirs {
    /// The directories of this machine: glibc's configuration, then its defaults.
    pub fn of_this_machine() -> Self {
        let mut configured = Vec::new();
        configuration(Path::new("/etc/ld.so.conf"), 0, &mut configured);
        LibraryDirs {
            configured,
            default: defaults(),
            headers: HeaderCache::default(),
        }
    }

    /// Only these directories.
    #[cfg(test)]
    fn only(configured: Vec<PathBuf>) -> Self {
        LibraryDirs {
            configured,
            default: Vec::new(),
            headers: HeaderCache::default(),
        }
    }

    /// Whether the loader searches a directory without its cache or configuration.
    pub fn is_default(&self, dir: &Path) -> bool {
        self.default.iter().any(|d| d == dir)
    }

    fn search<'a>(
        &'a self,
        elf: &'a Elf,
        above: &'a [PathBuf],
    ) -> impl Iterator<Item = &'a PathBuf> {
        let rpath: &[PathBuf] = if elf.runpath.is_empty() { above } else { &[] };
        elf.rpath
            .iter()
            .chain(rpath)
            .chain(&elf.runpath)
            .chain(&self.configured)
            .chain(&self.default)
    }
}

fn defaults() -> Vec<PathBuf> {
    let arch = std::env::consts::ARCH;
    let triple = match arch {
        "x86" => "i386-linux-gnu".to_owned(),
        "arm" => "arm-linux-gnueabihf".to_owned(),
        "powerpc64" => "powerpc64le-linux-gnu".to_owned(),
        _ => format!("{arch}-linux-gnu"),
    };
    [
        format!("/lib/{triple}"),
        format!("/usr/lib/{triple}"),
        "/lib64".into(),
        "/usr/lib64".into(),
        "/lib".into(),
        "/usr/lib".into(),
        // The default of musl.
        "/usr/local/lib".into(),
    ]
    .map(PathBuf::from)
    .into()
}

/// Reads `ld.so.conf`: a directory or an `include GLOB` on each line.
fn configuration(file: &Path, depth: usize, out: &mut Vec<PathBuf>) {
    let Ok(text) = std::fs::read_to_string(file) else {
        return;
    };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("").trim();
        if let Some(glob) = line
            .strip_prefix("include")
            .filter(|r| r.starts_with([' ', '\t']))
        {
            let glob = Path::new(glob.trim());
            let base = file.parent().unwrap_or(Path::new("/"));
            let (Some(dir), Some(name)) = (glob.parent(), glob.file_name()) else {
                continue;
            };
            let (dir, name) = (base.join(dir), name.to_string_lossy());
            let mut found: Vec<PathBuf> = std::fs::read_dir(&dir)
                .into_iter()
                .flatten()
                .flatten()
                .filter(|e| {
                    agentproto_manifest::globs::matches(&name, &e.file_name().to_string_lossy())
                })
                .map(|e| e.path())
                .collect();
            found.sort();
            if depth < MAX_INCLUDE_DEPTH {
                found.iter().for_each(|f| configuration(f, depth + 1, out));
            }
        } else if line.starts_with('/') {
            let dir = PathBuf::from(line);
            if !out.contains(&dir) {
                out.push(dir);
            }
        }
    }
}

/// Everything that the loader maps for a program, including the loader.
#[derive(Debug, Default)]
pub struct LibraryClosure {
    /// Files without symbolic links, in the order in which they were found.
    pub files: Vec<PathBuf>,
    pub followed: FollowedLinks,
    /// Names that were not found in any directory.
    pub missing: Vec<PathBuf>,
    /// Whether a library was found only through the cache or the configuration.
    pub configured: bool,
    seen: HashSet<PathBuf>,
}

impl LibraryClosure {
    /// Adds what an ELF file needs, directly or through its libraries.
    pub fn add(&mut self, directories: &LibraryDirs, elf: &Elf) {
        let mut pending = vec![(Rc::new(elf.clone()), Vec::new())];
        while let Some((elf, above)) = pending.pop() {
            for name in &elf.needed {
                if self.files.len() >= MAX_LIBRARIES {
                    return;
                }
                let Some((found, library)) = locate(directories, &elf, &above, name) else {
                    // The loader itself is found by its path.
                    if !self.missing.contains(name) && !self.seen_name(name) {
                        self.missing.push(name.clone());
                    }
                    continue;
                };
                let Ok(real) = self.followed.follow(&found) else {
                    continue;
                };
                if !self.seen.insert(real.clone()) {
                    continue;
                }
                let dir = found.parent().unwrap_or(Path::new("/"));
                let own = elf.rpath.iter().chain(&above).chain(&elf.runpath);
                if !directories.is_default(dir) && !own.into_iter().any(|d| d == dir) {
                    self.configured = true;
                }
                self.files.push(real);
                // An RPATH also applies to the libraries of a library.
                let mut above = above.clone();
                above.extend(elf.rpath.iter().cloned());
                pending.push((library, above));
            }
        }
    }

    /// Adds a library by name if this machine has it, for libraries that no header names.
    pub fn add_by_name(&mut self, directories: &LibraryDirs, kind: (bool, u16), name: &str) {
        let elf = Elf {
            needed: vec![name.into()],
            kind,
            ..Elf::default()
        };
        self.add_optional(directories, &elf);
    }

    /// Like `add`, for files that a program may never load: missing libraries are not reported.
    pub fn add_optional(&mut self, directories: &LibraryDirs, elf: &Elf) {
        let before = self.missing.len();
        self.add(directories, elf);
        self.missing.truncate(before);
    }

    fn seen_name(&self, name: &Path) -> bool {
        self.seen.iter().any(|s| s.file_name() == name.file_name())
    }

    /// Adds a file that needs no search: the loader.
    pub fn add_file(&mut self, path: &Path) -> Option<PathBuf> {
        let real = self.followed.follow(path).ok()?;
        if self.seen.insert(real.clone()) {
            self.files.push(real.clone());
        }
        Some(real)
    }
}

/// The first library with that name that is of the same kind as the file that needs it.
fn locate(
    directories: &LibraryDirs,
    elf: &Elf,
    above: &[PathBuf],
    name: &Path,
) -> Option<(PathBuf, Rc<Elf>)> {
    let fits = |path: PathBuf| {
        let library = directories.headers.get(&path)?;
        (library.kind == elf.kind).then_some((path, library))
    };
    if name.components().count() > 1 {
        return name.is_absolute().then(|| fits(name.to_owned())).flatten();
    }
    directories
        .search(elf, above)
        .find_map(|dir| fits(dir.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_are_followed_and_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let main = dir.path().join("ld.so.conf");
        let sub = dir.path().join("ld.so.conf.d");
        std::fs::create_dir(&sub).expect("made");
        std::fs::write(&main, "include ld.so.conf.d/*.conf\n/opt/a # why\n\n").expect("written");
        std::fs::write(sub.join("1.conf"), "/opt/b\ninclude ../ld.so.conf\n").expect("written");
        std::fs::write(sub.join("2.txt"), "/opt/c\n").expect("written");
        let mut out = Vec::new();
        configuration(&main, 0, &mut out);
        out.sort();
        assert_eq!(out, [PathBuf::from("/opt/a"), PathBuf::from("/opt/b")]);
    }

    #[test]
    fn the_closure_of_this_test_has_libc_once() {
        let own = std::env::current_exe().expect("a path");
        let elf = crate::programs::elf::read(&own)
            .expect("readable")
            .expect("ELF");
        let mut closure = LibraryClosure::default();
        closure.add(&LibraryDirs::of_this_machine(), &elf);
        let libc = |f: &&PathBuf| f.to_string_lossy().contains("libc.so");
        if cfg!(target_env = "gnu") {
            assert_eq!(closure.files.iter().filter(libc).count(), 1);
            assert!(closure.missing.is_empty(), "{:?}", closure.missing);
        }
    }

    #[test]
    fn missing_libraries_are_reported() {
        let mut closure = LibraryClosure::default();
        let elf = Elf {
            needed: vec!["libnowhere.so.1".into()],
            ..Elf::default()
        };
        closure.add(&LibraryDirs::only(Vec::new()), &elf);
        assert_eq!(closure.missing, [PathBuf::from("libnowhere.so.1")]);
        closure.add_by_name(&LibraryDirs::only(Vec::new()), (true, 0), "libother.so");
        assert_eq!(closure.missing.len(), 1);
    }
}
