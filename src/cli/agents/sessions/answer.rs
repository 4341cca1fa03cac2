//! `agentproto sessions answer`: answers a question of the agent, or lists the open questions.

use std::io::Write;
use std::sync::mpsc::channel;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use super::changes::{Change, Changes};
use super::find::{self, id_of};
use super::question;
use super::stream::{ClientEvent, exit_code, follow, forward_signals};
use crate::cli::agents::client::{Client, HostOptions, StreamStart, percent_encode};
use crate::cli::agents::effects::IdempotencyArgs;
use crate::cli::args::Output;
use crate::cli::{Failure, Outcome, io_failure, signals};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_text::{escape_line, one_of};

#[derive(Args, Debug)]
pub struct AnswerQuestion {
    /// Id of the session, or a unique prefix
    #[arg(value_name = "ID")]
    pub session: String,
    /// Id of the question, or a unique prefix [default: the only open question]
    pub question: Option<String>,
    /// Choose the option with this id; without an answer, the open questions are listed
    #[arg(long, value_name = "OPTION", conflicts_with_all = ["content", "cancel"])]
    pub option: Option<String>,
    /// Answer with this JSON, which matches the schema of the question
    #[arg(long, value_name = "JSON", conflicts_with = "cancel", value_parser = content)]
    pub content: Option<Value>,
    /// Choose no option
    #[arg(long)]
    pub cancel: bool,
    /// If no question is open, wait until the agent asks or its turn ends
    #[arg(long)]
    pub wait: bool,
    #[command(flatten)]
    pub idempotency: IdempotencyArgs,
    #[command(flatten)]
    pub host: HostOptions,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

fn content(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("invalid JSON: {error}"))
}

impl AnswerQuestion {
    /// The answer as the host expects it.
    fn answer(&self) -> Option<Value> {
        match (&self.option, &self.content) {
            (Some(option), _) => Some(json!({ "optionId": option })),
            (_, Some(content)) => Some(json!({ "content": content })),
            _ => self.cancel.then(|| json!({ "cancelled": true })),
        }
    }
}

pub fn run(args: &AnswerQuestion, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let client = Client::new(&args.host)?;
    let mut session = find::one(&client, &args.session)?;
    let id = id_of(&session);
    if args.wait && open(&session).is_empty() {
        until_asked(&client, &id)?;
        session = find::record(&client, &id)?;
    }
    let Some(answer) = args.answer() else {
        return list(args, &session, started, out);
    };
    let question = named(&session, args.question.as_deref())?;
    let question_id = id_of(question);
    if let Some(option) = &args.option {
        let offered: Vec<String> = question::options(question).iter().map(id_of).collect();
        if !offered.contains(option) {
            let what = format!("question `{question_id}` has no option `{option}`");
            let failure = Failure::new(exit::USAGE, what).typed("answer_invalid");
            return Err(match offered.is_empty() {
                true => failure.hint("it has no options: answer with `--content` or `--cancel`"),
                false => failure.hint(format!("the options are {}", one_of(&offered))),
            });
        }
    }
    let path = find::path(
        &id,
        &format!("/permissions/{}", percent_encode(&question_id)),
    );
    find::request(&client, move |client| client.post(&path, &answer))?;
    let mut record = find::record(&client, &id)?;
    record["question"] = question_id.as_str().into();
    let mut changes = Changes::new("sessions answer", args.output, false, false, out)?;
    changes.add(Change {
        session: record,
        action: "answered",
        changed: true,
        text: format!("{id}: answered {question_id}"),
    })?;
    changes.end()
}

fn open(session: &Value) -> &[Value] {
    session["pendingPermissions"]
        .as_array()
        .map_or(&[], Vec::as_slice)
}

/// The question to answer: the only one, or the one that the user names.
fn named<'s>(session: &'s Value, name: Option<&str>) -> Result<&'s Value, Failure> {
    let open = open(session);
    let id = id_of(session);
    let ids: Vec<String> = open.iter().map(id_of).collect();
    let unknown = |what: String| {
        Failure::new(exit::NO_INPUT, what)
            .typed("permission_not_found")
            .hint(format!(
                "`agentproto sessions answer {id}` lists the open questions"
            ))
    };
    let Some(name) = name else {
        return match open {
            [] => Err(unknown(format!("session `{id}` has no open question"))),
            [question] => Ok(question),
            _ => {
                let what = format!("session `{id}` has {} open questions", open.len());
                Err(Failure::new(exit::USAGE, what)
                    .typed("question_ambiguous")
                    .hint(format!("name one of them: {}", one_of(&ids))))
            }
        };
    };
    if let Some(at) = ids.iter().position(|known| known == name) {
        return Ok(&open[at]);
    }
    let mut matching = open.iter().filter(|q| id_of(q).starts_with(name));
    match (matching.next(), matching.next()) {
        (Some(question), None) if !name.is_empty() => Ok(question),
        (Some(_), Some(_)) => {
            let what = format!("several open questions start with `{name}`");
            Err(Failure::new(exit::USAGE, what)
                .typed("question_ambiguous")
                .hint(format!("name one of them: {}", one_of(&ids))))
        }
        _ => Err(unknown(format!(
            "session `{id}` has no open question `{name}`"
        ))),
    }
}

/// Waits until the session has an open question, or cannot have one.
fn until_asked(client: &Client, id: &str) -> Result<(), Failure> {
    let (sender, receiver) = channel();
    forward_signals(sender.clone())?;
    follow(client.clone(), id.to_owned(), StreamStart::Now, sender);
    let waited = loop {
        match receiver.recv() {
            Ok(ClientEvent::Frame(frame))
                if !matches!(frame.event.as_str(), "permission" | "status" | "end") => {}
            Ok(ClientEvent::Open | ClientEvent::Frame(_)) => {
                let record = client
                    .get(&find::path(id, ""))
                    .map_err(find::for_command_line)?;
                if !open(&record).is_empty() || record["busy"] != true {
                    break Ok(());
                }
            }
            Ok(ClientEvent::Lost(failure)) => break Err(find::for_command_line(failure)),
            Ok(ClientEvent::Signal(signal)) => {
                break Err(Failure::interrupted(exit_code(signal)));
            }
            Ok(_) => {}
            Err(_) => break Err(Failure::new(exit::INTERNAL, "the stream ended early")),
        }
    };
    signals::watch();
    waited
}

fn list(args: &AnswerQuestion, session: &Value, started: Instant, out: &mut dyn Write) -> Outcome {
    let questions = match &args.question {
        Some(_) => vec![named(session, args.question.as_deref())?.clone()],
        None => open(session).to_vec(),
    };
    match args.output {
        Output::Json => {
            let document = json!({ "id": session["id"], "questions": questions });
            let text = agentproto_text::pretty(&document).map_err(io_failure)?;
            writeln!(out, "{text}").map_err(io_failure)?;
        }
        Output::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta("sessions answer").map_err(io_failure)?;
            for question in questions {
                emitter
                    .event(EventType::AgentPrompt, &object(question))
                    .map_err(io_failure)?;
            }
            let fields = object(json!({ "session_id": session["id"] }));
            emitter
                .summary(true, started.elapsed(), fields)
                .map_err(io_failure)?;
        }
        Output::Human if questions.is_empty() => {
            writeln!(out, "no open questions").map_err(io_failure)?;
        }
        Output::Human => {
            let text: Vec<String> = questions.iter().map(shown).collect();
            write!(out, "{}", text.join("\n")).map_err(io_failure)?;
        }
    }
    Ok(exit::CLEAN)
}

/// A question as people see it: its id, message, tool call, options and schema.
fn shown(question: &Value) -> String {
    let message = question["message"].as_str().unwrap_or_default();
    let mut text = format!(
        "{}: {}\n",
        escape_line(&id_of(question)),
        escape_line(message)
    );
    if let Some(name) = question["tool"]["name"].as_str() {
        text.push_str(&format!("  tool: {}\n", escape_line(name)));
    }
    for line in question::preview(question) {
        text.push_str(&format!("    {}\n", escape_line(&line)));
    }
    for option in question::options(question) {
        text.push_str(&format!(
            "  --option {}  {}\n",
            escape_line(&id_of(option)),
            escape_line(question::label(option))
        ));
    }
    if let Some(schema) = question.get("schema") {
        text.push_str(&format!(
            "  --content JSON with the schema {}\n",
            escape_line(&schema.to_string())
        ));
    }
    text
}
