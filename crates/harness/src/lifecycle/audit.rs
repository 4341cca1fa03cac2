//! Checks the audit log of a run: complete, chained, and with every step.

use serde_json::{Value, json};

use super::context::ProbeContext;
use crate::run::case::NoVerdict;
use agentproto_runtime::audit::{default_path, verify};
use agentproto_runtime::event::StreamEvent;

/// The entries of a run with one turn, in order.
const EXPECTED_ENTRIES: [&str; 7] = [
    "stage.install",
    "stage.spawn",
    "stage.handshake",
    "session.open",
    "turn.begin",
    "turn.end",
    "session.close",
];

pub async fn audit(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let session = probe.session(probe.choices()).await?;
    let (prompt, has_tool) = match (probe.prompt("tool"), probe.prompt("text")) {
        (Some(tool), _) => (tool, true),
        (None, Some(text)) => (text, false),
        (None, None) => (probe.need_prompt("text")?, false),
    };
    let turn_events = probe.turn(&session, &prompt).await?;
    probe.close(&session).await;
    if !turn_events.ended {
        let why = "the turn did not end within the time limit".to_owned();
        return Err(NoVerdict::NotVerified(why));
    }
    let home = probe
        .context()
        .map_err(|error| probe.no_verdict_for(&error))?
        .home;
    let path = default_path(&home);
    let verified = verify(&home, &path, &[]);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let events: Vec<String> = text
        .lines()
        .filter_map(|line| event_of(&serde_json::from_str(line).ok()?))
        .collect();
    let line = probe.note(&json!({"audit": events}));
    let against = verified
        .err()
        .map(|error| format!("the audit log cannot be verified: {error}"));
    probe.verdict("A44-SEC-05", against, &[line]);
    let missing = first_missing(&events, &EXPECTED_ENTRIES);
    let against =
        missing.map(|entry| format!("the audit log has no `{entry}` at the expected position"));
    probe.verdict("A45-LIFE-07", against, &[line]);
    let calls = turn_events.count(|event| matches!(event, StreamEvent::ToolCall { .. }));
    let logged = events.iter().filter(|event| *event == "tool.call").count();
    if !has_tool {
        let why = "no prompt for a tool call: add `tool` to the --prompts file";
        probe.undecided("A45-SEC-03", NoVerdict::Skip(why.to_owned()));
    } else if calls == 0 && logged == 0 {
        let why = "the agent called no tool".to_owned();
        probe.undecided("A45-SEC-03", NoVerdict::NotVerified(why));
    } else {
        let differ = calls != logged;
        let against = differ.then(|| {
            format!("{calls} tool calls were reported, but {logged} are in the audit log")
        });
        probe.verdict("A45-SEC-03", against, &[line]);
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
