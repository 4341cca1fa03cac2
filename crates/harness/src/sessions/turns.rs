//! Turns: one after the other, never two at once, and what is seen of them.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::follow::{line_of, says_turn_end};
use super::life::acknowledged;
use super::stand::{Answer, Stand};
use crate::run::case::Blocked;

/// After its end was told a turn may take so long to be over.
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
            "the prompt was not taken: {}",
            answer.told()
        )));
    }
    let patience = stand.patience();
    let is_told = follow.turns(1, patience).await;
    if is_told {
        // A second end would come at once.
        let quiet = stand.setting.quiet;
        follow.turns(2, quiet).await;
        stand.played.waits += quiet;
        let ends = follow.turn_ends();
        let against = (ends.len() > 1).then(|| format!("one turn ended {} times", ends.len()));
        stand.verdict("A46-TURN-06", against, &ends);
    } else {
        let why = format!(
            "no line told the end of a turn within {:.0} s",
            patience.as_secs_f64()
        );
        stand.broken("A46-TURN-06", why, &answer.lines);
    }
    lines(stand, &follow.events(), &answer);
    goes_on(stand, &id, &prompt, is_told).await
}

/// `{ok: true, id}`.
fn taken(stand: &mut Stand<'_>, answer: &Answer, id: &str) -> bool {
    let against = match acknowledged(answer, id, "id") {
        None if answer.value()["ok"] != true => {
            Some("`ok` is false for a prompt that was taken".to_owned())
        }
        against => against,
    };
    let is_ok = answer.is_ok();
    stand.verdict("A46-HTTP-05", against, &answer.lines);
    is_ok
}

/// The session lives on, and takes another prompt.
async fn goes_on(
    stand: &mut Stand<'_>,
    id: &str,
    prompt: &str,
    is_told: bool,
) -> Result<(), Blocked> {
    let now = stand.get(id).await?;
    let status = now.value()["status"].clone();
    if status != "running" {
        let why = format!("after its turn the session is {status}, not \"running\"");
        stand.broken("A46-TURN-01", why, &now.lines);
        return Ok(());
    }
    // Where no end was told, the turn may still go on.
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

/// How the turn reads.
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
            let why = "a turn that says something shows no line of it";
            stand.broken("A46-PROJ-01", why, &asked.lines);
        }
    }
    let split = told.iter().find(|(line, _)| line.contains(['\n', '\r']));
    match (split, said.first()) {
        (Some((line, lines)), _) => {
            let why = format!("a line holds a line break: {line:?}");
            stand.broken("A46-PROJ-02", why, lines);
        }
        (None, Some((_, lines))) => stand.met("A46-PROJ-02", lines),
        (None, None) => stand.not_verified("A46-PROJ-02", "no line of text came"),
    }
    match told.iter().find(|(line, _)| says_turn_end(line)) {
        Some((line, lines)) => {
            let has_reason = line
                .split_once("turn-end (")
                .and_then(|(_, rest)| rest.split_once(')'))
                .is_some_and(|(reason, _)| !reason.is_empty());
            let against = (!has_reason)
                .then(|| format!("the line does not tell why the turn ended: {line:?}"));
            stand.verdict("A46-PROJ-07", against, lines);
        }
        None => stand.not_verified("A46-PROJ-07", "no line told the end of the turn"),
    }
}

/// What was said in the first turn is known in the second.
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
        format!(
            "the agent does not know what was said to it before: `{token}` is not in its answer"
        )
    });
    stand.verdict("A46-TURN-02", against.clone(), &lines);
    stand.verdict("A46-TURN-03", against, &lines);
    Ok(())
}

/// A prompt right after the end of a turn.
async fn again(stand: &mut Stand<'_>, id: &str, text: &str) -> Result<Answer, Blocked> {
    let until = Instant::now() + AFTERGLOW;
    loop {
        let answer = stand.prompt("", id, text).await?;
        if answer.is_ok() {
            return Ok(answer);
        }
        if answer.status() != 409 || Instant::now() >= until {
            return Err(Blocked::NotVerified(format!(
                "the second prompt was not taken: {}",
                answer.told()
            )));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Something that nobody says by chance, and that differs from session to session.
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
            "the first prompt was not taken: {}",
            first.told()
        )));
    }
    let ends = follow.turn_ends();
    if !ends.is_empty() {
        let why = "the prompt was answered only when its turn was over";
        let lines: Vec<u64> = ends.into_iter().chain(first.lines).collect();
        stand.doubtful("A46-HTTP-05", why, &lines);
        let why = "the turn was over before a second prompt could be sent".to_owned();
        return Err(Blocked::NotVerified(why));
    }
    stand.met("A46-HTTP-05", &first.lines);
    let second = stand.prompt("A46-TURN-04", &id, &text).await?;
    let lines = [first.lines[1], second.lines[0], second.lines[1]];
    match second.status() {
        409 => stand.met("A46-TURN-04", &lines),
        _ if second.is_ok() && !follow.turn_ends().is_empty() => {
            let why = "the turn was over before the second prompt came: `slow` is too quick";
            stand.not_verified("A46-TURN-04", why);
        }
        _ if second.is_ok() => {
            let why = "a prompt during a turn is taken";
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

/// A spawn with a prompt begins a turn by itself.
pub async fn first_prompt(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "A46-SPAWN-04";
    let text = stand.need_prompt("text")?;
    // While a slow turn goes on, another prompt is refused: that shows it best.
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
                let why = "a session that was started with a prompt tells no end of a turn";
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
            let why = "a session that was started with a prompt has no turn that goes on";
            stand.broken(about, why, &lines);
        }
        _ if other.is_ok() => stand.met(about, &follow.turn_ends()),
        _ => {
            let why = format!("whether a turn goes on cannot be told: {}", other.told());
            stand.not_verified(about, why);
        }
    }
    Ok(())
}

/// A turn in which something happens that has a prefix of its own.
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
        // Whoever waits for an answer does not come to the end of its turn.
        None if !is_enough && key != "permission" => {
            let why = format!("neither `{prefix}` nor the end of the turn came");
            return Err(Blocked::NotVerified(why));
        }
        None => {
            let lines = events.iter().filter(|event| event.name == "line");
            let lines: Vec<u64> = lines
                .flat_map(|event| event.lines.last().copied())
                .collect();
            let why = format!("no line of the turn begins with `{prefix}`");
            stand.broken(id, why, &lines);
        }
    }
    Ok(())
}
