//! Probes for the lifecycle of a session: start, kill, delete.

use serde_json::{Value, json};

use super::record::{self, Flaw, Known, kind, may_follow};
use super::stand::{Answer, Stand};
use crate::run::case::Blocked;

/// What is wrong with an acknowledgement `{ok, id}`, which several routes return.
pub fn acknowledged(answer: &Answer, id: &str, key: &str) -> Option<String> {
    if !answer.is_ok() {
        return Some(format!("answered with {}", answer.told()));
    }
    let value = match &answer.json {
        Err(why) => return Some(format!("the response is not JSON: {why}")),
        Ok(value) => value,
    };
    acknowledgement(value, id, key)
}

pub fn acknowledgement(value: &Value, id: &str, key: &str) -> Option<String> {
    match (value.get("ok"), value.get(key)) {
        (Some(Value::Bool(_)), Some(Value::String(found))) if found == id => None,
        (Some(Value::Bool(_)), Some(found)) => {
            Some(format!("`{key}` is {found}, not the session's id"))
        }
        (Some(Value::Bool(_)), None) => Some(format!("the response has no `{key}`")),
        (Some(ok), _) => Some(format!("`ok` is {}, not a boolean", kind(ok))),
        (None, _) => Some("the response has no `ok`".to_owned()),
    }
}

pub async fn ready(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let started = stand.spawn(json!({})).await?;
    let prompt = stand.need_prompt("text")?;
    let (_, answer) = stand
        .until(&started.id, |record| record["status"] != "starting")
        .await?;
    match answer.value()["status"].as_str() {
        Some("running") => {}
        Some("starting") => {
            let why = format!(
                "still `starting` after {:.0} s",
                stand.patience().as_secs_f64()
            );
            stand.broken("A46-STATUS-01", why, &answer.lines);
            return Ok(());
        }
        other => {
            let why = format!("the session became {other:?}, not `running`");
            return Err(Blocked::NotVerified(why));
        }
    }
    let taken = stand.prompt("A46-STATUS-01", &started.id, &prompt).await?;
    let against = (!taken.is_ok()).then(|| {
        format!(
            "the session is `running`, but its first prompt is answered with {}",
            taken.told()
        )
    });
    let lines = [answer.lines[1], taken.lines[1]];
    stand.verdict("A46-STATUS-01", against, &lines);
    Ok(())
}

pub async fn kill(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let session = stand.running(json!({})).await?;
    let id = session.id;
    let path = stand.route(&id, "/kill");
    let answer = stand.ask("A46-HTTP-06", "POST", &path, None).await?;
    match acknowledged(&answer, &id, "id") {
        None if answer.value()["ok"] == false => {
            let why = "`ok` is false, but the session was alive";
            stand.doubtful("A46-HTTP-06", why, &answer.lines);
        }
        against => stand.verdict("A46-HTTP-06", against, &answer.lines),
    }
    let over = |record: &Value| !record::is_alive(record["status"].as_str().unwrap_or("starting"));
    let (is_over, last) = stand.until(&id, over).await?;
    let status = last.value()["status"].clone();
    let against = match status.as_str() {
        Some("killed") => None,
        Some(other) => Some(format!("a killed session has the status `{other}`")),
        None => Some(format!(
            "a request for a killed session is answered with {}",
            last.told()
        )),
    };
    stand.verdict("A46-STATUS-04", against, &last.lines);
    if !is_over {
        let why = "the session did not end".to_owned();
        return Err(Blocked::NotVerified(why));
    }
    for (name, id) in [("endedAt", "A46-MODEL-07"), ("exitCode", "A46-MODEL-09")] {
        match record::flaw(name, last.value(), &Known::default()) {
            Some(Flaw::Wrong(why)) => stand.broken(id, why, &last.lines),
            Some(Flaw::Odd(why)) => stand.doubtful(id, why, &last.lines),
            None => stand.met(id, &last.lines),
        }
    }
    stays_over(stand, &id).await
}

/// Checks that an ended session keeps its status, whatever is requested.
async fn stays_over(stand: &mut Stand<'_>, id: &str) -> Result<(), Blocked> {
    let taken = stand.prompt("A46-STATUS-09", id, "Are you there?").await?;
    if taken.is_ok() {
        let why = "a session that has ended accepts a prompt";
        stand.broken("A46-STATUS-09", why, &taken.lines);
    }
    let path = stand.route(id, "/kill");
    stand.ask("A46-STATUS-09", "POST", &path, None).await?;
    tokio::time::sleep(stand.setting.quiet).await;
    stand.played.waits += stand.setting.quiet;
    let answer = stand.get(id).await?;
    if !answer.is_ok() {
        let why = format!(
            "a request for an ended session is answered with {}",
            answer.told()
        );
        stand.not_verified("A46-STATUS-09", why);
        return Ok(());
    }
    let mut moves = stand.subject.seen.windows(2).filter(|pair| match pair {
        [before, after] => before.id == after.id && !may_follow(&before.status, &after.status),
        _ => false,
    });
    let wrong = moves.next_back().map(|pair| {
        let (before, after) = (&pair[0], &pair[1]);
        let why = format!("`{}` was followed by `{}`", before.status, after.status);
        (why, [before.line, after.line])
    });
    match wrong {
        Some((why, lines)) => stand.broken("A46-STATUS-09", why, &lines),
        None => stand.met("A46-STATUS-09", &answer.lines),
    }
    Ok(())
}

pub async fn forget(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let session = stand.running(json!({})).await?;
    let id = session.id;
    let path = stand.route(&id, "/kill");
    stand.ask("", "POST", &path, None).await?;
    let over = |record: &Value| !record::is_alive(record["status"].as_str().unwrap_or("starting"));
    let (is_over, last) = stand.until(&id, over).await?;
    if !is_over {
        let why = format!("the session could not be ended ({})", last.told());
        return Err(Blocked::NotVerified(why));
    }
    let path = stand.route(&id, "");
    let answer = stand.ask("A46-HTTP-07", "DELETE", &path, None).await?;
    if let Some(why) = acknowledged(&answer, &id, "id") {
        stand.broken("A46-HTTP-07", why, &answer.lines);
        return Ok(());
    }
    let after = stand.get(&id).await?;
    let prefix = stand.subject.host.prefix.clone();
    let list = stand.ask("A46-HTTP-07", "GET", &prefix, None).await?;
    let sessions = list.value()["sessions"].as_array();
    let is_listed = sessions.is_some_and(|all| all.iter().any(|entry| entry["id"] == *id));
    let lines = [answer.lines[1], after.lines[1]];
    let against = if after.is_ok() {
        Some("a deleted session can still be read".to_owned())
    } else if is_listed {
        Some("a deleted session is still in the list".to_owned())
    } else {
        None
    };
    stand.verdict("A46-HTTP-07", against, &lines);
    Ok(())
}

/// Checks that DELETE ends a live session.
pub async fn forget_alive(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let session = stand.running(json!({})).await?;
    let id = session.id;
    let mut follow = stand.following(&id).await?;
    let path = stand.route(&id, "");
    let answer = stand.ask("A46-STATUS-05", "DELETE", &path, None).await?;
    if !answer.is_ok() {
        let why = format!(
            "DELETE of a live session is answered with {}",
            answer.told()
        );
        stand.broken("A46-STATUS-05", why, &answer.lines);
        return Ok(());
    }
    // A host may keep the record, or delete it with the session.
    let over = |record: &Value| !record::is_alive(record["status"].as_str().unwrap_or("starting"));
    let after = stand.get(&id).await?;
    if after.is_ok() {
        let (_, last) = stand.until(&id, over).await?;
        let status = last.value()["status"].clone();
        let against = (last.is_ok() && status != "killed")
            .then(|| format!("after DELETE, the session is {status}, not \"killed\""));
        stand.verdict("A46-STATUS-05", against, &last.lines);
        return Ok(());
    }
    // The record is gone, so the end must be visible in the event stream.
    let patience = stand.patience();
    let told = |events: &[super::sse::Event]| {
        events
            .iter()
            .filter(|e| e.name == "status")
            .find_map(|event| {
                let data: Value = serde_json::from_str(&event.data).ok()?;
                let status = data["status"].as_str()?.to_owned();
                (!record::is_alive(&status)).then_some((status, event.lines.clone()))
            })
    };
    let patience = patience.min(std::time::Duration::from_secs(10));
    follow
        .until(patience, |events| told(events).is_some())
        .await;
    match (told(&follow.events()), follow.ended()) {
        (Some((status, lines)), _) if status != "killed" => {
            let why = format!("DELETE of a running session ended it as `{status}`");
            stand.broken("A46-STATUS-05", why, &lines);
        }
        (Some((_, lines)), _) => stand.met("A46-STATUS-05", &lines),
        (None, Some(_)) => stand.met("A46-STATUS-05", &after.lines),
        (None, None) => {
            let why = "the record is gone, but the stream of the session continues";
            stand.doubtful("A46-STATUS-05", why, &answer.lines);
        }
    }
    Ok(())
}

/// Checks that two agents run at the same time, each in its own directory.
pub async fn many(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    if stand.subject.host.cwd.is_some() || !stand.subject.host.address.is_loopback() {
        let why = "needs two directories, which can only be created if the host is on this machine";
        return Err(Blocked::Skip(why.to_owned()));
    }
    let prompt = stand.need_prompt("text")?;
    let mut ids = Vec::new();
    let mut lines = Vec::new();
    for name in ["work", "other"] {
        let cwd = stand.cwd(name)?;
        let session = stand.running(json!({"cwd": cwd})).await?;
        lines.extend(session.lines);
        ids.push((session.id, session.record["cwd"].clone()));
    }
    let mut against = (ids.first().map(|s| &s.1) == ids.get(1).map(|s| &s.1)).then(|| {
        "two sessions were requested in two directories, but run in the same one".to_owned()
    });
    let mut follows = Vec::new();
    for (id, _) in &ids {
        follows.push(stand.following(id).await?);
    }
    for (id, _) in &ids {
        let answer = stand.prompt("A46-SCOPE-01", id, &prompt).await?;
        if !answer.is_ok() {
            against = Some(format!(
                "while another session is running, a prompt is answered with {}",
                answer.told()
            ));
            lines = answer.lines.to_vec();
        }
    }
    for (follow, (id, _)) in follows.iter_mut().zip(&ids) {
        let said = |events: &[super::sse::Event]| events.iter().any(|e| e.name == "line");
        if against.is_none() && !follow.until(stand.patience(), said).await {
            let why = format!("session {id} sent nothing");
            return Err(Blocked::NotVerified(why));
        }
        let now = stand.get(id).await?;
        if now.value()["status"] != "running" {
            against = Some(format!(
                "while another session is running, a session has the status {}",
                now.value()["status"]
            ));
            lines = now.lines.to_vec();
        }
    }
    stand.verdict("A46-SCOPE-01", against, &lines);
    Ok(())
}
