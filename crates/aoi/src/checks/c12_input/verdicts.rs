//! Verdicts on the runs of check 12.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::feed::{Case, Out};
use super::{Lines, OF_ERRORS, OF_FAIL_FAST, OF_TOLERANT, Runs, SILENCE};
use crate::capture::{Capture, End};
use crate::model::Check;
use crate::observe::{Blocked, Effect, is_mutating, unseen};
use crate::probe::Mode;
use crate::rules::{Level, Rule, Topic};
use crate::sheet::Sheet;
use crate::stream::Line;

pub(super) static DECLARED_MODE: Rule = Rule {
    id: "AOI-12.declared-mode",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "Without mode arguments, the command uses the mode that `capabilities` declares",
    why: "A caller that reads the manifest relies on it.",
    hint: "Declare the default that the code implements.",
    topic: Topic::Input,
    register: &["AOI-12.2-01", "AOI-18.2-12"],
};

pub(super) static FAIL_FAST: Rule = Rule {
    id: "AOI-12.fail-fast",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "In fail-fast mode, one invalid line makes the command fail",
    why: "A caller that requested all or nothing must not get a part.",
    hint: "At the first invalid line, exit 65 with a summary that has ok: false.",
    topic: Topic::Input,
    register: &["AOI-12.2-02", "AOI-18.2-12"],
};

pub(super) static ERROR: Rule = Rule {
    id: "AOI-12.error",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "An invalid line causes an aoi:error",
    why: "Otherwise the caller does not know what to fix.",
    hint: "Emit aoi:error with category validation and line_number.",
    topic: Topic::Input,
    register: &["AOI-12.2-02", "AOI-19-04"],
};

pub(super) static CATEGORY: Rule = Rule {
    id: "AOI-12.category",
    check: Check::Number(12),
    level: Level::Should,
    section: "§9.1",
    demands: "The aoi:error for an invalid line has category validation",
    why: "Portable callers branch on the category.",
    hint: "Use validation for invalid input, and usage for the command line.",
    topic: Topic::Input,
    register: &["AOI-9.1-02", "AOI-19-04"],
};

pub(super) static LINE: Rule = Rule {
    id: "AOI-12.line-number",
    check: Check::Number(12),
    level: Level::Must,
    section: "§19.4",
    demands: "line_number is the number of the input line, counted from 1",
    why: "A wrong number sends the caller to the wrong line.",
    hint: "Count all lines as they are read, including blank lines and framework events, from 1.",
    topic: Topic::Input,
    register: &["AOI-19-04"],
};

pub(super) static LINE_TOLD: Rule = Rule {
    id: "AOI-12.line-number-told",
    check: Check::Number(12),
    level: Level::Should,
    section: "§19.4",
    demands: "The aoi:error for an invalid line has a line_number",
    why: "Without it, the invalid line is hard to find among ten thousand.",
    hint: "Add line_number to the error.",
    topic: Topic::Input,
    register: &["AOI-19-04"],
};

pub(super) static AFTER: Rule = Rule {
    id: "AOI-12.after-bad-line",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "In fail-fast mode, nothing after the invalid line is processed",
    why: "The command reports that it stopped at that line.",
    hint: "Stop reading at the first invalid line.",
    topic: Topic::Input,
    register: &["AOI-12.2-02", "AOI-18.2-12"],
};

pub(super) static BEFORE: Rule = Rule {
    id: "AOI-12.before-bad-line",
    check: Check::Number(12),
    level: Level::Should,
    section: "§12.2",
    demands: "A mutating command in fail-fast mode fails before it changes anything",
    why: "Otherwise the caller has to find out how far the command got.",
    hint: "Read and check all lines first, then apply them.",
    topic: Topic::Input,
    register: &["AOI-12.2-05"],
};

pub(super) static ONE_EACH: Rule = Rule {
    id: "AOI-12.one-error-each",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "In tolerant mode, there is exactly one aoi:error for each invalid line",
    why: "The caller fixes and resends exactly the rejected lines.",
    hint: "Emit one aoi:error per skipped line.",
    topic: Topic::Input,
    register: &["AOI-12.2-03", "AOI-18.2-12"],
};

pub(super) static GOES_ON: Rule = Rule {
    id: "AOI-12.goes-on",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "In tolerant mode, every valid line is processed",
    why: "Processing the valid lines is the purpose of the mode.",
    hint: "Continue with the next line after an error.",
    topic: Topic::Input,
    register: &["AOI-12.2-03", "AOI-18.2-12"],
};

pub(super) static PARTIAL: Rule = Rule {
    id: "AOI-12.partial",
    check: Check::Number(12),
    level: Level::Must,
    section: "§19.4",
    demands: "The summary of a tolerant run with invalid lines has partial: true",
    why: "The summary alone must tell that some lines were skipped.",
    hint: "Set partial to true if a line was skipped.",
    topic: Topic::Input,
    register: &["AOI-4.1-04", "AOI-19-05"],
};

pub(super) static TOLERANT_OK: Rule = Rule {
    id: "AOI-12.tolerant-ok",
    check: Check::Number(12),
    level: Level::Open,
    section: "§19.4",
    demands: "The summary of a tolerant run with invalid lines has ok: false",
    why: "The example in the spec has ok: false, but §4.1 allows a partial result to be a success.",
    hint: "Set ok to false if a line was skipped.",
    topic: Topic::Input,
    register: &["AOI-4.1-04", "AOI-19-05"],
};

pub(super) static SILENT: Rule = Rule {
    id: "AOI-12.silent-skip",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "No invalid line is skipped silently",
    why: "The caller never learns about a line that is skipped silently.",
    hint: "Report an invalid line as an error in both modes.",
    topic: Topic::Input,
    register: &["AOI-12.2-02", "AOI-12.2-03", "AOI-18.2-12"],
};

impl Lines<'_> {
    pub fn judge_fail_fast(&self, runs: Option<Runs>, sheet: &mut Sheet<'_>) {
        let Some(runs) = runs else {
            for rule in OF_FAIL_FAST {
                sheet.not_applicable(rule, "the command has no fail-fast mode");
            }
            return;
        };
        for (case, run) in runs {
            match run {
                Ok(out) => self.one_fail_fast(&case, &out, sheet),
                Err(blocked) => blocked.tell(sheet, &[&OF_FAIL_FAST[..], &OF_ERRORS[..]].concat()),
            }
        }
    }

    /// Compares the mode without arguments with the default in `capabilities`.
    pub fn judge_default(
        &self,
        good: &Out,
        fast: Option<&Runs>,
        tolerant: Option<&Runs>,
        sheet: &mut Sheet<'_>,
    ) {
        let Some(declared) = self.modes.declared else {
            return sheet.not_applicable(&DECLARED_MODE, "`capabilities` declares no default mode");
        };
        let is_usual = |mode| self.modes.words(mode).is_some_and(<[String]>::is_empty);
        let runs = match (is_usual(Mode::FailFast), is_usual(Mode::Tolerant)) {
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
            return sheet.not_verified(&DECLARED_MODE, "no run without mode arguments");
        };
        let seen = match out.taken_differs(good) {
            None => Mode::Tolerant,
            Some(_) => Mode::FailFast,
        };
        let name = |mode| match mode {
            Mode::FailFast => "fail-fast",
            Mode::Tolerant => "tolerant",
        };
        let wrong = (seen != declared)
            .then(|| format!("declared {}, observed {}", name(declared), name(seen)));
        sheet.held(
            &DECLARED_MODE,
            "the default mode is the declared one",
            wrong,
            &out.run,
        );
    }

    pub fn judge_tolerant(&self, runs: Option<Runs>, good: &Out, sheet: &mut Sheet<'_>) {
        let Some(runs) = runs else {
            for rule in OF_TOLERANT {
                sheet.not_applicable(rule, "the command has no tolerant mode");
            }
            return;
        };
        for (case, run) in runs {
            match run {
                Ok(out) => self.one_tolerant(&case, &out, good, sheet),
                Err(blocked) => blocked.tell(sheet, &[&OF_TOLERANT[..], &OF_ERRORS[..]].concat()),
            }
        }
    }

    fn one_fail_fast(&self, case: &Case, out: &Out, sheet: &mut Sheet<'_>) {
        ends(out, sheet);
        let what = &case.what;
        let is_silent = out.run.end.is_success() && out.stream.errors().next().is_none();
        let wrong = is_silent.then(|| format!("{what}: exit 0 without an aoi:error"));
        sheet.held(
            &SILENT,
            "no invalid line is skipped silently",
            wrong,
            &out.run,
        );
        let seen = match out.run.end {
            End::Code(0) => Some("exit 0"),
            _ if out.stream.ok() == Some(true) => Some("the summary has ok: true"),
            _ => None,
        };
        let wrong =
            seen.map(|seen| format!("{what}: {seen}; expected a failure in fail-fast mode"));
        sheet.held(
            &FAIL_FAST,
            "one invalid line makes the command fail",
            wrong,
            &out.run,
        );
        self.errors(case, out, sheet);
        self.extent(case, out, sheet);
    }

    /// Checks the errors about invalid lines, in any mode.
    fn errors(&self, case: &Case, out: &Out, sheet: &mut Sheet<'_>) {
        let what = &case.what;
        let errors: Vec<&Line> = out.stream.errors().collect();
        if errors.is_empty() {
            let message = format!("{what}: no aoi:error");
            return sheet.broken(&ERROR, message, &out.run);
        }
        sheet.pass(&ERROR, "there is an aoi:error");
        let categories: Vec<&str> = errors
            .iter()
            .filter_map(|line| line.get("category")?.as_str())
            .collect();
        let wrong = (!categories.contains(&"validation")).then(|| {
            format!(
                "{what}: the category is `{}`; expected `validation`",
                categories.join(", ")
            )
        });
        sheet.held(&CATEGORY, "the category is validation", wrong, &out.run);
        let numbers: Vec<&Value> = errors
            .iter()
            .filter_map(|line| line.get("line_number"))
            .collect();
        if numbers.is_empty() {
            let message = format!("{what}: the aoi:error has no line_number");
            return sheet.broken(&LINE_TOLD, message, &out.run);
        }
        sheet.pass(&LINE_TOLD, "there is a line_number");
        let is_bad = |number: &&&Value| {
            let number = number
                .as_u64()
                .and_then(|number| usize::try_from(number).ok());
            number.is_some_and(|number| case.bad.contains(&number))
        };
        let wrong = numbers.iter().find(|number| !is_bad(number)).map(|number| {
            let bad: Vec<String> = case.bad.iter().map(usize::to_string).collect();
            format!(
                "{what}: line_number is {number}; the invalid lines are {}",
                bad.join(", ")
            )
        });
        sheet.held(&LINE, "line_number is correct", wrong, &out.run);
    }

    /// Checks how much a failed run had processed.
    fn extent(&self, case: &Case, out: &Out, sheet: &mut Sheet<'_>) {
        if !is_mutating(self.session, self.command) {
            let why = "the command changes nothing";
            sheet.not_applicable(&AFTER, why);
            return sheet.not_applicable(&BEFORE, why);
        }
        let what = &case.what;
        match &out.effect {
            Effect::None => {
                sheet.pass(&AFTER, "no changes");
                sheet.pass(&BEFORE, "no changes");
            }
            Effect::Unseen => {
                let why = "the probe file has no `observe`, so effects cannot be detected";
                sheet.doubt(&[&AFTER, &BEFORE], &unseen(self.session, why));
            }
            Effect::Some { told, count } => {
                let before = case.bad.first().map_or(0, |line| line.saturating_sub(1));
                // If changes cannot be counted, only an invalid first line shows that later lines
                // were processed.
                let later = match count {
                    Some(count) => *count > before,
                    None => before == 0,
                };
                let message = format!("{what}: {told}");
                match later {
                    true => sheet.broken(&AFTER, message, &out.run),
                    false => sheet.broken(&BEFORE, message, &out.run),
                }
            }
        }
    }

    fn one_tolerant(&self, case: &Case, out: &Out, good: &Out, sheet: &mut Sheet<'_>) {
        ends(out, sheet);
        let what = &case.what;
        let (errors, bad) = (out.stream.errors().count(), case.bad.len());
        let claims = out.stream.ok() == Some(true);
        let partial = out.stream.summary().and_then(|line| line.get("partial"));
        let is_partial = partial == Some(&Value::Bool(true));
        let is_silent = errors == 0 && claims && !is_partial;
        let wrong = is_silent.then(|| format!("{what}: {bad} invalid lines were skipped silently"));
        sheet.held(
            &SILENT,
            "no invalid line is skipped silently",
            wrong,
            &out.run,
        );
        let wrong =
            (errors != bad).then(|| format!("{what}: {bad} invalid lines, but {errors} aoi:error"));
        sheet.held(
            &ONE_EACH,
            "one aoi:error for each invalid line",
            wrong,
            &out.run,
        );
        self.errors(case, out, sheet);
        let wrong = out.taken_differs(good).map(|how| format!("{what}: {how}"));
        sheet.held(&GOES_ON, "every valid line is processed", wrong, &out.run);
        let wrong = (!is_partial).then(|| {
            let said = partial.map_or_else(|| "missing".to_owned(), Value::to_string);
            format!("{what}: `partial` is {said}; expected true")
        });
        sheet.held(&PARTIAL, "partial is true", wrong, &out.run);
        let wrong = claims.then(|| format!("{what}: `ok` is true; expected false"));
        sheet.held(&TOLERANT_OK, "ok is false", wrong, &out.run);
    }
}

pub(super) static BOM: Rule = Rule {
    id: "AOI-12.bom",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.1",
    demands: "With a byte order mark, the first line is accepted or rejected, but not lost",
    why: "The first line of such a file is easily lost.",
    hint: "Remove the byte order mark at the start of the input, or reject line 1.",
    topic: Topic::Input,
    register: &["AOI-12.1-01"],
};

/// Valid lines in another form must be accepted. A byte order mark may also be rejected with an
/// error.
pub fn one_form(rule: &'static Rule, out: &Out, good: &Out, sheet: &mut Sheet<'_>) {
    ends(out, sheet);
    if out.run.end == End::TimedOut {
        return sheet.not_verified(rule, "the command did not exit within its time limit");
    }
    let is_told = !out.run.end.is_success() || out.stream.errors().next().is_some();
    let wrong = match out.differs(good) {
        Some(_) if rule.id == BOM.id && is_told => None,
        Some(how) => Some(format!("{}: {how}", out.run.probe)),
        None => None,
    };
    sheet.held(rule, "no valid line is lost", wrong, &out.run);
}

pub(super) static ENDS: Rule = Rule {
    id: "AOI-12.ends",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "The command terminates on its own, whatever it reads from stdin",
    why: "A crash or a hang is not a valid response to an invalid line.",
    hint: "Handle every possible byte of the input, and its end.",
    topic: Topic::Input,
    register: &["AOI-12.2-02"],
};

/// Checks that the run ended neither with a signal nor with a timeout.
pub fn ends(out: &Out, sheet: &mut Sheet<'_>) {
    let wrong = match out.run.end {
        End::Code(_) => None,
        other => Some(format!("{}: {}", out.run.probe, other.told())),
    };
    sheet.held(
        &ENDS,
        "the command always exits on its own",
        wrong,
        &out.run,
    );
}

pub(super) static BUSY: Rule = Rule {
    id: "AOI-12.busy-wait",
    check: Check::Number(12),
    level: Level::Should,
    section: "§13",
    demands: "A command that waits for input uses no CPU time",
    why: "In a pipeline, it waits as long as its upstream tool works.",
    hint: "Block while reading instead of polling.",
    topic: Topic::Input,
    register: &["AOI-13-01"],
};

/// Checks the CPU time of a command that waits for input.
pub fn silence(run: Result<Arc<Capture>, Blocked>, sheet: &mut Sheet<'_>) {
    let run = match run {
        Ok(run) => run,
        Err(blocked) => return blocked.tell(sheet, &[&BUSY]),
    };
    if run.end != End::TimedOut {
        return sheet.not_applicable(&BUSY, "the command does not wait for input");
    }
    let wrong = busy(run.cpu, SILENCE);
    sheet.held(
        &BUSY,
        "the command waits without using CPU time",
        wrong,
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
        assert!(busy(ms(1100), ms(1200)).is_some_and(|told| told.contains("92 %")));
    }
}
