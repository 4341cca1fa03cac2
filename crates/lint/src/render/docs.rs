//! Documentation of a rule as Markdown, for `explain`, docs/rules.md, SARIF and the editor.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::finding::cites_spec_of_file;
use crate::registry::{self, FAMILIES};
use crate::render::{citation, rules};
use crate::{Example, FixKind, Profile, Rule, Severity};
use agentproto_report::aoi::{object, pages_jsonl};
use agentproto_report::markdown::block;
use agentproto_text as text;

/// The page of a rule. Its title is a heading of this level.
pub fn markdown(rule: &Rule, level: usize) -> String {
    page(rule, level, &sections(rule, level + 1))
}

fn page(rule: &Rule, level: usize, sections: &str) -> String {
    format!(
        "{} {}\n\n{}\n\n{sections}",
        heading(level),
        rule.slug,
        full_stop(rule.title),
    )
}

/// The sections of the page, without its title. Their headings have this level. The numbers of
/// contradictions are left out: only docs/rules.md explains them.
pub fn sections(rule: &Rule, level: usize) -> String {
    let note = rule.notes().map(|note| {
        let mut parts = note.split(CONTRADICTION);
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let rest = part.split_once(')').map_or(part, |(_, rest)| rest);
            text.push_str(CONTRADICTION.trim_end_matches(" (C"));
            text.push_str(rest);
        }
        text
    });
    sections_with(rule, level, note)
}

/// Start of a note on a contradiction, up to its number.
const CONTRADICTION: &str = "The specs contradict each other (C";

fn sections_with(rule: &Rule, level: usize, note: Option<String>) -> String {
    let mut parts: Vec<(&str, String)> = vec![
        ("What it checks", rule.what_it_checks().trim().to_owned()),
        ("Why", rule.why().trim().to_owned()),
        ("Example", example(&rule.bad_example())),
        ("Use instead", example(&rule.good_example())),
        ("Fix", fix(rule.fix).to_owned()),
        ("Source", source(rule)),
    ];
    if let Some(note) = note {
        parts.push(("Notes", note.trim().to_owned()));
    }
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, body)| !body.is_empty())
        .map(|(title, body)| format!("{} {title}\n\n{body}\n", heading(level)))
        .collect();
    parts.join("\n")
}

fn heading(level: usize) -> &'static str {
    match level {
        0 | 1 => "#",
        2 => "##",
        3 => "###",
        4 => "####",
        5 => "#####",
        _ => "######",
    }
}

fn full_stop(text: &str) -> String {
    match text {
        "" => String::new(),
        text if text.ends_with('.') => text.to_owned(),
        text => format!("{text}."),
    }
}

fn example(example: &Example) -> String {
    if example.text.is_empty() {
        return String::new();
    }
    let language = if example.whole { "markdown" } else { "yaml" };
    let place = if example.whole {
        format!("The whole file `{}/{}`:", example.bundle, example.file)
    } else {
        format!("In `{}/{}`:", example.bundle, example.file)
    };
    let text = example.text.trim_end_matches('\n');
    format!("{place}\n\n{}", block(language, text))
}

fn fix(kind: FixKind) -> &'static str {
    match kind {
        FixKind::None => "Fix it by hand.",
        FixKind::Suggest => "Fix it by hand. The `help` of the finding says what to write.",
        FixKind::Safe => "`agentproto lint --fix` fixes each finding that has a `fix` line.",
        FixKind::Unsafe => {
            "`agentproto lint --unsafe-fixes` fixes each finding that has a `fix` line. The change \
             may alter the meaning of the manifest: review it first with `--diff`."
        }
    }
}

fn source(rule: &Rule) -> String {
    let mut lines = vec![format!("- {}", citation(rule.source, rule.level))];
    if cites_spec_of_file(rule) {
        lines.push("- In other files, a finding cites the spec of that file".to_owned());
    }
    lines.push(format!("- Severity: {}", severities(rule)));
    if !rule.doctypes.is_empty() {
        let names: Vec<_> = rule.doctypes.iter().map(|d| d.file_name()).collect();
        lines.push(format!("- Applies to: {}", names.join(", ")));
    }
    if !rule.decides.is_empty() {
        lines.push(format!(
            "- Requirements: {} (see `agentproto explain ID`)",
            rule.decides.join(", ")
        ));
    }
    lines.join("\n")
}

/// For example "error", or "warning; error in profile `spec`".
fn severities(rule: &Rule) -> String {
    let of = |profile| rule.severity_in(profile).map_or("off", Severity::as_str);
    let usual = of(Profile::Default);
    let mut words = usual.to_owned();
    for profile in [Profile::Spec, Profile::Reference] {
        if of(profile) != usual {
            words.push_str(&format!(
                "; {} in profile `{}`",
                of(profile),
                profile.as_str()
            ));
        }
    }
    words
}

/// The text of docs/rules.md: all rules by family.
pub fn reference() -> String {
    let mut out = String::from(
        "# Rules\n\n\
         <!-- Generated from the rules by `cargo xtask docs lint`. -->\n\n\
         The rules that `agentproto lint` checks. `agentproto explain RULE` prints one of these \
         pages. A note that starts with \"The specs contradict each other\" says which side the rule \
         takes. A number such as C10 always means the same contradiction. Two contradictions do not \
         affect manifests: C21 (the AIPs publish their schemas under `/docs/`, but refer to them \
         under `/schemas/`) and C30 (AIP-46 has changed since its first version).\n\n\
         | Rule | Severity | Source | Fix | |\n|---|---|---|---|---|\n",
    );
    for rule in registry::rules() {
        out.push_str(&format!(
            "| [{slug}](#{slug}) | {} | {} | {} | {} |\n",
            rule.severity.as_str(),
            citation(rule.source, rule.level),
            rule.fix.as_str(),
            rule.title.replace('|', "\\|"),
            slug = rule.slug,
        ));
    }
    for family in FAMILIES.iter().filter(|family| !family.rules.is_empty()) {
        out.push_str(&format!("\n## {}\n", family.name));
        for rule in family.rules {
            out.push('\n');
            let note = rule.notes().map(str::to_owned);
            out.push_str(&page(rule, 3, &sections_with(rule, 4, note)));
        }
    }
    out
}

/// `explain`: writes the page as text.
pub fn explain_human(rule: &Rule, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(markdown(rule, 1).as_bytes())
}

/// `explain --output json`: writes the record of the rule with its page.
pub fn explain_json(rule: &Rule, out: &mut dyn Write) -> io::Result<()> {
    let mut document = object(json!({ "schema": "agentproto.rule/v1" }));
    document.extend(rules::record(rule));
    document.insert("markdown".to_owned(), markdown(rule, 1).into());
    writeln!(out, "{}", text::pretty(&Value::Object(document))?)
}

/// `explain --output jsonl`: writes the page as AOI events.
pub fn explain_jsonl(rule: &Rule, out: &mut dyn Write) -> io::Result<()> {
    pages_jsonl(std::iter::once((rule.slug, markdown(rule, 1))), out)
}
