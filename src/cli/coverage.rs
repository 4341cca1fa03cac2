//! `agentproto coverage`: statement × what decides it.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use serde_json::json;

use super::args::Coverage;
use super::{Failure, Outcome, io_failure};
use crate::exit;
use crate::lint::registry;
use crate::report::aoi::{Emitter, Fields, object};

/// Every statement of the specs with a stable id.
const REGISTER: &str = include_str!("../../suites/register.tsv");

pub struct Statement {
    pub id: &'static str,
    pub spec: &'static str,
    pub section: &'static str,
    pub level: &'static str,
    pub binds: &'static str,
    pub text: &'static str,
    /// What the register proposes as decider, `rule:x` among others.
    pub proposed: &'static str,
}

pub fn register() -> impl Iterator<Item = Statement> {
    REGISTER.lines().skip(1).filter_map(|line| {
        let mut fields = line.split('\t');
        Some(Statement {
            id: fields.next()?,
            spec: fields.next()?,
            section: fields.next()?,
            level: fields.next()?,
            binds: fields.next()?,
            text: fields.next()?,
            proposed: fields.next()?,
        })
    })
}

pub fn run(args: &Coverage, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let mut deciders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for rule in registry::rules() {
        for id in rule.decides {
            deciders.entry(id).or_default().push(rule.slug);
        }
    }
    let known = |spec: &str| register().any(|s| s.spec == spec);
    if let Some(spec) = &args.spec
        && !known(spec)
    {
        return Err(
            Failure::new(exit::USAGE, format!("the register has no text `{spec}`"))
                .hint("AIP-29, AIP-44, AIP-45, AIP-46, Open Design or AOI-CLI v0.2"),
        );
    }
    let none = Vec::new();
    let rows: Vec<(Statement, &Vec<&str>)> = register()
        .filter(|s| args.spec.as_deref().is_none_or(|spec| s.spec == spec))
        .map(|s| {
            let by = deciders.get(s.id).unwrap_or(&none);
            (s, by)
        })
        .filter(|(_, by)| !args.gaps || by.is_empty())
        .collect();
    match args.output.as_str() {
        "human" => human(&rows, out).map_err(io_failure)?,
        "json" => {
            let list: Vec<_> = rows.iter().map(|(s, by)| record(s, by)).collect();
            let value = json!({ "schema": "agentproto.coverage/v1", "requirements": list });
            writeln!(out, "{value:#}").map_err(io_failure)?;
        }
        _ => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta("coverage").map_err(io_failure)?;
            for (statement, by) in &rows {
                emitter
                    .event("requirement", &record(statement, by))
                    .map_err(io_failure)?;
            }
            emitter
                .summary(true, started.elapsed(), Fields::new())
                .map_err(io_failure)?;
        }
    }
    Ok(exit::CLEAN)
}

fn record(statement: &Statement, by: &[&str]) -> Fields {
    let decided: Vec<String> = by.iter().map(|slug| format!("rule:{slug}")).collect();
    object(json!({
        "id": statement.id,
        "spec": statement.spec,
        "section": statement.section,
        "level": statement.level,
        "binds": statement.binds,
        "statement": statement.text,
        "decided_by": decided,
    }))
}

fn human(rows: &[(Statement, &Vec<&str>)], out: &mut dyn Write) -> std::io::Result<()> {
    let mut heading = ("", "");
    for (statement, by) in rows {
        if (statement.spec, statement.section) != heading {
            heading = (statement.spec, statement.section);
            writeln!(out, "\n{} · {}", statement.spec, statement.section)?;
        }
        let by = if by.is_empty() {
            "-".to_owned()
        } else {
            by.join(", ")
        };
        writeln!(
            out,
            "  {:<16} {:<6} {}\n  {:<16}        by {by}",
            statement.id, statement.level, statement.text, ""
        )?;
    }
    let decided = rows.iter().filter(|(_, by)| !by.is_empty()).count();
    writeln!(
        out,
        "\n{decided} of {} statements are decided by rules of this binary",
        rows.len()
    )
}
