//! The routes and the record that they show: three answers about one session are compared.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::record::{self, Flaw, Known, MEMBERS, kind, same_place};
use super::stand::{Answer, Stand, Who};
use crate::run::case::Blocked;

/// Free text, with everything that a careless host would change.
const LABEL: &str = "Größe \"42\"\t<b>\\n</b> — 日本語 🦀";

fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// One answer that shows the record.
struct Shown {
    /// The statement about its route.
    route: &'static str,
    name: &'static str,
    record: Value,
    line: u64,
}

pub async fn record(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let body = stand.spawn_request(json!({"label": LABEL}))?;
    let path = stand.spawn_route();
    let before = now();
    let answer = stand.ask("A46-HTTP-03", "POST", &path, Some(&body)).await?;
    let between = (before, now());
    let mut shown = vec![spawned(stand, &answer)?];
    let id = stand.started(&answer)?.id;

    let answer = stand
        .ask("A46-HTTP-04", "GET", &stand.route(&id, ""), None)
        .await?;
    let against = match (&answer.json, answer.status()) {
        (Ok(Value::Object(_)), 200) => None,
        (Ok(value), 200) => Some(format!("the answer is {}, not a Session", kind(value))),
        (Err(why), 200) => Some(format!("the answer is no JSON: {why}")),
        _ => Some(format!(
            "a session that was just started is answered with {}",
            answer.told()
        )),
    };
    match against {
        Some(why) => stand.broken("A46-HTTP-04", why, &answer.lines),
        None => {
            stand.saw(&answer.value().clone(), answer.lines[1]);
            shown.push(Shown {
                route: "A46-HTTP-04",
                name: "GET of the session",
                record: answer.value().clone(),
                line: answer.lines[1],
            });
        }
    }
    if let Some(listed) = listed(stand, &id).await? {
        shown.push(listed);
    }

    let adapter = stand.subject.host.adapter().to_owned();
    let known = Known {
        adapter: Some(&adapter),
        label: Some(LABEL),
        between: stand.subject.host.address.is_loopback().then_some(between),
    };
    for member in &MEMBERS {
        // It has a case of its own.
        if member.name == "lastOutputAt" {
            continue;
        }
        compare(stand, member, &shown, &known);
    }
    for one in &shown {
        // What was not said against a route speaks for it.
        if !stand.played.looked_at.iter().any(|id| id == one.route) {
            stand.met(one.route, &[one.line]);
        }
    }
    label(stand, &shown);
    let lines: Vec<u64> = shown.iter().map(|one| one.line).collect();
    let added: Vec<&str> = shown
        .iter()
        .flat_map(|one| record::added(&one.record))
        .collect();
    match added.is_empty() {
        true => stand.not_applicable("A46-MODEL-11", "the host adds no members of its own"),
        false => stand.met("A46-MODEL-11", &lines),
    }
    Ok(())
}

/// The answer to the spawn: a Session under 201.
fn spawned(stand: &mut Stand<'_>, answer: &Answer) -> Result<Shown, Blocked> {
    let status = answer.status();
    if !answer.is_ok() {
        if status >= 500 && status != 501 {
            let why = format!("a spawn is answered with {}", answer.told());
            stand.broken("A46-HTTP-03", why, &answer.lines);
        }
        return Err(stand.refused(answer));
    }
    if status != 201 {
        let why = format!("a spawn is answered with {status}, not 201");
        stand.broken("A46-HTTP-03", why, &answer.lines);
    }
    match &answer.json {
        Ok(Value::Object(_)) => {}
        Ok(value) => {
            let why = format!("the answer to a spawn is {}, not a Session", kind(value));
            stand.broken("A46-HTTP-03", why, &answer.lines);
        }
        Err(why) => {
            let why = format!("the answer to a spawn is no JSON: {why}");
            stand.broken("A46-HTTP-03", why, &answer.lines);
        }
    }
    let record = answer.value().clone();
    if let Some(id) = record
        .get("id")
        .filter(|id| id.as_str().is_none_or(str::is_empty))
    {
        let why = format!("`id` is {id}, not a string that names the session");
        stand.broken("A46-MODEL-01", why, &answer.lines);
    }
    Ok(Shown {
        route: "A46-HTTP-03",
        name: "the answer to the spawn",
        record,
        line: answer.lines[1],
    })
}

/// The list, and what it says of the session.
async fn listed(stand: &mut Stand<'_>, id: &str) -> Result<Option<Shown>, Blocked> {
    let prefix = stand.subject.host.prefix.clone();
    let answer = stand.ask("A46-HTTP-02", "GET", &prefix, None).await?;
    let list = answer.value().get("sessions");
    let against = match (&answer.json, answer.status()) {
        (Err(why), 200) => Some(format!("the answer is no JSON: {why}")),
        (Ok(_), 200) => match list {
            Some(Value::Array(_)) => None,
            Some(other) => Some(format!("`sessions` is {}, not a list", kind(other))),
            None => Some("the answer has no `sessions`".to_owned()),
        },
        _ => Some(format!("the list is answered with {}", answer.told())),
    };
    if let Some(why) = against {
        stand.broken("A46-HTTP-02", why, &answer.lines);
        return Ok(None);
    }
    let entries = list.and_then(Value::as_array).into_iter().flatten();
    let entries: Vec<&Value> = entries.filter(|entry| entry["id"] == *id).collect();
    match entries.as_slice() {
        [entry] => {
            let record = (*entry).clone();
            stand.saw(&record, answer.lines[1]);
            Ok(Some(Shown {
                route: "A46-HTTP-02",
                name: "the list",
                record,
                line: answer.lines[1],
            }))
        }
        [] => {
            let why = "the list does not have a session that was just started";
            stand.broken("A46-HTTP-02", why, &answer.lines);
            Ok(None)
        }
        _ => {
            let why = "the list has a session more than once";
            stand.broken("A46-HTTP-02", why, &answer.lines);
            Ok(None)
        }
    }
}

/// A member that is wrong everywhere is a fault of the record; in one answer only, of that route.
fn compare(stand: &mut Stand<'_>, member: &record::Member, shown: &[Shown], known: &Known<'_>) {
    let flaws: Vec<Option<Flaw>> = shown
        .iter()
        .map(|one| record::flaw(member.name, &one.record, known))
        .collect();
    let lines: Vec<u64> = shown.iter().map(|one| one.line).collect();
    let id = member.requirement;
    if let [Some(first), ..] = flaws.as_slice()
        && flaws.iter().all(Option::is_some)
    {
        return match first {
            Flaw::Wrong(why) => stand.broken(id, why.clone(), &lines),
            Flaw::Odd(why) => stand.doubtful(id, why.clone(), &lines),
        };
    }
    for (one, flaw) in shown.iter().zip(&flaws) {
        match flaw {
            Some(Flaw::Wrong(why)) => {
                let why = format!("{why} in {}, while it is right elsewhere", one.name);
                stand.broken(one.route, why, &[one.line]);
            }
            Some(Flaw::Odd(why)) => stand.doubtful(id, why.clone(), &[one.line]),
            None => {}
        }
    }
    let right = shown.iter().zip(&flaws).filter(|(_, flaw)| flaw.is_none());
    let mut values = right.map(|(one, _)| (one.name, one.record.get(member.name)));
    let Some((name, first)) = values.next() else {
        return;
    };
    let other = values.find(|(_, value)| member.is_constant && *value != first);
    match other {
        Some((other, value)) => {
            let told = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            let why = format!(
                "`{}` is {} in {name} and {} in {other}",
                member.name,
                told(first),
                told(value)
            );
            stand.broken(id, why, &lines);
        }
        None => stand.met(id, &lines),
    }
}

/// What the spawner wrote comes back as it was written.
fn label(stand: &mut Stand<'_>, shown: &[Shown]) {
    let labels = shown
        .iter()
        .filter_map(|one| Some((one, one.record.get("label")?.as_str()?)));
    let labels: Vec<(&Shown, &str)> = labels.collect();
    if labels.is_empty() {
        let why = "no answer has the label";
        return stand.not_verified("A46-SPAWN-05", why);
    }
    let lines: Vec<u64> = labels.iter().map(|(one, _)| one.line).collect();
    let changed = labels.iter().find(|(_, label)| *label != LABEL);
    let against = changed.map(|(_, label)| format!("the label {LABEL:?} came back as {label:?}"));
    stand.verdict("A46-SPAWN-05", against, &lines);
}

/// Every route is there, under one prefix.
pub async fn routes(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let session = stand.running(json!({})).await?;
    let id = session.id;
    let prompt = stand.need_prompt("text")?;
    let prompt = json!({"prompt": prompt}).to_string().into_bytes();
    let prefix = stand.subject.host.prefix.clone();
    let accept = [("accept", "text/event-stream".to_owned())];
    let stream = stand.request(
        "GET",
        &stand.route(&id, "/stream"),
        None,
        Who::Ourselves,
        &accept,
    );
    let mut missing = Vec::new();
    let mut lines = session.lines;
    let mut note = |what: String, status: u16, at: [u64; 2]| {
        // What a route refuses is told otherwise; these say that it is not there.
        if [404, 405, 501].contains(&status) {
            missing.push(format!("{what} ({status})"));
            lines.extend(at);
        }
    };
    match stand.follow_request(&stream).await {
        Ok(follow) => note(
            format!("GET {prefix}/:id/stream"),
            follow.head.status,
            follow.lines,
        ),
        Err((trouble, at)) => return Err(stand.failed("A46-HTTP-01", &trouble, at)),
    }
    let paths = [
        ("GET", prefix.clone(), None, String::new()),
        ("GET", stand.route(&id, ""), None, "/:id".to_owned()),
        (
            "POST",
            stand.route(&id, "/prompt"),
            Some(prompt.as_slice()),
            "/:id/prompt".to_owned(),
        ),
        (
            "POST",
            stand.route(&id, "/kill"),
            None,
            "/:id/kill".to_owned(),
        ),
        ("DELETE", stand.route(&id, ""), None, "/:id".to_owned()),
    ];
    for (method, path, body, name) in paths {
        let request = stand.request(method, &path, body, Who::Ourselves, &[]);
        match stand.exchange(&request).await {
            Ok(answer) => note(
                format!("{method} {prefix}{name}"),
                answer.status(),
                answer.lines,
            ),
            Err((trouble, at)) => return Err(stand.failed("A46-HTTP-01", &trouble, at)),
        }
    }
    let against = (!missing.is_empty()).then(|| format!("not there: {}", missing.join(", ")));
    stand.verdict("A46-HTTP-01", against, &lines);
    Ok(())
}

/// A directory that the caller names is the one.
pub async fn cwd(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let skip = || {
        let why = "the host is elsewhere: name a directory that it has with --cwd";
        Blocked::Skip(why.to_owned())
    };
    let wanted = stand.cwd("work")?.ok_or_else(skip)?;
    let first = stand.spawn(json!({"cwd": wanted})).await?;
    let found = first.record["cwd"].as_str().unwrap_or_default().to_owned();
    let against = (!same_place(&found, &wanted))
        .then(|| format!("`cwd` was {wanted}, and the session is in {found}"));
    stand.verdict("A46-WS-04", against, &first.lines);

    let slug = first.record["workspaceSlug"].clone();
    let other = stand.cwd("other")?.ok_or_else(skip)?;
    let both = json!({"cwd": other, "workspaceSlug": slug});
    let second = stand.spawn(both).await?;
    let found = second.record["cwd"].as_str().unwrap_or_default().to_owned();
    let against = (!same_place(&found, &other)).then(|| {
        format!("`cwd` was {other} beside the workspace {slug}, and the session is in {found}")
    });
    stand.verdict("A46-SPAWN-03", against, &second.lines);
    Ok(())
}

/// Without `cwd` and workspace the host finds a place, or demands one.
pub async fn workspace(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    // What is refused here shall not be the adapter.
    stand.spawn(json!({})).await?;
    let body = json!({"adapter": stand.subject.host.adapter()});
    let path = stand.spawn_route();
    let answer = stand
        .ask("A46-SPAWN-02", "POST", &path, Some(&body))
        .await?;
    let status = answer.status();
    if answer.is_ok() {
        let started = stand.started(&answer)?;
        let known = Known::default();
        let flaw = ["cwd", "workspaceSlug"]
            .into_iter()
            .find_map(|name| record::flaw(name, &started.record, &known));
        let against = flaw.map(|flaw| match flaw {
            Flaw::Wrong(why) | Flaw::Odd(why) => format!("spawned without a workspace: {why}"),
        });
        stand.verdict("A46-SPAWN-02", against, &started.lines);
        let why = "the host finds a directory where none is named";
        stand.not_applicable("A46-WS-08", why);
    } else if (400..500).contains(&status) {
        stand.met("A46-WS-08", &answer.lines);
        let why = format!("the host demands `cwd` ({})", answer.told());
        stand.not_applicable("A46-SPAWN-02", why);
    } else {
        let why = format!(
            "a spawn without `cwd` and workspace is answered with {}",
            answer.told()
        );
        stand.broken("A46-SPAWN-02", why, &answer.lines);
        stand.not_verified("A46-WS-08", "a demand for `cwd` would be a 4xx");
    }
    Ok(())
}
