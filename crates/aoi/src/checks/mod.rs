//! The 13 checks of §18.2, one module each, and the rules beyond them.

mod advisory;
mod c01_discoverable;
mod c02_typed;
mod c03_verifiable;
mod c04_declared;
mod c05_usage;
mod c06_safe;
mod c07_idempotent;
mod c08_auditable;
mod c09_secrets;
mod c10_pipes;
mod c11_bounded;
mod c12_input;
mod c13_versioned;
mod tally;

use serde_json::Value;

use crate::capture::{Capture, ExitKind};
use crate::probe::ProbeCommand;
use crate::rules::Rule;
use crate::run::StdinSource;
use crate::session::{LintSession, RunOptions};
use crate::stream::{EventLine, EventStream};
use crate::{LintError, adapt, mismatch};

/// The rules of every check.
pub const RULES: &[&[&Rule]] = &[
    c01_discoverable::RULES,
    c02_typed::RULES,
    c03_verifiable::RULES,
    c04_declared::RULES,
    c05_usage::RULES,
    c06_safe::RULES,
    c07_idempotent::RULES,
    c08_auditable::RULES,
    c09_secrets::RULES,
    c10_pipes::RULES,
    c11_bounded::RULES,
    c12_input::RULES,
    c13_versioned::RULES,
    advisory::RULES,
];

/// Evaluates all runs of a session.
type Evaluation = fn(&LintSession);

/// Runs all checks. Checks that start the tool run concurrently. Checks that evaluate all runs come
/// last. If the probe file does not match the tool, no check runs.
pub async fn all(session: &LintSession) -> Result<(), LintError> {
    let is_selected = |check| session.is_selected(check);
    crate::observe::prepare(session)
        .await
        .map_err(LintError::Setup)?;
    c01_discoverable::check(session).await;
    match mismatch::unknown_commands(session) {
        mistakes if mistakes.is_empty() => {}
        mistakes => return Err(LintError::ProbeMismatch(mistakes)),
    }
    adapt::run(session).await;
    // These checks evaluate the output of the runs of other checks.
    let evaluates_runs = [2, 3, 4, 5, 13].into_iter().any(is_selected);
    // Some advisory rules are decided in the course of the 13 checks.
    let advisory = session.is_advisory_selected();
    tokio::join!(
        run_if(is_selected(2), c02_typed::run_variants(session)),
        run_if(evaluates_runs, c03_verifiable::check(session)),
        run_if(evaluates_runs, c05_usage::check(session)),
        run_if(is_selected(6) || advisory, c06_safe::check(session)),
        run_if(is_selected(7) || advisory, c07_idempotent::check(session)),
        run_if(
            evaluates_runs || is_selected(8),
            c08_auditable::check(session)
        ),
        run_if(is_selected(9), c09_secrets::check(session)),
        run_if(evaluates_runs || is_selected(10), c10_pipes::check(session)),
        run_if(is_selected(11) || advisory, c11_bounded::check(session)),
        run_if(
            evaluates_runs || is_selected(12) || advisory,
            c12_input::check(session)
        ),
        run_if(evaluates_runs, c13_versioned::check(session)),
        run_if(advisory, advisory::check(session)),
    );
    // These checks come last, because they evaluate all runs.
    let evaluate: [(u8, Evaluation); 6] = [
        (2, c02_typed::check),
        (4, c04_declared::check),
        (13, c13_versioned::reported),
        (3, c03_verifiable::evaluate),
        (5, c05_usage::evaluate),
        (9, c09_secrets::evaluate),
    ];
    for (check, evaluate) in evaluate {
        if is_selected(check) || advisory {
            evaluate(session);
        }
    }
    if advisory {
        advisory::evaluate(session);
    }
    Ok(())
}

async fn run_if(enabled: bool, check: impl Future<Output = ()>) {
    if enabled {
        check.await;
    }
}

/// Prefix of the probe names of runs that are invalid on purpose.
const MALFORMED: &str = "malformed: ";

/// Whether the tool may reject the run, so that it says nothing about success.
fn may_fail(run: &Capture) -> bool {
    run.canaries || run.probe.starts_with(MALFORMED)
}

/// Whether the tool reports that the resource in the command line does not exist. The arguments are
/// then wrong, not the tool.
fn lacks_target(run: &Capture) -> bool {
    let stream = EventStream::parse(&run.stdout);
    let is_missing =
        |error: &EventLine| error.get("category").and_then(Value::as_str) == Some("not_found");
    matches!(run.end, ExitKind::Code(1..)) && stream.errors().any(is_missing)
}

/// Why a run whose resource does not exist decides nothing.
const NO_TARGET: &str = "the tool reports that the resource in `ok` does not exist (`not_found`): \
                         name one that exists in a new directory, or create it with `setup` or \
                         `target`";

/// Whether neither the probe file nor `capabilities` says that the command changes something. It
/// may be repeated as it is.
pub fn is_harmless(session: &LintSession, command: &ProbeCommand) -> bool {
    let says = |key| {
        session
            .declared
            .get()
            .and_then(|d| d.flag(&command.name, key))
    };
    !command.mutating
        && command.read_only != Some(false)
        && says("read_only") != Some(false)
        && says("destructive") != Some(true)
}

/// Whether the probe file or `capabilities` says that the command changes nothing. It may be run
/// with other arguments.
fn is_read_only(session: &LintSession, command: &ProbeCommand) -> bool {
    let declared = session.declared.get();
    let declared_read_only =
        declared.and_then(|declared| declared.flag(&command.name, "read_only"));
    let in_probe_file = session.probe.file.is_some() || command.read_only == Some(true);
    is_harmless(session, command) && (in_probe_file || declared_read_only == Some(true))
}

/// Arguments and input of a run that should succeed.
pub fn ok_run(session: &LintSession, command: &ProbeCommand) -> (Vec<String>, RunOptions) {
    let mut words = session.fill_shared(command, &command.ok);
    let mut how = RunOptions {
        input: crate::observe::text_input(command),
        ..RunOptions::default()
    };
    if let Some(input) = &command.input {
        if words.is_empty() {
            words.push(command.name.clone());
        }
        if input.flag.first().is_some_and(|flag| !words.contains(flag)) {
            words.extend(input.flag.iter().cloned());
        }
        how.input = StdinSource::Bytes(upstream_input(input, true));
    }
    (words, how)
}

/// The good input lines of a command, as an AOI stream if it expects one.
fn upstream_input(input: &crate::probe::JsonlInput, is_whole: bool) -> Vec<u8> {
    let meta = r#"{"type":"aoi:meta","tool":"upstream","aoi_version":"0.2"}"#;
    let mut lines: Vec<String> = Vec::new();
    if input.upstream {
        lines.push(meta.to_owned());
    }
    lines.extend(input.good.iter().cloned());
    if input.upstream && is_whole {
        let count = input.good.len();
        lines.push(format!(
            r#"{{"type":"aoi:summary","ok":true,"count":{count}}}"#
        ));
    }
    let mut text = lines.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text.into_bytes()
}

/// A flag that no tool has.
fn unknown_flag(session: &LintSession) -> String {
    format!("--aoi-lint-{}", session.uniq())
}
