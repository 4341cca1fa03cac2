//! Probes for the event stream of a session.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::record::{self, Flaw, Known, kind};
use super::sse::Event;
use super::stand::{Stand, read_json};
use crate::run::case::Blocked;

/// Thirty seconds, plus a margin for the transmission.
const LONGEST_SILENCE: Duration = Duration::from_millis(31_500);

pub async fn stream(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let prompt = stand.need_prompt("text")?;
    let session = stand.running(json!({})).await?;
    let id = session.id;
    let follow = stand.follow(&id).await;
    let mut follow =
        follow.map_err(|(trouble, lines)| stand.failed("A46-HTTP-08", &trouble, lines))?;
    let media = follow.head.media_type();
    let against = match follow.head.status {
        200 if media == "text/event-stream" => None,
        200 => Some(format!(
            "the content type is `{media}`, not text/event-stream"
        )),
        _ => Some(format!("answered with {}", follow.head.line)),
    };
    let is_stream = against.is_none();
    stand.verdict("A46-HTTP-08", against, &follow.lines);
    if !is_stream {
        return Err(Blocked::NotVerified(
            "the response is not an event stream".to_owned(),
        ));
    }
    stand.prompted(&id, &prompt).await?;
    follow.turns(1, stand.patience()).await;
    let events = follow.events();
    if events.is_empty() {
        let why = "the stream sent nothing during a whole turn";
        let lines = follow.lines;
        stand.broken("A46-SSE-02", why, &lines);
        return Err(Blocked::NotVerified("the stream sent nothing".to_owned()));
    }
    messages(stand, &events, &follow.lines);
    let others: Vec<&Event> = events.iter().filter(|e| e.name != "line").collect();
    match others.first() {
        Some(first) => stand.met("A46-SSE-04", &first.lines),
        None => stand.not_applicable("A46-SSE-04", "the host sends only `line` events"),
    }
    let now = stand.get(&id).await?;
    match now.value().get("lastOutputAt") {
        None => stand.not_applicable("A46-MODEL-08", "the host does not report `lastOutputAt`"),
        Some(_) => match record::flaw("lastOutputAt", now.value(), &Known::default()) {
            Some(Flaw::Wrong(why)) => stand.broken("A46-MODEL-08", why, &now.lines),
            Some(Flaw::Odd(why)) => stand.doubtful("A46-MODEL-08", why, &now.lines),
            None => stand.met("A46-MODEL-08", &now.lines),
        },
    }
    Ok(())
}

/// Checks that each event is JSON, and that output is sent as `line`.
fn messages(stand: &mut Stand<'_>, events: &[Event], opened: &[u64]) {
    let parsed: Vec<(&Event, Result<Value, String>)> = events
        .iter()
        .map(|event| (event, read_json(event.data.as_bytes())))
        .collect();
    let garbled = parsed
        .iter()
        .find_map(|(event, data)| Some((*event, data.as_ref().err()?)));
    match garbled {
        // Events that the spec does not define may follow other rules.
        Some((event, why)) if event.name != "line" => {
            let why = format!("the data of `{}` is not JSON: {why}", event.name);
            stand.doubtful("A46-SSE-01", why, &event.lines);
        }
        Some((event, why)) => {
            let why = format!("the data of a `line` event is not JSON: {why}");
            stand.broken("A46-SSE-01", why, &event.lines);
            stand.not_verified("A46-SSE-02", "the data cannot be parsed");
            stand.not_verified("A46-SSE-03", "the data cannot be parsed");
            return;
        }
        None => {
            let last = events.last().map(|event| event.lines.clone());
            stand.met("A46-SSE-01", &last.unwrap_or_default());
        }
    }
    let lines: Vec<(&Event, &Value)> = parsed
        .iter()
        .filter(|(event, _)| event.name == "line")
        .filter_map(|(event, data)| Some((*event, data.as_ref().ok()?)))
        .collect();
    if lines.is_empty() {
        let misnamed = parsed
            .iter()
            .find(|(_, data)| data.as_ref().is_ok_and(|data| data["line"].is_string()));
        let (why, at) = match misnamed {
            Some((event, _)) => (
                format!("output is sent as the event `{}`, not `line`", event.name),
                event.lines.clone(),
            ),
            None => (
                "the stream sent no `line` event during a whole turn".to_owned(),
                opened.to_vec(),
            ),
        };
        stand.broken("A46-SSE-02", why, &at);
        stand.not_verified("A46-SSE-03", "the stream sent no `line` event");
        return;
    }
    let shown: Vec<u64> = lines
        .iter()
        .flat_map(|(e, _)| e.lines.last().copied())
        .collect();
    let untold = lines.iter().find(|(_, data)| !data["line"].is_string());
    match untold {
        Some((event, data)) => {
            let why = match data.get("line") {
                None => "a `line` event has no member `line`".to_owned(),
                Some(line) => format!("`line` is {}, not a string", kind(line)),
            };
            stand.broken("A46-SSE-02", why, &event.lines);
        }
        None => stand.met("A46-SSE-02", &shown),
    }
    let wrong = lines.iter().find_map(|(event, data)| {
        let stream = data.get("stream");
        let fits = stream.is_some_and(|stream| stream == "stdout" || stream == "stderr");
        (!fits).then(|| (event, stream.cloned()))
    });
    match wrong {
        Some((event, stream)) => {
            let why = match stream {
                None => "a `line` event has no `stream`".to_owned(),
                Some(stream) => format!("`stream` is {stream}, not \"stdout\" or \"stderr\""),
            };
            stand.broken("A46-SSE-03", why, &event.lines);
        }
        None => stand.met("A46-SSE-03", &shown),
    }
}

/// Checks that a comment is sent in time on a silent stream.
pub async fn keep_alive(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    if stand.setting.timeout < LONGEST_SILENCE {
        return Err(Blocked::NotVerified(
            "this check watches a silent stream for 30 s: run with --timeout 32".to_owned(),
        ));
    }
    let session = stand.running(json!({})).await?;
    let mut follow = stand.following(&session.id).await?;
    let begun = Instant::now();
    let comment = follow.comment(LONGEST_SILENCE).await;
    stand.played.waits += begun.elapsed();
    match (comment, follow.ended()) {
        (Some((_, line)), _) => stand.met("A46-SSE-06", &[line]),
        (None, Some(why)) => {
            let why = format!("the stream of a live session ended without a comment: {why}");
            stand.broken("A46-SSE-06", why, &follow.lines);
        }
        (None, None) => {
            let why = "a silent stream sent no comment within 30 s";
            stand.broken("A46-SSE-06", why, &follow.lines);
        }
    }
    Ok(())
}
