//! Serves one HTTP connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::unfold;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, LengthLimitError, Limited, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONNECTION, CONTENT_ENCODING, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde_json::{Value, json};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::dialects::{self, ResponseContext, StreamItem};
use super::log::RequestLog;
use super::plan::{ReplyPart, ReplyPlan};
use super::request::{Dialect, ModelRequest};
use super::script::{Breakage, ModelError, Script};

const MAX_HEAD_BYTES: usize = 64 << 10;
/// Maximum size of a request body in bytes. Clients send whole conversations, including images.
const MAX_BODY_BYTES: usize = 32 << 20;
/// Maximum time from the end of a response to the end of the next request head.
const IDLE: Duration = Duration::from_secs(300);
/// Maximum time for reading a body.
const READING: Duration = Duration::from_secs(30);
/// Maximum time for which a client may accept no data.
const WRITING: Duration = Duration::from_secs(30);
/// Maximum duration of a hang, even if the client keeps the connection open.
const MAX_HANG: Duration = Duration::from_secs(3600);
/// Time between the last event and the end of a connection that is cut.
const BEFORE_CUT: Duration = Duration::from_millis(50);
/// Name of the model in the list of models.
const MODEL: &str = "mock-model";

/// HTTP response. An error instead of a response, or in its body, closes the connection.
type HttpResponse = Response<UnsyncBoxBody<Bytes, io::Error>>;

pub struct ModelHandler {
    pub script: Script,
    pub log: RequestLog,
    number: AtomicU64,
    used: Mutex<Vec<u32>>,
}

/// Endpoint that a path names.
enum Endpoint {
    Ask(Dialect),
    Count(Dialect),
    Models,
    Health,
    Unknown,
}

impl ModelHandler {
    pub fn new(script: Script, log: RequestLog) -> Self {
        let used = vec![0; script.rules.len()];
        ModelHandler {
            script,
            log,
            number: AtomicU64::new(1),
            used: Mutex::new(used),
        }
    }

    pub async fn serve(self: Arc<Self>, stream: TcpStream) {
        // Events are small, and the client waits for each one.
        let _ = stream.set_nodelay(true);
        let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(WRITING));
        let handler = &*self;
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE)
            .max_buf_size(MAX_HEAD_BYTES)
            .max_header_size(MAX_HEAD_BYTES)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| handler.answer(request)),
            );
        let _ = serving.await;
    }

    async fn answer(&self, request: Request<Incoming>) -> io::Result<HttpResponse> {
        let (head, body) = request.into_parts();
        let (method, path) = (head.method.as_str(), head.uri.path());
        let dialect = dialect_of(path);
        let body = match read(&head.headers, body).await {
            Ok(body) => body,
            Err((status, why)) => {
                let mut answer = fail(dialect, status, why.to_owned())?;
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(CONNECTION, close);
                return Ok(answer);
            }
        };
        let json = || -> Result<Value, String> {
            serde_json::from_slice(&body)
                .map_err(|error| format!("the body is not valid JSON: {error}"))
        };
        match endpoint(method, path) {
            Endpoint::Health => json_body(200, &json!({})),
            Endpoint::Models => json_body(200, &models(path)),
            Endpoint::Unknown => {
                let message = format!("the mock model has no endpoint {path}");
                fail(dialect, 404, message)
            }
            Endpoint::Ask(_) | Endpoint::Count(_) if method != "POST" => {
                fail(dialect, 405, "only POST is allowed".to_owned())
            }
            Endpoint::Ask(dialect) => match json() {
                Ok(body) => self.ask(&head.uri, dialect, &body).await,
                Err(message) => fail(dialect, 400, message),
            },
            Endpoint::Count(dialect) => match json() {
                Ok(body) => {
                    let body = body.get("generateContentRequest").unwrap_or(&body);
                    let tokens = ModelRequest::read(dialect, body).tokens();
                    let answer = match dialect {
                        Dialect::Gemini => json!({"totalTokens": tokens}),
                        _ => json!({"input_tokens": tokens}),
                    };
                    json_body(200, &answer)
                }
                Err(message) => fail(dialect, 400, message),
            },
        }
    }

    async fn ask(&self, uri: &Uri, dialect: Dialect, body: &Value) -> io::Result<HttpResponse> {
        let mut request = ModelRequest::read(dialect, body);
        if dialect == Dialect::Gemini {
            request.model = gemini_model(uri.path());
            request.stream = uri.path().ends_with(":streamGenerateContent");
        }
        let mut entry = Entry {
            log: self.log.clone(),
            index: self.log.add(&request),
            finished: false,
        };
        let (plan, rule) = self.plan(&request);
        self.log.update(entry.index, |logged| logged.rule = rule);
        let context = ResponseContext {
            plan: &plan,
            request: &request,
            number: self.number.fetch_add(1, Ordering::Relaxed),
        };
        // Gemini streams an array unless the query requests server-sent events.
        let sse = dialect != Dialect::Gemini || has(uri.query().unwrap_or_default(), "alt=sse");
        if request.stream && sse && plan.leading_error().is_none() {
            entry.status(200);
            return stream(context.stream(), entry);
        }
        let total_delay = plan.total_delay();
        sleep(total_delay.unwrap_or(MAX_HANG)).await;
        if total_delay.is_none() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let faults = plan.parts.iter().find_map(|part| match part {
            ReplyPart::Error(error) => Some(error),
            _ => None,
        });
        let breakage = plan.parts.iter().find_map(|part| match part {
            ReplyPart::Break(how) => Some(how),
            _ => None,
        });
        match breakage {
            Some(Breakage::Cut) => {
                entry.finished = true;
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            Some(Breakage::Garbage(text)) => {
                entry.status(200);
                entry.finished = true;
                return text_body(200, text.clone());
            }
            _ => {}
        }
        let (status, body) = match faults {
            Some(error) => (error.status, dialects::error(dialect, error)),
            None if request.stream => (200, json!([context.json_body()])),
            None => (200, context.json_body()),
        };
        entry.status(status);
        entry.finished = true;
        json_body(status, &body)
    }

    /// The reply, and the text that its rule looks for.
    fn plan(&self, request: &ModelRequest) -> (ReplyPlan, String) {
        let mut used = self.used.lock();
        let index = self.script.rule(request, &used);
        if let Some(count) = index.and_then(|index| used.get_mut(index)) {
            *count = count.saturating_add(1);
        }
        drop(used);
        let rule = index.and_then(|index| self.script.rules.get(index));
        let wanted = rule.map_or("", |rule| rule.when.text.wanted());
        (ReplyPlan::new(rule, request), wanted.to_owned())
    }
}

/// Log entry of a request. The outcome of its response is recorded when this is dropped.
struct Entry {
    log: RequestLog,
    index: usize,
    finished: bool,
}

impl Entry {
    fn status(&self, status: u16) {
        self.log.update(self.index, |entry| entry.status = status);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.log.update(self.index, |entry| {
            (entry.finished, entry.dropped) = (self.finished, !self.finished);
        });
    }
}

/// Reads the whole body, or returns why the request is rejected.
async fn read(headers: &HeaderMap, body: Incoming) -> Result<Bytes, (u16, &'static str)> {
    let coding = headers.get(CONTENT_ENCODING);
    if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err((415, "compressed bodies are not supported"));
    }
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err((413, "the body is too long"));
    }
    match timeout(READING, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err((413, "the body is too long")),
        Ok(Err(_)) => Err((400, "the body cannot be read")),
        Err(_) => Err((408, "the request body was not complete in time")),
    }
}

fn stream(outs: Vec<StreamItem>, entry: Entry) -> io::Result<HttpResponse> {
    let events = unfold((outs.into_iter(), entry), async |(mut outs, mut entry)| {
        let text = loop {
            match outs.next() {
                Some(StreamItem::Wait(pause)) => sleep(pause).await,
                Some(StreamItem::Break(how)) => match how {
                    Breakage::Hang => {
                        sleep(MAX_HANG).await;
                        return Some((Err(io::ErrorKind::TimedOut.into()), (outs, entry)));
                    }
                    Breakage::Cut => {
                        entry.finished = true;
                        // Without a pause, the client would not get what was sent before.
                        sleep(BEFORE_CUT).await;
                        return Some((Err(io::ErrorKind::ConnectionReset.into()), (outs, entry)));
                    }
                    Breakage::Garbage(text) => break text,
                },
                Some(StreamItem::Event(Some(name), data)) => {
                    break format!("event: {name}\ndata: {data}\n\n");
                }
                Some(StreamItem::Event(None, data)) => break format!("data: {data}\n\n"),
                Some(StreamItem::Done) => break "data: [DONE]\n\n".to_owned(),
                None => {
                    entry.finished = true;
                    return None;
                }
            }
        };
        Some((Ok(Frame::data(text.into())), (outs, entry)))
    });
    let answer = Response::builder()
        .header("content-type", "text/event-stream")
        .header("cache-control", "no-cache");
    let answer = answer.body(StreamBody::new(events).boxed_unsync());
    answer.map_err(io::Error::other)
}

fn json_body(status: u16, body: &Value) -> io::Result<HttpResponse> {
    text_body(status, body.to_string())
}

/// A body that claims to be JSON.
fn text_body(status: u16, body: String) -> io::Result<HttpResponse> {
    let body = body.map_err(|never| match never {});
    let answer = Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(body.boxed_unsync());
    answer.map_err(io::Error::other)
}

fn fail(dialect: Dialect, status: u16, message: String) -> io::Result<HttpResponse> {
    let body = dialects::error(dialect, &ModelError { status, message });
    json_body(status, &body)
}

/// Finds the endpoint of a path. Only the end of the path counts, because clients are configured
/// with and without `/v1` in the base URL.
fn endpoint(method: &str, path: &str) -> Endpoint {
    let path = path.trim_end_matches('/');
    let has_suffix = |end: &str| path.ends_with(end);
    if path.is_empty() {
        Endpoint::Health
    } else if has_suffix("/messages") {
        Endpoint::Ask(Dialect::Anthropic)
    } else if has_suffix("/messages/count_tokens") {
        Endpoint::Count(Dialect::Anthropic)
    } else if has_suffix("/responses") {
        Endpoint::Ask(Dialect::Responses)
    } else if has_suffix("/chat/completions") {
        Endpoint::Ask(Dialect::Chat)
    } else if has_suffix(":generateContent") || has_suffix(":streamGenerateContent") {
        Endpoint::Ask(Dialect::Gemini)
    } else if has_suffix(":countTokens") {
        Endpoint::Count(Dialect::Gemini)
    } else if has_suffix("/models") && matches!(method, "GET" | "HEAD") {
        Endpoint::Models
    } else {
        Endpoint::Unknown
    }
}

/// Dialect for error responses to a path.
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

/// List of models in a format that the clients of Anthropic and OpenAI can both read.
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
