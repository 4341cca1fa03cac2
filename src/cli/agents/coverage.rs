//! `agentproto coverage`: lists requirements with the lint rules, cases and monitors that check
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Instant;

use serde_json::{Value, json};

use crate::cli::args::Output;
use crate::cli::machine::page::Page;
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_lint::registry;
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::EventType;
use agentproto_suites::{Requirement, register};

#[derive(clap::Args, Debug)]
pub struct Coverage {
    /// List only requirements of this spec or suite, for example `AIP-45` or `acp`
    #[arg(long, value_name = "SPEC")]
    pub spec: Option<String>,
    /// List only requirements that nothing checks yet
    #[arg(long)]
    pub gaps: bool,
    #[command(flatten)]
    pub page: Page,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

/// A requirement and everything that checks it.
struct Row {
    id: String,
    spec: String,
    section: String,
    level: &'static str,
    binds: &'static str,
    text: String,
    by: BTreeSet<String>,
    /// Tests of this project that check it for our own programs, as the register names them.
    tests: BTreeSet<String>,
    /// The register's note on a requirement that nothing here checks: the reason, or tests.
    note: &'static str,
}

/// The suites' cases and monitors by requirement id, and the suites' own requirements.
#[derive(Default)]
struct Suites {
    names: Vec<&'static str>,
    checked_by: BTreeMap<String, BTreeSet<String>>,
    rows: Vec<Row>,
}

fn suites() -> Suites {
    use agentproto_harness::suite;
    let mut all = Suites::default();
    for name in suite::names() {
        let Some(Ok(suite)) = suite::built_in(name) else {
            continue;
        };
        all.names.push(name);
        for requirement in &suite.requirements {
            let id = &requirement.id;
            let mut by = BTreeSet::new();
            if suite.cases.iter().any(|case| case.decides.contains(id)) {
                by.insert(format!("case:{name}/{id}"));
            }
            if !requirement.monitors.is_empty() {
                by.insert(format!("monitor:{name}/{id}"));
            }
            for other in requirement.register.iter().chain([id]) {
                let checked_by = all.checked_by.entry(other.clone()).or_default();
                checked_by.extend(by.iter().cloned());
            }
            all.rows.push(Row {
                id: id.clone(),
                spec: name.to_owned(),
                section: requirement.section.clone(),
                level: requirement.level.as_str(),
                binds: "agent",
                text: requirement.statement.clone(),
                by,
                tests: BTreeSet::new(),
                note: "",
            });
        }
    }
    all
}

/// `case:SUITE` and `case:SUITE/ID` of the register, if such a case exists.
fn named_cases(requirement: &Requirement, suites: &Suites) -> BTreeSet<String> {
    if requirement.decided_by.starts_with("n/d") {
        return BTreeSet::new();
    }
    let mut found = BTreeSet::new();
    for decider in requirement.decided_by.split(", ") {
        let Some(name) = decider.strip_prefix("case:") else {
            continue;
        };
        let name = name.split(' ').next().unwrap_or_default();
        match name.split_once('/') {
            Some((suite, id)) => {
                let rows = suites.rows.iter();
                let mut rows = rows.filter(|row| row.spec == suite && row.id == id);
                found.extend(rows.next().into_iter().flat_map(|row| row.by.clone()));
            }
            None if suites.names.contains(&name) => {
                found.insert(format!("case:{name}"));
            }
            None => {}
        }
    }
    found
}

fn rows() -> Vec<Row> {
    let mut checked_by: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for rule in registry::rules() {
        for id in rule.decides {
            let by = checked_by.entry(id).or_default();
            by.insert(format!("rule:{}", rule.slug));
        }
    }
    for rule in agentproto_aoi::rules::all() {
        for id in rule.requirement_ids {
            let by = checked_by.entry(id).or_default();
            by.insert(format!("check:{}", rule.id));
        }
    }
    let suites = suites();
    let registered = register().map(|requirement| {
        let mut by = checked_by.get(requirement.id).cloned().unwrap_or_default();
        by.extend(
            suites
                .checked_by
                .get(requirement.id)
                .cloned()
                .unwrap_or_default(),
        );
        by.extend(named_cases(&requirement, &suites));
        // Drop the whole suite if one of its cases is named.
        let parts: Vec<String> = by.iter().cloned().collect();
        by.retain(|whole| {
            !parts
                .iter()
                .any(|part| part.starts_with(&format!("{whole}/")))
        });
        Row {
            id: requirement.id.to_owned(),
            spec: requirement.spec.to_owned(),
            section: requirement.section.to_owned(),
            level: requirement.level,
            binds: requirement.binds,
            text: requirement.text.to_owned(),
            note: match by.is_empty() && requirement.tests().next().is_none() {
                true => requirement.decided_by,
                false => "",
            },
            by,
            tests: requirement.tests().collect(),
        }
    });
    let mut rows: Vec<Row> = registered.collect();
    let known: BTreeSet<String> = rows.iter().map(|row| row.id.clone()).collect();
    let own = suites.rows.into_iter();
    rows.extend(own.filter(|row| !known.contains(&row.id)));
    rows
}

pub fn run(args: &Coverage, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let mut rows = rows();
    if let Some(spec) = &args.spec
        && !rows.iter().any(|row| row.spec == *spec)
    {
        let mut specs: Vec<&str> = rows.iter().map(|row| row.spec.as_str()).collect();
        specs.dedup();
        return Err(
            Failure::new(exit::USAGE, format!("unknown spec or suite `{spec}`"))
                .hint(format!("known specs and suites: {}", specs.join(", "))),
        );
    }
    rows.retain(|row| args.spec.as_deref().is_none_or(|spec| row.spec == spec));
    rows.retain(|row| !args.gaps || row.by.is_empty());
    let list = format!("coverage {:?} {}", args.spec, args.gaps);
    let range = args.page.select(&list, &mut rows)?;
    match args.output {
        Output::Human => human(&rows, out).map_err(io_failure)?,
        Output::Json => {
            let list: Vec<_> = rows.iter().map(record).collect();
            let mut value = object(json!({
                "schema": "agentproto.coverage/v1",
                "requirements": list,
            }));
            value.extend(args.page.document_fields(&range));
            let value = Value::Object(value);
            writeln!(out, "{value:#}").map_err(io_failure)?;
        }
        Output::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta("coverage").map_err(io_failure)?;
            for row in &rows {
                emitter
                    .event(EventType::Requirement, &record(row))
                    .map_err(io_failure)?;
            }
            emitter
                .summary(true, started.elapsed(), range.fields())
                .map_err(io_failure)?;
        }
    }
    Ok(exit::CLEAN)
}

/// The ids of all requirements.
pub(super) fn ids() -> Vec<String> {
    rows().into_iter().map(|row| row.id).collect()
}

/// Whether the register has this requirement.
pub(super) fn is_requirement(name: &str) -> bool {
    register().any(|requirement| requirement.id.eq_ignore_ascii_case(name))
}

/// Prints a requirement of the register and what checks it. Returns `false` if the name is unknown.
pub(super) fn explain(name: &str, output: Output, out: &mut dyn Write) -> Result<bool, Failure> {
    let Some(requirement) = register().find(|s| s.id.eq_ignore_ascii_case(name)) else {
        return Ok(false);
    };
    let Some(row) = rows().into_iter().find(|row| row.id == requirement.id) else {
        return Ok(false);
    };
    let mut page = format!(
        "# {}\n\n{} · {}, {} · applies to: {}\n\n{}.\n\n## Checked by\n\n",
        row.id,
        level_name(row.level),
        row.spec,
        row.section,
        row.binds,
        row.text.trim_end_matches('.'),
    );
    for by in &row.by {
        page.push_str(&format!("- {by}\n"));
    }
    if row.by.is_empty() {
        page.push_str("No rule, case or monitor checks it.");
        if !row.note.is_empty() {
            page.push_str(&format!(" Note: {}", row.note));
        }
        page.push('\n');
    }
    let written = match output {
        Output::Json => {
            let mut record = record(&row);
            record.insert("markdown".to_owned(), page.into());
            writeln!(out, "{:#}", serde_json::Value::Object(record))
        }
        Output::Jsonl => {
            let page = std::iter::once((row.id.as_str(), page));
            agentproto_report::aoi::pages_jsonl(page, out)
        }
        Output::Human => out.write_all(page.as_bytes()),
    };
    written.map_err(io_failure)?;
    Ok(true)
}

/// The level of a requirement in words. `DEF` is the register's short form.
fn level_name(level: &'static str) -> &'static str {
    match level {
        "DEF" => "definition",
        level => level,
    }
}

fn record(row: &Row) -> Fields {
    let mut fields = object(json!({
        "id": row.id,
        "spec": row.spec,
        "section": row.section,
        "level": row.level,
        "binds": row.binds,
        "statement": row.text,
        "decided_by": row.by,
        "tested_by": row.tests,
    }));
    if !row.note.is_empty() {
        fields.insert("noted".to_owned(), row.note.into());
    }
    fields
}

fn human(rows: &[Row], out: &mut dyn Write) -> std::io::Result<()> {
    let mut heading = ("", "");
    for row in rows {
        if (row.spec.as_str(), row.section.as_str()) != heading {
            heading = (&row.spec, &row.section);
            writeln!(out, "\n{} · {}", row.spec, row.section)?;
        }
        let by: Vec<&str> = row.by.iter().map(String::as_str).collect();
        let by = match (by.is_empty(), row.note) {
            (true, "") => "not checked in manifests or agents".to_owned(),
            (true, note) => format!("not checked in manifests or agents; note: {note}"),
            (false, _) => format!("checked by {}", by.join(", ")),
        };
        // `test:runtime` is the directory tests/runtime.
        let tests: Vec<String> = row
            .tests
            .iter()
            .map(|t| t.replace("test:", "tests/"))
            .collect();
        let tests = match tests.is_empty() {
            true => String::new(),
            false => format!("; agentproto itself is tested ({})", tests.join(", ")),
        };
        writeln!(
            out,
            "  {:<16} {:<10} {}\n  {:<16}            {by}{tests}",
            row.id,
            level_name(row.level),
            row.text,
            ""
        )?;
    }
    let decided = rows.iter().filter(|row| !row.by.is_empty()).count();
    writeln!(
        out,
        "\n{decided} of {} requirements are checked by rules, cases and monitors of this binary",
        rows.len()
    )
}
