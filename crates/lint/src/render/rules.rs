//! Output of `rules`: the list of rules as a table, as JSON or as AOI events.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::render::{Meta, json as finding_json};
use crate::{Profile, Rule, Severity};
use agentproto_report::TOOL;
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::EventType;
use agentproto_text as text;

/// What the columns of the table mean.
const LEGEND: &str = "\
LEVEL  MUST, SHOULD or MAY of a spec; `derived`: no spec requires it
FIX    `safe`: lint --fix changes the file; `unsafe`: only lint --unsafe-fixes does;
       `suggest`: the finding says what to write; `none`: no fix
";

/// Writes a table.
pub fn render_human(rules: &[&Rule], meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<[String; 5]> = rules
        .iter()
        .map(|rule| {
            let severity = rule.severity_in(meta.profile);
            [
                rule.slug.to_owned(),
                severity.map_or("off", Severity::as_str).to_owned(),
                rule.level.as_str().to_owned(),
                rule.fix.as_str().to_owned(),
                rule.title.to_owned(),
            ]
        })
        .collect();
    let head = ["RULE", "SEVERITY", "LEVEL", "FIX", "WHAT IS WRONG"].map(str::to_owned);
    let width = |column: fn(&[String; 5]) -> &String| {
        let cells = rows.iter().chain([&head]).map(column);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let (a, b, c, d) = (
        width(|r| &r[0]),
        width(|r| &r[1]),
        width(|r| &r[2]),
        width(|r| &r[3]),
    );
    for [slug, severity, level, fix, title] in [&head].into_iter().chain(&rows) {
        writeln!(
            out,
            "{slug:a$}  {severity:b$}  {level:c$}  {fix:d$}  {title}"
        )?;
    }
    let number = text::count(rules.len(), "rule", "rules");
    writeln!(
        out,
        "\n{LEGEND}\n{number}. Run `agentproto explain RULE` for more about a rule."
    )
}

/// Writes one JSON document. `more` is added to it.
pub fn render_json(
    rules: &[&Rule],
    meta: &Meta,
    more: Fields,
    out: &mut dyn Write,
) -> io::Result<()> {
    let list: Vec<Value> = rules.iter().map(|r| Value::Object(record(r))).collect();
    let mut document = object(json!({
        "schema": "agentproto.rules/v1",
        "tool": { "name": TOOL, "version": meta.version },
        "rules": list,
    }));
    document.extend(more);
    writeln!(out, "{}", text::pretty(&Value::Object(document))?)
}

/// Writes one AOI event per rule. `more` is added to the summary.
pub fn render_jsonl(
    rules: &[&Rule],
    meta: &Meta,
    more: Fields,
    out: &mut dyn Write,
) -> io::Result<()> {
    let events = rules.iter().map(|rule| {
        let mut fields = record(rule);
        // The event lists the profiles in which the rule is on; the record also has severities.
        let on = Profile::ALL
            .iter()
            .filter(|p| rule.severity_in(**p).is_some());
        let on: Vec<Value> = on.map(|p| p.as_str().into()).collect();
        fields.insert("profiles".to_owned(), Value::Array(on));
        Ok((EventType::Rule, fields))
    });
    Emitter::new(out, &meta.version).stream("rules", events, (true, meta.elapsed, more))
}

/// The fields of a rule, without its page.
pub fn record(rule: &Rule) -> Fields {
    let doctypes: Vec<_> = rule.doctypes.iter().map(|d| d.file_name()).collect();
    let profiles: Fields = Profile::ALL
        .iter()
        .map(|p| {
            let severity = rule.severity_in(*p).map(Severity::as_str);
            (p.as_str().to_owned(), severity.into())
        })
        .collect();
    object(json!({
        "slug": rule.slug,
        "title": rule.title,
        "severity": rule.severity.as_str(),
        "level": rule.level.as_str(),
        "source": finding_json::source(rule.source, rule.level),
        "decides": rule.decides,
        "doctypes": doctypes,
        "scope": rule.scope.as_str(),
        "fix": rule.fix.as_str(),
        "profiles": profiles,
    }))
}
