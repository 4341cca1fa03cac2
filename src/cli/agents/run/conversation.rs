//! `run --conversation`: one turn in a process that the daemon keeps (A45-CONT-04). The first turn
//! of a conversation starts the process, and later turns use it again.

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::chosen::{choices, mcp_server_json};
use super::output::RunOutput;
use super::questions::{Questions, ask};
use super::{Run, RunEnd, message, permissions};
use crate::cli::Failure;
use crate::cli::agents::client::{Client, Frame, HostOptions, StreamStart, percent_encode};
use crate::cli::agents::exit_codes;
use crate::cli::agents::notes::Signals;
use crate::exit;
use agentproto_runtime::arm::permissions::{Answer, Permissions};
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::choices::{OptionValue, Strategy};
use agentproto_runtime::home::Home;
use agentproto_runtime::{Choice, Code, Decision, Error, StreamEvent};

/// A session of the daemon.
struct Conversation {
    client: Client,
    id: String,
}

/// Runs a blocking request next to the events.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::new(exit::INTERNAL, error.to_string())))
}

impl Conversation {
    async fn post(&self, path: &str, body: Value) -> Result<Value, Failure> {
        let path = format!("/sessions/{}/{path}", percent_encode(&self.id));
        let client = self.client.clone();
        blocking(move || client.post(&path, &body)).await
    }

    /// Follows the session from now on.
    async fn follow(&self) -> Result<mpsc::UnboundedReceiver<Frame>, Failure> {
        let (client, id) = (self.client.clone(), self.id.clone());
        let mut frames = blocking(move || client.stream(&id, None, StreamStart::Now)).await?;
        let (sender, receiver) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            while let Some(frame) = frames.next() {
                if sender.send(frame).is_err() {
                    return;
                }
            }
        });
        Ok(receiver)
    }

    /// The agent's own id of the session.
    async fn agent_session(&self) -> Option<String> {
        let path = format!("/sessions/{}", percent_encode(&self.id));
        let client = self.client.clone();
        let record = blocking(move || client.get(&path)).await.ok()?;
        record["agentSessionId"].as_str().map(str::to_owned)
    }

    async fn answer(&self, question: &str, answer: Answer) -> Result<(), Failure> {
        let body = match answer {
            Answer::Choice(id) => json!({ "optionId": id }),
            Answer::Content(content) => json!({ "content": content }),
            Answer::Declined | Answer::Cancelled => json!({ "cancelled": true }),
        };
        let path = format!("permissions/{}", percent_encode(question));
        match self.post(&path, body).await {
            // Another client was faster.
            Err(failure) if failure.code == exit::NO_INPUT => Ok(()),
            answered => answered.map(drop),
        }
    }
}

/// The request for the session of a conversation. A new one is started if none is alive.
fn request(args: &Run, name: &str) -> Result<Value, Failure> {
    if args.target.contains('/') || args.target.ends_with(".md") {
        let what = format!(
            "`--conversation` needs an adapter's name, but `{}` is a path: the daemon runs adapters only",
            args.target
        );
        let hint = "move the bundle to $AGENTPROTO_HOME/adapters, or start the daemon with `--adapters DIR`";
        return Err(Failure::new(exit::USAGE, what)
            .typed(Code::ContinuationUnsupported.as_str())
            .hint(hint));
    }
    let choices = choices(args)?;
    let strategy = choices.continuation.as_deref();
    if strategy.is_some_and(|given| given != Strategy::PinnedSession.as_str()) {
        let what = format!(
            "`--conversation` needs the continuation `pinned-session`, but `{}` is selected",
            strategy.unwrap_or_default()
        );
        return Err(Error::new(Code::ContinuationUnsupported, what)
            .hint("remove `--conversation`, or the other continuation")
            .into());
    }
    let cwd = args.cwd.clone().unwrap_or_else(|| ".".into());
    let cwd = cwd.canonicalize().map_err(|error| {
        let what = format!(
            "cannot use the working directory `{}`: {error}",
            cwd.display()
        );
        Error::new(Code::TargetUnknown, what).hint("name an existing directory with `--cwd`")
    })?;
    let options = option_values(&args.target, choices.options)?;
    let mut servers = Vec::new();
    for given in &args.mcp_server {
        servers.push(mcp_server_json(given)?);
    }
    let mut body = json!({
        "adapter": args.target, "cwd": cwd, "conversation": name, "mode": choices.mode,
        "model": choices.model, "options": options, "mcpServers": servers,
        "continuation": Strategy::PinnedSession.as_str(),
    });
    if let Some(operator) = &args.operator {
        body["operator"] = operator.to_string_lossy().into();
    }
    Ok(body)
}

/// Values of options for the daemon, which expects the option's type. On the command line they are
/// text.
pub fn option_values(
    adapter: &str,
    options: impl IntoIterator<Item = (String, OptionValue)>,
) -> Result<Map<String, Value>, Failure> {
    let bundle = Bundle::discover(adapter, &[], &Home::from_env()?).ok();
    let kind = |id: &str| {
        let agent = bundle.as_ref()?.agent()?;
        let mut options = agent.options();
        let option = options.find(|option| option.id() == Some(id))?;
        option.kind().map(str::to_owned)
    };
    let value = |id: &str, value| match value {
        OptionValue::Typed(value) => value,
        OptionValue::Text(text) => match kind(id).as_deref() {
            Some("boolean" | "integer") => serde_json::from_str(&text).unwrap_or(text.into()),
            _ => text.into(),
        },
    };
    let typed = options.into_iter().map(|(id, given)| {
        let value = value(&id, given);
        (id, value)
    });
    Ok(typed.collect())
}

pub async fn run(args: &Run, name: &str, output: &mut dyn RunOutput) -> Result<RunEnd, Failure> {
    let mut signals = Signals::new();
    let interrupted = |code| RunEnd {
        interrupted: Some(code),
        ..RunEnd::default()
    };
    let reading = message(args);
    let message = tokio::select! {
        biased;
        code = signals.next() => return Ok(interrupted(code)),
        message = reading => message?,
    };
    let body = request(args, name)?;
    let client = Client::new(&HostOptions::default())?;
    let starting = {
        let client = client.clone();
        blocking(move || client.post("/sessions/agent", &body))
    };
    let session = tokio::select! {
        biased;
        code = signals.next() => return Ok(interrupted(code)),
        session = starting => session?,
    };
    let id = session["id"].as_str().unwrap_or_default().to_owned();
    let conversation = Conversation { client, id };
    let mut frames = conversation.follow().await?;
    conversation
        .post("prompt", json!({ "prompt": message }))
        .await?;
    let mut ended = RunEnd::default();
    let turn = turn(
        args,
        &conversation,
        &mut frames,
        &mut signals,
        output,
        &mut ended,
    )
    .await;
    ended.session = conversation.agent_session().await;
    turn.map(|()| ended)
}

async fn turn(
    args: &Run,
    conversation: &Conversation,
    frames: &mut mpsc::UnboundedReceiver<Frame>,
    signals: &mut Signals,
    output: &mut dyn RunOutput,
    ended: &mut RunEnd,
) -> Result<(), Failure> {
    let (answers, mut answered) = mpsc::unbounded_channel::<(String, Answer)>();
    let mut questions = Questions::default();
    let mut open: Vec<String> = Vec::new();
    let mut is_started = false;
    loop {
        if let Some(question) = questions.next(|id| open.iter().any(|known| known == id)) {
            output.event(&question)?;
            if let StreamEvent::AgentPrompt {
                id,
                options,
                schema,
                ..
            } = question
            {
                let answers = answers.clone();
                ask(id, options, schema, move |answer| {
                    let _ = answers.send(answer);
                });
            }
        }
        let frame = tokio::select! {
            biased;
            code = signals.next() => {
                if ended.interrupted.replace(code).is_some() {
                    return Ok(());
                }
                conversation.post("interrupt", json!({})).await?;
                continue;
            }
            Some((id, answer)) = answered.recv() => {
                questions.answered();
                conversation.answer(&id, answer).await?;
                continue;
            }
            frame = frames.recv() => frame,
        };
        let Some(frame) = frame else {
            return Err(
                Failure::new(exit::UNAVAILABLE, "the connection to the daemon broke off")
                    .typed("host_unavailable")
                    .hint("`agentproto sessions` shows what became of the turn"),
            );
        };
        match frame.event.as_str() {
            "prompt" => is_started = true,
            "permission" if frame.data["closed"] == true => {
                open.retain(|id| frame.data["id"] != **id);
            }
            "permission" if is_started => {
                let question = question(&frame.data);
                let StreamEvent::AgentPrompt {
                    id,
                    options,
                    schema,
                    ..
                } = &question
                else {
                    continue;
                };
                open.push(id.clone());
                match decide(args, options, schema.is_some()) {
                    None => questions.add(question),
                    Some(Ok(answer)) => conversation.answer(id, answer).await?,
                    Some(Err(error)) => {
                        conversation.post("interrupt", json!({})).await?;
                        return Err(error.into());
                    }
                }
            }
            "event" if is_started => {
                let Ok(mut event) = serde_json::from_value::<StreamEvent>(frame.data) else {
                    continue;
                };
                if let StreamEvent::AgentPrompt { decision, .. } = &mut event {
                    // The daemon leaves the decision to this command.
                    *decision = decision.take().or(policy(args).map(str::to_owned));
                    ended.denied += u32::from(decision.as_deref() == Some("deny"));
                }
                match &event {
                    StreamEvent::TurnEnd { .. } => {
                        ended.note_end(&event);
                        ended.session = conversation.agent_session().await;
                        output.opened(ended.session.as_deref().unwrap_or(&conversation.id));
                    }
                    StreamEvent::Error { code, .. } => {
                        let known = code.parse::<Code>();
                        ended.error_exit = Some(known.map_or(exit::FINDINGS, exit_codes::of));
                    }
                    // Shown when the user is asked.
                    StreamEvent::AgentPrompt { decision: None, .. } if output.can_ask() => continue,
                    _ => {}
                }
                output.event(&event)?;
                if event.is_last() {
                    return Ok(());
                }
            }
            "end" => {
                return Err(
                    Failure::new(exit::UNAVAILABLE, "the session ended before its turn")
                        .typed(Code::AgentExited.as_str())
                        .hint("`agentproto sessions` shows why"),
                );
            }
            _ => {}
        }
    }
}

/// A question as the host sends it.
pub fn question(data: &Value) -> StreamEvent {
    let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
    StreamEvent::AgentPrompt {
        id: text("id"),
        message: text("message"),
        options: serde_json::from_value(data["options"].clone()).unwrap_or_default(),
        schema: data.get("schema").cloned(),
        tool: data.get("tool").cloned(),
        decision: None,
    }
}

/// What `--permissions` decides about every request.
fn policy(args: &Run) -> Option<&'static str> {
    match permissions(args) {
        Permissions::Ask => None,
        Permissions::Allow => Some(Decision::Allow.into()),
        Permissions::Deny | Permissions::Rules(_) => Some(Decision::Deny.into()),
    }
}

/// The answer of `--permissions`, or `None` if the user is asked.
fn decide(args: &Run, options: &[Choice], is_form: bool) -> Option<Result<Answer, Error>> {
    let pick = |start: &str| {
        let of = |option: &&Choice| option.kind.as_deref().is_some_and(|k| k.starts_with(start));
        let found = options.iter().find(of);
        found.map(|option| Answer::Choice(option.id.clone()))
    };
    match permissions(args) {
        Permissions::Ask => None,
        Permissions::Allow => Some(match pick("allow") {
            Some(answer) => Ok(answer),
            None if is_form => Ok(pick("reject").unwrap_or(Answer::Cancelled)),
            None => {
                let what = "the agent asks for permission, but no option allows it";
                let hint = "answer yourself with `--permissions ask`";
                Err(Error::new(Code::NoAcceptableOption, what).hint(hint))
            }
        }),
        Permissions::Deny | Permissions::Rules(_) => {
            Some(Ok(pick("reject").unwrap_or(Answer::Cancelled)))
        }
    }
}
