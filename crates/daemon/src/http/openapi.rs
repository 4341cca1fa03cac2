//! The OpenAPI document, generated from the types of the routes and from one table of routes. Tests
//! check the real responses of each route against it.

use std::sync::LazyLock;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::{markdown, types};
use crate::model::{SessionRecord, SpawnRequest};
use crate::registry::SessionOutput;
use crate::workspaces::Workspaces;

type Shape = fn(&mut SchemaGenerator) -> Schema;

fn shape<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// One operation: its purpose, its input, and its responses in addition to the common ones.
struct Route {
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    is_open: bool,
    query: Vec<Parameter>,
    body: Option<Shape>,
    done: (u16, &'static str, Content),
    refused: &'static [(u16, &'static str)],
}

struct Parameter {
    name: &'static str,
    about: &'static str,
    kind: &'static str,
}

const fn parameter(name: &'static str, kind: &'static str, about: &'static str) -> Parameter {
    Parameter { name, about, kind }
}

enum Content {
    Json(Shape),
    Stream,
    Page,
    Document,
}

const UNKNOWN: (u16, &str) = (404, "Unknown session");
const FULL: (u16, &str) = (
    429,
    "Too many live sessions, or sessions are started too fast",
);
const NO_DISK: (u16, &str) = (507, "The state directory cannot be written");

const fn route(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    done: (u16, &'static str, Content),
    refused: &'static [(u16, &'static str)],
) -> Route {
    Route {
        method,
        path,
        id,
        summary,
        is_open: false,
        query: Vec::new(),
        body: None,
        done,
        refused,
    }
}

fn routes() -> Vec<Route> {
    vec![
        Route {
            is_open: true,
            ..route(
                "get",
                "/",
                "dashboard",
                "The dashboard, a page without data that asks for a token",
                (200, "The page", Content::Page),
                &[],
            )
        },
        Route {
            is_open: true,
            ..route(
                "get",
                "/healthz",
                "health",
                "Health check",
                (
                    200,
                    "The host is running",
                    Content::Json(shape::<types::Health>),
                ),
                &[],
            )
        },
        Route {
            is_open: true,
            body: Some(shape::<types::Login>),
            ..route(
                "post",
                "/login",
                "login",
                "Exchange the code of a one-time link for the token",
                (200, "The token", Content::Json(shape::<types::Token>)),
                &[
                    (401, "The link was already used or has expired"),
                    (413, "The body is larger than 4 KiB"),
                ],
            )
        },
        route(
            "post",
            "/login/codes",
            "issueLoginCode",
            "Issue the code of a one-time link to the dashboard",
            (201, "The code", Content::Json(shape::<types::LoginCode>)),
            &[],
        ),
        route(
            "post",
            "/token/rotate",
            "rotateToken",
            "Replace the token; the new one is in `runtime.json`",
            (
                200,
                "The old token is invalid",
                Content::Json(shape::<types::Rotation>),
            ),
            &[(501, "This host cannot replace its token"), NO_DISK],
        ),
        route(
            "get",
            "/openapi.json",
            "openapi",
            "This document",
            (200, "This document", Content::Document),
            &[],
        ),
        route(
            "get",
            "/adapters",
            "listAdapters",
            "List all adapters with their modes, options and models",
            (200, "All adapters", Content::Json(shape::<types::Adapters>)),
            &[],
        ),
        Route {
            body: Some(shape::<markdown::Markdown>),
            ..route(
                "post",
                "/markdown",
                "parseMarkdown",
                "Parse Markdown to trees of elements without HTML",
                (
                    200,
                    "One tree for each text",
                    Content::Json(shape::<markdown::MarkdownTrees>),
                ),
                &[],
            )
        },
        route(
            "get",
            "/workspaces",
            "listWorkspaces",
            "List the registered workspaces",
            (
                200,
                "The workspaces as stored",
                Content::Json(shape::<Workspaces>),
            ),
            &[(422, "The stored file cannot be read")],
        ),
        Route {
            query: vec![
                parameter("alive", "boolean", "Only live sessions"),
                parameter(
                    "after",
                    "string",
                    "Only sessions that were started after this one",
                ),
                parameter("limit", "integer", "Maximum number of sessions"),
            ],
            ..route(
                "get",
                "/sessions",
                "listSessions",
                "List all sessions, oldest first",
                (
                    200,
                    "All sessions",
                    Content::Json(shape::<types::SessionList>),
                ),
                &[],
            )
        },
        Route {
            body: Some(shape::<SpawnRequest>),
            ..route(
                "post",
                "/sessions/agent",
                "spawnSession",
                "Start an agent",
                (
                    201,
                    "The session is starting. If it fails later, it ends as `error`",
                    Content::Json(shape::<SessionRecord>),
                ),
                &[
                    (404, "Unknown adapter, or unknown session to resume"),
                    (409, "The session to resume is alive"),
                    (
                        422,
                        "The agent cannot be started because of setup, login, version, sandbox or directory",
                    ),
                    FULL,
                    (501, "No adapter is installed"),
                    (503, "The host is stopping"),
                    NO_DISK,
                ],
            )
        },
        route(
            "get",
            "/sessions/{id}",
            "getSession",
            "Get one session",
            (
                200,
                "The session record",
                Content::Json(shape::<SessionRecord>),
            ),
            &[UNKNOWN],
        ),
        Route {
            body: Some(shape::<types::SessionChange>),
            ..route(
                "patch",
                "/sessions/{id}",
                "renameSession",
                "Change the label of a session, also of an ended one",
                (
                    200,
                    "The changed record",
                    Content::Json(shape::<SessionRecord>),
                ),
                &[UNKNOWN],
            )
        },
        route(
            "delete",
            "/sessions/{id}",
            "forgetSession",
            "Kill a session if it is alive, and forget it",
            (
                200,
                "The session is forgotten",
                Content::Json(shape::<types::ActionResult>),
            ),
            &[UNKNOWN],
        ),
        Route {
            body: Some(shape::<types::PromptRequest>),
            ..route(
                "post",
                "/sessions/{id}/prompt",
                "promptSession",
                "Start a turn. The reply arrives on the stream",
                (
                    200,
                    "The turn has started",
                    Content::Json(shape::<types::ActionResult>),
                ),
                &[
                    UNKNOWN,
                    (409, "A turn is running, or the session has ended"),
                ],
            )
        },
        route(
            "post",
            "/sessions/{id}/interrupt",
            "interruptSession",
            "Cancel the turn, not the session. Without a turn nothing happens",
            (
                200,
                "The turn is being canceled",
                Content::Json(shape::<types::InterruptResult>),
            ),
            &[UNKNOWN],
        ),
        route(
            "post",
            "/sessions/{id}/kill",
            "killSession",
            "Kill a session",
            (
                200,
                "The session has ended. `ok` is false if it had already ended",
                Content::Json(shape::<types::ActionResult>),
            ),
            &[UNKNOWN],
        ),
        route(
            "post",
            "/sessions/{id}/resume",
            "resumeSession",
            "Continue an ended session in a new one",
            (
                201,
                "The new session",
                Content::Json(shape::<SessionRecord>),
            ),
            &[
                UNKNOWN,
                (409, "The session is alive"),
                (
                    422,
                    "Its agent cannot resume sessions, or cannot be started",
                ),
                FULL,
                (501, "No adapter is installed"),
                (503, "The host is stopping"),
                NO_DISK,
            ],
        ),
        Route {
            body: Some(shape::<types::PermissionAnswer>),
            ..route(
                "post",
                "/sessions/{id}/permissions/{rid}",
                "answerPermission",
                "Answer a question of the agent",
                (
                    200,
                    "The answer was passed to the agent",
                    Content::Json(shape::<types::ActionResult>),
                ),
                &[(404, "Unknown session, or no open question with this id")],
            )
        },
        Route {
            query: vec![
                parameter("after", "string", "Id of the last known item"),
                parameter(
                    "limit",
                    "integer",
                    "Maximum number of events, 1 to 1000 (default 200)",
                ),
            ],
            ..route(
                "get",
                "/sessions/{id}/events",
                "listEvents",
                "List the history of the stream, page by page",
                (200, "One page", Content::Json(shape::<types::Events>)),
                &[UNKNOWN],
            )
        },
        Route {
            query: vec![parameter(
                "lastN",
                "integer",
                "Number of lines, 1 to 1000 (default 200). If they exceed 1 MiB, older ones are left out and `truncated` is true",
            )],
            ..route(
                "get",
                "/sessions/{id}/output",
                "getOutput",
                "Get the last lines of output",
                (
                    200,
                    "Lines, oldest first",
                    Content::Json(shape::<SessionOutput>),
                ),
                &[UNKNOWN],
            )
        },
        Route {
            query: vec![
                parameter("from", "string", "`now` skips earlier items"),
                parameter(
                    "after",
                    "string",
                    "Id of the last known item. `Last-Event-ID` takes precedence",
                ),
                parameter("ticket", "string", "Replaces the token, once"),
            ],
            ..route(
                "get",
                "/sessions/{id}/stream",
                "streamSession",
                "Follow a session: events `line`, `status`, `event`, `permission`, `prompt`, `gap`, `end`",
                (200, "Server-sent events", Content::Stream),
                &[UNKNOWN],
            )
        },
        route(
            "post",
            "/sessions/{id}/tickets",
            "issueTicket",
            "Issue a ticket that opens the stream once, for an EventSource",
            (201, "The ticket", Content::Json(shape::<types::Ticket>)),
            &[UNKNOWN],
        ),
    ]
}

/// The whole document.
pub fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(build);
    &DOCUMENT
}

fn build() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let error = generator.subschema_for::<types::ErrorBody>();
    let mut paths = Map::new();
    for route in routes() {
        let operation = operation(&route, &error, &mut generator);
        let path = paths
            .entry(route.path)
            .or_insert_with(|| Value::Object(Map::new()));
        path[route.method] = operation;
    }
    let schemas: Map<String, Value> = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "agentproto",
            "description": "Agent sessions on one host (AIP-46).",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "security": [{ "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas,
        },
    })
}

fn operation(route: &Route, error: &Schema, generator: &mut SchemaGenerator) -> Value {
    let mut answers = Map::new();
    let (status, about, content) = &route.done;
    let content = match content {
        Content::Json(shape) => json!({ "application/json": { "schema": shape(generator) } }),
        Content::Document => json!({ "application/json": { "schema": { "type": "object" } } }),
        Content::Stream => json!({ "text/event-stream": { "schema": { "type": "string" } } }),
        Content::Page => json!({ "text/html": { "schema": { "type": "string" } } }),
    };
    answers.insert(
        status.to_string(),
        json!({ "description": about, "content": content }),
    );
    let mut refused: Vec<(u16, &str)> = vec![
        (400, "The request is invalid"),
        (
            403,
            "The host name or origin is not allowed, or the directory is outside the workspaces, \
             behind a link or in nested workspaces",
        ),
        (429, "Too many requests"),
        (500, "Internal error of the host"),
        (503, "Too many connections, or the host is stopping"),
    ];
    if !route.is_open {
        refused.push((401, "The token is missing or wrong"));
    }
    if route.body.is_some() {
        refused.push((408, "The body was not received in time"));
        refused.push((413, "The body is larger than 4 MiB"));
        refused.push((415, "The body is not declared as JSON"));
    }
    // A route's own descriptions take precedence over the common ones.
    for (status, about) in route.refused.iter().chain(&refused) {
        let content = json!({ "application/json": { "schema": error } });
        let mut answer = json!({ "description": about, "content": content });
        if matches!(status, 429 | 503) {
            answer["headers"] = json!({ "Retry-After": {
                "description": "Whole seconds to wait", "schema": { "type": "integer" },
            } });
        }
        answers.entry(status.to_string()).or_insert(answer);
    }
    answers.sort_keys();
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "responses": answers,
    });
    let parameters = parameters(route);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(shape) = route.body {
        operation["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": shape(generator) } },
        });
    }
    if route.is_open {
        operation["security"] = json!([]);
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let named = route.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        Some(json!({
            "name": name, "in": "path", "required": true, "schema": { "type": "string" },
        }))
    });
    let query = route.query.iter().map(|parameter| {
        json!({
            "name": parameter.name, "in": "query", "required": false,
            "description": parameter.about, "schema": { "type": parameter.kind },
        })
    });
    named.chain(query).collect()
}
