//! Checks the audit log of a run: complete, chained, and with every step.

use serde_json::{Value, json};

use super::stand::Stand;
use crate::run::case::Blocked;
use agentproto_runtime::audit::{default_path, verify};
use agentproto_runtime::event::StreamEvent;

/// The entries of a run with one turn, in order.
const ENTRIES: [&str; 7] = [
    "stage.install",
    "stage.spawn",
    "stage.handshake",
    "session.open",
    "turn.begin",
    "turn.end",
    "session.close",
];

pub async fn audit(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let session = stand.session(stand.wanted()).await?;
    let (prompt, has_tool) = match (stand.prompt("tool"), stand.prompt("text")) {
        (Some(tool), _) => (tool, true),
        (None, Some(text)) => (text, false),
        (None, None) => (stand.need_prompt("text")?, false),
    };
    let said = stand.turn(&session, &prompt).await?;
    stand.close(&session).await;
    if !said.ended {
        let why = "the turn did not end within the time limit".to_owned();
        return Err(Blocked::NotVerified(why));
    }
    let home = stand.context().map_err(|fault| stand.refused(&fault))?.home;
    let path = default_path(&home);
    let verified = verify(&path);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let events: Vec<String> = text
        .lines()
        .filter_map(|line| event_of(&serde_json::from_str(line).ok()?))
        .collect();
    let line = stand.note(&json!({"audit": events}));
    let against = verified
        .err()
        .map(|fault| format!("the audit log cannot be verified: {fault}"));
    stand.verdict("A44-SEC-05", against, &[line]);
    let missing = first_missing(&events, &ENTRIES);
    let against =
        missing.map(|entry| format!("the audit log has no `{entry}` at the expected position"));
    stand.verdict("A45-LIFE-07", against, &[line]);
    let calls = said.count(|event| matches!(event, StreamEvent::ToolCall { .. }));
    let logged = events.iter().filter(|event| *event == "tool.call").count();
    if !has_tool {
        let why = "no prompt for a tool call: add `tool` to the --prompts file";
        stand.open("A45-SEC-03", Blocked::Skip(why.to_owned()));
    } else if calls == 0 && logged == 0 {
        let why = "the agent called no tool".to_owned();
        stand.open("A45-SEC-03", Blocked::NotVerified(why));
    } else {
        let differ = calls != logged;
        let against = differ.then(|| {
            format!("{calls} tool calls were reported, but {logged} are in the audit log")
        });
        stand.verdict("A45-SEC-03", against, &[line]);
    }
    Ok(())
}

pub fn event_of(entry: &Value) -> Option<String> {
    Some(entry.get("event")?.as_str()?.to_owned())
}

/// The first entry that does not follow the entries before it.
fn first_missing<'w>(events: &[String], wanted: &[&'w str]) -> Option<&'w str> {
    let mut rest = events.iter();
    wanted
        .iter()
        .find(|entry| !rest.any(|event| event == *entry))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_or_misplaced_entries_are_found() {
        let of =
            |words: &[&str]| -> Vec<String> { words.iter().map(|w| (*w).to_owned()).collect() };
        assert_eq!(first_missing(&of(&["a", "x", "b"]), &["a", "b"]), None);
        assert_eq!(first_missing(&of(&["b", "a"]), &["a", "b"]), Some("b"));
        assert_eq!(first_missing(&of(&["a"]), &["a", "b"]), Some("b"));
        assert_eq!(first_missing(&[], &["a"]), Some("a"));
    }
}
