//! Finds the sessions that the user names, and asks the host about them.

use serde_json::Value;

use crate::cli::agents::client::{Client, percent_encode};
use crate::cli::{Failure, signals};
use crate::exit;

/// Sends a request, unless a signal arrives first.
pub fn request(
    client: &Client,
    send: impl FnOnce(&Client) -> Result<Value, Failure> + Send + 'static,
) -> Result<Value, Failure> {
    let client = client.clone();
    signals::run_until_signal(move || send(&client))?.map_err(for_command_line)
}

/// The sessions of the host.
pub fn list(client: &Client) -> Result<Value, Failure> {
    request(client, |client| client.get("/sessions"))
}

/// The current record of a session.
pub fn record(client: &Client, id: &str) -> Result<Value, Failure> {
    let path = path(id, "");
    request(client, move |client| client.get(&path))
}

/// A route of one session: `below` is empty, or starts with a slash.
pub fn path(id: &str, below: &str) -> String {
    format!("/sessions/{}{below}", percent_encode(id))
}

/// The id of a record.
pub fn id_of(session: &Value) -> String {
    session["id"].as_str().unwrap_or_default().to_owned()
}

pub fn is_alive(session: &Value) -> bool {
    matches!(session["status"].as_str(), Some("starting" | "running"))
}

/// Finds a session by its id, or by a prefix that only one session has.
pub fn one(client: &Client, id: &str) -> Result<Value, Failure> {
    named(&list(client)?, id)
}

/// Finds several sessions, each once. All of them must exist.
pub fn several(client: &Client, ids: &[String]) -> Result<Vec<Value>, Failure> {
    let all = list(client)?;
    let mut found: Vec<Value> = Vec::new();
    for id in ids {
        let session = named(&all, id)?;
        if !found.iter().any(|known| known["id"] == session["id"]) {
            found.push(session);
        }
    }
    Ok(found)
}

fn named(answer: &Value, id: &str) -> Result<Value, Failure> {
    let sessions = answer["sessions"].as_array().map_or(&[][..], Vec::as_slice);
    let known = |session: &Value| session["id"].as_str() == Some(id);
    if let Some(session) = sessions.iter().find(|session| known(session)) {
        return Ok(session.clone());
    }
    let has_prefix = |s: &&Value| s["id"].as_str().is_some_and(|known| known.starts_with(id));
    let mut matching = sessions.iter().filter(has_prefix);
    match (matching.next(), matching.next()) {
        (Some(session), None) if !id.is_empty() => Ok(session.clone()),
        (Some(_), Some(_)) => {
            let what = format!("several sessions start with `{id}`");
            Err(Failure::new(exit::USAGE, what)
                .typed("session_ambiguous")
                .hint("give more characters of the id; `agentproto sessions` lists them"))
        }
        _ => Err(not_found(format!("unknown session `{id}`"))),
    }
}

fn not_found(what: String) -> Failure {
    Failure::new(exit::NO_INPUT, what)
        .typed("session_not_found")
        .hint("`agentproto sessions` lists them")
}

/// Replaces hints that name routes of the host by hints that name commands.
pub fn for_command_line(mut failure: Failure) -> Failure {
    let hint = match failure.slug {
        Some("session_not_found") => "`agentproto sessions` lists all sessions",
        Some("permission_not_found") => "`agentproto sessions answer ID` lists the open questions",
        Some("session_busy") => {
            "wait for the end of its turn, or end it with `agentproto sessions interrupt ID`"
        }
        Some("session_ended") => {
            // A retry does not help.
            failure.code = exit::UNAVAILABLE;
            "`agentproto sessions start` starts a new session"
        }
        _ => return failure,
    };
    failure.hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_session_is_named_by_its_id_or_a_unique_prefix() {
        let all =
            json!({ "sessions": [{ "id": "ses_ab" }, { "id": "ses_abc" }, { "id": "ses_b" }] });
        let found = |id: &str| named(&all, id).map(|session| id_of(&session));
        assert_eq!(found("ses_b").expect("found"), "ses_b");
        assert_eq!(found("ses_abc").expect("found"), "ses_abc");
        assert_eq!(found("ses_ab").expect("the whole id"), "ses_ab");
        for (id, code) in [
            ("ses_a", exit::USAGE),
            ("", exit::USAGE),
            ("x", exit::NO_INPUT),
        ] {
            assert_eq!(found(id).expect_err(id).code, code, "{id}");
        }
        assert_eq!(
            named(&Value::Null, "x").expect_err("none").code,
            exit::NO_INPUT
        );
    }
}
