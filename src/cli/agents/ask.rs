//! Questions at the terminal: written to stderr, answered on stdin. The caller also watches for
//! Ctrl-C. If it stops waiting, the terminal settings are restored.

use std::io::{IsTerminal, Write};
use std::os::fd::AsRawFd;

use tokio::sync::oneshot;
use zeroize::Zeroizing;

use agentproto_runtime::interact::{Answering, Interact, Kind, Question};
use agentproto_runtime::{Code, Fault};
use agentproto_text::speech;

/// Maximum number of attempts to answer a question.
const TRIES: usize = 5;

/// Asks the user at the terminal.
pub struct Terminal;

/// Whether stdin and stderr are terminals.
pub fn somebody() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

impl Interact for Terminal {
    fn is_headless(&self) -> bool {
        false
    }

    fn ask<'a>(&'a self, question: &'a Question) -> Answering<'a> {
        Box::pin(async move {
            let Question {
                message,
                kind,
                default,
            } = question;
            let mut shown = speech(message).into_owned();
            if let Kind::Select(choices) = kind {
                for (number, choice) in choices.iter().enumerate() {
                    shown.push_str(&format!("\n  {} {}", number + 1, speech(choice)));
                }
                shown.push_str("\nYour choice");
            }
            let proposal = match (kind, default.as_deref()) {
                (Kind::Boolean, Some("true")) => " [Y/n]".to_owned(),
                (Kind::Boolean, Some(_)) => " [y/N]".to_owned(),
                (Kind::Boolean, None) => " [y/n]".to_owned(),
                (_, Some(default)) => format!(" [{}]", speech(default)),
                (_, None) => String::new(),
            };
            for _ in 0..TRIES {
                let line = read(&format!("{shown}{proposal}: "), *kind == Kind::Secret).await?;
                match understood(&line, kind, default.as_deref()) {
                    Ok(answer) => return Ok(answer),
                    Err(why) => eprintln!("{why}"),
                }
            }
            Err(declined("no valid answer was given"))
        })
    }

    fn show(&self, text: &str) {
        eprintln!("{}", speech(text));
    }
}

fn declined(why: &str) -> Fault {
    Fault::new(Code::Declined, why)
}

/// Parses a line as an answer.
fn understood(line: &str, kind: &Kind, default: Option<&str>) -> Result<String, &'static str> {
    let given = line.trim();
    match (kind, default) {
        (_, Some(default)) if given.is_empty() => Ok(default.to_owned()),
        (Kind::Boolean, _) => match given.to_ascii_lowercase().as_str() {
            "y" | "yes" | "true" => Ok("true".to_owned()),
            "n" | "no" | "false" => Ok("false".to_owned()),
            _ => Err("Answer y or n."),
        },
        (Kind::Select(choices), _) => {
            let number = given.parse::<usize>().ok();
            let by_number = number.and_then(|n| choices.get(n.checked_sub(1)?));
            let by_name = choices.iter().find(|choice| *choice == given);
            by_name
                .or(by_number)
                .cloned()
                .ok_or("Answer with one of the numbers.")
        }
        (Kind::Text | Kind::Secret, _) if given.is_empty() => Err("A value is required."),
        (Kind::Text | Kind::Secret, _) => Ok(given.to_owned()),
    }
}

/// Reads one line from stdin.
pub async fn read(prompt: &str, hidden: bool) -> Result<Zeroizing<String>, Fault> {
    // Before the prompt, so that the first typed characters are already hidden.
    let hidden = match hidden {
        true => Some(Hidden::enter()?),
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
struct Hidden {
    before: libc::termios,
}

impl Hidden {
    fn enter() -> Result<Hidden, Fault> {
        let fd = std::io::stdin().as_raw_fd();
        // SAFETY: both `termios` values are local and valid.
        unsafe {
            let mut before: libc::termios = std::mem::zeroed();
            if libc::tcgetattr(fd, &mut before) == 0 {
                let mut quiet = before;
                quiet.c_lflag &= !libc::ECHO;
                quiet.c_lflag |= libc::ECHONL;
                if libc::tcsetattr(fd, libc::TCSAFLUSH, &quiet) == 0 {
                    return Ok(Hidden { before });
                }
            }
        }
        let why = std::io::Error::last_os_error();
        Err(declined(&format!(
            "cannot hide the secret while it is typed: {why}"
        )))
    }
}

impl Drop for Hidden {
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
        let select = Kind::Select(vec!["10".into(), "eu".into()]);
        for (line, kind, default, meant) in [
            ("\n", &Kind::Text, Some("x"), Ok("x")),
            (" a b \n", &Kind::Text, None, Ok("a b")),
            ("\n", &Kind::Secret, None, Err(())),
            ("Yes\n", &Kind::Boolean, None, Ok("true")),
            ("\n", &Kind::Boolean, Some("false"), Ok("false")),
            ("maybe\n", &Kind::Boolean, None, Err(())),
            ("2\n", &select, None, Ok("eu")),
            // A choice's name takes precedence over its number.
            ("10\n", &select, None, Ok("10")),
            ("0\n", &select, None, Err(())),
            ("3\n", &select, None, Err(())),
        ] {
            let got = understood(line, kind, default);
            assert_eq!(got.as_deref().map_err(|_| ()), meant, "{line:?} {kind:?}");
        }
    }
}
