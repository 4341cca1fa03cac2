//! Input lines for the runs, and the results of these runs.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use super::GOOD;
use crate::capture::Capture;
use crate::observe::{Effect, Invocation, ProbeBlocked, call, is_mutating, run_mutation};
use crate::probe::ProbeCommand;
use crate::run::StdinSource;
use crate::session::{LintSession, RunOptions};
use crate::stream::EventStream;

/// Input lines, some of which are invalid.
#[derive(Clone, Debug)]
pub struct InputCase {
    /// Name of the case, for messages.
    pub what: String,
    /// All lines, in order.
    pub lines: Vec<String>,
    /// Numbers of the invalid lines, from 1.
    pub bad: Vec<usize>,
    shape: fn(Vec<u8>) -> Vec<u8>,
}

impl InputCase {
    pub fn new(what: &str, lines: &[String]) -> InputCase {
        InputCase {
            what: what.to_owned(),
            lines: lines.to_vec(),
            bad: Vec::new(),
            shape: |bytes| bytes,
        }
    }

    /// Valid lines, with an invalid one after the first `after`.
    pub fn with_bad(what: &str, good: &[String], bad: &str, after: usize) -> InputCase {
        let mut case = InputCase::new(what, good);
        let at = after.min(case.lines.len());
        case.lines.insert(at, bad.to_owned());
        case.bad.push(at + 1);
        case
    }

    /// Alternating invalid and valid lines, starting with an invalid one.
    pub fn mixed(what: &str, good: &[String], bad: &[String]) -> InputCase {
        let mut case = InputCase::new(what, &[]);
        for at in 0..good.len().max(bad.len()) {
            if let Some(line) = bad.get(at) {
                case.lines.push(line.clone());
                case.bad.push(case.lines.len());
            }
            case.lines.extend(good.get(at).cloned());
        }
        case
    }

    /// Changes the bytes of the input.
    pub fn shaped(self, shape: fn(Vec<u8>) -> Vec<u8>) -> InputCase {
        InputCase { shape, ..self }
    }
}

/// Removes the last line feed.
pub fn without_last_lf(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    bytes
}

/// Replaces LF by CR LF.
pub fn crlf(bytes: Vec<u8>) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 8);
    for byte in bytes {
        if byte == b'\n' {
            out.push(b'\r');
        }
        out.push(byte);
    }
    out
}

/// Adds a byte order mark.
pub fn with_bom(bytes: Vec<u8>) -> Vec<u8> {
    [b"\xef\xbb\xbf".as_slice(), &bytes].concat()
}

/// The same JSON with this many additional spaces.
pub fn padded(line: &str, size: usize) -> String {
    let space = " ".repeat(size);
    match line.strip_prefix('{') {
        Some(rest) => format!("{{{space}{rest}"),
        None => format!("{line}{space}"),
    }
}

/// The same object with one additional field.
pub fn with_field(line: &str) -> Option<String> {
    let mut value: Value = serde_json::from_str(line).ok()?;
    let fields = value.as_object_mut()?;
    fields.insert("aoi_lint_unknown".to_owned(), Value::Bool(true));
    Some(value.to_string())
}

/// One run, and its effect.
pub struct InputOutcome {
    pub run: Arc<Capture>,
    pub stream: EventStream,
    pub effect: Effect,
}

impl InputOutcome {
    fn new(run: Arc<Capture>, effect: Effect) -> InputOutcome {
        let stream = EventStream::parse(&run.stdout);
        InputOutcome {
            run,
            stream,
            effect,
        }
    }

    /// Whether the run exited 0 with ok: true and no errors.
    pub fn is_clean(&self) -> bool {
        let has_errors = self.stream.errors().next().is_some();
        self.run.end.is_success() && self.stream.ok() == Some(true) && !has_errors
    }

    /// How the result differs from a run with the same valid lines.
    pub fn differs(&self, good: &InputOutcome) -> Option<String> {
        if !self.is_clean() {
            let errors = self.stream.errors().count();
            return Some(format!("{}, {errors} aoi:error", self.run.end.describe()));
        }
        self.accepted_differs(good)
    }

    /// How the accepted lines differ from a run with only the valid lines.
    pub fn accepted_differs(&self, good: &InputOutcome) -> Option<String> {
        let (mine, theirs) = (self.stream.domain().count(), good.stream.domain().count());
        if mine != theirs {
            return Some(format!(
                "{mine} domain events; only the valid lines: {theirs}"
            ));
        }
        let effects = |effect: &Effect| match effect {
            Effect::Some { count, .. } => *count,
            Effect::None => Some(0),
            Effect::Unknown => None,
        };
        match (effects(&self.effect), effects(&good.effect)) {
            (Some(mine), Some(theirs)) if mine != theirs => {
                Some(format!("{mine} changes; only the valid lines: {theirs}"))
            }
            _ if good.effect.is_some() && self.effect == Effect::None => {
                Some("no changes".to_owned())
            }
            _ => None,
        }
    }
}

/// Runs cases: concurrently if the command changes nothing, otherwise one by one in their own
/// directories.
pub struct InputRunner<'f> {
    session: &'f LintSession,
    command: &'f ProbeCommand,
    mutating: bool,
}

impl<'f> InputRunner<'f> {
    pub fn new(session: &'f LintSession, command: &'f ProbeCommand) -> InputRunner<'f> {
        InputRunner {
            mutating: is_mutating(session, command),
            session,
            command,
        }
    }

    fn shaped(&self, case: &InputCase, call: Invocation, words: &[String]) -> Invocation {
        let mut call = call.with(words);
        if let StdinSource::Bytes(bytes) = call.input {
            call.input = StdinSource::Bytes((case.shape)(bytes));
        }
        call
    }

    pub async fn run(
        &self,
        case: &InputCase,
        words: &[String],
    ) -> Result<InputOutcome, ProbeBlocked> {
        let mut outs = self.run_all(&[case], words).await;
        outs.pop().unwrap_or_else(|| {
            Err(ProbeBlocked::NotVerified(
                "the command was not run".to_owned(),
            ))
        })
    }

    pub async fn run_all(
        &self,
        cases: &[&InputCase],
        words: &[String],
    ) -> Vec<Result<InputOutcome, ProbeBlocked>> {
        if !self.mutating {
            return join_all(cases.iter().map(|case| self.run_in_place(case, words))).await;
        }
        let mut outs = Vec::new();
        while let Some(rest) = cases.get(outs.len()..).filter(|rest| !rest.is_empty()) {
            let some = self.run_mutating(rest, words).await;
            match some.is_empty() {
                true => break,
                false => outs.extend(some),
            }
        }
        outs
    }

    async fn run_in_place(
        &self,
        case: &InputCase,
        words: &[String],
    ) -> Result<InputOutcome, ProbeBlocked> {
        let (session, command) = (self.session, self.command);
        let call = call(session, command, session.shared_dirs(), None, &case.lines);
        let call = self.shaped(case, call, words);
        let how = RunOptions {
            input: call.input,
            ..RunOptions::default()
        };
        let name = &command.name;
        let run = session.run(name, &case.what, &call.words, how).await;
        Ok(InputOutcome::new(run, Effect::Unknown))
    }

    /// Runs as many cases as possible in the same directories, until one changes something.
    async fn run_mutating(
        &self,
        cases: &[&InputCase],
        words: &[String],
    ) -> Vec<Result<InputOutcome, ProbeBlocked>> {
        let (session, command) = (self.session, self.command);
        let mut outs = Vec::new();
        let done = run_mutation(session, command, &GOOD, async |mutation| {
            let id = mutation.target().await?;
            let mut before = mutation.observe().await?;
            for case in cases {
                let dirs = &mutation.dirs;
                let call = call(session, command, dirs, id.as_deref(), &case.lines);
                let call = self.shaped(case, call.with(&command.confirm), words);
                let run = mutation.run(&case.what, &call, RunOptions::default()).await;
                let after = mutation.observe().await?;
                let effect = before.effect(&after);
                let is_clean = effect == Effect::None;
                outs.push(Ok(InputOutcome::new(run, effect)));
                if !is_clean {
                    break;
                }
                before = after;
            }
            Ok(())
        });
        let fault = match done.await {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(ProbeBlocked::NotVerified(why)),
            Err(blocked) => Some(blocked),
        };
        outs.extend(fault.map(Err));
        outs
    }

    /// Runs the command with an input that stays open and delivers nothing. It cannot change
    /// anything, so it does not wait for other mutating probes. It has its own directories.
    pub async fn wait(
        &self,
        time: Duration,
        words: &[String],
    ) -> Result<Arc<Capture>, ProbeBlocked> {
        let (session, command) = (self.session, self.command);
        if self.mutating && !session.probe.sandbox {
            let why = "the probe file does not have `sandbox: true`";
            return Err(ProbeBlocked::Skip(why.to_owned()));
        }
        let dirs = session.new_dirs().map_err(|error| {
            ProbeBlocked::NotVerified(format!("cannot create a directory for the run: {error}"))
        })?;
        let call = call(session, command, &dirs, None, &[]).with(words);
        let how = RunOptions {
            input: StdinSource::Silent,
            limit: Some(time),
            dirs: Some(dirs),
            ..RunOptions::default()
        };
        session.stats.wait(time);
        let what = "a silent input";
        Ok(session.run(&command.name, what, &call.words, how).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_numbers_of_invalid_lines_are_correct() {
        let good = lines("g1 g2");
        let case = InputCase::with_bad("x", &good, "b", 1);
        assert_eq!(
            (case.lines.join(" "), case.bad),
            ("g1 b g2".to_owned(), vec![2])
        );
        let case = InputCase::mixed("x", &good, &lines("b1 b2 b3"));
        assert_eq!(case.lines.join(" "), "b1 g1 b2 g2 b3");
        assert_eq!(case.bad, [1, 3, 5]);
    }

    #[test]
    fn other_forms_have_the_same_content() {
        assert_eq!(without_last_lf(b"a\nb\n".to_vec()), b"a\nb");
        assert_eq!(crlf(b"a\nb\n".to_vec()), b"a\r\nb\r\n");
        assert!(with_bom(b"a".to_vec()).starts_with(b"\xef\xbb\xbf"));
        let long = padded("{\"a\":1}", 1000);
        assert!(long.len() > 1000);
        let same: Value = serde_json::from_str(&long).unwrap();
        assert_eq!(same, serde_json::json!({ "a": 1 }));
        assert!(with_field("{\"a\":1}").is_some_and(|line| line.contains("aoi_lint_unknown")));
        assert_eq!(with_field("[1]"), None);
    }
}
