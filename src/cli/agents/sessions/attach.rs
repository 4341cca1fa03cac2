//! Follows one session as a transcript, and sends prompts to it (A46-PROJ-09).

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signal_hook::consts::SIGTERM;

use super::find::{self, for_command_line, id_of};
use super::question;
use super::stream::{ClientEvent, exit_code, follow, forward_signals, read_input};
use crate::cli::agents::client::{Client, Frame, StreamStart, percent_encode};
use crate::cli::args::{Global, Output};
use crate::cli::{Failure, Outcome, io_failure, terminal};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_text::{count, escape_output};

/// Marks that it is the user's turn, and that the agent waits for an answer.
const YOUR_TURN: &str = "> ";
const YOUR_ANSWER: &str = "? ";

/// Pause in the output before the mark, so that it does not appear between two lines of a turn.
const MARK_DELAY: Duration = Duration::from_millis(50);

/// How to attach.
pub struct Attach {
    pub from: Option<StreamStart>,
    pub output: Output,
}

pub fn run(
    args: &Attach,
    session: Value,
    client: &Client,
    global: &Global,
    out: &mut dyn Write,
) -> Outcome {
    let started = Instant::now();
    let id = id_of(&session);
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
        is_ready: false,
        mark: None,
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
            _ => {}
        }
    }
    Ok(exit::CLEAN)
}

struct Attached<'w> {
    client: Client,
    id: String,
    out: &'w mut dyn Write,
    color: bool,
    at_terminal: bool,
    /// Whether prompts can be sent: the stream is open, and its state is known.
    is_ready: bool,
    /// The mark at the start of the last line of the terminal.
    mark: Option<&'static str>,
    busy: bool,
    /// Open questions of the agent, oldest first.
    questions: Vec<Value>,
    /// Prompts that arrived during a turn. Each is sent when the turn before it has ended.
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
        find::path(&self.id, &format!("/{below}"))
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
        let mut next = receiver.recv().ok();
        while let Some(event) = next {
            match event {
                ClientEvent::Open => {
                    if let Some(sender) = input.take() {
                        // What the stream sends from here on is newer than this response.
                        let now = self.client.get(&find::path(&self.id, ""))?;
                        self.busy = now["busy"] == true;
                        self.is_ready = true;
                        read_input(sender);
                    }
                }
                ClientEvent::Frame(frame) => {
                    if let Some(code) = self.frame(&frame)? {
                        return Ok(code);
                    }
                }
                ClientEvent::Lost(failure) => return Err(failure),
                ClientEvent::Typed(line) => {
                    // The terminal has moved to the next line.
                    self.mark = None;
                    self.handle_line(line)?;
                }
                ClientEvent::Closed if self.at_terminal => {
                    self.note("detached; the session continues");
                    return self.unsent();
                }
                ClientEvent::Closed => self.is_closed = true,
                ClientEvent::Answered(..) => {}
                ClientEvent::Signal(signal) => {
                    if signal == SIGTERM || !self.at_terminal {
                        return Ok(exit_code(signal));
                    }
                    self.interrupt()?;
                }
            }
            let is_done = self.is_closed && self.has_prompted && self.waiting.is_empty();
            if is_done && !self.busy {
                return Ok(exit::CLEAN);
            }
            next = match receiver.recv_timeout(MARK_DELAY) {
                Ok(event) => Some(event),
                Err(_) => {
                    self.print_mark();
                    receiver.recv().ok()
                }
            };
        }
        Ok(exit::CLEAN)
    }

    /// Marks that the user can type: a prompt, or an answer.
    fn print_mark(&mut self) {
        let mark = match (self.questions.is_empty(), self.busy) {
            (false, _) => YOUR_ANSWER,
            (true, false) => YOUR_TURN,
            (true, true) => return,
        };
        if self.at_terminal && self.is_ready && self.mark != Some(mark) {
            self.end_mark();
            eprint!("{mark}");
            let _ = std::io::stderr().flush();
            self.mark = Some(mark);
        }
    }

    /// Leaves the line of the mark, with what the user has typed there. The terminal keeps it until
    /// Enter.
    fn end_mark(&mut self) {
        if self.mark.take().is_some() {
            eprintln!();
        }
    }

    fn note(&mut self, text: &str) {
        self.end_mark();
        eprintln!("{}", escape_output(text));
    }

    /// Reports prompts that were queued and cannot be sent any more.
    fn unsent(&mut self) -> Outcome {
        if self.waiting.is_empty() {
            return Ok(exit::CLEAN);
        }
        for prompt in std::mem::take(&mut self.waiting) {
            self.note(&format!("not sent: {prompt}"));
        }
        Ok(exit::FINDINGS)
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
                        // It was typed long before: show it where its turn begins.
                        self.typed = None;
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
            let unsent = count(self.waiting.len(), "prompt was", "prompts were");
            if self.at_terminal {
                self.unsent()?;
            }
            let what = format!("{unsent} not sent: the session ended");
            return Err(Failure::new(exit::FINDINGS, what));
        }
        Ok(match status.as_str() {
            "error" => exit::FINDINGS,
            _ => exit::CLEAN,
        })
    }

    fn line(&mut self, text: &str, paint: Option<&str>) -> Result<(), Failure> {
        self.end_mark();
        let text = escape_output(text);
        let written = match paint.filter(|_| self.color) {
            Some(paint) => writeln!(self.out, "\x1b[{paint}m{text}\x1b[0m"),
            None => writeln!(self.out, "{text}"),
        };
        written.and_then(|()| self.out.flush()).map_err(io_failure)
    }

    fn show_question(&mut self) -> Result<(), Failure> {
        let Some(asked) = self.questions.first().cloned() else {
            return Ok(());
        };
        for line in question::preview(&asked) {
            self.line(&format!("    {line}"), None)?;
        }
        for (n, option) in question::options(&asked).iter().enumerate() {
            let text = format!("  {}) {}", n + 1, question::label(option));
            self.line(&text, Some("33"))?;
        }
        if self.at_terminal {
            match question::form(&asked) {
                Some(fields) => self.note(&question::form_hint(&fields)),
                None => self.note("enter a number, or 0 to choose none of them"),
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
        match self.busy {
            true => self.queue(line),
            false => self.prompt(line),
        }
    }

    /// Keeps a prompt until the turn has ended.
    fn queue(&mut self, prompt: String) -> Result<(), Failure> {
        self.waiting.push_back(prompt);
        if self.at_terminal {
            let number = match self.waiting.len() {
                1 => String::new(),
                n => format!(" ({n} prompts wait)"),
            };
            self.note(&format!("queued until the turn ends{number}"));
        }
        Ok(())
    }

    fn answer(&mut self, asked: &Value, text: &str) -> Result<(), Failure> {
        let body = match question::answer(asked, text) {
            Ok(body) => body,
            Err(why) => {
                self.note(&why);
                return Ok(());
            }
        };
        let id = id_of(asked);
        let path = self.path(&format!("permissions/{}", percent_encode(&id)));
        let answered = self.client.post(&path, &body).map_err(for_command_line);
        if let Err(failure) = &answered
            && failure.code == exit::USAGE
        {
            // The answer does not match the form, and the question is still open.
            return answered
                .map(drop)
                .or_else(|failure| self.print_or_fail(failure));
        }
        self.questions.retain(|q| q["id"] != asked["id"]);
        answered
            .map(drop)
            .or_else(|failure| self.print_or_fail(failure))?;
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
            Err(failure) if failure.slug == Some("session_busy") => {
                self.waiting.push_front(prompt);
                self.busy = true;
                if self.at_terminal {
                    self.note("queued until the turn of another client ends");
                }
                Ok(())
            }
            // The end of the session reports it as not sent.
            Err(failure) if failure.code == exit::TEMPORARY && !self.at_terminal => {
                self.waiting.push_front(prompt);
                Ok(())
            }
            Err(failure) => self.print_or_fail(for_command_line(failure)),
        }
    }

    /// Prints an error response and continues. Fails if the host is gone.
    fn print_or_fail(&mut self, failure: Failure) -> Result<(), Failure> {
        if failure.code == exit::UNAVAILABLE && failure.slug != Some("session_ended") {
            return Err(failure);
        }
        self.note(&format!("agentproto: {}", failure.message));
        if let Some(hint) = &failure.hint {
            self.note(&format!("  {hint}"));
        }
        Ok(())
    }

    fn interrupt(&mut self) -> Result<(), Failure> {
        let path = self.path("interrupt");
        match self.client.post(&path, &json!({})) {
            Ok(answer) if answer["wasBusy"] == true => match self.waiting.len() {
                0 => self.note("interrupted the turn"),
                n => {
                    let queued = count(n, "queued prompt follows", "queued prompts follow");
                    self.note(&format!("interrupted the turn; {queued}"));
                }
            },
            Ok(_) => self.note("no turn is running; Ctrl-D detaches"),
            Err(failure) => self.print_or_fail(for_command_line(failure))?,
        }
        Ok(())
    }
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
