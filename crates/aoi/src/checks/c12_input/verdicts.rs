//! Verdicts on the runs of check 12.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::runner::{InputCase, InputOutcome};
use super::{ERROR_RULES, FAIL_FAST_RULES, InputCheck, Runs, SILENCE, TOLERANT_RULES};
use crate::capture::{Capture, ExitKind};
use crate::model::CheckId;
use crate::observe::{Effect, ProbeBlocked, is_mutating, why_unobserved};
use crate::probe::InputMode;
use crate::rules::{Level, Rule, Topic};
use crate::stream::EventLine;
use crate::verdicts::Verdicts;

pub(super) static DECLARED_MODE: Rule = Rule {
    id: "AOI-12.declared-mode",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§12.2",
    requirement: "Without mode arguments, the command uses the mode that `capabilities` declares",
    why: "A caller that reads the manifest relies on it.",
    hint: "Declare the default that the code implements.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.2-01", "AOI-18.2-12"],
};

pub(super) static FAIL_FAST: Rule = Rule {
    id: "AOI-12.fail-fast",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§12.2",
    requirement: "In fail-fast mode, one invalid line makes the command fail",
    why: "A caller that requested all or nothing must not get a part.",
    hint: "At the first invalid line, exit 65 with a summary that has ok: false.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.2-02", "AOI-18.2-12"],
};

pub(super) static ERROR: Rule = Rule {
    id: "AOI-12.error",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§12.2",
    requirement: "An invalid line causes an aoi:error",
    why: "Otherwise the caller does not know what to fix.",
    hint: "Emit aoi:error with category validation and line_number.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.2-02", "AOI-19-04"],
};

pub(super) static CATEGORY: Rule = Rule {
    id: "AOI-12.category",
    check: CheckId::Number(12),
    level: Level::Should,
    section: "§9.1",
    requirement: "The aoi:error for an invalid line has category validation",
    why: "Portable callers branch on the category.",
    hint: "Use validation for invalid input, and usage for the command line.",
    topic: Topic::Input,
    requirement_ids: &["AOI-9.1-02", "AOI-19-04"],
};

pub(super) static LINE: Rule = Rule {
    id: "AOI-12.line-number",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§19.4",
    requirement: "line_number is the number of the input line, counted from 1",
    why: "A wrong number sends the caller to the wrong line.",
    hint: "Count all lines as they are read, including blank lines and framework events, from 1.",
    topic: Topic::Input,
    requirement_ids: &["AOI-19-04"],
};

pub(super) static LINE_REPORTED: Rule = Rule {
    id: "AOI-12.line-number-told",
    check: CheckId::Number(12),
    level: Level::Should,
    section: "§19.4",
    requirement: "The aoi:error for an invalid line has a line_number",
    why: "Without it, the invalid line is hard to find among ten thousand.",
    hint: "Add line_number to the error.",
    topic: Topic::Input,
    requirement_ids: &["AOI-19-04"],
};

pub(super) static AFTER: Rule = Rule {
    id: "AOI-12.after-bad-line",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§12.2",
    requirement: "In fail-fast mode, nothing after the invalid line is processed",
    why: "The command reports that it stopped at that line.",
    hint: "Stop reading at the first invalid line.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.2-02", "AOI-18.2-12"],
};

pub(super) static BEFORE: Rule = Rule {
    id: "AOI-12.before-bad-line",
    check: CheckId::Number(12),
    level: Level::Should,
    section: "§12.2",
    requirement: "A mutating command in fail-fast mode fails before it changes anything",
    why: "Otherwise the caller has to find out how far the command got.",
    hint: "Read and check all lines first, then apply them.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.2-05"],
};

pub(super) static ONE_EACH: Rule = Rule {
    id: "AOI-12.one-error-each",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§12.2",
    requirement: "In tolerant mode, there is exactly one aoi:error for each invalid line",
    why: "The caller fixes and resends exactly the rejected lines.",
    hint: "Emit one aoi:error per skipped line.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.2-03", "AOI-18.2-12"],
};

pub(super) static CONTINUES: Rule = Rule {
    id: "AOI-12.goes-on",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§12.2",
    requirement: "In tolerant mode, every valid line is processed",
    why: "Processing the valid lines is the purpose of the mode.",
    hint: "Continue with the next line after an error.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.2-03", "AOI-18.2-12"],
};

pub(super) static PARTIAL: Rule = Rule {
    id: "AOI-12.partial",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§19.4",
    requirement: "The summary of a tolerant run with invalid lines has partial: true",
    why: "The summary alone must tell that some lines were skipped.",
    hint: "Set partial to true if a line was skipped.",
    topic: Topic::Input,
    requirement_ids: &["AOI-4.1-04", "AOI-19-05"],
};

pub(super) static TOLERANT_OK: Rule = Rule {
    id: "AOI-12.tolerant-ok",
    check: CheckId::Number(12),
    level: Level::Open,
    section: "§19.4",
    requirement: "The summary of a tolerant run with invalid lines has ok: false",
    why: "The example in the spec has ok: false, but §4.1 allows a partial result to be a success.",
    hint: "Set ok to false if a line was skipped.",
    topic: Topic::Input,
    requirement_ids: &["AOI-4.1-04", "AOI-19-05"],
};

pub(super) static SILENT: Rule = Rule {
    id: "AOI-12.silent-skip",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§12.2",
    requirement: "No invalid line is skipped silently",
    why: "The caller never learns about a line that is skipped silently.",
    hint: "Report an invalid line as an error in both modes.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.2-02", "AOI-12.2-03", "AOI-18.2-12"],
};

impl InputCheck<'_> {
    pub fn check_fail_fast(&self, runs: Option<Runs>, verdicts: &mut Verdicts<'_>) {
        let Some(runs) = runs else {
            for rule in FAIL_FAST_RULES {
                verdicts.not_applicable(rule, "the command has no fail-fast mode");
            }
            return;
        };
        for (case, run) in runs {
            match run {
                Ok(out) => self.one_fail_fast(&case, &out, verdicts),
                Err(blocked) => {
                    blocked.report(verdicts, &[&FAIL_FAST_RULES[..], &ERROR_RULES[..]].concat())
                }
            }
        }
    }

    /// Compares the mode without arguments with the default in `capabilities`.
    pub fn check_default(
        &self,
        good: &InputOutcome,
        fast: Option<&Runs>,
        tolerant: Option<&Runs>,
        verdicts: &mut Verdicts<'_>,
    ) {
        let Some(declared) = self.modes.declared else {
            return verdicts
                .not_applicable(&DECLARED_MODE, "`capabilities` declares no default mode");
        };
        let is_usual = |mode| self.modes.words(mode).is_some_and(<[String]>::is_empty);
        let runs = match (is_usual(InputMode::FailFast), is_usual(InputMode::Tolerant)) {
            (true, _) => fast,
            (_, true) => tolerant,
            _ => None,
        };
        // An invalid line before valid ones shows which mode it is.
        let shown = runs.into_iter().flatten().find_map(|(case, run)| {
            let is_early = case
                .bad
                .first()
                .is_some_and(|line| *line < case.lines.len());
            run.as_ref().ok().filter(|_| is_early)
        });
        let Some(out) = shown else {
            return verdicts.not_verified(&DECLARED_MODE, "no run without mode arguments");
        };
        let observed = match out.accepted_differs(good) {
            None => InputMode::Tolerant,
            Some(_) => InputMode::FailFast,
        };
        let name = |mode| match mode {
            InputMode::FailFast => "fail-fast",
            InputMode::Tolerant => "tolerant",
        };
        let violation = (observed != declared)
            .then(|| format!("declared {}, observed {}", name(declared), name(observed)));
        verdicts.decide(
            &DECLARED_MODE,
            "the default mode is the declared one",
            violation,
            &out.run,
        );
    }

    pub fn check_tolerant(
        &self,
        runs: Option<Runs>,
        good: &InputOutcome,
        verdicts: &mut Verdicts<'_>,
    ) {
        let Some(runs) = runs else {
            for rule in TOLERANT_RULES {
                verdicts.not_applicable(rule, "the command has no tolerant mode");
            }
            return;
        };
        for (case, run) in runs {
            match run {
                Ok(out) => self.one_tolerant(&case, &out, good, verdicts),
                Err(blocked) => {
                    blocked.report(verdicts, &[&TOLERANT_RULES[..], &ERROR_RULES[..]].concat())
                }
            }
        }
    }

    fn one_fail_fast(&self, case: &InputCase, out: &InputOutcome, verdicts: &mut Verdicts<'_>) {
        ends(out, verdicts);
        let what = &case.what;
        let is_silent = out.run.end.is_success() && out.stream.errors().next().is_none();
        let violation = is_silent.then(|| format!("{what}: exit 0 without an aoi:error"));
        verdicts.decide(
            &SILENT,
            "no invalid line is skipped silently",
            violation,
            &out.run,
        );
        let observed = match out.run.end {
            ExitKind::Code(0) => Some("exit 0"),
            _ if out.stream.ok() == Some(true) => Some("the summary has ok: true"),
            _ => None,
        };
        let violation = observed
            .map(|observed| format!("{what}: {observed}; expected a failure in fail-fast mode"));
        verdicts.decide(
            &FAIL_FAST,
            "one invalid line makes the command fail",
            violation,
            &out.run,
        );
        self.errors(case, out, verdicts);
        self.extent(case, out, verdicts);
    }

    /// Checks the errors about invalid lines, in any mode.
    fn errors(&self, case: &InputCase, out: &InputOutcome, verdicts: &mut Verdicts<'_>) {
        let what = &case.what;
        let errors: Vec<&EventLine> = out.stream.errors().collect();
        if errors.is_empty() {
            let message = format!("{what}: no aoi:error");
            return verdicts.violation(&ERROR, message, &out.run);
        }
        verdicts.pass(&ERROR, "there is an aoi:error");
        let categories: Vec<&str> = errors
            .iter()
            .filter_map(|line| line.get("category")?.as_str())
            .collect();
        let violation = (!categories.contains(&"validation")).then(|| {
            format!(
                "{what}: the category is `{}`; expected `validation`",
                categories.join(", ")
            )
        });
        verdicts.decide(&CATEGORY, "the category is validation", violation, &out.run);
        let numbers: Vec<&Value> = errors
            .iter()
            .filter_map(|line| line.get("line_number"))
            .collect();
        if numbers.is_empty() {
            let message = format!("{what}: the aoi:error has no line_number");
            return verdicts.violation(&LINE_REPORTED, message, &out.run);
        }
        verdicts.pass(&LINE_REPORTED, "there is a line_number");
        let is_bad = |number: &&&Value| {
            let number = number
                .as_u64()
                .and_then(|number| usize::try_from(number).ok());
            number.is_some_and(|number| case.bad.contains(&number))
        };
        let violation = numbers.iter().find(|number| !is_bad(number)).map(|number| {
            let bad: Vec<String> = case.bad.iter().map(usize::to_string).collect();
            format!(
                "{what}: line_number is {number}; the invalid lines are {}",
                bad.join(", ")
            )
        });
        verdicts.decide(&LINE, "line_number is correct", violation, &out.run);
    }

    /// Checks how much a failed run had processed.
    fn extent(&self, case: &InputCase, out: &InputOutcome, verdicts: &mut Verdicts<'_>) {
        if !is_mutating(self.session, self.command) {
            let why = "the command changes nothing";
            verdicts.not_applicable(&AFTER, why);
            return verdicts.not_applicable(&BEFORE, why);
        }
        let what = &case.what;
        match &out.effect {
            Effect::None => {
                verdicts.pass(&AFTER, "no changes");
                verdicts.pass(&BEFORE, "no changes");
            }
            Effect::Unknown => {
                let why = "the probe file has no `observe`, so effects cannot be detected";
                verdicts.unverify(&[&AFTER, &BEFORE], &why_unobserved(self.session, why));
            }
            Effect::Some { summary, count } => {
                let before = case.bad.first().map_or(0, |line| line.saturating_sub(1));
                // If changes cannot be counted, only an invalid first line shows that later lines
                // were processed.
                let later = match count {
                    Some(count) => *count > before,
                    None => before == 0,
                };
                let message = format!("{what}: {summary}");
                match later {
                    true => verdicts.violation(&AFTER, message, &out.run),
                    false => verdicts.violation(&BEFORE, message, &out.run),
                }
            }
        }
    }

    fn one_tolerant(
        &self,
        case: &InputCase,
        out: &InputOutcome,
        good: &InputOutcome,
        verdicts: &mut Verdicts<'_>,
    ) {
        ends(out, verdicts);
        let what = &case.what;
        let (errors, bad) = (out.stream.errors().count(), case.bad.len());
        let claims = out.stream.ok() == Some(true);
        let partial = out.stream.summary().and_then(|line| line.get("partial"));
        let is_partial = partial == Some(&Value::Bool(true));
        let is_silent = errors == 0 && claims && !is_partial;
        let violation =
            is_silent.then(|| format!("{what}: {bad} invalid lines were skipped silently"));
        verdicts.decide(
            &SILENT,
            "no invalid line is skipped silently",
            violation,
            &out.run,
        );
        let violation =
            (errors != bad).then(|| format!("{what}: {bad} invalid lines, but {errors} aoi:error"));
        verdicts.decide(
            &ONE_EACH,
            "one aoi:error for each invalid line",
            violation,
            &out.run,
        );
        self.errors(case, out, verdicts);
        let violation = out
            .accepted_differs(good)
            .map(|how| format!("{what}: {how}"));
        verdicts.decide(
            &CONTINUES,
            "every valid line is processed",
            violation,
            &out.run,
        );
        let violation = (!is_partial).then(|| {
            let value = partial.map_or_else(|| "missing".to_owned(), Value::to_string);
            format!("{what}: `partial` is {value}; expected true")
        });
        verdicts.decide(&PARTIAL, "partial is true", violation, &out.run);
        let violation = claims.then(|| format!("{what}: `ok` is true; expected false"));
        verdicts.decide(&TOLERANT_OK, "ok is false", violation, &out.run);
    }
}

pub(super) static BOM: Rule = Rule {
    id: "AOI-12.bom",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§12.1",
    requirement: "With a byte order mark, the first line is accepted or rejected, but not lost",
    why: "The first line of such a file is easily lost.",
    hint: "Remove the byte order mark at the start of the input, or reject line 1.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.1-01"],
};

/// Valid lines in another form must be accepted. A byte order mark may also be rejected with an
/// error.
pub fn one_form(
    rule: &'static Rule,
    out: &InputOutcome,
    good: &InputOutcome,
    verdicts: &mut Verdicts<'_>,
) {
    ends(out, verdicts);
    if out.run.end == ExitKind::TimedOut {
        return verdicts.not_verified(rule, "the command did not exit within its time limit");
    }
    let is_reported = !out.run.end.is_success() || out.stream.errors().next().is_some();
    let violation = match out.differs(good) {
        Some(_) if rule.id == BOM.id && is_reported => None,
        Some(how) => Some(format!("{}: {how}", out.run.probe)),
        None => None,
    };
    verdicts.decide(rule, "no valid line is lost", violation, &out.run);
}

pub(super) static ENDS: Rule = Rule {
    id: "AOI-12.ends",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§12.2",
    requirement: "The command terminates on its own, whatever it reads from stdin",
    why: "A crash or a hang is not a valid response to an invalid line.",
    hint: "Handle every possible byte of the input, and its end.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.2-02"],
};

/// Checks that the run ended neither with a signal nor with a timeout.
pub fn ends(out: &InputOutcome, verdicts: &mut Verdicts<'_>) {
    let violation = match out.run.end {
        ExitKind::Code(_) => None,
        other => Some(format!("{}: {}", out.run.probe, other.describe())),
    };
    verdicts.decide(
        &ENDS,
        "the command always exits on its own",
        violation,
        &out.run,
    );
}

pub(super) static BUSY: Rule = Rule {
    id: "AOI-12.busy-wait",
    check: CheckId::Number(12),
    level: Level::Should,
    section: "§13",
    requirement: "A command that waits for input uses no CPU time",
    why: "In a pipeline, it waits as long as its upstream tool works.",
    hint: "Block while reading instead of polling.",
    topic: Topic::Input,
    requirement_ids: &["AOI-13-01"],
};

/// Checks the CPU time of a command that waits for input.
pub fn silence(run: Result<Arc<Capture>, ProbeBlocked>, verdicts: &mut Verdicts<'_>) {
    let run = match run {
        Ok(run) => run,
        Err(blocked) => return blocked.report(verdicts, &[&BUSY]),
    };
    if run.end != ExitKind::TimedOut {
        return verdicts.not_applicable(&BUSY, "the command does not wait for input");
    }
    let violation = busy(run.cpu, SILENCE);
    verdicts.decide(
        &BUSY,
        "the command waits without using CPU time",
        violation,
        &run,
    );
}

/// Whether the CPU time is more than waiting needs.
fn busy(cpu: Duration, time: Duration) -> Option<String> {
    let share = cpu.as_secs_f64() / time.as_secs_f64().max(0.001);
    (share > 0.6).then(|| {
        let percent = (100.0 * share).round();
        format!("the command uses {percent} % of a CPU while waiting for input")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_is_not_a_busy_wait() {
        let ms = Duration::from_millis;
        assert_eq!(busy(ms(300), ms(1200)), None);
        assert!(busy(ms(1100), ms(1200)).is_some_and(|summary| summary.contains("92 %")));
    }
}
