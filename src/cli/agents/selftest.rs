//! `agentproto certify --selftest`: how good the judge is, in numbers.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use crate::cli::agents::certify::Certify;
use crate::cli::agents::progress;
use crate::cli::args::Global;
use crate::cli::{Failure, Outcome, io_failure, signals};
use crate::exit;
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::Event;
use agentproto_selftest::certify as selftest;
use agentproto_selftest::certify::{Depth, Trial};
use agentproto_text::{plain, pretty};

pub fn run(args: &Certify, global: &Global, out: &mut dyn Write) -> Outcome {
    let output: &str = args.output.into();
    if !["human", "json", "jsonl"].contains(&output) {
        let message = format!("--selftest has no output `{output}`");
        return Err(Failure::new(exit::USAGE, message).hint("--output human, json or jsonl"));
    }
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.max(2))
        .enable_all()
        .build()
        .map_err(io_failure)?;
    let trial = Trial {
        depth: match args.quick {
            true => Depth::Quick,
            false => Depth::Full,
        },
        only: args.only.clone(),
    };
    let outcome = tokio
        .block_on(selftest::run(
            &trial,
            &signals::STOP,
            progress::shown(global),
        ))
        .map_err(|error| Failure::new(exit::UNAVAILABLE, error.to_string()))?;
    if outcome.mutants.is_empty() && outcome.variants.is_empty() && !outcome.partial {
        let message = format!("--only {} selects nothing", args.only.join(","));
        return Err(Failure::new(exit::USAGE, message)
            .hint("`agentproto mock --list` names mutants, their statements, and variants"));
    }
    // Asked before: a report that tells of the signal is not cut by it.
    let interrupted = signals::interrupted();
    print(output, &outcome, out).map_err(io_failure)?;
    if let Some(code) = interrupted {
        return Ok(code);
    }
    Ok(match outcome.is_sound() {
        true => exit::CLEAN,
        false => exit::FINDINGS,
    })
}

fn totals(outcome: &selftest::Outcome) -> Fields {
    object(json!({
        "mutants": outcome.mutants.len(),
        "killed": outcome.killed(),
        "attributed": outcome.attributed(),
        "variants": outcome.variants.len(),
        "false_failures": outcome.false_failures(),
        "partial": outcome.partial,
    }))
}

fn print(format: &str, outcome: &selftest::Outcome, out: &mut dyn Write) -> std::io::Result<()> {
    match format {
        "json" => {
            let value = json!({
                "schema": "agentproto.selftest/v1",
                "mutants": outcome.mutants,
                "variants": outcome.variants,
                "summary": totals(outcome),
                "wall_ms": outcome.wall_ms,
            });
            writeln!(out, "{}", pretty(&value)?)
        }
        "jsonl" => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta("certify")?;
            for mutant in &outcome.mutants {
                emitter.event(Event::Mutant, &object(json!(mutant)))?;
            }
            for variant in &outcome.variants {
                emitter.event(Event::Variant, &object(json!(variant)))?;
            }
            let took = Duration::from_secs_f64(outcome.wall_ms / 1000.0);
            emitter.summary(outcome.is_sound(), took, totals(outcome))
        }
        _ => people(outcome, out),
    }
}

fn people(outcome: &selftest::Outcome, out: &mut dyn Write) -> std::io::Result<()> {
    // What was not tried has no rate.
    let rate = |part: usize, whole: usize| 100.0 * part as f64 / whole as f64;
    let all = outcome.mutants.len();
    for mock in ["acp", "acp-v2", "mcp", "lifecycle", "sessions"] {
        let of: Vec<_> = outcome.mutants.iter().filter(|m| m.mock == mock).collect();
        if of.is_empty() {
            continue;
        }
        let killed = of.iter().filter(|m| m.killed).count();
        let attributed = of.iter().filter(|m| m.attributed).count();
        writeln!(
            out,
            "{mock:<10} {:>4} mutants: {killed} killed ({:.1} %), {attributed} with the right requirement ({:.1} %)",
            of.len(),
            rate(killed, of.len()),
            rate(attributed, of.len()),
        )?;
    }
    if all > 0 {
        writeln!(
            out,
            "{:<10} {all:>4} mutants: {} killed ({:.1} %), {} with the right requirement ({:.1} %)",
            "all",
            outcome.killed(),
            rate(outcome.killed(), all),
            outcome.attributed(),
            rate(outcome.attributed(), all),
        )?;
    }
    if !outcome.variants.is_empty() {
        let (all, failures) = (outcome.variants.len(), outcome.false_failures());
        writeln!(out, "{all} conforming variants: {failures} false failures")?;
    }
    for mutant in outcome.mutants.iter().filter(|m| !m.attributed) {
        let how = match (mutant.killed, mutant.also.as_slice()) {
            (true, also) => format!("caught only as {}", also.join(", ")),
            (false, _) => "SURVIVED".to_owned(),
        };
        writeln!(
            out,
            "  {} ({}): {how}\n    {}",
            mutant.mutant,
            mutant.requirement,
            plain(&mutant.wrong)
        )?;
    }
    for variant in &outcome.variants {
        for blamed in &variant.blamed {
            writeln!(out, "  variant {}: {}", variant.variant, plain(blamed))?;
        }
        if variant.passed == 0 {
            writeln!(out, "  variant {}: nothing passed", variant.variant)?;
        }
    }
    if outcome.partial {
        writeln!(out, "stopped before its end")?;
    }
    writeln!(out, "{:.1} s", outcome.wall_ms / 1000.0)
}
