//! `agentproto aoi-lint --selftest`: how good the judge of tools is, in numbers.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::args::Global;
use crate::cli::{Failure, Outcome, io_failure, signals};
use crate::exit;
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::Event;
use agentproto_selftest::aoi as selftest;
use agentproto_text::{plain, pretty};

/// What is to be tried, and how it is told.
pub struct Asked<'a> {
    /// By which command.
    pub command: &'static str,
    pub only: &'a [String],
    pub quick: bool,
    pub output: &'a str,
}

/// For a command that has nothing to do with tools otherwise.
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
    let formats = ["human", "json", "jsonl"];
    if !formats.contains(&args.output) {
        let message = format!("--selftest has no output `{}`", args.output);
        return Err(Failure::new(exit::USAGE, message).hint("--output human, json or jsonl"));
    }
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
    if outcome.is_empty() && !outcome.partial {
        let message = format!("--only {} selects nothing", args.only.join(","));
        return Err(Failure::new(exit::USAGE, message)
            .hint("`agentproto mock --list` names mutants and variants; `repeats` repeats"));
    }
    // Asked before: a report that tells of the signal is not cut by it.
    let interrupted = signals::interrupted();
    print(args, &outcome, out).map_err(io_failure)?;
    if let Some(code) = interrupted {
        return Ok(code);
    }
    // A selection says nothing of the whole.
    let good = outcome.is_sound() || (!args.only.is_empty() && outcome.is_clean());
    Ok(match good {
        true => exit::CLEAN,
        false => exit::FINDINGS,
    })
}

fn totals(outcome: &selftest::Outcome) -> Fields {
    object(json!({
        "mutants": outcome.mutants.len(),
        "killed": outcome.killed(),
        "attributed": outcome.attributed(),
        "named": outcome.named(),
        "variants": outcome.variants.len(),
        "false_findings": outcome.false_findings(),
        "repeats": outcome.repeats,
        "flakes": outcome.flakes,
        "partial": outcome.partial,
    }))
}

fn print(args: &Asked, outcome: &selftest::Outcome, out: &mut dyn Write) -> std::io::Result<()> {
    match args.output {
        "json" => {
            let value = json!({
                "schema": "agentproto.aoi-selftest/v1",
                "mutants": outcome.mutants,
                "variants": outcome.variants,
                "flaky": outcome.flaky,
                "summary": Value::Object(totals(outcome)),
                "wall_ms": outcome.wall_ms,
            });
            writeln!(out, "{}", pretty(&value)?)
        }
        "jsonl" => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta(args.command)?;
            for mutant in &outcome.mutants {
                emitter.event(Event::AoiMutant, &object(json!(mutant)))?;
            }
            for variant in &outcome.variants {
                emitter.event(Event::AoiVariant, &object(json!(variant)))?;
            }
            for flaky in &outcome.flaky {
                emitter.warning("FLAKE", flaky, None)?;
            }
            let took = Duration::from_secs_f64(outcome.wall_ms / 1000.0);
            emitter.summary(outcome.is_sound(), took, totals(outcome))
        }
        _ => people(outcome, out),
    }
}

fn people(outcome: &selftest::Outcome, out: &mut dyn Write) -> std::io::Result<()> {
    let (all, variants) = (outcome.mutants.len(), outcome.variants.len());
    // What was not tried has no rate.
    if all > 0 {
        let rate = |part: usize| 100.0 * part as f64 / all as f64;
        let (killed, own) = (outcome.killed(), outcome.attributed());
        writeln!(
            out,
            "{all} mutants: {killed} killed ({:.1} %), {own} by the right check ({:.1} %), {} by \
             the very rule",
            rate(killed),
            rate(own),
            outcome.named(),
        )?;
    }
    if variants > 0 {
        let found = outcome.false_findings();
        writeln!(out, "{variants} conforming tools: {found} false findings")?;
    }
    if outcome.repeats > 0 {
        let (repeats, flakes) = (outcome.repeats, outcome.flakes);
        let what = "repeats of the checks of signals and pipes";
        writeln!(out, "{repeats} {what}: {flakes} flakes")?;
    }
    for mutant in outcome.mutants.iter().filter(|m| !m.named) {
        let how = match mutant.killed {
            true => format!("not as {}, but as {}", mutant.rule, mutant.found.join(", ")),
            false => "SURVIVED".to_owned(),
        };
        writeln!(
            out,
            "  {}: {how}\n    {}",
            mutant.mutant,
            plain(&mutant.wrong)
        )?;
    }
    for variant in &outcome.variants {
        for blamed in &variant.blamed {
            writeln!(out, "  {}: {}", variant.variant, plain(blamed))?;
        }
    }
    for flaky in &outcome.flaky {
        writeln!(out, "  {}", plain(flaky))?;
    }
    if outcome.partial {
        writeln!(out, "stopped before its end")?;
    }
    writeln!(out, "{:.1} s", outcome.wall_ms / 1000.0)
}
