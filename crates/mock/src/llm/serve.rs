//! One connection: requests in, answers out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::ask::{Dialect, Question};
use super::dialects::{self, Out, Telling};
use super::http::{Connection, Refusal, Request};
use super::log::Log;
use super::plan::{Part, Plan};
use super::script::{Fault, Script};

/// A hang ends some time, even where nobody hangs up.
const LONGEST_HANG: Duration = Duration::from_secs(3600);
/// The name of the model, for those who ask which there are.
const MODEL: &str = "mock-model";

pub struct Desk {
    pub script: Script,
    pub log: Log,
    number: AtomicU64,
    used: Mutex<Vec<u32>>,
}

/// What a path is for.
enum Place {
    Ask(Dialect),
    Count(Dialect),
    Models,
    Health,
    Unknown,
}

impl Desk {
    pub fn new(script: Script, log: Log) -> Self {
        let used = vec![0; script.rules.len()];
        Desk {
            script,
            log,
            number: AtomicU64::new(1),
            used: Mutex::new(used),
        }
    }

    pub async fn serve(self: Arc<Self>, mut connection: Connection) {
        loop {
            let request = match connection.request().await {
                Ok(request) => request,
                Err(Refusal::Gone) => return,
                Err(Refusal::Bad(status, why)) => {
                    let _ = refuse(&mut connection, status, why).await;
                    return connection.close().await;
                }
            };
            let served = self.answer(&mut connection, &request).await;
            if served.is_err() || !request.keep || request.old {
                return connection.close().await;
            }
        }
    }

    async fn answer(&self, connection: &mut Connection, request: &Request) -> io::Result<()> {
        let dialect = dialect_of(&request.path);
        match place(request) {
            Place::Health => connection.answer(request, 200, b"{}").await,
            Place::Models => {
                let body = models(&request.path).to_string();
                connection.answer(request, 200, body.as_bytes()).await
            }
            Place::Unknown => {
                let message = format!("the mock model has nothing at {}", request.path);
                fail(connection, request, dialect, 404, message).await
            }
            Place::Ask(_) | Place::Count(_) if request.method != "POST" => {
                let message = "asked with POST only".to_owned();
                fail(connection, request, dialect, 405, message).await
            }
            Place::Ask(dialect) => match body(request) {
                Ok(body) => self.ask(connection, request, dialect, &body).await,
                Err(message) => fail(connection, request, dialect, 400, message).await,
            },
            Place::Count(dialect) => match body(request) {
                Ok(body) => {
                    let body = body.get("generateContentRequest").unwrap_or(&body);
                    let tokens = Question::read(dialect, body).tokens();
                    let answer = match dialect {
                        Dialect::Gemini => json!({"totalTokens": tokens}),
                        _ => json!({"input_tokens": tokens}),
                    };
                    let answer = answer.to_string();
                    connection.answer(request, 200, answer.as_bytes()).await
                }
                Err(message) => fail(connection, request, dialect, 400, message).await,
            },
        }
    }

    async fn ask(
        &self,
        connection: &mut Connection,
        request: &Request,
        dialect: Dialect,
        body: &Value,
    ) -> io::Result<()> {
        let mut question = Question::read(dialect, body);
        if dialect == Dialect::Gemini {
            question.model = gemini_model(&request.path);
            question.stream = request.path.ends_with(":streamGenerateContent");
        }
        let index = self.log.ask(&question);
        let told = self.tell(connection, request, &question, index).await;
        self.log.note(index, |asked| match &told {
            Ok(()) => asked.finished = true,
            Err(_) => asked.dropped = true,
        });
        told
    }

    async fn tell(
        &self,
        connection: &mut Connection,
        request: &Request,
        question: &Question,
        index: usize,
    ) -> io::Result<()> {
        let plan = self.plan(question);
        let telling = Telling {
            plan: &plan,
            question,
            number: self.number.fetch_add(1, Ordering::Relaxed),
        };
        // Gemini streams an array unless events are asked for.
        let sse = question.dialect != Dialect::Gemini || has(&request.query, "alt=sse");
        if question.stream && sse && plan.refusal().is_none() {
            let outs = telling.stream();
            self.log.note(index, |asked| asked.status = 200);
            return stream(connection, request, &outs).await;
        }
        let takes = plan.takes();
        rest(connection, takes.unwrap_or(LONGEST_HANG)).await?;
        if takes.is_none() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let faults = plan.parts.iter().find_map(|part| match part {
            Part::Error(fault) => Some(fault),
            _ => None,
        });
        let (status, body) = match faults {
            Some(fault) => (fault.status, dialects::error(question.dialect, fault)),
            None if question.stream => (200, json!([telling.whole()])),
            None => (200, telling.whole()),
        };
        self.log.note(index, |asked| asked.status = status);
        let body = body.to_string();
        connection.answer(request, status, body.as_bytes()).await
    }

    fn plan(&self, question: &Question) -> Plan {
        let mut used = self.used.lock();
        let index = self.script.rule(question, &used);
        if let Some(count) = index.and_then(|index| used.get_mut(index)) {
            *count = count.saturating_add(1);
        }
        drop(used);
        let rule = index.and_then(|index| self.script.rules.get(index));
        Plan::new(rule, question)
    }
}

async fn stream(connection: &mut Connection, request: &Request, outs: &[Out]) -> io::Result<()> {
    connection.begin_events(request).await?;
    for out in outs {
        let text = match out {
            Out::Wait(pause) => {
                rest(connection, *pause).await?;
                continue;
            }
            Out::Hang => {
                rest(connection, LONGEST_HANG).await?;
                return Err(io::ErrorKind::TimedOut.into());
            }
            Out::Event(Some(name), data) => format!("event: {name}\ndata: {data}\n\n"),
            Out::Event(None, data) => format!("data: {data}\n\n"),
            Out::Done => "data: [DONE]\n\n".to_owned(),
        };
        connection.event(request, &text).await?;
    }
    connection.end_events(request).await
}

async fn rest(connection: &mut Connection, pause: Duration) -> io::Result<()> {
    if pause.is_zero() || connection.rest(pause).await {
        return Ok(());
    }
    Err(io::ErrorKind::ConnectionReset.into())
}

fn body(request: &Request) -> Result<Value, String> {
    serde_json::from_slice(&request.body).map_err(|error| format!("the body is no JSON: {error}"))
}

async fn fail(
    connection: &mut Connection,
    request: &Request,
    dialect: Dialect,
    status: u16,
    message: String,
) -> io::Result<()> {
    let body = dialects::error(dialect, &Fault { status, message }).to_string();
    connection.answer(request, status, body.as_bytes()).await
}

/// Says why what was sent is no request; the connection is of no use after that.
async fn refuse(connection: &mut Connection, status: u16, why: &str) -> io::Result<()> {
    let request = Request {
        method: String::new(),
        path: String::new(),
        query: String::new(),
        body: Vec::new(),
        keep: false,
        old: false,
    };
    fail(connection, &request, Dialect::Chat, status, why.to_owned()).await
}

/// Clients are set up with and without `/v1` at the end of the address: the end of the path
/// decides.
fn place(request: &Request) -> Place {
    let path = request.path.trim_end_matches('/');
    let asked = |end: &str| path.ends_with(end);
    if path.is_empty() {
        Place::Health
    } else if asked("/messages") {
        Place::Ask(Dialect::Anthropic)
    } else if asked("/messages/count_tokens") {
        Place::Count(Dialect::Anthropic)
    } else if asked("/responses") {
        Place::Ask(Dialect::Responses)
    } else if asked("/chat/completions") {
        Place::Ask(Dialect::Chat)
    } else if asked(":generateContent") || asked(":streamGenerateContent") {
        Place::Ask(Dialect::Gemini)
    } else if asked(":countTokens") {
        Place::Count(Dialect::Gemini)
    } else if asked("/models") && matches!(request.method.as_str(), "GET" | "HEAD") {
        Place::Models
    } else {
        Place::Unknown
    }
}

/// In whose shape an error is told.
fn dialect_of(path: &str) -> Dialect {
    if path.contains("/v1beta") || path.contains("enerateContent") {
        Dialect::Gemini
    } else if path.contains("/messages") || path.contains("/api/") {
        Dialect::Anthropic
    } else {
        Dialect::Chat
    }
}

fn gemini_model(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = name.split(':').next().unwrap_or_default();
    name.to_owned()
}

fn has(query: &str, pair: &str) -> bool {
    query.split('&').any(|found| found == pair)
}

/// The list of models, in a shape that Anthropic's and OpenAI's clients both read.
fn models(path: &str) -> Value {
    if dialect_of(path) == Dialect::Gemini {
        let methods = ["generateContent", "countTokens"];
        let model = json!({
            "name": format!("models/{MODEL}"),
            "displayName": "Mock model",
            "supportedGenerationMethods": methods,
        });
        return json!({"models": [model]});
    }
    let model = json!({
        "id": MODEL,
        "object": "model",
        "type": "model",
        "display_name": "Mock model",
        "created": 1_700_000_000,
        "created_at": "2023-11-14T22:13:20Z",
        "owned_by": "agentproto",
    });
    json!({
        "object": "list",
        "data": [model],
        "has_more": false,
        "first_id": MODEL,
        "last_id": MODEL,
    })
}
