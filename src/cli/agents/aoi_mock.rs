//! `agentproto mock aoi`: one run of the mock AOI tool.

use std::io::Write;

use serde_json::json;

use crate::cli::agents::aoi_selftest;
use crate::cli::agents::mock::{Mock, Row};
use crate::cli::args::Global;
use crate::cli::{Failure, Outcome};
use crate::exit;
use agentproto_mock::aoi::{self, ToolConfig};
use agentproto_mock::mutants::aoi as mutants;
use agentproto_mock::or_variable;
use agentproto_mock::variants::aoi as variants;
use agentproto_report::event::EventType;
use agentproto_text::closest_of;

/// The tool has no scenarios, but readers of the list expect one.
const DEFAULT_SCENARIO: &str = "default";

pub fn run(args: &Mock, global: &Global, out: &mut dyn Write) -> Outcome {
    if args.selftest {
        let selftest_args = aoi_selftest::SelftestArgs {
            command: "mock",
            only: &args.only,
            quick: args.quick,
            output: args.output,
        };
        return aoi_selftest::start(&selftest_args, global, out);
    }
    let scenario = args.scenario.is_some().then_some("--scenario");
    if let Some(flag) = args.model.first_flag().or(scenario) {
        let message = format!("`{flag}` does not apply to the mock AOI tool");
        return Err(Failure::new(exit::USAGE, message).hint("see `agentproto mock aoi -- --help`"));
    }
    let mutant = or_variable(args.mutant.clone(), "MOCK_MUTANT");
    let variant = or_variable(args.variant.clone(), "MOCK_VARIANT");
    let mutant = mutant.map(|id| {
        let found = mutants::all().find(|mutant| mutant.id == id);
        found.ok_or_else(|| unknown("mutant", &id, mutants::all().map(|mutant| mutant.id)))
    });
    let variant = variant.map(|name| {
        let found = variants::VARIANTS
            .iter()
            .find(|variant| variant.name == name);
        let names = variants::VARIANTS.iter().map(|variant| variant.name);
        found.ok_or_else(|| unknown("variant", &name, names))
    });
    let words = args.args.iter();
    let words = words.map(|word| word.to_string_lossy().into_owned());
    Ok(aoi::run(ToolConfig {
        args: words.collect(),
        state: args.state.clone(),
        mutant: mutant.transpose()?,
        variant: variant.transpose()?,
    }))
}

/// The rows of this mock in `mock --list`.
pub fn rows() -> impl Iterator<Item = Row> {
    let variants = variants::VARIANTS.iter().map(|variant| Row {
        event: EventType::Variant,
        fields: json!({
            "id": format!("aoi/{}", variant.name),
            "mock": "aoi",
            "name": variant.name,
            "what": variant.description,
            "warns": (!variant.expected_warnings.is_empty()).then(|| variant.expected_warnings.join(", ")),
            "scenario": DEFAULT_SCENARIO,
        }),
        cells: ["aoi", variant.name, variant.description].map(str::to_owned),
    });
    let mutants = mutants::all().map(|mutant| Row {
        event: EventType::Mutant,
        fields: json!({
            "mock": "aoi",
            "id": mutant.id,
            "requirement": mutant.requirement,
            "check": mutant.check(),
            "verdict": mutant.verdict.as_str(),
            "wrong": mutant.defect,
            "shows": mutant.run_args,
            "scenario": DEFAULT_SCENARIO,
        }),
        cells: [mutant.id, mutant.requirement, mutant.defect].map(str::to_owned),
    });
    variants.chain(mutants)
}

fn unknown(what: &str, name: &str, known: impl Iterator<Item = &'static str>) -> Failure {
    let message = format!("the aoi mock has no {what} `{name}`");
    let failure = Failure::new(exit::USAGE, message);
    match closest_of(name, known) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None => failure.hint("`agentproto mock --list` lists them all"),
    }
}
