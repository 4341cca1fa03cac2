//! Documents and the references between them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::document::Document;
use crate::files::{FileSource, KnownFiles, ReadError};
use crate::refs::RefRole;

/// Maximum number of cached documents. Bundles are read one after the other, so a small cache
/// serves nearly every reference and keeps memory low. The oldest document is evicted first, so
/// that its memory is reused while it is still in the CPU cache.
const CACHE_LIMIT: usize = 20;

/// The target of a reference.
#[derive(Clone, Debug)]
pub enum Resolution {
    /// A file that was read.
    Document(Arc<Document>),
    /// A file that does not exist.
    Missing(PathBuf),
    /// A path that cannot be read.
    Unreadable(PathBuf, ReadError),
    /// An absolute path such as `/etc/x`, `~/x` or `C:\x`. Never read.
    Absolute,
    /// A path outside the workspace. Never read.
    Escapes(PathBuf),
    /// A registry slug, a package export or a URL, which is not a file.
    External,
}

impl Resolution {
    /// The document, if the reference led to one.
    pub fn document(&self) -> Option<&Arc<Document>> {
        match self {
            Resolution::Document(doc) => Some(doc),
            _ => None,
        }
    }
}

/// Reads manifests and resolves references between them. Each thread has its own workspace.
pub struct Workspace<'f> {
    /// Source of the files.
    pub files: &'f dyn FileSource,
    known: Option<&'f dyn KnownFiles>,
    root: PathBuf,
    /// Working directory if the root is absolute, else empty.
    working_dir: PathBuf,
    working_dir_inside: bool,
    /// Keys are the bytes of the paths, because hashing a `Path` by component is slow.
    cache: RefCell<FxHashMap<OsString, Result<Arc<Document>, ReadError>>>,
    order: RefCell<VecDeque<OsString>>,
}

impl<'f> Workspace<'f> {
    /// A workspace with an empty cache. References must not leave the directory `root`.
    pub fn new(files: &'f dyn FileSource, root: impl Into<PathBuf>) -> Self {
        let root = normalize(&root.into());
        let working_dir = if root.is_absolute() {
            std::env::current_dir().unwrap_or_default()
        } else {
            PathBuf::new()
        };
        Workspace {
            files,
            known: None,
            working_dir_inside: working_dir.starts_with(&root),
            root,
            working_dir,
            cache: RefCell::default(),
            order: RefCell::default(),
        }
    }

    /// Uses a list of known files instead of asking the disk about them.
    pub fn with_known_files(mut self, known: &'f dyn KnownFiles) -> Self {
        self.known = Some(known);
        self
    }

    /// Names of the Markdown files and subdirectories in a directory. The list may contain other
    /// files.
    pub fn manifests_in(&self, dir: &Path) -> Vec<String> {
        self.known
            .and_then(|known| known.list(dir))
            .unwrap_or_else(|| self.files.list(dir))
    }

    /// Directory that references must not leave.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads and parses a file, or returns it from the cache.
    pub fn load(&self, path: &Path) -> Result<Arc<Document>, ReadError> {
        if let Some(known) = self.cache.borrow().get(path.as_os_str()) {
            return known.clone();
        }
        let loaded = self
            .files
            .read(path)
            .map(|bytes| Arc::new(Document::from_bytes(path, bytes)));
        let mut cache = self.cache.borrow_mut();
        let mut order = self.order.borrow_mut();
        if order.len() >= CACHE_LIMIT
            && let Some(oldest) = order.pop_front()
        {
            cache.remove(&oldest);
        }
        order.push_back(path.as_os_str().to_owned());
        cache.insert(path.as_os_str().to_owned(), loaded.clone());
        loaded
    }

    /// Resolves a reference as written in `from`.
    pub fn resolve(&self, from: &Document, role: RefRole, reference: &str) -> Resolution {
        if is_external(role, reference) {
            return Resolution::External;
        }
        if is_absolute(reference) {
            return Resolution::Absolute;
        }
        let target = join_reference(from.dir(), reference);
        let trusted = self.known.is_some_and(|known| known.contains(&target));
        if !self.contains(&target) || (!trusted && self.escapes_by_symlink(from.dir(), &target)) {
            return Resolution::Escapes(target);
        }
        match self.load(&target) {
            Ok(doc) => Resolution::Document(doc),
            Err(ReadError::NotFound) => Resolution::Missing(target),
            Err(error) => Resolution::Unreadable(target, error),
        }
    }

    /// Whether a symbolic link on the path from a directory to the target leads out of the
    /// workspace. Directories that both paths share were walked or named, and are trusted.
    fn escapes_by_symlink(&self, from: &Path, target: &Path) -> bool {
        let from = normalize(from);
        let out = |path: &Path| {
            self.files.link_target(path).is_some_and(|real| {
                let root = std::path::absolute(&self.root).unwrap_or_default();
                !real.starts_with(std::fs::canonicalize(&root).unwrap_or(root))
            })
        };
        target
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !from.starts_with(path))
            .any(out)
    }

    /// Whether a normalized path is inside the workspace.
    pub fn contains(&self, path: &Path) -> bool {
        if self.root.as_os_str().is_empty() {
            return !path.is_absolute() && !path.starts_with("..");
        }
        if path.is_absolute() || self.working_dir.as_os_str().is_empty() {
            return path.starts_with(&self.root);
        }
        // A path without a leading `..` stays below the working directory.
        if self.working_dir_inside && !path.starts_with("..") {
            return true;
        }
        normalize(&self.working_dir.join(path)).starts_with(&self.root)
    }
}

/// Whether a reference is not a file. Every role accepts `https://…`. Sandboxes, operators and MCP
/// servers also accept a registry id (`@owner/slug`). Agent CLIs also accept a package export
/// (`pkg#export`) or a bare slug. AIP-9 and AIP-45 contradict each other here.
fn is_external(role: RefRole, reference: &str) -> bool {
    let registry_id = reference.starts_with('@');
    reference.contains("://")
        || match role {
            RefRole::AgentCli => {
                registry_id || reference.contains('#') || !reference.contains(['/', '\\', '.'])
            }
            RefRole::Sandbox | RefRole::Operator | RefRole::Mcp => registry_id,
            _ => false,
        }
}

fn is_absolute(reference: &str) -> bool {
    let bytes = reference.as_bytes();
    reference.starts_with(['/', '~', '\\'])
        || (bytes.len() > 2
            && bytes[0].is_ascii_alphabetic()
            && bytes[1] == b':'
            && bytes[2] == b'\\')
}

/// Joins a reference to a directory and normalizes the result. In nearly every manifest only a
/// leading `./` has to be removed, which is the fast path.
fn join_reference(dir: &Path, reference: &str) -> PathBuf {
    let rest = reference.strip_prefix("./").unwrap_or(reference);
    let plain = !rest.starts_with(['.', '/'])
        && !rest.contains("/.")
        && !rest.contains("//")
        && !rest.ends_with('/');
    if plain && !rest.is_empty() && !cfg!(windows) && is_normal(dir) {
        return dir.join(rest);
    }
    normalize(&dir.join(reference))
}

fn is_normal(dir: &Path) -> bool {
    let bytes = dir.as_os_str().as_encoded_bytes();
    !bytes.starts_with(b".")
        && memchr::memmem::find(bytes, b"/.").is_none()
        && memchr::memmem::find(bytes, b"//").is_none()
}

/// Removes `.` and `..` from a path without asking the file system. A leading `..` stays.
pub fn normalize(path: &Path) -> PathBuf {
    match path.to_str() {
        Some(text) if !cfg!(windows) => normalize_text(text).into(),
        _ => normalize_parts(path),
    }
}

/// A faster `normalize_parts` for UTF-8 paths. It runs several times per file.
fn normalize_text(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    if path.starts_with('/') {
        out.push('/');
    }
    let root = out.len();
    // Number of names in `out` that a `..` can remove.
    let mut names = 0;
    // Parts are short, so a search byte by byte is faster than memchr.
    let mut rest = path;
    while !rest.is_empty() {
        let end = rest.bytes().position(|b| b == b'/').unwrap_or(rest.len());
        let part = rest.get(..end).unwrap_or(rest);
        rest = rest.get(end + 1..).unwrap_or("");
        match part {
            "" | "." => {}
            ".." if names > 0 => {
                names -= 1;
                let cut = out.bytes().rposition(|b| b == b'/').unwrap_or(0);
                out.truncate(cut.max(root));
            }
            _ => {
                names += usize::from(part != "..");
                if out.len() > root {
                    out.push('/');
                }
                out.push_str(part);
            }
        }
    }
    out
}

fn normalize_parts(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !matches!(out.components().next_back(), Some(Component::Normal(_))) {
                    out.push("..");
                } else {
                    out.pop();
                }
            }
            other => out.push(other),
        }
    }
    out
}

/// Whether two paths name the same file, without asking the file system. For example, `TOOL.md`
/// and `../../tools/x/TOOL.md` can be the same file.
pub fn same_path(a: &Path, b: &Path) -> bool {
    let (a, b) = (normalize(a), normalize(b));
    let anchor = |path: &Path| (path.is_absolute(), path.starts_with(".."));
    a == b
        || (anchor(&a) != anchor(&b)
            && match (std::path::absolute(&a), std::path::absolute(&b)) {
                (Ok(a), Ok(b)) => normalize(&a) == normalize(&b),
                _ => false,
            })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, Overlay};

    #[test]
    fn paths_are_normalized_by_text() {
        let n = |s: &str| normalize(Path::new(s)).to_string_lossy().into_owned();
        assert_eq!(n("a/./b/../c"), "a/c");
        assert_eq!(n("../a"), "../a");
        assert_eq!(n("a/../../b"), "../b");
        assert_eq!(n("/a/../b"), "/b");
    }

    proptest::proptest! {
        #[test]
        fn both_ways_to_normalize_agree(path in "(/|\\./|\\.\\./|a/|bb|\\.c|//){0,9}") {
            let slow = normalize_parts(Path::new(&path));
            proptest::prop_assert_eq!(normalize_text(&path), slow.to_string_lossy());
        }
    }

    #[test]
    fn several_paths_can_name_one_file() {
        let same = |a: &str, b: &str| same_path(Path::new(a), Path::new(b));
        assert!(same("a/b.md", "./a/../a/b.md"));
        assert!(!same("a/b.md", "a/c.md"));
        let working_dir = std::env::current_dir().unwrap();
        let name = working_dir.file_name().unwrap().to_str().unwrap();
        assert!(same("b.md", &format!("../{name}/b.md")));
        assert!(same("b.md", working_dir.join("b.md").to_str().unwrap()));
        assert!(!same("b.md", "../b.md"));
    }

    #[test]
    fn references_must_stay_inside_the_workspace() {
        let mut files = Overlay::new(&Disk);
        files
            .texts
            .insert("ws/a/A.md".into(), Some("---\nx: 1\n---\n".into()));
        files
            .texts
            .insert("ws/b/B.md".into(), Some("---\nx: 1\n---\n".into()));
        let ws = Workspace::new(&files, "ws");
        let from = ws.load(Path::new("ws/a/A.md")).unwrap();
        let acp = |text: &str| ws.resolve(&from, RefRole::Acp, text);
        assert!(acp("../b/B.md").document().is_some());
        assert!(matches!(acp("../../c.md"), Resolution::Escapes(_)));
        assert!(matches!(acp("/etc/passwd"), Resolution::Absolute));
        assert!(matches!(acp("~/x.md"), Resolution::Absolute));
        assert!(matches!(acp("./no.md"), Resolution::Missing(_)));
        assert!(matches!(acp("hermes"), Resolution::Missing(_)));
        let agent = |text: &str| ws.resolve(&from, RefRole::AgentCli, text);
        assert!(matches!(agent("hermes"), Resolution::External));
        assert!(matches!(agent("@a/b#c"), Resolution::External));
        assert!(matches!(
            agent("./hermes/AGENT-CLI.md"),
            Resolution::Missing(_)
        ));
    }
}
