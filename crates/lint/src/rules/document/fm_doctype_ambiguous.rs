//! Rule `fm-doctype-ambiguous`: the file has the fields of both a tool CLI and an agent CLI.

use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

pub static FM_DOCTYPE_AMBIGUOUS: Rule = Rule {
    slug: "fm-doctype-ambiguous",
    title: "The file has the fields of both a tool CLI and an agent CLI",
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

/// Reports a file whose name does not identify its format and that has the fields of both formats.
pub(super) fn doctype_is_clear(ctx: &RuleContext<'_>) {
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
        FindingDraft::new(
            &FM_DOCTYPE_AMBIGUOUS,
            deciding,
            format!(
                "the file has both `commands` and `protocol`, and is checked as {} ({})",
                ctx.doctype.file_name(),
                ctx.doctype.spec()
            ),
        )
        .nearby(
            other.key_span,
            format!("`{}` is a field of the other format", other.key),
        )
        .help(
            "for a tool that is called once per task, name the file CLI.md and remove `protocol`. For an agent that keeps sessions, name it AGENT-CLI.md and remove `commands`",
        ),
    );
}
