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
use agentproto_suites::{Proof, Requirement, proofs, register};

#[derive(clap::Args, Debug)]
pub struct Coverage {
    /// List only requirements of this spec or suite, for example `AIP-45` or `acp`
    #[arg(long, value_name = "SPEC")]
    pub spec: Option<String>,
    /// List only requirements without a test of agentproto, with the reason if there is one
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
    /// What fails if the requirement is not checked any more: mutants and tests.
    proofs: Vec<Proof>,
    /// The last column of the register, for a requirement that nothing proves.
    note: &'static str,
    /// The reason why nothing can prove it.
    reason: Option<&'static str>,
}

impl Row {
    /// `KIND:PROOF` for each proof.
    fn proven_by(&self) -> Vec<String> {
        let proofs = self.proofs.iter();
        proofs
            .map(|proof| format!("{}:{}", proof.kind, proof.proof))
            .collect()
    }

    /// Why it is not proven, in words.
    fn gap(&self) -> String {
        gap(self.reason, self.note)
    }
}

/// Why a requirement is not proven, in words.
fn gap(reason: Option<&str>, note: &str) -> String {
    match (reason, note) {
        (Some(reason), _) => reason.to_owned(),
        (None, "") => "not tested yet".to_owned(),
        (None, note) => format!("not tested yet (planned: {note})"),
    }
}

/// The proofs of a requirement.
fn proofs_of(id: &str) -> Vec<Proof> {
    proofs().filter(|proof| proof.id == id).collect()
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
                proofs: proofs_of(id),
                note: "",
                reason: None,
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
        let proofs = proofs_of(requirement.id);
        Row {
            id: requirement.id.to_owned(),
            spec: requirement.spec.to_owned(),
            section: requirement.section.to_owned(),
            level: requirement.level,
            binds: requirement.binds,
            text: requirement.text.to_owned(),
            note: match proofs.is_empty() {
                true => requirement.decided_by,
                false => "",
            },
            reason: requirement.reason().filter(|_| proofs.is_empty()),
            proofs,
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
    let totals = totals(&rows);
    rows.retain(|row| !args.gaps || row.proofs.is_empty());
    let list = format!("coverage {:?} {}", args.spec, args.gaps);
    let range = args.page.select(&list, &mut rows)?;
    match args.output {
        Output::Human => human(&rows, &totals, out)
            .and_then(|()| out.write_all(range.describe("requirements listed").as_bytes()))
            .map_err(io_failure)?,
        Output::Json => {
            let list: Vec<_> = rows.iter().map(record).collect();
            let mut value = object(json!({
                "schema": "agentproto.coverage/v1",
                "requirements": list,
                "totals": totals.iter().map(Total::record).collect::<Vec<_>>(),
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
        page.push_str("No rule, check, case or monitor checks it.\n");
    }
    page.push_str(&proven_by(&row.proofs, || row.gap()));
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

/// The line of a page that says whether agentproto itself is tested for a requirement.
fn proven_by(proofs: &[Proof], gap: impl FnOnce() -> String) -> String {
    match proofs.len() {
        0 => format!(
            "\nagentproto itself is not tested for this requirement: {}.\n",
            gap()
        ),
        n => format!(
            "\nagentproto itself is tested for this requirement ({}).\n",
            agentproto_text::count(n, "test", "tests")
        ),
    }
}

/// The same line for a requirement of a suite.
pub(super) fn proven_by_id(id: &str) -> String {
    proven_by(&proofs_of(id), || {
        let registered = register().find(|requirement| requirement.id == id);
        let reason = registered.as_ref().and_then(Requirement::reason);
        gap(reason, registered.as_ref().map_or("", |row| row.decided_by))
    })
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
        "proven_by": row.proven_by(),
    }));
    if !row.note.is_empty() {
        fields.insert("noted".to_owned(), row.note.into());
    }
    if row.proofs.is_empty() {
        fields.insert("gap".to_owned(), row.gap().into());
    }
    fields
}

/// Numbers of requirements of one spec. `proven`, `explained` and `open` add up to `all`.
struct Total {
    spec: String,
    all: usize,
    proven: usize,
    /// Not proven, with a reason in the register.
    explained: usize,
    open: usize,
    /// By kind of proof. A requirement may have proofs of several kinds.
    kinds: [usize; KINDS.len()],
}

const KINDS: [&str; 5] = ["rule", "check", "case", "monitor", "test"];

impl Total {
    fn new(spec: &str, rows: &[&Row]) -> Total {
        let count = |matches: &dyn Fn(&Row) -> bool| rows.iter().filter(|r| matches(r)).count();
        let proven = count(&|row| !row.proofs.is_empty());
        let explained = count(&|row| row.reason.is_some());
        Total {
            spec: spec.to_owned(),
            all: rows.len(),
            proven,
            explained,
            open: rows.len() - proven - explained,
            kinds: KINDS.map(|kind| count(&|row| row.proofs.iter().any(|p| p.kind == kind))),
        }
    }

    fn record(&self) -> Fields {
        let kinds = KINDS.into_iter().zip(self.kinds);
        let kinds: Fields = kinds.map(|(k, n)| (k.to_owned(), n.into())).collect();
        object(json!({
            "spec": self.spec,
            "requirements": self.all,
            "proven": self.proven,
            "explained": self.explained,
            "open": self.open,
            "proven_by": kinds,
        }))
    }
}

/// One total per spec in the order of the rows, and `all` at the end.
fn totals(rows: &[Row]) -> Vec<Total> {
    let mut specs: Vec<&str> = Vec::new();
    for row in rows {
        if !specs.contains(&row.spec.as_str()) {
            specs.push(&row.spec);
        }
    }
    let of = |spec: &str| rows.iter().filter(|r| r.spec == spec).collect::<Vec<_>>();
    let mut totals: Vec<Total> = specs.iter().map(|s| Total::new(s, &of(s))).collect();
    totals.push(Total::new("all", &rows.iter().collect::<Vec<_>>()));
    totals
}

/// What the columns of the table mean.
const COLUMNS: &str = "  explained  not tested, for a given reason
  open       not tested yet
  rule       a rule of `lint`
  check      a check of `aoi-lint`
  case       a conversation of `certify` with the agent
  monitor    a check of `certify` that reads every message
  test       a test of agentproto itself
A requirement may be tested in several ways.";

fn human(rows: &[Row], totals: &[Total], out: &mut dyn Write) -> std::io::Result<()> {
    let mut heading = ("", "");
    for row in rows {
        if (row.spec.as_str(), row.section.as_str()) != heading {
            heading = (&row.spec, &row.section);
            writeln!(out, "\n{} · {}", row.spec, row.section)?;
        }
        let status = match row.proofs.is_empty() {
            true if row.reason.is_none() => row.gap(),
            true => format!("not tested: {}", row.gap()),
            false => format!("tested by {}", row.proven_by().join(", ")),
        };
        writeln!(
            out,
            "  {:<16} {:<10} {}\n  {:<16}            {status}",
            row.id,
            level_name(row.level),
            row.text,
            ""
        )?;
    }
    let kinds = KINDS.map(|kind| format!("{kind:>8}")).concat();
    writeln!(
        out,
        "\n{:<14}{:>13}{:>8}{:>11}{:>6} │{kinds}",
        "spec", "requirements", "tested", "explained", "open"
    )?;
    for total in totals {
        let kinds = total.kinds.map(|number| format!("{number:>8}")).concat();
        writeln!(
            out,
            "{:<14}{:>13}{:>8}{:>11}{:>6} │{kinds}",
            total.spec, total.all, total.proven, total.explained, total.open
        )?;
    }
    let Some(all) = totals.last() else {
        return Ok(());
    };
    writeln!(
        out,
        "\n{} of {} requirements are tested: agentproto finds mocks with the defect, or its own tests \
         cover them.\n{COLUMNS}",
        all.proven, all.all
    )
}
