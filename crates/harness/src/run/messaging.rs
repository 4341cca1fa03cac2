//! Requests, responses and turns: what a case sends, waits for and checks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::case::{
    CaseRunner, CaseViolation, NoVerdict, RequiredResponse, StepResult, Stop, Unanswered,
};
use super::connection::{NoResponse, ReceivedMessage};
use crate::monitor::id_key;
use crate::suite::{
    AwaitedMessage, Expectation, PromptStep, PromptText, RequestStep, SuiteProtocol, WaitFor,
    WorkState, describe_error,
};
use agentproto_wire::MessageKind;

/// Added to what is wrong after a restart for which the agent had to be killed.
const KILLED: &str = "; the agent did not exit after its stdin was closed, and was killed";
/// How long to wait for a response after a later request was answered.
const LATE_RESPONSE_LIMIT: Duration = Duration::from_secs(1);

impl CaseRunner<'_> {
    pub(super) async fn send(&mut self, request: &RequestStep) -> Result<String, Stop> {
        let params = match &request.params {
            Some(params) => Some(self.fill(params)?),
            None => None,
        };
        let id = match &request.id {
            Some(id) => Some(self.fill(id)?),
            None => None,
        };
        let name = request.name.clone().unwrap_or_else(|| "answer".to_owned());
        let timeout = self.config.timeout;
        let sent = self
            .connection()?
            .request(&request.method, params, id, timeout)
            .await;
        self.note_cancel(&request.method);
        match sent {
            Ok(sent) => {
                self.sent.insert(name.clone(), sent);
                Ok(name)
            }
            Err(no_response) => Err(self.send_failed(&no_response, Some(&request.method))),
        }
    }

    /// Waits for the response to a named request, and checks it.
    pub(super) async fn receive(
        &mut self,
        name: &str,
        method: &str,
        within: Option<Duration>,
        expect: &[Expectation],
        required: RequiredResponse,
    ) -> StepResult {
        let Some((id, line)) = self.sent.get(name).cloned() else {
            return Err(
                NoVerdict::Error(format!("no request was sent with the name `{name}`")).into(),
            );
        };
        // If no request of this kind was ever answered, the time limit is short. An agent that never
        // ends a turn may still answer a canceled one.
        let history = match method {
            "initialize" => Some(&self.config.starts),
            _ if self.canceled.contains(name) => Some(&self.config.canceled_turns),
            _ if self.prompted.contains(name) => Some(&self.config.turns),
            _ => None,
        };
        let usual = within.unwrap_or(self.config.timeout);
        let within = history.map_or(usual, |history| history.time_limit(usual));
        let answer = self.connection()?.answer(&id, within).await;
        // A turn may rightly wait for a response that the case holds back.
        let waits_for_us = self.connection()?.services.holds_any();
        let is_full_wait = within >= self.config.timeout;
        if matches!(answer, Err(NoResponse::TimedOut(_)) if is_full_wait && !waits_for_us) {
            self.connection()?.give_up(&id);
        }
        match (&answer, history) {
            (Ok(_), Some(history)) => history.answered(),
            (Err(NoResponse::Starved(..)), _) => {}
            (Err(no_response), Some(history)) => {
                history.unanswered_because(&no_response.to_string())
            }
            _ => {}
        }
        match answer {
            Ok(answer) => {
                let lines = vec![line, answer.line];
                self.bindings
                    .bind(name, (*answer.json).clone(), lines.clone());
                self.outcome.passed_lines.extend(&lines);
                if expect.is_empty() {
                    return match answer.json.get("result") {
                        Some(_) => Ok(()),
                        None if required == RequiredResponse::Answer => Ok(()),
                        None => {
                            let text = answer.json.get("error").map(describe_error);
                            let text = text.unwrap_or_default();
                            let why = format!("`{method}` was refused: {text}");
                            Err(NoVerdict::NotVerified(why).into())
                        }
                    };
                }
                self.check(Some((&answer.json, &lines)), expect)
            }
            Err(NoResponse::Ended(how)) if expect.is_empty() => {
                Err(self.agent_exited(&how, Some(method)))
            }
            // The turn had less time than usual, so this proves nothing.
            Err(no_response @ NoResponse::TimedOut(_))
                if within < usual && method != "initialize" =>
            {
                Err(NoVerdict::NotVerified(format!(
                    "`{method}` was not answered: {no_response} (short limit: it was never answered \
                     in this run)"
                ))
                .into())
            }
            Err(no_response)
                if expect.is_empty() || matches!(no_response, NoResponse::Starved(..)) =>
            {
                let why = format!("`{method}` was not answered: {no_response}");
                Err(NoVerdict::NotVerified(why).into())
            }
            Err(no_response) => {
                let message = match expect.iter().find_map(|e| e.message.clone()) {
                    Some(template) => {
                        let text = self.fill_message(&template);
                        format!("{text} (`{method}` was not answered: {no_response})")
                    }
                    None => format!("`{method}` was not answered: {no_response}"),
                };
                let is_exit = matches!(no_response, NoResponse::Ended(_));
                let mut lines = vec![line];
                if is_exit {
                    lines.push(self.connection()?.transcript.last());
                }
                let violation = CaseViolation {
                    unanswered: Some(Unanswered {
                        method: method.to_owned(),
                        is_exit,
                    }),
                    ..CaseViolation::new(message, lines)
                };
                let mut decided: Vec<&String> =
                    expect.iter().filter_map(|e| e.decides.as_ref()).collect();
                decided.dedup();
                if decided.is_empty() || decided.len() < expect.len() {
                    self.violate_all(&violation);
                } else {
                    for requirement in decided {
                        self.outcome.violations.push(CaseViolation {
                            requirement: requirement.clone(),
                            ..violation.clone()
                        });
                    }
                }
                Err(Stop::Violation)
            }
        }
    }

    /// Checks expectations. Continues after a violation, so that one run shows all of them.
    pub(super) fn check(
        &mut self,
        here: Option<(&Value, &[u64])>,
        expect: &[Expectation],
    ) -> StepResult {
        for expect in expect {
            let decided: Vec<String> = match &expect.decides {
                Some(id) => vec![id.clone()],
                None => self.case.decides.clone(),
            };
            self.outcome.checked.extend(decided.iter().cloned());
            let Err(mut failure) = expect.check(here, &self.bindings) else {
                let lines = expect.lines(here, &self.bindings);
                for requirement in decided {
                    self.outcome.proof.push((requirement, lines.clone()));
                }
                continue;
            };
            if self.was_killed {
                failure.message.push_str(KILLED);
            }
            for requirement in decided {
                self.outcome.violations.push(CaseViolation {
                    requirement,
                    at: failure.at.clone(),
                    is_guess: expect.is_guess,
                    ..CaseViolation::new(failure.message.clone(), failure.lines.clone())
                });
            }
        }
        Ok(())
    }

    pub(super) async fn wait_for(&mut self, wait: &WaitFor) -> StepResult {
        let within = wait.within.unwrap_or(self.config.timeout);
        let mut ids = Vec::new();
        let mut from = self.seen_until;
        if let AwaitedMessage::Answer(templates) = &wait.message {
            from = 0;
            for template in templates {
                ids.push(id_key(&self.fill(template)?));
            }
        }
        let until = wait.unless.as_ref().and_then(|name| self.sent.get(name));
        let until = until.map(|(id, _)| id_key(id));
        let answers = |m: &ReceivedMessage, key: &String| match &m.kind {
            MessageKind::Response { id, .. } => id_key(id) == *key,
            _ => false,
        };
        // The work starts after the prompt, and its start may have been awaited before.
        let has_started = AtomicBool::new(false);
        let mut session = Value::Null;
        if let AwaitedMessage::Work(_) = wait.message {
            from = self.prompted_at;
            session = self.fill(&json!("$session"))?;
        }
        let seen_until = self.seen_until;
        let wanted = |m: &ReceivedMessage| match (&wait.message, &m.kind) {
            (AwaitedMessage::Work(state), MessageKind::Notification { .. }) => {
                is_update(m)
                    && m.json.pointer("/params/sessionId") == Some(&session)
                    && is_work(*state, &m.json, &has_started)
                    && m.line > seen_until
            }
            (AwaitedMessage::Answer(_), MessageKind::Response { .. }) => {
                ids.iter().any(|key| answers(m, key))
            }
            (AwaitedMessage::Update(kinds), MessageKind::Notification { .. }) => {
                let kind = m.json.pointer("/params/update/sessionUpdate");
                let kind = kind.and_then(Value::as_str).unwrap_or_default();
                is_update(m) && (kinds.is_empty() || kinds.iter().any(|k| k == kind))
            }
            (AwaitedMessage::Request(wanted), MessageKind::Request { method, .. }) => {
                wanted == method
            }
            (AwaitedMessage::Notification(wanted), MessageKind::Notification { method }) => {
                wanted == method
            }
            _ => false,
        };
        let bindings = &self.bindings;
        let wanted = |m: &ReceivedMessage| {
            let here = Some((&*m.json, [m.line]));
            let here = here.as_ref().map(|(json, lines)| (*json, lines.as_slice()));
            let mut which = wait.which.iter();
            wanted(m) && which.all(|expect| expect.check(here, bindings).is_ok())
        };
        let is_last = |m: &ReceivedMessage| until.as_ref().is_some_and(|key| answers(m, key));
        let fits = |m: &ReceivedMessage| wanted(m) || is_last(m);
        let Some(connection) = self.connection.as_mut() else {
            return Err(NoVerdict::Error("the agent process is not running".to_owned()).into());
        };
        let found = match connection.find(from, within, fits).await {
            // Responses may come out of order, so a slightly late one still counts.
            Ok(found) if !wanted(&found) && !ids.is_empty() => {
                let late = connection.find(from, LATE_RESPONSE_LIMIT, wanted).await;
                late.map_err(|_| NoResponse::TooLate)
            }
            Ok(found) if !wanted(&found) => Err(NoResponse::TooLate),
            found => found,
        };
        match found {
            Ok(found) => {
                if !matches!(wait.message, AwaitedMessage::Answer(_)) {
                    self.seen_until = found.line;
                }
                if let Some(name) = &wait.name {
                    self.bind(name, &found);
                }
                let lines = [found.line];
                self.check(Some((&found.json, &lines)), &wait.expect)
            }
            Err(no_response) => {
                let awaited = match &wait.message {
                    AwaitedMessage::Update(kinds) => {
                        format!("session/update {}", kinds.join(" or "))
                    }
                    AwaitedMessage::Answer(_) => "response".to_owned(),
                    AwaitedMessage::Work(WorkState::Running) => {
                        "state_update that starts the work".to_owned()
                    }
                    AwaitedMessage::Work(WorkState::Idle) => {
                        "state_update that ends the work".to_owned()
                    }
                    AwaitedMessage::Request(method) | AwaitedMessage::Notification(method) => {
                        method.clone()
                    }
                };
                let message = format!("no {awaited} received: {no_response}");
                let method = self.awaited_method(wait, until.as_ref());
                if let (false, NoResponse::Ended(how)) = (wait.is_expected, &no_response) {
                    return Err(self.agent_exited(how, method.as_deref()));
                }
                let is_starved = matches!(no_response, NoResponse::Starved(..));
                if wait.is_optional && !is_starved {
                    if let Some(name) = &wait.name {
                        self.bindings.bind(name, Value::Null, Vec::new());
                    }
                    return Ok(());
                }
                if !wait.is_expected || is_starved {
                    return Err(NoVerdict::NotVerified(message).into());
                }
                let message = match &wait.failure_message {
                    Some(template) => format!("{} ({message})", self.fill_message(template)),
                    None => message,
                };
                let last = self.connection()?.transcript.last();
                self.violate_all(&CaseViolation::new(message, vec![last]));
                Err(Stop::Violation)
            }
        }
    }

    /// The method of the request after whose response no further message is awaited.
    fn awaited_method(&self, wait: &WaitFor, last: Option<&String>) -> Option<String> {
        let name = wait.unless.as_ref().filter(|_| last.is_some())?;
        let is_prompt = self.prompted.contains(name);
        is_prompt.then(|| "session/prompt".to_owned())
    }

    pub(super) async fn prompt(&mut self, prompt: &PromptStep) -> StepResult {
        let blocks = match &prompt.text {
            PromptText::Key(key) => {
                let text = self.config.prompts.get(key);
                let Some(text) = text else {
                    let why = format!("the prompt `{key}` is missing");
                    return Err(NoVerdict::Skip(why).into());
                };
                // Some agents do not tell their model the directory, so the prompt can contain it.
                let cwd = self.root.join("work");
                let text = &text.replace("{cwd}", &cwd.to_string_lossy());
                let text = match self.config.model {
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
        let timeout = self.config.timeout;
        let answers = self.case.answers.permission;
        let connection = self.connection()?;
        // A step `answer` may have changed it.
        connection.services.answers.permission = answers;
        let sent = connection
            .request("session/prompt", Some(params), None, timeout)
            .await;
        match sent {
            Ok(sent) => {
                self.seen_until = self.seen_until.max(sent.1);
                self.prompted_at = sent.1;
                self.prompted.insert(prompt.name.clone());
                self.sent.insert(prompt.name.clone(), sent);
                Ok(())
            }
            Err(no_response) => Err(self.send_failed(&no_response, Some("session/prompt"))),
        }
    }

    pub(super) async fn notify(&mut self, method: &str, params: Value) -> StepResult {
        self.note_cancel(method);
        self.send_message(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
            .await
    }

    fn note_cancel(&mut self, method: &str) {
        if ["session/cancel", "session/close", "$/cancel_request"].contains(&method) {
            self.canceled.extend(self.prompted.iter().cloned());
        }
    }

    pub(super) async fn cancel(&mut self) -> StepResult {
        let params = self.fill(&json!({"sessionId": "$session"}))?;
        self.notify("session/cancel", params).await?;
        let answers = self.connection()?.services.cancel_held();
        for answer in answers {
            self.send_message(&answer).await?;
        }
        Ok(())
    }

    /// Checks that the agent answers a request. An error also counts.
    pub(super) async fn alive(&mut self) -> StepResult {
        let (timeout, protocol) = (self.config.timeout, self.protocol);
        let cwd = self.root.join("work");
        let connection = self.connection()?;
        // An agent that ignores custom requests is still alive, so a second request follows.
        let probes = match protocol {
            SuiteProtocol::Mcp => [("ping", json!({})), ("tools/list", json!({}))],
            _ => [
                ("_agentproto/alive", json!({})),
                ("session/new", json!({"cwd": cwd, "mcpServers": []})),
            ],
        };
        let mut answer = Err((NoResponse::TimedOut(timeout), 0));
        for (method, params) in probes {
            let sent = connection.request(method, Some(params), None, timeout);
            answer = match sent.await {
                Ok((id, line)) => {
                    let response = connection.answer(&id, timeout / 2).await;
                    response.map_err(|no_response| (no_response, line))
                }
                Err(no_response) => Err((no_response, 0)),
            };
            if !matches!(answer, Err((NoResponse::TimedOut(_), _))) {
                break;
            }
        }
        match answer {
            Ok(answer) => {
                self.outcome.passed_lines.push(answer.line);
                let decided = self.case.decides.clone();
                self.outcome.checked.extend(decided);
                Ok(())
            }
            Err((no_response @ NoResponse::Starved(..), _)) => {
                let why = format!("cannot tell whether the agent still answers: {no_response}");
                Err(NoVerdict::NotVerified(why).into())
            }
            Err((no_response, line)) => {
                let message = format!("the agent no longer answers: {no_response}");
                self.violate_all(&CaseViolation::new(message, vec![line]));
                Err(Stop::Violation)
            }
        }
    }
}

/// Whether an update reports this state of the work. Remembers whether the work has started.
fn is_work(state: WorkState, message: &Value, has_started: &AtomicBool) -> bool {
    let update = message.pointer("/params/update").unwrap_or(&Value::Null);
    let is = |key: &str, word: &str| update.get(key).and_then(Value::as_str) == Some(word);
    if !is("sessionUpdate", "state_update") {
        return false;
    }
    if is("state", "running") || is("state", "requires_action") {
        has_started.store(true, Ordering::Relaxed);
        return state == WorkState::Running;
    }
    let has_reason = update.get("stopReason").is_some_and(Value::is_string);
    state == WorkState::Idle
        && is("state", "idle")
        && (has_started.load(Ordering::Relaxed) || has_reason)
}

pub(super) fn is_update(message: &ReceivedMessage) -> bool {
    matches!(&message.kind, MessageKind::Notification { method } if method == "session/update")
}
