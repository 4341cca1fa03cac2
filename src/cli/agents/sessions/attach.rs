//! Follows one session as a transcript, and sends prompts to it (A46-PROJ-09).

use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::Sessions;
use crate::cli::agents::client::{Client, Frame, StreamStart, percent_encode};
use crate::cli::args::{Global, Output};
use crate::cli::{Failure, Outcome, io_failure, signals, terminal};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_runtime::forms::{self, FormField};
use agentproto_text::escape_output;

/// Maximum number of attempts to reopen a broken stream.
const MAX_ATTEMPTS: usize = 10;
/// Pause before each attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Everything that an attached client reacts to, in order of arrival.
enum ClientEvent {
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
    let started = Instant::now();
    let session = find(client, id)?;
    let id = session["id"].as_str().unwrap_or(id).to_owned();
    let machine = args.output == Output::Jsonl;
    let at_terminal = std::io::stdin().is_terminal();
    let from = match args.from {
        Some(from) => from,
        None if at_terminal || machine => StreamStart::Start,
        None => StreamStart::Now,
    };
    let (sender, receiver) = channel();
    forward_signals(sender.clone())?;
    follow(client.clone(), id.clone(), from, sender.clone());
    if machine {
        let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
        emitter.meta("sessions").map_err(io_failure)?;
        let ended = events(&receiver, &mut emitter);
        return super::finish(emitter, ended, started);
    }
    // Lines of a pipe are prompts, unless the output starts with earlier events.
    let reads_input = at_terminal || from == StreamStart::Now;
    let mut attached = Attached {
        client: client.clone(),
        id,
        out,
        color: terminal::color(global),
        at_terminal,
        busy: false,
        questions: Vec::new(),
        waiting: VecDeque::new(),
        has_prompted: false,
        awaits_turn: false,
        typed: None,
        is_closed: false,
    };
    if !global.quiet {
        attached.print_header(&session)?;
    }
    attached.run(&receiver, reads_input.then_some(sender))
}

/// Finds a session by its id, or by a prefix that only one session has.
fn find(client: &Client, id: &str) -> Result<Value, Failure> {
    let answer = super::list_sessions(client)?;
    let empty = Vec::new();
    let sessions = answer["sessions"].as_array().unwrap_or(&empty);
    let named = |s: &&Value| s["id"].as_str().is_some_and(|known| known == id);
    if let Some(session) = sessions.iter().find(named) {
        return Ok(session.clone());
    }
    let has_prefix = |s: &&Value| s["id"].as_str().is_some_and(|known| known.starts_with(id));
    let mut matching = sessions.iter().filter(has_prefix);
    match (matching.next(), matching.next()) {
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

fn forward_signals(sender: Sender<ClientEvent>) -> Result<(), Failure> {
    let listening = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]);
    let mut listening = listening
        .map_err(|e| Failure::new(exit::INTERNAL, format!("cannot listen for signals: {e}")))?;
    if let Some(code) = signals::hand_over() {
        let _ = sender.send(ClientEvent::Signal(i32::from(code) - 128));
    }
    std::thread::spawn(move || {
        for signal in listening.forever() {
            if sender.send(ClientEvent::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Reads the stream to its end. After a break it continues after the last item.
fn follow(client: Client, id: String, from: StreamStart, sender: Sender<ClientEvent>) {
    std::thread::spawn(move || {
        let mut last: Option<String> = None;
        let mut attempts = 0;
        loop {
            let lost = match client.stream(&id, last.as_deref(), from) {
                Ok(mut frames) => {
                    let _ = sender.send(ClientEvent::Open);
                    while let Some(frame) = frames.next() {
                        attempts = 0;
                        if frame.id.is_some() {
                            last.clone_from(&frame.id);
                        }
                        let is_end = frame.event == "end";
                        if sender.send(ClientEvent::Frame(frame)).is_err() || is_end {
                            return;
                        }
                    }
                    Failure::new(exit::UNAVAILABLE, "the stream ended unexpectedly")
                        .typed("host_unavailable")
                }
                Err(failure) => failure,
            };
            attempts += 1;
            if attempts > MAX_ATTEMPTS || lost.code != exit::UNAVAILABLE {
                let _ = sender.send(ClientEvent::Lost(lost));
                return;
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    });
}

fn read_input(sender: Sender<ClientEvent>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(ClientEvent::Typed(line)).is_err() {
                return;
            }
        }
        let _ = sender.send(ClientEvent::Closed);
    });
}

/// Emits every frame as one event, until the end.
fn events(receiver: &Receiver<ClientEvent>, emitter: &mut Emitter<'_>) -> Outcome {
    while let Ok(event) = receiver.recv() {
        match event {
            ClientEvent::Frame(frame) if frame.event == "end" => return Ok(exit::CLEAN),
            ClientEvent::Frame(frame) => {
                let mut fields = object(json!({ "event": frame.event, "data": frame.data }));
                if let Some(id) = frame.id {
                    fields.insert("id".to_owned(), id.into());
                }
                emitter
                    .event(EventType::SessionEvent, &fields)
                    .map_err(io_failure)?;
                if emitter.is_closed() {
                    return Ok(exit::CLEAN);
                }
            }
            ClientEvent::Lost(failure) => return Err(failure),
            ClientEvent::Signal(signal) => return Ok(exit_code(signal)),
            ClientEvent::Open | ClientEvent::Typed(_) | ClientEvent::Closed => {}
        }
    }
    Ok(exit::CLEAN)
}

fn exit_code(signal: i32) -> u8 {
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
    has_prompted: bool,
    /// Our prompt was accepted, but its turn was not seen yet: an end that arrives now belongs to
    /// another turn.
    awaits_turn: bool,
    /// The last prompt that was typed at a terminal, which has already shown it.
    typed: Option<String>,
    /// Whether stdin has ended.
    is_closed: bool,
}

impl Attached<'_> {
    fn path(&self, below: &str) -> String {
        format!("/sessions/{}/{below}", percent_encode(&self.id))
    }

    fn print_header(&mut self, session: &Value) -> Result<(), Failure> {
        let text = |name: &str| session[name].as_str().unwrap_or_default().to_owned();
        let keys = match self.at_terminal {
            true => "; type a prompt, Ctrl-C interrupts the turn, Ctrl-D detaches",
            false => "",
        };
        eprintln!(
            "{}: {} in {}, {}{keys}",
            escape_output(&self.id),
            escape_output(&text("adapterSlug")),
            escape_output(&text("cwd")),
            escape_output(&text("status"))
        );
        Ok(())
    }

    fn run(
        &mut self,
        receiver: &Receiver<ClientEvent>,
        mut input: Option<Sender<ClientEvent>>,
    ) -> Outcome {
        while let Ok(event) = receiver.recv() {
            match event {
                ClientEvent::Open => {
                    let Some(sender) = input.take() else { continue };
                    // What the stream sends from here on is newer than this response.
                    let now = self
                        .client
                        .get(&format!("/sessions/{}", percent_encode(&self.id)))?;
                    self.busy = now["busy"] == true;
                    read_input(sender);
                }
                ClientEvent::Frame(frame) => {
                    if let Some(code) = self.frame(&frame)? {
                        return Ok(code);
                    }
                }
                ClientEvent::Lost(failure) => return Err(failure),
                ClientEvent::Typed(line) => self.handle_line(line)?,
                ClientEvent::Closed if self.at_terminal => {
                    eprintln!("detached; the session continues");
                    return Ok(exit::CLEAN);
                }
                ClientEvent::Closed => self.is_closed = true,
                ClientEvent::Signal(signal) => {
                    if signal == SIGTERM || !self.at_terminal {
                        return Ok(exit_code(signal));
                    }
                    self.interrupt();
                }
            }
            let is_done = self.is_closed && self.has_prompted && self.waiting.is_empty();
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
                    self.awaits_turn = false;
                }
                self.busy = busy || self.awaits_turn;
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
        let text = escape_output(text);
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
            match form(&question) {
                Some(fields) => eprintln!("{}", form_hint(&fields)),
                None => eprintln!("enter a number, or 0 to choose none of them"),
            }
        }
        Ok(())
    }

    fn handle_line(&mut self, line: String) -> Result<(), Failure> {
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
        let selected = number
            .and_then(|n| n.checked_sub(1))
            .and_then(|n| options(question).get(n));
        let content = form(question).map(|fields| form_content(&fields, text));
        let body = match (number, selected, content) {
            (Some(0), ..) => json!({ "cancelled": true }),
            (_, Some(option), _) => json!({ "optionId": option["id"] }),
            (_, _, Some(Ok(content))) => json!({ "content": content }),
            (_, _, Some(Err(why))) => {
                eprintln!("{why}");
                return Ok(());
            }
            _ => {
                eprintln!(
                    "the agent waits for an answer first: enter one of the numbers above, or 0"
                );
                return Ok(());
            }
        };
        let id = question["id"].as_str().unwrap_or_default();
        let path = self.path(&format!("permissions/{}", percent_encode(id)));
        let answered = self.client.post(&path, &body);
        if let Err(failure) = &answered
            && failure.code == exit::USAGE
        {
            // The answer does not match the form, and the question is still open.
            return answered.map(drop).or_else(print_or_fail);
        }
        self.questions.retain(|q| q["id"] != question["id"]);
        answered.map(|_| ()).or_else(print_or_fail)?;
        self.show_question()
    }

    fn prompt(&mut self, prompt: String) -> Result<(), Failure> {
        let path = self.path("prompt");
        match self.client.post(&path, &json!({ "prompt": prompt })) {
            Ok(_) => {
                self.typed = self.at_terminal.then_some(prompt);
                self.has_prompted = true;
                self.awaits_turn = true;
                self.busy = true;
                Ok(())
            }
            // Another client was faster. Our prompt is sent after its turn.
            Err(failure) if failure.code == exit::TEMPORARY && !self.at_terminal => {
                self.waiting.push_front(prompt);
                Ok(())
            }
            Err(failure) => print_or_fail(failure),
        }
    }

    fn interrupt(&mut self) {
        let path = self.path("interrupt");
        match self.client.post(&path, &json!({})) {
            Ok(answer) if answer["wasBusy"] == true => eprintln!("interrupted the turn"),
            Ok(_) => eprintln!("no turn is running; Ctrl-D detaches"),
            Err(failure) => {
                let _ = print_or_fail(failure);
            }
        }
    }
}

/// The fields of a question that asks for content.
fn form(question: &Value) -> Option<Vec<FormField>> {
    let fields = forms::fields(question.get("schema")?);
    (!fields.is_empty()).then_some(fields)
}

fn form_hint(fields: &[FormField]) -> String {
    match fields {
        [field] => format!(
            "enter a number, or the answer ({}), or 0 to cancel",
            escape_output(&field.label)
        ),
        fields => {
            let names = fields.iter().filter_map(|field| field.name.as_deref());
            let names: Vec<&str> = names.collect();
            format!(
                "enter a number, or a JSON object with {}, or 0 to cancel",
                escape_output(&names.join(", "))
            )
        }
    }
}

/// The content of a form from one line: the value of its only field, or a JSON object.
fn form_content(fields: &[FormField], text: &str) -> Result<Value, String> {
    match fields {
        [field] if !text.starts_with('{') => {
            let value = field.parse(text)?.unwrap_or_default();
            Ok(match &field.name {
                Some(name) => json!({ name.as_str(): value }),
                None => value,
            })
        }
        _ => serde_json::from_str(text).map_err(|_| form_hint(fields)),
    }
}

fn options(question: &Value) -> &[Value] {
    question["options"].as_array().map_or(&[], Vec::as_slice)
}

/// Prints an error response and continues. Fails if the host is gone.
fn print_or_fail(failure: Failure) -> Result<(), Failure> {
    if failure.code == exit::UNAVAILABLE {
        return Err(failure);
    }
    eprintln!("agentproto: {}", escape_output(&failure.message));
    if let Some(hint) = &failure.hint {
        eprintln!("  {}", escape_output(hint));
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
        for (line, expected) in [
            ("[thought] hm", Some("2")),
            ("[tool] ls", Some("36")),
            ("[tool-error]", Some("31")),
            ("[awaiting input] may I?", Some("33")),
            ("── turn-end (end_turn) ──", Some("2")),
            ("[error] gone", Some("31")),
            ("plain [tool] text", None),
        ] {
            assert_eq!(paint(line, false), expected, "{line}");
        }
        assert_eq!(paint("a tail", true), Some("31"));
    }
}
