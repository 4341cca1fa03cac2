//! Questions at the terminal: written to stderr, answered on stdin. The caller also watches for
//! Ctrl-C. If it stops waiting, the terminal settings are restored.

use std::io::{IsTerminal, Write};
use std::os::fd::AsRawFd;

use tokio::sync::oneshot;
use zeroize::Zeroizing;

use agentproto_runtime::interact::{AnswerFuture, Interact, Question, QuestionKind};
use agentproto_runtime::{Code, Error};
use agentproto_text::escape_output;

/// Maximum number of attempts to answer a question.
const MAX_ATTEMPTS: usize = 5;

/// Asks the user at the terminal.
pub struct TerminalPrompt;

/// Whether stdin and stderr are terminals.
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

impl Interact for TerminalPrompt {
    fn is_headless(&self) -> bool {
        false
    }

    fn ask<'a>(&'a self, question: &'a Question) -> AnswerFuture<'a> {
        Box::pin(async move {
            let Question {
                message,
                kind,
                default,
            } = question;
            let mut message_text = escape_output(message).into_owned();
            if let QuestionKind::Select(choices) = kind {
                for (number, choice) in choices.iter().enumerate() {
                    message_text.push_str(&format!("\n  {} {}", number + 1, escape_output(choice)));
                }
                message_text.push_str("\nYour choice");
            }
            let proposal = match (kind, default.as_deref()) {
                (QuestionKind::Boolean, Some("true")) => " [Y/n]".to_owned(),
                (QuestionKind::Boolean, Some(_)) => " [y/N]".to_owned(),
                (QuestionKind::Boolean, None) => " [y/n]".to_owned(),
                (_, Some(default)) => format!(" [{}]", escape_output(default)),
                (_, None) => String::new(),
            };
            for _ in 0..MAX_ATTEMPTS {
                let line = read(
                    &format!("{message_text}{proposal}: "),
                    *kind == QuestionKind::Secret,
                )
                .await?;
                match parse_answer(&line, kind, default.as_deref()) {
                    Ok(answer) => return Ok(answer),
                    Err(why) => eprintln!("{why}"),
                }
            }
            Err(declined("no valid answer was given"))
        })
    }

    fn show(&self, text: &str) {
        eprintln!("{}", escape_output(text));
    }
}

fn declined(why: &str) -> Error {
    Error::new(Code::Declined, why)
}

/// Parses a line as an answer.
fn parse_answer(
    line: &str,
    kind: &QuestionKind,
    default: Option<&str>,
) -> Result<String, &'static str> {
    let text = line.trim();
    match (kind, default) {
        (_, Some(default)) if text.is_empty() => Ok(default.to_owned()),
        (QuestionKind::Boolean, _) => match text.to_ascii_lowercase().as_str() {
            "y" | "yes" | "true" => Ok("true".to_owned()),
            "n" | "no" | "false" => Ok("false".to_owned()),
            _ => Err("Answer y or n."),
        },
        (QuestionKind::Select(choices), _) => {
            let number = text.parse::<usize>().ok();
            let by_number = number.and_then(|n| choices.get(n.checked_sub(1)?));
            let by_name = choices.iter().find(|choice| *choice == text);
            by_name
                .or(by_number)
                .cloned()
                .ok_or("Answer with one of the numbers.")
        }
        (QuestionKind::Text | QuestionKind::Secret, _) if text.is_empty() => {
            Err("A value is required.")
        }
        (QuestionKind::Text | QuestionKind::Secret, _) => Ok(text.to_owned()),
    }
}

/// Reads one line from stdin.
pub async fn read(prompt: &str, hidden: bool) -> Result<Zeroizing<String>, Error> {
    // Before the prompt, so that the first typed characters are already hidden.
    let hidden = match hidden {
        true => Some(EchoOff::enter()?),
        false => None,
    };
    eprint!("{prompt}");
    let _ = std::io::stderr().flush();
    let (sender, answer) = oneshot::channel();
    // A read cannot be canceled; the thread ends with the process.
    std::thread::spawn(move || {
        let mut line = Zeroizing::new(String::new());
        let read = std::io::stdin().read_line(&mut line);
        let _ = sender.send(read.map(|count| (count, line)));
    });
    let answer = answer.await;
    drop(hidden);
    match answer {
        Ok(Ok((0, _))) => Err(declined("stdin ended without an answer")),
        Ok(Ok((_, line))) => Ok(line),
        Ok(Err(error)) => Err(declined(&format!("cannot read the answer: {error}"))),
        Err(_) => Err(declined("cannot read the answer")),
    }
}

/// Turns off the echo of the terminal until it is dropped.
struct EchoOff {
    before: libc::termios,
}

impl EchoOff {
    fn enter() -> Result<EchoOff, Error> {
        let fd = std::io::stdin().as_raw_fd();
        // SAFETY: both `termios` values are local and valid.
        unsafe {
            let mut before: libc::termios = std::mem::zeroed();
            if libc::tcgetattr(fd, &mut before) == 0 {
                let mut quiet = before;
                quiet.c_lflag &= !libc::ECHO;
                quiet.c_lflag |= libc::ECHONL;
                if libc::tcsetattr(fd, libc::TCSAFLUSH, &quiet) == 0 {
                    return Ok(EchoOff { before });
                }
            }
        }
        let why = std::io::Error::last_os_error();
        Err(declined(&format!(
            "cannot hide the secret while it is typed: {why}"
        )))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        let fd = std::io::stdin().as_raw_fd();
        // SAFETY: `before` is a valid `termios` value.
        unsafe { libc::tcsetattr(fd, libc::TCSANOW, &self.before) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_parsed_by_kind() {
        let select = QuestionKind::Select(vec!["10".into(), "eu".into()]);
        for (line, kind, default, expected) in [
            ("\n", &QuestionKind::Text, Some("x"), Ok("x")),
            (" a b \n", &QuestionKind::Text, None, Ok("a b")),
            ("\n", &QuestionKind::Secret, None, Err(())),
            ("Yes\n", &QuestionKind::Boolean, None, Ok("true")),
            ("\n", &QuestionKind::Boolean, Some("false"), Ok("false")),
            ("maybe\n", &QuestionKind::Boolean, None, Err(())),
            ("2\n", &select, None, Ok("eu")),
            // A choice's name takes precedence over its number.
            ("10\n", &select, None, Ok("10")),
            ("0\n", &select, None, Err(())),
            ("3\n", &select, None, Err(())),
        ] {
            let got = parse_answer(line, kind, default);
            assert_eq!(
                got.as_deref().map_err(|_| ()),
                expected,
                "{line:?} {kind:?}"
            );
        }
    }
}
