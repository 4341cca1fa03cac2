//! Probes for turns: one after the other, never two at once, and their output lines.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::context::{HttpResponse, ProbeContext};
use super::event_stream::{is_turn_end_line, line_of};
use super::life::acknowledged;
use crate::run::case::NoVerdict;

/// How long a turn may stay busy after its end was reported.
const BUSY_AFTER_END: Duration = Duration::from_secs(2);

pub async fn turn(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let prompt = probe.need_prompt("text")?;
    let session = probe.running(json!({})).await?;
    let id = session.id;
    let mut stream = probe.follow_session(&id).await?;
    let answer = probe.prompt("A46-HTTP-05", &id, &prompt).await?;
    let is_taken = taken(probe, &answer, &id);
    if !is_taken {
        return Err(NoVerdict::NotVerified(format!(
            "the prompt was not accepted: {}",
            answer.describe()
        )));
    }
    let response_limit = probe.response_limit();
    let is_reported = stream.turns(1, response_limit).await;
    if is_reported {
        // A second end would follow immediately.
        let quiet = probe.config.quiet;
        stream.turns(2, quiet).await;
        probe.outcome.waits += quiet;
        let ends = stream.turn_ends();
        let against = (ends.len() > 1).then(|| format!("the turn ended {} times", ends.len()));
        probe.verdict("A46-TURN-06", against, &ends);
    } else {
        let why = format!(
            "no line reported the end of the turn within {:.0} s",
            response_limit.as_secs_f64()
        );
        probe.violation("A46-TURN-06", why, &answer.lines);
    }
    lines(probe, &stream.events(), &answer);
    turn_continues(probe, &id, &prompt, is_reported).await
}

/// Checks the response `{ok: true, id}`.
fn taken(probe: &mut ProbeContext<'_>, answer: &HttpResponse, id: &str) -> bool {
    let against = match acknowledged(answer, id, "id") {
        None if answer.value()["ok"] != true => {
            Some("`ok` is false for a prompt that was accepted".to_owned())
        }
        against => against,
    };
    let is_ok = answer.is_ok();
    probe.verdict("A46-HTTP-05", against, &answer.lines);
    is_ok
}

/// Checks that the session stays alive and accepts another prompt.
async fn turn_continues(
    probe: &mut ProbeContext<'_>,
    id: &str,
    prompt: &str,
    is_reported: bool,
) -> Result<(), NoVerdict> {
    let now = probe.get(id).await?;
    let status = now.value()["status"].clone();
    if status != "running" {
        let why = format!("after the turn, the session is {status}, not \"running\"");
        probe.violation("A46-TURN-01", why, &now.lines);
        return Ok(());
    }
    // If no end was reported, the turn may still be running.
    let until = Instant::now()
        + match is_reported {
            true => BUSY_AFTER_END,
            false => probe.response_limit(),
        };
    loop {
        let next = probe.prompt("A46-TURN-01", id, prompt).await?;
        if next.is_ok() {
            probe.pass("A46-TURN-01", &[now.lines[1], next.lines[1]]);
            return Ok(());
        }
        if next.status() != 409 || Instant::now() >= until {
            let why = format!("the second prompt is answered with {}", next.describe());
            probe.violation("A46-TURN-01", why, &next.lines);
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Checks the output lines of a turn.
fn lines(probe: &mut ProbeContext<'_>, events: &[super::sse::SseEvent], asked: &HttpResponse) {
    let line_texts: Vec<(String, Vec<u64>)> = events
        .iter()
        .filter_map(|event| Some((line_of(event)?, event.lines.clone())))
        .collect();
    let output = line_texts
        .iter()
        .filter(|(line, _)| !is_turn_end_line(line));
    let output: Vec<&(String, Vec<u64>)> =
        output.filter(|(line, _)| !line.trim().is_empty()).collect();
    match output.first() {
        Some((_, lines)) => probe.pass("A46-PROJ-01", lines),
        None => {
            let why = "the stream has no output line of the turn";
            probe.violation("A46-PROJ-01", why, &asked.lines);
        }
    }
    let split = line_texts
        .iter()
        .find(|(line, _)| line.contains(['\n', '\r']));
    match (split, output.first()) {
        (Some((line, lines)), _) => {
            let why = format!("a line contains a line break: {line:?}");
            probe.violation("A46-PROJ-02", why, lines);
        }
        (None, Some((_, lines))) => probe.pass("A46-PROJ-02", lines),
        (None, None) => probe.not_verified("A46-PROJ-02", "the stream sent no line of text"),
    }
    match line_texts.iter().find(|(line, _)| is_turn_end_line(line)) {
        Some((line, lines)) => {
            let has_reason = line
                .split_once("turn-end (")
                .and_then(|(_, rest)| rest.split_once(')'))
                .is_some_and(|(reason, _)| !reason.is_empty());
            let against = (!has_reason).then(|| {
                format!("the line does not contain the reason for the end of the turn: {line:?}")
            });
            probe.verdict("A46-PROJ-07", against, lines);
        }
        None => probe.not_verified("A46-PROJ-07", "no line reported the end of the turn"),
    }
}

/// Checks that the second turn knows what was said in the first.
pub async fn recall(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let text = probe.need_prompt("text")?;
    let recall = probe.need_prompt("recall")?;
    let session = probe.running(json!({})).await?;
    let id = session.id;
    let mut stream = probe.follow_session(&id).await?;
    let response_limit = probe.response_limit();
    let token = format!("word-{:08x}", fingerprint(&id));
    probe.send_prompt(&id, &format!("{text} ({token})")).await?;
    if !stream.turns(1, response_limit).await {
        let why = "the first turn did not end".to_owned();
        return Err(NoVerdict::NotVerified(why));
    }
    let before = stream.events().len();
    let asked = prompt_again(probe, &id, &recall).await?;
    let is_over = stream.turns(2, response_limit).await;
    let events = stream.events();
    let second = events.get(before..).unwrap_or_default();
    let knows = second
        .iter()
        .find(|event| line_of(event).is_some_and(|line| line.contains(&token)));
    let lines: Vec<u64> = match knows {
        Some(event) => event.lines.clone(),
        None => {
            let last = second.iter().rev().take(2).flat_map(|e| e.lines.clone());
            last.chain(asked.lines).collect()
        }
    };
    if knows.is_none() && !is_over {
        let why = "the second turn did not end".to_owned();
        return Err(NoVerdict::NotVerified(why));
    }
    let against = knows.is_none().then(|| {
        format!("the agent does not remember the first turn: `{token}` is not in its answer")
    });
    probe.verdict("A46-TURN-02", against.clone(), &lines);
    probe.verdict("A46-TURN-03", against, &lines);
    Ok(())
}

/// Sends a prompt right after the end of a turn.
async fn prompt_again(
    probe: &mut ProbeContext<'_>,
    id: &str,
    text: &str,
) -> Result<HttpResponse, NoVerdict> {
    let until = Instant::now() + BUSY_AFTER_END;
    loop {
        let answer = probe.prompt("", id, text).await?;
        if answer.is_ok() {
            return Ok(answer);
        }
        if answer.status() != 409 || Instant::now() >= until {
            return Err(NoVerdict::NotVerified(format!(
                "the second prompt was not accepted: {}",
                answer.describe()
            )));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A hash that an agent does not say by chance, different for each session.
fn fingerprint(id: &str) -> u32 {
    id.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

pub async fn overlap(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let slow = probe.need_prompt("slow")?;
    let text = probe.need_prompt("text")?;
    let session = probe.running(json!({})).await?;
    let id = session.id;
    let stream = probe.follow_session(&id).await?;
    let first = probe.prompt("A46-HTTP-05", &id, &slow).await?;
    if !first.is_ok() {
        return Err(NoVerdict::NotVerified(format!(
            "the first prompt was not accepted: {}",
            first.describe()
        )));
    }
    let ends = stream.turn_ends();
    if !ends.is_empty() {
        let why = "the prompt was answered only after its turn had ended";
        let lines: Vec<u64> = ends.into_iter().chain(first.lines).collect();
        probe.suspicion("A46-HTTP-05", why, &lines);
        let why = "the turn ended before a second prompt could be sent".to_owned();
        return Err(NoVerdict::NotVerified(why));
    }
    probe.pass("A46-HTTP-05", &first.lines);
    let second = probe.prompt("A46-TURN-04", &id, &text).await?;
    let lines = [first.lines[1], second.lines[0], second.lines[1]];
    match second.status() {
        409 => probe.pass("A46-TURN-04", &lines),
        _ if second.is_ok() && !stream.turn_ends().is_empty() => {
            let why = "the turn ended before the second prompt: the `slow` prompt is too fast";
            probe.not_verified("A46-TURN-04", why);
        }
        _ if second.is_ok() => {
            let why = "a prompt during a turn is accepted";
            probe.violation("A46-TURN-04", why, &lines);
        }
        _ => {
            let why = format!(
                "a prompt during a turn is answered with {}, not 409",
                second.describe()
            );
            probe.violation("A46-TURN-04", why, &lines);
        }
    }
    Ok(())
}

/// Checks that a spawn request with a prompt starts a turn.
pub async fn first_prompt(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "A46-SPAWN-04";
    let text = probe.need_prompt("text")?;
    // During a slow turn, another prompt is refused, which is the clearest evidence.
    let slow = probe.need_prompt("slow").ok();
    let prompt = slow.clone().unwrap_or_else(|| text.clone());
    let started = probe.spawn(json!({"prompt": prompt})).await?;
    let started = probe.ready(started).await?;
    let mut stream = probe.follow_session(&started.id).await?;
    if slow.is_none() {
        let is_reported = stream.turns(1, probe.response_limit()).await;
        let ends = stream.turn_ends();
        match is_reported {
            true => probe.pass(about, &ends),
            false => {
                let why = "a session that was started with a prompt does not report the end of a \
                           turn";
                probe.violation(about, why, &started.lines);
            }
        }
        return Ok(());
    }
    let other = probe.prompt(about, &started.id, &text).await?;
    let lines: Vec<u64> = started.lines.iter().copied().chain(other.lines).collect();
    match other.status() {
        409 => probe.pass(about, &lines),
        _ if other.is_ok() && stream.turn_ends().is_empty() => {
            let why = "a session that was started with a prompt has no running turn";
            probe.violation(about, why, &lines);
        }
        _ if other.is_ok() => probe.pass(about, &stream.turn_ends()),
        _ => {
            let why = format!(
                "cannot determine whether a turn is running: {}",
                other.describe()
            );
            probe.not_verified(about, why);
        }
    }
    Ok(())
}

/// Checks a turn in which something happens that has its own prefix.
pub async fn prefix(
    probe: &mut ProbeContext<'_>,
    key: &str,
    prefix: &str,
    id: &str,
) -> Result<(), NoVerdict> {
    let prompt = probe.need_prompt(key)?;
    let session = probe.running(json!({})).await?;
    let mut stream = probe.follow_session(&session.id).await?;
    probe.send_prompt(&session.id, &prompt).await?;
    let begins = |event: &super::sse::SseEvent| {
        line_of(event).is_some_and(|line| line.trim_start().starts_with(prefix))
    };
    let is_enough = |events: &[super::sse::SseEvent]| {
        let ended = |event| line_of(event).is_some_and(|line| is_turn_end_line(&line));
        events.iter().any(|event| begins(event) || ended(event))
    };
    let is_enough = stream.until(probe.response_limit(), is_enough).await;
    let events = stream.events();
    match events.iter().find(|event| begins(event)) {
        Some(event) => probe.pass(id, &event.lines),
        // A turn that waits for an answer does not end.
        None if !is_enough && key != "permission" => {
            let why = format!("the stream sent neither `{prefix}` nor the end of the turn");
            return Err(NoVerdict::NotVerified(why));
        }
        None => {
            let lines = events.iter().filter(|event| event.name == "line");
            let lines: Vec<u64> = lines
                .flat_map(|event| event.lines.last().copied())
                .collect();
            let why = format!("no line of the turn starts with `{prefix}`");
            probe.violation(id, why, &lines);
        }
    }
    Ok(())
}
