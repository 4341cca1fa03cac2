//! `agentproto certify --selftest`: measures how many known defects the suites find.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::agents::certify::Certify;
use crate::cli::agents::progress;
use crate::cli::args::{Global, Output};
use crate::cli::{Failure, Outcome, io_failure, signals};
use crate::exit;
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::EventType;
use agentproto_selftest::certify as selftest;
use agentproto_selftest::certify::{Depth, SelftestOptions};
use agentproto_selftest::common::{self, MutantResult, VariantResult};
use agentproto_text::{escape_line, pretty};

pub fn run(args: &Certify, global: &Global, out: &mut dyn Write) -> Outcome {
    let output = output(args.output)?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.max(2))
        .enable_all()
        .build()
        .map_err(io_failure)?;
    let options = SelftestOptions {
        depth: match args.quick {
            true => Depth::Quick,
            false => Depth::Full,
        },
        only: args.only.clone(),
    };
    let outcome = tokio
        .block_on(selftest::run(
            &options,
            &signals::STOP,
            progress::for_terminal(global),
        ))
        .map_err(|error| Failure::new(exit::UNAVAILABLE, error.to_string()))?;
    if outcome.is_empty() && !outcome.partial {
        let message = format!("--only {} matches nothing", args.only.join(","));
        return Err(Failure::new(exit::USAGE, message)
            .hint("`agentproto mock --list` lists mutants, their requirements, and variants"));
    }
    let report = SelftestReport {
        command: "certify",
        schema: "agentproto.selftest/v1",
        events: [EventType::Mutant, EventType::Variant],
        outcome: &outcome,
        flaky: None,
        totals: object(json!({
            "mutants": outcome.mutants.len(),
            "killed": outcome.killed(),
            "attributed": outcome.attributed(),
            "variants": outcome.variants.len(),
            "false_failures": outcome.false_positive_count(),
            "partial": outcome.partial,
        })),
        head: head(&outcome),
        is_sound: outcome.is_sound(),
    };
    report.finish(output, outcome.is_sound(), out)
}

/// The totals, one per line.
fn head(outcome: &selftest::CertifyResults) -> Vec<String> {
    // A rate needs at least one run.
    let rate = |part: usize, whole: usize| 100.0 * part as f64 / whole as f64;
    let line = |name: &str, all: usize, killed: usize, attributed: usize| {
        format!(
            "{name:<10} {all:>4} mutants: {killed} killed ({:.1} %), {attributed} with the right \
             requirement ({:.1} %)",
            rate(killed, all),
            rate(attributed, all),
        )
    };
    let mut lines = Vec::new();
    for mock in ["acp", "acp-v2", "mcp", "lifecycle", "sessions"] {
        let of: Vec<_> = outcome.mutants.iter().filter(|m| m.mock == mock).collect();
        let killed = of.iter().filter(|m| m.killed).count();
        let attributed = of.iter().filter(|m| m.attributed).count();
        if !of.is_empty() {
            lines.push(line(mock, of.len(), killed, attributed));
        }
    }
    if !outcome.mutants.is_empty() {
        let (killed, attributed) = (outcome.killed(), outcome.attributed());
        lines.push(line("all", outcome.mutants.len(), killed, attributed));
    }
    if !outcome.variants.is_empty() {
        let (all, failures) = (outcome.variants.len(), outcome.false_positive_count());
        lines.push(format!(
            "{all} conforming variants: {failures} false failures"
        ));
    }
    lines
}

/// The output of a self-test, which has fewer formats than a report.
pub fn output<F: fmt::Display>(format: F) -> Result<Output, Failure>
where
    Output: TryFrom<F, Error = F>,
{
    Output::try_from(format).map_err(|format| {
        let message = format!("--selftest does not support the output `{format}`");
        Failure::new(exit::USAGE, message).hint("use --output human, json or jsonl")
    })
}

/// The output of a self-test, of suites or of `aoi-lint`.
pub struct SelftestReport<'a, M, V> {
    pub command: &'static str,
    pub schema: &'static str,
    /// Events of a mutant and of a variant.
    pub events: [EventType; 2],
    pub outcome: &'a common::SelftestResults<M, V>,
    /// Results that differed between repeated runs, if something was repeated.
    pub flaky: Option<&'a [String]>,
    pub totals: Fields,
    /// Totals for people, one line each.
    pub head: Vec<String>,
    pub is_sound: bool,
}

impl<M: MutantResult, V: VariantResult> SelftestReport<'_, M, V> {
    /// Prints the result, and returns the exit code.
    pub fn finish(self, output: Output, passes: bool, out: &mut dyn Write) -> Outcome {
        // Called before rendering: it marks the signal as handled, so that the report is not cut
        // off.
        let interrupted = signals::interrupted();
        let printed = match output {
            Output::Json => self.json(out),
            Output::Jsonl => self.jsonl(out),
            Output::Human => self.human(out),
        };
        printed.map_err(io_failure)?;
        Ok(match interrupted {
            Some(code) => code,
            None if passes => exit::CLEAN,
            None => exit::FINDINGS,
        })
    }

    fn json(self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut value = object(json!({
            "schema": self.schema,
            "mutants": self.outcome.mutants,
            "variants": self.outcome.variants,
        }));
        if let Some(flaky) = self.flaky {
            value.insert("flaky".to_owned(), json!(flaky));
        }
        value.insert("summary".to_owned(), Value::Object(self.totals));
        value.insert("wall_ms".to_owned(), json!(self.outcome.wall_ms));
        writeln!(out, "{}", pretty(&Value::Object(value))?)
    }

    fn jsonl(self, out: &mut dyn Write) -> std::io::Result<()> {
        let [of_mutant, of_variant] = self.events;
        let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
        emitter.meta(self.command)?;
        for mutant in &self.outcome.mutants {
            emitter.event(of_mutant, &object(json!(mutant)))?;
        }
        for variant in &self.outcome.variants {
            emitter.event(of_variant, &object(json!(variant)))?;
        }
        for flaky in self.flaky.unwrap_or_default() {
            emitter.warning("FLAKE", flaky, None)?;
        }
        let took = Duration::from_secs_f64(self.outcome.wall_ms / 1000.0);
        emitter.summary(self.is_sound, took, self.totals)
    }

    fn human(self, out: &mut dyn Write) -> std::io::Result<()> {
        for line in &self.head {
            writeln!(out, "{line}")?;
        }
        for mutant in &self.outcome.mutants {
            if let Some(failure) = mutant.failure() {
                writeln!(out, "  {failure}\n    {}", escape_line(mutant.defect()))?;
            }
        }
        let problems = self.outcome.variants.iter().flat_map(V::problems);
        let flaky = self.flaky.unwrap_or_default().iter().cloned();
        for line in problems.chain(flaky) {
            writeln!(out, "  {}", escape_line(&line))?;
        }
        if self.outcome.partial {
            writeln!(out, "interrupted: the results are incomplete")?;
        }
        writeln!(out, "{:.1} s", self.outcome.wall_ms / 1000.0)
    }
}
