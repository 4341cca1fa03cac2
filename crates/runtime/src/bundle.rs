//! Discovery: finds and reads the manifest that the caller names.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::discover::{Catalog, NAMES};
use crate::error::{Code, Error};
use crate::home::Home;
use agentproto_manifest::views::{AgentCli, Cli, View};
use agentproto_manifest::{Disk, Doctype, Document, Node, Span, Style, Value, Workspace};
use agentproto_sandbox::policy::ManifestPosition;
use agentproto_text::closest_of;

/// What a command accepts as its target. It decides what error messages suggest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// An AGENT-CLI.md.
    Agent,
    /// A CLI.md, or a TOOL.md of one.
    Tool,
    /// An AGENT-CLI.md or a CLI.md.
    Any,
}

impl TargetKind {
    fn noun(self) -> &'static str {
        match self {
            TargetKind::Agent => "agent",
            TargetKind::Tool => "tool",
            TargetKind::Any => "agent or tool",
        }
    }

    /// The manifests that a directory may contain.
    fn manifests(self) -> &'static str {
        match self {
            TargetKind::Agent => "AGENT-CLI.md",
            TargetKind::Tool => "CLI.md",
            TargetKind::Any => "AGENT-CLI.md or CLI.md",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            TargetKind::Agent => "pass an AGENT-CLI.md, or a directory that contains one",
            TargetKind::Tool => "pass a CLI.md, a TOOL.md, or a directory that contains a CLI.md",
            TargetKind::Any => "pass an AGENT-CLI.md, a CLI.md, or a directory that contains one",
        }
    }
}

/// What to do about an unknown name: the most similar one, or where names come from.
fn unknown_hint(target: &str, kind: TargetKind, adapters: &[PathBuf], home: &Home) -> String {
    let own = home.path("adapters");
    let searched: Vec<String> = adapters
        .iter()
        .chain([&own])
        .map(|dir| format!("`{}`", dir.display()))
        .collect();
    // All built-in bundles are agents.
    let built_in = match kind {
        TargetKind::Tool => Vec::new(),
        TargetKind::Agent | TargetKind::Any => crate::built_in::names(),
    };
    let mut known: Vec<String> = built_in.iter().map(|name| (*name).to_owned()).collect();
    known.extend(Bundle::installed_names(adapters, home));
    match closest_of(target, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if built_in.is_empty() => format!(
            "no bundle with this id in {}; give the path of its directory, or use `--adapters DIR`",
            searched.join(", ")
        ),
        None => format!(
            "no bundle with this id in {}; give the path of its directory, use `--adapters DIR`, or use a built-in agent: {}",
            searched.join(", "),
            built_in.join(", ")
        ),
    }
}

static EMPTY_NODE: Node = Node {
    span: Span { start: 0, end: 0 },
    style: Style::Plain,
    value: Value::Null,
};

/// A manifest and its directory.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// The parsed manifest.
    pub manifest: Arc<Document>,
    /// Absolute. Paths in the manifest are relative to it.
    pub dir: PathBuf,
    /// Whether its files were unpacked from this binary.
    pub built_in: bool,
}

impl Bundle {
    /// Reads one manifest: an AGENT-CLI.md, a CLI.md, or a file with the same shape.
    pub fn load(path: &Path) -> Result<Bundle, Error> {
        Bundle::load_kind(path, TargetKind::Any)
    }

    fn load_kind(path: &Path, kind: TargetKind) -> Result<Bundle, Error> {
        let unreadable = |why: String| {
            let what = format!("{}: {why}", path.display());
            Error::new(Code::ManifestUnreadable, what)
        };
        if !path.exists() {
            let what = format!("`{}` does not exist", path.display());
            return Err(Error::new(Code::ManifestUnreadable, what).hint(kind.hint()));
        }
        let path = std::path::absolute(path).map_err(|e| unreadable(e.to_string()))?;
        let workspace = Workspace::new(&Disk, "/");
        let manifest = workspace
            .load(&path)
            .map_err(|e| unreadable(e.to_string()))?;
        if let Some(problem) = manifest.problems.first() {
            return Err(invalid(&manifest, problem.span, &problem.explained()));
        }
        match manifest.view() {
            Some(View::AgentCli(_) | View::Cli(_)) => {}
            _ => {
                let what = format!(
                    "{}: not an AGENT-CLI.md (AIP-45) or a CLI.md (AIP-29)",
                    path.display()
                );
                return Err(Error::new(Code::ManifestInvalid, what).hint(kind.hint()));
            }
        }
        Ok(Bundle {
            dir: manifest.dir().to_owned(),
            manifest,
            built_in: false,
        })
    }

    /// Finds a target: a path, or a slug. A slug is looked up in the given directories, then in the
    /// home's `adapters`, then among the bundles in this binary (A45-LIFE-01).
    pub fn discover(target: &str, adapters: &[PathBuf], home: &Home) -> Result<Bundle, Error> {
        Bundle::discover_kind(target, TargetKind::Any, adapters, home)
    }

    /// Like `discover`. The error for a target that is not found suggests only this kind.
    pub fn discover_kind(
        target: &str,
        kind: TargetKind,
        adapters: &[PathBuf],
        home: &Home,
    ) -> Result<Bundle, Error> {
        let path = Path::new(target);
        if target.contains('/') || target.ends_with(".md") || target == "." || target == ".." {
            return Bundle::at(path, kind);
        }
        if let Some(bundle) = Bundle::installed(target, adapters, home)? {
            return Ok(bundle);
        }
        if let Some(bundle) = Bundle::bundled(target, home)? {
            return Ok(bundle);
        }
        if path.is_dir() {
            return Bundle::at(path, kind);
        }
        let what = format!("unknown {} `{target}`", kind.noun());
        Err(Error::new(Code::TargetUnknown, what).hint(unknown_hint(target, kind, adapters, home)))
    }

    /// Finds a bundle by its id, or by `id@major`, in the given directories and in the home's
    /// `adapters`. The first directory with a match is used. The depth and the names of folders do
    /// not matter (A29-FILE-05). Without a match, the folder with this name is used.
    pub fn installed(
        slug: &str,
        adapters: &[PathBuf],
        home: &Home,
    ) -> Result<Option<Bundle>, Error> {
        let own = home.path("adapters");
        for dir in adapters.iter().chain([&own]) {
            match Catalog::of(dir).find(slug, dir) {
                Ok(Some(manifest)) => return Bundle::load(manifest).map(Some),
                Ok(None) => {}
                // The search was too large, but the usual place is known.
                Err(error) if error.code == Code::TargetUnknown && dir.join(slug).is_dir() => {}
                Err(error) => return Err(error),
            }
            let folder = dir.join(slug);
            if folder.is_dir() {
                return Bundle::at(&folder, TargetKind::Any).map(Some);
            }
        }
        Ok(None)
    }

    /// Names of all bundles that `installed` finds: their ids, and folders whose manifest cannot be
    /// read.
    pub fn installed_names(adapters: &[PathBuf], home: &Home) -> Vec<String> {
        let all = Bundle::installed_manifests(adapters, home);
        all.into_keys().collect()
    }

    /// Names of all bundles that `installed` finds, with the paths of their manifests. A folder whose
    /// manifest cannot be read, and an id of several bundles, have no path.
    pub fn installed_manifests(
        adapters: &[PathBuf],
        home: &Home,
    ) -> BTreeMap<String, Option<PathBuf>> {
        let own = home.path("adapters");
        let mut all = BTreeMap::new();
        for dir in adapters.iter().chain([&own]) {
            let bundles = Catalog::of(dir).bundles;
            let is_known = |path: &Path| bundles.iter().any(|b| b.manifest.starts_with(path));
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
            let folders = entries
                .map(|entry| entry.path())
                .filter(|path| path.is_dir());
            let unread = folders.filter(|path| !is_known(path));
            let unread = unread.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
            let mut found: BTreeMap<String, Option<PathBuf>> =
                unread.map(|name| (name, None)).collect();
            let mut ids = HashSet::new();
            for bundle in bundles {
                let is_first = ids.insert(bundle.id.clone());
                found.insert(bundle.id, is_first.then_some(bundle.manifest));
            }
            for (name, manifest) in found {
                all.entry(name).or_insert(manifest);
            }
        }
        all.retain(|name, _| !name.starts_with('.'));
        all
    }

    /// Finds a bundle in this binary.
    pub fn bundled(slug: &str, home: &Home) -> Result<Option<Bundle>, Error> {
        let Some(dir) = crate::built_in::unpack(slug, home)? else {
            return Ok(None);
        };
        let mut bundle = Bundle::at(&dir, TargetKind::Any)?;
        bundle.built_in = true;
        Ok(Some(bundle))
    }

    /// Loads a manifest file, or the manifest of a directory.
    fn at(path: &Path, kind: TargetKind) -> Result<Bundle, Error> {
        if !path.is_dir() {
            return Bundle::load_kind(path, kind);
        }
        let named = NAMES.map(|name| path.join(name));
        if let Some(file) = named.into_iter().find(|file| file.is_file()) {
            return Bundle::load(&file);
        }
        // An adapter's manifest may have another name, such as `HERMES.md`. It is recognized by its
        // shape if it is the only one.
        let mut found: Vec<PathBuf> = Vec::new();
        for name in Workspace::new(&Disk, "/").manifests_in(path) {
            let file = path.join(&name);
            if name.ends_with(".md")
                && let Ok(doc) = Workspace::new(&Disk, "/").load(&file)
                && matches!(doc.doctype, Some(Doctype::AgentCli))
            {
                found.push(file);
            }
        }
        match found.as_slice() {
            [only] => Bundle::load(only),
            [] => Err(Error::new(
                Code::TargetUnknown,
                format!("no {} in `{}`", kind.manifests(), path.display()),
            )
            .hint("pass a directory that contains one, or the file itself")),
            several => Err(Error::new(
                Code::TargetUnknown,
                format!("`{}` contains {} manifests", path.display(), several.len()),
            )
            .hint("pass one of the files")),
        }
    }

    /// Files of the bundle that it runs: its binary, scripts that it passes to interpreters, and
    /// vendored programs. They may be missing.
    pub fn own_programs(&self) -> Vec<PathBuf> {
        let root = self.root();
        let list = |path: &[&str]| root.at(path).map_or(&[][..], Node::items);
        let installs = list(&["install"]).iter();
        let words = list(&["bin_args"])
            .iter()
            .chain(list(&["metadata", "agentproto", "adapter_exec"]))
            .chain(root.get("bin"))
            .chain(installs.filter_map(|entry| entry.get("path")));
        let files = words
            .filter_map(Node::as_str)
            .map(|word| self.dir.join(word));
        files.filter(|file| file.is_file()).collect()
    }

    /// Path of the manifest file.
    pub fn path(&self) -> &Path {
        &self.manifest.path
    }

    /// The fields that AIP-29 and AIP-45 share: id, bin, install, version_check, setup, auth and
    /// requires.
    pub fn common(&self) -> Cli<'_> {
        Cli(self.root())
    }

    /// The agent fields, or `None` if the manifest is not an AGENT-CLI.md.
    pub fn agent(&self) -> Option<AgentCli<'_>> {
        match self.manifest.view() {
            Some(View::AgentCli(agent)) => Some(agent),
            _ => None,
        }
    }

    /// Root of the manifest's frontmatter.
    pub fn root(&self) -> &Node {
        // `load` rejects a manifest without a root, so the fallback is never used.
        self.manifest.root.as_ref().unwrap_or(&EMPTY_NODE)
    }

    /// `id@major` (A29-ID-03 and following): the key of this bundle in ledgers and caches.
    pub fn identity(&self) -> Result<String, Error> {
        let id = self.text("id")?;
        let version = self.text("version")?;
        let major = version.split('.').next().unwrap_or_default();
        Ok(format!("{id}@{major}"))
    }

    /// A required text field at the top level.
    pub fn text(&self, key: &str) -> Result<&str, Error> {
        match self.root().get(key) {
            Some(node) => node.as_str().ok_or_else(|| {
                self.invalid(
                    node,
                    &format!("`{key}` must be a string, found {}", found(node)),
                )
            }),
            None => Err(self.invalid(self.root(), &format!("`{key}` is missing"))),
        }
    }

    /// An error at a place in the manifest.
    pub fn invalid(&self, node: &Node, what: &str) -> Error {
        invalid(&self.manifest, node.span, what)
    }

    /// Like `invalid`, with another code.
    pub fn error_at(&self, code: Code, node: &Node, what: &str) -> Error {
        let at = ManifestPosition::new(&self.manifest, node.span);
        Error::new(code, format!("{at}: {what}"))
    }
}

fn invalid(doc: &Document, span: Span, what: &str) -> Error {
    let at = ManifestPosition::new(doc, span);
    Error::new(Code::ManifestInvalid, format!("{at}: {what}")).hint(lint_hint(doc))
}

/// The command that lists every problem of a manifest.
pub fn lint_hint(doc: &Document) -> String {
    let path = doc.path.display();
    format!("run `agentproto lint {path}` to see every problem")
}

/// The type of a node with its article, as `lint` names it.
fn found(node: &Node) -> String {
    match node.type_name() {
        "integer" => "an integer".to_owned(),
        "array" => "a list".to_owned(),
        "object" => "a mapping".to_owned(),
        "null" => "null".to_owned(),
        other => format!("a {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_agent_gets_the_closest_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let (own, more) = (dir.path().join("home"), dir.path().join("more"));
        for adapter in [own.join("adapters/heron"), more.join("kingfisher")] {
            std::fs::create_dir_all(adapter).expect("made");
        }
        let home = Home::new(&own);
        let hint = |name: &str| {
            let adapters = std::slice::from_ref(&more);
            let error = Bundle::discover_kind(name, TargetKind::Agent, adapters, &home);
            let error = error.expect_err("unknown");
            assert_eq!(error.code, Code::TargetUnknown);
            assert_eq!(error.message, format!("unknown agent `{name}`"));
            error.hint.expect("a hint")
        };
        assert_eq!(hint("mock-apc"), "did you mean `mock-acp`?");
        assert_eq!(hint("herron"), "did you mean `heron`?");
        assert_eq!(hint("kingfischer"), "did you mean `kingfisher`?");
        let far = hint("zebra");
        assert!(far.contains("give the path of its directory"), "{far}");
        assert!(far.contains("mock-acp"), "{far}");
        // The hint names every directory that was searched.
        for searched in [more.clone(), own.join("adapters")] {
            assert!(far.contains(&searched.display().to_string()), "{far}");
        }
    }
}
