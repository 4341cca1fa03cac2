//! `protocol-unknown`, `protocol-print-extension`.

use super::{BASE, PROTOCOLS};
use crate::context::{Context, Draft};
use crate::rule::{Profile, Rule, Severity};
use agentproto_manifest::Node;
use agentproto_text::{closest_of, one_of};

pub static PROTOCOL_UNKNOWN: Rule = Rule {
    slug: "protocol-unknown",
    words: Some(|ctx, v| ctx.report(unknown(ctx, v.node))),
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

fn unknown<'d>(ctx: &Context<'d>, node: &'d Node) -> Draft<'d> {
    if node.as_str() == Some("print") {
        let drift = match ctx.profile {
            Profile::Reference => " (known drift D1)",
            _ => "",
        };
        return Draft::new(
            &PROTOCOL_PRINT_EXTENSION,
            node,
            format!("only the reference implementation supports `protocol: print`{drift}"),
        )
        .help(format!(
            "use {}; other hosts must refuse this manifest",
            one_of(&PROTOCOLS)
        ));
    }
    let written = ctx.doc.slice(node.span);
    let draft = Draft::new(
        &PROTOCOL_UNKNOWN,
        node,
        format!("unknown protocol `{written}`: every host must refuse to load this manifest"),
    );
    match closest_of(written, PROTOCOLS) {
        Some(meant) => draft.help(format!("did you mean `{meant}`?")),
        None => draft.help(format!("allowed values: {}", one_of(&PROTOCOLS))),
    }
}
