//! Short conversations, with the exact violations and lines that the monitors must note.

mod lines;
mod services;
mod sessions;
mod setup;
mod transport;
mod turns;

use std::time::Duration;

use super::{Ending, MonitorNotes, MonitorRunner, acp};
use agentproto_wire::{Direction, FIRST_LINE, Transcript};

/// Runs the monitors on a conversation: `>` is a line of the client, `<` of the agent, and `!` of its stderr.
pub fn run_monitors<L: AsRef<[u8]>>(conversation: &[L]) -> MonitorNotes {
    let mut transcript = Transcript::new();
    let mut monitors = MonitorRunner::new(acp());
    for line in conversation {
        let (mark, rest) = line.as_ref().split_at(1);
        let direction = match mark {
            b">" => Direction::ToAgent,
            b"<" => Direction::FromAgent,
            b"!" => Direction::Stderr,
            _ => panic!("a line must start with >, < or !"),
        };
        let text = rest.strip_prefix(b" ").unwrap_or(rest);
        let number = transcript.push(direction, Duration::ZERO, text, true, None);
        monitors.on_line(&transcript.line(number).expect("just written"));
    }
    let notes = monitors.finish(&Ending {
        is_orderly: true,
        last_line: transcript.last(),
    });
    for violation in notes.found.values().flat_map(|found| &found.violations) {
        assert_eq!(violation.at.as_deref(), named(&violation.message));
    }
    notes
}

/// The JSON Pointer that a message names. It must equal that of the violation.
fn named(message: &str) -> Option<&str> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    quoted.find(|quote| quote.starts_with('/'))
}

/// The violations: requirement and lines. Guesses are marked with `?`.
pub fn violations(notes: &MonitorNotes) -> Vec<String> {
    let found = notes.found.iter();
    let all = found.flat_map(|(requirement, found)| {
        found.violations.iter().map(move |violation| {
            // Numbered from 1, as in the tests.
            let lines = violation.lines.iter().map(|line| line + 1 - FIRST_LINE);
            let lines: Vec<String> = lines.map(|line| line.to_string()).collect();
            let guess = if violation.is_guess { "?" } else { "" };
            format!("{requirement}{guess} {}", lines.join(" "))
        })
    });
    all.collect()
}

pub fn describe(notes: &MonitorNotes) -> String {
    let mut text = String::new();
    for (requirement, found) in &notes.found {
        for violation in &found.violations {
            text += &format!(
                "  {requirement} {:?} {}\n",
                violation.lines, violation.message
            );
        }
    }
    text
}

/// Checks that a conversation causes exactly these violations.
pub fn check<L: AsRef<[u8]>>(name: &str, conversation: &[L], expected: &[&str]) {
    let notes = run_monitors(conversation);
    assert_eq!(violations(&notes), expected, "{name}\n{}", describe(&notes));
}

/// Checks that a conversation causes no violations, and that the requirements held.
pub fn passes_raw<L: AsRef<[u8]>>(name: &str, conversation: &[L], requirements: &[&str]) {
    let notes = run_monitors(conversation);
    assert_eq!(
        violations(&notes),
        Vec::<String>::new(),
        "{name}\n{}",
        describe(&notes)
    );
    for requirement in requirements {
        let held = notes.found.get(requirement).map_or(0, |found| found.passed);
        assert!(held > 0, "{name}: {requirement} was not confirmed");
    }
}

/// Like `check`, for generated lines.
pub fn violates(name: &str, conversation: Vec<String>, expected: &[&str]) {
    check(name, &conversation, expected);
}

pub fn passes(name: &str, conversation: Vec<String>, requirements: &[&str]) {
    passes_raw(name, &conversation, requirements);
}
