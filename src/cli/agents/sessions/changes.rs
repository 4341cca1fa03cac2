//! Prints what a command did to sessions, for people and for programs.

use std::io::Write;
use std::time::Instant;

use serde_json::{Value, json};

use super::find::id_of;
use crate::cli::args::Output;
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_text::escape_line;

/// A session after a change, or before one in a dry run.
pub struct Change {
    pub session: Value,
    /// For programs: `started`, `killed`, …
    pub action: &'static str,
    /// Whether this call changed something.
    pub changed: bool,
    /// For people.
    pub text: String,
}

/// Output of a command that changes sessions.
pub struct Changes<'w> {
    sink: Sink<'w>,
    started: Instant,
    dry_run: bool,
}

enum Sink<'w> {
    Human(&'w mut dyn Write),
    /// The changes so far, and whether the command takes several sessions.
    Document(&'w mut dyn Write, Vec<Value>, bool),
    Machine(Emitter<'w>),
}

impl<'w> Changes<'w> {
    /// `is_list`: the JSON document is a list, because the command takes several sessions.
    pub fn new(
        command: &str,
        output: Output,
        is_list: bool,
        dry_run: bool,
        out: &'w mut dyn Write,
    ) -> Result<Self, Failure> {
        let sink = match output {
            Output::Human => Sink::Human(out),
            Output::Json => Sink::Document(out, Vec::new(), is_list),
            Output::Jsonl => {
                let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
                emitter.meta(command).map_err(io_failure)?;
                Sink::Machine(emitter)
            }
        };
        Ok(Changes {
            sink,
            started: Instant::now(),
            dry_run,
        })
    }

    /// Reports one change at once: if a later one fails, this one was made.
    pub fn add(&mut self, change: Change) -> Result<(), Failure> {
        let written = match &mut self.sink {
            Sink::Human(out) => writeln!(out, "{}", escape_line(&change.text)),
            Sink::Document(_, all, _) => {
                all.push(fields(&change, self.dry_run));
                Ok(())
            }
            Sink::Machine(emitter) if self.dry_run => {
                let plan = json!({
                    "action": change.action,
                    "target": target(&change.session),
                    "detail": change.text,
                });
                emitter.event(EventType::Plan, &object(plan))
            }
            Sink::Machine(emitter) => {
                emitter.event(EventType::HostSession, &object(fields(&change, false)))
            }
        };
        written.map_err(io_failure)
    }

    pub fn end(self) -> Outcome {
        match self.sink {
            Sink::Human(_) => {}
            Sink::Document(out, mut all, is_list) => {
                let document = match is_list {
                    true => json!({ "sessions": all }),
                    false => all.pop().unwrap_or_default(),
                };
                let text = agentproto_text::pretty(&document).map_err(io_failure)?;
                writeln!(out, "{text}").map_err(io_failure)?;
            }
            Sink::Machine(emitter) => {
                let fields = json!({ "dry_run": self.dry_run });
                emitter
                    .summary(true, self.started.elapsed(), object(fields))
                    .map_err(io_failure)?;
            }
        }
        Ok(exit::CLEAN)
    }
}

/// The record with what was done to it.
fn fields(change: &Change, dry_run: bool) -> Value {
    let mut fields = match &change.session {
        Value::Object(fields) => fields.clone(),
        _ => Default::default(),
    };
    fields.insert("action".to_owned(), change.action.into());
    match dry_run {
        true => fields.insert("dryRun".to_owned(), true.into()),
        false => fields.insert("changed".to_owned(), change.changed.into()),
    };
    Value::Object(fields)
}

/// A plan must have a target. A session that is not started yet has no id.
fn target(session: &Value) -> String {
    match id_of(session) {
        id if id.is_empty() => session["adapterSlug"]
            .as_str()
            .unwrap_or("session")
            .to_owned(),
        id => id,
    }
}
