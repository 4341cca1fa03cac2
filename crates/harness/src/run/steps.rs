//! Executes the steps of a case.

use std::time::Duration;

use serde_json::{Value, json};

use super::case::{CaseRunner, MAX_TEXT_BYTES, NoVerdict, RequiredResponse, StepResult};
use super::connection::{NoResponse, ReceivedMessage};
use super::messaging::is_update;
use super::recorder::McpRecorder;
use crate::monitor::session_of;
use crate::suite::{CaseStep, Expectation, StartState, StepKind};
use agentproto_wire::{Direction, MessageKind};

impl CaseRunner<'_> {
    pub(super) async fn steps(&mut self, steps: &[CaseStep]) -> StepResult {
        for step in steps {
            Box::pin(self.step(step)).await?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &CaseStep) -> StepResult {
        match &step.kind {
            StepKind::Call(request, expect) => {
                let name = self.send(request).await?;
                let taken = match request.takes_errors {
                    true => RequiredResponse::Answer,
                    false => RequiredResponse::Result,
                };
                self.receive(&name, &request.method, request.within, expect, taken)
                    .await
            }
            StepKind::Send(request) => self.send(request).await.map(|_| ()),
            StepKind::Receive { of, within, expect } => {
                self.receive(of, of, *within, expect, RequiredResponse::Result)
                    .await
            }
            StepKind::Notify { method, params } => {
                let params = self.fill(params)?;
                self.notify(method, params).await
            }
            StepKind::Raw(pieces) => {
                for piece in pieces {
                    self.write(piece).await?;
                }
                Ok(())
            }
            StepKind::Message(template) => {
                let message = self.fill(template)?;
                self.send_message(&message).await
            }
            StepKind::Answer { of, with, then } => {
                let id = self
                    .bindings
                    .resolve(&format!("${of}/id"))
                    .map(|(id, _)| id.clone());
                let Some(id) = id else {
                    return Err(NoVerdict::Error(format!("${of} is not a request")).into());
                };
                let mut message = self.fill(with)?;
                if let Some(members) = message.as_object_mut() {
                    members.insert("jsonrpc".to_owned(), json!("2.0"));
                    members.insert("id".to_owned(), id.clone());
                }
                let services = &mut self.connection()?.services;
                services.no_longer_held(&id);
                if let Some(then) = then {
                    services.answers.permission = *then;
                }
                self.send_message(&message).await
            }
            StepKind::WaitFor(wait) => self.wait_for(wait).await,
            StepKind::Quiet { time, name } => {
                let time = time.unwrap_or(self.config.quiet);
                let received = self.connection()?.listen(time).await;
                self.outcome.waits += time;
                if let Some(name) = name {
                    let lines = received.iter().map(|m| m.line).collect();
                    let values: Vec<Value> = received.iter().map(|m| (*m.json).clone()).collect();
                    self.bindings.bind(name, json!(values), lines);
                    self.message_lists.insert(name.clone());
                }
                Ok(())
            }
            StepKind::Expect(expect) => self.check(None, expect),
            StepKind::Turn(prompt, expect) => {
                self.prompt(prompt).await?;
                let (name, within) = (&prompt.name, prompt.within);
                self.receive(
                    name,
                    "session/prompt",
                    within,
                    expect,
                    RequiredResponse::Result,
                )
                .await
            }
            StepKind::Prompt(prompt) => self.prompt(prompt).await,
            StepKind::Cancel => self.cancel().await,
            StepKind::Updates {
                session,
                since,
                name,
            } => {
                let from = self.sent_at(since.as_deref());
                let session = self.fill(session)?;
                let session = session.as_str().unwrap_or_default().to_owned();
                let inbox = &self.connection()?.inbox;
                let mut lines = Vec::new();
                let mut values = Vec::new();
                for message in inbox {
                    if message.line > from
                        && is_update(message)
                        && session_of(&message.json) == Some(&session)
                    {
                        lines.push(message.line);
                        values.push(message.json["params"]["update"].clone());
                    }
                }
                self.bindings.bind(name, json!(values), lines);
                self.message_lists.insert(name.clone());
                Ok(())
            }
            StepKind::Bind { name, value, times } => {
                let mut filled = self.fill(value)?;
                if let (Value::String(text), 2..) = (&filled, *times) {
                    let times = usize::try_from(*times).unwrap_or(1);
                    let room = MAX_TEXT_BYTES / text.len().max(1);
                    filled = json!(text.repeat(times.min(room)));
                }
                let lines = self.bindings.lines_of(value);
                self.bindings.bind(name, filled, lines);
                self.message_lists.remove(name);
                Ok(())
            }
            StepKind::Collect { value, into } => {
                let filled = self.fill(value)?;
                let (mut list, mut lines) = match self.bindings.get(into) {
                    Some(bound) => (bound.value.clone(), bound.lines.clone()),
                    None => (json!([]), Vec::new()),
                };
                lines.extend(self.bindings.lines_of(value));
                if let Some(items) = list.as_array_mut() {
                    items.push(filled);
                }
                self.bindings.bind(into, list, lines);
                Ok(())
            }
            StepKind::NewSession { params, name } => self.open_session(params, name).await,
            StepKind::Restart { begin, client } => {
                if client.is_some() {
                    self.client.clone_from(client);
                }
                self.end_for_restart().await;
                self.bindings
                    .bind("killed", json!(self.was_killed), Vec::new());
                self.start_process().await?;
                if *begin == StartState::Process {
                    return Ok(());
                }
                self.initialize().await?;
                if self.is_logged_in {
                    self.log_in().await?;
                }
                Ok(())
            }
            StepKind::EndInput => {
                self.connection()?.close_input();
                Ok(())
            }
            StepKind::Signal(number) => {
                self.connection()?.signal(*number);
                Ok(())
            }
            StepKind::Exit { within, expect } => {
                let within = within.unwrap_or(self.config.timeout);
                let connection = self.connection()?;
                let exit = connection.wait_for_exit(within).await;
                let last = connection.transcript.last();
                if let Err(no_response @ NoResponse::Starved(..)) = &exit {
                    let why = format!("the agent did not exit: {no_response}");
                    return Err(NoVerdict::NotVerified(why).into());
                }
                let value = exit.unwrap_or(Value::Null);
                self.bindings.bind("exit", value, vec![last]);
                self.check(None, expect)
            }
            StepKind::Alive => self.alive().await,
            StepKind::ForEach { list, name, steps } => {
                let lines = match list.as_str().and_then(|path| self.bindings.resolve(path)) {
                    Some((_, lines)) => lines.to_vec(),
                    None => Vec::new(),
                };
                let of = list.as_str().and_then(|path| path.strip_prefix('$'));
                let has_own_lines = of.is_some_and(|of| self.message_lists.contains(of));
                let list = self.fill(list)?;
                let items = list.as_array().map_or(&[][..], Vec::as_slice);
                for (at, item) in items.iter().enumerate() {
                    let own = lines.get(at).filter(|_| has_own_lines);
                    let lines = own.map_or_else(|| lines.clone(), |line| vec![*line]);
                    self.bindings.bind(name, item.clone(), lines);
                    self.steps(steps).await?;
                }
                Ok(())
            }
            StepKind::Repeat { times, steps } => {
                for round in 0..*times {
                    self.bindings.bind("round", json!(round), Vec::new());
                    self.steps(steps).await?;
                }
                Ok(())
            }
            StepKind::When { that, steps } => {
                let holds = |expect: &Expectation| expect.check(None, &self.bindings).is_ok();
                match that.iter().all(holds) {
                    true => self.steps(steps).await,
                    false => Ok(()),
                }
            }
            StepKind::Directory(name) => {
                self.directories += 1;
                let path = self.directory(&format!("{name}-{}", self.directories))?;
                self.bindings.bind(name, json!(path), Vec::new());
                Ok(())
            }
            StepKind::WriteFile { path, text } => {
                let path = self.own_path(path)?;
                let text = self.fill(text)?;
                let written = std::fs::write(&path, text.as_str().unwrap_or_default());
                written.map_err(|e| NoVerdict::Error(format!("{}: {e}", path.display())).into())
            }
            StepKind::ReadFile { path, name } => {
                let path = self.own_path(path)?;
                // A missing file is bound as null.
                let text = std::fs::read(&path).ok();
                let text = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                self.bindings.bind(name, json!(text), Vec::new());
                Ok(())
            }
            StepKind::Recorder {
                name,
                transport,
                env,
                args,
            } => {
                let (env, args) = (self.fill(env)?, self.fill(args)?);
                let recorder = McpRecorder::new(name, transport, &env, &args, &self.root).await;
                let recorder = recorder.map_err(NoVerdict::Error)?;
                self.bindings.bind(name, recorder.descriptor(), Vec::new());
                self.recorders.insert(name.clone(), recorder);
                Ok(())
            }
            StepKind::Recorded { of, name, within } => {
                let within = within.unwrap_or(self.config.timeout);
                let Some(recorder) = self.recorders.get(of) else {
                    return Err(NoVerdict::Error(format!("unknown recorder `{of}`")).into());
                };
                // Keep reading meanwhile: the agent may send requests.
                let mut record = recorder.record();
                let connection = self.connection.as_mut().filter(|_| record.is_null());
                if let Some(connection) = connection {
                    let mut limit = connection.time_limit(within);
                    while record.is_null() && !limit.is_over() {
                        let pause = Duration::from_millis(20);
                        connection.listen(pause).await;
                        self.outcome.agent += pause;
                        if connection.is_over() {
                            tokio::time::sleep(pause).await;
                        }
                        record = recorder.record();
                    }
                    if record.is_null()
                        && let no_response @ NoResponse::Starved(..) =
                            connection.timed_out(&limit, within)
                    {
                        let why = format!("the MCP server was not started: {no_response}");
                        return Err(NoVerdict::NotVerified(why).into());
                    }
                }
                self.bindings.bind(name, record, Vec::new());
                Ok(())
            }
            StepKind::Model { name } => {
                let tag = self.tag();
                let model = self.config.model.as_ref();
                let asked = model.map(|model| model.requests(&tag));
                self.bindings
                    .bind(name, asked.unwrap_or(Value::Null), Vec::new());
                Ok(())
            }
            StepKind::Messages {
                method,
                since,
                name,
            } => {
                let from = self.sent_at(since.as_deref());
                let fits = |m: &&ReceivedMessage| match (&m.kind, method) {
                    (_, None) => true,
                    (
                        MessageKind::Request { method, .. } | MessageKind::Notification { method },
                        Some(wanted),
                    ) => method == wanted,
                    _ => false,
                };
                let inbox = self.connection()?.inbox.iter();
                let found: Vec<&ReceivedMessage> =
                    inbox.filter(|m| m.line > from).filter(fits).collect();
                let lines = found.iter().map(|m| m.line).collect();
                let values: Vec<Value> = found.iter().map(|m| (*m.json).clone()).collect();
                self.bindings.bind(name, json!(values), lines);
                self.message_lists.insert(name.clone());
                Ok(())
            }
            StepKind::AgentText {
                session,
                since,
                name,
            } => {
                let from = self.sent_at(since.as_deref());
                let session = self.fill(session)?;
                let mut text = String::new();
                let mut lines = Vec::new();
                for message in &self.connection()?.inbox {
                    let update = message.json.pointer("/params/update");
                    let chunk = update.filter(|update| {
                        let kind = update.get("sessionUpdate").and_then(Value::as_str);
                        message.line > from
                            && kind == Some("agent_message_chunk")
                            && message.json.pointer("/params/sessionId") == Some(&session)
                    });
                    let words = chunk.and_then(|chunk| chunk.pointer("/content/text"));
                    if let Some(words) = words.and_then(Value::as_str) {
                        text.push_str(words);
                        lines.push(message.line);
                    }
                }
                self.bindings.bind(name, json!(text), lines);
                Ok(())
            }
            StepKind::Stderr { name } => {
                let transcript = &self.connection()?.transcript;
                let received = transcript
                    .lines()
                    .filter(|l| l.direction == Direction::Stderr);
                let received: Vec<(u64, String)> = received.map(|l| (l.number, l.text())).collect();
                let lines = received.iter().map(|(line, _)| *line).collect();
                let texts: Vec<&String> = received.iter().map(|(_, text)| text).collect();
                self.bindings.bind(name, json!(texts), lines);
                Ok(())
            }
            StepKind::LogIn => match self.log_in().await? {
                true => Ok(()),
                false => {
                    let why = "no login succeeded: pass a method with --auth-method";
                    Err(NoVerdict::NotVerified(why.to_owned()).into())
                }
            },
            // Only `lifecycle::run_case` and `sessions::run_case` can run probes.
            StepKind::Probe(name) => Err(NoVerdict::Error(format!(
                "the probe `{name}` is not allowed in this suite"
            ))
            .into()),
            StepKind::NotVerified(why) => {
                Err(NoVerdict::NotVerified(self.fill_message(why)).into())
            }
            StepKind::NotApplicable(why) => {
                Err(NoVerdict::NotApplicable(self.fill_message(why)).into())
            }
        }
    }
}
