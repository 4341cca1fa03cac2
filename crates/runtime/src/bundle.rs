//! Discover: from what the caller names to a manifest that was read whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fault::{Code, Fault};
use crate::home::Home;
use agentproto_manifest::views::{AgentCli, Cli, View};
use agentproto_manifest::{Disk, Doctype, Document, Node, Span, Style, Value, Workspace};
use agentproto_sandbox::policy::Place;

/// Names of the manifest in a bundle directory, the first that is there.
const NAMES: [&str; 2] = ["AGENT-CLI.md", "CLI.md"];

static NOTHING: Node = Node {
    span: Span { start: 0, end: 0 },
    style: Style::Plain,
    value: Value::Null,
};

/// A manifest with its directory.
#[derive(Clone, Debug)]
pub struct Bundle {
    pub manifest: Arc<Document>,
    /// Absolute; paths in the manifest are relative to it.
    pub dir: PathBuf,
    /// Its files come out of this binary.
    pub built_in: bool,
}

impl Bundle {
    /// Reads one manifest: AGENT-CLI.md or CLI.md, or what has their shape.
    pub fn load(path: &Path) -> Result<Bundle, Fault> {
        let unread = |why: String| {
            let what = format!("{}: {why}", path.display());
            Fault::new(Code::ManifestUnreadable, what)
        };
        let path = std::path::absolute(path).map_err(|e| unread(e.to_string()))?;
        let workspace = Workspace::new(&Disk, "/");
        let manifest = workspace.load(&path).map_err(|e| unread(e.to_string()))?;
        if let Some(problem) = manifest.problems.first() {
            return Err(invalid(&manifest, problem.span, &problem.message));
        }
        match manifest.view() {
            Some(View::AgentCli(_) | View::Cli(_)) => {}
            _ => {
                let what = format!(
                    "{}: this is neither an AGENT-CLI.md (AIP-45) nor a CLI.md (AIP-29)",
                    path.display()
                );
                return Err(Fault::new(Code::ManifestInvalid, what)
                    .hint("name a bundle directory, or its AGENT-CLI.md"));
            }
        }
        Ok(Bundle {
            dir: manifest.dir().to_owned(),
            manifest,
            built_in: false,
        })
    }

    /// Looks a target up: a path, or a slug in the given directories, the home's own, and
    /// among the bundles of this binary (A45-LIFE-01).
    pub fn discover(target: &str, adapters: &[PathBuf], home: &Home) -> Result<Bundle, Fault> {
        let path = Path::new(target);
        if target.contains('/') || target.ends_with(".md") || target == "." || target == ".." {
            return Bundle::at(path);
        }
        if let Some(bundle) = Bundle::installed(target, adapters, home)? {
            return Ok(bundle);
        }
        if let Some(bundle) = Bundle::bundled(target, home)? {
            return Ok(bundle);
        }
        if path.is_dir() {
            return Bundle::at(path);
        }
        Err(
            Fault::new(Code::TargetUnknown, format!("there is no agent `{target}`")).hint(format!(
                "looked in {}; give `--adapters DIR`, a path, or one of the bundled {}",
                home.path("adapters").display(),
                crate::built_in::names().join(", ")
            )),
        )
    }

    /// An adapter by its slug, in the given directories and the home's own.
    pub fn installed(
        slug: &str,
        adapters: &[PathBuf],
        home: &Home,
    ) -> Result<Option<Bundle>, Fault> {
        let own = home.path("adapters");
        let mut places = adapters.iter().chain([&own]).map(|dir| dir.join(slug));
        let found = places.find(|candidate| candidate.is_dir());
        found.map(|dir| Bundle::at(&dir)).transpose()
    }

    /// One of the bundles of this binary.
    pub fn bundled(slug: &str, home: &Home) -> Result<Option<Bundle>, Fault> {
        let Some(dir) = crate::built_in::unpack(slug, home)? else {
            return Ok(None);
        };
        let mut bundle = Bundle::at(&dir)?;
        bundle.built_in = true;
        Ok(Some(bundle))
    }

    /// A manifest file or a directory with one.
    fn at(path: &Path) -> Result<Bundle, Fault> {
        if !path.is_dir() {
            return Bundle::load(path);
        }
        let named = NAMES.map(|name| path.join(name));
        if let Some(file) = named.into_iter().find(|file| file.is_file()) {
            return Bundle::load(&file);
        }
        // `HERMES.md`: an adapter's manifest is known by its shape, where it is the only one.
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
            [] => Err(Fault::new(
                Code::TargetUnknown,
                format!("there is no AGENT-CLI.md or CLI.md in `{}`", path.display()),
            )),
            several => Err(Fault::new(
                Code::TargetUnknown,
                format!("`{}` holds {} manifests", path.display(), several.len()),
            )
            .hint("name the file")),
        }
    }

    pub fn path(&self) -> &Path {
        &self.manifest.path
    }

    /// The fields that AIP-29 and AIP-45 share: id, bin, install, version_check, setup, auth,
    /// requires.
    pub fn common(&self) -> Cli<'_> {
        Cli(self.root())
    }

    /// Of an AGENT-CLI.md.
    pub fn agent(&self) -> Option<AgentCli<'_>> {
        match self.manifest.view() {
            Some(View::AgentCli(agent)) => Some(agent),
            _ => None,
        }
    }

    pub fn root(&self) -> &Node {
        // `load` refuses a manifest without one.
        self.manifest.root.as_ref().unwrap_or(&NOTHING)
    }

    /// The manifest's `id`, by which ledgers and caches know it, with its major version
    /// (A29-ID-03 and its neighbours: id@major).
    pub fn identity(&self) -> Result<String, Fault> {
        let id = self.text("id")?;
        let version = self.text("version")?;
        let major = version.split('.').next().unwrap_or_default();
        Ok(format!("{id}@{major}"))
    }

    /// A text field at the top that has to be there.
    pub fn text(&self, key: &str) -> Result<&str, Fault> {
        match self.root().get(key) {
            Some(node) => node.as_str().ok_or_else(|| {
                self.invalid(
                    node,
                    &format!("`{key}` must be a text, not {}", node.type_name()),
                )
            }),
            None => Err(self.invalid(self.root(), &format!("`{key}` is missing"))),
        }
    }

    /// A fault at a place of the manifest.
    pub fn invalid(&self, node: &Node, what: &str) -> Fault {
        invalid(&self.manifest, node.span, what)
    }

    /// As `invalid`, with another code.
    pub fn fault(&self, code: Code, node: &Node, what: &str) -> Fault {
        let at = Place::new(&self.manifest, node.span);
        Fault::new(code, format!("{at}: {what}"))
    }
}

fn invalid(doc: &Document, span: Span, what: &str) -> Fault {
    let at = Place::new(doc, span);
    Fault::new(Code::ManifestInvalid, format!("{at}: {what}"))
        .hint("`agentproto lint` says what the manifest needs")
}
