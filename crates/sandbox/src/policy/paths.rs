//! Resolves a glob of a manifest to paths on this machine.

use std::path::{Path, PathBuf};

use agentproto_manifest::globs::{GlobAnchor, GlobPattern, GlobProgress};

/// Maximum number of directory entries for all globs of a policy. A clause that needs more cannot
/// be enforced.
pub const MAX_ENTRIES: usize = 100_000;
/// Maximum depth of the search for a glob.
pub const MAX_DEPTH: usize = 64;
/// Maximum number of grants, and of denials. Each is a mount, and more would make the start too
/// slow.
pub const MAX_MOUNTS: usize = 2000;

/// Directories that the sandbox creates itself.
const SANDBOX_DIRS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The directories that `~` and relative globs refer to.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'s> {
    pub cwd: &'s Path,
    pub home: &'s Path,
}

/// One alternative of a glob: a plain path, and the pattern after it.
#[derive(Clone, Debug)]
pub struct GlobBase {
    /// Absolute path, with unresolved links and `..`.
    pub base: PathBuf,
    pub pattern: GlobPattern,
    /// Whether it ends with a slash, so that a directory is meant.
    pub directory: bool,
}

impl GlobBase {
    /// Whether it is a plain path, or a plain directory with everything below it.
    pub fn is_subtree(&self) -> bool {
        self.pattern.is_empty() || self.pattern.is_everything()
    }

    pub fn means_directory(&self) -> bool {
        self.directory || self.pattern.is_everything()
    }
}

/// Why a glob has no paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GlobError {
    /// The text is not a valid glob: an error in the manifest.
    Invalid,
    /// A valid glob that cannot be enforced.
    Unenforceable(String),
}

/// The base paths and patterns of a glob.
pub fn glob_bases(glob: &str, scope: Scope) -> Result<Vec<GlobBase>, GlobError> {
    let alternatives = GlobPattern::alternatives(glob).ok_or(GlobError::Invalid)?;
    let mut out = Vec::new();
    for (anchor, pattern) in alternatives {
        let (names, pattern) = pattern.split_literal();
        let first = names.first().map_or("", String::as_str);
        if anchor == GlobAnchor::WorkingDir && first.starts_with('~') {
            return Err(GlobError::Unenforceable(
                "the homes of other users are unknown; write the full path".into(),
            ));
        }
        if names.iter().any(|name| name.starts_with('$')) {
            return Err(GlobError::Unenforceable(
                "$HOME is the only variable allowed in a path; write the full path".into(),
            ));
        }
        if pattern.goes_up() {
            return Err(GlobError::Unenforceable(
                "`..` after a wildcard does not lead to a fixed path".into(),
            ));
        }
        let mut base = match anchor {
            GlobAnchor::Root => PathBuf::from("/"),
            GlobAnchor::Home => scope.home.to_owned(),
            GlobAnchor::WorkingDir => scope.cwd.to_owned(),
        };
        base.extend(&names);
        out.push(GlobBase {
            base,
            pattern,
            directory: glob.ends_with('/'),
        });
    }
    Ok(out)
}

/// Whether a path is in a directory that the sandbox creates itself.
pub fn is_sandbox_dir(path: &Path) -> bool {
    SANDBOX_DIRS.iter().any(|own| path.starts_with(own))
}

/// Whether the path is a device that every sandbox has.
pub fn is_common_device(path: &Path) -> bool {
    ["null", "zero", "full", "random", "urandom", "tty"]
        .iter()
        .any(|name| path == Path::new("/dev").join(name))
}

/// One match of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    File(PathBuf),
    /// A directory that matches with everything below it.
    Tree(PathBuf),
    /// A directory that matches without its contents.
    Directory(PathBuf),
    Link(PathBuf),
}

/// The search exceeded its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchLimitExceeded;

impl std::fmt::Display for SearchLimitExceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(
            f,
            "more than {MAX_ENTRIES} entries or {MAX_DEPTH} levels would have to be searched; name a smaller directory"
        )
    }
}

/// Everything below a directory that matches now. Links are not followed. `from` is how far the
/// pattern has matched at that directory, and `entries_left` is how many entries may still be
/// examined.
pub fn expand(
    dir: &Path,
    pattern: &GlobPattern,
    from: GlobProgress,
    entries_left: &mut usize,
) -> Result<Vec<Found>, SearchLimitExceeded> {
    let mut found = Vec::new();
    let mut pending = vec![(dir.to_owned(), from, 0usize)];
    while let Some((dir, progress, depth)) = pending.pop() {
        if pattern.matches_all_below(&progress) {
            found.push(Found::Tree(dir));
            continue;
        }
        // A child cannot list a directory that we cannot list.
        let Ok(entries) = std::fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries.flatten() {
            *entries_left = entries_left.checked_sub(1).ok_or(SearchLimitExceeded)?;
            let next = pattern.step(&progress, &entry.file_name().to_string_lossy());
            if next.is_dead() {
                continue;
            }
            let path = entry.path();
            let matches = pattern.accepts(&next);
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => {
                    if matches {
                        found.push(Found::Link(path));
                    }
                }
                Ok(kind) if kind.is_dir() => {
                    if matches && !pattern.matches_all_below(&next) {
                        found.push(Found::Directory(path.clone()));
                    }
                    if depth >= MAX_DEPTH {
                        return Err(SearchLimitExceeded);
                    }
                    pending.push((path, next, depth + 1));
                }
                _ => {
                    if matches {
                        found.push(Found::File(path));
                    }
                }
            }
        }
    }
    found.sort_by(|a, b| path_of(a).cmp(path_of(b)));
    Ok(found)
}

pub fn path_of(found: &Found) -> &Path {
    match found {
        Found::File(p) | Found::Tree(p) | Found::Directory(p) | Found::Link(p) => p,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(glob: &str) -> (String, bool) {
        let scope = Scope {
            cwd: Path::new("/w/[odd]"),
            home: Path::new("/home/u"),
        };
        let glob_base = glob_bases(glob, scope).expect("a place").remove(0);
        (
            glob_base.base.to_string_lossy().into_owned(),
            glob_base.is_subtree(),
        )
    }

    #[test]
    fn globs_are_split_into_base_and_pattern() {
        for (glob, base, subtree) in [
            ("~/.ssh/**", "/home/u/.ssh", true),
            ("${HOME}/x", "/home/u/x", true),
            ("~", "/home/u", true),
            ("src/**", "/w/[odd]/src", true),
            ("**", "/w/[odd]", true),
            ("./a/*.rs", "/w/[odd]/a", false),
            ("/etc/passwd", "/etc/passwd", true),
            ("../x/**/*", "/w/[odd]/../x", true),
            ("**/.git/**", "/w/[odd]", false),
        ] {
            assert_eq!(one(glob), (base.to_owned(), subtree), "{glob}");
        }
    }

    #[test]
    fn invalid_and_unenforceable_globs_are_rejected() {
        let scope = Scope {
            cwd: Path::new("/w"),
            home: Path::new("/h"),
        };
        assert_eq!(glob_bases("[a", scope).err(), Some(GlobError::Invalid));
        for glob in ["~root/x", "$XDG_DATA_HOME/x", "*/../x"] {
            let error = glob_bases(glob, scope).expect_err(glob);
            assert!(matches!(error, GlobError::Unenforceable(_)), "{glob}");
        }
    }

    #[test]
    fn walks_do_not_follow_links() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        for name in ["a/.git/objects", "b/c/.git", "out/.git"] {
            std::fs::create_dir_all(root.join(name)).expect("made");
        }
        std::fs::write(root.join("a/x.env"), "").expect("written");
        std::os::unix::fs::symlink(root.join("out"), root.join("b/link")).expect("linked");
        let scope = Scope {
            cwd: root,
            home: root,
        };
        let find = |glob: &str| {
            let glob_base = glob_bases(glob, scope).expect("a place").remove(0);
            let mut entries_left = MAX_ENTRIES;
            expand(
                &glob_base.base,
                &glob_base.pattern,
                glob_base.pattern.start(),
                &mut entries_left,
            )
            .expect("found")
        };
        assert_eq!(find("{a,b}/**/.git/**"), [Found::Tree(root.join("a/.git"))]);
        assert_eq!(find("b/**/.git/**"), [Found::Tree(root.join("b/c/.git"))]);
        assert_eq!(find("*/*.env"), [Found::File(root.join("a/x.env"))]);
        assert_eq!(find("b/l*"), [Found::Link(root.join("b/link"))]);
        assert_eq!(
            find("?"),
            [
                Found::Directory(root.join("a")),
                Found::Directory(root.join("b"))
            ]
        );
    }
}
