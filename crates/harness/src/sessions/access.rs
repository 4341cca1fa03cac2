//! Probes for access control and for refused requests.

use serde_json::{Value, json};

use super::context::{ProbeContext, RequestAuth};
use super::http::HttpError;
use super::record::kind;
use crate::run::case::NoVerdict;

/// A name that no host has.
const UNKNOWN_NAME: &str = "no-such-thing-as-this";

/// Checks that `adapter` is required and must be known.
pub async fn adapter(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "A46-SPAWN-01";
    let whole = probe.spawn_request(json!({}))?;
    let mut lines = Vec::new();
    let mut is_reported = false;
    let mut without = Vec::new();
    for (what, adapter) in [
        ("without `adapter`", None),
        ("with a number for `adapter`", Some(json!(7))),
        ("with an unknown adapter", Some(json!(UNKNOWN_NAME))),
    ] {
        let mut body = whole.clone();
        match (&adapter, body.as_object_mut()) {
            (Some(adapter), _) => body["adapter"] = adapter.clone(),
            (None, Some(members)) => drop(members.remove("adapter")),
            (None, None) => {}
        }
        let path = probe.spawn_route();
        let answer = probe.ask(about, "POST", &path, Some(&body)).await?;
        lines.push(answer.lines[1]);
        if answer.status() == 501 {
            without.push((answer.describe(), answer.lines));
        }
        if !answer.is_ok() {
            if answer.status() >= 500 && answer.status() != 501 {
                let why = format!(
                    "a spawn request {what} is answered with {}",
                    answer.describe()
                );
                probe.suspicion(about, why, &answer.lines);
                is_reported = true;
            }
            continue;
        }
        // Some hosts create a record first, and report the failure in it.
        let became = match probe.started(&answer) {
            Ok(started) => {
                let (_, last) = probe
                    .until(&started.id, |record| record["status"] != "starting")
                    .await?;
                last.value()["status"].clone()
            }
            Err(_) => Value::Null,
        };
        if became != "error" {
            let why = format!(
                "a spawn request {what} is answered with {}, and the session is {became}",
                answer.describe()
            );
            probe.violation(about, why, &answer.lines);
            is_reported = true;
        }
    }
    if !is_reported {
        probe.pass(about, &lines);
    }
    let path = probe.spawn_route();
    let answer = probe
        .ask("A46-COMPAT-03", "POST", &path, Some(&whole))
        .await?;
    if answer.is_ok() {
        // Register the session, so that it is ended later.
        let _ = probe.started(&answer);
    }
    match (answer.status(), without.first()) {
        (501, Some((message, lines))) => {
            let text = message.to_lowercase();
            if text.contains("install") || text.contains("add ") {
                probe.pass("A46-COMPAT-03", lines);
            } else {
                let why = format!("the message does not contain an install command: {message}");
                probe.violation("A46-COMPAT-03", why, lines);
            }
        }
        _ => probe.not_applicable("A46-COMPAT-03", "the host has at least one adapter"),
    }
    Ok(())
}

/// Checks that nothing is returned or done without the token.
pub async fn auth(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "A46-SEC-02";
    let Some(token) = probe.subject.host.token.clone() else {
        let why = "no token was passed (--token-file), so the authentication of the host cannot be \
                   tested";
        return Err(NoVerdict::NotVerified(why.to_owned()));
    };
    let wrong = "x".repeat(token.len().max(8));
    let session = probe.running(json!({})).await?;
    let id = session.id;
    let prompt = json!({"prompt": "hello"}).to_string().into_bytes();
    let spawn = probe.spawn_request(json!({}))?.to_string().into_bytes();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        .to_string()
        .into_bytes();
    let routes: [(&'static str, String, Option<&[u8]>); 8] = [
        ("GET", probe.subject.host.prefix.clone(), None),
        ("GET", probe.route(&id, ""), None),
        ("GET", probe.route(&id, "/stream"), None),
        ("POST", probe.route(&id, "/prompt"), Some(&prompt)),
        ("POST", probe.spawn_route(), Some(&spawn)),
        ("POST", probe.subject.host.mcp.clone(), Some(&ping)),
        ("POST", probe.route(&id, "/kill"), None),
        ("DELETE", probe.route(&id, ""), None),
    ];
    let mut lines = Vec::new();
    let mut let_in = Vec::new();
    for (method, path, body) in routes {
        for (auth, named) in [
            (RequestAuth::Without, "without a token"),
            (RequestAuth::Other(&wrong), "with a wrong token"),
        ] {
            let request = probe.request(method, &path, body, auth, &[]);
            let (status, at) = match probe.open_stream_for(&request).await {
                Ok(mut stream) => {
                    let mut at = stream.lines.to_vec();
                    if method == "POST" && (200..300).contains(&stream.head.status) {
                        // Register a session that was started without permission, so that it is
                        // ended later.
                        let whole = stream.read_body(probe.response_limit()).await;
                        let (body, line) = whole.unwrap_or_default();
                        at.extend(line);
                        let record: Value = serde_json::from_slice(&body).unwrap_or_default();
                        if let Some(id) = record["id"].as_str() {
                            probe.end_with_case(id);
                        }
                    }
                    (stream.head.status, at)
                }
                // Closing the connection also counts as a refusal.
                Err((HttpError::Invalid(_), _)) => continue,
                Err((error, at)) => return Err(probe.failed(about, &error, at)),
            };
            // 404 hides what exists, and a redirect leads to a login.
            let is_refused = matches!(status, 300..=399 | 401 | 403..=405 | 407 | 429);
            if !is_refused {
                let_in.push(format!("{method} {} {named} ({status})", shown(&path, &id)));
                lines.extend(at);
            } else if lines.len() < 2 && let_in.is_empty() {
                lines = at;
            }
        }
    }
    let against = (!let_in.is_empty())
        .then(|| format!("accepted without the right token: {}", let_in.join(", ")));
    probe.verdict(about, against, &lines);
    Ok(())
}

fn shown(path: &str, id: &str) -> String {
    path.replace(&super::http::percent_encode(id), ":id")
}

/// Checks that a page of another site cannot reach a host on this machine through DNS rebinding.
pub async fn rebinding(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "SES-01";
    if !probe.subject.host.address.is_loopback() {
        let why = "DNS rebinding only affects a host on this machine";
        return Err(NoVerdict::NotApplicable(why.to_owned()));
    }
    let prefix = probe.subject.host.prefix.clone();
    let mut against = None;
    let mut lines = Vec::new();
    for (name, value) in [
        ("host", "rebound.example"),
        ("origin", "http://rebound.example"),
    ] {
        let more = [(name, value.to_owned())];
        let request = probe.request("GET", &prefix, None, RequestAuth::Own, &more);
        match probe.exchange(&request).await {
            Ok(answer) if answer.is_ok() => {
                against = Some(format!("a request with `{name}: {value}` is accepted"));
                lines = answer.lines.to_vec();
            }
            Ok(answer) => lines.push(answer.lines[1]),
            Err((HttpError::Invalid(_), at)) => lines.push(at[1]),
            Err((error, _)) => return Err(NoVerdict::NotVerified(error.describe())),
        }
    }
    probe.verdict(about, against, &lines);
    Ok(())
}

pub async fn unknown_session(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "SES-02";
    let prompt = json!({"prompt": "hello"});
    let mut wrong = Vec::new();
    let mut lines = Vec::new();
    for (method, rest, body, may_say_no) in [
        ("GET", "", None, false),
        ("GET", "/stream", None, false),
        ("POST", "/prompt", Some(&prompt), false),
        ("POST", "/kill", None, true),
        ("DELETE", "", None, true),
    ] {
        let path = probe.route(UNKNOWN_NAME, rest);
        let body = body.map(|body| body.to_string().into_bytes());
        let request = probe.request(method, &path, body.as_deref(), RequestAuth::Own, &[]);
        let mut stream = match probe.open_stream_for(&request).await {
            Ok(stream) => stream,
            Err((error, at)) => return Err(probe.failed(about, &error, at)),
        };
        let status = stream.head.status;
        let at = stream.lines;
        let body_json: Value = match stream.is_stream() {
            true => Value::Null,
            false => {
                let whole = stream
                    .read_body(probe.response_limit())
                    .await
                    .unwrap_or_default();
                serde_json::from_slice(&whole.0).unwrap_or_default()
            }
        };
        // These routes have a boolean `ok`, so they may also answer with `false`.
        let says_no = may_say_no && body_json["ok"] == false;
        match [404, 410].contains(&status) || says_no {
            true => lines.push(at[1]),
            false => {
                wrong.push(format!(
                    "{method} {}/:id{rest} ({status})",
                    probe.subject.host.prefix
                ));
                lines = at.to_vec();
            }
        }
    }
    let against = (!wrong.is_empty()).then(|| {
        format!(
            "requests for an unknown session are not answered with 404: {}",
            wrong.join(", ")
        )
    });
    probe.verdict(about, against, &lines);
    Ok(())
}

pub async fn bad_requests(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "SES-03";
    let session = probe.running(json!({})).await?;
    let prompt = probe.route(&session.id, "/prompt");
    let spawn = probe.spawn_route();
    let odd = probe
        .spawn_request(json!({"label": ["a", "list"]}))?
        .to_string();
    let mut wrong = Vec::new();
    let mut lines = Vec::new();
    for (what, path, body) in [
        (
            "an incomplete JSON object to spawn",
            &spawn,
            "{\"adapter\":",
        ),
        ("a list to spawn", &spawn, "[]"),
        ("a label that is a list", &spawn, odd.as_str()),
        ("a prompt without `prompt`", &prompt, "{}"),
        ("a prompt that is a number", &prompt, "{\"prompt\":5}"),
        ("a prompt that is not JSON", &prompt, "hello"),
    ] {
        let request = probe.request("POST", path, Some(body.as_bytes()), RequestAuth::Own, &[]);
        let answer = match probe.exchange(&request).await {
            Ok(answer) => answer,
            Err((error, at)) => return Err(probe.failed(about, &error, at)),
        };
        if answer.is_ok() {
            let _ = probe.started(&answer);
        }
        match (400..500).contains(&answer.status()) {
            true => lines.push(answer.lines[1]),
            false => {
                wrong.push(format!("{what} ({})", answer.status()));
                lines = answer.lines.to_vec();
            }
        }
    }
    let against = (!wrong.is_empty())
        .then(|| format!("not rejected with a 4xx status: {}", wrong.join(", ")));
    probe.verdict(about, against, &lines);
    Ok(())
}

pub async fn unknown_members(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "SES-04";
    // Start a session first, to make sure that the adapter works.
    let session = probe.running(json!({})).await?;
    let more = json!({"somethingOfTomorrow": {"a": [1, null]}});
    let body = probe.spawn_request(more.clone())?;
    let path = probe.spawn_route();
    let spawned = probe.ask(about, "POST", &path, Some(&body)).await?;
    if spawned.is_ok() {
        let _ = probe.started(&spawned);
    }
    let text = probe.need_prompt("text")?;
    let body = json!({"prompt": text, "somethingOfTomorrow": more});
    let path = probe.route(&session.id, "/prompt");
    let prompted = probe.ask(about, "POST", &path, Some(&body)).await?;
    let refused = [&spawned, &prompted]
        .into_iter()
        .find(|answer| !answer.is_ok());
    let against = refused.map(|answer| {
        format!(
            "a request with an additional member is answered with {}",
            answer.describe()
        )
    });
    let lines = [spawned.lines[1], prompted.lines[1]];
    probe.verdict(about, against, &lines);
    Ok(())
}

pub async fn media_types(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "SES-05";
    let body = probe.spawn_request(json!({}))?;
    let path = probe.spawn_route();
    let spawned = probe.ask(about, "POST", &path, Some(&body)).await?;
    let id = probe.started(&spawned)?.id;
    let one = probe.get(&id).await?;
    let prefix = probe.subject.host.prefix.clone();
    let list = probe.ask(about, "GET", &prefix, None).await?;
    let mut against = None;
    let mut lines = Vec::new();
    for (what, answer) in [
        ("the response to a spawn request", &spawned),
        ("a session", &one),
        ("the list", &list),
    ] {
        let media = answer.head.media_type();
        lines.push(answer.lines[1]);
        if media != "application/json" && !media.ends_with("+json") {
            let value = answer.json.as_ref().map_or("not JSON", kind);
            against = Some(format!("{what} is {value}, sent as `{media}`"));
        }
    }
    probe.verdict(about, against, &lines);
    Ok(())
}
