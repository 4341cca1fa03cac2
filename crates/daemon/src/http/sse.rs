//! Streams a session to one reader as server-sent events. Frames come ready-made from the ring.
//! Each reader takes them at its own pace, and nothing waits for it.

use std::collections::VecDeque;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::error::ApiError;
use crate::registry::Registry;
use crate::ring::{Cursor, FollowFrom, Follower};

/// Keep-alive interval, shorter than the idle timeout of common proxies (A46-SSE-06).
pub const KEEP_ALIVE: Duration = Duration::from_secs(25);
/// Maximum size in bytes of small frames that are sent together.
const MAX_COMBINED: usize = 32 << 10;
const LAST_EVENT_ID: &str = "last-event-id";

/// Where a reader starts: after the named item, with new items only, or with the ring.
pub fn start_of(
    headers: &HeaderMap,
    after: Option<&str>,
    from: Option<&str>,
) -> Result<FollowFrom, ApiError> {
    // A browser that reconnects sends its position, which takes precedence over the URL.
    let seen = headers.get(LAST_EVENT_ID).and_then(|v| v.to_str().ok());
    let seen = seen.or(after).filter(|seen| !seen.is_empty());
    if let Some(seen) = seen {
        // An invalid id gives a gap, like an id that no longer exists.
        let unknown = Cursor {
            epoch: 0,
            seq: u64::MAX,
        };
        return Ok(FollowFrom::After(Cursor::parse(seen).unwrap_or(unknown)));
    }
    match from {
        None | Some("start") => Ok(FollowFrom::Start),
        Some("now") => Ok(FollowFrom::Now),
        Some(_) => Err(ApiError::bad_request("`from` must be `start` or `now`")
            .hint("omit it to start with the buffered events")),
    }
}

struct Reader {
    registry: Registry,
    id: String,
    follower: Option<Follower>,
    ready: VecDeque<Bytes>,
    keep_alive: Duration,
}

pub fn stream(
    registry: Registry,
    id: String,
    follower: Follower,
    keep_alive: Duration,
) -> Response {
    let reader = Reader {
        registry,
        id,
        follower: Some(follower),
        // Sends a first frame at once. Browsers reconnect after this many milliseconds.
        ready: VecDeque::from([Bytes::from_static(b"retry: 1000\n\n")]),
        keep_alive,
    };
    let frames = futures::stream::unfold(reader, |mut reader| async move {
        let bytes = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), reader))
    });
    let headers = [
        (
            CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream; charset=utf-8"),
        ),
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        if self.ready.is_empty() {
            let follower = self.follower.as_mut()?;
            match tokio::time::timeout(self.keep_alive, follower.next()).await {
                Err(_) => return Some(Bytes::from_static(b": keep-alive\n\n")),
                Ok(Some(frames)) => self.ready.extend(frames),
                Ok(None) => {
                    self.follower = None;
                    return Some(self.end());
                }
            }
        }
        let first = self.ready.pop_front()?;
        let fits = |so_far: usize, next: Option<&Bytes>| {
            next.is_some_and(|next| so_far + next.len() <= MAX_COMBINED)
        };
        if !fits(first.len(), self.ready.front()) {
            return Some(first);
        }
        let mut together = Vec::from(first);
        while fits(together.len(), self.ready.front()) {
            together.extend_from_slice(&self.ready.pop_front()?);
        }
        Some(Bytes::from(together))
    }

    /// The last frame. A browser that reconnects anyway gets it again.
    fn end(&self) -> Bytes {
        let mut data = json!({ "id": self.id });
        if let Ok(session) = self.registry.get(&self.id) {
            data["status"] = json!(session.status);
        }
        Bytes::from(format!("event: end\ndata: {data}\n\n"))
    }
}
