//! Probes for turns: one after the other, never two at once, and their output lines.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::follow::{line_of, says_turn_end};
use super::life::acknowledged;
use super::stand::{Answer, Stand};
use crate::run::case::Blocked;

/// How long a turn may stay busy after its end was reported.
const AFTERGLOW: Duration = Duration::from_secs(2);

pub async fn turn(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let prompt = stand.need_prompt("text")?;
    let session = stand.running(json!({})).await?;
    let id = session.id;
    let mut follow = stand.following(&id).await?;
    let answer = stand.prompt("A46-HTTP-05", &id, &prompt).await?;
    let is_taken = taken(stand, &answer, &id);
    if !is_taken {
        return Err(Blocked::NotVerified(format!(
            "the prompt was not accepted: {}",
            answer.told()
        )));
    }
    let patience = stand.patience();
    let is_told = follow.turns(1, patience).await;
    if is_told {
        // A second end would follow immediately.
        let quiet = stand.setting.quiet;
        follow.turns(2, quiet).await;
        stand.played.waits += quiet;
        let ends = follow.turn_ends();
        let against = (ends.len() > 1).then(|| format!("the turn ended {} times", ends.len()));
        stand.verdict("A46-TURN-06", against, &ends);
    } else {
        let why = format!(
            "no line reported the end of the turn within {:.0} s",
            patience.as_secs_f64()
        );
        stand.broken("A46-TURN-06", why, &answer.lines);
    }
    lines(stand, &follow.events(), &answer);
    goes_on(stand, &id, &prompt, is_told).await
}

/// Checks the response `{ok: true, id}`.
fn taken(stand: &mut Stand<'_>, answer: &Answer, id: &str) -> bool {
    let against = match acknowledged(answer, id, "id") {
        None if answer.value()["ok"] != true => {
            Some("`ok` is false for a prompt that was accepted".to_owned())
        }
        against => against,
    };
    let is_ok = answer.is_ok();
    stand.verdict("A46-HTTP-05", against, &answer.lines);
    is_ok
}

/// Checks that the session stays alive and accepts another prompt.
async fn goes_on(
    stand: &mut Stand<'_>,
    id: &str,
    prompt: &str,
    is_told: bool,
) -> Result<(), Blocked> {
    let now = stand.get(id).await?;
    let status = now.value()["status"].clone();
    if status != "running" {
        let why = format!("after the turn, the session is {status}, not \"running\"");
        stand.broken("A46-TURN-01", why, &now.lines);
        return Ok(());
    }
    // If no end was reported, the turn may still be running.
    let until = Instant::now()
        + match is_told {
            true => AFTERGLOW,
            false => stand.patience(),
        };
    loop {
        let next = stand.prompt("A46-TURN-01", id, prompt).await?;
        if next.is_ok() {
            stand.met("A46-TURN-01", &[now.lines[1], next.lines[1]]);
            return Ok(());
        }
        if next.status() != 409 || Instant::now() >= until {
            let why = format!("the second prompt is answered with {}", next.told());
            stand.broken("A46-TURN-01", why, &next.lines);
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Checks the output lines of a turn.
fn lines(stand: &mut Stand<'_>, events: &[super::sse::Event], asked: &Answer) {
    let told: Vec<(String, Vec<u64>)> = events
        .iter()
        .filter_map(|event| Some((line_of(event)?, event.lines.clone())))
        .collect();
    let said = told.iter().filter(|(line, _)| !says_turn_end(line));
    let said: Vec<&(String, Vec<u64>)> = said.filter(|(line, _)| !line.trim().is_empty()).collect();
    match said.first() {
        Some((_, lines)) => stand.met("A46-PROJ-01", lines),
        None => {
            let why = "the stream has no output line of the turn";
            stand.broken("A46-PROJ-01", why, &asked.lines);
        }
    }
    let split = told.iter().find(|(line, _)| line.contains(['\n', '\r']));
    match (split, said.first()) {
        (Some((line, lines)), _) => {
            let why = format!("a line contains a line break: {line:?}");
            stand.broken("A46-PROJ-02", why, lines);
        }
        (None, Some((_, lines))) => stand.met("A46-PROJ-02", lines),
        (None, None) => stand.not_verified("A46-PROJ-02", "the stream sent no line of text"),
    }
    match told.iter().find(|(line, _)| says_turn_end(line)) {
        Some((line, lines)) => {
            let has_reason = line
                .split_once("turn-end (")
                .and_then(|(_, rest)| rest.split_once(')'))
                .is_some_and(|(reason, _)| !reason.is_empty());
            let against = (!has_reason).then(|| {
                format!("the line does not contain the reason for the end of the turn: {line:?}")
            });
            stand.verdict("A46-PROJ-07", against, lines);
        }
        None => stand.not_verified("A46-PROJ-07", "no line reported the end of the turn"),
    }
}

/// Checks that the second turn knows what was said in the first.
pub async fn recall(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let text = stand.need_prompt("text")?;
    let recall = stand.need_prompt("recall")?;
    let session = stand.running(json!({})).await?;
    let id = session.id;
    let mut follow = stand.following(&id).await?;
    let patience = stand.patience();
    let token = format!("word-{:08x}", fingerprint(&id));
    stand.prompted(&id, &format!("{text} ({token})")).await?;
    if !follow.turns(1, patience).await {
        let why = "the first turn did not end".to_owned();
        return Err(Blocked::NotVerified(why));
    }
    let before = follow.events().len();
    let asked = again(stand, &id, &recall).await?;
    let is_over = follow.turns(2, patience).await;
    let events = follow.events();
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
        return Err(Blocked::NotVerified(why));
    }
    let against = knows.is_none().then(|| {
        format!("the agent does not remember the first turn: `{token}` is not in its answer")
    });
    stand.verdict("A46-TURN-02", against.clone(), &lines);
    stand.verdict("A46-TURN-03", against, &lines);
    Ok(())
}

/// Sends a prompt right after the end of a turn.
async fn again(stand: &mut Stand<'_>, id: &str, text: &str) -> Result<Answer, Blocked> {
    let until = Instant::now() + AFTERGLOW;
    loop {
        let answer = stand.prompt("", id, text).await?;
        if answer.is_ok() {
            return Ok(answer);
        }
        if answer.status() != 409 || Instant::now() >= until {
            return Err(Blocked::NotVerified(format!(
                "the second prompt was not accepted: {}",
                answer.told()
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

pub async fn overlap(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let slow = stand.need_prompt("slow")?;
    let text = stand.need_prompt("text")?;
    let session = stand.running(json!({})).await?;
    let id = session.id;
    let follow = stand.following(&id).await?;
    let first = stand.prompt("A46-HTTP-05", &id, &slow).await?;
    if !first.is_ok() {
        return Err(Blocked::NotVerified(format!(
            "the first prompt was not accepted: {}",
            first.told()
        )));
    }
    let ends = follow.turn_ends();
    if !ends.is_empty() {
        let why = "the prompt was answered only after its turn had ended";
        let lines: Vec<u64> = ends.into_iter().chain(first.lines).collect();
        stand.doubtful("A46-HTTP-05", why, &lines);
        let why = "the turn ended before a second prompt could be sent".to_owned();
        return Err(Blocked::NotVerified(why));
    }
    stand.met("A46-HTTP-05", &first.lines);
    let second = stand.prompt("A46-TURN-04", &id, &text).await?;
    let lines = [first.lines[1], second.lines[0], second.lines[1]];
    match second.status() {
        409 => stand.met("A46-TURN-04", &lines),
        _ if second.is_ok() && !follow.turn_ends().is_empty() => {
            let why = "the turn ended before the second prompt: the `slow` prompt is too fast";
            stand.not_verified("A46-TURN-04", why);
        }
        _ if second.is_ok() => {
            let why = "a prompt during a turn is accepted";
            stand.broken("A46-TURN-04", why, &lines);
        }
        _ => {
            let why = format!(
                "a prompt during a turn is answered with {}, not 409",
                second.told()
            );
            stand.broken("A46-TURN-04", why, &lines);
        }
    }
    Ok(())
}

/// Checks that a spawn request with a prompt starts a turn.
pub async fn first_prompt(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "A46-SPAWN-04";
    let text = stand.need_prompt("text")?;
    // During a slow turn, another prompt is refused, which is the clearest evidence.
    let slow = stand.need_prompt("slow").ok();
    let prompt = slow.clone().unwrap_or_else(|| text.clone());
    let started = stand.spawn(json!({"prompt": prompt})).await?;
    let started = stand.ready(started).await?;
    let mut follow = stand.following(&started.id).await?;
    if slow.is_none() {
        let is_told = follow.turns(1, stand.patience()).await;
        let ends = follow.turn_ends();
        match is_told {
            true => stand.met(about, &ends),
            false => {
                let why = "a session that was started with a prompt does not report the end of a \
                           turn";
                stand.broken(about, why, &started.lines);
            }
        }
        return Ok(());
    }
    let other = stand.prompt(about, &started.id, &text).await?;
    let lines: Vec<u64> = started.lines.iter().copied().chain(other.lines).collect();
    match other.status() {
        409 => stand.met(about, &lines),
        _ if other.is_ok() && follow.turn_ends().is_empty() => {
            let why = "a session that was started with a prompt has no running turn";
            stand.broken(about, why, &lines);
        }
        _ if other.is_ok() => stand.met(about, &follow.turn_ends()),
        _ => {
            let why = format!(
                "cannot determine whether a turn is running: {}",
                other.told()
            );
            stand.not_verified(about, why);
        }
    }
    Ok(())
}

/// Checks a turn in which something happens that has its own prefix.
pub async fn prefix(
    stand: &mut Stand<'_>,
    key: &str,
    prefix: &str,
    id: &str,
) -> Result<(), Blocked> {
    let prompt = stand.need_prompt(key)?;
    let session = stand.running(json!({})).await?;
    let mut follow = stand.following(&session.id).await?;
    stand.prompted(&session.id, &prompt).await?;
    let begins = |event: &super::sse::Event| {
        line_of(event).is_some_and(|line| line.trim_start().starts_with(prefix))
    };
    let is_enough = |events: &[super::sse::Event]| {
        let ended = |event| line_of(event).is_some_and(|line| says_turn_end(&line));
        events.iter().any(|event| begins(event) || ended(event))
    };
    let is_enough = follow.until(stand.patience(), is_enough).await;
    let events = follow.events();
    match events.iter().find(|event| begins(event)) {
        Some(event) => stand.met(id, &event.lines),
        // A turn that waits for an answer does not end.
        None if !is_enough && key != "permission" => {
            let why = format!("the stream sent neither `{prefix}` nor the end of the turn");
            return Err(Blocked::NotVerified(why));
        }
        None => {
            let lines = events.iter().filter(|event| event.name == "line");
            let lines: Vec<u64> = lines
                .flat_map(|event| event.lines.last().copied())
                .collect();
            let why = format!("no line of the turn starts with `{prefix}`");
            stand.broken(id, why, &lines);
        }
    }
    Ok(())
}
