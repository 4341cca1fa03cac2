//! Questions of the agent at the terminal, one at a time: two at once would share an answer.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use agentproto_runtime::arm::permissions::Answer;
use agentproto_runtime::{Choice, StreamEvent};
use agentproto_text::escape_line;

/// Questions that wait until the previous one is answered.
#[derive(Default)]
pub struct Questions {
    waiting: VecDeque<StreamEvent>,
    /// Whether a question is shown and not answered yet.
    is_shown: bool,
}

impl Questions {
    pub fn add(&mut self, question: StreamEvent) {
        self.waiting.push_back(question);
    }

    /// The question to show now. Questions that are no longer `open` are dropped.
    pub fn next(&mut self, open: impl Fn(&str) -> bool) -> Option<StreamEvent> {
        if self.is_shown {
            return None;
        }
        while let Some(question) = self.waiting.pop_front() {
            if matches!(&question, StreamEvent::AgentPrompt { id, .. } if open(id)) {
                self.is_shown = true;
                return Some(question);
            }
        }
        None
    }

    pub fn answered(&mut self) {
        self.is_shown = false;
    }
}

/// Asks at the terminal, in parallel to the events.
pub fn ask(id: String, options: Vec<Choice>, answers: mpsc::UnboundedSender<(String, Answer)>) {
    std::thread::spawn(move || {
        for (number, option) in options.iter().enumerate() {
            eprintln!("  {} {}", number + 1, escape_line(&option.label));
        }
        let no = no(&options).map_or_else(|| "no".into(), |option| escape_line(&option.label));
        eprint!("Your choice [empty = {no}]: ");
        let mut line = String::new();
        let _ = std::io::stdin().read_line(&mut line);
        let _ = answers.send((id, parse_answer(&line, &options)));
    });
}

/// Parses an answer. Anything but the number of a choice means no.
fn parse_answer(line: &str, options: &[Choice]) -> Answer {
    let number = line.trim().parse::<usize>().ok();
    let selected = number.and_then(|n| options.get(n.checked_sub(1)?));
    match selected.or_else(|| no(options)) {
        Some(choice) => Answer::Choice(choice.id.clone()),
        None => Answer::Declined,
    }
}

/// The choice that means no, for this one time.
fn no(options: &[Choice]) -> Option<&Choice> {
    let mut options = options.iter();
    options.find(|option| option.kind.as_deref() == Some("reject_once"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(id: &str) -> StreamEvent {
        StreamEvent::AgentPrompt {
            id: id.to_owned(),
            message: "May I?".to_owned(),
            options: Vec::new(),
        }
    }

    #[test]
    fn questions_are_shown_one_at_a_time() {
        let mut questions = Questions::default();
        for id in ["a", "b", "c"] {
            questions.add(question(id));
        }
        assert_eq!(questions.next(|_| true), Some(question("a")));
        assert_eq!(questions.next(|_| true), None, "a has no answer yet");
        questions.answered();
        let without_b = |id: &str| id != "b";
        assert_eq!(questions.next(without_b), Some(question("c")));
        questions.answered();
        assert_eq!(questions.next(|_| true), None, "b is gone for good");
        questions.add(question("d"));
        assert_eq!(questions.next(|_| true), Some(question("d")));
    }

    #[test]
    fn an_answer_is_one_of_the_choices() {
        let choice = |id: &str, kind: &str| Choice {
            id: id.to_owned(),
            label: id.to_owned(),
            kind: Some(kind.to_owned()),
        };
        let options = [choice("y", "allow_once"), choice("n", "reject_once")];
        let id = |line: &str| match parse_answer(line, &options) {
            Answer::Choice(id) => id,
            _ => String::new(),
        };
        assert_eq!(id("1\n"), "y");
        for no in ["2", "", "0", "3", "yes", "-1"] {
            assert_eq!(id(no), "n", "{no}");
        }
        assert!(matches!(parse_answer("", &[]), Answer::Declined));
    }
}
