//! Output of `rules`: the list of rules as a table, as JSON or as AOI events.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::render::{Meta, citation, json as finding_json};
use crate::{Profile, Rule, Severity};
use agentproto_report::TOOL;
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::Event;
use agentproto_text as text;

/// Writes a table. Titles are shortened to fit the terminal.
pub fn render_human(rules: &[&Rule], meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<[String; 5]> = rules
        .iter()
        .map(|rule| {
            let severity = rule.severity_in(meta.profile);
            [
                rule.slug.to_owned(),
                severity.map_or("off", Severity::as_str).to_owned(),
                rule.fix.as_str().to_owned(),
                citation(rule.source, rule.level),
                rule.title.to_owned(),
            ]
        })
        .collect();
    let head = ["RULE", "SEVERITY", "FIX", "SOURCE", "WHAT IS WRONG"].map(str::to_owned);
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
    let rest = meta.width.saturating_sub(a + b + c + d + 8).max(24);
    for [slug, severity, fix, source, title] in [&head].into_iter().chain(&rows) {
        let title = text::clip(title, rest);
        writeln!(
            out,
            "{slug:a$}  {severity:b$}  {fix:c$}  {source:d$}  {title}"
        )?;
    }
    let number = text::count(rules.len(), "rule", "rules");
    writeln!(
        out,
        "\n{number}. For more about a rule, run: agentproto explain RULE"
    )
}

/// Writes one JSON document.
pub fn render_json(rules: &[&Rule], meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let list: Vec<Value> = rules.iter().map(|r| Value::Object(record(r))).collect();
    let document = json!({
        "schema": "agentproto.rules/v1",
        "tool": { "name": TOOL, "version": meta.version },
        "rules": list,
    });
    writeln!(out, "{}", text::pretty(&document)?)
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
        Ok((Event::Rule, fields))
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
