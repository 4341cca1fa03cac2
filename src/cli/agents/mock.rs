//! `agentproto mock`: runs a mock agent on stdio, or lists the scenarios, variants and mutants.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};

use crate::cli::agents::file_errors::{invalid_file, unreadable};
use crate::cli::agents::{aoi_mock, model};
use clap::{Args, ValueEnum};

use crate::cli::args::{Global, Output};
use crate::cli::machine::page::Page;
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_mock::{
    self as mock, AgentConfig, AgentKind, AgentNames, LookupError, mutants, scenario, variants,
};
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::EventType;

#[derive(Args, Debug)]
pub struct Mock {
    /// Protocol of the mock; `llm` is a mock model on a loopback address, `aoi` a mock AOI tool;
    /// required unless `--list` is given
    #[arg(value_enum, required_unless_present = "list")]
    pub kind: Option<MockKind>,
    /// Play this scenario: a name from `--list`, or a YAML file [default: default]
    #[arg(long, value_name = "FILE|NAME")]
    pub scenario: Option<String>,
    /// Enable this known defect (see `--list`). To certify it:
    /// `agentproto certify --mock acp --env MOCK_MUTANT=ID`
    #[arg(long, value_name = "ID")]
    pub mutant: Option<String>,
    /// Use this conforming variant: unusual behavior that the spec allows
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// Keep sessions in DIR across restarts [default: $MOCK_STATE_DIR, or none]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    #[command(flatten)]
    pub model: crate::cli::agents::model::Model,
    /// List scenarios, variants and mutants
    #[arg(long)]
    pub list: bool,
    #[command(flatten)]
    pub page: Page,
    /// With `aoi`: run the same self-test as `aoi-lint --selftest`
    #[arg(long, conflicts_with_all = ["list", "mutant", "variant", "state", "scenario"])]
    pub selftest: bool,
    /// With --selftest: run only each mutant's own check, and all checks only if that finds nothing
    #[arg(long, requires = "selftest")]
    pub quick: bool,
    /// With --selftest: run only these mutants or variants (comma-separated)
    #[arg(long, value_name = "ID", value_delimiter = ',', requires = "selftest")]
    pub only: Vec<String>,
    /// Output format of the list and of the self-test
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
    /// Arguments that the mock agent receives
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<std::ffi::OsString>,
}

/// The mock agents, the mock model and the mock tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MockKind {
    Acp,
    AcpV2,
    Mcp,
    Repl,
    Llm,
    Aoi,
}

impl MockKind {
    /// The kind of mock agent, or `None` for the model and the tool.
    fn agent(self) -> Option<AgentKind> {
        match self {
            MockKind::Acp => Some(AgentKind::Acp),
            MockKind::AcpV2 => Some(AgentKind::AcpV2),
            MockKind::Mcp => Some(AgentKind::Mcp),
            MockKind::Repl => Some(AgentKind::Repl),
            MockKind::Llm | MockKind::Aoi => None,
        }
    }
}

impl Mock {
    /// Whether stdout carries the mock's own protocol.
    pub fn is_agent(&self) -> bool {
        self.kind.and_then(MockKind::agent).is_some() && !self.list
    }
}

pub fn run(args: &Mock, global: &Global, out: &mut dyn Write) -> Outcome {
    if args.list {
        return list(args, out);
    }
    if args.selftest && args.kind != Some(MockKind::Aoi) {
        return Err(Failure::new(
            exit::USAGE,
            "`--selftest` applies only to the mock AOI tool",
        )
        .hint("use `agentproto certify --selftest` for the mock agents"));
    }
    if args.kind == Some(MockKind::Llm) {
        return model::run(args, out);
    }
    if args.kind == Some(MockKind::Aoi) {
        return aoi_mock::run(args, global, out);
    }
    if let Some(flag) = args.model.first_flag() {
        let message = format!("`{flag}` applies only to the mock model");
        return Err(Failure::new(exit::USAGE, message).hint("use it with `agentproto mock llm`"));
    }
    let Some(kind) = args.kind.and_then(MockKind::agent) else {
        return Err(Failure::new(exit::USAGE, "no mock was given")
            .hint("usage: agentproto mock acp|acp-v2|mcp|repl|llm|aoi"));
    };
    let names = AgentNames {
        scenario: args.scenario.clone(),
        mutant: args.mutant.clone(),
        variant: args.variant.clone(),
    };
    let words = args.args.iter();
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let names = names.or_variables();
    let config = AgentConfig::find(kind, &names, words.collect(), args.state.clone());
    let config = config.map_err(lookup_failure)?;
    mock::run(config)
        .map_err(|error| Failure::new(exit::IO, format!("the mock cannot read or write: {error}")))
}

fn lookup_failure(error: LookupError) -> Failure {
    match error {
        LookupError::Unknown { what, closest, .. } => {
            let failure = Failure::new(exit::USAGE, error.to_string());
            match (closest, what) {
                (Some(meant), _) => failure.hint(format!("did you mean `{meant}`?")),
                (None, "scenario") => failure.hint(
                    "`agentproto mock --list` lists all scenarios; to use a file, give a path that ends in .yaml",
                ),
                (None, _) => failure.hint("`agentproto mock --list` lists them all"),
            }
        }
        LookupError::Unreadable { path, error } => unreadable(path, &error),
        LookupError::Invalid { path, errors } => invalid_file("scenario", &path, &errors),
    }
}

/// One row of the list.
pub struct Row {
    pub event: EventType,
    pub fields: Value,
    pub cells: [String; 3],
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let defaults = AgentKind::ALL.iter();
    let defaults = defaults.map(|kind| (kind.as_str(), scenario::default_of(*kind)));
    let named = scenario::embedded().iter().copied();
    let named = named.map(|scenario| ("any", scenario));
    for (mock, embedded) in defaults.chain(named) {
        let description = scenario::parse(embedded.text).map(|s| s.description);
        let description = description.unwrap_or_default();
        rows.push(Row {
            event: EventType::Scenario,
            fields: json!({
                "id": format!("{mock}/{}", embedded.name),
                "mock": mock,
                "name": embedded.name,
                "description": description,
            }),
            cells: [mock.to_owned(), embedded.name.to_owned(), description],
        });
    }
    for variant in variants::all() {
        let mock = variant.kind.as_str();
        rows.push(Row {
            event: EventType::Variant,
            fields: json!({
                "id": format!("{mock}/{}", variant.name),
                "mock": mock,
                "name": variant.name,
                "what": variant.description,
                "scenario": variant.scenario,
            }),
            cells: [mock, variant.name, variant.description].map(str::to_owned),
        });
    }
    for &kind in AgentKind::ALL {
        for mutant in mutants::of(kind) {
            rows.push(Row {
                event: EventType::Mutant,
                fields: json!({
                    "mock": kind.as_str(),
                    "id": mutant.id,
                    "requirement": mutant.requirement,
                    "wrong": mutant.defect,
                    "scenario": mutant.scenario,
                }),
                cells: [
                    mutant.id.to_owned(),
                    mutant.requirement.to_owned(),
                    mutant.defect.to_owned(),
                ],
            });
        }
    }
    rows.extend(aoi_mock::rows());
    rows
}

fn list(args: &Mock, out: &mut dyn Write) -> Outcome {
    let mut rows = rows();
    let range = args.page.select("mock", &mut rows)?;
    let fields = args.page.document_fields(&range);
    let code = print_list(&rows, fields, args.output, out).map_err(io_failure)?;
    if args.output == Output::Human {
        let more = range.describe("entries");
        out.write_all(more.as_bytes()).map_err(io_failure)?;
    }
    Ok(code)
}

fn print_list(
    rows: &[Row],
    more: Fields,
    output: Output,
    out: &mut dyn Write,
) -> std::io::Result<u8> {
    let started = Instant::now();
    let of = |event: EventType| -> Vec<&Row> { rows.iter().filter(|r| r.event == event).collect() };
    let (scenarios, mutants) = (of(EventType::Scenario), of(EventType::Mutant));
    let variants = of(EventType::Variant);
    match output {
        Output::Json => {
            let fields = |rows: &[&Row]| -> Vec<Value> {
                rows.iter().map(|row| row.fields.clone()).collect()
            };
            let mut document = object(json!({
                "schema": "agentproto.mocks/v1",
                "scenarios": fields(&scenarios),
                "variants": fields(&variants),
                "mutants": fields(&mutants),
            }));
            document.extend(more);
            writeln!(out, "{:#}", Value::Object(document))?;
        }
        Output::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta("mock")?;
            for row in rows {
                emitter.event(row.event, &object(row.fields.clone()))?;
            }
            emitter.summary(true, started.elapsed(), more)?;
        }
        Output::Human => {
            table(["MOCK", "SCENARIO", "DESCRIPTION"], &scenarios, out)?;
            writeln!(out)?;
            table(["MOCK", "VARIANT", "DIFFERENCE"], &variants, out)?;
            writeln!(out)?;
            table(["MUTANT", "REQUIREMENT", "DEFECT"], &mutants, out)?;
            writeln!(
                out,
                "\nTo certify a mutant of the mock `acp`: \
                 `agentproto certify --mock acp --env MOCK_MUTANT=ID`"
            )?;
        }
    }
    Ok(exit::CLEAN)
}

fn table(head: [&str; 3], rows: &[&Row], out: &mut dyn Write) -> std::io::Result<()> {
    let head = head.map(str::to_owned);
    let cells = || std::iter::once(&head).chain(rows.iter().map(|row| &row.cells));
    let first = cells().map(|[cell, ..]| cell.len()).max().unwrap_or(0);
    let second = cells().map(|[_, cell, _]| cell.len()).max().unwrap_or(0);
    for [a, b, c] in cells() {
        writeln!(out, "{a:first$}  {b:second$}  {c}")?;
    }
    Ok(())
}
