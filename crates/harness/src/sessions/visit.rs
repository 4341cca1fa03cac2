//! The sessions of a probe: started, awaited until they are ready, prompted, and ended with the
//! case.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::follow::Follow;
use super::http;
use super::stand::{Answer, Stand, Who};
use crate::run::case::Blocked;

/// Initial interval between two reads of a session.
const GLANCE: Duration = Duration::from_millis(40);
/// Time limit for each request of the cleanup.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// A session that a probe has started.
#[derive(Clone, Debug)]
pub struct Started {
    pub id: String,
    /// The record from the last response.
    pub record: Value,
    pub lines: Vec<u64>,
}

/// A status that a session was observed in.
#[derive(Clone, Debug)]
pub struct Seen {
    pub id: String,
    pub status: String,
    pub line: u64,
}

impl Stand<'_> {
    /// A directory for a session, if one can be created.
    pub fn cwd(&self, name: &str) -> Result<Option<String>, Blocked> {
        if let Some(cwd) = &self.subject.host.cwd {
            return Ok(Some(cwd.to_string_lossy().into_owned()));
        }
        if !self.subject.host.address.is_loopback() {
            return Ok(None);
        }
        let path = self.root.join(name);
        std::fs::create_dir_all(&path)
            .map_err(|error| Blocked::Error(format!("cannot create a directory: {error}")))?;
        Ok(Some(path.to_string_lossy().into_owned()))
    }

    /// A spawn request in a directory of the case, with additional members.
    pub fn spawn_request(&self, more: Value) -> Result<Value, Blocked> {
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
    pub fn refused(&self, answer: &Answer) -> Blocked {
        let adapter = self.subject.host.adapter();
        let told = answer.told();
        match &self.subject.host.adapter {
            None => Blocked::Skip(format!(
                "this host did not start `{adapter}` ({told}): name one of its adapters with \
                 --adapter"
            )),
            Some(_) => Blocked::NotVerified(format!("the host did not start `{adapter}` ({told})")),
        }
    }

    /// Starts a session.
    pub async fn spawn(&mut self, more: Value) -> Result<Started, Blocked> {
        let body = self.spawn_request(more)?;
        let path = self.spawn_route();
        let answer = self.ask("", "POST", &path, Some(&body)).await?;
        self.started(&answer)
    }

    /// The session from the response to a spawn request. It is ended with the case.
    pub fn started(&mut self, answer: &Answer) -> Result<Started, Blocked> {
        if !answer.is_ok() {
            return Err(self.refused(answer));
        }
        let record = answer.value().clone();
        let Some(id) = record.get("id").and_then(Value::as_str) else {
            let why = "the response to a spawn request has no `id`".to_owned();
            return Err(Blocked::NotVerified(why));
        };
        let id = id.to_owned();
        self.keep(&id);
        self.saw(&record, answer.lines[1]);
        Ok(Started {
            id,
            record,
            lines: answer.lines.to_vec(),
        })
    }

    /// Registers a session that must be ended with the case.
    pub fn keep(&mut self, id: &str) {
        if !self.subject.alive.iter().any(|known| known == id) {
            self.subject.alive.push(id.to_owned());
        }
    }

    /// Records a status from a record or an event.
    pub fn saw(&mut self, record: &Value, line: u64) {
        let id = record.get("id").and_then(Value::as_str);
        let status = record.get("status").and_then(Value::as_str);
        if let (Some(id), Some(status)) = (id, status) {
            self.subject.seen.push(Seen {
                id: id.to_owned(),
                status: status.to_owned(),
                line,
            });
        }
    }

    /// Reads the current record.
    pub async fn get(&mut self, id: &str) -> Result<Answer, Blocked> {
        let path = self.route(id, "");
        let answer = self.ask("", "GET", &path, None).await?;
        if answer.is_ok() {
            let record = answer.value().clone();
            self.saw(&record, answer.lines[1]);
        }
        Ok(answer)
    }

    /// Reads the record until it meets a condition or the time limit is reached. Returns the last
    /// response in both cases.
    pub async fn until(
        &mut self,
        id: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<(bool, Answer), Blocked> {
        let until = Instant::now() + self.patience();
        let mut pause = GLANCE;
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
    pub async fn running(&mut self, more: Value) -> Result<Started, Blocked> {
        let started = self.spawn(more).await?;
        self.ready(started).await
    }

    pub async fn ready(&mut self, started: Started) -> Result<Started, Blocked> {
        let begun = Instant::now();
        let (_, answer) = self
            .until(&started.id, |record| record["status"] != "starting")
            .await?;
        self.played.startup += begun.elapsed();
        let record = answer.value().clone();
        match record["status"].as_str() {
            Some("running") => Ok(Started {
                record,
                lines: answer.lines.to_vec(),
                ..started
            }),
            Some(other) => Err(Blocked::NotVerified(format!(
                "the session did not become `running`, it is `{other}`"
            ))),
            None => Err(Blocked::NotVerified(format!(
                "cannot read the status of the session ({})",
                answer.told()
            ))),
        }
    }

    // --- prompts -------------------------------------------------------------------------

    /// Sends a prompt. `about` is the requirement that a missing response violates.
    pub async fn prompt(&mut self, about: &str, id: &str, text: &str) -> Result<Answer, Blocked> {
        let path = self.route(id, "/prompt");
        let body = json!({"prompt": text});
        self.ask(about, "POST", &path, Some(&body)).await
    }

    /// Sends a prompt that must be accepted. Otherwise the case has no verdict.
    pub async fn prompted(&mut self, id: &str, text: &str) -> Result<Answer, Blocked> {
        let answer = self.prompt("", id, text).await?;
        match answer.is_ok() {
            true => Ok(answer),
            false => Err(Blocked::NotVerified(format!(
                "the prompt was not accepted: {}",
                answer.told()
            ))),
        }
    }

    /// Opens the event stream. Without one, the case has no verdict.
    pub async fn following(&mut self, id: &str) -> Result<Follow, Blocked> {
        let follow = self.follow(id).await;
        let follow = follow.map_err(|(trouble, _)| Blocked::NotVerified(trouble.told()))?;
        match follow.is_stream() {
            true => Ok(follow),
            false => Err(Blocked::NotVerified(format!(
                "cannot open the event stream: {}",
                follow.head.line
            ))),
        }
    }

    // --- cleanup ---------------------------------------------------------------------------

    /// Ends everything that the case has started. The results are ignored.
    pub async fn clean_up(&mut self) {
        let alive = std::mem::take(&mut self.subject.alive);
        if alive.is_empty() || self.setting.starts.is_lost() {
            return;
        }
        let requests = alive.iter().map(|id| {
            let kill = self.request("POST", &self.route(id, "/kill"), None, Who::Ourselves, &[]);
            let forget = self.request("DELETE", &self.route(id, ""), None, Who::Ourselves, &[]);
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
