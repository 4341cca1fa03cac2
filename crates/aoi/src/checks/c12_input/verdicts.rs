//! What the runs of check 12 show.

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
    demands: "Without words for a mode the command is in the mode that capabilities declare",
    why: "A caller that reads the manifest relies on it.",
    hint: "Declare the default that the code has.",
    topic: Topic::Input,
    register: &["AOI-12.2-01", "AOI-18.2-12"],
};

pub(super) static FAIL_FAST: Rule = Rule {
    id: "AOI-12.fail-fast",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "In fail-fast mode one malformed line makes the command fail",
    why: "Who asked for all or nothing must not get something.",
    hint: "Exit 65 with a summary of ok false at the first line that is wrong.",
    topic: Topic::Input,
    register: &["AOI-12.2-02", "AOI-18.2-12"],
};

pub(super) static ERROR: Rule = Rule {
    id: "AOI-12.error",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "A malformed line leads to an aoi:error",
    why: "Without it nobody knows what to mend.",
    hint: "Emit aoi:error with category validation and line_number.",
    topic: Topic::Input,
    register: &["AOI-12.2-02", "AOI-19-04"],
};

pub(super) static CATEGORY: Rule = Rule {
    id: "AOI-12.category",
    check: Check::Number(12),
    level: Level::Should,
    section: "§9.1",
    demands: "The aoi:error for a malformed line is of category validation",
    why: "Portable callers branch on the category.",
    hint: "Use validation for input that is wrong, usage for the command line.",
    topic: Topic::Input,
    register: &["AOI-9.1-02", "AOI-19-04"],
};

pub(super) static LINE: Rule = Rule {
    id: "AOI-12.line-number",
    check: Check::Number(12),
    level: Level::Must,
    section: "§19.4",
    demands: "line_number is the line of the input, counted from 1",
    why: "A wrong number sends the caller to the wrong line.",
    hint: "Count lines as they are read, blank ones and framework events too, from 1.",
    topic: Topic::Input,
    register: &["AOI-19-04"],
};

pub(super) static LINE_TOLD: Rule = Rule {
    id: "AOI-12.line-number-told",
    check: Check::Number(12),
    level: Level::Should,
    section: "§19.4",
    demands: "The aoi:error for a malformed line has a line_number",
    why: "In ten thousand lines nobody finds the one.",
    hint: "Put line_number into the error.",
    topic: Topic::Input,
    register: &["AOI-19-04"],
};

pub(super) static AFTER: Rule = Rule {
    id: "AOI-12.after-bad-line",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "In fail-fast mode nothing after the malformed line is done",
    why: "The command says that it stopped there.",
    hint: "Stop reading at the first malformed line.",
    topic: Topic::Input,
    register: &["AOI-12.2-02", "AOI-18.2-12"],
};

pub(super) static BEFORE: Rule = Rule {
    id: "AOI-12.before-bad-line",
    check: Check::Number(12),
    level: Level::Should,
    section: "§12.2",
    demands: "A mutating command in fail-fast mode fails before it changes anything",
    why: "Otherwise the caller has to find out how far it came.",
    hint: "Read and check all lines first, then begin.",
    topic: Topic::Input,
    register: &["AOI-12.2-05"],
};

pub(super) static ONE_EACH: Rule = Rule {
    id: "AOI-12.one-error-each",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "In tolerant mode there is exactly one aoi:error for each malformed line",
    why: "The caller mends and sends again exactly what was refused.",
    hint: "Emit one aoi:error per line that is passed over.",
    topic: Topic::Input,
    register: &["AOI-12.2-03", "AOI-18.2-12"],
};

pub(super) static GOES_ON: Rule = Rule {
    id: "AOI-12.goes-on",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "In tolerant mode every good line is taken, whatever stands around it",
    why: "That is what the mode is for.",
    hint: "Go on with the next line after an error.",
    topic: Topic::Input,
    register: &["AOI-12.2-03", "AOI-18.2-12"],
};

pub(super) static PARTIAL: Rule = Rule {
    id: "AOI-12.partial",
    check: Check::Number(12),
    level: Level::Must,
    section: "§19.4",
    demands: "A tolerant run with malformed lines says partial true in its summary",
    why: "The summary alone must tell that not everything was taken.",
    hint: "Set partial to true where a line was passed over.",
    topic: Topic::Input,
    register: &["AOI-4.1-04", "AOI-19-05"],
};

pub(super) static TOLERANT_OK: Rule = Rule {
    id: "AOI-12.tolerant-ok",
    check: Check::Number(12),
    level: Level::Open,
    section: "§19.4",
    demands: "A tolerant run with malformed lines says ok false in its summary",
    why: "The example of the text says so; §4.1 lets a partial result be a success.",
    hint: "Set ok to false where a line was passed over.",
    topic: Topic::Input,
    register: &["AOI-4.1-04", "AOI-19-05"],
};

pub(super) static SILENT: Rule = Rule {
    id: "AOI-12.silent-skip",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "No malformed line is passed over in silence",
    why: "What is lost without a word is lost for good.",
    hint: "Count a line that cannot be used as an error, in either mode.",
    topic: Topic::Input,
    register: &["AOI-12.2-02", "AOI-12.2-03", "AOI-18.2-12"],
};

impl Lines<'_> {
    pub fn judge_fail_fast(&self, runs: Option<Runs>, sheet: &mut Sheet<'_>) {
        let Some(runs) = runs else {
            for rule in OF_FAIL_FAST {
                sheet.not_applicable(rule, "it has no fail-fast mode");
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

    /// Whether a bad line does to the rest what capabilities say, where no mode is asked for.
    pub fn judge_default(
        &self,
        good: &Out,
        fast: Option<&Runs>,
        tolerant: Option<&Runs>,
        sheet: &mut Sheet<'_>,
    ) {
        let Some(declared) = self.modes.declared else {
            return sheet.not_applicable(&DECLARED_MODE, "capabilities name no default");
        };
        let is_usual = |mode| self.modes.words(mode).is_some_and(<[String]>::is_empty);
        let runs = match (is_usual(Mode::FailFast), is_usual(Mode::Tolerant)) {
            (true, _) => fast,
            (_, true) => tolerant,
            _ => None,
        };
        // A bad line before some good ones shows which of the two it is.
        let shown = runs.into_iter().flatten().find_map(|(case, run)| {
            let is_early = case
                .bad
                .first()
                .is_some_and(|line| *line < case.lines.len());
            run.as_ref().ok().filter(|_| is_early)
        });
        let Some(out) = shown else {
            return sheet.not_verified(&DECLARED_MODE, "no run without words for a mode");
        };
        let seen = match out.taken_differs(good) {
            None => Mode::Tolerant,
            Some(_) => Mode::FailFast,
        };
        let name = |mode| match mode {
            Mode::FailFast => "fail-fast",
            Mode::Tolerant => "tolerant",
        };
        let wrong =
            (seen != declared).then(|| format!("declared {}, seen {}", name(declared), name(seen)));
        sheet.held(
            &DECLARED_MODE,
            "it is in the mode that is declared",
            wrong,
            &out.run,
        );
    }

    pub fn judge_tolerant(&self, runs: Option<Runs>, good: &Out, sheet: &mut Sheet<'_>) {
        let Some(runs) = runs else {
            for rule in OF_TOLERANT {
                sheet.not_applicable(rule, "it has no tolerant mode");
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
        let wrong = is_silent.then(|| format!("{what}: exit 0, and no aoi:error about it"));
        sheet.held(
            &SILENT,
            "no bad line is passed over in silence",
            wrong,
            &out.run,
        );
        let seen = match out.run.end {
            End::Code(0) => Some("it exits 0"),
            _ if out.stream.ok() == Some(true) => Some("its summary says ok"),
            _ => None,
        };
        let wrong = seen.map(|seen| format!("{what}: {seen}; fail-fast is to fail"));
        sheet.held(&FAIL_FAST, "one bad line makes it fail", wrong, &out.run);
        self.errors(case, out, sheet);
        self.extent(case, out, sheet);
    }

    /// The errors about bad lines, whatever the mode.
    fn errors(&self, case: &Case, out: &Out, sheet: &mut Sheet<'_>) {
        let what = &case.what;
        let errors: Vec<&Line> = out.stream.errors().collect();
        if errors.is_empty() {
            let message = format!("{what}: there is no aoi:error about it");
            return sheet.broken(&ERROR, message, &out.run);
        }
        sheet.pass(&ERROR, "there is an aoi:error");
        let categories: Vec<&str> = errors
            .iter()
            .filter_map(|line| line.get("category")?.as_str())
            .collect();
        let wrong = (!categories.contains(&"validation")).then(|| {
            format!(
                "{what}: the category is `{}`, not `validation`",
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
                "{what}: line_number is {number}; the bad line is {}",
                bad.join(", ")
            )
        });
        sheet.held(&LINE, "line_number is right", wrong, &out.run);
    }

    /// How far a run that failed had come.
    fn extent(&self, case: &Case, out: &Out, sheet: &mut Sheet<'_>) {
        if !is_mutating(self.session, self.command) {
            let why = "it changes nothing";
            sheet.not_applicable(&AFTER, why);
            return sheet.not_applicable(&BEFORE, why);
        }
        let what = &case.what;
        match &out.effect {
            Effect::None => {
                sheet.pass(&AFTER, "nothing is changed");
                sheet.pass(&BEFORE, "nothing is changed");
            }
            Effect::Unseen => {
                let why = "the probe file has no `observe`: effects are not seen";
                sheet.doubt(&[&AFTER, &BEFORE], &unseen(self.session, why));
            }
            Effect::Some { told, count } => {
                let before = case.bad.first().map_or(0, |line| line.saturating_sub(1));
                // Uncounted, only a bad line at the very start shows what came after it.
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
        let wrong =
            is_silent.then(|| format!("{what}: {bad} bad lines, and not a word about them"));
        sheet.held(
            &SILENT,
            "no bad line is passed over in silence",
            wrong,
            &out.run,
        );
        let wrong = (errors != bad).then(|| format!("{what}: {bad} bad lines, {errors} aoi:error"));
        sheet.held(
            &ONE_EACH,
            "one aoi:error for each bad line",
            wrong,
            &out.run,
        );
        self.errors(case, out, sheet);
        let wrong = out.taken_differs(good).map(|how| format!("{what}: {how}"));
        sheet.held(&GOES_ON, "every good line is taken", wrong, &out.run);
        let wrong = (!is_partial).then(|| {
            let said = partial.map_or_else(|| "missing".to_owned(), Value::to_string);
            format!("{what}: partial is {said}, not true")
        });
        sheet.held(&PARTIAL, "partial is true", wrong, &out.run);
        let wrong = claims.then(|| format!("{what}: ok is true"));
        sheet.held(&TOLERANT_OK, "ok is false", wrong, &out.run);
    }
}

pub(super) static BOM: Rule = Rule {
    id: "AOI-12.bom",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.1",
    demands: "A byte order mark loses no line: the line is taken or refused",
    why: "The first line of such a file is easily lost.",
    hint: "Drop the mark at the start of the input, or refuse line 1.",
    topic: Topic::Input,
    register: &["AOI-12.1-01"],
};

/// Good lines in another form: taken as they are, or where that may be, refused in words.
pub fn one_form(rule: &'static Rule, out: &Out, good: &Out, sheet: &mut Sheet<'_>) {
    ends(out, sheet);
    if out.run.end == End::TimedOut {
        return sheet.not_verified(rule, "it had to be ended");
    }
    let is_told = !out.run.end.is_success() || out.stream.errors().next().is_some();
    let wrong = match out.differs(good) {
        Some(_) if rule.id == BOM.id && is_told => None,
        Some(how) => Some(format!("{}: {how}", out.run.probe)),
        None => None,
    };
    sheet.held(rule, "no good line is lost", wrong, &out.run);
}

pub(super) static ENDS: Rule = Rule {
    id: "AOI-12.ends",
    check: Check::Number(12),
    level: Level::Must,
    section: "§12.2",
    demands: "Whatever stands on standard input, the command ends by itself",
    why: "A crash or an endless wait is no answer to a line that is wrong.",
    hint: "Treat every byte of the input as possible, the end of it too.",
    topic: Topic::Input,
    register: &["AOI-12.2-02"],
};

/// No signal, no endless wait.
pub fn ends(out: &Out, sheet: &mut Sheet<'_>) {
    let wrong = match out.run.end {
        End::Code(_) => None,
        other => Some(format!("{}: {}", out.run.probe, other.told())),
    };
    sheet.held(&ENDS, "it always ends by itself", wrong, &out.run);
}

pub(super) static BUSY: Rule = Rule {
    id: "AOI-12.busy-wait",
    check: Check::Number(12),
    level: Level::Should,
    section: "§13",
    demands: "A command that waits for its input uses no processor time",
    why: "In a pipeline it waits as long as its upstream works.",
    hint: "Block on reading; do not poll.",
    topic: Topic::Input,
    register: &["AOI-13-01"],
};

/// An input that says nothing is waited for, but not with all might.
pub fn silence(run: Result<Arc<Capture>, Blocked>, sheet: &mut Sheet<'_>) {
    let run = match run {
        Ok(run) => run,
        Err(blocked) => return blocked.tell(sheet, &[&BUSY]),
    };
    if run.end != End::TimedOut {
        return sheet.not_applicable(&BUSY, "it does not wait for its input");
    }
    let wrong = busy(run.cpu, SILENCE);
    sheet.held(&BUSY, "it waits without work", wrong, &run);
}

/// Whether so much processor time in so much time is more than waiting takes.
fn busy(cpu: Duration, time: Duration) -> Option<String> {
    let share = cpu.as_secs_f64() / time.as_secs_f64().max(0.001);
    (share > 0.6).then(|| {
        let percent = (100.0 * share).round();
        format!("waiting for its input it uses {percent} % of a processor")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_no_busy_wait() {
        let ms = Duration::from_millis;
        assert_eq!(busy(ms(300), ms(1200)), None);
        assert!(busy(ms(1100), ms(1200)).is_some_and(|told| told.contains("92 %")));
    }
}
