//! Input lines for the runs, and the results of these runs.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use super::GOOD;
use crate::capture::Capture;
use crate::observe::{Blocked, Call, Effect, call, is_mutating, within};
use crate::probe::Command;
use crate::run::Input;
use crate::session::{How, Session};
use crate::stream::Stream;

/// Input lines, some of which are invalid.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of the case, for messages.
    pub what: String,
    /// All lines, in order.
    pub lines: Vec<String>,
    /// Numbers of the invalid lines, from 1.
    pub bad: Vec<usize>,
    shape: fn(Vec<u8>) -> Vec<u8>,
}

impl Case {
    pub fn new(what: &str, lines: &[String]) -> Case {
        Case {
            what: what.to_owned(),
            lines: lines.to_vec(),
            bad: Vec::new(),
            shape: |bytes| bytes,
        }
    }

    /// Valid lines, with an invalid one after the first `after`.
    pub fn with_bad(what: &str, good: &[String], bad: &str, after: usize) -> Case {
        let mut case = Case::new(what, good);
        let at = after.min(case.lines.len());
        case.lines.insert(at, bad.to_owned());
        case.bad.push(at + 1);
        case
    }

    /// Alternating invalid and valid lines, starting with an invalid one.
    pub fn mixed(what: &str, good: &[String], bad: &[String]) -> Case {
        let mut case = Case::new(what, &[]);
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
    pub fn shaped(self, shape: fn(Vec<u8>) -> Vec<u8>) -> Case {
        Case { shape, ..self }
    }
}

/// Removes the last line feed.
pub fn unended(mut bytes: Vec<u8>) -> Vec<u8> {
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
pub fn marked(bytes: Vec<u8>) -> Vec<u8> {
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
pub struct Out {
    pub run: Arc<Capture>,
    pub stream: Stream,
    pub effect: Effect,
}

impl Out {
    fn new(run: Arc<Capture>, effect: Effect) -> Out {
        let stream = Stream::read(&run.stdout);
        Out {
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
    pub fn differs(&self, good: &Out) -> Option<String> {
        if !self.is_clean() {
            let errors = self.stream.errors().count();
            return Some(format!("{}, {errors} aoi:error", self.run.end.told()));
        }
        self.taken_differs(good)
    }

    /// How the accepted lines differ from a run with only the valid lines.
    pub fn taken_differs(&self, good: &Out) -> Option<String> {
        let (mine, theirs) = (self.stream.domain().count(), good.stream.domain().count());
        if mine != theirs {
            return Some(format!(
                "{mine} domain events; only the valid lines: {theirs}"
            ));
        }
        let effects = |effect: &Effect| match effect {
            Effect::Some { count, .. } => *count,
            Effect::None => Some(0),
            Effect::Unseen => None,
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
pub struct Feed<'f> {
    session: &'f Session,
    command: &'f Command,
    mutating: bool,
}

impl<'f> Feed<'f> {
    pub fn new(session: &'f Session, command: &'f Command) -> Feed<'f> {
        Feed {
            mutating: is_mutating(session, command),
            session,
            command,
        }
    }

    fn shaped(&self, case: &Case, call: Call, words: &[String]) -> Call {
        let mut call = call.with(words);
        if let Input::Bytes(bytes) = call.input {
            call.input = Input::Bytes((case.shape)(bytes));
        }
        call
    }

    pub async fn run(&self, case: &Case, words: &[String]) -> Result<Out, Blocked> {
        let mut outs = self.run_all(&[case], words).await;
        outs.pop()
            .unwrap_or_else(|| Err(Blocked::NotVerified("the command was not run".to_owned())))
    }

    pub async fn run_all(&self, cases: &[&Case], words: &[String]) -> Vec<Result<Out, Blocked>> {
        if !self.mutating {
            return join_all(cases.iter().map(|case| self.plain(case, words))).await;
        }
        let mut outs = Vec::new();
        while let Some(rest) = cases.get(outs.len()..).filter(|rest| !rest.is_empty()) {
            let some = self.turn(rest, words).await;
            match some.is_empty() {
                true => break,
                false => outs.extend(some),
            }
        }
        outs
    }

    async fn plain(&self, case: &Case, words: &[String]) -> Result<Out, Blocked> {
        let (session, command) = (self.session, self.command);
        let call = call(session, command, session.common(), None, &case.lines);
        let call = self.shaped(case, call, words);
        let how = How {
            input: call.input,
            ..How::default()
        };
        let name = &command.name;
        let run = session.run(name, &case.what, &call.words, how).await;
        Ok(Out::new(run, Effect::Unseen))
    }

    /// Runs as many cases as possible in the same directories, until one changes something.
    async fn turn(&self, cases: &[&Case], words: &[String]) -> Vec<Result<Out, Blocked>> {
        let (session, command) = (self.session, self.command);
        let mut outs = Vec::new();
        let done = within(session, command, &GOOD, async |sequence| {
            let id = sequence.target().await?;
            let mut before = sequence.observe().await?;
            for case in cases {
                let world = &sequence.world;
                let call = call(session, command, world, id.as_deref(), &case.lines);
                let call = self.shaped(case, call.with(&command.confirm), words);
                let run = sequence.run(&case.what, &call, How::default()).await;
                let after = sequence.observe().await?;
                let effect = before.effect(&after);
                let is_clean = effect == Effect::None;
                outs.push(Ok(Out::new(run, effect)));
                if !is_clean {
                    break;
                }
                before = after;
            }
            Ok(())
        });
        let fault = match done.await {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(Blocked::NotVerified(why)),
            Err(blocked) => Some(blocked),
        };
        outs.extend(fault.map(Err));
        outs
    }

    /// Runs the command with an input that stays open and delivers nothing. It cannot change
    /// anything, so it does not wait for other mutating probes. It has its own directories.
    pub async fn wait(&self, time: Duration, words: &[String]) -> Result<Arc<Capture>, Blocked> {
        let (session, command) = (self.session, self.command);
        if self.mutating && !session.probe.sandbox {
            let why = "the probe file does not have `sandbox: true`";
            return Err(Blocked::Skip(why.to_owned()));
        }
        let world = session.world().map_err(|error| {
            Blocked::NotVerified(format!("cannot create a directory for the run: {error}"))
        })?;
        let call = call(session, command, &world, None, &[]).with(words);
        let how = How {
            input: Input::Silent,
            limit: Some(time),
            world: Some(world),
            ..How::default()
        };
        session.costs.wait(time);
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
        let case = Case::with_bad("x", &good, "b", 1);
        assert_eq!(
            (case.lines.join(" "), case.bad),
            ("g1 b g2".to_owned(), vec![2])
        );
        let case = Case::mixed("x", &good, &lines("b1 b2 b3"));
        assert_eq!(case.lines.join(" "), "b1 g1 b2 g2 b3");
        assert_eq!(case.bad, [1, 3, 5]);
    }

    #[test]
    fn other_forms_have_the_same_content() {
        assert_eq!(unended(b"a\nb\n".to_vec()), b"a\nb");
        assert_eq!(crlf(b"a\nb\n".to_vec()), b"a\r\nb\r\n");
        assert!(marked(b"a".to_vec()).starts_with(b"\xef\xbb\xbf"));
        let long = padded("{\"a\":1}", 1000);
        assert!(long.len() > 1000);
        let same: Value = serde_json::from_str(&long).unwrap();
        assert_eq!(same, serde_json::json!({ "a": 1 }));
        assert!(with_field("{\"a\":1}").is_some_and(|line| line.contains("aoi_lint_unknown")));
        assert_eq!(with_field("[1]"), None);
    }
}
