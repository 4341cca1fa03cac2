//! Renders the AOI rules for `explain`, `rules --kind aoi`, SARIF and docs/aoi-rules.md.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::wording;
use crate::hints;
use crate::model::{CheckId, characteristics};
use crate::rules::{self, Level, Rule};
use agentproto_report::TOOL;
use agentproto_report::aoi::{Emitter, Fields, object, pages_jsonl};
use agentproto_report::event::EventType;
use agentproto_text as text;

/// The documentation of one rule. Its title is a heading of `level`.
pub fn markdown(rule: &Rule, level: usize) -> String {
    let heading = "#".repeat(level.clamp(1, 6));
    let mut page = format!(
        "{heading} {}\n\n{}.\n\n{}\n\n**How to fix it**: {}\n\n",
        rule.id, rule.requirement, rule.why, rule.hint
    );
    for (language, advice) in hints::of(rule.topic) {
        page.push_str(&format!("- {}: {advice}\n", language.as_str()));
    }
    page.push_str(&format!(
        "\nSource: AOI-CLI v0.2 {} ({}).",
        rule.section,
        level_meaning(rule)
    ));
    if let [first, rest @ ..] = rule.requirement_ids {
        let noun = match rest.is_empty() {
            true => "Requirement",
            false => "Requirements",
        };
        let ids = rule.requirement_ids.join(", ");
        page.push_str(&format!(
            " {noun}: {ids} (see `agentproto explain {first}`)."
        ));
    }
    page.push('\n');
    page
}

fn level_meaning(rule: &Rule) -> &'static str {
    match rule.level {
        Level::Must => "MUST, so a violation is a failure",
        Level::Should => "SHOULD, so a violation is a warning, or a failure with --strict",
        Level::Open => "left open by the spec, so a violation is a warning",
    }
}

/// `Typed · Verifiable`, or an empty string for advisory rules.
fn characteristics_line(check: CheckId) -> String {
    let names = characteristics(check).iter().map(|c| c.as_str());
    names.collect::<Vec<_>>().join(" · ")
}

/// The text of docs/aoi-rules.md.
pub fn reference() -> String {
    let mut out = String::from(
        "# AOI rules\n\n\
         <!-- Generated from the rules. Run `UPDATE_DOCS=1 cargo test --test judges` to update \
         this file. -->\n\n\
         These are the rules of `agentproto aoi-lint` ([guide](aoi-lint.md)). \
         `agentproto explain AOI-03.count` prints one of them with advice for Python, Node, Go, \
         Rust and shell.\n",
    );
    let mut before = None;
    for rule in sorted() {
        if before != Some(rule.check) {
            before = Some(rule.check);
            out.push_str(&match rule.check {
                CheckId::Number(number) => {
                    format!(
                        "\n## Check {number}: {}\n\n",
                        characteristics_line(rule.check)
                    )
                }
                CheckId::Advisory => "\n## Beyond the 13 checks\n\n".to_owned(),
            });
            out.push_str("| rule | level | section | requirement and fix |\n|---|---|---|---|\n");
        }
        let cell = |text: &str| text.replace('|', "\\|");
        out.push_str(&format!(
            "| `{}` | {} | {} | {}. {} |\n",
            rule.id,
            wording::level(rule.level),
            cell(rule.section),
            cell(rule.requirement),
            cell(rule.hint),
        ));
    }
    out
}

/// All rules, in the order of the checks.
pub fn sorted() -> Vec<&'static Rule> {
    let mut all: Vec<&Rule> = rules::all().collect();
    all.sort_by_key(|rule| rule.check);
    all
}

fn record(rule: &Rule) -> io::Result<Fields> {
    Ok(object(json!({
        "id": rule.id,
        "check": serde_json::to_value(rule.check)?,
        "characteristics": characteristics(rule.check),
        "level": wording::level(rule.level),
        "section": rule.section,
        "demands": rule.requirement,
        "why": rule.why,
        "hint": rule.hint,
        "decides": rule.requirement_ids,
    })))
}

/// Output of `rules --kind aoi`.
pub fn list_human(all: &[&Rule], out: &mut dyn Write) -> io::Result<()> {
    let widest = all.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    for rule in all {
        writeln!(
            out,
            "{:widest$}  {:<6}  {:<6}  {}",
            rule.id,
            wording::level(rule.level),
            text::clip(rule.section, 6),
            rule.requirement
        )?;
    }
    let number = text::count(all.len(), "rule", "rules");
    writeln!(
        out,
        "\n{number}. Run `agentproto explain RULE` for more about a rule."
    )
}

/// JSON output of `rules --kind aoi`.
pub fn list_json(all: &[&Rule], more: Fields, out: &mut dyn Write) -> io::Result<()> {
    let list: io::Result<Vec<Fields>> = all.iter().map(|rule| record(rule)).collect();
    let mut document = object(json!({
        "schema": "agentproto.aoi-rules/v1",
        "tool": { "name": TOOL, "version": env!("CARGO_PKG_VERSION") },
        "rules": list?,
    }));
    document.extend(more);
    writeln!(out, "{}", text::pretty(&Value::Object(document))?)
}

/// Machine-mode output of `rules --kind aoi`. `more` is added to the summary.
pub fn list_jsonl(
    all: &[&Rule],
    elapsed: Duration,
    more: Fields,
    out: &mut dyn Write,
) -> io::Result<()> {
    let events = all
        .iter()
        .map(|rule| Ok((EventType::AoiRule, record(rule)?)));
    Emitter::new(out, env!("CARGO_PKG_VERSION")).stream("rules", events, (true, elapsed, more))
}

/// Output of `explain AOI-…`.
pub fn explain_human(rule: &Rule, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(markdown(rule, 1).as_bytes())
}

/// JSON output of `explain AOI-…`.
pub fn explain_json(rule: &Rule, out: &mut dyn Write) -> io::Result<()> {
    let mut document = object(json!({ "schema": "agentproto.aoi-rule/v1" }));
    document.extend(record(rule)?);
    document.insert("markdown".to_owned(), markdown(rule, 1).into());
    writeln!(out, "{}", text::pretty(&Value::Object(document))?)
}

/// Machine-mode output of `explain AOI-…`.
pub fn explain_jsonl(rule: &Rule, out: &mut dyn Write) -> io::Result<()> {
    pages_jsonl(std::iter::once((rule.id, markdown(rule, 1))), out)
}
