//! `runner` of a manifest (AIP-17): the process boundary. Its limits apply in addition to those of
//! the sandbox. What this host cannot provide is unenforceable, so that nothing runs.

use std::sync::Arc;
use std::time::Duration;

use super::block::Block;
use super::error::{ManifestPosition, PolicyError};
use super::{LimitKind, Policy, PolicyLimit};
use crate::clause::Clause;
use agentproto_manifest::{Doctype, Document, Node, RefRole, Resolution, Workspace};

const SPEC: &str = "AIP-17";
const KEYS: [&str; 4] = ["engine", "image", "needs", "limits"];
const NEEDS: [&str; 4] = ["language", "native", "npm", "pip"];
const LIMITS: [&str; 3] = ["timeout_ms", "memory_mb", "cpu_ms"];
const DEFAULT_ENGINE: &str = "subprocess";
/// Engines that this host has. `in-process` becomes `subprocess`.
const ENGINES: [&str; 3] = ["subprocess", "sandbox", "in-process"];
/// Keys of a mapping that contains the block, or a reference to it.
const WRAPPERS: [&str; 3] = ["inline", "file", "ref"];

/// A runner block: its document and the pointer to it.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    document: Arc<Document>,
    pointer: &'static str,
}

impl Runner {
    /// Finds the block of a bundle, in its manifest or in the RUNNER.md that it names.
    pub(super) fn find(
        workspace: &Workspace,
        bundle: &Arc<Document>,
    ) -> Result<Option<Runner>, PolicyError> {
        let Some(node) = bundle.root.as_ref().and_then(|root| root.get("runner")) else {
            return Ok(None);
        };
        if node.as_str().is_some() {
            return follow(workspace, bundle, node).map(Some);
        }
        let here = |pointer| {
            let document = bundle.clone();
            Ok(Some(Runner { document, pointer }))
        };
        let wrapper = WRAPPERS.iter().find(|key| node.has(key));
        match (wrapper, node.entries().len()) {
            (Some(&"inline"), 1) => here("/runner/inline"),
            (Some(&"file"), 1) => {
                follow(workspace, bundle, node.get("file").unwrap_or(node)).map(Some)
            }
            (Some(&"ref"), 1) => {
                let node = node.get("ref").unwrap_or(node);
                let why = "names a registry, but none is configured";
                Err(unresolved(bundle, node, why))
            }
            _ => here("/runner"),
        }
    }

    fn block(&self) -> Result<Block<'_>, PolicyError> {
        let node = self.document.at_pointer(self.pointer);
        let Some(node) = node.or(self.document.root.as_ref()) else {
            return Err(PolicyError::Invalid {
                at: ManifestPosition::new(&self.document, Default::default()),
                what: "the runner block is empty".into(),
            });
        };
        let mut block = Block::new(&self.document, node, self.pointer)?;
        block.name = "runner".to_owned();
        Ok(block)
    }

    /// `engine`, or its default.
    pub(super) fn engine(&self) -> Result<String, PolicyError> {
        let engine = self.block()?.text("engine")?;
        Ok(engine.map_or_else(|| DEFAULT_ENGINE.to_owned(), |engine| engine.value))
    }

    /// `limits.timeout_ms`.
    pub(super) fn timeout(&self) -> Result<Option<Duration>, PolicyError> {
        let Some(limits) = self.block()?.block("limits")? else {
            return Ok(None);
        };
        let timeout = limits.amount("timeout_ms")?;
        Ok(timeout.map(|declared| Duration::from_millis(declared.value)))
    }

    /// What this host cannot provide, with the reasons.
    pub(super) fn unsupported(&self) -> Result<Vec<(Clause, String)>, PolicyError> {
        let block = self.block()?;
        let mut out = block.unknown(&KEYS, SPEC);
        let engine = block.text("engine")?;
        let name = engine.as_ref().map_or(DEFAULT_ENGINE, |e| &e.value);
        if !ENGINES.contains(&name)
            && let Some(engine) = &engine
        {
            let why = "this host only starts processes on this machine: use `subprocess`";
            out.push((engine.clause.clone(), why.to_owned()));
        }
        if let Some(image) = block.text("image")?
            && !ignores_image(name)
        {
            out.push((image.clause, "this host cannot start images".to_owned()));
        }
        if let Some(needs) = block.block("needs")? {
            out.extend(needs.unknown(&NEEDS, SPEC));
        }
        if let Some(limits) = block.block("limits")? {
            out.extend(limits.unknown(&LIMITS, SPEC));
        }
        Ok(out)
    }

    /// Adds the clauses of the block to a policy.
    pub(super) fn apply(&self, policy: &mut Policy) -> Result<(), PolicyError> {
        let block = self.block()?;
        policy.unenforceable.extend(self.unsupported()?);
        let engine = block.text("engine")?;
        let name = engine.as_ref().map_or(DEFAULT_ENGINE, |e| &e.value);
        let note = match name {
            "in-process" => {
                "the bundle runs in its own process: this engine is only for code of the host (AIP-17)"
            }
            _ => "the bundle runs in its own process, in the declared sandbox",
        };
        if let Some(engine) = &engine
            && ENGINES.contains(&name)
        {
            policy.notes.push((engine.clause.clone(), note.to_owned()));
        }
        if let Some(image) = block.text("image")?
            && ignores_image(name)
        {
            let why = format!("the engine `{name}` does not use an image (AIP-17)");
            policy.ineffective.push((image.clause, why));
        }
        if block.block("needs")?.is_some() {
            let note = "must already be installed: the host does not install it";
            policy
                .notes
                .push((block.clause("needs", ""), note.to_owned()));
        }
        let Some(limits) = block.block("limits")? else {
            return Ok(());
        };
        for key in LIMITS {
            if let Some(declared) = limits.amount(key)? {
                let kind = LimitKind::from_key(key, declared.value);
                add_limit(policy, declared.clause, kind);
            }
        }
        Ok(())
    }
}

/// Whether an engine starts no image.
fn ignores_image(engine: &str) -> bool {
    matches!(engine, "subprocess" | "in-process")
}

/// Adds a limit. It replaces a default of the host. Of two declared limits, the lower one applies.
fn add_limit(policy: &mut Policy, clause: Clause, kind: LimitKind) {
    let same =
        |limit: &PolicyLimit| std::mem::discriminant(&limit.kind) == std::mem::discriminant(&kind);
    policy
        .limits
        .retain(|limit| !(same(limit) && limit.default));
    let new = PolicyLimit {
        default: false,
        clause,
        kind,
    };
    let Some(old) = policy.limits.iter_mut().find(|limit| same(limit)) else {
        policy.limits.push(new);
        return;
    };
    let higher = match new.kind.amount() < old.kind.amount() {
        true => std::mem::replace(old, new),
        false => new,
    };
    let why = "a lower limit applies".to_owned();
    policy.ineffective.push((higher.clause, why));
}

fn follow(
    workspace: &Workspace,
    bundle: &Arc<Document>,
    node: &Node,
) -> Result<Runner, PolicyError> {
    let Some(reference) = node.as_str() else {
        return Err(unresolved(bundle, node, "must be the path of a RUNNER.md"));
    };
    let found = workspace.resolve(bundle, RefRole::Runner, reference);
    let document = match found {
        Resolution::Document(document) if document.doctype == Some(Doctype::Runner) => document,
        Resolution::Document(_) => return Err(unresolved(bundle, node, "is not a RUNNER.md")),
        Resolution::Missing(path) => {
            let why = format!("refers to `{}`, which does not exist", path.display());
            return Err(unresolved(bundle, node, &why));
        }
        Resolution::Unreadable(path, error) => {
            let why = format!(
                "refers to `{}`, which cannot be read: {error}",
                path.display()
            );
            return Err(unresolved(bundle, node, &why));
        }
        Resolution::External | Resolution::Absolute | Resolution::Escapes(_) => {
            return Err(unresolved(bundle, node, "is not relative to the manifest"));
        }
    };
    if let Some(problem) = document.problems.first() {
        return Err(PolicyError::Invalid {
            at: ManifestPosition::new(&document, problem.span),
            what: problem.explained(),
        });
    }
    // The frontmatter of a RUNNER.md is the block, or contains it under `runner`.
    let root = document.root.as_ref();
    let inner = root.and_then(|root| root.get("runner"));
    let pointer = match inner.is_some_and(Node::is_map) {
        true => "/runner",
        false => "",
    };
    Ok(Runner { document, pointer })
}

fn unresolved(doc: &Document, node: &Node, why: &str) -> PolicyError {
    PolicyError::Invalid {
        at: ManifestPosition::new(doc, node.span),
        what: format!("`runner` {why} (AIP-17)"),
    }
}
