//! The sessions of a probe: started, awaited until they are ready, prompted, and ended with the
//! case.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::context::{HttpResponse, ProbeContext, RequestAuth};
use super::event_stream::EventStream;
use super::http;
use crate::run::case::NoVerdict;

/// Initial interval between two reads of a session.
const POLL_INTERVAL: Duration = Duration::from_millis(40);
/// Time limit for each request of the cleanup.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// A session that a probe has started.
#[derive(Clone, Debug)]
pub struct StartedSession {
    pub id: String,
    /// The record from the last response.
    pub record: Value,
    pub lines: Vec<u64>,
}

/// A status that a session was observed in.
#[derive(Clone, Debug)]
pub struct ObservedStatus {
    pub id: String,
    pub status: String,
    pub line: u64,
}

impl ProbeContext<'_> {
    /// A directory for a session, if one can be created.
    pub fn cwd(&self, name: &str) -> Result<Option<String>, NoVerdict> {
        if let Some(cwd) = &self.subject.host.cwd {
            return Ok(Some(cwd.to_string_lossy().into_owned()));
        }
        if !self.subject.host.address.is_loopback() {
            return Ok(None);
        }
        let path = self.root.join(name);
        std::fs::create_dir_all(&path)
            .map_err(|error| NoVerdict::Error(format!("cannot create a directory: {error}")))?;
        Ok(Some(path.to_string_lossy().into_owned()))
    }

    /// A spawn request in a directory of the case, with additional members.
    pub fn spawn_request(&self, more: Value) -> Result<Value, NoVerdict> {
        let mut body = json!({"adapter": self.subject.host.adapter()});
        if let Some(cwd) = self.cwd("work")? {
            body["cwd"] = json!(cwd);
        }
        if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
            body.extend(more);
        }
        Ok(body)
    }

    /// The reason for no verdict if the host refused to start the adapter.
    pub fn no_verdict_for(&self, answer: &HttpResponse) -> NoVerdict {
        let adapter = self.subject.host.adapter();
        let message = answer.describe();
        match &self.subject.host.adapter {
            None => NoVerdict::Skip(format!(
                "this host did not start `{adapter}` ({message}): name one of its adapters with \
                 --adapter"
            )),
            Some(_) => {
                NoVerdict::NotVerified(format!("the host did not start `{adapter}` ({message})"))
            }
        }
    }

    /// Starts a session.
    pub async fn spawn(&mut self, more: Value) -> Result<StartedSession, NoVerdict> {
        let body = self.spawn_request(more)?;
        let path = self.spawn_route();
        let answer = self.ask("", "POST", &path, Some(&body)).await?;
        self.started(&answer)
    }

    /// The session from the response to a spawn request. It is ended with the case.
    pub fn started(&mut self, answer: &HttpResponse) -> Result<StartedSession, NoVerdict> {
        if !answer.is_ok() {
            return Err(self.no_verdict_for(answer));
        }
        let record = answer.value().clone();
        let Some(id) = record.get("id").and_then(Value::as_str) else {
            let why = "the response to a spawn request has no `id`".to_owned();
            return Err(NoVerdict::NotVerified(why));
        };
        let id = id.to_owned();
        self.end_with_case(&id);
        self.record_status(&record, answer.lines[1]);
        Ok(StartedSession {
            id,
            record,
            lines: answer.lines.to_vec(),
        })
    }

    /// Registers a session that must be ended with the case.
    pub fn end_with_case(&mut self, id: &str) {
        if !self.subject.alive.iter().any(|known| known == id) {
            self.subject.alive.push(id.to_owned());
        }
    }

    /// Records a status from a record or an event.
    pub fn record_status(&mut self, record: &Value, line: u64) {
        let id = record.get("id").and_then(Value::as_str);
        let status = record.get("status").and_then(Value::as_str);
        if let (Some(id), Some(status)) = (id, status) {
            self.subject.statuses.push(ObservedStatus {
                id: id.to_owned(),
                status: status.to_owned(),
                line,
            });
        }
    }

    /// Reads the current record.
    pub async fn get(&mut self, id: &str) -> Result<HttpResponse, NoVerdict> {
        let path = self.route(id, "");
        let answer = self.ask("", "GET", &path, None).await?;
        if answer.is_ok() {
            let record = answer.value().clone();
            self.record_status(&record, answer.lines[1]);
        }
        Ok(answer)
    }

    /// Reads the record until it meets a condition or the time limit is reached. Returns the last
    /// response in both cases.
    pub async fn until(
        &mut self,
        id: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<(bool, HttpResponse), NoVerdict> {
        let until = Instant::now() + self.response_limit();
        let mut pause = POLL_INTERVAL;
        loop {
            let answer = self.get(id).await?;
            let is_there = answer.is_ok() && wanted(answer.value());
            if is_there || Instant::now() >= until {
                return Ok((is_there, answer));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// Starts a session and waits until it is ready for a turn.
    pub async fn running(&mut self, more: Value) -> Result<StartedSession, NoVerdict> {
        let started = self.spawn(more).await?;
        self.ready(started).await
    }

    pub async fn ready(&mut self, started: StartedSession) -> Result<StartedSession, NoVerdict> {
        let start_time = Instant::now();
        let (_, answer) = self
            .until(&started.id, |record| record["status"] != "starting")
            .await?;
        self.outcome.startup += start_time.elapsed();
        let record = answer.value().clone();
        match record["status"].as_str() {
            Some("running") => Ok(StartedSession {
                record,
                lines: answer.lines.to_vec(),
                ..started
            }),
            Some(other) => Err(NoVerdict::NotVerified(format!(
                "the session did not become `running`, it is `{other}`"
            ))),
            None => Err(NoVerdict::NotVerified(format!(
                "cannot read the status of the session ({})",
                answer.describe()
            ))),
        }
    }

    // --- prompts -------------------------------------------------------------------------

    /// Sends a prompt. `about` is the requirement that a missing response violates.
    pub async fn prompt(
        &mut self,
        about: &str,
        id: &str,
        text: &str,
    ) -> Result<HttpResponse, NoVerdict> {
        let path = self.route(id, "/prompt");
        let body = json!({"prompt": text});
        self.ask(about, "POST", &path, Some(&body)).await
    }

    /// Sends a prompt that must be accepted. Otherwise the case has no verdict.
    pub async fn send_prompt(&mut self, id: &str, text: &str) -> Result<HttpResponse, NoVerdict> {
        let answer = self.prompt("", id, text).await?;
        match answer.is_ok() {
            true => Ok(answer),
            false => Err(NoVerdict::NotVerified(format!(
                "the prompt was not accepted: {}",
                answer.describe()
            ))),
        }
    }

    /// Opens the event stream. Without one, the case has no verdict.
    pub async fn follow_session(&mut self, id: &str) -> Result<EventStream, NoVerdict> {
        let stream = self.open_stream(id).await;
        let stream = stream.map_err(|(error, _)| NoVerdict::NotVerified(error.describe()))?;
        match stream.is_stream() {
            true => Ok(stream),
            false => Err(NoVerdict::NotVerified(format!(
                "cannot open the event stream: {}",
                stream.head.line
            ))),
        }
    }

    // --- cleanup ---------------------------------------------------------------------------

    /// Ends everything that the case has started. The results are ignored.
    pub async fn clean_up(&mut self) {
        let alive = std::mem::take(&mut self.subject.alive);
        if alive.is_empty() || self.config.starts.never_answers() {
            return;
        }
        let requests = alive.iter().map(|id| {
            let kill = self.request(
                "POST",
                &self.route(id, "/kill"),
                None,
                RequestAuth::Own,
                &[],
            );
            let forget = self.request("DELETE", &self.route(id, ""), None, RequestAuth::Own, &[]);
            let address = &self.subject.host.address;
            async move {
                for request in [kill, forget] {
                    let answered = http::open(address, &request.bytes(), CLEAN_UP).await;
                    if let Ok(opened) = answered {
                        let _ = opened.body(CLEAN_UP).await;
                    }
                }
            }
        });
        futures::future::join_all(requests).await;
    }
}
