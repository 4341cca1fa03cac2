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

/// Documents kept for the references of their neighbours. Bundles are read one after the
/// other, so a small memory serves nearly every reference and a large run stays small.
/// The oldest goes first, so that its memory is used again while it is warm.
const CACHE_LIMIT: usize = 20;

/// What a reference leads to.
#[derive(Clone, Debug)]
pub enum Resolution {
    Document(Arc<Document>),
    Missing(PathBuf),
    Unreadable(PathBuf, ReadError),
    /// `/etc/x`, `~/x`, `C:\x`: not relative to the workspace. Never read.
    Absolute,
    /// Leads out of the workspace. Never read.
    Escapes(PathBuf),
    /// A registry slug, a package export or a URL: nothing that a file can answer.
    External,
}

impl Resolution {
    pub fn document(&self) -> Option<&Arc<Document>> {
        match self {
            Resolution::Document(doc) => Some(doc),
            _ => None,
        }
    }
}

/// One reader of manifests. Not shared between threads; each has its own.
pub struct Workspace<'f> {
    pub files: &'f dyn FileSource,
    known: Option<&'f dyn KnownFiles>,
    root: PathBuf,
    /// What relative paths are relative to, where the root is absolute.
    here: PathBuf,
    here_inside: bool,
    /// By the path's bytes: hashing paths component by component is slow.
    cache: RefCell<FxHashMap<OsString, Result<Arc<Document>, ReadError>>>,
    order: RefCell<VecDeque<OsString>>,
}

impl<'f> Workspace<'f> {
    /// `root` is the directory that references may not leave.
    pub fn new(files: &'f dyn FileSource, root: impl Into<PathBuf>) -> Self {
        let root = normalize(&root.into());
        let here = if root.is_absolute() {
            std::env::current_dir().unwrap_or_default()
        } else {
            PathBuf::new()
        };
        Workspace {
            files,
            known: None,
            here_inside: here.starts_with(&root),
            root,
            here,
            cache: RefCell::default(),
            order: RefCell::default(),
        }
    }

    /// Spares the disk questions about files that are known already.
    pub fn knowing(mut self, known: &'f dyn KnownFiles) -> Self {
        self.known = Some(known);
        self
    }

    /// Names of the Markdown files in a directory and of its directories; others may be
    /// among them.
    pub fn manifests_in(&self, dir: &Path) -> Vec<String> {
        self.known
            .and_then(|known| known.list(dir))
            .unwrap_or_else(|| self.files.list(dir))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

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

    /// Follows a reference as written in `from`.
    pub fn resolve(&self, from: &Document, role: RefRole, reference: &str) -> Resolution {
        if is_external(role, reference) {
            return Resolution::External;
        }
        if is_absolute(reference) {
            return Resolution::Absolute;
        }
        let target = beside(from.dir(), reference);
        let trusted = self.known.is_some_and(|known| known.contains(&target));
        if !self.contains(&target) || (!trusted && self.leaves_by_link(from.dir(), &target)) {
            return Resolution::Escapes(target);
        }
        match self.load(&target) {
            Ok(doc) => Resolution::Document(doc),
            Err(ReadError::NotFound) => Resolution::Missing(target),
            Err(error) => Resolution::Unreadable(target, error),
        }
    }

    /// Whether a link on the way from a directory to the target leads out of the workspace.
    /// What both have in common was walked or named, and is trusted.
    fn leaves_by_link(&self, from: &Path, target: &Path) -> bool {
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

    /// Whether a normalised path lies inside the workspace.
    pub fn contains(&self, path: &Path) -> bool {
        if self.root.as_os_str().is_empty() {
            return !path.is_absolute() && !path.starts_with("..");
        }
        if path.is_absolute() || self.here.as_os_str().is_empty() {
            return path.starts_with(&self.root);
        }
        // A path that never goes up stays below where we are.
        if self.here_inside && !path.starts_with("..") {
            return true;
        }
        normalize(&self.here.join(path)).starts_with(&self.root)
    }
}

/// What a file cannot answer: `https://…`, for sandboxes and operators a registry id
/// (`@owner/slug`), for agent CLIs also a package export (`pkg#export`) or a bare slug (C22).
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

/// A reference joined to the directory it is relative to, without `.` and `..`. Both are
/// already normal in nearly every manifest but for one leading `./`.
fn beside(dir: &Path, reference: &str) -> PathBuf {
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

/// Resolves `.` and `..` by the text alone; a leading `..` stays.
pub fn normalize(path: &Path) -> PathBuf {
    match path.to_str() {
        Some(text) if !cfg!(windows) => normalize_text(text).into(),
        _ => normalize_parts(path),
    }
}

/// `normalize_parts` for the paths that are text: several for each file of a run.
fn normalize_text(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    if path.starts_with('/') {
        out.push('/');
    }
    let root = out.len();
    // Names in `out` that a `..` may take back.
    let mut names = 0;
    // Parts are short: a search that looks at each byte in turn beats one that is set up.
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

/// Whether two paths name one file, by their texts. `TOOL.md` seen from its own folder and
/// `../../tools/x/TOOL.md` seen through a file above it may be the same.
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
    fn paths_are_normalised_by_text() {
        let n = |s: &str| normalize(Path::new(s)).to_string_lossy().into_owned();
        assert_eq!(n("a/./b/../c"), "a/c");
        assert_eq!(n("../a"), "../a");
        assert_eq!(n("a/../../b"), "../b");
        assert_eq!(n("/a/../b"), "/b");
    }

    proptest::proptest! {
        #[test]
        fn both_ways_to_normalise_agree(path in "(/|\\./|\\.\\./|a/|bb|\\.c|//){0,9}") {
            let slow = normalize_parts(Path::new(&path));
            proptest::prop_assert_eq!(normalize_text(&path), slow.to_string_lossy());
        }
    }

    #[test]
    fn one_file_has_many_paths() {
        let same = |a: &str, b: &str| same_path(Path::new(a), Path::new(b));
        assert!(same("a/b.md", "./a/../a/b.md"));
        assert!(!same("a/b.md", "a/c.md"));
        let here = std::env::current_dir().unwrap();
        let name = here.file_name().unwrap().to_str().unwrap();
        assert!(same("b.md", &format!("../{name}/b.md")));
        assert!(same("b.md", here.join("b.md").to_str().unwrap()));
        assert!(!same("b.md", "../b.md"));
    }

    #[test]
    fn references_stay_inside() {
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
