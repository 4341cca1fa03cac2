//! `agentproto aoi-lint --selftest`: measures how many known defects the checks find.

use std::io::{IsTerminal, Write};

use serde_json::json;

use crate::cli::agents::selftest::Shown;
use crate::cli::args::{Global, Output};
use crate::cli::{Failure, Outcome, io_failure, signals};
use crate::exit;
use agentproto_report::aoi::object;
use agentproto_report::event::Event;
use agentproto_selftest::aoi as selftest;

/// What to run, and how to print the result.
pub struct Asked<'a> {
    /// Name of the calling command.
    pub command: &'static str,
    pub only: &'a [String],
    pub quick: bool,
    pub output: Output,
}

/// Runs the self-test for a command that has no async runtime of its own.
pub fn start(args: &Asked, global: &Global, out: &mut dyn Write) -> Outcome {
    signals::watch();
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(io_failure)?;
    run(args, global, &tokio, out)
}

pub fn run(
    args: &Asked,
    global: &Global,
    tokio: &tokio::runtime::Runtime,
    out: &mut dyn Write,
) -> Outcome {
    let shows = std::io::stderr().is_terminal() && !global.quiet;
    let heard = |name: &str| {
        if shows {
            eprint!("\r\x1b[K{name}");
        }
    };
    let tokio = tokio.handle();
    let outcome = selftest::run(args.only, args.quick, tokio, &signals::STOP, &heard)
        .map_err(|error| Failure::new(exit::UNAVAILABLE, error.to_string()))?;
    heard("");
    let tried = &outcome.tried;
    if outcome.is_empty() && !tried.partial {
        let message = format!("--only {} matches nothing", args.only.join(","));
        return Err(Failure::new(exit::USAGE, message)
            .hint(
                "`agentproto mock --list` lists mutants and variants; `repeats` selects the repeated runs",
            ));
    }
    let shown = Shown {
        command: args.command,
        schema: "agentproto.aoi-selftest/v1",
        events: [Event::AoiMutant, Event::AoiVariant],
        outcome: tried,
        flaky: Some(&outcome.flaky),
        totals: object(json!({
            "mutants": tried.mutants.len(),
            "killed": tried.killed(),
            "attributed": tried.attributed(),
            "named": outcome.named(),
            "variants": tried.variants.len(),
            "false_findings": tried.false_blames(),
            "repeats": outcome.repeats,
            "flakes": outcome.flakes,
            "partial": tried.partial,
        })),
        head: head(&outcome),
        is_sound: outcome.is_sound(),
    };
    // A selection cannot meet the thresholds for the whole set.
    let is_good = outcome.is_sound() || (!args.only.is_empty() && outcome.is_clean());
    shown.finish(args.output, is_good, out)
}

/// The totals, one per line.
fn head(outcome: &selftest::Outcome) -> Vec<String> {
    let tried = &outcome.tried;
    let (all, variants) = (tried.mutants.len(), tried.variants.len());
    let mut lines = Vec::new();
    // A rate needs at least one run.
    if all > 0 {
        let rate = |part: usize| 100.0 * part as f64 / all as f64;
        let (killed, own) = (tried.killed(), tried.attributed());
        lines.push(format!(
            "{all} mutants: {killed} killed ({:.1} %), {own} by the right check ({:.1} %), {} by \
             the right rule",
            rate(killed),
            rate(own),
            outcome.named(),
        ));
    }
    if variants > 0 {
        let found = tried.false_blames();
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
