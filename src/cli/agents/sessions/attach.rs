//! Follows one session as a transcript, and sends prompts to it (A46-PROJ-09).

use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::Sessions;
use crate::cli::agents::client::{Begin, Client, Frame, escaped};
use crate::cli::args::{Global, Output};
use crate::cli::{Failure, Outcome, io_failure, signals, terminal};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::Event;
use agentproto_text::speech;

/// Maximum number of attempts to reopen a broken stream.
const TRIES: usize = 10;
/// Pause before each attempt.
const PAUSE: Duration = Duration::from_millis(500);

/// Everything that an attached client reacts to, in order of arrival.
enum Heard {
    Frame(Frame),
    /// The stream is open, so nothing is missed from now on.
    Open,
    Lost(Failure),
    Typed(String),
    Closed,
    Signal(i32),
}

pub fn run(
    args: &Sessions,
    id: &str,
    client: &Client,
    global: &Global,
    out: &mut dyn Write,
) -> Outcome {
    let began = Instant::now();
    let session = find(client, id)?;
    let id = session["id"].as_str().unwrap_or(id).to_owned();
    let machine = args.output == Output::Jsonl;
    let at_terminal = std::io::stdin().is_terminal();
    let from = match args.from {
        Some(from) => from,
        None if at_terminal || machine => Begin::Start,
        None => Begin::Now,
    };
    let (say, heard) = channel();
    hear_signals(say.clone())?;
    follow(client.clone(), id.clone(), from, say.clone());
    if machine {
        let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
        emitter.meta("sessions").map_err(io_failure)?;
        let ended = events(&heard, &mut emitter);
        return super::finish(emitter, ended, began);
    }
    // Lines of a pipe are prompts, unless the output starts with earlier events.
    let talks = at_terminal || from == Begin::Now;
    let mut attached = Attached {
        client: client.clone(),
        id,
        out,
        color: terminal::color(global),
        at_terminal,
        busy: false,
        questions: Vec::new(),
        waiting: VecDeque::new(),
        has_talked: false,
        is_early: false,
        typed: None,
        is_closed: false,
    };
    if !global.quiet {
        attached.greet(&session)?;
    }
    attached.talk(&heard, talks.then_some(say))
}

/// Finds a session by its id, or by a prefix that only one session has.
fn find(client: &Client, id: &str) -> Result<Value, Failure> {
    let answer = super::known(client)?;
    let empty = Vec::new();
    let sessions = answer["sessions"].as_array().unwrap_or(&empty);
    let named = |s: &&Value| s["id"].as_str().is_some_and(|known| known == id);
    if let Some(session) = sessions.iter().find(named) {
        return Ok(session.clone());
    }
    let begins = |s: &&Value| s["id"].as_str().is_some_and(|known| known.starts_with(id));
    let mut fitting = sessions.iter().filter(begins);
    match (fitting.next(), fitting.next()) {
        (Some(session), None) if !id.is_empty() => Ok(session.clone()),
        (Some(_), Some(_)) => {
            let what = format!("several sessions start with `{id}`");
            Err(Failure::new(exit::USAGE, what).hint("`agentproto sessions` lists them"))
        }
        _ => {
            let what = format!("unknown session `{id}`");
            Err(Failure::new(exit::NO_INPUT, what)
                .typed("session_not_found")
                .hint("`agentproto sessions` lists them"))
        }
    }
}

fn hear_signals(say: Sender<Heard>) -> Result<(), Failure> {
    let listening = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]);
    let mut listening = listening
        .map_err(|e| Failure::new(exit::INTERNAL, format!("cannot listen for signals: {e}")))?;
    if let Some(code) = signals::hand_over() {
        let _ = say.send(Heard::Signal(i32::from(code) - 128));
    }
    std::thread::spawn(move || {
        for signal in listening.forever() {
            if say.send(Heard::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Reads the stream to its end. After a break it continues after the last item.
fn follow(client: Client, id: String, from: Begin, say: Sender<Heard>) {
    std::thread::spawn(move || {
        let mut last: Option<String> = None;
        let mut tries = 0;
        loop {
            let lost = match client.stream(&id, last.as_deref(), from) {
                Ok(mut frames) => {
                    let _ = say.send(Heard::Open);
                    while let Some(frame) = frames.next() {
                        tries = 0;
                        if frame.id.is_some() {
                            last.clone_from(&frame.id);
                        }
                        let is_end = frame.event == "end";
                        if say.send(Heard::Frame(frame)).is_err() || is_end {
                            return;
                        }
                    }
                    Failure::new(exit::UNAVAILABLE, "the stream ended unexpectedly")
                        .typed("host_unavailable")
                }
                Err(failure) => failure,
            };
            tries += 1;
            if tries > TRIES || lost.code != exit::UNAVAILABLE {
                let _ = say.send(Heard::Lost(lost));
                return;
            }
            std::thread::sleep(PAUSE);
        }
    });
}

fn read_input(say: Sender<Heard>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if say.send(Heard::Typed(line)).is_err() {
                return;
            }
        }
        let _ = say.send(Heard::Closed);
    });
}

/// Emits every frame as one event, until the end.
fn events(heard: &Receiver<Heard>, emitter: &mut Emitter<'_>) -> Outcome {
    while let Ok(heard) = heard.recv() {
        match heard {
            Heard::Frame(frame) if frame.event == "end" => return Ok(exit::CLEAN),
            Heard::Frame(frame) => {
                let mut fields = object(json!({ "event": frame.event, "data": frame.data }));
                if let Some(id) = frame.id {
                    fields.insert("id".to_owned(), id.into());
                }
                emitter
                    .event(Event::SessionEvent, &fields)
                    .map_err(io_failure)?;
                if emitter.is_closed() {
                    return Ok(exit::CLEAN);
                }
            }
            Heard::Lost(failure) => return Err(failure),
            Heard::Signal(signal) => return Ok(code_of(signal)),
            Heard::Open | Heard::Typed(_) | Heard::Closed => {}
        }
    }
    Ok(exit::CLEAN)
}

fn code_of(signal: i32) -> u8 {
    match signal {
        SIGTERM => exit::TERMINATED,
        _ => exit::INTERRUPTED,
    }
}

struct Attached<'w> {
    client: Client,
    id: String,
    out: &'w mut dyn Write,
    color: bool,
    at_terminal: bool,
    busy: bool,
    /// Open questions of the agent, oldest first.
    questions: Vec<Value>,
    /// Prompts from a pipe that arrived during a turn.
    waiting: VecDeque<String>,
    has_talked: bool,
    /// Our prompt was accepted, but its turn was not seen yet: an end that arrives now belongs to
    /// another turn.
    is_early: bool,
    /// The last prompt that was typed at a terminal, which has already shown it.
    typed: Option<String>,
    /// Whether stdin has ended.
    is_closed: bool,
}

impl Attached<'_> {
    fn path(&self, below: &str) -> String {
        format!("/sessions/{}/{below}", escaped(&self.id))
    }

    fn greet(&mut self, session: &Value) -> Result<(), Failure> {
        let text = |name: &str| session[name].as_str().unwrap_or_default().to_owned();
        let keys = match self.at_terminal {
            true => "; type a prompt, Ctrl-C interrupts the turn, Ctrl-D detaches",
            false => "",
        };
        eprintln!(
            "{}: {} in {}, {}{keys}",
            speech(&self.id),
            speech(&text("adapterSlug")),
            speech(&text("cwd")),
            speech(&text("status"))
        );
        Ok(())
    }

    fn talk(&mut self, heard: &Receiver<Heard>, mut talks: Option<Sender<Heard>>) -> Outcome {
        while let Ok(one) = heard.recv() {
            match one {
                Heard::Open => {
                    let Some(say) = talks.take() else { continue };
                    // What the stream sends from here on is newer than this response.
                    let now = self
                        .client
                        .get(&format!("/sessions/{}", escaped(&self.id)))?;
                    self.busy = now["busy"] == true;
                    read_input(say);
                }
                Heard::Frame(frame) => {
                    if let Some(code) = self.frame(&frame)? {
                        return Ok(code);
                    }
                }
                Heard::Lost(failure) => return Err(failure),
                Heard::Typed(line) => self.typed(line)?,
                Heard::Closed if self.at_terminal => {
                    eprintln!("detached; the session continues");
                    return Ok(exit::CLEAN);
                }
                Heard::Closed => self.is_closed = true,
                Heard::Signal(signal) => {
                    if signal == SIGTERM || !self.at_terminal {
                        return Ok(code_of(signal));
                    }
                    self.interrupt();
                }
            }
            let is_done = self.is_closed && self.has_talked && self.waiting.is_empty();
            if is_done && !self.busy {
                return Ok(exit::CLEAN);
            }
        }
        Ok(exit::CLEAN)
    }

    fn frame(&mut self, frame: &Frame) -> Result<Option<u8>, Failure> {
        let data = &frame.data;
        match frame.event.as_str() {
            "line" => {
                let text = data["line"].as_str().unwrap_or_default();
                let is_stderr = data["stream"] == "stderr";
                self.line(text, paint(text, is_stderr))?;
            }
            "status" => {
                let busy = data["busy"] == true;
                if busy {
                    self.is_early = false;
                }
                self.busy = busy || self.is_early;
                if !self.busy {
                    self.questions.clear();
                    if let Some(next) = self.waiting.pop_front() {
                        self.prompt(next)?;
                    }
                }
            }
            "prompt" => {
                let text = data["prompt"].as_str().unwrap_or_default();
                // The terminal already shows a prompt that was typed here.
                if self.typed.take().as_deref() != Some(text) {
                    for line in text.lines() {
                        self.line(&format!("> {line}"), Some("1"))?;
                    }
                }
            }
            "permission" if data["closed"] == true => {
                self.questions.retain(|q| q["id"] != data["id"]);
            }
            "permission" => {
                self.questions.push(data.clone());
                if self.questions.len() == 1 {
                    self.show_question()?;
                }
            }
            "gap" => self.line("[gap] some output is missing here", Some("33"))?,
            "end" => return self.ended(data).map(Some),
            // Later versions may add types (A46-SSE-05).
            _ => {}
        }
        Ok(None)
    }

    fn ended(&mut self, data: &Value) -> Result<u8, Failure> {
        let status = data["status"].as_str().unwrap_or("forgotten").to_owned();
        self.line(&format!("── session {status} ──"), Some("2"))?;
        if !self.waiting.is_empty() {
            let what = format!(
                "{} prompts were not sent: the session ended",
                self.waiting.len()
            );
            return Err(Failure::new(exit::FINDINGS, what));
        }
        Ok(match status.as_str() {
            "error" => exit::FINDINGS,
            _ => exit::CLEAN,
        })
    }

    fn line(&mut self, text: &str, paint: Option<&str>) -> Result<(), Failure> {
        let text = speech(text);
        let written = match paint.filter(|_| self.color) {
            Some(paint) => writeln!(self.out, "\x1b[{paint}m{text}\x1b[0m"),
            None => writeln!(self.out, "{text}"),
        };
        written.and_then(|()| self.out.flush()).map_err(io_failure)
    }

    fn show_question(&mut self) -> Result<(), Failure> {
        let Some(question) = self.questions.first().cloned() else {
            return Ok(());
        };
        for (n, option) in options(&question).iter().enumerate() {
            let label = option["label"].as_str().or(option["id"].as_str());
            let text = format!("  {}) {}", n + 1, label.unwrap_or_default());
            self.line(&text, Some("33"))?;
        }
        if self.at_terminal {
            eprintln!("enter a number, or 0 to choose none of them");
        }
        Ok(())
    }

    fn typed(&mut self, line: String) -> Result<(), Failure> {
        let text = line.trim();
        if text.is_empty() {
            return Ok(());
        }
        if self.at_terminal
            && let Some(question) = self.questions.first().cloned()
        {
            return self.answer(&question, text);
        }
        if self.busy && !self.at_terminal {
            self.waiting.push_back(line);
            return Ok(());
        }
        self.prompt(line)
    }

    fn answer(&mut self, question: &Value, text: &str) -> Result<(), Failure> {
        let number = text.parse::<usize>().ok();
        let chosen = number
            .and_then(|n| n.checked_sub(1))
            .and_then(|n| options(question).get(n));
        let body = match (number, chosen) {
            (Some(0), _) => json!({ "cancelled": true }),
            (_, Some(option)) => json!({ "optionId": option["id"] }),
            _ => {
                eprintln!(
                    "the agent waits for an answer first: enter one of the numbers above, or 0"
                );
                return Ok(());
            }
        };
        let id = question["id"].as_str().unwrap_or_default();
        let path = self.path(&format!("permissions/{}", escaped(id)));
        let answered = self.client.post(&path, &body);
        self.questions.retain(|q| q["id"] != question["id"]);
        answered.map(|_| ()).or_else(told)?;
        self.show_question()
    }

    fn prompt(&mut self, prompt: String) -> Result<(), Failure> {
        let path = self.path("prompt");
        match self.client.post(&path, &json!({ "prompt": prompt })) {
            Ok(_) => {
                self.typed = self.at_terminal.then_some(prompt);
                self.has_talked = true;
                self.is_early = true;
                self.busy = true;
                Ok(())
            }
            // Another client was faster. Our prompt is sent after its turn.
            Err(failure) if failure.code == exit::TEMPORARY && !self.at_terminal => {
                self.waiting.push_front(prompt);
                Ok(())
            }
            Err(failure) => told(failure),
        }
    }

    fn interrupt(&mut self) {
        let path = self.path("interrupt");
        match self.client.post(&path, &json!({})) {
            Ok(answer) if answer["wasBusy"] == true => eprintln!("interrupted the turn"),
            Ok(_) => eprintln!("no turn is running; Ctrl-D detaches"),
            Err(failure) => {
                let _ = told(failure);
            }
        }
    }
}

fn options(question: &Value) -> &[Value] {
    question["options"].as_array().map_or(&[], Vec::as_slice)
}

/// Prints an error response and continues. Fails if the host is gone.
fn told(failure: Failure) -> Result<(), Failure> {
    if failure.code == exit::UNAVAILABLE {
        return Err(failure);
    }
    eprintln!("agentproto: {}", speech(&failure.message));
    if let Some(hint) = &failure.hint {
        eprintln!("  {}", speech(hint));
    }
    Ok(())
}

/// The color of a line by its prefix, from the table in AIP-46.
fn paint(line: &str, is_stderr: bool) -> Option<&'static str> {
    const TABLE: [(&str, &str); 7] = [
        ("[thought] ", "2"),
        ("[tool] ", "36"),
        ("[tool-error]", "31"),
        ("[awaiting input]", "33"),
        ("── turn-end (", "2"),
        ("[error] ", "31"),
        ("[warning] ", "33"),
    ];
    let known = TABLE.iter().find(|(prefix, _)| line.starts_with(prefix));
    known.map(|(_, paint)| *paint).or(is_stderr.then_some("31"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A46-PROJ-03 to 08.
    #[test]
    fn lines_are_colored_by_prefix() {
        for (line, wanted) in [
            ("[thought] hm", Some("2")),
            ("[tool] ls", Some("36")),
            ("[tool-error]", Some("31")),
            ("[awaiting input] may I?", Some("33")),
            ("── turn-end (end_turn) ──", Some("2")),
            ("[error] gone", Some("31")),
            ("plain [tool] text", None),
        ] {
            assert_eq!(paint(line, false), wanted, "{line}");
        }
        assert_eq!(paint("a tail", true), Some("31"));
    }
}
