//! Probes for the routes and the session record: three responses about the same session are
//! compared.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::record::{self, Flaw, Known, MEMBERS, kind, same_place};
use super::stand::{Answer, Stand, Who};
use crate::run::case::Blocked;

/// A label with characters that a careless host might change.
const LABEL: &str = "Größe \"42\"\t<b>\\n</b> — 日本語 🦀";

fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// A response that contains the record.
struct Shown {
    /// The requirement for its route.
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
        (Ok(value), 200) => Some(format!("the response is {}, not a Session", kind(value))),
        (Err(why), 200) => Some(format!("the response is not JSON: {why}")),
        _ => Some(format!(
            "a request for a session that was just started is answered with {}",
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
        // A separate case checks it.
        if member.name == "lastOutputAt" {
            continue;
        }
        compare(stand, member, &shown, &known);
    }
    for one in &shown {
        // A route without violations is met.
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
        true => stand.not_applicable("A46-MODEL-11", "the host does not add members"),
        false => stand.met("A46-MODEL-11", &lines),
    }
    Ok(())
}

/// Checks the response to a spawn request: a Session with status 201.
fn spawned(stand: &mut Stand<'_>, answer: &Answer) -> Result<Shown, Blocked> {
    let status = answer.status();
    if !answer.is_ok() {
        if status >= 500 && status != 501 {
            let why = format!("a spawn request is answered with {}", answer.told());
            stand.broken("A46-HTTP-03", why, &answer.lines);
        }
        return Err(stand.refused(answer));
    }
    if status != 201 {
        let why = format!("a spawn request is answered with {status}, not 201");
        stand.broken("A46-HTTP-03", why, &answer.lines);
    }
    match &answer.json {
        Ok(Value::Object(_)) => {}
        Ok(value) => {
            let why = format!(
                "the response to a spawn request is {}, not a Session",
                kind(value)
            );
            stand.broken("A46-HTTP-03", why, &answer.lines);
        }
        Err(why) => {
            let why = format!("the response to a spawn request is not JSON: {why}");
            stand.broken("A46-HTTP-03", why, &answer.lines);
        }
    }
    let record = answer.value().clone();
    if let Some(id) = record
        .get("id")
        .filter(|id| id.as_str().is_none_or(str::is_empty))
    {
        let why = format!("`id` is {id}, not a non-empty string");
        stand.broken("A46-MODEL-01", why, &answer.lines);
    }
    Ok(Shown {
        route: "A46-HTTP-03",
        name: "the response to the spawn request",
        record,
        line: answer.lines[1],
    })
}

/// Checks the list, and returns its entry for the session.
async fn listed(stand: &mut Stand<'_>, id: &str) -> Result<Option<Shown>, Blocked> {
    let prefix = stand.subject.host.prefix.clone();
    let answer = stand.ask("A46-HTTP-02", "GET", &prefix, None).await?;
    let list = answer.value().get("sessions");
    let against = match (&answer.json, answer.status()) {
        (Err(why), 200) => Some(format!("the response is not JSON: {why}")),
        (Ok(_), 200) => match list {
            Some(Value::Array(_)) => None,
            Some(other) => Some(format!("`sessions` is {}, not a list", kind(other))),
            None => Some("the response has no `sessions`".to_owned()),
        },
        _ => Some(format!(
            "the request for the list is answered with {}",
            answer.told()
        )),
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
            let why = "the list does not contain a session that was just started";
            stand.broken("A46-HTTP-02", why, &answer.lines);
            Ok(None)
        }
        _ => {
            let why = "the list contains a session more than once";
            stand.broken("A46-HTTP-02", why, &answer.lines);
            Ok(None)
        }
    }
}

/// If a member is wrong in all responses, the record is at fault. If it is wrong in only one, that
/// route is at fault.
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
                let why = format!("{why} in {}, but correct in other responses", one.name);
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
            let told = |value: Option<&Value>| value.map_or("missing".to_owned(), Value::to_string);
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

/// Checks that the label is returned unchanged.
fn label(stand: &mut Stand<'_>, shown: &[Shown]) {
    let labels = shown
        .iter()
        .filter_map(|one| Some((one, one.record.get("label")?.as_str()?)));
    let labels: Vec<(&Shown, &str)> = labels.collect();
    if labels.is_empty() {
        let why = "no response contains the label";
        return stand.not_verified("A46-SPAWN-05", why);
    }
    let lines: Vec<u64> = labels.iter().map(|(one, _)| one.line).collect();
    let changed = labels.iter().find(|(_, label)| *label != LABEL);
    let against =
        changed.map(|(_, label)| format!("the label {LABEL:?} was returned as {label:?}"));
    stand.verdict("A46-SPAWN-05", against, &lines);
}

/// Checks that every route exists, under one prefix.
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
        // These statuses mean that the route does not exist.
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
    let against = (!missing.is_empty()).then(|| format!("missing routes: {}", missing.join(", ")));
    stand.verdict("A46-HTTP-01", against, &lines);
    Ok(())
}

/// Checks that a session runs in the directory that the caller names.
pub async fn cwd(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let skip = || {
        let why = "the host is on another machine: pass one of its directories with --cwd";
        Blocked::Skip(why.to_owned())
    };
    let wanted = stand.cwd("work")?.ok_or_else(skip)?;
    let first = stand.spawn(json!({"cwd": wanted})).await?;
    let found = first.record["cwd"].as_str().unwrap_or_default().to_owned();
    let against = (!same_place(&found, &wanted))
        .then(|| format!("`cwd` was {wanted}, but the session is in {found}"));
    stand.verdict("A46-WS-04", against, &first.lines);

    let slug = first.record["workspaceSlug"].clone();
    let other = stand.cwd("other")?.ok_or_else(skip)?;
    let both = json!({"cwd": other, "workspaceSlug": slug});
    let second = stand.spawn(both).await?;
    let found = second.record["cwd"].as_str().unwrap_or_default().to_owned();
    let against = (!same_place(&found, &other)).then(|| {
        format!(
            "`cwd` was {other} together with the workspace {slug}, but the session is in {found}"
        )
    });
    stand.verdict("A46-SPAWN-03", against, &second.lines);
    Ok(())
}

/// Checks a spawn request without `cwd` and workspace: the host chooses a directory, or requires
/// one.
pub async fn workspace(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    // Start a session first, to make sure that the adapter works.
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
            Flaw::Wrong(why) | Flaw::Odd(why) => format!("started without a workspace: {why}"),
        });
        stand.verdict("A46-SPAWN-02", against, &started.lines);
        let why = "the host chooses a directory if none is named";
        stand.not_applicable("A46-WS-08", why);
    } else if (400..500).contains(&status) {
        stand.met("A46-WS-08", &answer.lines);
        let why = format!("the host requires `cwd` ({})", answer.told());
        stand.not_applicable("A46-SPAWN-02", why);
    } else {
        let why = format!(
            "a spawn request without `cwd` and workspace is answered with {}",
            answer.told()
        );
        stand.broken("A46-SPAWN-02", why, &answer.lines);
        stand.not_verified(
            "A46-WS-08",
            "a host that requires `cwd` must answer with a 4xx status",
        );
    }
    Ok(())
}
