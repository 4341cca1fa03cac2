//! The manifest that declares a sandbox, and the position of the block in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::SandboxSpec;
use super::block::Block;
use super::error::{ManifestPosition, PolicyError};
use super::runner::Runner;
use crate::clause::Clause;
use agentproto_manifest::{
    Disk, Doctype, Document, FileSource, Node, RefRole, Resolution, Workspace, normalize, ref_sites,
};

/// Keys that identify an AIP-29 block if the file name does not.
const AIP29_KEYS: [&str; 4] = ["network", "fs", "exec", "tty"];
/// Maximum number of directories above a TOOL.md that are searched for its CLI.md.
const MAX_PARENT_LEVELS: usize = 6;

/// A sandbox block, and the documents that belong to it.
#[derive(Clone, Debug)]
pub struct SandboxManifest {
    /// The spec that the block follows.
    pub spec: SandboxSpec,
    /// The given file: CLI.md, AGENT-CLI.md, SANDBOX.md, TOOL.md or plain YAML.
    pub document: Arc<Document>,
    /// The file that contains the block, which may be a referenced one.
    block_document: Arc<Document>,
    pointer: String,
    /// A TOOL.md whose own block narrows the bundle's.
    tool: Option<Arc<Document>>,
    /// The document with `auth.state`, if there is one.
    bundle: Option<Arc<Document>>,
    /// The `runner` of the bundle.
    pub(super) runner: Option<Runner>,
}

impl SandboxManifest {
    /// Reads a file and finds its sandbox.
    pub fn load(path: &Path) -> Result<SandboxManifest, PolicyError> {
        SandboxManifest::load_from(&Disk, path)
    }

    /// Like `load`, from any source of files.
    pub fn load_from(files: &dyn FileSource, path: &Path) -> Result<SandboxManifest, PolicyError> {
        let unreadable = |why: String| PolicyError::Unreadable {
            path: path.to_owned(),
            why,
        };
        let path = std::path::absolute(path).map_err(|e| unreadable(e.to_string()))?;
        if path.extension().is_none_or(|e| e != "md") {
            let bytes = files.read(&path).map_err(|e| unreadable(e.to_string()))?;
            return load_plain(Arc::new(Document::parse_yaml(&path, bytes)));
        }
        let workspace = Workspace::new(files, "/");
        let doc = workspace
            .load(&path)
            .map_err(|e| unreadable(e.to_string()))?;
        find(&workspace, doc)
    }

    /// Reads a CLI.md and one of its tools, whose own block narrows the bundle's. Whatever the tool
    /// says about its parent, this bundle is the one that is narrowed.
    pub fn load_tool(cli: &Path, tool: &Path) -> Result<SandboxManifest, PolicyError> {
        let workspace = Workspace::new(&Disk, "/");
        let read = |path: &Path| {
            let unreadable = |why: String| PolicyError::Unreadable {
                path: path.to_owned(),
                why,
            };
            let path = std::path::absolute(path).map_err(|e| unreadable(e.to_string()))?;
            let doc = workspace
                .load(&path)
                .map_err(|e| unreadable(e.to_string()))?;
            check_readable(&doc)?;
            Ok::<_, PolicyError>(doc)
        };
        bundle(&workspace, &read(cli)?, Some(read(tool)?))
    }

    /// The CLI.md or AGENT-CLI.md that the block belongs to.
    pub fn bundle(&self) -> Option<&Path> {
        self.bundle.as_ref().map(|doc| doc.path.as_path())
    }

    /// The block itself.
    pub(super) fn block(&self) -> Result<Block<'_>, PolicyError> {
        block_at(&self.block_document, &self.pointer)
    }

    /// The block of the tool, if it has one.
    pub(super) fn tool_block(&self) -> Result<Option<Block<'_>>, PolicyError> {
        let Some(tool) = &self.tool else {
            return Ok(None);
        };
        match tool.root.as_ref().and_then(|root| root.get("sandbox")) {
            Some(_) => block_at(tool, "/sandbox").map(Some),
            None => Ok(None),
        }
    }

    /// `auth` of the manifest.
    pub(super) fn auth(&self) -> Result<Option<Block<'_>>, PolicyError> {
        let Some(doc) = &self.bundle else {
            return Ok(None);
        };
        match &doc.root {
            Some(root) => Block::new(doc, root, "")?.block("auth"),
            None => Ok(None),
        }
    }

    /// The names by which the program calls itself: id, name, and the file name of its binary.
    pub(super) fn program_names(&self) -> Vec<String> {
        let root = self.bundle.as_ref().and_then(|doc| doc.root.as_ref());
        let texts = ["id", "name", "bin"].into_iter();
        let texts = texts.filter_map(|key| root?.get(key)?.as_str());
        let names = texts.filter_map(|text| Path::new(text).file_name()?.to_str());
        names.map(str::to_owned).collect()
    }

    /// `runner.engine` of the bundle, or `None` without a `runner` (AIP-17).
    pub fn runner_engine(&self) -> Result<Option<String>, PolicyError> {
        self.runner.as_ref().map(Runner::engine).transpose()
    }

    /// What the bundle's `runner` declares and this host cannot provide, with the reasons.
    pub fn unsupported_runner(&self) -> Result<Vec<(Clause, String)>, PolicyError> {
        match &self.runner {
            Some(runner) => runner.unsupported(),
            None => Ok(Vec::new()),
        }
    }

    /// `runner.limits.timeout_ms` of the bundle (AIP-17).
    pub fn runner_timeout(&self) -> Result<Option<Duration>, PolicyError> {
        match &self.runner {
            Some(runner) => runner.timeout(),
            None => Ok(None),
        }
    }

    /// The directory that paths of the manifest are relative to.
    pub fn dir(&self) -> PathBuf {
        self.document.dir().to_owned()
    }

    /// The files that the policy was read from.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let all = [
            Some(&self.document),
            Some(&self.block_document),
            self.tool.as_ref(),
            self.bundle.as_ref(),
        ];
        all.into_iter().flatten().map(|doc| doc.path.as_path())
    }
}

/// Maximum number of documents that references are followed to.
const MAX_DOCUMENTS: usize = 200;

impl SandboxManifest {
    /// The files that the policy was read from, and all files that they refer to, also missing
    /// ones. Each decides about later runs.
    pub(super) fn all_files(&self) -> Vec<PathBuf> {
        let workspace = Workspace::new(&Disk, "/");
        let known = [
            Some(&self.document),
            Some(&self.block_document),
            self.tool.as_ref(),
            self.bundle.as_ref(),
        ];
        let mut pending: Vec<Arc<Document>> = known.into_iter().flatten().cloned().collect();
        let mut files: Vec<PathBuf> = pending.iter().map(|doc| doc.path.clone()).collect();
        let mut read: Vec<PathBuf> = Vec::new();
        while let Some(doc) = pending.pop() {
            if read.contains(&doc.path) || read.len() >= MAX_DOCUMENTS {
                continue;
            }
            read.push(doc.path.clone());
            for site in ref_sites(&doc) {
                if site.text.contains("://") || site.text.starts_with('@') {
                    continue;
                }
                files.push(normalize(&doc.dir().join(site.text)));
                // A tool or a list of secrets refers to nothing else.
                if !matches!(site.role, RefRole::Tool | RefRole::Secrets) {
                    let found = workspace.resolve(&doc, site.role, site.text);
                    pending.extend(found.document().cloned());
                }
            }
        }
        files.sort();
        files.dedup();
        files
    }

    /// Directories that were searched for the manifest. A file that is created there could take
    /// precedence.
    pub(super) fn searched_directories(&self) -> Vec<PathBuf> {
        let end = self.block_document.dir().to_owned();
        let own = self.document.dir();
        let mut dirs: Vec<PathBuf> = vec![end.clone()];
        let between = own.ancestors().take(MAX_PARENT_LEVELS);
        let between = between.take_while(|dir| *dir != end && dir.starts_with(&end));
        dirs.extend(between.map(Path::to_owned));
        if !dirs.iter().any(|dir| dir == own) {
            dirs.push(own.to_owned());
        }
        dirs
    }
}

fn block_at<'d>(doc: &'d Document, pointer: &str) -> Result<Block<'d>, PolicyError> {
    match doc.at_pointer(pointer) {
        Some(node) => Block::new(doc, node, pointer),
        None => Err(no_sandbox(doc)),
    }
}

fn no_sandbox(doc: &Document) -> PolicyError {
    PolicyError::Invalid {
        at: ManifestPosition::new(
            doc,
            doc.frontmatter.map_or_else(Default::default, |f| f.open),
        ),
        what: "the `sandbox` block is missing, so nothing is allowed to run".into(),
    }
}

/// Rejects a file with any problem, because its meaning is unknown.
fn check_readable(doc: &Document) -> Result<&Node, PolicyError> {
    if let Some(problem) = doc.problems.first() {
        return Err(PolicyError::Invalid {
            at: ManifestPosition::new(doc, problem.span),
            what: problem.explained(),
        });
    }
    doc.root.as_ref().ok_or_else(|| no_sandbox(doc))
}

/// A YAML file that contains only a block, or a `sandbox` key with one.
fn load_plain(doc: Arc<Document>) -> Result<SandboxManifest, PolicyError> {
    let root = check_readable(&doc)?;
    let pointer = if root.has("sandbox") { "/sandbox" } else { "" };
    let block = block_at(&doc, pointer)?;
    let spec = spec_of(&block)?;
    Ok(SandboxManifest {
        spec,
        document: doc.clone(),
        pointer: pointer.to_owned(),
        tool: None,
        bundle: None,
        runner: None,
        block_document: doc,
    })
}

fn find(workspace: &Workspace, doc: Arc<Document>) -> Result<SandboxManifest, PolicyError> {
    let root = check_readable(&doc)?;
    match doc.doctype {
        Some(Doctype::Sandbox) => Ok(SandboxManifest {
            spec: SandboxSpec::Aip36,
            document: doc.clone(),
            block_document: doc,
            pointer: String::new(),
            tool: None,
            bundle: None,
            runner: None,
        }),
        Some(Doctype::Cli) => bundle(workspace, &doc, None),
        Some(Doctype::AgentCli) => agent(workspace, &doc, root),
        Some(Doctype::Tool) => {
            let cli = parent_of_tool(workspace, &doc, root)?;
            check_readable(&cli)?;
            bundle(workspace, &cli, Some(doc.clone()))
        }
        // A file with any other name: the keys of the block identify it.
        _ => load_plain(doc.clone()),
    }
}

fn bundle(
    workspace: &Workspace,
    cli: &Arc<Document>,
    tool: Option<Arc<Document>>,
) -> Result<SandboxManifest, PolicyError> {
    block_at(cli, "/sandbox")?;
    Ok(SandboxManifest {
        spec: SandboxSpec::Aip29,
        document: tool.clone().unwrap_or_else(|| cli.clone()),
        block_document: cli.clone(),
        pointer: "/sandbox".into(),
        tool,
        bundle: Some(cli.clone()),
        runner: Runner::find(workspace, cli)?,
    })
}

/// The document at `runner.cli`, or the nearest CLI.md above.
fn parent_of_tool(
    workspace: &Workspace,
    tool: &Arc<Document>,
    root: &Node,
) -> Result<Arc<Document>, PolicyError> {
    let named = root.at(&["runner", "cli"]);
    if let Some(node) = named
        && let Some(reference) = node.as_str()
    {
        let found = workspace.resolve(tool, RefRole::Cli, reference);
        if let Some(doc) = found.document() {
            return Ok(doc.clone());
        }
        if reference.contains(['/', '.']) {
            return Err(unresolved(tool, node, reference, &found));
        }
    }
    let above = tool.dir().ancestors().take(MAX_PARENT_LEVELS);
    let mut candidates = above.map(|dir| dir.join("CLI.md"));
    candidates
        .find_map(|path| workspace.load(&path).ok())
        .ok_or_else(|| PolicyError::Invalid {
            at: ManifestPosition::new(tool, named.map_or(root.span, |n| n.span)),
            what: "cannot find the CLI.md that this tool belongs to, which declares its sandbox"
                .into(),
        })
}

fn unresolved(doc: &Document, node: &Node, reference: &str, found: &Resolution) -> PolicyError {
    let why = match found {
        Resolution::Missing(path) => {
            format!("refers to `{}`, which does not exist", path.display())
        }
        Resolution::Unreadable(path, error) => {
            format!(
                "refers to `{}`, which cannot be read: {error}",
                path.display()
            )
        }
        Resolution::Absolute => "is not relative to the manifest".into(),
        Resolution::Escapes(_) => "points outside the workspace".into(),
        Resolution::External => "names a registry, but none is configured".into(),
        Resolution::Document(_) => "refers to another kind of file".into(),
    };
    PolicyError::RefUnresolvable {
        at: ManifestPosition::new(doc, node.span),
        reference: reference.to_owned(),
        why,
    }
}

/// Finds the sandbox of an agent (AIP-45): a path, `{ref}`, `{inline}`, or the block itself.
fn agent(
    workspace: &Workspace,
    doc: &Arc<Document>,
    root: &Node,
) -> Result<SandboxManifest, PolicyError> {
    let Some(node) = root.get("sandbox") else {
        return Err(no_sandbox(doc));
    };
    let runner = Runner::find(workspace, doc)?;
    let manifest = |spec, block_document: &Arc<Document>, pointer: &str| SandboxManifest {
        spec,
        document: doc.clone(),
        block_document: block_document.clone(),
        pointer: pointer.to_owned(),
        tool: None,
        bundle: Some(doc.clone()),
        runner: runner.clone(),
    };
    let follow = |node: &Node, reference: &str| {
        let found = workspace.resolve(doc, RefRole::Sandbox, reference);
        let Some(block_document) = found.document() else {
            return Err(unresolved(doc, node, reference, &found));
        };
        let inner = check_readable(block_document)?;
        let known = block_document.doctype == Some(Doctype::Sandbox) || inner.has("provider");
        match known {
            true => Ok(manifest(SandboxSpec::Aip36, block_document, "")),
            false => Err(unresolved(doc, node, reference, &found)),
        }
    };
    if let Some(reference) = node.as_str() {
        return follow(node, reference);
    }
    let block = block_at(doc, "/sandbox")?;
    let (reference, inline) = (block.text("ref")?, block.block("inline")?);
    match (reference, inline) {
        (Some(_), Some(_)) => Err(block.invalid(
            node,
            "`sandbox` has both `ref` and `inline`; AIP-36 allows only one of them",
        )),
        (Some(reference), None) => {
            if let Some(entry) = node.entries().iter().find(|e| e.key != "ref") {
                let what = format!("`{}` next to `ref` would be ignored", entry.key);
                return Err(block.invalid(&entry.value, what));
            }
            let at = node.get("ref").unwrap_or(node);
            follow(at, &reference.value)
        }
        (None, Some(inner)) => Ok(manifest(spec_of(&inner)?, doc, "/sandbox/inline")),
        (None, None) => Ok(manifest(spec_of(&block)?, doc, "/sandbox")),
    }
}

/// The spec that a block follows: `provider` belongs to AIP-36.
fn spec_of(block: &Block) -> Result<SandboxSpec, PolicyError> {
    if block.node.has("provider") {
        return Ok(SandboxSpec::Aip36);
    }
    match AIP29_KEYS.iter().any(|key| block.node.has(key)) {
        true => Ok(SandboxSpec::Aip29),
        false => Err(block.invalid(
            block.node,
            "this is not a sandbox block: expected `provider` (AIP-36), or `network`, `fs` and `exec` (AIP-29)",
        )),
    }
}
