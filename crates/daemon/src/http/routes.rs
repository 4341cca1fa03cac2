//! The routes. Each parses its request, calls the registry, and builds the response.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::response::{internal, json, ok};
use super::tickets::{LINK_LIFETIME, Purpose, STREAM_LIFETIME};
use super::types::{
    ActionResult, Adapters, Event, Events, Health, InterruptResult, Login, LoginCode,
    PermissionAnswer, PromptRequest, Rotation, SessionChange, SessionList, Ticket, Token,
};
use super::{AppState, body, markdown, openapi, page, sse};
use crate::error::ApiError;
use crate::model::{Principal, SpawnRequest};
use crate::workspaces::Workspaces;

/// Default and maximum number of events per page.
const PAGE: usize = 200;
const MAX_PAGE: usize = 1000;
/// Maximum size in bytes of the body of a login, which anyone can send.
const MAX_LOGIN: usize = 4 << 10;

type RouteResult = Result<Response, ApiError>;
type Shared = State<Arc<AppState>>;
type QueryResult<T> = Result<Query<T>, QueryRejection>;

pub fn all(state: Arc<AppState>) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/login", post(login))
        .route("/login/codes", post(login_code))
        .route("/token/rotate", post(rotate))
        .route("/healthz", get(health))
        .route("/openapi.json", get(document))
        .route("/adapters", get(adapters))
        .route("/workspaces", get(workspaces))
        .route("/markdown", post(parse_markdown))
        .route("/sessions", get(list))
        .route("/sessions/agent", post(spawn))
        .route("/sessions/{id}", get(show).patch(change).delete(forget))
        .route("/sessions/{id}/prompt", post(prompt))
        .route("/sessions/{id}/interrupt", post(interrupt))
        .route("/sessions/{id}/kill", post(kill))
        .route("/sessions/{id}/resume", post(resume))
        .route("/sessions/{id}/permissions/{rid}", post(permission))
        .route("/sessions/{id}/events", get(events))
        .route("/sessions/{id}/output", get(output))
        .route("/sessions/{id}/stream", get(stream))
        .route("/sessions/{id}/tickets", post(ticket))
        .with_state(state)
}

fn parse_query<T>(query: QueryResult<T>) -> Result<T, ApiError> {
    let read = query.map(|Query(read)| read);
    read.map_err(|error| {
        ApiError::bad_request(error.body_text()).hint("see GET /openapi.json for all parameters")
    })
}

/// Runs `work` to its end even if the client disconnects, because half a kill would leave a broken
/// state.
async fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|error| Err(internal(&error.to_string())))
}

async fn health(State(state): Shared) -> Response {
    let status = match state.registry.is_degraded() {
        true => "degraded",
        false => "ok",
    };
    ok(&Health {
        ok: true,
        status,
        version: env!("CARGO_PKG_VERSION"),
    })
}

async fn document() -> Response {
    ok(openapi::document())
}

async fn login(State(state): Shared, request: Request) -> RouteResult {
    let peer = request.extensions().get::<super::Peer>().copied();
    let login: Login = body::read_up_to(MAX_LOGIN, request, state.timeouts.body).await?;
    let token = state.token.current();
    if !state.tickets.redeem(&login.code, &Purpose::Link) {
        let slow = state.limiter.failed(peer.map(|peer| peer.address.ip()));
        slow.map_err(super::guard::rate_limited)?;
        return Err(ApiError::new(
            401,
            "link_spent",
            "this link was already used or has expired",
        )
        .hint("paste the token from `runtime.json`, or print a new link with `agentproto sessions --open`"));
    }
    Ok(ok(&Token {
        token: token.text().to_owned(),
    }))
}

async fn login_code(State(state): Shared, request: Request) -> RouteResult {
    // The token cannot be replaced between the check and the code.
    let _current = state.token.current();
    super::guard::check_still_valid(request.extensions())?;
    let issued = LoginCode {
        code: state.link_code()?,
        expires_in_ms: u64::try_from(LINK_LIFETIME.as_millis()).unwrap_or(u64::MAX),
    };
    Ok(json(StatusCode::CREATED, &issued))
}

async fn rotate(State(state): Shared) -> RouteResult {
    let rotated = tokio::task::spawn_blocking(move || state.rotate_token());
    rotated
        .await
        .map_err(|error| internal(&error.to_string()))??;
    Ok(ok(&Rotation { ok: true }))
}

async fn adapters(State(state): Shared) -> RouteResult {
    let registry = state.registry.clone();
    let listed = run_to_end(async move {
        let listed = tokio::task::spawn_blocking(move || {
            let all = registry.adapter_details();
            Adapters {
                adapters: all.keys().cloned().collect(),
                details: all
                    .into_iter()
                    .filter_map(|(slug, it)| Some((slug, it?)))
                    .collect(),
            }
        });
        listed.await.map_err(|error| internal(&error.to_string()))
    });
    Ok(ok(&listed.await?))
}

async fn parse_markdown(State(state): Shared, request: Request) -> RouteResult {
    let request: markdown::Markdown = body::read(request, state.timeouts.body).await?;
    let parsed = tokio::task::spawn_blocking(move || markdown::parse(&request));
    let parsed = parsed.await.map_err(|error| internal(&error.to_string()))?;
    Ok(ok(&parsed?))
}

async fn workspaces(State(state): Shared) -> RouteResult {
    let home = state.registry.config().home.clone();
    let loaded = tokio::task::spawn_blocking(move || Workspaces::load(&home));
    let loaded = loaded
        .await
        .map_err(|error| internal(&error.to_string()))??;
    Ok(ok(&loaded))
}

#[derive(Deserialize)]
struct ListQuery {
    alive: Option<bool>,
    after: Option<String>,
    limit: Option<usize>,
}

async fn list(State(state): Shared, query: QueryResult<ListQuery>) -> RouteResult {
    let query = parse_query(query)?;
    let only_alive = query.alive.unwrap_or(false);
    let limit = query.limit.unwrap_or(usize::MAX);
    let (sessions, next) = state
        .registry
        .list_page(only_alive, query.after.as_deref(), limit)?;
    Ok(ok(&SessionList { sessions, next }))
}

async fn spawn(
    State(state): Shared,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> RouteResult {
    let request: SpawnRequest = body::read(request, state.timeouts.body).await?;
    if let Some(prompt) = &request.prompt {
        not_empty(prompt)?;
    }
    let registry = state.registry.clone();
    let session = run_to_end(async move { registry.spawn(request, principal).await }).await?;
    let location = format!("/sessions/{}", session.id);
    let mut response = json(StatusCode::CREATED, &session);
    if let Ok(location) = location.parse() {
        response.headers_mut().insert("location", location);
    }
    Ok(response)
}

fn not_empty(prompt: &str) -> Result<(), ApiError> {
    match prompt.trim().is_empty() {
        true => {
            Err(ApiError::bad_request("`prompt` is empty").hint("send a prompt that is not blank"))
        }
        false => Ok(()),
    }
}

async fn show(State(state): Shared, Path(id): Path<String>) -> RouteResult {
    Ok(ok(&state.registry.get(&id)?))
}

async fn change(State(state): Shared, Path(id): Path<String>, request: Request) -> RouteResult {
    state.registry.check_known(&id)?;
    let change: SessionChange = body::read(request, state.timeouts.body).await?;
    let Some(label) = change.label else {
        return Err(ApiError::bad_request("`label` is missing")
            .hint("send `{\"label\": \"TEXT\"}`, or null to remove the label"));
    };
    let registry = state.registry.clone();
    let session = run_to_end(async move { registry.rename(&id, label).await }).await?;
    Ok(ok(&session))
}

async fn forget(State(state): Shared, Path(id): Path<String>) -> RouteResult {
    let (registry, session_id) = (state.registry.clone(), id.clone());
    let known = run_to_end(async move { registry.forget(&session_id).await }).await?;
    Ok(ok(&ActionResult { ok: known, id }))
}

async fn prompt(State(state): Shared, Path(id): Path<String>, request: Request) -> RouteResult {
    state.registry.check_known(&id)?;
    let request: PromptRequest = body::read(request, state.timeouts.body).await?;
    not_empty(&request.prompt)?;
    state.registry.prompt(&id, request.prompt).await?;
    Ok(ok(&ActionResult { ok: true, id }))
}

async fn interrupt(State(state): Shared, Path(id): Path<String>) -> RouteResult {
    let (registry, session_id) = (state.registry.clone(), id.clone());
    let was_busy = run_to_end(async move { registry.interrupt(&session_id).await }).await?;
    Ok(ok(&InterruptResult {
        ok: true,
        id,
        was_busy,
    }))
}

async fn kill(State(state): Shared, Path(id): Path<String>) -> RouteResult {
    let (registry, session_id) = (state.registry.clone(), id.clone());
    let killed = run_to_end(async move { registry.kill(&session_id).await }).await?;
    Ok(ok(&ActionResult { ok: killed, id }))
}

async fn resume(
    State(state): Shared,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> RouteResult {
    let registry = state.registry.clone();
    let session = run_to_end(async move { registry.resume(&id, principal).await }).await?;
    Ok(json(StatusCode::CREATED, &session))
}

async fn permission(
    State(state): Shared,
    Path((id, question)): Path<(String, String)>,
    request: Request,
) -> RouteResult {
    state.registry.check_known(&id)?;
    let answer: PermissionAnswer = body::read(request, state.timeouts.body).await?;
    let answer = answer.into_answer()?;
    state.registry.answer(&id, &question, answer)?;
    Ok(ok(&ActionResult { ok: true, id }))
}

#[derive(Deserialize)]
struct EventsQuery {
    after: Option<String>,
    limit: Option<usize>,
}

async fn events(
    State(state): Shared,
    Path(id): Path<String>,
    query: QueryResult<EventsQuery>,
) -> RouteResult {
    let query = parse_query(query)?;
    let limit = bounded("limit", query.limit.unwrap_or(PAGE))?;
    let page = state
        .registry
        .events(&id, query.after.as_deref(), limit)
        .await?;
    let events = page.items.iter().map(|item| {
        let data: &RawValue =
            serde_json::from_str(item.data()).map_err(|error| internal(&error.to_string()))?;
        Ok(Event {
            id: item.id(),
            event: item.kind.as_str(),
            data,
        })
    });
    let events = events.collect::<Result<Vec<_>, ApiError>>()?;
    Ok(ok(&Events {
        events,
        next: page.next,
    }))
}

fn bounded(name: &str, value: usize) -> Result<usize, ApiError> {
    match (1..=MAX_PAGE).contains(&value) {
        true => Ok(value),
        false => Err(ApiError::bad_request(format!(
            "`{name}` must be between 1 and {MAX_PAGE}, found {value}"
        ))
        .hint("use a smaller page, then request the next one")),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutputQuery {
    last_n: Option<usize>,
}

async fn output(
    State(state): Shared,
    Path(id): Path<String>,
    query: QueryResult<OutputQuery>,
) -> RouteResult {
    let query = parse_query(query)?;
    let last = query.last_n.map(|n| bounded("lastN", n)).transpose()?;
    Ok(ok(&state.registry.output(&id, last).await?))
}

#[derive(Deserialize)]
struct StreamQuery {
    from: Option<String>,
    after: Option<String>,
}

async fn stream(
    State(state): Shared,
    Path(id): Path<String>,
    query: QueryResult<StreamQuery>,
    headers: HeaderMap,
) -> RouteResult {
    let query = parse_query(query)?;
    let start = sse::start_of(&headers, query.after.as_deref(), query.from.as_deref())?;
    let follower = state.registry.follow(&id, start).await?;
    let registry = state.registry.clone();
    Ok(sse::stream(
        registry,
        id,
        follower,
        state.timeouts.keep_alive,
    ))
}

async fn ticket(State(state): Shared, Path(id): Path<String>, request: Request) -> RouteResult {
    state.registry.check_known(&id)?;
    // The token cannot be replaced between the check and the ticket.
    let _current = state.token.current();
    super::guard::check_still_valid(request.extensions())?;
    let ticket = state.tickets.issue(Purpose::Stream(id), STREAM_LIFETIME)?;
    let expires_in_ms = u64::try_from(STREAM_LIFETIME.as_millis()).unwrap_or(u64::MAX);
    let issued = Ticket {
        ticket,
        expires_in_ms,
    };
    Ok(json(StatusCode::CREATED, &issued))
}
