//! `agentproto aoi-lint --selftest`: measures how many known defects the checks find.

use std::io::{IsTerminal, Write};

use serde_json::json;

use crate::cli::agents::selftest::SelftestReport;
use crate::cli::args::{Global, Output};
use crate::cli::{Failure, Outcome, io_failure, signals};
use crate::exit;
use agentproto_report::aoi::object;
use agentproto_report::event::EventType;
use agentproto_selftest::aoi as selftest;

/// What to run, and how to print the result.
pub struct SelftestArgs<'a> {
    /// Name of the calling command.
    pub command: &'static str,
    pub only: &'a [String],
    pub quick: bool,
    pub output: Output,
}

/// Runs the self-test for a command that has no async runtime of its own.
pub fn start(args: &SelftestArgs, global: &Global, out: &mut dyn Write) -> Outcome {
    signals::watch();
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(io_failure)?;
    run(args, global, &tokio, out)
}

pub fn run(
    args: &SelftestArgs,
    global: &Global,
    tokio: &tokio::runtime::Runtime,
    out: &mut dyn Write,
) -> Outcome {
    let at_terminal = std::io::stderr().is_terminal() && !global.quiet;
    let show_progress = |name: &str| {
        if at_terminal {
            eprint!("\r\x1b[K{name}");
        }
    };
    let tokio = tokio.handle();
    let outcome = selftest::run(args.only, args.quick, tokio, &signals::STOP, &show_progress)
        .map_err(|error| Failure::new(exit::UNAVAILABLE, error.to_string()))?;
    show_progress("");
    let results = &outcome.results;
    if outcome.is_empty() && !results.partial {
        let message = format!("--only {} matches nothing", args.only.join(","));
        return Err(Failure::new(exit::USAGE, message)
            .hint(
                "`agentproto mock --list` lists mutants and variants; `repeats` selects the repeated runs",
            ));
    }
    let report = SelftestReport {
        command: args.command,
        schema: "agentproto.aoi-selftest/v1",
        events: [EventType::AoiMutant, EventType::AoiVariant],
        outcome: results,
        flaky: Some(&outcome.flaky),
        totals: object(json!({
            "mutants": results.mutants.len(),
            "killed": results.killed(),
            "attributed": results.attributed(),
            "named": outcome.named(),
            "variants": results.variants.len(),
            "false_findings": results.false_positive_count(),
            "repeats": outcome.repeats,
            "flakes": outcome.flakes,
            "partial": results.partial,
        })),
        head: head(&outcome),
        is_sound: outcome.is_sound(),
    };
    // A selection cannot meet the thresholds for the whole set.
    let passes = outcome.is_sound() || (!args.only.is_empty() && outcome.is_clean());
    report.finish(args.output, passes, out)
}

/// The totals, one per line.
fn head(outcome: &selftest::AoiResults) -> Vec<String> {
    let results = &outcome.results;
    let (all, variants) = (results.mutants.len(), results.variants.len());
    let mut lines = Vec::new();
    // A rate needs at least one run.
    if all > 0 {
        let rate = |part: usize| 100.0 * part as f64 / all as f64;
        let (killed, own) = (results.killed(), results.attributed());
        lines.push(format!(
            "{all} mutants: {killed} killed ({:.1} %), {own} by the right check ({:.1} %), {} by \
             the right rule",
            rate(killed),
            rate(own),
            outcome.named(),
        ));
    }
    if variants > 0 {
        let found = results.false_positive_count();
        lines.push(format!(
            "{variants} conforming tools: {found} false findings"
        ));
    }
    if outcome.repeats > 0 {
        let (repeats, flakes) = (outcome.repeats, outcome.flakes);
        let what = "repeated runs of the signal and pipe checks";
        lines.push(format!("{repeats} {what}: {flakes} flakes"));
    }
    lines
}
