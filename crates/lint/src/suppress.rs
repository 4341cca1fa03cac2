//! Inline ignores: `# agentproto: ignore[rule-a, rule-b] reason`.
//!
//! A suppressed finding stays in the report and does not count. An ignore that suppresses
//! nothing is itself reported, so that the file does not gather dead exceptions.

mod directive;

use std::collections::HashMap;
use std::path::PathBuf;

use directive::{Directive, MARK, directives};

use crate::context::{Draft, Place, conclude};
use crate::finding::{Edit, Finding, Safety};
use crate::registry;
use crate::rule::{Rule, Scope};
use crate::rules::{ignores, registry_wide};
use crate::settings::RuleSet;
use agentproto_manifest::comments::{line_end, line_start, next_line};
use agentproto_manifest::{Document, Span, Value, Workspace};
use agentproto_text::one_of;

/// Marks the document's findings that an ignore covers, and adds what is wrong with the
/// ignores themselves.
pub fn apply(doc: &Document, rules: &RuleSet, findings: &mut Vec<Finding>) {
    if doc.text.contains(MARK) {
        Judge::new(doc, rules).document(findings);
    }
}

/// As `apply`, for findings that come outside a run: the ignores themselves are not judged.
pub fn mark(doc: &Document, rules: &RuleSet, findings: &mut [Finding]) {
    if !findings.is_empty() && doc.text.contains(MARK) {
        Judge::new(doc, rules).mark(findings);
    }
}

/// Whether a document ignores rules that only the run as a whole can decide.
pub fn waits(doc: &Document) -> bool {
    doc.text.contains(MARK)
        && directives(doc)
            .good
            .iter()
            .flat_map(|d| &d.names)
            .any(|(name, _)| registry::find(name).is_some_and(needs_whole_run))
}

/// The same for rules over all files, once their findings are there.
pub fn apply_late(
    waiting: &[PathBuf],
    workspace: &Workspace<'_>,
    rules: &RuleSet,
    findings: &mut Vec<Finding>,
) {
    for path in waiting {
        let Ok(doc) = workspace.load(path) else {
            continue;
        };
        let (mut own, others) = std::mem::take(findings)
            .into_iter()
            .partition(|f| f.file == *path);
        *findings = others;
        Judge::new(&doc, rules).whole_run(&mut own);
        findings.append(&mut own);
    }
}

fn needs_whole_run(rule: &'static Rule) -> bool {
    rule.scope == Scope::Registry && !registry_wide::needs_base(rule)
}

/// Rules that one document decides. Those that need an earlier revision are never judged:
/// most runs have none.
fn decided_alone(rule: &'static Rule) -> bool {
    rule.scope != Scope::Registry && rule != &ignores::UNUSED
}

struct Judge<'d> {
    doc: &'d Document,
    rules: &'d RuleSet,
    ignores: Vec<Ignore<'d>>,
    /// Rule and line (`None`: the whole file) → the ignores that speak about it.
    index: HashMap<(&'static str, Option<u32>), Covering>,
    malformed: Vec<directive::Malformed>,
}

/// Ignores of one rule at one place.
#[derive(Default)]
struct Covering {
    /// The one whose reason holds.
    first: Option<usize>,
    /// Those not yet known to be of use, with the name in question.
    unused: Vec<(usize, usize)>,
}

/// A directive with, for each of its names, the rule and whether it was of use.
struct Ignore<'d> {
    directive: Directive<'d>,
    named: Vec<(Option<&'static Rule>, bool)>,
}

impl<'d> Judge<'d> {
    fn new(doc: &'d Document, rules: &'d RuleSet) -> Self {
        let found = directives(doc);
        let ignores: Vec<Ignore<'d>> = found
            .good
            .into_iter()
            .map(|directive| Ignore {
                named: directive
                    .names
                    .iter()
                    .map(|(name, _)| (registry::find(name), false))
                    .collect(),
                directive,
            })
            .collect();
        let mut index: HashMap<_, Covering> = HashMap::new();
        for (at, ignore) in ignores.iter().enumerate() {
            for (name, (rule, _)) in ignore.named.iter().enumerate() {
                // Named twice, a rule is ignored once.
                let again = ignore.named.iter().take(name).any(|(r, _)| r == rule);
                if let Some(rule) = rule.filter(|_| !again) {
                    let covering = index.entry((rule.slug, ignore.directive.line)).or_default();
                    covering.first.get_or_insert(at);
                    covering.unused.push((at, name));
                }
            }
        }
        Judge {
            doc,
            rules,
            ignores,
            index,
            malformed: found.malformed,
        }
    }

    fn document(&mut self, findings: &mut Vec<Finding>) {
        self.mark(findings);
        let mut own = Vec::new();
        self.malformed_ones(&mut own);
        self.unknown_and_bare_ones(&mut own);
        self.mark(&mut own);
        let mut dead = self.unused(decided_alone);
        self.mark(&mut dead);
        // An ignore of `ignore-unused` can be unused, too; there the chain ends.
        dead.extend(self.unused(|rule| rule == &ignores::UNUSED));
        findings.append(&mut own);
        findings.append(&mut dead);
    }

    fn whole_run(&mut self, findings: &mut Vec<Finding>) {
        self.mark(findings);
        let mut dead = self.unused(needs_whole_run);
        self.mark(&mut dead);
        findings.append(&mut dead);
    }

    fn mark(&mut self, findings: &mut [Finding]) {
        for finding in findings {
            let lines = lines_of(self.doc, finding);
            let places = lines.into_iter().map(Some).chain([None]);
            let mut first: Option<usize> = None;
            for place in places {
                let Some(covering) = self.index.get_mut(&(finding.rule.slug, place)) else {
                    continue;
                };
                first = first.into_iter().chain(covering.first).min();
                for (ignore, name) in covering.unused.drain(..) {
                    if let Some((_, used)) = self
                        .ignores
                        .get_mut(ignore)
                        .and_then(|i| i.named.get_mut(name))
                    {
                        *used = true;
                    }
                }
            }
            if let Some(ignore) = first.and_then(|i| self.ignores.get(i)) {
                finding
                    .suppressed
                    .get_or_insert_with(|| match ignore.directive.reason {
                        "" => "ignored inline".to_owned(),
                        reason => reason.split_whitespace().collect::<Vec<_>>().join(" "),
                    });
            }
        }
    }

    fn report(&self, out: &mut Vec<Finding>, draft: Draft<'_>, rule: &'static Rule) {
        if let Some(severity) = self.rules.severity(rule) {
            out.push(conclude(self.doc, draft, severity));
        }
    }

    fn malformed_ones(&self, out: &mut Vec<Finding>) {
        for malformed in &self.malformed {
            let rule = &ignores::MALFORMED;
            let draft = Draft::new(rule, Place::Bytes(malformed.span), malformed.why.as_str())
                .help("Until it is mended, it ignores nothing.");
            self.report(out, draft, rule);
        }
    }

    fn unknown_and_bare_ones(&self, out: &mut Vec<Finding>) {
        for ignore in &self.ignores {
            let directive = &ignore.directive;
            for ((name, span), (known, _)) in directive.names.iter().zip(&ignore.named) {
                if known.is_some() {
                    continue;
                }
                let rule = &ignores::UNKNOWN_RULE;
                let help = match registry::closest(name) {
                    Some(slug) => format!("Did you mean `{slug}`?"),
                    None => "`agentproto rules` lists all rules; each has to be named in full."
                        .to_owned(),
                };
                let draft = Draft::new(
                    rule,
                    Place::Bytes(*span),
                    format!("there is no rule `{name}` to ignore"),
                )
                .help(help);
                self.report(out, draft, rule);
            }
            if directive.reason.is_empty() {
                let rule = &ignores::NO_REASON;
                let draft = Draft::new(
                    rule,
                    Place::Bytes(directive.span),
                    "the ignore does not say why",
                )
                .help("Add the reason behind the bracket.");
                self.report(out, draft, rule);
            }
        }
    }

    /// Reports the names, of those that `asked` picks, that suppressed nothing.
    fn unused(&self, asked: impl Fn(&'static Rule) -> bool) -> Vec<Finding> {
        let mut out = Vec::new();
        // What could not be read was not judged.
        if self.doc.root.is_none() {
            return out;
        }
        for ignore in &self.ignores {
            let dead: Vec<usize> = ignore
                .named
                .iter()
                .enumerate()
                .filter(|(_, (rule, used))| {
                    !used && rule.is_some_and(|r| asked(r) && self.rules.severity(r).is_some())
                })
                .map(|(i, _)| i)
                .collect();
            let names: Vec<&str> = dead
                .iter()
                .filter_map(|i| ignore.directive.names.get(*i))
                .map(|(name, _)| *name)
                .collect();
            if names.is_empty() {
                continue;
            }
            let rule = &ignores::UNUSED;
            let place = if ignore.directive.line.is_some() {
                "on its line"
            } else {
                "in this file"
            };
            let all = names.len() == ignore.named.len();
            let draft = Draft::new(
                rule,
                Place::Bytes(ignore.directive.span),
                format!("nothing {place} trips {}", one_of(&names)),
            )
            .help("Remove the ignore, or move it to the line that it is meant for.")
            .fix(
                Safety::Safe,
                if all {
                    "Remove the comment".to_owned()
                } else {
                    format!("Remove {} from the ignore", one_of(&names))
                },
                vec![if all {
                    without_comment(self.doc, ignore.directive.span)
                } else {
                    without_names(&ignore.directive, &dead)
                }],
            );
            self.report(&mut out, draft, rule);
        }
        out
    }
}

/// Removes the comment, and its line where nothing else stands on it.
fn without_comment(doc: &Document, comment: Span) -> Edit {
    let text = &doc.text;
    let (start, end) = (comment.start as usize, comment.end as usize);
    let line = line_start(text, start);
    let head = text.get(line..start).unwrap_or("");
    let tail = text.get(end..line_end(text, end)).unwrap_or("");
    let span = if head.trim().is_empty() && tail.trim().is_empty() {
        Span::new(line, next_line(text, end))
    } else {
        Span::new(line + head.trim_end().len(), end)
    };
    Edit {
        span,
        text: String::new(),
    }
}

fn without_names(directive: &Directive<'_>, dead: &[usize]) -> Edit {
    let names = directive.names.iter().enumerate();
    let kept: Vec<&str> = names
        .filter(|(i, _)| !dead.contains(i))
        .map(|(_, (name, _))| *name)
        .collect();
    Edit {
        span: directive.list,
        text: kept.join(", "),
    }
}

/// Lines on which an ignore can stand for a finding: its own, and those of the value and the
/// key that it points at.
fn lines_of(doc: &Document, finding: &Finding) -> Vec<u32> {
    let mut lines = vec![finding.start.line];
    let Some(mut node) = doc.root.as_ref().filter(|_| !finding.pointer.is_empty()) else {
        return lines;
    };
    let mut key = None;
    for token in finding.pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let next = match &node.value {
            Value::Map(_) => node.entry(&token).map(|entry| {
                key = Some(entry.key_span);
                &entry.value
            }),
            Value::Seq(items) => {
                key = None;
                token.parse::<usize>().ok().and_then(|i| items.get(i))
            }
            _ => None,
        };
        match next {
            Some(child) => node = child,
            None => return lines,
        }
    }
    lines.push(doc.position(node.span.start).line);
    lines.extend(key.map(|span| doc.position(span.start).line));
    lines
}
