//! `name-length`, `description-length`.

use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Source};
use crate::shape::{self, Keyword, SchemaViolation};
use agentproto_manifest::Doctype;

pub static NAME_LENGTH: Rule = Rule {
    slug: "name-length",
    report: Some(bad_length),
    title: "The name is empty or longer than 80 characters",
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    decides: &["A29-REQ-01"],
    doctypes: &[
        Doctype::Cli,
        Doctype::AgentCli,
        Doctype::Acp,
        Doctype::Secrets,
        Doctype::Tool,
        Doctype::Operator,
    ],
    docs: include_str!("name-length.md"),
    ..Rule::BASE
};

pub static DESCRIPTION_LENGTH: Rule = Rule {
    slug: "description-length",
    report: Some(bad_length),
    title: "The description is empty or longer than 2000 characters",
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    decides: &["A29-REQ-04", "A44-FM-03", "A45-FM-03"],
    doctypes: &[
        Doctype::Cli,
        Doctype::AgentCli,
        Doctype::Acp,
        Doctype::Secrets,
        Doctype::Tool,
    ],
    docs: include_str!("description-length.md"),
    ..Rule::BASE
};

fn bad_length<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    let draft = if violation.keyword == Keyword::MinLength {
        let (message, help) = if violation.rule == &NAME_LENGTH {
            ("the name is empty", "write a name of 1 to 80 characters")
        } else {
            (
                "the description is empty",
                "describe in a sentence what it does and when to use it",
            )
        };
        FindingDraft::new(violation.rule, violation.node, message).help(help)
    } else {
        shape::draft(ctx, violation).help("shorten it, and move details to the body")
    };
    ctx.report(draft);
}
