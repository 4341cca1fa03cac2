//! The layer between a client and the daemon. It changes requests or responses, so that the host
//! as a whole has exactly one defect, or conforms in an unusual way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::frames::{self, Frame};
use agentproto_daemon::model::Principal;
use agentproto_daemon::{Registry, SessionRecord, SpawnRequest};

/// Maximum size of a body in bytes. No probe sends or receives more.
const MAX_BODY_BYTES: usize = 8 << 20;
/// Polling interval for the end of a turn.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    List,
    Spawn,
    Show,
    Prompt,
    Kill,
    Forget,
    Stream,
    Mcp,
    Other,
}

/// A request of the client.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    pub route: Route,
    pub method: Method,
    /// Id of the session in the path, or empty.
    pub id: String,
    /// The body as JSON, or null.
    pub body: Value,
    /// The body as received.
    raw: Bytes,
    pub has_token: bool,
    pub headers: axum::http::HeaderMap,
}

impl ClientRequest {
    /// Name of the called MCP tool, or empty.
    pub fn tool(&self) -> &str {
        match self.body["method"].as_str() {
            Some("tools/call") => self.body["params"]["name"].as_str().unwrap_or_default(),
            _ => "",
        }
    }

    pub fn arguments(&self) -> &Value {
        &self.body["params"]["arguments"]
    }

    fn path(&self) -> String {
        let id = agentproto_harness::sessions::percent_encode(&self.id);
        match self.route {
            Route::List => "/sessions".to_owned(),
            Route::Spawn => "/sessions/agent".to_owned(),
            Route::Show | Route::Forget => format!("/sessions/{id}"),
            Route::Prompt => format!("/sessions/{id}/prompt"),
            Route::Kill => format!("/sessions/{id}/kill"),
            Route::Stream => format!("/sessions/{id}/stream"),
            Route::Mcp => "/mcp".to_owned(),
            Route::Other => "/nothing".to_owned(),
        }
    }
}

/// A response to the client.
#[derive(Clone, Debug)]
pub struct HostResponse {
    pub status: u16,
    pub body: Value,
    /// Text that replaces `body`.
    pub text: Option<String>,
    pub media: &'static str,
    pub headers: Vec<(&'static str, String)>,
}

impl HostResponse {
    pub fn new(status: u16, body: Value) -> HostResponse {
        HostResponse {
            status,
            body,
            text: None,
            media: "application/json",
            headers: Vec::new(),
        }
    }

    pub fn error(status: u16, message: &str) -> HostResponse {
        HostResponse::new(
            status,
            json!({"error": {"code": "mutant", "message": message}}),
        )
    }
}

/// State of a changed host.
#[derive(Default)]
pub struct HostState {
    /// Number of times that something happened.
    counts: HashMap<String, u64>,
    /// Hidden second session of each session.
    hidden: HashMap<String, String>,
    /// Records of deleted sessions.
    kept: HashMap<String, SessionRecord>,
}

impl HostState {
    /// Counts an event and returns the number of earlier ones.
    pub fn count(&mut self, what: &str, id: &str) -> u64 {
        let count = self.counts.entry(format!("{what} {id}")).or_default();
        *count += 1;
        *count - 1
    }

    /// Remembers the record of a session that is deleted now.
    pub fn keep(&mut self, record: SessionRecord) {
        self.kept.insert(record.id.clone(), record);
    }

    pub fn kept(&self, id: &str) -> Option<&SessionRecord> {
        self.kept.get(id)
    }

    pub fn has(&self, what: &str, id: &str) -> bool {
        self.counts.contains_key(&format!("{what} {id}"))
    }
}

type Before =
    dyn Fn(&mut ClientRequest, &mut HostState, &Registry) -> Option<HostResponse> + Send + Sync;
type After = dyn Fn(&ClientRequest, &mut HostResponse, &mut HostState) + Send + Sync;
type OnFrame = dyn Fn(Frame, &mut HostState) -> Vec<Frame> + Send + Sync;

/// A change of the host, or several that belong together.
#[derive(Default)]
pub struct HostChanges {
    pub(super) before: Option<Box<Before>>,
    pub(super) after: Option<Box<After>>,
    pub(super) frame: Option<Box<OnFrame>>,
    /// Requests whose response is delayed until the end of the turn.
    pub(super) delayed_until_turn_end: Option<fn(&ClientRequest) -> bool>,
    /// Whether each session has a hidden second session that gets all prompts except the first.
    pub(super) has_hidden_sessions: bool,
    /// Whether streams send no comments.
    pub(super) no_keep_alive: bool,
    /// Delay before every request is handled.
    pub(super) delay: Duration,
    pub(super) encoding: Encoding,
    /// Whether the daemon accepts requests without a token.
    pub(super) accepts_all: bool,
}

/// Encoding choices that the specs leave open.
#[derive(Clone, Copy, Default)]
pub struct Encoding {
    pub crlf: bool,
    pub chunked: bool,
    pub pretty: bool,
    /// Whether responses of `/mcp` are event streams.
    pub mcp_stream: bool,
    /// Whether session ids contain spaces, slashes and umlauts.
    pub other_ids: bool,
}

/// Prefix of the daemon's session ids, and the replacement for it.
const OWN_ID: &str = "ses_";
const OTHER_ID: &str = "Sitzung 7/ä:";

pub struct ChangedHost {
    pub registry: Registry,
    pub inner: Router,
    pub token: String,
    pub changes: Arc<HostChanges>,
    pub state: Arc<Mutex<HostState>>,
}

impl ChangedHost {
    /// The daemon with its changes.
    pub fn router(self) -> Router {
        let host = Arc::new(self);
        Router::new().fallback(move |request: Request| {
            let host = Arc::clone(&host);
            async move { host.answer(request).await }
        })
    }

    fn state(&self) -> MutexGuard<'_, HostState> {
        self.state.lock()
    }

    async fn answer(&self, request: Request) -> Response {
        tokio::time::sleep(self.changes.delay).await;
        let (parts, body) = request.into_parts();
        let raw = to_bytes(body, MAX_BODY_BYTES).await.unwrap_or_default();
        let raw = match self.changes.encoding.other_ids {
            true => Bytes::from(String::from_utf8_lossy(&raw).replace(OTHER_ID, OWN_ID)),
            false => raw,
        };
        let (route, id) = self.route(&parts.method, &parts.uri);
        let bearer = format!("Bearer {}", self.token);
        let mut incoming = ClientRequest {
            route,
            method: parts.method,
            id,
            body: serde_json::from_slice(&raw).unwrap_or_default(),
            raw,
            has_token: parts
                .headers
                .get(AUTHORIZATION)
                .is_some_and(|v| *v == *bearer),
            headers: parts.headers,
        };
        let before = incoming.body.clone();
        let own = self.changes.before.as_ref();
        let own = own.and_then(|f| f(&mut incoming, &mut self.state(), &self.registry));
        if incoming.body != before {
            incoming.raw = Bytes::from(incoming.body.to_string());
        }
        if let Some(reply) = own {
            return self.reply(&incoming, reply);
        }
        let asked_for = incoming.id.clone();
        self.redirect_prompt(&mut incoming);
        let response = self.forward(&incoming, parts.extensions).await;
        incoming.id = asked_for;
        let media = response.headers().get(CONTENT_TYPE).cloned();
        let is_stream = media.is_some_and(|m| m.as_bytes().starts_with(b"text/event-stream"));
        match is_stream && incoming.route == Route::Stream {
            true => self.stream(&incoming, response).await,
            false => self.plain_response(&incoming, response).await,
        }
    }

    fn route(&self, method: &Method, uri: &Uri) -> (Route, String) {
        let path = uri.path();
        if path == "/mcp" {
            return (Route::Mcp, String::new());
        }
        let Some(rest) = path.strip_prefix("/sessions") else {
            return (Route::Other, String::new());
        };
        let mut parts = rest.trim_start_matches('/').split('/');
        let id = percent_decode(parts.next().unwrap_or_default());
        let id = match self.changes.encoding.other_ids {
            true => id.replace(OTHER_ID, OWN_ID),
            false => id,
        };
        let route = match (method.as_str(), id.as_str(), parts.next()) {
            ("GET", "", None) => Route::List,
            ("POST", "agent", None) => Route::Spawn,
            ("GET", _, None) => Route::Show,
            ("DELETE", _, None) => Route::Forget,
            ("POST", _, Some("prompt")) => Route::Prompt,
            ("POST", _, Some("kill")) => Route::Kill,
            ("GET", _, Some("stream")) => Route::Stream,
            _ => Route::Other,
        };
        (route, id)
    }

    /// Sends later prompts to the hidden second session.
    fn redirect_prompt(&self, incoming: &mut ClientRequest) {
        if !self.changes.has_hidden_sessions || incoming.route != Route::Prompt {
            return;
        }
        let mut state = self.state();
        if state.count("prompt", &incoming.id) > 0
            && let Some(hidden_session) = state.hidden.get(&incoming.id)
        {
            incoming.id = hidden_session.clone();
        }
    }

    async fn forward(
        &self,
        incoming: &ClientRequest,
        extensions: axum::http::Extensions,
    ) -> Response {
        let mut request = Request::new(Body::from(incoming.raw.clone()));
        *request.method_mut() = incoming.method.clone();
        *request.uri_mut() = incoming.path().parse().unwrap_or_default();
        *request.headers_mut() = incoming.headers.clone();
        *request.extensions_mut() = extensions;
        request.headers_mut().remove(CONTENT_LENGTH);
        let length = HeaderValue::from(incoming.raw.len());
        request.headers_mut().insert(CONTENT_LENGTH, length);
        if self.changes.accepts_all {
            let bearer = HeaderValue::try_from(format!("Bearer {}", self.token));
            if let Ok(bearer) = bearer {
                request.headers_mut().insert(AUTHORIZATION, bearer);
            }
        }
        let inner = TowerToHyperService::new(self.inner.clone());
        match inner.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Builds a response that is not a stream.
    async fn plain_response(&self, incoming: &ClientRequest, response: Response) -> Response {
        let status = response.status().as_u16();
        let headers = ["mcp-session-id", "www-authenticate"]
            .into_iter()
            .filter_map(|name| {
                let value = response.headers().get(name)?.to_str().ok()?.to_owned();
                Some((name, value))
            });
        let headers: Vec<(&'static str, String)> = headers.collect();
        let bytes = match incoming.route {
            Route::Mcp => message(response, &incoming.body["id"]).await,
            _ => to_bytes(response.into_body(), MAX_BODY_BYTES)
                .await
                .unwrap_or_default(),
        };
        if self
            .changes
            .delayed_until_turn_end
            .is_some_and(|delayed_until_turn_end| delayed_until_turn_end(incoming))
        {
            let id = incoming.arguments()["sessionId"].as_str();
            let id = id.unwrap_or(&incoming.id);
            while self.registry.get(id).is_ok_and(|session| session.busy) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        let mut reply = HostResponse {
            headers,
            ..HostResponse::new(status, serde_json::from_slice(&bytes).unwrap_or_default())
        };
        if reply.body.is_null() {
            reply.text = Some(String::from_utf8_lossy(&bytes).into_owned());
        }
        if self.changes.has_hidden_sessions
            && incoming.route == Route::Spawn
            && let Some(id) = reply.body["id"].as_str()
        {
            self.hidden_session(id, &incoming.body).await;
        }
        self.reply(incoming, reply)
    }

    fn reply(&self, incoming: &ClientRequest, mut reply: HostResponse) -> Response {
        if let Some(after) = &self.changes.after {
            after(incoming, &mut reply, &mut self.state());
        }
        let encoding = self.changes.encoding;
        let mut text = match (reply.text, encoding.pretty) {
            (Some(text), _) => text,
            (None, true) => serde_json::to_string_pretty(&reply.body).unwrap_or_default(),
            (None, false) => reply.body.to_string(),
        };
        if encoding.other_ids {
            text = text.replace(OWN_ID, OTHER_ID);
        }
        let mut media = reply.media;
        if encoding.mcp_stream && incoming.route == Route::Mcp && reply.status == 200 {
            media = "text/event-stream";
            let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
            text = format!(": hello\n\ndata: {note}\n\nevent: message\nid: 1\ndata: {text}\n\n");
        }
        let body = match encoding.chunked {
            true => {
                let pieces: Vec<Bytes> = text
                    .as_bytes()
                    .chunks(7)
                    .map(Bytes::copy_from_slice)
                    .collect();
                let pieces = pieces.into_iter().map(Ok::<_, std::convert::Infallible>);
                Body::from_stream(futures::stream::iter(pieces))
            }
            false => Body::from(text),
        };
        let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::IM_A_TEAPOT);
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        for (name, value) in reply.headers {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        }
        response
    }

    async fn stream(&self, incoming: &ClientRequest, response: Response) -> Response {
        let mut media = "text/event-stream";
        // The status and headers of a stream are changed like those of other responses.
        if let Some(after) = &self.changes.after {
            let mut reply = HostResponse::new(200, Value::Null);
            reply.media = media;
            after(incoming, &mut reply, &mut self.state());
            media = reply.media;
        }
        let own = response.into_body().into_data_stream().boxed();
        let hidden_session = self.state().hidden.get(&incoming.id).cloned();
        let bytes = match hidden_session {
            None => own,
            Some(hidden_session) => {
                let incoming = ClientRequest {
                    id: hidden_session,
                    ..incoming.clone()
                };
                let other = self.forward(&incoming, axum::http::Extensions::new()).await;
                let other = other.into_body().into_data_stream();
                futures::stream::select(own, other).boxed()
            }
        };
        let (changes, state) = (Arc::clone(&self.changes), Arc::clone(&self.state));
        let bytes = bytes.map(|piece| piece.unwrap_or_default());
        let out = frames::split(bytes).map(move |frame| {
            let frames = match (&changes.frame, &frame) {
                (_, Frame::Comment(_)) if changes.no_keep_alive => Vec::new(),
                (Some(change), _) => {
                    let mut state = state.lock();
                    change(frame, &mut state)
                }
                (None, _) => vec![frame],
            };
            let text: String = frames
                .iter()
                .map(|f| f.text(changes.encoding.crlf))
                .collect();
            let text = match changes.encoding.other_ids {
                true => text.replace(OWN_ID, OTHER_ID),
                false => text,
            };
            Ok::<_, std::convert::Infallible>(Bytes::from(text))
        });
        let mut response = Body::from_stream(out).into_response();
        let media = HeaderValue::from_static(media);
        response.headers_mut().insert(CONTENT_TYPE, media);
        response
    }

    async fn hidden_session(&self, id: &str, body: &Value) {
        let request = SpawnRequest {
            adapter: body["adapter"].as_str().unwrap_or_default().to_owned(),
            cwd: body["cwd"].as_str().map(str::to_owned),
            ..SpawnRequest::default()
        };
        if let Ok(hidden_session) = self.registry.spawn(request, Principal::Local).await {
            self.state().hidden.insert(id.to_owned(), hidden_session.id);
        }
    }
}

/// Extracts the response of the MCP server from its event stream.
async fn message(response: Response, id: &Value) -> Bytes {
    let media = response.headers().get(CONTENT_TYPE);
    let is_stream = media.is_some_and(|m| m.as_bytes().starts_with(b"text/event-stream"));
    let mut body = response.into_body().into_data_stream();
    let mut buffer = Vec::new();
    while let Some(Ok(piece)) = body.next().await {
        buffer.extend_from_slice(&piece);
        let text = String::from_utf8_lossy(&buffer);
        let mut data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let answer = data.find(|data| {
            let message: Value = serde_json::from_str(data).unwrap_or_default();
            message["id"] == *id && !id.is_null()
        });
        if let Some(answer) = answer.filter(|_| is_stream) {
            return Bytes::from(answer.to_owned());
        }
    }
    Bytes::from(buffer)
}

fn percent_decode(part: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = part.bytes();
    while let Some(byte) = bytes.next() {
        let hex = (byte == b'%').then(|| [bytes.next(), bytes.next()]);
        match hex {
            Some([Some(a), Some(b)]) => {
                let digits = [a, b];
                let digits = std::str::from_utf8(&digits).unwrap_or_default();
                out.push(u8::from_str_radix(digits, 16).unwrap_or(b'?'));
            }
            _ => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
