//! Checks the runtime binding of OPERATOR.md (AIP-9) against the AGENT-CLI.md that it refers to.

mod op_ref_required;
mod op_ref_unresolved;

use crate::context::{FindingDraft, RuleContext};
use crate::registry::{Family, FamilyCheck};
use crate::rule::{FixKind, Level, Rule, Scope, Source};
use agentproto_manifest::{Doctype, Document, Entry, Node, RefRole, Value};
use agentproto_text::credentials::{is_secret_name, is_token};
use agentproto_text::{closest_of, one_of, truncate};
use std::sync::Arc;

use op_ref_required::OP_REF_REQUIRED;
use op_ref_unresolved::{OP_REF_UNRESOLVED, unresolved};

pub static FAMILY: Family = Family {
    name: "operator",
    rules: &[
        &OP_REF_REQUIRED,
        &OP_REF_UNRESOLVED,
        &OP_MODE_UNKNOWN,
        &OP_OPTION_UNKNOWN,
        &OP_OPTION_VALUE,
        &OP_CONTINUATION_UNSUPPORTED,
        &OP_SESSION_RESUMABLE,
    ],
    checks: &[FamilyCheck {
        doctypes: &[Doctype::Operator],
        run: check,
    }],
};

const OPERATOR: &[Doctype] = &[Doctype::Operator];

const AIP9: Source = Source {
    spec: "AIP-9",
    section: "Runtime binding",
};

pub static OP_MODE_UNKNOWN: Rule = Rule {
    slug: "op-mode-unknown",
    title: "The agent does not have this mode",
    source: AIP9,
    decides: &["A45-MODE-06"],
    doctypes: OPERATOR,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    docs: include_str!("op-mode-unknown.md"),
    ..Rule::BASE
};

pub static OP_OPTION_UNKNOWN: Rule = Rule {
    slug: "op-option-unknown",
    title: "The agent does not have this option",
    source: AIP9,
    decides: &["A45-OPT-10"],
    doctypes: OPERATOR,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    docs: include_str!("op-option-unknown.md"),
    ..Rule::BASE
};

pub static OP_OPTION_VALUE: Rule = Rule {
    slug: "op-option-value",
    title: "The value is not valid for the agent's option",
    source: AIP9,
    decides: &["A45-OPT-09"],
    doctypes: OPERATOR,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    docs: include_str!("op-option-value.md"),
    ..Rule::BASE
};

pub static OP_CONTINUATION_UNSUPPORTED: Rule = Rule {
    slug: "op-continuation-unsupported",
    title: "The agent does not support this continuation strategy",
    source: AIP9,
    decides: &["A45-CONT-10"],
    doctypes: OPERATOR,
    scope: Scope::CrossFile,
    docs: include_str!("op-continuation-unsupported.md"),
    ..Rule::BASE
};

pub static OP_SESSION_RESUMABLE: Rule = Rule {
    slug: "op-session-resumable",
    title: "The session is resumable, but the agent cannot resume",
    level: Level::Derived,
    source: AIP9,
    doctypes: OPERATOR,
    scope: Scope::CrossFile,
    docs: include_str!("op-session-resumable.md"),
    ..Rule::BASE
};

fn check(ctx: &RuleContext<'_>) {
    let Some(runtime) = ctx.root.get("runtime") else {
        return;
    };
    if runtime.str_at(&["kind"]) != Some("agent-cli") {
        return;
    }
    let Some(manifest) = bound(ctx) else {
        return;
    };
    let Some(agent) = manifest.root.as_ref() else {
        return;
    };
    let binding = Binding {
        ctx,
        manifest: &manifest,
        agent,
    };
    if let Some(config) = runtime.get("config") {
        binding.mode(config);
        binding.options(config);
        binding.continuation(config);
    }
    binding.session(runtime);
}

/// The manifest that `ref` refers to: by path, or by id among the manifests of the run.
fn bound(ctx: &RuleContext<'_>) -> Option<Arc<Document>> {
    if let Some((_, doc)) = ctx.bound(RefRole::AgentCli) {
        return Some(Arc::clone(doc));
    }
    let node = ctx.root.at(&["runtime", "ref"])?;
    let slug = node.as_str().filter(|text| is_slug(text))?;
    let index = ctx.index?;
    let mut found = index.by_id(Doctype::AgentCli, slug);
    match (found.next(), found.next()) {
        (Some(entry), None) => ctx.workspace.load(&entry.path).ok(),
        // Two manifests have this id. The registry rules report that.
        (Some(_), Some(_)) => None,
        (None, _) => {
            unresolved(ctx, node, slug);
            None
        }
    }
}

/// Whether a text is a slug: not a path, not `package#export` and not a registry id.
fn is_slug(text: &str) -> bool {
    !text.is_empty() && !text.contains(['/', '\\', '.', '#', '@', ':'])
}

/// An operator and the manifest of its agent.
struct Binding<'c, 'd> {
    ctx: &'c RuleContext<'d>,
    manifest: &'c Arc<Document>,
    agent: &'c Node,
}

impl<'d> Binding<'_, 'd> {
    fn mode(&self, config: &'d Node) {
        let Some(node) = config.get("mode") else {
            return;
        };
        let Some(mode) = node.as_str() else {
            return;
        };
        let ids: Vec<&str> = ids(self.agent.get("modes"));
        if ids.contains(&mode) {
            return;
        }
        let draft = FindingDraft::new(
            &OP_MODE_UNKNOWN,
            node,
            format!("the agent has no mode `{}`", truncate(mode, 40)),
        );
        self.ctx
            .report(self.with_choices(draft, "modes", mode, &ids));
    }

    fn options(&self, config: &'d Node) {
        let configured = config.get("options").map_or(&[][..], Node::entries);
        if configured.is_empty() {
            return;
        }
        let defined = self.agent.get("options").map_or(&[][..], Node::items);
        for entry in configured {
            let option = defined
                .iter()
                .find(|o| o.str_at(&["id"]) == Some(entry.key.as_str()));
            match option {
                Some(option) => self.value(entry, option),
                None => {
                    let ids: Vec<&str> = ids(self.agent.get("options"));
                    let draft = FindingDraft::new(
                        &OP_OPTION_UNKNOWN,
                        entry,
                        format!("the agent has no option `{}`", truncate(&entry.key, 40)),
                    );
                    self.ctx
                        .report(self.with_choices(draft, "options", &entry.key, &ids));
                }
            }
        }
    }

    fn value(&self, entry: &'d Entry, option: &Node) {
        let Some((problem, help)) = invalid_value(&entry.value, option) else {
            return;
        };
        let secret = is_secret_name(&entry.key)
            || entry.value.as_str().is_some_and(is_token)
            || entry.value.is_map()
            || entry.value.is_seq();
        let shown = if secret {
            "the value".to_owned()
        } else {
            let raw = self.ctx.doc.slice(entry.value.span);
            format!("`{}`", truncate(raw, 40))
        };
        let defined = option.get("id").map_or(option.span, |id| id.span);
        self.ctx.report(
            FindingDraft::new(
                &OP_OPTION_VALUE,
                &entry.value,
                format!(
                    "{shown} is not valid for the option `{}`: {problem}",
                    entry.key
                ),
            )
            .help(help)
            .related(self.manifest, defined, "the option is defined here"),
        );
    }

    fn continuation(&self, config: &'d Node) {
        let Some(node) = config.get("continuation") else {
            return;
        };
        let Some(strategy @ ("none" | "pinned-session" | "transcript" | "native-resume")) =
            node.as_str()
        else {
            return;
        };
        let block = self.agent.entry("continuation");
        let supported: Vec<&str> = match block {
            None => vec!["none"],
            Some(block) => match block.value.get("supported") {
                Some(list) if list.is_seq() => list.strings().map(|(text, _)| text).collect(),
                // The agent's manifest is invalid, which is reported there.
                _ => return,
            },
        };
        if supported.contains(&strategy) {
            return;
        }
        let draft = FindingDraft::new(
            &OP_CONTINUATION_UNSUPPORTED,
            node,
            format!("the agent does not support the continuation strategy `{strategy}`"),
        )
        .help(format!("expected {}", one_of(&supported)));
        let list = block.and_then(|b| b.value.get("supported"));
        self.ctx.report(match list {
            Some(list) => draft.related(self.manifest, list.span, "supported strategies"),
            None => draft,
        });
    }

    fn session(&self, runtime: &'d Node) {
        let Some(mode) = runtime.at(&["session", "mode"]) else {
            return;
        };
        let flag = self.agent.at(&["capabilities", "resumable"]);
        let wrong_type = flag.is_some_and(|f| f.as_bool().is_none());
        if mode.as_str() != Some("resumable") || wrong_type || flag.is_some_and(Node::is_true) {
            return;
        }
        let mut draft = FindingDraft::new(
            &OP_SESSION_RESUMABLE,
            mode,
            "`session.mode: resumable` requires `capabilities.resumable: true` in the agent's manifest",
        )
        .help(
            "use `persistent` or `ephemeral`, or refer to an agent with `capabilities.resumable: true`",
        );
        let place = flag.map(|f| f.span).or_else(|| {
            let caps = self.agent.entry("capabilities");
            caps.map(|entry| entry.key_span)
        });
        if let Some(span) = place {
            draft = draft.related(self.manifest, span, "capabilities of the agent");
        }
        self.ctx.report(draft);
    }

    /// Adds the available ids as help, and the place where the agent's manifest lists them.
    fn with_choices(
        &self,
        draft: FindingDraft<'d>,
        list: &str,
        word: &str,
        ids: &[&str],
    ) -> FindingDraft<'d> {
        let draft = match closest_of(word, ids.iter().copied()) {
            Some(meant) => draft.help(format!("did you mean `{meant}`?")),
            None if ids.is_empty() => draft.help(format!("remove it: the agent has no `{list}`")),
            None => draft.help(format!("expected {}", one_of(ids))),
        };
        match self.agent.entry(list) {
            Some(entry) => {
                draft.related(self.manifest, entry.key_span, format!("the agent's {list}"))
            }
            None => draft,
        }
    }
}

fn ids(list: Option<&Node>) -> Vec<&str> {
    list.map_or(&[][..], Node::items)
        .iter()
        .filter_map(|item| item.str_at(&["id"]))
        .collect()
}

/// Why a value is not valid for an option, and help. `None` if it is valid, or if the definition of
/// the option is invalid.
fn invalid_value(value: &Node, option: &Node) -> Option<(String, String)> {
    let expected = |what: &str, help: &str| Some((format!("expected {what}"), help.to_owned()));
    match option.str_at(&["type"])? {
        "boolean" if value.as_bool().is_none() => expected("a boolean", "write `true` or `false`"),
        "string" if value.as_str().is_none() => expected("a string", "put it in quotes"),
        "integer" => {
            let number = match value.value {
                Value::Int(number) => number as f64,
                // `4.0` is an integer, as in JSON Schema.
                Value::Float(number) if number.fract() == 0.0 => number,
                _ => return expected("an integer", "write a whole number, without quotes"),
            };
            let least = option.get("min").and_then(Node::as_int);
            let most = option.get("max").and_then(Node::as_int);
            let bounds = match (least, most) {
                (Some(least), Some(most)) => format!("an integer between {least} and {most}"),
                (Some(least), None) => format!("an integer of at least {least}"),
                (None, Some(most)) => format!("an integer of at most {most}"),
                (None, None) => return None,
            };
            let outside = least.is_some_and(|least| number < least as f64)
                || most.is_some_and(|most| number > most as f64);
            outside.then(|| (format!("expected {bounds}"), format!("choose {bounds}")))
        }
        "enum" => {
            let choices: Vec<&str> = option
                .get("enum")?
                .strings()
                .map(|(text, _)| text)
                .collect();
            let text = value.as_str();
            if choices.is_empty() || text.is_some_and(|text| choices.contains(&text)) {
                return None;
            }
            let listed = one_of(&choices);
            let help = match text.and_then(|text| closest_of(text, choices.iter().copied())) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("choose {listed}"),
            };
            Some((format!("expected {listed}"), help))
        }
        _ => None,
    }
}
