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
        Ok(engine.map_or_else(|| "subprocess".to_owned(), |engine| engine.value))
    }

    /// `limits.timeout_ms`.
    pub(super) fn timeout(&self) -> Result<Option<Duration>, PolicyError> {
        let Some(limits) = self.block()?.block("limits")? else {
            return Ok(None);
        };
        let timeout = limits.amount("timeout_ms")?;
        Ok(timeout.map(|declared| Duration::from_millis(declared.value)))
    }

    /// Adds the clauses of the block to a policy.
    pub(super) fn apply(&self, policy: &mut Policy) -> Result<(), PolicyError> {
        let block = self.block()?;
        policy.unenforceable.extend(block.unknown(&KEYS, SPEC));
        let engine = block.text("engine")?;
        let name = engine.as_ref().map_or("subprocess", |e| e.value.as_str());
        let image = block.text("image")?;
        match (&engine, name) {
            (_, "subprocess") => {}
            (Some(engine), "in-process") => {
                let note = "the bundle runs in its own process: this engine is only for code of the host (AIP-17)";
                policy.notes.push((engine.clause.clone(), note.to_owned()));
            }
            (Some(engine), "sandbox") => {
                let note = "the bundle runs in its declared sandbox";
                policy.notes.push((engine.clause.clone(), note.to_owned()));
            }
            (Some(engine), _) => {
                let why = "this host only starts processes on this machine: use `subprocess`";
                let clause = engine.clause.clone();
                policy.unenforceable.push((clause, why.to_owned()));
            }
            (None, _) => {}
        }
        if let Some(image) = image {
            match name {
                "subprocess" | "in-process" => {
                    let why = format!("the engine `{name}` does not use an image (AIP-17)");
                    policy.ineffective.push((image.clause, why));
                }
                _ => {
                    let why = "this host cannot start images".to_owned();
                    policy.unenforceable.push((image.clause, why));
                }
            }
        }
        if let Some(needs) = block.block("needs")? {
            let note = "the host does not install it; a program that misses it fails";
            policy.notes.push((needs_clause(&block), note.to_owned()));
            let known = ["language", "native", "npm", "pip"];
            policy.unenforceable.extend(needs.unknown(&known, SPEC));
        }
        let Some(limits) = block.block("limits")? else {
            return Ok(());
        };
        let known = ["timeout_ms", "memory_mb", "cpu_ms"];
        policy.unenforceable.extend(limits.unknown(&known, SPEC));
        for key in known {
            let Some(declared) = limits.amount(key)? else {
                continue;
            };
            let kind = LimitKind::from_key(key, declared.value);
            add_limit(policy, declared.clause, kind);
        }
        Ok(())
    }
}

fn needs_clause(block: &Block<'_>) -> Clause {
    block.clause("needs", "")
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
            what: problem.message.clone(),
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
