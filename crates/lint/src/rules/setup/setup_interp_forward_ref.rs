//! Rule `setup-interp-forward-ref`: a step uses a value that no earlier step captures.

use super::{CLI_AND_AGENT_CLI, Order, SETUP, has_value};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope};
use agentproto_manifest::Node;
use agentproto_text::{closest_of, truncate};

pub static SETUP_INTERP_FORWARD_REF: Rule = Rule {
    slug: "setup-interp-forward-ref",
    title: "A step uses a value that no earlier step captures",
    level: Level::Derived,
    source: SETUP,
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    docs: include_str!("setup-interp-forward-ref.md"),
    ..Rule::BASE
};

pub(super) fn inputs<'d>(ctx: &RuleContext<'d>, node: &'d Node, at: usize, order: &Order<'d>) {
    let earlier = order.steps.get(..at).unwrap_or_default();
    let own = order.steps.get(at).and_then(|step| step.str_at(&["id"]));
    let mut rest = node.as_str().unwrap_or("");
    while let Some((_, after)) = rest.split_once("${input.") {
        let Some((name, later)) = after.split_once('}') else {
            return;
        };
        rest = later;
        if order
            .first_with_value
            .get(name)
            .is_some_and(|first| *first < at)
        {
            continue;
        }
        let first = order.first.get(name).copied();
        let step = |i: usize| order.steps.get(i);
        let shown = truncate(name, 64);
        let known = || {
            earlier
                .iter()
                .filter(|s| has_value(s))
                .filter_map(|s| s.str_at(&["id"]))
        };
        let (message, help, other) = if own == Some(name) {
            (
                format!("`${{input.{shown}}}` refers to the step's own value"),
                "within `persist`, write `${value}`".to_owned(),
                None,
            )
        } else if let Some(other) = first.filter(|i| *i < at).and_then(step) {
            (
                format!(
                    "`${{input.{shown}}}` refers to a step of kind `oauth`, which has no value"
                ),
                "use the secret that the step names, which contains its tokens".to_owned(),
                Some((other, "this step")),
            )
        } else if let Some(other) = first.and_then(step) {
            (
                format!("`${{input.{shown}}}` refers to a step that runs later"),
                "move that step up: steps run in the order of the list".to_owned(),
                Some((other, "runs after this step")),
            )
        } else {
            (
                format!("`${{input.{shown}}}` refers to an unknown step"),
                match closest_of(name, known()) {
                    Some(meant) => format!("did you mean `${{input.{meant}}}`?"),
                    None => "use the id of an earlier step".to_owned(),
                },
                None,
            )
        };
        let draft = FindingDraft::new(&SETUP_INTERP_FORWARD_REF, node, message).help(help);
        ctx.report(match other.and_then(|(s, why)| Some((s.get("id")?, why))) {
            Some((id, why)) => draft.nearby(id.span, why),
            None => draft,
        });
        // Report only one finding per text.
        return;
    }
}
