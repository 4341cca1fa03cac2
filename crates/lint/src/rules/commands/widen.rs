//! Rule `tool-sandbox-widens`: a tool's sandbox may be narrower than the bundle's, but not wider.

use super::TOOL;
use crate::context::{FindingDraft, Location, RuleContext};
use crate::rule::{Rule, Scope, Source};
use crate::rules::sandbox29::wildcard_covers;
use agentproto_manifest::{Document, Node, Span, globs};
use agentproto_text::truncate;
use std::sync::Arc;

pub static SANDBOX_WIDENS: Rule = Rule {
    slug: "tool-sandbox-widens",
    title: "A tool's sandbox grants more than the sandbox of its bundle",
    source: Source {
        spec: "AIP-29",
        section: "Inheritance to subcommand tools",
    },
    decides: &["A29-INHERIT-02", "A29-INHERIT-03", "A29-INHERIT-04"],
    doctypes: TOOL,
    scope: Scope::CrossFile,
    docs: include_str!("tool-sandbox-widens.md"),
    ..Rule::BASE
};

pub fn check<'d>(ctx: &RuleContext<'d>, cli: &Arc<Document>) {
    let Some(own) = ctx.root.get("sandbox").filter(|s| s.is_map()) else {
        return;
    };
    let Some(bundle) = cli
        .root
        .as_ref()
        .and_then(|root| root.get("sandbox"))
        .filter(|s| s.is_map())
    else {
        return;
    };
    let pair = Comparison {
        ctx,
        cli,
        own,
        bundle,
    };
    pair.list(&["network", "egress"], "hosts", wildcard_covers);
    pair.list(&["network", "ingress"], "inbound URLs", wildcard_covers);
    pair.list(&["fs", "read"], "readable paths", covers_path);
    pair.list(&["fs", "write"], "writable paths", covers_path);
    pair.deny();
    pair.exec();
    pair.list(&["env", "pass"], "variables", wildcard_covers);
    pair.set();
    pair.tty();
}

fn covers_path(granted: &str, requested: &str) -> bool {
    granted == requested || globs::covers(granted, requested)
}

struct Comparison<'c, 'd> {
    ctx: &'c RuleContext<'d>,
    cli: &'c Arc<Document>,
    own: &'d Node,
    bundle: &'c Node,
}

impl<'d> Comparison<'_, 'd> {
    /// Reports each entry of the tool's list that no entry of the bundle's list covers. A list that
    /// the bundle does not have grants nothing.
    fn list(&self, path: &[&str], what: &str, covers: fn(&str, &str) -> bool) {
        let Some(own) = self.own.at(path) else {
            return;
        };
        let granted = self.bundle.at(path);
        for (requested, node) in own.strings() {
            let covered =
                granted.is_some_and(|list| list.strings().any(|(g, _)| covers(g, requested)));
            if !covered {
                self.report(
                    node,
                    format!(
                        "`{}` is not among the {what} that the bundle grants",
                        truncate(requested, 60)
                    ),
                    path,
                );
            }
        }
    }

    /// A `deny` list of the tool replaces the bundle's list, so it must repeat what the bundle
    /// denies.
    fn deny(&self) {
        let path = ["fs", "deny"];
        let (Some(own), Some(bundle)) = (self.own.entry_at(&path), self.bundle.at(&path)) else {
            return;
        };
        if !own.value.is_seq() {
            return;
        }
        for (denied, node) in bundle.strings() {
            let kept = own.value.strings().any(|(d, _)| covers_path(d, denied));
            if !kept {
                let report = FindingDraft::new(
                    &SANDBOX_WIDENS,
                    own,
                    format!(
                        "`fs.deny` does not cover `{}`, which the bundle denies",
                        truncate(denied, 60)
                    ),
                )
                .related(self.cli, node.span, "denied here")
                .help("add the entry, or remove `deny` to inherit the bundle's list");
                self.ctx.report(report);
            }
        }
    }

    fn exec(&self) {
        let allow = ["exec", "allow"];
        let bundle_allows = self.bundle.at(&allow).is_some_and(Node::is_true);
        let own_allow = self.own.at(&allow);
        if let Some(node) = own_allow.filter(|node| node.is_true())
            && !bundle_allows
        {
            // The spawn list depends on this switch, so one finding covers both.
            return self.report(
                node,
                "the bundle does not allow child processes".to_owned(),
                &allow,
            );
        }
        let inert = !bundle_allows || own_allow.is_some_and(|node| node.as_bool() == Some(false));
        if !inert {
            self.list(&["exec", "spawn"], "programs", |granted, requested| {
                granted == requested
            });
        }
    }

    fn set(&self) {
        let path = ["env", "set"];
        let fixed = self.bundle.at(&path);
        let passed = self.bundle.at(&["env", "pass"]);
        for entry in self.own.at(&path).map_or(&[][..], Node::entries) {
            let granted = fixed.and_then(|set| set.entry(&entry.key));
            let message = match granted {
                Some(other) if other.value.value == entry.value.value => continue,
                Some(_) => format!("`{}` has a different value than the bundle sets", entry.key),
                // A fixed value is narrower than the value that the host passes.
                None if passed.is_some_and(|list| {
                    list.strings().any(|(p, _)| wildcard_covers(p, &entry.key))
                }) =>
                {
                    continue;
                }
                None => format!(
                    "`{}` is not among the variables that the bundle sets or passes",
                    entry.key
                ),
            };
            let span = granted.map_or_else(|| self.nearest_span(&path), |other| other.key_span);
            self.report_at(entry, message, span, "env.set");
        }
    }

    fn tty(&self) {
        let path = ["tty", "required"];
        if let Some(node) = self.own.at(&path).filter(|node| node.is_true())
            && !self.bundle.at(&path).is_some_and(Node::is_true)
        {
            self.report(
                node,
                "the bundle does not require a terminal".to_owned(),
                &path,
            );
        }
    }

    fn report(&self, node: &'d Node, message: String, path: &[&str]) {
        self.report_at(node, message, self.nearest_span(path), &path.join("."));
    }

    fn report_at(
        &self,
        location: impl Into<Location<'d>>,
        message: String,
        parent: Span,
        field: &str,
    ) {
        let report = FindingDraft::new(&SANDBOX_WIDENS, location, message)
            .related(self.cli, parent, format!("the bundle's `sandbox.{field}`"))
            .help("grant it in the CLI.md, or remove it here: a tool may narrow the sandbox, but not widen it");
        self.ctx.report(report);
    }

    /// Span of the bundle's list, or of the nearest enclosing block that exists.
    fn nearest_span(&self, path: &[&str]) -> Span {
        let lengths = (1..=path.len()).rev();
        let entry = lengths
            .filter_map(|n| path.get(..n))
            .find_map(|part| self.bundle.entry_at(part));
        entry.map_or_else(
            || super::tool::key_span(self.cli, "sandbox"),
            |e| e.key_span,
        )
    }
}
