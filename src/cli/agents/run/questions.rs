//! Questions of the agent at the terminal, one at a time: two at once would share an answer.

use std::collections::VecDeque;
use std::io::Write;

use agentproto_runtime::arm::permissions::Answer;
use agentproto_runtime::forms::{self, FieldKind, FormField};
use agentproto_runtime::{Choice, StreamEvent};
use agentproto_text::escape_line;
use serde_json::{Map, Value};

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

/// Maximum number of attempts to fill in a form.
const MAX_ATTEMPTS: usize = 5;

/// Asks at the terminal, in parallel to the events.
pub fn ask(
    id: String,
    options: Vec<Choice>,
    schema: Option<Value>,
    answered: impl FnOnce((String, Answer)) + Send + 'static,
) {
    std::thread::spawn(move || {
        let form = schema.filter(|schema| !is_offered(schema));
        let answer = match form {
            Some(schema) => fill(&schema, read_line).map_or_else(
                || no(&options).map_or(Answer::Declined, |no| Answer::Choice(no.id.clone())),
                Answer::Content,
            ),
            None => choose(&options, read_line),
        };
        answered((id, answer));
    });
}

/// Writes a prompt, and reads a line. `None` at the end of the input.
fn read_line(prompt: &str) -> Option<String> {
    eprint!("{prompt}");
    let _ = std::io::stderr().flush();
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line),
    }
}

/// Asks until the answer is one of the choices. No answer means no.
fn choose(options: &[Choice], mut read: impl FnMut(&str) -> Option<String>) -> Answer {
    for (number, option) in options.iter().enumerate() {
        eprintln!("  {} {}", number + 1, escape_line(&option.label));
    }
    let no = no(options);
    let declined = || no.map_or(Answer::Declined, |no| Answer::Choice(no.id.clone()));
    let label = no.map_or_else(|| "no".into(), |option| escape_line(&option.label));
    for _ in 0..MAX_ATTEMPTS {
        let line = read(&format!("Your choice [empty = {label}]: ")).unwrap_or_default();
        if line.trim().is_empty() {
            return declined();
        }
        let names = options.iter().map(|option| Name {
            label: &option.label,
            kind: option.kind.as_deref(),
        });
        match choice(&line, &names.collect::<Vec<_>>()) {
            Some(index) => return Answer::Choice(options[index].id.clone()),
            None => eprintln!("enter one of the numbers above, or nothing for \"{label}\""),
        }
    }
    eprintln!("no valid answer: \"{label}\" was chosen");
    declined()
}

/// What a user sees of an option.
pub struct Name<'a> {
    pub label: &'a str,
    pub kind: Option<&'a str>,
}

/// The option that a line means: by its number or label, or `y` and `n` for the option that allows
/// or rejects once. Ids are not shown, so an agent could swap the meaning of an answer with them.
pub fn choice(line: &str, options: &[Name]) -> Option<usize> {
    let text = line.trim();
    let only = |is_meant: &dyn Fn(&Name) -> bool| {
        let mut meant = options
            .iter()
            .enumerate()
            .filter(|(_, name)| is_meant(name));
        match (meant.next(), meant.next()) {
            (Some((index, _)), None) => Some(index),
            _ => None,
        }
    };
    let number = text.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let kind = match text.to_ascii_lowercase().as_str() {
        "y" | "yes" => Some("allow_once"),
        "n" | "no" => Some("reject_once"),
        _ => None,
    };
    number
        .filter(|n| *n < options.len())
        .or_else(|| only(&|name| name.label.eq_ignore_ascii_case(text)))
        .or_else(|| only(&|name| kind.is_some() && name.kind == kind))
}

/// Whether the options already have every answer: a form without fields, or with one choice.
fn is_offered(schema: &Value) -> bool {
    match forms::fields(schema).as_slice() {
        [] => true,
        [field] => field.name.is_some() && matches!(field.kind, FieldKind::One(_)),
        _ => false,
    }
}

/// Asks for each field of a form. `None` if the user does not answer it.
fn fill(schema: &Value, mut read: impl FnMut(&str) -> Option<String>) -> Option<Value> {
    let fields = forms::fields(schema);
    if fields.iter().any(|field| field.name.is_some()) {
        let go_on = read("Fill in the form? [Y/n]: ")?;
        if go_on.trim().to_ascii_lowercase().starts_with('n') {
            return None;
        }
    }
    for _ in 0..MAX_ATTEMPTS {
        let mut content = Value::Object(Map::new());
        for field in &fields {
            match (ask_field(field, &mut read)?, &field.name) {
                (Some(value), Some(name)) => content[name.as_str()] = value,
                (Some(value), None) => content = value,
                (None, _) => {}
            }
        }
        match forms::check(schema, &content) {
            Ok(()) => return Some(content),
            Err(error) => eprintln!("{}", escape_line(&error.message)),
        }
    }
    None
}

/// Asks until the line is valid. `None` if the user does not answer.
fn ask_field(
    field: &FormField,
    read: &mut impl FnMut(&str) -> Option<String>,
) -> Option<Option<Value>> {
    let mut prompt = String::new();
    if let Some(description) = &field.description {
        prompt.push_str(&format!("{}\n", escape_line(description)));
    }
    if let FieldKind::One(words) | FieldKind::Many(words) = &field.kind {
        for (number, (_, label)) in words.iter().enumerate() {
            prompt.push_str(&format!("  {} {}\n", number + 1, escape_line(label)));
        }
    }
    prompt.push_str(&escape_line(&field.label));
    let kind = match (&field.kind, &field.default, field.required) {
        (_, Some(default), _) => format!(" [{}]", escape_line(&default.to_string())),
        (FieldKind::Boolean, None, _) => " [y/n]".to_owned(),
        (FieldKind::Many(_), None, _) => " (numbers, separated by commas)".to_owned(),
        (_, None, false) => " (optional)".to_owned(),
        (_, None, true) => String::new(),
    };
    prompt.push_str(&format!("{kind}: "));
    for _ in 0..MAX_ATTEMPTS {
        match field.parse(&read(&prompt)?) {
            Ok(value) => return Some(value),
            Err(why) => eprintln!("{why}"),
        }
    }
    None
}

/// The choice that means no, for this one time.
fn no(options: &[Choice]) -> Option<&Choice> {
    let mut options = options.iter();
    options.find(|option| option.kind.as_deref() == Some("reject_once"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn question(id: &str) -> StreamEvent {
        StreamEvent::AgentPrompt {
            id: id.to_owned(),
            message: "May I?".to_owned(),
            options: Vec::new(),
            schema: None,
            tool: None,
            decision: None,
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
        let option = |id: &str, label: &str, kind: &str| Choice {
            id: id.to_owned(),
            label: label.to_owned(),
            kind: Some(kind.to_owned()),
        };
        // The ids would swap the answers.
        let options = [
            option("2", "Do it", "allow_once"),
            option("no", "Don't", "reject_once"),
        ];
        let chosen = |lines: &[&str]| {
            let mut lines = lines.iter();
            let answer = choose(&options, |_| lines.next().map(|line| format!("{line}\n")));
            match answer {
                Answer::Choice(id) => (id, lines.count()),
                _ => panic!("no choice"),
            }
        };
        let answered = |id: &str| (id.to_owned(), 0);
        for yes in ["1", "Do it", "do IT", " yes ", "y"] {
            assert_eq!(chosen(&[yes]), answered("2"), "{yes}");
        }
        for no in ["2", "", "no", "don't"] {
            assert_eq!(chosen(&[no]), answered("no"), "{no}");
        }
        // Anything else is asked again.
        assert_eq!(chosen(&["0", "3", "sure", "-1", "1"]), answered("2"));
        assert_eq!(chosen(&["x"; 5]), answered("no"));
        assert_eq!(
            chosen(&["x", "x", "x", "x", "x", "1"]),
            ("no".to_owned(), 1)
        );
        assert!(matches!(choose(&[], |_| None), Answer::Declined));
    }

    /// Fills in a form with these lines.
    fn filled(schema: &Value, lines: &[&str]) -> Option<Value> {
        let mut lines = lines.iter();
        fill(schema, |_| lines.next().map(|line| format!("{line}\n")))
    }

    #[test]
    fn a_form_is_filled_in_field_by_field() {
        let schema = json!({
            "properties": {
                "name": { "type": "string", "minLength": 2 },
                "age": { "type": "integer" },
                "color": { "enum": ["red", "green"] },
            },
            "required": ["name", "color"],
        });
        assert!(!is_offered(&schema));
        let expected = json!({ "name": "Ann", "age": 7, "color": "green" });
        assert_eq!(filled(&schema, &["", "Ann", "x", "7", "2"]), Some(expected));
        // Content that does not match is asked for again.
        let expected = json!({ "name": "Ann", "color": "red" });
        let lines = ["y", "A", "", "1", "Ann", "", "red"];
        assert_eq!(filled(&schema, &lines), Some(expected));
        for declined in [&["n"][..], &[], &["y", "Ann"]] {
            assert_eq!(filled(&schema, declined), None, "{declined:?}");
        }
    }

    #[test]
    fn free_text_is_one_line() {
        let schema = json!({ "type": "string" });
        assert!(!is_offered(&schema));
        assert_eq!(
            filled(&schema, &["blue, please"]),
            Some(json!("blue, please"))
        );
        assert_eq!(filled(&schema, &[]), None);
        // A single choice is offered as options.
        assert!(is_offered(
            &json!({ "properties": { "c": { "enum": ["a"] } } })
        ));
        assert!(is_offered(&json!({ "type": "object" })));
    }
}
