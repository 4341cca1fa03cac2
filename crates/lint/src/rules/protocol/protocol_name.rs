//! `protocol-unknown`, `protocol-print-extension`.

use super::{BASE, PROTOCOLS};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Severity};
use agentproto_manifest::Node;
use agentproto_text::{closest_of, one_of};

pub static PROTOCOL_UNKNOWN: Rule = Rule {
    slug: "protocol-unknown",
    report: Some(|ctx, v| ctx.report(unknown(ctx, v.node))),
    title: "The protocol is not defined in AIP-45",
    decides: &["A45-PROTO-04", "A45-FM-12"],
    docs: include_str!("protocol-unknown.md"),
    ..BASE
};

pub static PROTOCOL_PRINT_EXTENSION: Rule = Rule {
    slug: "protocol-print-extension",
    title: "The protocol `print` exists in the reference implementation only",
    severity: Severity::Warning,
    spec_severity: Some(Severity::Error),
    decides: &["A45-PROTO-04"],
    docs: include_str!("protocol-print-extension.md"),
    ..BASE
};

fn unknown<'d>(ctx: &RuleContext<'d>, node: &'d Node) -> FindingDraft<'d> {
    if node.as_str() == Some("print") {
        return FindingDraft::new(
            &PROTOCOL_PRINT_EXTENSION,
            node,
            "only the reference implementation supports `protocol: print`",
        )
        .help(format!(
            "use {}; other hosts must refuse this manifest",
            one_of(&PROTOCOLS)
        ));
    }
    let written = ctx.doc.slice(node.span);
    let draft = FindingDraft::new(
        &PROTOCOL_UNKNOWN,
        node,
        format!("unknown protocol `{written}`: every host must refuse to load this manifest"),
    );
    let expected = one_of(&PROTOCOLS);
    draft.help(match closest_of(written, PROTOCOLS) {
        Some(meant) => format!("did you mean `{meant}`? (expected {expected})"),
        None => format!("expected {expected}"),
    })
}
