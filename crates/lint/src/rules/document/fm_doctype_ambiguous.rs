//! Neither name nor fields tell a tool CLI from an agent CLI.

use crate::context::{Context, Draft};
use crate::rule::{Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

pub static FM_DOCTYPE_AMBIGUOUS: Rule = Rule {
    slug: "fm-doctype-ambiguous",
    title: "Neither name nor fields tell a tool CLI from an agent CLI",
    severity: Severity::Warning,
    level: Level::Derived,
    source: Source {
        spec: "AIP-45",
        section: "Scope",
    },
    decides: &["A45-SCOPE-01"],
    doctypes: &[Doctype::Cli, Doctype::AgentCli],
    scope: Scope::CrossField,
    docs: include_str!("fm-doctype-ambiguous.md"),
    ..Rule::BASE
};

/// The name decides where it can; a free name with the fields of both is a guess.
pub(super) fn doctype_is_clear(ctx: &Context<'_>) {
    let (Some(commands), Some(protocol)) = (ctx.root.entry("commands"), ctx.root.entry("protocol"))
    else {
        return;
    };
    let name = ctx.doc.path.file_name().and_then(|n| n.to_str());
    if name.and_then(Doctype::from_file_name).is_some() {
        return;
    }
    let (deciding, other) = match ctx.doctype {
        Doctype::AgentCli => (protocol, commands),
        _ => (commands, protocol),
    };
    ctx.report(
        Draft::new(
            &FM_DOCTYPE_AMBIGUOUS,
            deciding,
            format!(
                "the file has both `commands` and `protocol`; it is judged as {} ({})",
                ctx.doctype.file_name(),
                ctx.doctype.spec()
            ),
        )
        .nearby(
            other.key_span,
            format!("`{}` speaks for the other format", other.key),
        )
        .help(
            "a tool that is called once per task is a CLI.md with `commands`; an agent that keeps sessions is an AGENT-CLI.md with `protocol`: name the file after its format and drop the other field",
        ),
    );
}
