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

use super::answer::{internal, json, ok};
use super::tickets::{Purpose, STREAM_LIFE};
use super::types::{
    Adapters, Done, Event, Events, Health, Interrupted, Login, PermissionAnswer, PromptRequest,
    Sessions, Ticket, Token,
};
use super::{Door, body, openapi, page, sse};
use crate::error::ApiError;
use crate::model::{Principal, SpawnRequest};
use crate::workspaces::Workspaces;
use agentproto_runtime::arm::desk::Answer;

/// Default and maximum number of events per page.
const PAGE: usize = 200;
const MOST_OF_A_PAGE: usize = 1000;

type Answered = Result<Response, ApiError>;
type Shared = State<Arc<Door>>;
type Asked<T> = Result<Query<T>, QueryRejection>;

pub fn all(door: Arc<Door>) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/login", post(login))
        .route("/healthz", get(health))
        .route("/openapi.json", get(document))
        .route("/adapters", get(adapters))
        .route("/workspaces", get(workspaces))
        .route("/sessions", get(list))
        .route("/sessions/agent", post(spawn))
        .route("/sessions/{id}", get(show).delete(forget))
        .route("/sessions/{id}/prompt", post(prompt))
        .route("/sessions/{id}/interrupt", post(interrupt))
        .route("/sessions/{id}/kill", post(kill))
        .route("/sessions/{id}/resume", post(resume))
        .route("/sessions/{id}/permissions/{rid}", post(permission))
        .route("/sessions/{id}/events", get(events))
        .route("/sessions/{id}/output", get(output))
        .route("/sessions/{id}/stream", get(stream))
        .route("/sessions/{id}/tickets", post(ticket))
        .with_state(door)
}

fn asked<T>(query: Asked<T>) -> Result<T, ApiError> {
    let read = query.map(|Query(read)| read);
    read.map_err(|error| {
        ApiError::bad_request(error.body_text()).hint("see GET /openapi.json for all parameters")
    })
}

/// Runs `work` to its end even if the client disconnects, because half a kill would leave a broken
/// state.
async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|error| Err(internal(&error.to_string())))
}

async fn health(State(door): Shared) -> Response {
    let status = match door.registry.is_degraded() {
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

async fn login(State(door): Shared, request: Request) -> Answered {
    let peer = request.extensions().get::<super::Peer>().copied();
    let login: Login = body::read(request, door.times.body).await?;
    if !door.tickets.redeem(&login.code, &Purpose::Link) {
        let slow = door.pace.failed(peer.map(|peer| peer.address.ip()));
        slow.map_err(super::guard::slower)?;
        return Err(ApiError::new(
            401,
            "link_spent",
            "this link was already used or has expired",
        )
        .hint("paste the token from `runtime.json`, or run `serve --open` again"));
    }
    Ok(ok(&Token {
        token: door.token.clone(),
    }))
}

async fn adapters(State(door): Shared) -> Answered {
    let registry = door.registry.clone();
    let adapters = whole(async move {
        let listed = tokio::task::spawn_blocking(move || registry.adapters());
        listed.await.map_err(|error| internal(&error.to_string()))
    });
    Ok(ok(&Adapters {
        adapters: adapters.await?,
    }))
}

async fn workspaces(State(door): Shared) -> Answered {
    let home = door.registry.config().home.clone();
    let loaded = tokio::task::spawn_blocking(move || Workspaces::load(&home));
    let loaded = loaded
        .await
        .map_err(|error| internal(&error.to_string()))??;
    Ok(ok(&loaded))
}

#[derive(Deserialize)]
struct ListQuery {
    alive: Option<bool>,
}

async fn list(State(door): Shared, query: Asked<ListQuery>) -> Answered {
    let query = asked(query)?;
    let sessions = door.registry.list(query.alive.unwrap_or(false));
    Ok(ok(&Sessions { sessions }))
}

async fn spawn(
    State(door): Shared,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Answered {
    let request: SpawnRequest = body::read(request, door.times.body).await?;
    if let Some(prompt) = &request.prompt {
        not_empty(prompt)?;
    }
    let registry = door.registry.clone();
    let session = whole(async move { registry.spawn(request, principal).await }).await?;
    let place = format!("/sessions/{}", session.id);
    let mut response = json(StatusCode::CREATED, &session);
    if let Ok(place) = place.parse() {
        response.headers_mut().insert("location", place);
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

async fn show(State(door): Shared, Path(id): Path<String>) -> Answered {
    Ok(ok(&door.registry.get(&id)?))
}

async fn forget(State(door): Shared, Path(id): Path<String>) -> Answered {
    let (registry, of) = (door.registry.clone(), id.clone());
    let known = whole(async move { registry.forget(&of).await }).await?;
    Ok(ok(&Done { ok: known, id }))
}

async fn prompt(State(door): Shared, Path(id): Path<String>, request: Request) -> Answered {
    door.registry.knows(&id)?;
    let asked: PromptRequest = body::read(request, door.times.body).await?;
    not_empty(&asked.prompt)?;
    door.registry.prompt(&id, asked.prompt).await?;
    Ok(ok(&Done { ok: true, id }))
}

async fn interrupt(State(door): Shared, Path(id): Path<String>) -> Answered {
    let (registry, of) = (door.registry.clone(), id.clone());
    let was_busy = whole(async move { registry.interrupt(&of).await }).await?;
    Ok(ok(&Interrupted {
        ok: true,
        id,
        was_busy,
    }))
}

async fn kill(State(door): Shared, Path(id): Path<String>) -> Answered {
    let (registry, of) = (door.registry.clone(), id.clone());
    let killed = whole(async move { registry.kill(&of).await }).await?;
    Ok(ok(&Done { ok: killed, id }))
}

async fn resume(
    State(door): Shared,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Answered {
    let registry = door.registry.clone();
    let session = whole(async move { registry.resume(&id, principal).await }).await?;
    Ok(json(StatusCode::CREATED, &session))
}

async fn permission(
    State(door): Shared,
    Path((id, question)): Path<(String, String)>,
    request: Request,
) -> Answered {
    door.registry.knows(&id)?;
    let given: PermissionAnswer = body::read(request, door.times.body).await?;
    let answer = match (given.option_id, given.cancelled.unwrap_or(false)) {
        (Some(option), false) => Answer::Choice(option),
        (None, true) => Answer::Cancelled,
        _ => {
            return Err(ApiError::bad_request(
                "exactly one of `optionId` and `\"cancelled\": true` is required",
            )
            .hint("the options are in `pendingPermissions` of the session"));
        }
    };
    door.registry.answer(&id, &question, answer)?;
    Ok(ok(&Done { ok: true, id }))
}

#[derive(Deserialize)]
struct EventsQuery {
    after: Option<String>,
    limit: Option<usize>,
}

async fn events(
    State(door): Shared,
    Path(id): Path<String>,
    query: Asked<EventsQuery>,
) -> Answered {
    let query = asked(query)?;
    let limit = bounded("limit", query.limit.unwrap_or(PAGE))?;
    let page = door
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
    match (1..=MOST_OF_A_PAGE).contains(&value) {
        true => Ok(value),
        false => Err(ApiError::bad_request(format!(
            "`{name}` must be between 1 and {MOST_OF_A_PAGE}, found {value}"
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
    State(door): Shared,
    Path(id): Path<String>,
    query: Asked<OutputQuery>,
) -> Answered {
    let query = asked(query)?;
    let last = query.last_n.map(|n| bounded("lastN", n)).transpose()?;
    Ok(ok(&door.registry.output(&id, last).await?))
}

#[derive(Deserialize)]
struct StreamQuery {
    from: Option<String>,
    after: Option<String>,
}

async fn stream(
    State(door): Shared,
    Path(id): Path<String>,
    query: Asked<StreamQuery>,
    headers: HeaderMap,
) -> Answered {
    let query = asked(query)?;
    let begin = sse::begin(&headers, query.after.as_deref(), query.from.as_deref())?;
    let follower = door.registry.follow(&id, begin).await?;
    let registry = door.registry.clone();
    Ok(sse::stream(registry, id, follower, door.times.keep_alive))
}

async fn ticket(State(door): Shared, Path(id): Path<String>) -> Answered {
    door.registry.knows(&id)?;
    let ticket = door.tickets.issue(Purpose::Stream(id), STREAM_LIFE)?;
    let expires_in_ms = u64::try_from(STREAM_LIFE.as_millis()).unwrap_or(u64::MAX);
    let issued = Ticket {
        ticket,
        expires_in_ms,
    };
    Ok(json(StatusCode::CREATED, &issued))
}
