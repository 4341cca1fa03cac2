//! Check 3: a finite success ends with exit 0 and a summary that says so; nothing else does.

use futures::future::join_all;

use crate::aoi::capture::Capture;
use crate::aoi::model::Check;
use crate::aoi::probe::Command;
use crate::aoi::rules::{Level, Rule, Topic};
use crate::aoi::session::{How, Session};
use crate::aoi::stream::Stream;

pub static EXIT: Rule = Rule {
    id: "AOI-03.exit",
    check: Check::Number(3),
    level: Level::Must,
    section: "§4.1",
    demands: "A finite success exits 0",
    why: "The exit status is the first thing that a caller and its shell look at.",
    hint: "Exit 0 after the summary, and with another status only where something failed.",
    topic: Topic::Summary,
    register: &["AOI-4-01"],
};
pub static SUMMARY_LAST: Rule = Rule {
    id: "AOI-03.summary-last",
    check: Check::Number(3),
    level: Level::Must,
    section: "§4",
    demands: "A finite success ends with exactly one aoi:summary, and nothing after it",
    why: "A stream that ends without its summary looks to a caller like a crash.",
    hint: "Write one aoi:summary as the last line, whatever was found.",
    topic: Topic::Summary,
    register: &["AOI-4-02"],
};
pub static OK: Rule = Rule {
    id: "AOI-03.ok",
    check: Check::Number(3),
    level: Level::Must,
    section: "§4.1",
    demands: "The summary of a success has ok: true",
    why: "`ok` is how the tool itself says that it did what it was asked for.",
    hint: "Set ok to the boolean true, not to a text.",
    topic: Topic::Summary,
    register: &["AOI-4.1-01"],
};

pub const RULES: &[&Rule] = &[&EXIT, &SUMMARY_LAST, &OK];

pub async fn check(session: &Session) {
    let finite = session.commands().iter().filter(|command| {
        !command.unbounded && !command.mutating && !command.needs_auth && command.input.is_none()
    });
    join_all(finite.map(|command| success(session, command))).await;
}

async fn success(session: &Session, command: &Command) {
    let words = session.fill(&command.ok, &[], session.common());
    let run = session
        .run(&command.name, "ok", &words, How::default())
        .await;
    judge(session, command, &run);
}

/// A run that was to succeed.
fn judge(session: &Session, command: &Command, run: &Capture) {
    let judge = session.judge(&command.name);
    let stream = Stream::read(&run.stdout);
    let exit = (!run.end.is_success())
        .then(|| format!("`{}` was to succeed, but: {}", command.name, run.end.told()));
    judge.held(&EXIT, "it exits 0", exit, run);
    let summaries = stream.of("aoi:summary").count();
    let wrong = match (summaries, stream.summary()) {
        (1, Some(_)) => None,
        (0, _) => Some("there is no aoi:summary".to_owned()),
        (1, None) => Some("something follows the aoi:summary".to_owned()),
        (more, _) => Some(format!("there are {more} aoi:summary events")),
    };
    judge.held(&SUMMARY_LAST, "one aoi:summary, and it is last", wrong, run);
    match stream.of("aoi:summary").last().map(|line| line.get("ok")) {
        Some(Some(serde_json::Value::Bool(true))) => judge.pass(&OK, "ok is true"),
        Some(Some(other)) => judge.broken(&OK, format!("ok is {other}, not true"), run),
        Some(None) => judge.broken(&OK, "the aoi:summary has no `ok`", run),
        None => judge.not_verified(&OK, "there is no aoi:summary to look into"),
    }
}
