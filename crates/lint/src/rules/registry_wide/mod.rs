//! Rules that need all manifests of a run, or two revisions of one manifest.

mod base;

use crate::registry::Family;
use crate::rule::{Level, Scope, Severity, Source};
use crate::{Card, Draft, Finding, Index, Next, Rule, RuleSet, conclude, onward};
use agentproto_manifest::{Doctype, Document, Node, Span, Workspace, normalize};
use agentproto_text::short;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use base::{RANGE_MAJOR_BUMP, SHAPE_VERSION_BUMP, compare_with_base, needs_base};

pub static FAMILY: Family = Family {
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

pub static ID_MAJOR_UNIQUE: Rule = Rule {
    slug: "id-major-unique",
    title: "Two manifests have the same id and major version",
    source: IDENTITY,
    decides: &["A29-ID-01", "A29-ID-02"],
    doctypes: &[Doctype::Cli, Doctype::AgentCli, Doctype::Acp],
    scope: Scope::Registry,
    docs: include_str!("id-major-unique.md"),
    ..Rule::BASE
};

pub static ID_UNIQUE_REGISTRY: Rule = Rule {
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

pub static REG_BIN_COLLISION: Rule = Rule {
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

pub static REG_SECRET_SLUG_COLLISION: Rule = Rule {
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

pub static REG_REF_CYCLE: Rule = Rule {
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
    registry.circles();
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
        let mut seen: HashMap<(Doctype, &str, u64), Vec<&Card>> = HashMap::new();
        for card in &self.index.cards {
            let (Some(id), Some(version)) = (&card.id, &card.version) else {
                continue;
            };
            let Some(major) = major(version) else {
                continue;
            };
            let group = seen.entry((card.doctype, &id.text, major)).or_default();
            if let Some(first) = group.first().copied() {
                let twin = group.iter().find(|other| other.version == card.version);
                self.same_id(card, twin.copied().unwrap_or(first), twin.is_some());
            }
            group.push(card);
        }
    }

    fn same_id(&mut self, card: &Card, other: &Card, same_version: bool) {
        let id = card.id.as_ref().map_or("", |id| &id.text);
        let version = card.version.as_deref().unwrap_or("");
        let taken = other.version.as_deref().unwrap_or("");
        let (rule, message, help) = if same_version {
            (
                &ID_UNIQUE_REGISTRY,
                format!(
                    "another manifest already has the id `{}` and version {}",
                    short(id, 60),
                    short(version, 40)
                ),
                "give one of them another id, or remove the copy",
            )
        } else {
            (
                &ID_MAJOR_UNIQUE,
                format!(
                    "`{}` {} has the same id and major version as {}, so hosts treat them as one bundle",
                    short(id, 60),
                    short(version, 40),
                    short(taken, 40)
                ),
                "keep one of them, raise the major version, or give one another id",
            )
        };
        self.pair(rule, card, other, "id", message, help);
    }

    fn binaries(&mut self) {
        let mut seen: HashMap<(Doctype, &str), &Card> = HashMap::new();
        for card in &self.index.cards {
            let Some(bin) = &card.bin else {
                continue;
            };
            let bin = bin.text.as_str();
            if bin.is_empty() || bin.contains('/') || LAUNCHERS.contains(&bin) {
                continue;
            }
            let other = *seen.entry((card.doctype, bin)).or_insert(card);
            let id = |card: &Card| card.id.as_ref().map(|id| id.text.clone());
            // Missing or equal ids are reported by other rules.
            if let (Some(mine), Some(theirs)) = (id(card), id(other))
                && mine != theirs
            {
                let message = format!(
                    "the binary `{}` is also the `bin` of `{}`",
                    short(bin, 60),
                    short(&theirs, 60)
                );
                let help = "merge the two bundles, or give the binaries different names";
                self.pair(&REG_BIN_COLLISION, card, other, "bin", message, help);
            }
        }
    }

    fn secrets(&mut self) {
        let mut seen: HashMap<&str, (&Card, Span, &str)> = HashMap::new();
        for card in &self.index.cards {
            for (slug, kind) in &card.secrets {
                let (other, span, first) =
                    *seen
                        .entry(&slug.text)
                        .or_insert((card, slug.span, kind.as_str()));
                if first == kind || std::ptr::eq(other, card) {
                    continue;
                }
                let Some((doc, there)) = self.both(&REG_SECRET_SLUG_COLLISION, card, other) else {
                    continue;
                };
                let Some(node) = secret_slug(&doc, slug.span) else {
                    continue;
                };
                let draft = Draft::new(
                    &REG_SECRET_SLUG_COLLISION,
                    node,
                    format!(
                        "the secret `{}` is `{}` here and `{}` elsewhere",
                        short(&slug.text, 60),
                        short(kind, 20),
                        short(first, 20)
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
    fn circles(&mut self) {
        if self.rules.severity(&REG_REF_CYCLE).is_none() {
            return;
        }
        let cards = &self.index.cards;
        let has_operator = cards
            .iter()
            .any(|card| card.doctype == Doctype::Operator && card.next.is_some());
        if !has_operator {
            return;
        }
        let steps = steps(cards);
        let mut walk_of: Vec<usize> = vec![0; cards.len()];
        for start in 0..cards.len() {
            let walk = start + 1;
            let mut at = Some(start);
            while let Some(i) = at {
                match walk_of.get_mut(i) {
                    Some(mark) if *mark == 0 => *mark = walk,
                    Some(mark) if *mark == walk => {
                        self.circle(&steps, i);
                        break;
                    }
                    _ => break,
                }
                at = steps.get(i).copied().flatten();
            }
        }
    }

    fn circle(&mut self, steps: &[Option<usize>], entry: usize) {
        let mut ring = vec![entry];
        let mut at = steps.get(entry).copied().flatten();
        while let Some(i) = at.filter(|i| *i != entry) {
            ring.push(i);
            at = steps.get(i).copied().flatten();
        }
        // Reported at the first operator, because its runtime is the easiest to change.
        let is_operator = |i: &usize| {
            let card = self.index.cards.get(*i);
            card.is_some_and(|card| card.doctype == Doctype::Operator)
        };
        let Some(first) = ring.iter().copied().filter(is_operator).min() else {
            return;
        };
        let turn = ring.iter().position(|i| *i == first).unwrap_or(0);
        ring.rotate_left(turn);
        let docs: Vec<Arc<Document>> = ring
            .iter()
            .filter_map(|i| self.index.cards.get(*i))
            .filter_map(|card| self.workspace.load(&card.path).ok())
            .collect();
        let Some((doc, others)) = docs.split_first() else {
            return;
        };
        let Some(node) = reference(doc) else {
            return;
        };
        let mut draft = Draft::new(
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
    fn pair(
        &mut self,
        rule: &'static Rule,
        card: &Card,
        other: &Card,
        key: &str,
        message: String,
        help: &str,
    ) {
        let Some((doc, there)) = self.both(rule, card, other) else {
            return;
        };
        let field = |doc: &Document| Some(doc.root.as_ref()?.get(key)?.span);
        let Some(node) = doc.root.as_ref().and_then(|root| root.get(key)) else {
            return;
        };
        let mut draft = Draft::new(rule, node, message).help(help);
        if let Some(span) = field(&there) {
            draft = draft.related(&there, span, "first here");
        }
        self.add(&doc, draft, rule);
    }

    fn both(
        &self,
        rule: &'static Rule,
        card: &Card,
        other: &Card,
    ) -> Option<(Arc<Document>, Arc<Document>)> {
        self.rules.severity(rule)?;
        // Two spellings of the same path are one manifest.
        if normalize(&card.path) == normalize(&other.path) {
            return None;
        }
        Some((
            self.workspace.load(&card.path).ok()?,
            self.workspace.load(&other.path).ok()?,
        ))
    }

    fn add(&mut self, doc: &Document, draft: Draft<'_>, rule: &'static Rule) {
        if let Some(severity) = self.rules.severity(rule) {
            self.findings.push(conclude(doc, draft, severity));
        }
    }
}

/// For each manifest, the index of the manifest that it refers to.
fn steps(cards: &[Card]) -> Vec<Option<usize>> {
    let mut files: HashMap<PathBuf, usize> = HashMap::new();
    let mut agents: HashMap<&str, usize> = HashMap::new();
    for (i, card) in cards.iter().enumerate() {
        if card.next.is_some() {
            files.insert(normalize(&card.path), i);
        }
        if let Some(id) = card
            .id
            .as_ref()
            .filter(|_| card.doctype == Doctype::AgentCli)
        {
            agents.entry(&id.text).or_insert(i);
        }
    }
    let wanted = |doctype| match doctype {
        Doctype::AgentCli => Doctype::Acp,
        Doctype::Acp => Doctype::Operator,
        _ => Doctype::AgentCli,
    };
    cards
        .iter()
        .map(|card| {
            let target = match card.next.as_ref()? {
                Next::File(path) => files.get(path),
                Next::Slug(slug) => agents.get(slug.as_str()),
            };
            // A reference to the wrong kind of file is reported by another rule.
            target.copied().filter(|i| {
                cards
                    .get(*i)
                    .is_some_and(|to| to.doctype == wanted(card.doctype))
            })
        })
        .collect()
}

fn reference(doc: &Document) -> Option<&Node> {
    onward(doc.root.as_ref()?, doc.doctype?)
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
