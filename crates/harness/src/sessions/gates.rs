//! Probes for access control and for refused requests.

use serde_json::{Value, json};

use super::http::Trouble;
use super::record::kind;
use super::stand::{Stand, Who};
use crate::run::case::Blocked;

/// A name that no host has.
const NOBODY: &str = "no-such-thing-as-this";

/// Checks that `adapter` is required and must be known.
pub async fn adapter(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "A46-SPAWN-01";
    let whole = stand.spawn_request(json!({}))?;
    let mut lines = Vec::new();
    let mut is_told = false;
    let mut without = Vec::new();
    for (what, adapter) in [
        ("without `adapter`", None),
        ("with a number for `adapter`", Some(json!(7))),
        ("with an unknown adapter", Some(json!(NOBODY))),
    ] {
        let mut body = whole.clone();
        match (&adapter, body.as_object_mut()) {
            (Some(adapter), _) => body["adapter"] = adapter.clone(),
            (None, Some(members)) => drop(members.remove("adapter")),
            (None, None) => {}
        }
        let path = stand.spawn_route();
        let answer = stand.ask(about, "POST", &path, Some(&body)).await?;
        lines.push(answer.lines[1]);
        if answer.status() == 501 {
            without.push((answer.told(), answer.lines));
        }
        if !answer.is_ok() {
            if answer.status() >= 500 && answer.status() != 501 {
                let why = format!("a spawn request {what} is answered with {}", answer.told());
                stand.doubtful(about, why, &answer.lines);
                is_told = true;
            }
            continue;
        }
        // Some hosts create a record first, and report the failure in it.
        let became = match stand.started(&answer) {
            Ok(started) => {
                let (_, last) = stand
                    .until(&started.id, |record| record["status"] != "starting")
                    .await?;
                last.value()["status"].clone()
            }
            Err(_) => Value::Null,
        };
        if became != "error" {
            let why = format!(
                "a spawn request {what} is answered with {}, and the session is {became}",
                answer.told()
            );
            stand.broken(about, why, &answer.lines);
            is_told = true;
        }
    }
    if !is_told {
        stand.met(about, &lines);
    }
    let path = stand.spawn_route();
    let answer = stand
        .ask("A46-COMPAT-03", "POST", &path, Some(&whole))
        .await?;
    if answer.is_ok() {
        // Register the session, so that it is ended later.
        let _ = stand.started(&answer);
    }
    match (answer.status(), without.first()) {
        (501, Some((told, lines))) => {
            let text = told.to_lowercase();
            if text.contains("install") || text.contains("add ") {
                stand.met("A46-COMPAT-03", lines);
            } else {
                let why = format!("the message does not contain an install command: {told}");
                stand.broken("A46-COMPAT-03", why, lines);
            }
        }
        _ => stand.not_applicable("A46-COMPAT-03", "the host has at least one adapter"),
    }
    Ok(())
}

/// Checks that nothing is returned or done without the token.
pub async fn auth(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "A46-SEC-02";
    let Some(token) = stand.subject.host.token.clone() else {
        let why = "no token was passed (--token-file), so the authentication of the host cannot be \
                   tested";
        return Err(Blocked::NotVerified(why.to_owned()));
    };
    let wrong = "x".repeat(token.len().max(8));
    let session = stand.running(json!({})).await?;
    let id = session.id;
    let prompt = json!({"prompt": "hello"}).to_string().into_bytes();
    let spawn = stand.spawn_request(json!({}))?.to_string().into_bytes();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        .to_string()
        .into_bytes();
    let routes: [(&'static str, String, Option<&[u8]>); 8] = [
        ("GET", stand.subject.host.prefix.clone(), None),
        ("GET", stand.route(&id, ""), None),
        ("GET", stand.route(&id, "/stream"), None),
        ("POST", stand.route(&id, "/prompt"), Some(&prompt)),
        ("POST", stand.spawn_route(), Some(&spawn)),
        ("POST", stand.subject.host.mcp.clone(), Some(&ping)),
        ("POST", stand.route(&id, "/kill"), None),
        ("DELETE", stand.route(&id, ""), None),
    ];
    let mut lines = Vec::new();
    let mut let_in = Vec::new();
    for (method, path, body) in routes {
        for (who, named) in [
            (Who::Nobody, "without a token"),
            (Who::Stranger(&wrong), "with a wrong token"),
        ] {
            let request = stand.request(method, &path, body, who, &[]);
            let (status, at) = match stand.follow_request(&request).await {
                Ok(mut follow) => {
                    let mut at = follow.lines.to_vec();
                    if method == "POST" && (200..300).contains(&follow.head.status) {
                        // Register a session that was started without permission, so that it is
                        // ended later.
                        let whole = follow.whole(stand.patience()).await;
                        let (body, line) = whole.unwrap_or_default();
                        at.extend(line);
                        let record: Value = serde_json::from_slice(&body).unwrap_or_default();
                        if let Some(id) = record["id"].as_str() {
                            stand.keep(id);
                        }
                    }
                    (follow.head.status, at)
                }
                // Closing the connection also counts as a refusal.
                Err((Trouble::Garbled(_), _)) => continue,
                Err((trouble, at)) => return Err(stand.failed(about, &trouble, at)),
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
    stand.verdict(about, against, &lines);
    Ok(())
}

fn shown(path: &str, id: &str) -> String {
    path.replace(&super::http::encoded(id), ":id")
}

/// Checks that a page of another site cannot reach a host on this machine through DNS rebinding.
pub async fn rebinding(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "SES-01";
    if !stand.subject.host.address.is_loopback() {
        let why = "DNS rebinding only affects a host on this machine";
        return Err(Blocked::NotApplicable(why.to_owned()));
    }
    let prefix = stand.subject.host.prefix.clone();
    let mut against = None;
    let mut lines = Vec::new();
    for (name, value) in [
        ("host", "rebound.example"),
        ("origin", "http://rebound.example"),
    ] {
        let more = [(name, value.to_owned())];
        let request = stand.request("GET", &prefix, None, Who::Ourselves, &more);
        match stand.exchange(&request).await {
            Ok(answer) if answer.is_ok() => {
                against = Some(format!("a request with `{name}: {value}` is accepted"));
                lines = answer.lines.to_vec();
            }
            Ok(answer) => lines.push(answer.lines[1]),
            Err((Trouble::Garbled(_), at)) => lines.push(at[1]),
            Err((trouble, _)) => return Err(Blocked::NotVerified(trouble.told())),
        }
    }
    stand.verdict(about, against, &lines);
    Ok(())
}

pub async fn unknown_session(stand: &mut Stand<'_>) -> Result<(), Blocked> {
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
        let path = stand.route(NOBODY, rest);
        let body = body.map(|body| body.to_string().into_bytes());
        let request = stand.request(method, &path, body.as_deref(), Who::Ourselves, &[]);
        let mut follow = match stand.follow_request(&request).await {
            Ok(follow) => follow,
            Err((trouble, at)) => return Err(stand.failed(about, &trouble, at)),
        };
        let status = follow.head.status;
        let at = follow.lines;
        let said: Value = match follow.is_stream() {
            true => Value::Null,
            false => {
                let whole = follow.whole(stand.patience()).await.unwrap_or_default();
                serde_json::from_slice(&whole.0).unwrap_or_default()
            }
        };
        // These routes have a boolean `ok`, so they may also answer with `false`.
        let says_no = may_say_no && said["ok"] == false;
        match [404, 410].contains(&status) || says_no {
            true => lines.push(at[1]),
            false => {
                wrong.push(format!(
                    "{method} {}/:id{rest} ({status})",
                    stand.subject.host.prefix
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
    stand.verdict(about, against, &lines);
    Ok(())
}

pub async fn bad_requests(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "SES-03";
    let session = stand.running(json!({})).await?;
    let prompt = stand.route(&session.id, "/prompt");
    let spawn = stand.spawn_route();
    let odd = stand
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
        let request = stand.request("POST", path, Some(body.as_bytes()), Who::Ourselves, &[]);
        let answer = match stand.exchange(&request).await {
            Ok(answer) => answer,
            Err((trouble, at)) => return Err(stand.failed(about, &trouble, at)),
        };
        if answer.is_ok() {
            let _ = stand.started(&answer);
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
    stand.verdict(about, against, &lines);
    Ok(())
}

pub async fn unknown_members(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "SES-04";
    // Start a session first, to make sure that the adapter works.
    let session = stand.running(json!({})).await?;
    let more = json!({"somethingOfTomorrow": {"a": [1, null]}});
    let body = stand.spawn_request(more.clone())?;
    let path = stand.spawn_route();
    let spawned = stand.ask(about, "POST", &path, Some(&body)).await?;
    if spawned.is_ok() {
        let _ = stand.started(&spawned);
    }
    let text = stand.need_prompt("text")?;
    let body = json!({"prompt": text, "somethingOfTomorrow": more});
    let path = stand.route(&session.id, "/prompt");
    let prompted = stand.ask(about, "POST", &path, Some(&body)).await?;
    let refused = [&spawned, &prompted]
        .into_iter()
        .find(|answer| !answer.is_ok());
    let against = refused.map(|answer| {
        format!(
            "a request with an additional member is answered with {}",
            answer.told()
        )
    });
    let lines = [spawned.lines[1], prompted.lines[1]];
    stand.verdict(about, against, &lines);
    Ok(())
}

pub async fn media_types(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "SES-05";
    let body = stand.spawn_request(json!({}))?;
    let path = stand.spawn_route();
    let spawned = stand.ask(about, "POST", &path, Some(&body)).await?;
    let id = stand.started(&spawned)?.id;
    let one = stand.get(&id).await?;
    let prefix = stand.subject.host.prefix.clone();
    let list = stand.ask(about, "GET", &prefix, None).await?;
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
    stand.verdict(about, against, &lines);
    Ok(())
}
