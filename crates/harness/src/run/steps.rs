//! Executes the steps of a case.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::case::{Blocked, Demand, LONGEST_TEXT, Player, Step1};
use super::connection::Received;
use super::recorder::Recorder;
use super::talk::is_update;
use crate::monitor::session_of;
use crate::suite::{Begin, Expect, Step, What};
use agentproto_wire::{Direction, Kind};

impl Player<'_> {
    pub(super) async fn steps(&mut self, steps: &[Step]) -> Step1 {
        for step in steps {
            Box::pin(self.step(step)).await?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Step1 {
        match &step.what {
            What::Call(request, expect) => {
                let name = self.send(request).await?;
                let taken = match request.takes_errors {
                    true => Demand::Answer,
                    false => Demand::Result,
                };
                self.receive(&name, &request.method, request.within, expect, taken)
                    .await
            }
            What::Send(request) => self.send(request).await.map(|_| ()),
            What::Receive { of, within, expect } => {
                self.receive(of, of, *within, expect, Demand::Result).await
            }
            What::Notify { method, params } => {
                let params = self.fill(params)?;
                self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
                    .await
            }
            What::Raw(pieces) => {
                for piece in pieces {
                    self.write(piece).await?;
                }
                Ok(())
            }
            What::Message(template) => {
                let message = self.fill(template)?;
                self.say(&message).await
            }
            What::Answer { of, with } => {
                let id = self
                    .known
                    .look(&format!("${of}/id"))
                    .map(|(id, _)| id.clone());
                let Some(id) = id else {
                    return Err(Blocked::Error(format!("${of} is not a request")).into());
                };
                let mut message = self.fill(with)?;
                if let Some(members) = message.as_object_mut() {
                    members.insert("jsonrpc".to_owned(), json!("2.0"));
                    members.insert("id".to_owned(), id.clone());
                }
                self.connection()?.services.no_longer_held(&id);
                self.say(&message).await
            }
            What::WaitFor(wait) => self.wait_for(wait).await,
            What::Quiet { time, name } => {
                let time = time.unwrap_or(self.setting.quiet);
                let heard = self.connection()?.listen(time).await;
                self.played.waits += time;
                if let Some(name) = name {
                    let lines = heard.iter().map(|m| m.line).collect();
                    let values: Vec<Value> = heard.iter().map(|m| (*m.json).clone()).collect();
                    self.known.bind(name, json!(values), lines);
                }
                Ok(())
            }
            What::Expect(expect) => self.judge(None, expect),
            What::Turn(prompt, expect) => {
                self.prompt(prompt).await?;
                let (name, within) = (&prompt.name, prompt.within);
                self.receive(name, "session/prompt", within, expect, Demand::Result)
                    .await
            }
            What::Prompt(prompt) => self.prompt(prompt).await,
            What::Cancel => self.cancel().await,
            What::Updates {
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
                self.known.bind(name, json!(values), lines);
                Ok(())
            }
            What::Bind { name, value, times } => {
                let mut filled = self.fill(value)?;
                if let (Value::String(text), 2..) = (&filled, *times) {
                    let times = usize::try_from(*times).unwrap_or(1);
                    let room = LONGEST_TEXT / text.len().max(1);
                    filled = json!(text.repeat(times.min(room)));
                }
                let lines = match value.as_str().and_then(|path| self.known.look(path)) {
                    Some((_, lines)) => lines.to_vec(),
                    None => Vec::new(),
                };
                self.known.bind(name, filled, lines);
                Ok(())
            }
            What::Collect { value, into } => {
                let filled = self.fill(value)?;
                let (mut list, mut lines) = match self.known.get(into) {
                    Some(bound) => (bound.value.clone(), bound.lines.clone()),
                    None => (json!([]), Vec::new()),
                };
                if let Some((_, more)) = value.as_str().and_then(|path| self.known.look(path)) {
                    lines.extend(more);
                }
                if let Some(items) = list.as_array_mut() {
                    items.push(filled);
                }
                self.known.bind(into, list, lines);
                Ok(())
            }
            What::NewSession { params, name } => self.open_session(params, name).await,
            What::Restart { begin, client } => {
                if client.is_some() {
                    self.client.clone_from(client);
                }
                self.hang_up().await;
                self.start_process().await?;
                if *begin == Begin::Process {
                    return Ok(());
                }
                self.initialize().await?;
                if self.is_logged_in {
                    self.log_in().await?;
                }
                Ok(())
            }
            What::EndInput => {
                self.connection()?.close_input();
                Ok(())
            }
            What::Signal(number) => {
                self.connection()?.signal(*number);
                Ok(())
            }
            What::Exit { within, expect } => {
                let within = within.unwrap_or(self.setting.timeout);
                let connection = self.connection()?;
                let exit = connection.ended(within).await;
                let last = connection.transcript.last();
                let value = exit.unwrap_or(Value::Null);
                self.known.bind("exit", value, vec![last]);
                self.judge(None, expect)
            }
            What::Alive => self.alive().await,
            What::ForEach { list, name, steps } => {
                let lines = match list.as_str().and_then(|path| self.known.look(path)) {
                    Some((_, lines)) => lines.to_vec(),
                    None => Vec::new(),
                };
                let list = self.fill(list)?;
                for item in list.as_array().into_iter().flatten() {
                    self.known.bind(name, item.clone(), lines.clone());
                    self.steps(steps).await?;
                }
                Ok(())
            }
            What::Repeat { times, steps } => {
                for round in 0..*times {
                    self.known.bind("round", json!(round), Vec::new());
                    self.steps(steps).await?;
                }
                Ok(())
            }
            What::When { that, steps } => {
                let holds = |expect: &Expect| expect.check(None, &self.known).is_ok();
                match that.iter().all(holds) {
                    true => self.steps(steps).await,
                    false => Ok(()),
                }
            }
            What::Directory(name) => {
                self.directories += 1;
                let path = self.directory(&format!("{name}-{}", self.directories))?;
                self.known.bind(name, json!(path), Vec::new());
                Ok(())
            }
            What::WriteFile { path, text } => {
                let path = self.own_path(path)?;
                let text = self.fill(text)?;
                let written = std::fs::write(&path, text.as_str().unwrap_or_default());
                written.map_err(|e| Blocked::Error(format!("{}: {e}", path.display())).into())
            }
            What::ReadFile { path, name } => {
                let path = self.own_path(path)?;
                // A missing file is bound as null.
                let text = std::fs::read(&path).ok();
                let text = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                self.known.bind(name, json!(text), Vec::new());
                Ok(())
            }
            What::Recorder {
                name,
                transport,
                env,
                args,
            } => {
                let (env, args) = (self.fill(env)?, self.fill(args)?);
                let recorder = Recorder::new(name, transport, &env, &args, &self.root).await;
                let recorder = recorder.map_err(Blocked::Error)?;
                self.known.bind(name, recorder.descriptor(), Vec::new());
                self.recorders.insert(name.clone(), recorder);
                Ok(())
            }
            What::Recorded { of, name, within } => {
                let within = within.unwrap_or(self.setting.timeout);
                let Some(recorder) = self.recorders.get(of) else {
                    return Err(Blocked::Error(format!("unknown recorder `{of}`")).into());
                };
                // Keep reading meanwhile: the agent may send requests.
                let until = Instant::now() + within;
                let mut record = recorder.record();
                while record.is_null() && Instant::now() < until {
                    let pause = Duration::from_millis(20);
                    if let Some(connection) = &mut self.connection {
                        connection.listen(pause).await;
                        self.played.agent += pause;
                        if connection.is_over() {
                            tokio::time::sleep(pause).await;
                        }
                    }
                    record = recorder.record();
                }
                self.known.bind(name, record, Vec::new());
                Ok(())
            }
            What::Model { name } => {
                let tag = self.tag();
                let model = self.setting.model.as_ref();
                let asked = model.map(|model| model.asked(&tag));
                self.known
                    .bind(name, asked.unwrap_or(Value::Null), Vec::new());
                Ok(())
            }
            What::Messages {
                method,
                since,
                name,
            } => {
                let from = self.sent_at(since.as_deref());
                let fits = |m: &&Received| match (&m.kind, method) {
                    (_, None) => true,
                    (
                        Kind::Request { method, .. } | Kind::Notification { method },
                        Some(wanted),
                    ) => method == wanted,
                    _ => false,
                };
                let inbox = self.connection()?.inbox.iter();
                let found: Vec<&Received> = inbox.filter(|m| m.line > from).filter(fits).collect();
                let lines = found.iter().map(|m| m.line).collect();
                let values: Vec<Value> = found.iter().map(|m| (*m.json).clone()).collect();
                self.known.bind(name, json!(values), lines);
                Ok(())
            }
            What::Said {
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
                self.known.bind(name, json!(text), lines);
                Ok(())
            }
            What::Stderr { name } => {
                let transcript = &self.connection()?.transcript;
                let heard = transcript
                    .lines()
                    .filter(|l| l.direction == Direction::Stderr);
                let heard: Vec<(u64, String)> = heard.map(|l| (l.number, l.text())).collect();
                let lines = heard.iter().map(|(line, _)| *line).collect();
                let texts: Vec<&String> = heard.iter().map(|(_, text)| text).collect();
                self.known.bind(name, json!(texts), lines);
                Ok(())
            }
            What::LogIn => match self.log_in().await? {
                true => Ok(()),
                false => {
                    let why = "no login succeeded: pass a method with --auth-method";
                    Err(Blocked::NotVerified(why.to_owned()).into())
                }
            },
            // Only `lifecycle::play` and `sessions::play` can run probes.
            What::Probe(name) => Err(Blocked::Error(format!(
                "the probe `{name}` is not allowed in this suite"
            ))
            .into()),
            What::NotVerified(why) => Err(Blocked::NotVerified(self.words(why)).into()),
            What::NotApplicable(why) => Err(Blocked::NotApplicable(self.words(why)).into()),
        }
    }
}
