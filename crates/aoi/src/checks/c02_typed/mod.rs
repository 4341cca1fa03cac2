//! Check 2: machine mode is JSONL, one object a line, each with a type, and nothing else. Judged
//! on the bytes of every run of the session.

mod prose;
mod rules;
mod strict;

use std::collections::BTreeMap;
use std::sync::Arc;

use agentproto_text::strict_json::{Odd, Problem};
use futures::future::join_all;

use super::tally::Tally;
use crate::capture::Capture;
use crate::model::TOOL;
use crate::probe::Command;
use crate::rules::Rule;
use crate::run::Output;
use crate::session::{How, Session, with_options};
use crate::stream::{FRAMEWORK, Line, Stream};
use rules::*;

pub const RULES: &[&Rule] = rules::ALL;

const LONG_LINE: usize = 1 << 20;
const HUGE_LINE: usize = 16 << 20;

/// Runs that tempt a tool to colour its output, or to talk to a human.
pub async fn tempt(session: &Session) {
    let env = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    };
    let forced = [
        ("TERM", "xterm-256color"),
        ("CLICOLOR_FORCE", "1"),
        ("FORCE_COLOR", "3"),
    ];
    let tempted = |command: &&Command| super::is_harmless(session, command) && !command.unbounded;
    let runs = session
        .commands()
        .iter()
        .filter(tempted)
        .map(|command| async move {
            let (words, how) = super::plain(session, command);
            let coloured = How {
                env: env(&forced),
                ..how.clone()
            };
            let terminal = How {
                env: env(&forced[..1]),
                output: Output::Terminal,
                ..how.clone()
            };
            let debug = with_options(&words, &["--debug".to_owned()]);
            tokio::join!(
                session.run(&command.name, "forced colour", &words, coloured),
                session.run(&command.name, "on a terminal", &words, terminal),
                async {
                    if super::is_read_only(session, command) {
                        session
                            .run(&command.name, "with --debug", &debug, how)
                            .await;
                    }
                }
            );
        });
    join_all(runs).await;
}

/// Looks at everything that was printed in machine mode.
pub fn check(session: &Session) {
    let mut by_command: BTreeMap<String, Vec<Arc<Capture>>> = BTreeMap::new();
    for capture in session.captures() {
        if capture.is_machine {
            let runs = by_command.entry(capture.command.clone()).or_default();
            runs.push(capture);
        }
    }
    for command in session.commands() {
        by_command.entry(command.name.clone()).or_default();
    }
    for (command, runs) in &by_command {
        judge(session, command, runs);
    }
}

type Tallies = BTreeMap<&'static str, Tally>;

fn judge(session: &Session, command: &str, runs: &[Arc<Capture>]) {
    let mut tallies: Tallies = RULES
        .iter()
        .map(|rule| (rule.id, Tally::default()))
        .collect();
    let mut lines = 0;
    for run in runs {
        lines += look(run, &mut tallies);
    }
    let judge = session.judge(command);
    for rule in RULES.iter().copied() {
        let mut tally = tallies.remove(rule.id).unwrap_or_default();
        if lines > 0 {
            tally.held(format!("{lines} lines in {} runs", runs.len()));
        }
        tally.settle(judge, rule, |judge, rule| match (command, runs.len()) {
            (TOOL, _) => judge.not_applicable(rule, "no run beside the commands printed a line"),
            (_, 0) => judge.skip(rule, "it was not run"),
            _ => judge.not_verified(rule, "no run of it printed a line"),
        });
    }
}

/// Judges one run; how many lines it has.
fn look(run: &Arc<Capture>, tallies: &mut Tallies) -> usize {
    let mut wrong = |rule: &Rule, message: String| {
        if let Some(tally) = tallies.get_mut(rule.id) {
            tally.wrong(run, || message);
        }
    };
    let bytes = &run.stdout;
    let name = &run.probe;
    if bytes.starts_with(b"\xef\xbb\xbf") {
        wrong(&UTF8, format!("`{name}` begins with a byte order mark"));
    }
    if let Err(error) = std::str::from_utf8(bytes)
        && (error.error_len().is_some() || !run.was_cut())
    {
        let at = error.valid_up_to();
        wrong(
            &UTF8,
            format!("`{name}`: the byte at offset {at} is no UTF-8"),
        );
    }
    let mut stream = Stream::read(bytes);
    if run.was_cut() && stream.lines.last().is_some_and(|line| !line.complete) {
        stream.lines.pop();
    }
    let is_legacy = stream.is_legacy();
    if is_legacy {
        let text = "`meta` with `aoi_version`: the framework's events have no `aoi:` here";
        wrong(&LEGACY, format!("`{name}`: {text}"));
    }
    // A whole document or a trace would break every line: it is told once.
    let whole = whole(bytes, &stream);
    if let Some(what) = whole {
        wrong(&OBJECT, format!("`{name}`: {what}"));
    }
    for line in &stream.lines {
        look_at_line(run, line, is_legacy, whole.is_some(), &mut wrong);
    }
    if let Some(last) = stream.lines.last()
        && !last.complete
    {
        let place = place(run, last, last.bytes.len());
        wrong(
            &LAST_LINE,
            format!("{place}: the last line has no line feed"),
        );
    }
    stream.lines.len()
}

fn place(run: &Capture, line: &Line, within: usize) -> String {
    let offset = line.offset + within;
    format!("`{}`, line {} (offset {offset})", run.probe, line.number)
}

/// Output that is one value over several lines, or one array.
fn whole(bytes: &[u8], stream: &Stream) -> Option<&'static str> {
    let first = stream.lines.first()?;
    let begins = first
        .bytes
        .iter()
        .find(|byte| !byte.is_ascii_whitespace())?;
    if stream.lines.len() > 1 && first.json.is_none() && strict::read(bytes).is_ok() {
        return Some("one JSON value over several lines, where each line is to be an object");
    }
    let is_array = *begins == b'[' && stream.lines.len() == 1 && first.json.is_some();
    is_array.then_some("one JSON array, which holds every result back to the end")
}

fn look_at_line(
    run: &Capture,
    line: &Line,
    is_legacy: bool,
    is_whole: bool,
    wrong: &mut dyn FnMut(&Rule, String),
) {
    let at = |within| place(run, line, within);
    let bytes = match line.bytes.strip_suffix(b"\r") {
        Some(rest) if line.complete => {
            wrong(&CRLF, format!("{}: it ends with CR LF", at(rest.len())));
            rest
        }
        _ => &line.bytes,
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return wrong(&BLANK, format!("{}: a blank line", at(0)));
    }
    let is_control = |byte: &u8| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f;
    if let Some(within) = bytes.iter().position(is_control) {
        let byte = bytes.get(within).copied().unwrap_or_default();
        wrong(&CONTROL, format!("{}: {}", at(within), control(byte)));
    }
    if bytes.len() > HUGE_LINE {
        return wrong(&HUGE, format!("{}: {} bytes", at(0), bytes.len()));
    }
    if bytes.len() > LONG_LINE {
        wrong(&LONG, format!("{}: {} bytes", at(0), bytes.len()));
    }
    if is_whole {
        return;
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match strict::read(bytes) {
        Err(fault) if fault.problem == Problem::TooDeep => {
            wrong(&STRICT, format!("{}: {}", at(fault.offset), fault.words()));
        }
        Err(fault) => match prose::kind(bytes) {
            Some(kind) => {
                let shown = prose::shown(bytes);
                wrong(
                    &PROSE,
                    format!("{}: {kind}, where an event was expected: {shown}", at(0)),
                );
            }
            None => {
                wrong(
                    &OBJECT,
                    format!("{}: no JSON: {}", at(fault.offset), fault.words()),
                );
            }
        },
        Ok(notes) => {
            if let Some(name) = notes.first(Odd::DuplicateKey).map(|odd| &odd.text) {
                wrong(
                    &STRICT,
                    format!("{}: the name {name:?} stands twice", at(0)),
                );
            }
            if notes.first(Odd::LoneSurrogate).is_some() {
                wrong(&STRICT, format!("{}: a half of a surrogate pair", at(0)));
            }
            if let Some(odd) = notes.first(Odd::BigInteger) {
                let number: String = odd.text.chars().take(24).collect();
                wrong(&BIG, format!("{}: {number} is beyond 2^53", at(0)));
            }
            look_at_event(
                line,
                bytes,
                notes.has_terminal_code,
                is_legacy,
                &at(0),
                wrong,
            );
        }
    }
}

fn look_at_event(
    line: &Line,
    bytes: &[u8],
    has_escape_code: bool,
    is_legacy: bool,
    place: &str,
    wrong: &mut dyn FnMut(&Rule, String),
) {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return wrong(&OBJECT, format!("{place}: JSON, but no object"));
    }
    let kind = line.get("type");
    let named = kind
        .and_then(|kind| kind.as_str())
        .filter(|kind| !kind.is_empty());
    let Some(named) = named else {
        // What another reader refused has been told; it says nothing about the type.
        if line.json.is_some() {
            let what = match kind {
                None => "an event without a `type`".to_owned(),
                Some(other) => format!("`type` is {other}, no text that says something"),
            };
            wrong(&TYPE, format!("{place}: {what}"));
        }
        return;
    };
    let is_framework = FRAMEWORK.contains(&named);
    let bare = FRAMEWORK
        .iter()
        .any(|known| known.strip_prefix("aoi:") == Some(named));
    if bare && !is_legacy {
        let text = format!("{place}: `{named}` is the framework's name, without its prefix `aoi:`");
        wrong(&RESERVED, text);
    }
    if named.starts_with("aoi:") && !is_framework {
        wrong(&UNKNOWN, format!("{place}: the framework has no `{named}`"));
    }
    if has_escape_code {
        let rule = if is_framework {
            &ESCAPED_FRAME
        } else {
            &ESCAPED
        };
        wrong(
            rule,
            format!("{place}: an escaped colour code in `{named}`"),
        );
    }
}

fn control(byte: u8) -> String {
    match byte {
        0x1b => "an escape code for a terminal".to_owned(),
        b'\r' => "a carriage return, as progress bars write it".to_owned(),
        other => format!("the control character {other:#04x}"),
    }
}
