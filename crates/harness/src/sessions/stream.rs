//! Probes for the event stream of a session.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::context::{ProbeContext, read_json};
use super::record::{self, ExpectedRecord, RecordProblem, kind};
use super::sse::SseEvent;
use crate::run::case::NoVerdict;

/// Thirty seconds, plus a margin for the transmission.
const MAX_SILENCE: Duration = Duration::from_millis(31_500);

pub async fn stream(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let prompt = probe.need_prompt("text")?;
    let session = probe.running(json!({})).await?;
    let id = session.id;
    let stream = probe.open_stream(&id).await;
    let mut stream = stream.map_err(|(error, lines)| probe.failed("A46-HTTP-08", &error, lines))?;
    let media = stream.head.media_type();
    let against = match stream.head.status {
        200 if media == "text/event-stream" => None,
        200 => Some(format!(
            "the content type is `{media}`, not text/event-stream"
        )),
        _ => Some(format!("answered with {}", stream.head.line)),
    };
    let is_stream = against.is_none();
    probe.verdict("A46-HTTP-08", against, &stream.lines);
    if !is_stream {
        return Err(NoVerdict::NotVerified(
            "the response is not an event stream".to_owned(),
        ));
    }
    probe.send_prompt(&id, &prompt).await?;
    stream.turns(1, probe.response_limit()).await;
    let events = stream.events();
    if events.is_empty() {
        let why = "the stream sent nothing during a whole turn";
        let lines = stream.lines;
        probe.violation("A46-SSE-02", why, &lines);
        return Err(NoVerdict::NotVerified("the stream sent nothing".to_owned()));
    }
    messages(probe, &events, &stream.lines);
    let others: Vec<&SseEvent> = events.iter().filter(|e| e.name != "line").collect();
    match others.first() {
        Some(first) => probe.pass("A46-SSE-04", &first.lines),
        None => probe.not_applicable("A46-SSE-04", "the host sends only `line` events"),
    }
    let now = probe.get(&id).await?;
    match now.value().get("lastOutputAt") {
        None => probe.not_applicable("A46-MODEL-08", "the host does not report `lastOutputAt`"),
        Some(_) => match record::problem("lastOutputAt", now.value(), &ExpectedRecord::default()) {
            Some(RecordProblem::Violation(why)) => probe.violation("A46-MODEL-08", why, &now.lines),
            Some(RecordProblem::Warning(why)) => probe.suspicion("A46-MODEL-08", why, &now.lines),
            None => probe.pass("A46-MODEL-08", &now.lines),
        },
    }
    Ok(())
}

/// Checks that each event is JSON, and that output is sent as `line`.
fn messages(probe: &mut ProbeContext<'_>, events: &[SseEvent], opened: &[u64]) {
    let parsed: Vec<(&SseEvent, Result<Value, String>)> = events
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
            probe.suspicion("A46-SSE-01", why, &event.lines);
        }
        Some((event, why)) => {
            let why = format!("the data of a `line` event is not JSON: {why}");
            probe.violation("A46-SSE-01", why, &event.lines);
            probe.not_verified("A46-SSE-02", "the data cannot be parsed");
            probe.not_verified("A46-SSE-03", "the data cannot be parsed");
            return;
        }
        None => {
            let last = events.last().map(|event| event.lines.clone());
            probe.pass("A46-SSE-01", &last.unwrap_or_default());
        }
    }
    let lines: Vec<(&SseEvent, &Value)> = parsed
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
        probe.violation("A46-SSE-02", why, &at);
        probe.not_verified("A46-SSE-03", "the stream sent no `line` event");
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
            probe.violation("A46-SSE-02", why, &event.lines);
        }
        None => probe.pass("A46-SSE-02", &shown),
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
            probe.violation("A46-SSE-03", why, &event.lines);
        }
        None => probe.pass("A46-SSE-03", &shown),
    }
}

/// Checks that a comment is sent in time on a silent stream.
pub async fn keep_alive(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    if probe.config.timeout < MAX_SILENCE {
        return Err(NoVerdict::NotVerified(
            "this check watches a silent stream for 30 s: run with --timeout 32".to_owned(),
        ));
    }
    let session = probe.running(json!({})).await?;
    let mut stream = probe.follow_session(&session.id).await?;
    let start_time = Instant::now();
    let comment = stream.comment(MAX_SILENCE).await;
    probe.outcome.waits += start_time.elapsed();
    match (comment, stream.ended()) {
        (Some((_, line)), _) => probe.pass("A46-SSE-06", &[line]),
        (None, Some(why)) => {
            let why = format!("the stream of a live session ended without a comment: {why}");
            probe.violation("A46-SSE-06", why, &stream.lines);
        }
        (None, None) => {
            let why = "a silent stream sent no comment within 30 s";
            probe.violation("A46-SSE-06", why, &stream.lines);
        }
    }
    Ok(())
}
