//! Rule `body-sections-recommended`: the Markdown body after the frontmatter.

use crate::context::{FindingDraft, Location, RuleContext};
use crate::finding::{Edit, Safety};
use crate::rule::{FixKind, Level, Rule, Severity, Source};
use agentproto_manifest::{Doctype, Span};
use agentproto_text::{count, one_of};

pub static BODY_SECTIONS_RECOMMENDED: Rule = Rule {
    slug: "body-sections-recommended",
    title: "The body is missing a recommended section",
    severity: Severity::Info,
    level: Level::Should,
    source: Source {
        spec: "AIP-29",
        section: "Body",
    },
    decides: &["A29-BODY-01"],
    doctypes: &[Doctype::Cli],
    fix: FixKind::Safe,
    docs: include_str!("body-sections-recommended.md"),
    ..Rule::BASE
};

struct Section {
    heading: &'static str,
    /// Beginnings of headings that count as this section, in lower case.
    accepted: &'static [&'static str],
    stub: &'static str,
}

const SECTIONS: [Section; 4] = [
    Section {
        heading: "When to reach for this CLI",
        accepted: &["when to reach", "when to use"],
        stub: "What this CLI is for, and what it is not for.",
    },
    Section {
        heading: "Gotchas",
        accepted: &["gotcha"],
        stub: "Login quirks, differences between versions, pitfalls of the environment.",
    },
    Section {
        heading: "Debugging",
        accepted: &["debugging"],
        stub: "Where the logs are, and how to fix common errors.",
    },
    Section {
        heading: "Reference",
        accepted: &["reference"],
        stub: "Links to the manual, the status page and support.",
    },
];

pub fn sections(ctx: &RuleContext<'_>) {
    let Some(front) = ctx.doc.frontmatter else {
        return;
    };
    // Without a closing fence it is unknown where the body starts.
    if front.close.is_empty() {
        return;
    }
    let body = ctx.doc.body();
    let mut found = [false; SECTIONS.len()];
    for heading in headings(body) {
        for (seen, section) in found.iter_mut().zip(&SECTIONS) {
            *seen |= section.accepted.iter().any(|a| begins_with(heading, a));
        }
    }
    let missing: Vec<&Section> = found
        .iter()
        .zip(&SECTIONS)
        .filter_map(|(seen, section)| (!seen).then_some(section))
        .collect();
    if missing.is_empty() {
        return;
    }
    let names: Vec<&str> = missing.iter().map(|s| s.heading).collect();
    let message = match names.as_slice() {
        [one] => format!("the body has no section `{one}`"),
        _ if names.len() == SECTIONS.len() => {
            "the body has none of the four recommended sections".to_owned()
        }
        _ => format!("the body has no section {}", one_of(&names)),
    };
    let line_break = if ctx.doc.text.contains("\r\n") {
        "\r\n"
    } else {
        "\n"
    };
    let mut stubs = String::new();
    if !ctx.doc.text.ends_with('\n') {
        stubs.push_str(line_break);
    }
    for section in &missing {
        for line in ["", &format!("## {}", section.heading), "", section.stub] {
            stubs.push_str(line);
            stubs.push_str(line_break);
        }
    }
    ctx.report(
        FindingDraft::new(
            &BODY_SECTIONS_RECOMMENDED,
            Location::Bytes(front.close),
            message,
        )
        .help("add the sections that AIP-29 recommends: `## When to reach for this CLI`, `## Gotchas`, `## Debugging` and `## Reference`")
        .fix(
            Safety::Safe,
            format!("Append {}", count(missing.len(), "section stub", "section stubs")),
            vec![Edit {
                span: Span::empty(ctx.doc.text.len()),
                text: stubs,
            }],
        ),
    );
}

/// Texts of the `#` headings outside code blocks.
fn headings(body: &str) -> impl Iterator<Item = &str> {
    let mut fence: Option<&str> = None;
    body.lines().filter_map(move |line| {
        let trimmed = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|m| trimmed.starts_with(m));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        if fence.is_some() || !line.starts_with('#') {
            return None;
        }
        let text = line.trim_start_matches('#');
        text.starts_with([' ', '\t']).then(|| text.trim())
    })
}

fn begins_with(text: &str, head: &str) -> bool {
    text.get(..head.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_in_code_blocks_are_ignored() {
        let body = "## One\n```sh\n# not a heading\n```\n#tag\n### Two \n~~~\n## no\n";
        assert_eq!(headings(body).collect::<Vec<_>>(), ["One", "Two"]);
    }
}
