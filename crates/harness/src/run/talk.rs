//! Requests, responses and turns: what a case sends, waits for and checks.

use std::time::Duration;

use serde_json::{Value, json};

use super::case::{Blocked, Broken, Demand, Player, Step1, Stop};
use super::connection::{Received, Silence};
use crate::monitor::id_key;
use crate::suite::{Awaited, Expect, Prompt, PromptText, Protocol, Request, WaitFor, refusal};
use agentproto_wire::Kind;

/// How long to wait for a response after a later request was answered.
const AFTERWARDS: Duration = Duration::from_secs(1);

impl Player<'_> {
    pub(super) async fn send(&mut self, request: &Request) -> Result<String, Stop> {
        let params = match &request.params {
            Some(params) => Some(self.fill(params)?),
            None => None,
        };
        let id = match &request.id {
            Some(id) => Some(self.fill(id)?),
            None => None,
        };
        let name = request.name.clone().unwrap_or_else(|| "answer".to_owned());
        let timeout = self.setting.timeout;
        let sent = self
            .connection()?
            .request(&request.method, params, id, timeout)
            .await;
        match sent {
            Ok(sent) => {
                self.sent.insert(name.clone(), sent);
                Ok(name)
            }
            Err(silence) => Err(self.broken_off(&silence)),
        }
    }

    /// Waits for the response to a named request, and checks it.
    pub(super) async fn receive(
        &mut self,
        name: &str,
        method: &str,
        within: Option<Duration>,
        expect: &[Expect],
        demand: Demand,
    ) -> Step1 {
        let Some((id, line)) = self.sent.get(name).cloned() else {
            return Err(
                Blocked::Error(format!("no request was sent with the name `{name}`")).into(),
            );
        };
        // If no request of this kind was ever answered, the time limit is short.
        let patience = match method {
            "initialize" => Some(&self.setting.starts),
            _ if self.prompted.contains(name) => Some(&self.setting.turns),
            _ => None,
        };
        let usual = within.unwrap_or(self.setting.timeout);
        let within = patience.map_or(usual, |patience| patience.time(usual));
        let answer = self.connection()?.answer(&id, within).await;
        if matches!(answer, Err(Silence::TimedOut(time)) if time >= self.setting.timeout) {
            self.connection()?.give_up(&id);
        }
        match (&answer, patience) {
            (Ok(_), Some(patience)) => patience.answered(),
            (Err(silence), Some(patience)) => patience.silent_as(&silence.to_string()),
            _ => {}
        }
        match answer {
            Ok(answer) => {
                let lines = vec![line, answer.line];
                self.known.bind(name, (*answer.json).clone(), lines.clone());
                self.played.shown.extend(&lines);
                if expect.is_empty() {
                    return match answer.json.get("result") {
                        Some(_) => Ok(()),
                        None if demand == Demand::Answer => Ok(()),
                        None => {
                            let said = answer.json.get("error").map(refusal);
                            let said = said.unwrap_or_default();
                            let why = format!("`{method}` was refused: {said}");
                            Err(Blocked::NotVerified(why).into())
                        }
                    };
                }
                self.judge(Some((&answer.json, &lines)), expect)
            }
            Err(Silence::Ended(how)) if expect.is_empty() => Err(self.died(&how)),
            Err(silence) if expect.is_empty() => {
                Err(Blocked::NotVerified(format!("`{method}` was not answered: {silence}")).into())
            }
            Err(silence) => {
                let message = match expect.iter().find_map(|e| e.say.clone()) {
                    Some(say) => {
                        let said = self.words(&say);
                        format!("{said} (`{method}` was not answered: {silence})")
                    }
                    None => format!("`{method}` was not answered: {silence}"),
                };
                let mut decided: Vec<&String> =
                    expect.iter().filter_map(|e| e.decides.as_ref()).collect();
                decided.dedup();
                if decided.is_empty() || decided.len() < expect.len() {
                    self.break_all(&message, vec![line]);
                } else {
                    for requirement in decided {
                        self.played.broken.push(Broken {
                            requirement: requirement.clone(),
                            message: message.clone(),
                            lines: vec![line],
                            at: None,
                            is_guess: false,
                            is_death: false,
                        });
                    }
                }
                Err(Stop::Broken)
            }
        }
    }

    /// Checks expectations. Continues after a violation, so that one run shows all of them.
    pub(super) fn judge(&mut self, here: Option<(&Value, &[u64])>, expect: &[Expect]) -> Step1 {
        for expect in expect {
            let decided: Vec<String> = match &expect.decides {
                Some(id) => vec![id.clone()],
                None => self.case.decides.clone(),
            };
            self.played.looked_at.extend(decided.iter().cloned());
            if let Err(unmet) = expect.check(here, &self.known) {
                for requirement in decided {
                    self.played.broken.push(Broken {
                        requirement,
                        message: unmet.message.clone(),
                        lines: unmet.lines.clone(),
                        at: unmet.at.clone(),
                        is_guess: expect.is_guess,
                        is_death: false,
                    });
                }
            }
        }
        Ok(())
    }

    pub(super) async fn wait_for(&mut self, wait: &WaitFor) -> Step1 {
        let within = wait.within.unwrap_or(self.setting.timeout);
        let mut ids = Vec::new();
        let mut from = self.seen_until;
        if let Awaited::Answer(templates) = &wait.what {
            from = 0;
            for template in templates {
                ids.push(id_key(&self.fill(template)?));
            }
        }
        let until = wait.unless.as_ref().and_then(|name| self.sent.get(name));
        let until = until.map(|(id, _)| id_key(id));
        let answers = |m: &Received, key: &String| match &m.kind {
            Kind::Response { id, .. } => id_key(id) == *key,
            _ => false,
        };
        let wanted = |m: &Received| match (&wait.what, &m.kind) {
            (Awaited::Answer(_), Kind::Response { .. }) => ids.iter().any(|key| answers(m, key)),
            (Awaited::Update(kinds), Kind::Notification { .. }) => {
                let kind = m.json.pointer("/params/update/sessionUpdate");
                let kind = kind.and_then(Value::as_str).unwrap_or_default();
                is_update(m) && (kinds.is_empty() || kinds.iter().any(|k| k == kind))
            }
            (Awaited::Request(wanted), Kind::Request { method, .. }) => wanted == method,
            (Awaited::Notification(wanted), Kind::Notification { method }) => wanted == method,
            _ => false,
        };
        let known = &self.known;
        let wanted = |m: &Received| {
            let here = Some((&*m.json, [m.line]));
            let here = here.as_ref().map(|(json, lines)| (*json, lines.as_slice()));
            let mut which = wait.which.iter();
            wanted(m) && which.all(|expect| expect.check(here, known).is_ok())
        };
        let is_last = |m: &Received| until.as_ref().is_some_and(|key| answers(m, key));
        let fits = |m: &Received| wanted(m) || is_last(m);
        let Some(connection) = self.connection.as_mut() else {
            return Err(Blocked::Error("the agent process is not running".to_owned()).into());
        };
        let found = match connection.find(from, within, fits).await {
            // Responses may come out of order, so a slightly late one still counts.
            Ok(found) if !wanted(&found) && !ids.is_empty() => {
                let late = connection.find(from, AFTERWARDS, wanted).await;
                late.map_err(|_| Silence::TooLate)
            }
            Ok(found) if !wanted(&found) => Err(Silence::TooLate),
            found => found,
        };
        match found {
            Ok(found) => {
                if !matches!(wait.what, Awaited::Answer(_)) {
                    self.seen_until = found.line;
                }
                if let Some(name) = &wait.name {
                    self.bind(name, &found);
                }
                let lines = [found.line];
                self.judge(Some((&found.json, &lines)), &wait.expect)
            }
            Err(silence) => {
                let awaited = match &wait.what {
                    Awaited::Update(kinds) => format!("session/update {}", kinds.join(" or ")),
                    Awaited::Answer(_) => "response".to_owned(),
                    Awaited::Request(method) | Awaited::Notification(method) => method.clone(),
                };
                let message = format!("no {awaited} received: {silence}");
                if let (false, Silence::Ended(how)) = (wait.is_expected, &silence) {
                    return Err(self.died(how));
                }
                if !wait.is_expected {
                    return Err(Blocked::NotVerified(message).into());
                }
                let message = match &wait.say {
                    Some(say) => format!("{} ({message})", self.words(say)),
                    None => message,
                };
                let last = self.connection()?.transcript.last();
                self.break_all(&message, vec![last]);
                Err(Stop::Broken)
            }
        }
    }

    pub(super) async fn prompt(&mut self, prompt: &Prompt) -> Step1 {
        let blocks = match &prompt.what {
            PromptText::Key(key) => {
                let text = self.setting.prompts.get(key);
                let Some(text) = text else {
                    let why = format!("the prompt `{key}` is missing");
                    return Err(Blocked::Skip(why).into());
                };
                // Some agents do not tell their model the directory, so the prompt can contain it.
                let cwd = self.root.join("work");
                let text = &text.replace("{cwd}", &cwd.to_string_lossy());
                let text = match self.setting.model {
                    // The tag identifies the case in the log of the mock model.
                    Some(_) => format!("{text} {}", self.tag()),
                    None => text.clone(),
                };
                json!([{"type": "text", "text": text}])
            }
            PromptText::Blocks(blocks) => self.fill(blocks)?,
        };
        let session = match &prompt.session {
            Some(session) => self.fill(session)?,
            None => self.fill(&json!("$session"))?,
        };
        let params = json!({"sessionId": session, "prompt": blocks});
        let timeout = self.setting.timeout;
        let connection = self.connection()?;
        let sent = connection
            .request("session/prompt", Some(params), None, timeout)
            .await;
        match sent {
            Ok(sent) => {
                self.seen_until = self.seen_until.max(sent.1);
                self.prompted.insert(prompt.name.clone());
                self.sent.insert(prompt.name.clone(), sent);
                Ok(())
            }
            Err(silence) => Err(self.broken_off(&silence)),
        }
    }

    pub(super) async fn cancel(&mut self) -> Step1 {
        let params = self.fill(&json!({"sessionId": "$session"}))?;
        self.say(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}))
            .await?;
        let answers = self.connection()?.services.cancel_held();
        for answer in answers {
            self.say(&answer).await?;
        }
        Ok(())
    }

    /// Checks that the agent answers a request. An error also counts.
    pub(super) async fn alive(&mut self) -> Step1 {
        let (timeout, protocol) = (self.setting.timeout, self.protocol);
        let cwd = self.root.join("work");
        let connection = self.connection()?;
        // An agent that ignores custom requests is still alive, so a second request follows.
        let probes = match protocol {
            Protocol::Mcp => [("ping", json!({})), ("tools/list", json!({}))],
            _ => [
                ("_agentproto/alive", json!({})),
                ("session/new", json!({"cwd": cwd, "mcpServers": []})),
            ],
        };
        let mut answer = Err((Silence::TimedOut(timeout), 0));
        for (method, params) in probes {
            let sent = connection.request(method, Some(params), None, timeout);
            answer = match sent.await {
                Ok((id, line)) => {
                    let heard = connection.answer(&id, timeout / 2).await;
                    heard.map_err(|silence| (silence, line))
                }
                Err(silence) => Err((silence, 0)),
            };
            if !matches!(answer, Err((Silence::TimedOut(_), _))) {
                break;
            }
        }
        match answer {
            Ok(answer) => {
                self.played.shown.push(answer.line);
                let decided = self.case.decides.clone();
                self.played.looked_at.extend(decided);
                Ok(())
            }
            Err((silence, line)) => {
                let message = format!("the agent no longer answers: {silence}");
                self.break_all(&message, vec![line]);
                Err(Stop::Broken)
            }
        }
    }
}

pub(super) fn is_update(message: &Received) -> bool {
    matches!(&message.kind, Kind::Notification { method } if method == "session/update")
}
