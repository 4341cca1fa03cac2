//! Rules that need all manifests of a run, or two revisions of one manifest.

mod base;

use crate::registry::Family;
use crate::rule::{Level, Scope, Severity, Source};
use crate::{
    Finding, FindingDraft, ForwardRef, Index, IndexEntry, Rule, RuleSet, finish_draft,
    forward_reference,
};
use agentproto_manifest::{Doctype, Document, Node, Span, Workspace, normalize};
use agentproto_text::truncate;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use base::{RANGE_MAJOR_BUMP, SHAPE_VERSION_BUMP, compare_with_base, needs_base};

pub(crate) static FAMILY: Family = Family {
    name: "registry_wide",
    rules: &[
        &ID_MAJOR_UNIQUE,
        &ID_UNIQUE_REGISTRY,
        &RANGE_MAJOR_BUMP,
        &SHAPE_VERSION_BUMP,
        &REG_BIN_COLLISION,
        &REG_SECRET_SLUG_COLLISION,
        &REG_REF_CYCLE,
    ],
    checks: &[],
};

const IDENTITY: Source = Source {
    spec: "AIP-29",
    section: "Stable identity",
};

static ID_MAJOR_UNIQUE: Rule = Rule {
    slug: "id-major-unique",
    title: "Two manifests have the same id and major version",
    source: IDENTITY,
    decides: &["A29-ID-01", "A29-ID-02"],
    doctypes: &[Doctype::Cli, Doctype::AgentCli, Doctype::Acp],
    scope: Scope::Registry,
    docs: include_str!("id-major-unique.md"),
    ..Rule::BASE
};

static ID_UNIQUE_REGISTRY: Rule = Rule {
    slug: "id-unique-registry",
    title: "Two manifests have the same id and version",
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    decides: &["A29-REQ-03"],
    doctypes: &[Doctype::Cli, Doctype::AgentCli, Doctype::Acp],
    scope: Scope::Registry,
    docs: include_str!("id-unique-registry.md"),
    ..Rule::BASE
};

static REG_BIN_COLLISION: Rule = Rule {
    slug: "reg-bin-collision",
    title: "Two bundles have the same `bin`",
    severity: Severity::Warning,
    level: Level::Derived,
    source: IDENTITY,
    doctypes: &[Doctype::Cli, Doctype::AgentCli],
    scope: Scope::Registry,
    docs: include_str!("reg-bin-collision.md"),
    ..Rule::BASE
};

static REG_SECRET_SLUG_COLLISION: Rule = Rule {
    slug: "reg-secret-slug-collision",
    title: "A secret slug has different kinds",
    severity: Severity::Warning,
    level: Level::Derived,
    source: Source {
        spec: "AIP-19",
        section: "Slugs",
    },
    doctypes: &[Doctype::Secrets],
    scope: Scope::Registry,
    docs: include_str!("reg-secret-slug-collision.md"),
    ..Rule::BASE
};

static REG_REF_CYCLE: Rule = Rule {
    slug: "reg-ref-cycle",
    title: "References between manifests form a cycle",
    level: Level::Derived,
    source: Source {
        spec: "AIP-44",
        section: "Operator binding",
    },
    doctypes: &[Doctype::AgentCli, Doctype::Acp, Doctype::Operator],
    scope: Scope::Registry,
    docs: include_str!("reg-ref-cycle.md"),
    ..Rule::BASE
};

/// The findings of the rules that need all manifests of the run.
pub fn findings(index: &Index, workspace: &Workspace<'_>, rules: &RuleSet) -> Vec<Finding> {
    let mut registry = Registry {
        index,
        workspace,
        rules,
        findings: Vec::new(),
    };
    registry.ids();
    registry.binaries();
    registry.secrets();
    registry.cycles();
    registry.findings
}

struct Registry<'r> {
    index: &'r Index,
    workspace: &'r Workspace<'r>,
    rules: &'r RuleSet,
    findings: Vec<Finding>,
}

/// Programs that start other programs. Several bundles may use them as `bin`.
const LAUNCHERS: [&str; 20] = [
    "npx", "bunx", "pnpx", "npm", "pnpm", "yarn", "bun", "node", "deno", "uvx", "uv", "pipx",
    "python", "python3", "ruby", "java", "docker", "podman", "sh", "bash",
];

impl Registry<'_> {
    fn ids(&mut self) {
        let mut seen: HashMap<(Doctype, &str, u64), Vec<&IndexEntry>> = HashMap::new();
        for entry in &self.index.entries {
            let (Some(id), Some(version)) = (&entry.id, &entry.version) else {
                continue;
            };
            let Some(major) = major(version) else {
                continue;
            };
            let group = seen.entry((entry.doctype, &id.text, major)).or_default();
            if let Some(first) = group.first().copied() {
                let duplicate = group.iter().find(|other| other.version == entry.version);
                self.same_id(
                    entry,
                    duplicate.copied().unwrap_or(first),
                    duplicate.is_some(),
                );
            }
            group.push(entry);
        }
    }

    fn same_id(&mut self, entry: &IndexEntry, other: &IndexEntry, same_version: bool) {
        let id = entry.id.as_ref().map_or("", |id| &id.text);
        let version = entry.version.as_deref().unwrap_or("");
        let taken = other.version.as_deref().unwrap_or("");
        let (rule, message, help) = if same_version {
            (
                &ID_UNIQUE_REGISTRY,
                format!(
                    "another manifest already has the id `{}` and version {}",
                    truncate(id, 60),
                    truncate(version, 40)
                ),
                "give one of them another id, or remove the copy",
            )
        } else {
            (
                &ID_MAJOR_UNIQUE,
                format!(
                    "`{}` {} has the same id and major version as {}, so hosts treat them as one bundle",
                    truncate(id, 60),
                    truncate(version, 40),
                    truncate(taken, 40)
                ),
                "keep one of them, raise the major version, or give one another id",
            )
        };
        self.report_pair(rule, entry, other, "id", message, help);
    }

    fn binaries(&mut self) {
        let mut seen: HashMap<(Doctype, &str), &IndexEntry> = HashMap::new();
        for entry in &self.index.entries {
            let Some(bin) = &entry.bin else {
                continue;
            };
            let bin = bin.text.as_str();
            if bin.is_empty() || bin.contains('/') || LAUNCHERS.contains(&bin) {
                continue;
            }
            let other = *seen.entry((entry.doctype, bin)).or_insert(entry);
            let id = |entry: &IndexEntry| entry.id.as_ref().map(|id| id.text.clone());
            // Missing or equal ids are reported by other rules.
            if let (Some(mine), Some(theirs)) = (id(entry), id(other))
                && mine != theirs
            {
                let message = format!(
                    "the binary `{}` is also the `bin` of `{}`",
                    truncate(bin, 60),
                    truncate(&theirs, 60)
                );
                let help = "merge the two bundles, or give the binaries different names";
                self.report_pair(&REG_BIN_COLLISION, entry, other, "bin", message, help);
            }
        }
    }

    fn secrets(&mut self) {
        let mut seen: HashMap<&str, (&IndexEntry, Span, &str)> = HashMap::new();
        for entry in &self.index.entries {
            for (slug, kind) in &entry.secrets {
                let (other, span, first) =
                    *seen
                        .entry(&slug.text)
                        .or_insert((entry, slug.span, kind.as_str()));
                if first == kind || std::ptr::eq(other, entry) {
                    continue;
                }
                let Some((doc, there)) = self.load_both(&REG_SECRET_SLUG_COLLISION, entry, other)
                else {
                    continue;
                };
                let Some(node) = secret_slug(&doc, slug.span) else {
                    continue;
                };
                let draft = FindingDraft::new(
                    &REG_SECRET_SLUG_COLLISION,
                    node,
                    format!(
                        "the secret `{}` is `{}` here and `{}` elsewhere",
                        truncate(&slug.text, 60),
                        truncate(kind, 20),
                        truncate(first, 20)
                    ),
                )
                .help("use the same kind in all files, or give this secret another slug")
                .related(&there, span, "declared here with another kind");
                self.add(&doc, draft, &REG_SECRET_SLUG_COLLISION);
            }
        }
    }

    /// Finds cycles. Each manifest has at most one relevant reference, so following the references
    /// either ends or reaches a cycle.
    fn cycles(&mut self) {
        if self.rules.severity(&REG_REF_CYCLE).is_none() {
            return;
        }
        let entries = &self.index.entries;
        let has_operator = entries
            .iter()
            .any(|entry| entry.doctype == Doctype::Operator && entry.forward_ref.is_some());
        if !has_operator {
            return;
        }
        let references = references(entries);
        let mut walk_of: Vec<usize> = vec![0; entries.len()];
        for start in 0..entries.len() {
            let walk = start + 1;
            let mut at = Some(start);
            while let Some(i) = at {
                match walk_of.get_mut(i) {
                    Some(mark) if *mark == 0 => *mark = walk,
                    Some(mark) if *mark == walk => {
                        self.report_cycle(&references, i);
                        break;
                    }
                    _ => break,
                }
                at = references.get(i).copied().flatten();
            }
        }
    }

    fn report_cycle(&mut self, references: &[Option<usize>], start: usize) {
        let mut ring = vec![start];
        let mut at = references.get(start).copied().flatten();
        while let Some(i) = at.filter(|i| *i != start) {
            ring.push(i);
            at = references.get(i).copied().flatten();
        }
        // Reported at the first operator, because its runtime is the easiest to change.
        let is_operator = |i: &usize| {
            let entry = self.index.entries.get(*i);
            entry.is_some_and(|entry| entry.doctype == Doctype::Operator)
        };
        let Some(first) = ring.iter().copied().filter(is_operator).min() else {
            return;
        };
        let turn = ring.iter().position(|i| *i == first).unwrap_or(0);
        ring.rotate_left(turn);
        let docs: Vec<Arc<Document>> = ring
            .iter()
            .filter_map(|i| self.index.entries.get(*i))
            .filter_map(|entry| self.workspace.load(&entry.path).ok())
            .collect();
        let Some((doc, others)) = docs.split_first() else {
            return;
        };
        let Some(node) = reference(doc) else {
            return;
        };
        let mut draft = FindingDraft::new(
            &REG_REF_CYCLE,
            node,
            format!(
                "this reference leads back to this file through {}",
                others
                    .iter()
                    .map(|doc| format!("`{}`", file_name(&doc.path)))
                    .collect::<Vec<_>>()
                    .join(" and ")
            ),
        )
        .help("refer to another operator in the ACP.md, or use another runtime for this operator");
        for other in others {
            if let Some(node) = reference(other) {
                draft = draft.related(other, node.span, "the cycle continues here");
            }
        }
        self.add(doc, draft, &REG_REF_CYCLE);
    }

    /// Adds a finding at a field of one manifest that has the same value in another.
    fn report_pair(
        &mut self,
        rule: &'static Rule,
        entry: &IndexEntry,
        other: &IndexEntry,
        key: &str,
        message: String,
        help: &str,
    ) {
        let Some((doc, there)) = self.load_both(rule, entry, other) else {
            return;
        };
        let field = |doc: &Document| Some(doc.root.as_ref()?.get(key)?.span);
        let Some(node) = doc.root.as_ref().and_then(|root| root.get(key)) else {
            return;
        };
        let mut draft = FindingDraft::new(rule, node, message).help(help);
        if let Some(span) = field(&there) {
            draft = draft.related(&there, span, "first here");
        }
        self.add(&doc, draft, rule);
    }

    fn load_both(
        &self,
        rule: &'static Rule,
        entry: &IndexEntry,
        other: &IndexEntry,
    ) -> Option<(Arc<Document>, Arc<Document>)> {
        self.rules.severity(rule)?;
        // Two spellings of the same path are one manifest.
        if normalize(&entry.path) == normalize(&other.path) {
            return None;
        }
        Some((
            self.workspace.load(&entry.path).ok()?,
            self.workspace.load(&other.path).ok()?,
        ))
    }

    fn add(&mut self, doc: &Document, draft: FindingDraft<'_>, rule: &'static Rule) {
        if let Some(severity) = self.rules.severity(rule) {
            self.findings.push(finish_draft(doc, draft, severity));
        }
    }
}

/// For each manifest, the index of the manifest that it refers to.
fn references(entries: &[IndexEntry]) -> Vec<Option<usize>> {
    let mut files: HashMap<PathBuf, usize> = HashMap::new();
    let mut agents: HashMap<&str, usize> = HashMap::new();
    for (i, entry) in entries.iter().enumerate() {
        if entry.forward_ref.is_some() {
            files.insert(normalize(&entry.path), i);
        }
        if let Some(id) = entry
            .id
            .as_ref()
            .filter(|_| entry.doctype == Doctype::AgentCli)
        {
            agents.entry(&id.text).or_insert(i);
        }
    }
    let expected = |doctype| match doctype {
        Doctype::AgentCli => Doctype::Acp,
        Doctype::Acp => Doctype::Operator,
        _ => Doctype::AgentCli,
    };
    entries
        .iter()
        .map(|entry| {
            let target = match entry.forward_ref.as_ref()? {
                ForwardRef::File(path) => files.get(path),
                ForwardRef::Slug(slug) => agents.get(slug.as_str()),
            };
            // A reference to the wrong kind of file is reported by another rule.
            target.copied().filter(|i| {
                entries
                    .get(*i)
                    .is_some_and(|to| to.doctype == expected(entry.doctype))
            })
        })
        .collect()
}

fn reference(doc: &Document) -> Option<&Node> {
    forward_reference(doc.root.as_ref()?, doc.doctype?)
}

fn secret_slug(doc: &Document, span: Span) -> Option<&Node> {
    let secrets = doc.root.as_ref()?.get("secrets")?;
    secrets
        .items()
        .iter()
        .filter_map(|secret| secret.get("slug"))
        .find(|node| node.span == span)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// The major version: the number before the first dot.
fn major(version: &str) -> Option<u64> {
    version
        .split('.')
        .next()?
        .trim_start_matches('v')
        .parse()
        .ok()
}
