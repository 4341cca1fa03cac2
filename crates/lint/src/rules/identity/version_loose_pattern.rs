//! The version matches the schema but is not a semantic version.

use super::{fits, spelling};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Severity, Source};
use agentproto_manifest::Doctype;
use agentproto_text::truncate;

pub static VERSION_LOOSE_PATTERN: Rule = Rule {
    slug: "version-loose-pattern",
    title: "The version matches the schema but is not a semantic version",
    severity: Severity::Warning,
    level: Level::Derived,
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    doctypes: &[
        Doctype::Cli,
        Doctype::AgentCli,
        Doctype::Acp,
        Doctype::Sandbox,
        Doctype::Tool,
        Doctype::Operator,
    ],
    fix: FixKind::Suggest,
    docs: include_str!("version-loose-pattern.md"),
    ..Rule::BASE
};

pub(super) fn version(ctx: &RuleContext<'_>) {
    let Some(node) = ctx.root.get("version") else {
        return;
    };
    let Some(text) = node.as_str() else {
        return;
    };
    let Err(error) = semver::Version::parse(text) else {
        return;
    };
    // A number that is too large for the parser is still a valid version.
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    let too_large = numbers.any(|digits| digits.len() > 19);
    // The pattern of OPERATOR.md already rejects underscores.
    let refused = ctx.is(Doctype::Operator) && text.contains('_');
    if !too_large && !refused && fits(spelling::LOOSE_VERSION, text) {
        let message = format!(
            "`{}` is not a semantic version: {error}",
            truncate(text, 40)
        );
        ctx.report(
            FindingDraft::new(&VERSION_LOOSE_PATTERN, node, message)
                .help("remove leading zeros, underscores and empty parts, for example `1.2.3` or `1.2.3-rc.1`"),
        );
    }
}
