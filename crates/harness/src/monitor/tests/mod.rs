//! Short conversations, with the exact violations and lines that the monitors must note.

mod services;
mod sessions;
mod setup;
mod talk;
mod transport;
mod turns;

use std::time::Duration;

use super::{Ending, Notes, Watch, acp};
use agentproto_wire::{Direction, FIRST, Transcript};

/// Plays a conversation: `>` is a line of the client, `<` of the agent, and `!` of its stderr.
pub fn play<L: AsRef<[u8]>>(conversation: &[L]) -> Notes {
    let mut transcript = Transcript::new();
    let mut watch = Watch::new(acp());
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
        watch.line(&transcript.line(number).expect("just written"));
    }
    let notes = watch.end(&Ending {
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
pub fn broken(notes: &Notes) -> Vec<String> {
    let found = notes.found.iter();
    let told = found.flat_map(|(statement, found)| {
        found.violations.iter().map(move |violation| {
            // Numbered from 1, as in the tests.
            let lines = violation.lines.iter().map(|line| line + 1 - FIRST);
            let lines: Vec<String> = lines.map(|line| line.to_string()).collect();
            let guess = if violation.is_guess { "?" } else { "" };
            format!("{statement}{guess} {}", lines.join(" "))
        })
    });
    told.collect()
}

pub fn say(notes: &Notes) -> String {
    let mut text = String::new();
    for (statement, found) in &notes.found {
        for violation in &found.violations {
            text += &format!(
                "  {statement} {:?} {}\n",
                violation.lines, violation.message
            );
        }
    }
    text
}

/// Checks that a conversation causes exactly these violations.
pub fn check<L: AsRef<[u8]>>(name: &str, conversation: &[L], expected: &[&str]) {
    let notes = play(conversation);
    assert_eq!(broken(&notes), expected, "{name}\n{}", say(&notes));
}

/// Checks that a conversation causes no violations, and that the requirements held.
pub fn holds<L: AsRef<[u8]>>(name: &str, conversation: &[L], statements: &[&str]) {
    let notes = play(conversation);
    assert_eq!(
        broken(&notes),
        Vec::<String>::new(),
        "{name}\n{}",
        say(&notes)
    );
    for statement in statements {
        let held = notes.found.get(statement).map_or(0, |found| found.held);
        assert!(held > 0, "{name}: {statement} was not confirmed");
    }
}

/// Like `check`, for generated lines.
pub fn breaks(name: &str, conversation: Vec<String>, expected: &[&str]) {
    check(name, &conversation, expected);
}

pub fn keeps(name: &str, conversation: Vec<String>, statements: &[&str]) {
    holds(name, &conversation, statements);
}
