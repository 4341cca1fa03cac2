//! Rules `acp-transport-stdio` and `acp-remote-websocket`.

use super::{ACP, aip44, kind};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::Value;

pub static ACP_TRANSPORT_STDIO: Rule = Rule {
    slug: "acp-transport-stdio",
    title: "The endpoint does not support stdio",
    source: aip44("Transports"),
    decides: &["A44-TRANS-03"],
    doctypes: ACP,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    docs: include_str!("acp-transport-stdio.md"),
    ..Rule::BASE
};

pub static ACP_REMOTE_WEBSOCKET: Rule = Rule {
    slug: "acp-remote-websocket",
    title: "A server can be used only on its own machine",
    severity: Severity::Info,
    level: Level::Should,
    source: aip44("Transports"),
    decides: &["A44-TRANS-04"],
    doctypes: ACP,
    scope: Scope::CrossField,
    docs: include_str!("acp-remote-websocket.md"),
    ..Rule::BASE
};

pub(super) fn transport(ctx: &RuleContext<'_>) {
    let Some(node) = ctx.root.get("transport") else {
        return;
    };
    let known = |word: &str| matches!(word, "stdio" | "websocket");
    let items = node.items();
    let all_known = match &node.value {
        Value::Str(word) => known(word),
        // acp-transport-enum reports a misspelled item, which may be the missing one.
        Value::Seq(items) => {
            !items.is_empty() && items.iter().all(|i| i.as_str().is_some_and(known))
        }
        _ => false,
    };
    if !all_known {
        return;
    }
    let has =
        |word: &str| node.as_str() == Some(word) || items.iter().any(|i| i.as_str() == Some(word));
    if !has("stdio") {
        let edits = if node.is_seq() {
            edits::append_item(ctx.doc, node, "stdio")
        } else {
            edits::set_raw(ctx.doc, node, "[stdio, websocket]")
        };
        ctx.report(
            FindingDraft::new(
                &ACP_TRANSPORT_STDIO,
                node,
                "`transport` does not contain `stdio`, which every implementation must support",
            )
            .help("write `transport: [stdio, websocket]`")
            .fix_if(Safety::Safe, "Add `stdio`", edits),
        );
    } else if !has("websocket") && kind(ctx) == Some("server") {
        ctx.report(
            FindingDraft::new(
                &ACP_REMOTE_WEBSOCKET,
                node,
                "this server supports only `stdio`, so clients on other machines cannot use it",
            )
            .help("add `websocket` if the server is meant for remote use, otherwise ignore this"),
        );
    }
}
