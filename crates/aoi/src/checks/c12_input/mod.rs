//! Check 12: invalid lines on stdin are handled in the declared mode.

mod broken;
mod modes;
mod runner;
mod verdicts;

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::model::CheckId;
use crate::observe::{ProbeBlocked, is_mutating};
use crate::probe::{InputMode, JsonlInput, ProbeCommand};
use crate::rules::{Level, Rule, Topic};
use crate::session::LintSession;
use crate::verdicts::Verdicts;
use broken::{BrokenUpstream, UPSTREAM_FAILURE};
use modes::{DEFAULT, InputModes, MODE, MODE_MANIFEST};
use runner::{InputCase, InputOutcome, InputRunner};
use verdicts::{
    AFTER, BEFORE, BOM, BUSY, CATEGORY, CONTINUES, DECLARED_MODE, ENDS, ERROR, FAIL_FAST, LINE,
    LINE_REPORTED, ONE_EACH, PARTIAL, SILENT, TOLERANT_OK, ends, one_form, silence,
};

pub const RULES: &[&Rule] = &[
    &MODE,
    &MODE_MANIFEST,
    &DECLARED_MODE,
    &GOOD,
    &FAIL_FAST,
    &ERROR,
    &CATEGORY,
    &LINE,
    &LINE_REPORTED,
    &AFTER,
    &BEFORE,
    &ONE_EACH,
    &CONTINUES,
    &PARTIAL,
    &TOLERANT_OK,
    &SILENT,
    &DEFAULT,
    &LAST_LINE,
    &CRLF,
    &BOM,
    &LONG,
    &ENDS,
    &UPSTREAM,
    &UNKNOWN_TYPE,
    &UNKNOWN_FIELD,
    &BUSY,
];

const FAIL_FAST_RULES: [&Rule; 3] = [&FAIL_FAST, &AFTER, &BEFORE];

const TOLERANT_RULES: [&Rule; 4] = [&ONE_EACH, &CONTINUES, &PARTIAL, &TOLERANT_OK];

const ERROR_RULES: [&Rule; 5] = [&ERROR, &CATEGORY, &LINE, &LINE_REPORTED, &SILENT];

/// How long the silent input stays open.
const SILENCE: Duration = Duration::from_millis(1200);

/// Incomplete JSON.
const CUT: &str = "{\"aoi_lint\":";

pub async fn check(session: &LintSession) {
    let readers = session.commands().iter();
    let readers = readers.filter_map(|command| Some((command, command.input.as_ref()?)));
    join_all(readers.map(|(command, input)| one(session, command, input))).await;
}

async fn one(session: &LintSession, command: &ProbeCommand, input: &JsonlInput) {
    let mut verdicts = Verdicts::new(session.reporter(&command.name));
    if input.good.is_empty() {
        for rule in RULES {
            verdicts.skip(
                rule,
                "the probe file has no `good` lines for the input of the command",
            );
        }
        return verdicts.report(&[], "");
    }
    let modes = InputModes::of(session, command, input);
    let runner = InputRunner::new(session, command);
    let check = InputCheck {
        session,
        runner,
        command,
        input,
        modes,
    };
    check.all(&mut verdicts).await;
    // Afterwards, because a violation quotes one of the runs.
    check.modes.check(session, command, &mut verdicts).await;
    verdicts.report(RULES, "the probe did not get that far");
}

/// Cases with the results of their runs.
type Runs = Vec<(InputCase, Result<InputOutcome, ProbeBlocked>)>;

struct InputCheck<'c> {
    session: &'c LintSession,
    runner: InputRunner<'c>,
    command: &'c ProbeCommand,
    input: &'c JsonlInput,
    modes: InputModes,
}

static GOOD: Rule = Rule {
    id: "AOI-12.good",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§12.1",
    requirement: "Valid lines are accepted: exit 0, ok: true and no aoi:error",
    why: "The handling of invalid lines means something only if valid lines work.",
    hint: "Accept one JSON object per line on stdin.",
    topic: Topic::Input,
    requirement_ids: &[
        "AOI-0-02",
        "AOI-0-03",
        "AOI-12.1-01",
        "AOI-13-01",
        "AOI-13-05",
    ],
};

static LAST_LINE: Rule = Rule {
    id: "AOI-12.last-line",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§12.1",
    requirement: "A last line without a line feed is processed",
    why: "Many programs do not write a line feed at the end.",
    hint: "Treat the rest at the end of the input as a line.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.1-01"],
};

static CRLF: Rule = Rule {
    id: "AOI-12.crlf",
    check: CheckId::Number(12),
    level: Level::Should,
    section: "§12.1",
    requirement: "Lines that end with CR LF are accepted",
    why: "A carriage return is whitespace in JSON.",
    hint: "Parse the line including the carriage return, or strip it.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.1-01"],
};

static LONG: Rule = Rule {
    id: "AOI-12.long-line",
    check: CheckId::Number(12),
    level: Level::Open,
    section: "§12.1",
    requirement: "A line of 1 MiB is accepted",
    why: "The text of a document can be long.",
    hint: "Use a buffer that grows up to a documented limit.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.1-01"],
};

static UPSTREAM: Rule = Rule {
    id: "AOI-12.upstream",
    check: CheckId::Number(12),
    level: Level::Should,
    section: "§13",
    requirement: "aoi:meta and aoi:summary from an upstream tool are accepted, but not treated as data",
    why: "Tools are connected by pipes, and the first line is the aoi:meta of another tool.",
    hint: "Recognize framework events by their prefix aoi: and do not treat them as items.",
    topic: Topic::Input,
    requirement_ids: &["AOI-13-02", "AOI-13-01"],
};

static UNKNOWN_TYPE: Rule = Rule {
    id: "AOI-12.unknown-type",
    check: CheckId::Number(12),
    level: Level::Should,
    section: "§13",
    requirement: "Events of unknown types are ignored",
    why: "An upstream tool may add event types at any time.",
    hint: "Ignore events of unknown types, unless configured to fail.",
    topic: Topic::Input,
    requirement_ids: &["AOI-13-03"],
};

static UNKNOWN_FIELD: Rule = Rule {
    id: "AOI-12.unknown-field",
    check: CheckId::Number(12),
    level: Level::Should,
    section: "§10.3",
    requirement: "Input lines with unknown fields are rejected",
    why: "An unknown field is a typo, or something that the caller made up.",
    hint: "Forbid additional properties in the input schema, and validate against it.",
    topic: Topic::Input,
    requirement_ids: &["AOI-10.3-02"],
};

impl InputCheck<'_> {
    async fn all(&self, verdicts: &mut Verdicts<'_>) {
        let case = InputCase::new("valid lines", &self.input.good);
        let good = self.runner.run(&case, self.modes.usual());
        let (good, silent) = tokio::join!(good, self.runner.wait(SILENCE, self.modes.usual()));
        silence(silent, verdicts);
        let good = match good {
            Ok(good) => good,
            Err(blocked) => return blocked.report(verdicts, &self.without_mode()),
        };
        ends(&good, verdicts);
        if !good.is_clean() {
            let how = good.run.end.describe();
            let errors = good.stream.errors().count();
            let message = format!("valid lines are not accepted: {how}, {errors} aoi:error");
            verdicts.violation(&GOOD, message, &good.run);
            let rest: Vec<&'static Rule> = self.without_mode();
            let rest: Vec<_> = rest.into_iter().filter(|rule| rule.id != GOOD.id).collect();
            return verdicts.unverify(
                &rest,
                "valid lines are not accepted, so invalid ones prove nothing",
            );
        }
        verdicts.pass(&GOOD, "valid lines are accepted");
        let (fast, tolerant, forms) = tokio::join!(self.fail_fast(), self.tolerant(), self.forms());
        self.check_default(&good, fast.as_ref(), tolerant.as_ref(), verdicts);
        self.check_fail_fast(fast, verdicts);
        self.check_tolerant(tolerant, &good, verdicts);
        for (rule, run) in forms {
            match run {
                Ok(out) => one_form(rule, &out, &good, verdicts),
                Err(blocked) => blocked.report(verdicts, &[rule]),
            }
        }
        self.special(&good, verdicts).await;
    }

    fn without_mode(&self) -> Vec<&'static Rule> {
        let all = RULES.iter().copied();
        all.filter(|rule| rule.id != MODE.id && rule.id != DEFAULT.id)
            .collect()
    }

    /// Invalid lines, without duplicates.
    fn bad(&self) -> Vec<String> {
        let is_object = |line: &String| {
            serde_json::from_str::<Value>(line).is_ok_and(|value| value.is_object())
        };
        let mut bad = vec![CUT.to_owned()];
        if self.input.good.iter().all(is_object) {
            bad.push("[1]".to_owned());
        }
        for line in &self.input.bad {
            if !bad.contains(line) {
                bad.push(line.clone());
            }
        }
        bad
    }

    async fn fail_fast(&self) -> Option<Runs> {
        let words = self.modes.words(InputMode::FailFast)?;
        let good = &self.input.good;
        let middle = good.len().div_ceil(2);
        let mut cases = vec![
            InputCase::with_bad("an invalid first line", good, CUT, 0),
            InputCase::with_bad("an invalid last line", good, CUT, good.len()),
        ];
        for bad in self.bad() {
            let shown: String = bad.chars().take(40).collect();
            let what = format!("the invalid line `{shown}` in the middle");
            cases.push(InputCase::with_bad(&what, good, &bad, middle));
        }
        let mut runs = self
            .runner
            .run_all(&cases.iter().collect::<Vec<_>>(), words)
            .await;
        if !words.is_empty() && self.modes.default == Some(InputMode::FailFast) {
            let case = InputCase::with_bad("an invalid line, no mode requested", good, CUT, middle);
            runs.push(self.runner.run(&case, &[]).await);
            cases.push(case);
        }
        Some(cases.into_iter().zip(runs).collect())
    }

    /// All invalid lines in one run, mixed with valid ones.
    async fn tolerant(&self) -> Option<Runs> {
        let words = self.modes.words(InputMode::Tolerant)?;
        let case = InputCase::mixed(
            "invalid lines among valid ones",
            &self.input.good,
            &self.bad(),
        );
        let run = self.runner.run(&case, words).await;
        let mut runs = vec![(case, run)];
        if !words.is_empty() && self.modes.default == Some(InputMode::Tolerant) {
            let what = "invalid lines among valid ones, no mode requested";
            let case = InputCase::mixed(what, &self.input.good, &self.bad());
            let run = self.runner.run(&case, &[]).await;
            runs.push((case, run));
        }
        Some(runs)
    }

    /// Valid lines in other forms, which must have the same result.
    async fn forms(&self) -> Vec<(&'static Rule, Result<InputOutcome, ProbeBlocked>)> {
        let words = self.modes.usual();
        let good = &self.input.good;
        let mut long = good.clone();
        if let Some(first) = long.first_mut() {
            *first = runner::padded(first, 1 << 20);
        }
        let cases = [
            (
                &LAST_LINE,
                InputCase::new("no line feed after the last line", good)
                    .shaped(runner::without_last_lf),
            ),
            (
                &CRLF,
                InputCase::new("lines that end with CR LF", good).shaped(runner::crlf),
            ),
            (
                &BOM,
                InputCase::new("a byte order mark", good).shaped(runner::with_bom),
            ),
            (&LONG, InputCase::new("a line of 1 MiB", &long)),
        ];
        let runs = join_all(cases.iter().map(|(_, case)| self.runner.run(case, words))).await;
        let rules = cases.iter().map(|(rule, _)| *rule as &'static Rule);
        rules.zip(runs).collect()
    }

    /// Events of other tools, unknown fields, and empty input.
    async fn special(&self, good: &InputOutcome, verdicts: &mut Verdicts<'_>) {
        let words = self.modes.usual();
        let empty = self
            .runner
            .run(&InputCase::new("empty input", &[]), words)
            .await;
        if let Ok(out) = &empty {
            ends(out, verdicts);
        }
        if self.input.upstream {
            self.upstream(good, verdicts).await;
        } else {
            let why = "the probe file does not say that the command reads streams of other tools \
                       (`input.upstream`)";
            verdicts.not_applicable(&UPSTREAM, why);
            verdicts.not_applicable(&UNKNOWN_TYPE, why);
        }
        if !is_mutating(self.session, self.command) {
            let why = "the events of an upstream tool may have additional fields";
            return verdicts.not_applicable(&UNKNOWN_FIELD, why);
        }
        let with_field = self
            .input
            .good
            .first()
            .and_then(|line| runner::with_field(line));
        let Some(line) = with_field else {
            return verdicts
                .not_applicable(&UNKNOWN_FIELD, "the first `good` line is not a JSON object");
        };
        match self
            .runner
            .run(&InputCase::new("an unknown field", &[line]), words)
            .await
        {
            Ok(out) => {
                ends(&out, verdicts);
                let is_accepted = out.is_clean();
                let violation =
                    is_accepted.then(|| "a line with an unknown field is accepted".to_owned());
                verdicts.decide(
                    &UNKNOWN_FIELD,
                    "a line with an unknown field is rejected",
                    violation,
                    &out.run,
                );
            }
            Err(blocked) => blocked.report(verdicts, &[&UNKNOWN_FIELD]),
        }
    }

    async fn upstream(&self, good: &InputOutcome, verdicts: &mut Verdicts<'_>) {
        let meta = json!({
            "type": "aoi:meta", "tool": "upstream", "tool_version": "1.0.0", "aoi_version": "0.2",
            "schema_name": "com.example.upstream.events", "schema_version": "1.0.0",
            "command": "list",
        });
        let summary = json!({
            "type": "aoi:summary", "ok": true, "count": self.input.good.len(),
            "warning_count": 0, "error_count": 0, "partial": false, "truncated": false,
        });
        let unknown = json!({ "type": "aoi_lint_unknown_event", "id": "x-1" });
        let framed = |extra: Option<String>| {
            let mut lines = vec![meta.to_string()];
            lines.extend(self.input.good.iter().cloned());
            lines.extend(extra);
            lines.push(summary.to_string());
            lines
        };
        let cases: [(&'static Rule, InputCase); 2] = [
            (
                &UPSTREAM,
                InputCase::new("a stream of another tool", &framed(None)),
            ),
            (
                &UNKNOWN_TYPE,
                InputCase::new(
                    "an event of unknown type",
                    &framed(Some(unknown.to_string())),
                ),
            ),
        ];
        let words = self.modes.usual();
        let runs = join_all(cases.iter().map(|(_, case)| self.runner.run(case, words))).await;
        for ((rule, case), run) in cases.iter().zip(runs) {
            match run {
                Ok(out) => {
                    ends(&out, verdicts);
                    let violation = out.differs(good).map(|how| format!("{}: {how}", case.what));
                    verdicts.decide(
                        rule,
                        "the valid lines are accepted as before",
                        violation,
                        &out.run,
                    );
                }
                Err(blocked) => blocked.report(verdicts, &[*rule]),
            }
        }
        if is_mutating(self.session, self.command) {
            let broken = BrokenUpstream {
                cut: framed(None).split_last().map(|(_, rest)| rest.to_vec()),
                failed: framed(Some(UPSTREAM_FAILURE.to_owned())),
            };
            self.broken_upstream(broken, verdicts).await;
        }
    }
}
