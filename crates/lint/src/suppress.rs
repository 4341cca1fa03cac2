//! Inline ignores: `# agentproto: ignore[rule-a, rule-b] reason`.
//!
//! A suppressed finding stays in the report but does not count. An ignore that suppresses nothing
//! is reported, so that unused ignores do not accumulate.

mod directive;

use std::collections::HashMap;
use std::path::PathBuf;

use directive::{Directive, PREFIX, directives};

use crate::context::{FindingDraft, Location, finish_draft};
use crate::finding::{Edit, Finding, Safety};
use crate::registry;
use crate::rule::{Rule, Scope};
use crate::rules::{ignores, registry_wide};
use crate::settings::RuleSet;
use agentproto_manifest::comments::{line_end, line_start, next_line};
use agentproto_manifest::{Document, Span, Value, Workspace};
use agentproto_text::one_of;

/// Marks the findings that an ignore covers, and adds findings about the ignores themselves.
pub fn apply(doc: &Document, rules: &RuleSet, findings: &mut Vec<Finding>) {
    if doc.text.contains(PREFIX) {
        Suppressor::new(doc, rules).document(findings);
    }
}

/// Marks findings that were found outside a run. The ignores themselves are not checked.
pub fn mark(doc: &Document, rules: &RuleSet, findings: &mut [Finding]) {
    if !findings.is_empty() && doc.text.contains(PREFIX) {
        Suppressor::new(doc, rules).mark(findings);
    }
}

/// Whether a document ignores rules that need all files of the run.
pub fn ignores_registry_rules(doc: &Document) -> bool {
    doc.text.contains(PREFIX)
        && directives(doc)
            .valid
            .iter()
            .flat_map(|d| &d.names)
            .any(|(name, _)| registry::find(name).is_some_and(needs_whole_run))
}

/// Same as [`apply`], for rules that need all files of the run. Called after those rules ran.
pub fn apply_registry_rules(
    paths: &[PathBuf],
    workspace: &Workspace<'_>,
    rules: &RuleSet,
    findings: &mut Vec<Finding>,
) {
    for path in paths {
        let Ok(doc) = workspace.load(path) else {
            continue;
        };
        let (mut own, others) = std::mem::take(findings)
            .into_iter()
            .partition(|f| f.file == *path);
        *findings = others;
        Suppressor::new(&doc, rules).whole_run(&mut own);
        findings.append(&mut own);
    }
}

fn needs_whole_run(rule: &'static Rule) -> bool {
    rule.scope == Scope::Registry && !registry_wide::needs_base(rule)
}

/// Whether a single document is enough to check a rule. Ignores of rules that need an earlier
/// revision are never reported as unused, because most runs have no such revision.
fn needs_one_document(rule: &'static Rule) -> bool {
    rule.scope != Scope::Registry && rule != &ignores::UNUSED
}

struct Suppressor<'d> {
    doc: &'d Document,
    rules: &'d RuleSet,
    ignores: Vec<Ignore<'d>>,
    /// The ignores by rule and line. The line is `None` for ignores of the whole file.
    index: HashMap<(&'static str, Option<u32>), Covering>,
    invalid: Vec<directive::InvalidDirective>,
}

/// Ignores of one rule at one place.
#[derive(Default)]
struct Covering {
    /// Index of the ignore whose reason is used.
    first: Option<usize>,
    /// Ignores that have not suppressed anything yet: index of the ignore, index of the name.
    unused: Vec<(usize, usize)>,
}

/// A directive, and for each of its names the rule and whether it suppressed a finding.
struct Ignore<'d> {
    directive: Directive<'d>,
    named: Vec<(Option<&'static Rule>, bool)>,
}

impl<'d> Suppressor<'d> {
    fn new(doc: &'d Document, rules: &'d RuleSet) -> Self {
        let found = directives(doc);
        let ignores: Vec<Ignore<'d>> = found
            .valid
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
                // A rule that is named twice is only counted once.
                let again = ignore.named.iter().take(name).any(|(r, _)| r == rule);
                if let Some(rule) = rule.filter(|_| !again) {
                    let covering = index.entry((rule.slug, ignore.directive.line)).or_default();
                    covering.first.get_or_insert(at);
                    covering.unused.push((at, name));
                }
            }
        }
        Suppressor {
            doc,
            rules,
            ignores,
            index,
            invalid: found.invalid,
        }
    }

    fn document(&mut self, findings: &mut Vec<Finding>) {
        self.mark(findings);
        let mut own = Vec::new();
        self.report_invalid(&mut own);
        self.report_unknown_and_without_reason(&mut own);
        self.mark(&mut own);
        let mut unused = self.unused(needs_one_document);
        self.mark(&mut unused);
        // An ignore of `ignore-unused` can itself be unused. These findings cannot be ignored.
        unused.extend(self.unused(|rule| rule == &ignores::UNUSED));
        findings.append(&mut own);
        findings.append(&mut unused);
    }

    fn whole_run(&mut self, findings: &mut Vec<Finding>) {
        self.mark(findings);
        let mut unused = self.unused(needs_whole_run);
        self.mark(&mut unused);
        findings.append(&mut unused);
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

    fn report(&self, out: &mut Vec<Finding>, draft: FindingDraft<'_>, rule: &'static Rule) {
        if let Some(severity) = self.rules.severity(rule) {
            out.push(finish_draft(self.doc, draft, severity));
        }
    }

    fn report_invalid(&self, out: &mut Vec<Finding>) {
        for invalid in &self.invalid {
            let rule = &ignores::INVALID;
            let message = format!("{}, so it has no effect", invalid.why);
            let draft = FindingDraft::new(rule, Location::Bytes(invalid.span), message)
                .help(invalid.help.as_str());
            self.report(out, draft, rule);
        }
    }

    fn report_unknown_and_without_reason(&self, out: &mut Vec<Finding>) {
        for ignore in &self.ignores {
            let directive = &ignore.directive;
            for ((name, span), (known, _)) in directive.names.iter().zip(&ignore.named) {
                if known.is_some() {
                    continue;
                }
                let rule = &ignores::UNKNOWN_RULE;
                let help = match registry::closest(name) {
                    Some(slug) => format!("did you mean `{slug}`?"),
                    None => "run `agentproto rules` for a list; wildcards are not allowed here"
                        .to_owned(),
                };
                let draft = FindingDraft::new(
                    rule,
                    Location::Bytes(*span),
                    format!("unknown rule `{name}` in an ignore"),
                )
                .help(help);
                self.report(out, draft, rule);
            }
            if directive.reason.is_empty() {
                let rule = &ignores::NO_REASON;
                let draft = FindingDraft::new(
                    rule,
                    Location::Bytes(directive.span),
                    "the ignore has no reason",
                )
                .help("add a reason after the closing bracket");
                self.report(out, draft, rule);
            }
        }
    }

    /// Reports the names that suppressed nothing, among the rules for which `includes` is true.
    fn unused(&self, includes: impl Fn(&'static Rule) -> bool) -> Vec<Finding> {
        let mut out = Vec::new();
        // A document that could not be parsed was not checked, so its ignores may be needed.
        if self.doc.root.is_none() {
            return out;
        }
        for ignore in &self.ignores {
            let unused: Vec<usize> = ignore
                .named
                .iter()
                .enumerate()
                .filter(|(_, (rule, used))| {
                    !used && rule.is_some_and(|r| includes(r) && self.rules.severity(r).is_some())
                })
                .map(|(i, _)| i)
                .collect();
            let names: Vec<&str> = unused
                .iter()
                .filter_map(|i| ignore.directive.names.get(*i))
                .map(|(name, _)| *name)
                .collect();
            if names.is_empty() {
                continue;
            }
            let rule = &ignores::UNUSED;
            let place = if ignore.directive.line.is_some() {
                "on the line it applies to"
            } else {
                "in this file"
            };
            let all = names.len() == ignore.named.len();
            let draft = FindingDraft::new(
                rule,
                Location::Bytes(ignore.directive.span),
                format!("unused ignore: no finding of {} {place}", one_of(&names)),
            )
            .help("remove the ignore, or move it to the line that it is meant for")
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
                    without_names(&ignore.directive, &unused)
                }],
            );
            self.report(&mut out, draft, rule);
        }
        out
    }
}

/// Removes the comment. If nothing else is on its line, removes the line.
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

fn without_names(directive: &Directive<'_>, unused: &[usize]) -> Edit {
    let names = directive.names.iter().enumerate();
    let kept: Vec<&str> = names
        .filter(|(i, _)| !unused.contains(i))
        .map(|(_, (name, _))| *name)
        .collect();
    Edit {
        span: directive.list,
        text: kept.join(", "),
    }
}

/// The lines whose ignores apply to a finding: its first line, and the first lines of the key and
/// the value that it points at.
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
