//! The seven assertions of the reference `aoi-lint`, with its names, evaluated on the `ok` run.

use crate::capture::{Capture, ExitKind};
use crate::model::Assertion;
use crate::session::LintSession;
use crate::stream::EventStream;

/// Names, in the order of the reference.
pub const NAMES: [&str; 7] = [
    "command_invocable",
    "valid_jsonl",
    "every_event_has_type",
    "terminal_summary_present",
    "summary_has_ok",
    "summary_ok_true",
    "exit_code_zero",
];

/// Evaluates the assertions for each command with an `ok` run.
pub fn assertions(session: &LintSession) -> Vec<Assertion> {
    let captures = session.captures();
    let run_of = |name: &str| {
        captures
            .iter()
            .find(|run| run.is_machine && run.command == name && run.probe == "ok")
    };
    let commands = session.commands().iter();
    commands
        .filter_map(|command| Some((command, run_of(&command.name)?)))
        .flat_map(|(command, run)| assertions_of_run(&command.name, run))
        .collect()
}

fn assertions_of_run(command: &str, run: &Capture) -> Vec<Assertion> {
    let stream = EventStream::parse(&run.stdout);
    let lines = || stream.lines.iter().filter(|line| !line.bytes.is_empty());
    let is_object = |line: &&crate::stream::EventLine| {
        line.json.as_ref().is_some_and(serde_json::Value::is_object)
    };
    let bad = lines().find(|line| !is_object(line));
    let untyped = lines().find(|line| is_object(line) && line.kind().is_none());
    let nothing = lines().next().is_none();
    let ok = stream.summary().and_then(|summary| summary.get("ok"));
    let line = |found: Option<&crate::stream::EventLine>, violation: &str| match found {
        Some(line) => format!("line {} {violation}", line.number),
        None if nothing => "stdout has no lines".to_owned(),
        None => format!("{} lines", lines().count()),
    };
    let describe_value = |value: Option<&serde_json::Value>| match value {
        Some(value) => format!("ok is {value}"),
        None => "the terminal summary has no ok".to_owned(),
    };
    let verdicts = [
        // A shell exits with 126 or 127 if it cannot run a program.
        (
            !matches!(run.end, ExitKind::TimedOut | ExitKind::Code(126 | 127)),
            run.end.describe(),
        ),
        (bad.is_none() && !nothing, line(bad, "is not a JSON object")),
        (
            untyped.is_none() && bad.is_none() && !nothing,
            line(untyped.or(bad), "has no type"),
        ),
        (
            stream.summary().is_some(),
            match stream.summary() {
                Some(summary) => format!("line {}", summary.number),
                None => "the last line is not an aoi:summary".to_owned(),
            },
        ),
        (ok.is_some(), describe_value(ok)),
        (
            ok.and_then(|ok| ok.as_bool()) == Some(true),
            describe_value(ok),
        ),
        (run.end.is_success(), run.end.describe()),
    ];
    NAMES
        .into_iter()
        .zip(verdicts)
        .map(|(name, (ok, detail))| Assertion {
            name: name.to_owned(),
            command: command.to_owned(),
            ok,
            detail: crate::canary::masked(&detail),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn run(stdout: &str, end: ExitKind) -> Vec<bool> {
        let capture = Capture {
            command: "search".to_owned(),
            probe: "ok".to_owned(),
            argv: Vec::new(),
            env: Vec::new(),
            output: Default::default(),
            reader: Default::default(),
            stdout: stdout.as_bytes().to_vec(),
            stderr: Vec::new(),
            terminal: None,
            flooded: false,
            end,
            elapsed: Duration::ZERO,
            delay: Duration::ZERO,
            started: true,
            cpu: Duration::ZERO,
            arrivals: Vec::new(),
            action_done: false,
            alive_after_action: false,
            survivors: 0,
            stdout_held: false,
            network_attempts: 0,
            exit_delay: None,
            is_machine: true,
            version: None,
            canaries: false,
        };
        assertions_of_run("search", &capture)
            .iter()
            .map(|a| a.ok)
            .collect()
    }

    #[test]
    fn each_assertion_can_pass_and_fail() {
        let summary = "{\"type\":\"aoi:summary\",\"ok\":true}\n";
        assert_eq!(run(summary, ExitKind::Code(0)), [true; 7]);
        for (stdout, end, broken) in [
            (summary, ExitKind::TimedOut, &[0, 6][..]),
            (summary, ExitKind::Code(127), &[0, 6]),
            (summary, ExitKind::Code(3), &[6]),
            (&*format!("hello\n{summary}"), ExitKind::Code(0), &[1, 2]),
            (&*format!("[1]\n{summary}"), ExitKind::Code(0), &[1, 2]),
            (&*format!("{{\"a\":1}}\n{summary}"), ExitKind::Code(0), &[2]),
            (
                &*format!("{summary}{{\"type\":\"x\"}}\n"),
                ExitKind::Code(0),
                &[3, 4, 5],
            ),
            ("{\"type\":\"aoi:summary\"}\n", ExitKind::Code(0), &[4, 5]),
            (
                "{\"type\":\"aoi:summary\",\"ok\":\"true\"}\n",
                ExitKind::Code(0),
                &[5],
            ),
            ("", ExitKind::Code(0), &[1, 2, 3, 4, 5]),
        ] {
            let found = run(stdout, end);
            for (index, ok) in found.iter().enumerate() {
                assert_eq!(!ok, broken.contains(&index), "{stdout:?} {end:?}: {index}");
            }
        }
    }
}
