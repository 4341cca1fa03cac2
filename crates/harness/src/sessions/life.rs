//! Probes for the lifecycle of a session: start, kill, delete.

use serde_json::{Value, json};

use super::context::{HttpResponse, ProbeContext};
use super::record::{self, ExpectedRecord, RecordProblem, kind, may_follow};
use crate::run::case::NoVerdict;

/// What is wrong with an acknowledgement `{ok, id}`, which several routes return.
pub fn acknowledged(answer: &HttpResponse, id: &str, key: &str) -> Option<String> {
    if !answer.is_ok() {
        return Some(format!("answered with {}", answer.describe()));
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

pub async fn ready(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let started = probe.spawn(json!({})).await?;
    let prompt = probe.need_prompt("text")?;
    let (_, answer) = probe
        .until(&started.id, |record| record["status"] != "starting")
        .await?;
    match answer.value()["status"].as_str() {
        Some("running") => {}
        Some("starting") => {
            let why = format!(
                "still `starting` after {:.0} s",
                probe.response_limit().as_secs_f64()
            );
            probe.violation("A46-STATUS-01", why, &answer.lines);
            return Ok(());
        }
        other => {
            let why = format!("the session became {other:?}, not `running`");
            return Err(NoVerdict::NotVerified(why));
        }
    }
    let taken = probe.prompt("A46-STATUS-01", &started.id, &prompt).await?;
    let against = (!taken.is_ok()).then(|| {
        format!(
            "the session is `running`, but its first prompt is answered with {}",
            taken.describe()
        )
    });
    let lines = [answer.lines[1], taken.lines[1]];
    probe.verdict("A46-STATUS-01", against, &lines);
    Ok(())
}

pub async fn kill(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let session = probe.running(json!({})).await?;
    let id = session.id;
    let path = probe.route(&id, "/kill");
    let answer = probe.ask("A46-HTTP-06", "POST", &path, None).await?;
    match acknowledged(&answer, &id, "id") {
        None if answer.value()["ok"] == false => {
            let why = "`ok` is false, but the session was alive";
            probe.suspicion("A46-HTTP-06", why, &answer.lines);
        }
        against => probe.verdict("A46-HTTP-06", against, &answer.lines),
    }
    let over = |record: &Value| !record::is_alive(record["status"].as_str().unwrap_or("starting"));
    let (is_over, last) = probe.until(&id, over).await?;
    let status = last.value()["status"].clone();
    let against = match status.as_str() {
        Some("killed") => None,
        Some(other) => Some(format!("a killed session has the status `{other}`")),
        None => Some(format!(
            "a request for a killed session is answered with {}",
            last.describe()
        )),
    };
    probe.verdict("A46-STATUS-04", against, &last.lines);
    if !is_over {
        let why = "the session did not end".to_owned();
        return Err(NoVerdict::NotVerified(why));
    }
    for (name, id) in [("endedAt", "A46-MODEL-07"), ("exitCode", "A46-MODEL-09")] {
        match record::problem(name, last.value(), &ExpectedRecord::default()) {
            Some(RecordProblem::Violation(why)) => probe.violation(id, why, &last.lines),
            Some(RecordProblem::Warning(why)) => probe.suspicion(id, why, &last.lines),
            None => probe.pass(id, &last.lines),
        }
    }
    stays_ended(probe, &id).await
}

/// Checks that an ended session keeps its status, whatever is requested.
async fn stays_ended(probe: &mut ProbeContext<'_>, id: &str) -> Result<(), NoVerdict> {
    let taken = probe.prompt("A46-STATUS-09", id, "Are you there?").await?;
    if taken.is_ok() {
        let why = "a session that has ended accepts a prompt";
        probe.violation("A46-STATUS-09", why, &taken.lines);
    }
    let path = probe.route(id, "/kill");
    probe.ask("A46-STATUS-09", "POST", &path, None).await?;
    tokio::time::sleep(probe.config.quiet).await;
    probe.outcome.waits += probe.config.quiet;
    let answer = probe.get(id).await?;
    if !answer.is_ok() {
        let why = format!(
            "a request for an ended session is answered with {}",
            answer.describe()
        );
        probe.not_verified("A46-STATUS-09", why);
        return Ok(());
    }
    let mut moves = probe.subject.statuses.windows(2).filter(|pair| match pair {
        [before, after] => before.id == after.id && !may_follow(&before.status, &after.status),
        _ => false,
    });
    let wrong = moves.next_back().map(|pair| {
        let (before, after) = (&pair[0], &pair[1]);
        let why = format!("`{}` was followed by `{}`", before.status, after.status);
        (why, [before.line, after.line])
    });
    match wrong {
        Some((why, lines)) => probe.violation("A46-STATUS-09", why, &lines),
        None => probe.pass("A46-STATUS-09", &answer.lines),
    }
    Ok(())
}

pub async fn forget(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let session = probe.running(json!({})).await?;
    let id = session.id;
    if let Ok(slow) = probe.need_prompt("slow") {
        // The tasks of a running turn may write after the deletion.
        probe.prompt("", &id, &slow).await?;
    }
    let path = probe.route(&id, "/kill");
    probe.ask("", "POST", &path, None).await?;
    let over = |record: &Value| !record::is_alive(record["status"].as_str().unwrap_or("starting"));
    let (is_over, last) = probe.until(&id, over).await?;
    if !is_over {
        let why = format!("the session could not be ended ({})", last.describe());
        return Err(NoVerdict::NotVerified(why));
    }
    let path = probe.route(&id, "");
    let answer = probe.ask("A46-HTTP-07", "DELETE", &path, None).await?;
    if let Some(why) = acknowledged(&answer, &id, "id") {
        probe.violation("A46-HTTP-07", why, &answer.lines);
        return Ok(());
    }
    let after = probe.get(&id).await?;
    let prefix = probe.subject.host.prefix.clone();
    let list = probe.ask("A46-HTTP-07", "GET", &prefix, None).await?;
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
    if against.is_some() {
        probe.verdict("A46-HTTP-07", against, &lines);
        return Ok(());
    }
    // Late output must not restore it.
    tokio::time::sleep(probe.config.quiet).await;
    probe.outcome.waits += probe.config.quiet;
    let later = probe.get(&id).await?;
    let list = probe.ask("A46-HTTP-07", "GET", &prefix, None).await?;
    let sessions = list.value()["sessions"].as_array();
    let is_listed = sessions.is_some_and(|all| all.iter().any(|entry| entry["id"] == *id));
    let against = (later.is_ok() || is_listed)
        .then(|| "a deleted session came back some time after its deletion".to_owned());
    probe.verdict("A46-HTTP-07", against, &[answer.lines[1], later.lines[1]]);
    Ok(())
}

/// Checks that DELETE ends a live session.
pub async fn forget_alive(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let session = probe.running(json!({})).await?;
    let id = session.id;
    let mut stream = probe.follow_session(&id).await?;
    let path = probe.route(&id, "");
    let answer = probe.ask("A46-STATUS-05", "DELETE", &path, None).await?;
    if !answer.is_ok() {
        let why = format!(
            "DELETE of a live session is answered with {}",
            answer.describe()
        );
        probe.violation("A46-STATUS-05", why, &answer.lines);
        return Ok(());
    }
    // A host may keep the record, or delete it with the session.
    let over = |record: &Value| !record::is_alive(record["status"].as_str().unwrap_or("starting"));
    let after = probe.get(&id).await?;
    if after.is_ok() {
        let (_, last) = probe.until(&id, over).await?;
        let status = last.value()["status"].clone();
        let against = (last.is_ok() && status != "killed")
            .then(|| format!("after DELETE, the session is {status}, not \"killed\""));
        probe.verdict("A46-STATUS-05", against, &last.lines);
        return Ok(());
    }
    // The record is gone, so the end must be visible in the event stream.
    let response_limit = probe.response_limit();
    let reported = |events: &[super::sse::SseEvent]| {
        events
            .iter()
            .filter(|e| e.name == "status")
            .find_map(|event| {
                let data: Value = serde_json::from_str(&event.data).ok()?;
                let status = data["status"].as_str()?.to_owned();
                (!record::is_alive(&status)).then_some((status, event.lines.clone()))
            })
    };
    let response_limit = response_limit.min(std::time::Duration::from_secs(10));
    stream
        .until(response_limit, |events| reported(events).is_some())
        .await;
    match (reported(&stream.events()), stream.ended()) {
        (Some((status, lines)), _) if status != "killed" => {
            let why = format!("DELETE of a running session ended it as `{status}`");
            probe.violation("A46-STATUS-05", why, &lines);
        }
        (Some((_, lines)), _) => probe.pass("A46-STATUS-05", &lines),
        (None, Some(_)) => probe.pass("A46-STATUS-05", &after.lines),
        (None, None) => {
            let why = "the record is gone, but the stream of the session continues";
            probe.suspicion("A46-STATUS-05", why, &answer.lines);
        }
    }
    Ok(())
}

/// Checks that two agents run at the same time, each in its own directory.
pub async fn many(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    if probe.subject.host.cwd.is_some() || !probe.subject.host.address.is_loopback() {
        let why = "needs two directories, which can only be created if the host is on this machine";
        return Err(NoVerdict::Skip(why.to_owned()));
    }
    let prompt = probe.need_prompt("text")?;
    let mut ids = Vec::new();
    let mut lines = Vec::new();
    for name in ["work", "other"] {
        let cwd = probe.cwd(name)?;
        let session = probe.running(json!({"cwd": cwd})).await?;
        lines.extend(session.lines);
        ids.push((session.id, session.record["cwd"].clone()));
    }
    let mut against = (ids.first().map(|s| &s.1) == ids.get(1).map(|s| &s.1)).then(|| {
        "two sessions were requested in two directories, but run in the same one".to_owned()
    });
    let mut follows = Vec::new();
    for (id, _) in &ids {
        follows.push(probe.follow_session(id).await?);
    }
    for (id, _) in &ids {
        let answer = probe.prompt("A46-SCOPE-01", id, &prompt).await?;
        if !answer.is_ok() {
            against = Some(format!(
                "while another session is running, a prompt is answered with {}",
                answer.describe()
            ));
            lines = answer.lines.to_vec();
        }
    }
    for (stream, (id, _)) in follows.iter_mut().zip(&ids) {
        let has_line = |events: &[super::sse::SseEvent]| events.iter().any(|e| e.name == "line");
        if against.is_none() && !stream.until(probe.response_limit(), has_line).await {
            let why = format!("session {id} sent nothing");
            return Err(NoVerdict::NotVerified(why));
        }
        let now = probe.get(id).await?;
        if now.value()["status"] != "running" {
            against = Some(format!(
                "while another session is running, a session has the status {}",
                now.value()["status"]
            ));
            lines = now.lines.to_vec();
        }
    }
    probe.verdict("A46-SCOPE-01", against, &lines);
    Ok(())
}
