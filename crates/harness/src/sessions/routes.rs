//! Probes for the routes and the session record: three responses about the same session are
//! compared.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::context::{HttpResponse, ProbeContext, RequestAuth};
use super::record::{self, ExpectedRecord, MEMBERS, RecordProblem, kind, same_place};
use crate::run::case::NoVerdict;

/// A label with characters that a careless host might change.
const LABEL: &str = "Größe \"42\"\t<b>\\n</b> — 日本語 🦀";

fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// A response that contains the record.
struct RecordResponse {
    /// The requirement for its route.
    route: &'static str,
    name: &'static str,
    record: Value,
    line: u64,
}

pub async fn record(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let body = probe.spawn_request(json!({"label": LABEL}))?;
    let path = probe.spawn_route();
    let before = now();
    let answer = probe.ask("A46-HTTP-03", "POST", &path, Some(&body)).await?;
    let between = (before, now());
    let mut responses = vec![spawned(probe, &answer)?];
    let id = probe.started(&answer)?.id;

    let answer = probe
        .ask("A46-HTTP-04", "GET", &probe.route(&id, ""), None)
        .await?;
    let against = match (&answer.json, answer.status()) {
        (Ok(Value::Object(_)), 200) => None,
        (Ok(value), 200) => Some(format!("the response is {}, not a Session", kind(value))),
        (Err(why), 200) => Some(format!("the response is not JSON: {why}")),
        _ => Some(format!(
            "a request for a session that was just started is answered with {}",
            answer.describe()
        )),
    };
    match against {
        Some(why) => probe.violation("A46-HTTP-04", why, &answer.lines),
        None => {
            probe.record_status(&answer.value().clone(), answer.lines[1]);
            responses.push(RecordResponse {
                route: "A46-HTTP-04",
                name: "GET of the session",
                record: answer.value().clone(),
                line: answer.lines[1],
            });
        }
    }
    if let Some(listed) = listed(probe, &id).await? {
        responses.push(listed);
    }

    let adapter = probe.subject.host.adapter().to_owned();
    let known = ExpectedRecord {
        adapter: Some(&adapter),
        label: Some(LABEL),
        between: probe.subject.host.address.is_loopback().then_some(between),
    };
    for member in &MEMBERS {
        // A separate case checks it.
        if member.name == "lastOutputAt" {
            continue;
        }
        compare(probe, member, &responses, &known);
    }
    for one in &responses {
        // A route without violations is met.
        if !probe.outcome.checked.iter().any(|id| id == one.route) {
            probe.pass(one.route, &[one.line]);
        }
    }
    label(probe, &responses);
    let lines: Vec<u64> = responses.iter().map(|one| one.line).collect();
    let added: Vec<&str> = responses
        .iter()
        .flat_map(|one| record::added(&one.record))
        .collect();
    match added.is_empty() {
        true => probe.not_applicable("A46-MODEL-11", "the host does not add members"),
        false => probe.pass("A46-MODEL-11", &lines),
    }
    Ok(())
}

/// Checks the response to a spawn request: a Session with status 201.
fn spawned(
    probe: &mut ProbeContext<'_>,
    answer: &HttpResponse,
) -> Result<RecordResponse, NoVerdict> {
    let status = answer.status();
    if !answer.is_ok() {
        if status >= 500 && status != 501 {
            let why = format!("a spawn request is answered with {}", answer.describe());
            probe.violation("A46-HTTP-03", why, &answer.lines);
        }
        return Err(probe.no_verdict_for(answer));
    }
    if status != 201 {
        let why = format!("a spawn request is answered with {status}, not 201");
        probe.violation("A46-HTTP-03", why, &answer.lines);
    }
    match &answer.json {
        Ok(Value::Object(_)) => {}
        Ok(value) => {
            let why = format!(
                "the response to a spawn request is {}, not a Session",
                kind(value)
            );
            probe.violation("A46-HTTP-03", why, &answer.lines);
        }
        Err(why) => {
            let why = format!("the response to a spawn request is not JSON: {why}");
            probe.violation("A46-HTTP-03", why, &answer.lines);
        }
    }
    let record = answer.value().clone();
    if let Some(id) = record
        .get("id")
        .filter(|id| id.as_str().is_none_or(str::is_empty))
    {
        let why = format!("`id` is {id}, not a non-empty string");
        probe.violation("A46-MODEL-01", why, &answer.lines);
    }
    Ok(RecordResponse {
        route: "A46-HTTP-03",
        name: "the response to the spawn request",
        record,
        line: answer.lines[1],
    })
}

/// Checks the list, and returns its entry for the session.
async fn listed(
    probe: &mut ProbeContext<'_>,
    id: &str,
) -> Result<Option<RecordResponse>, NoVerdict> {
    let prefix = probe.subject.host.prefix.clone();
    let answer = probe.ask("A46-HTTP-02", "GET", &prefix, None).await?;
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
            answer.describe()
        )),
    };
    if let Some(why) = against {
        probe.violation("A46-HTTP-02", why, &answer.lines);
        return Ok(None);
    }
    let entries = list.and_then(Value::as_array).into_iter().flatten();
    let entries: Vec<&Value> = entries.filter(|entry| entry["id"] == *id).collect();
    match entries.as_slice() {
        [entry] => {
            let record = (*entry).clone();
            probe.record_status(&record, answer.lines[1]);
            Ok(Some(RecordResponse {
                route: "A46-HTTP-02",
                name: "the list",
                record,
                line: answer.lines[1],
            }))
        }
        [] => {
            let why = "the list does not contain a session that was just started";
            probe.violation("A46-HTTP-02", why, &answer.lines);
            Ok(None)
        }
        _ => {
            let why = "the list contains a session more than once";
            probe.violation("A46-HTTP-02", why, &answer.lines);
            Ok(None)
        }
    }
}

/// If a member is wrong in all responses, the record is at fault. If it is wrong in only one, that
/// route is at fault.
fn compare(
    probe: &mut ProbeContext<'_>,
    member: &record::RecordMember,
    responses: &[RecordResponse],
    known: &ExpectedRecord<'_>,
) {
    let problems: Vec<Option<RecordProblem>> = responses
        .iter()
        .map(|one| record::problem(member.name, &one.record, known))
        .collect();
    let lines: Vec<u64> = responses.iter().map(|one| one.line).collect();
    let id = member.requirement;
    if let [Some(first), ..] = problems.as_slice()
        && problems.iter().all(Option::is_some)
    {
        return match first {
            RecordProblem::Violation(why) => probe.violation(id, why.clone(), &lines),
            RecordProblem::Warning(why) => probe.suspicion(id, why.clone(), &lines),
        };
    }
    for (one, problem) in responses.iter().zip(&problems) {
        match problem {
            Some(RecordProblem::Violation(why)) => {
                let why = format!("{why} in {}, but correct in other responses", one.name);
                probe.violation(one.route, why, &[one.line]);
            }
            Some(RecordProblem::Warning(why)) => probe.suspicion(id, why.clone(), &[one.line]),
            None => {}
        }
    }
    let right = responses
        .iter()
        .zip(&problems)
        .filter(|(_, problem)| problem.is_none());
    let mut values = right.map(|(one, _)| (one.name, one.record.get(member.name)));
    let Some((name, first)) = values.next() else {
        return;
    };
    let other = values.find(|(_, value)| member.is_constant && *value != first);
    match other {
        Some((other, value)) => {
            let show = |value: Option<&Value>| value.map_or("missing".to_owned(), Value::to_string);
            let why = format!(
                "`{}` is {} in {name} and {} in {other}",
                member.name,
                show(first),
                show(value)
            );
            probe.violation(id, why, &lines);
        }
        None => probe.pass(id, &lines),
    }
}

/// Checks that the label is returned unchanged.
fn label(probe: &mut ProbeContext<'_>, responses: &[RecordResponse]) {
    let labels = responses
        .iter()
        .filter_map(|one| Some((one, one.record.get("label")?.as_str()?)));
    let labels: Vec<(&RecordResponse, &str)> = labels.collect();
    if labels.is_empty() {
        let why = "no response contains the label";
        return probe.not_verified("A46-SPAWN-05", why);
    }
    let lines: Vec<u64> = labels.iter().map(|(one, _)| one.line).collect();
    let changed = labels.iter().find(|(_, label)| *label != LABEL);
    let against =
        changed.map(|(_, label)| format!("the label {LABEL:?} was returned as {label:?}"));
    probe.verdict("A46-SPAWN-05", against, &lines);
}

/// Checks that every route exists, under one prefix.
pub async fn routes(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let session = probe.running(json!({})).await?;
    let id = session.id;
    let prompt = probe.need_prompt("text")?;
    let prompt = json!({"prompt": prompt}).to_string().into_bytes();
    let prefix = probe.subject.host.prefix.clone();
    let accept = [("accept", "text/event-stream".to_owned())];
    let stream = probe.request(
        "GET",
        &probe.route(&id, "/stream"),
        None,
        RequestAuth::Own,
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
    match probe.open_stream_for(&stream).await {
        Ok(stream) => note(
            format!("GET {prefix}/:id/stream"),
            stream.head.status,
            stream.lines,
        ),
        Err((error, at)) => return Err(probe.failed("A46-HTTP-01", &error, at)),
    }
    let paths = [
        ("GET", prefix.clone(), None, String::new()),
        ("GET", probe.route(&id, ""), None, "/:id".to_owned()),
        (
            "POST",
            probe.route(&id, "/prompt"),
            Some(prompt.as_slice()),
            "/:id/prompt".to_owned(),
        ),
        (
            "POST",
            probe.route(&id, "/kill"),
            None,
            "/:id/kill".to_owned(),
        ),
        ("DELETE", probe.route(&id, ""), None, "/:id".to_owned()),
    ];
    for (method, path, body, name) in paths {
        let request = probe.request(method, &path, body, RequestAuth::Own, &[]);
        match probe.exchange(&request).await {
            Ok(answer) => note(
                format!("{method} {prefix}{name}"),
                answer.status(),
                answer.lines,
            ),
            Err((error, at)) => return Err(probe.failed("A46-HTTP-01", &error, at)),
        }
    }
    let against = (!missing.is_empty()).then(|| format!("missing routes: {}", missing.join(", ")));
    probe.verdict("A46-HTTP-01", against, &lines);
    Ok(())
}

/// Checks that a session runs in the directory that the caller names.
pub async fn cwd(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let skip = || {
        let why = "the host is on another machine: pass one of its directories with --cwd";
        NoVerdict::Skip(why.to_owned())
    };
    let wanted = probe.cwd("work")?.ok_or_else(skip)?;
    let first = probe.spawn(json!({"cwd": wanted})).await?;
    let found = first.record["cwd"].as_str().unwrap_or_default().to_owned();
    let against = (!same_place(&found, &wanted))
        .then(|| format!("`cwd` was {wanted}, but the session is in {found}"));
    probe.verdict("A46-WS-04", against, &first.lines);

    let slug = first.record["workspaceSlug"].clone();
    let other = probe.cwd("other")?.ok_or_else(skip)?;
    let both = json!({"cwd": other, "workspaceSlug": slug});
    let second = probe.spawn(both).await?;
    let found = second.record["cwd"].as_str().unwrap_or_default().to_owned();
    let against = (!same_place(&found, &other)).then(|| {
        format!(
            "`cwd` was {other} together with the workspace {slug}, but the session is in {found}"
        )
    });
    probe.verdict("A46-SPAWN-03", against, &second.lines);
    Ok(())
}

/// Checks a spawn request without `cwd` and workspace: the host chooses a directory, or requires
/// one.
pub async fn workspace(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    // Start a session first, to make sure that the adapter works.
    probe.spawn(json!({})).await?;
    let body = json!({"adapter": probe.subject.host.adapter()});
    let path = probe.spawn_route();
    let answer = probe
        .ask("A46-SPAWN-02", "POST", &path, Some(&body))
        .await?;
    let status = answer.status();
    if answer.is_ok() {
        let started = probe.started(&answer)?;
        let known = ExpectedRecord::default();
        let problem = ["cwd", "workspaceSlug"]
            .into_iter()
            .find_map(|name| record::problem(name, &started.record, &known));
        let against = problem.map(|problem| match problem {
            RecordProblem::Violation(why) | RecordProblem::Warning(why) => {
                format!("started without a workspace: {why}")
            }
        });
        probe.verdict("A46-SPAWN-02", against, &started.lines);
        let why = "the host chooses a directory if none is named";
        probe.not_applicable("A46-WS-08", why);
    } else if (400..500).contains(&status) {
        probe.pass("A46-WS-08", &answer.lines);
        let why = format!("the host requires `cwd` ({})", answer.describe());
        probe.not_applicable("A46-SPAWN-02", why);
    } else {
        let why = format!(
            "a spawn request without `cwd` and workspace is answered with {}",
            answer.describe()
        );
        probe.violation("A46-SPAWN-02", why, &answer.lines);
        probe.not_verified(
            "A46-WS-08",
            "a host that requires `cwd` must answer with a 4xx status",
        );
    }
    Ok(())
}
