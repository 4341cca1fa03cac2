//! Initialization, authentication, sessions.

use serde_json::{Value, json};

use super::lines::*;
use super::{passes, run_monitors, violates, violations};

#[test]
fn initialize() {
    let with = |extra: Value| {
        let mut result = json!({ "protocolVersion": 1, "agentCapabilities": {} });
        if let (Value::Object(result), Value::Object(extra)) = (&mut result, extra) {
            result.extend(extra);
        }
        start(json!({}), result)
    };
    passes(
        "plain",
        with(json!({})),
        &["IN-01", "IN-06", "IN-08", "EX-01", "EX-07", "TR-22"],
    );
    violates(
        "no version",
        start(json!({}), json!({ "agentCapabilities": {} })),
        &["IN-01 2 1"],
    );
    violates(
        "version text",
        with(json!({ "protocolVersion": "1" })),
        &["IN-01 2 1"],
    );
    violates(
        "no capabilities",
        start(json!({}), json!({ "protocolVersion": 1 })),
        &["IN-06? 2 1"],
    );
    let caps = |caps: Value| with(json!({ "agentCapabilities": caps }));
    violates("yes", caps(json!({ "loadSession": "yes" })), &["IN-08 2 1"]);
    violates("capabilities are text", caps(json!("all")), &["IN-08 2 1"]);
    violates(
        "own capability",
        caps(json!({ "telepathy": true })),
        &["EX-07 2 1"],
    );
    let deep = json!({ "sessionCapabilities": { "list": { "fast": true } } });
    violates("own capability below", caps(deep), &["EX-07 2 1"]);
    let draft = json!({ "sessionCapabilities": { "fork": {} } });
    violates("draft capability", caps(draft), &["EX-07? 2 1"]);
    passes(
        "in meta",
        caps(json!({ "_meta": { "telepathy": true } })),
        &["EX-07"],
    );
    violates(
        "snake",
        caps(json!({ "load_session": true })),
        &["TR-22 2 1"],
    );
    violates("own field", with(json!({ "mood": "good" })), &["EX-01 2 1"]);
    violates(
        "half an info",
        with(json!({ "agentInfo": { "name": "a" } })),
        &["IN-07 2 1"],
    );
    // Other versions have different shapes.
    let later = json!({ "protocolVersion": 2, "capabilities": {}, "info": { "name": "a" } });
    passes("version 2", start(json!({}), later), &["TR-05"]);
}

#[test]
fn authentication() {
    let methods = |capabilities: Value, methods: Value| {
        let result =
            json!({ "protocolVersion": 1, "agentCapabilities": {}, "authMethods": methods });
        start(capabilities, result)
    };
    let terminal = json!({ "auth": { "terminal": true } });
    let sound = json!([
        { "id": "a", "name": "A", "type": "agent" },
        { "id": "b", "name": "B", "type": "terminal", "args": ["login"], "env": { "X": "1" } },
    ]);
    passes(
        "sound",
        methods(terminal.clone(), sound.clone()),
        &["AU-01", "AU-03", "AU-04"],
    );
    violates("unasked", methods(json!({}), sound), &["AU-02 2 1"]);
    let plain = json!([{ "id": "a", "name": "A" }]);
    passes("plain", methods(json!({}), plain), &["AU-02"]);
    let twins = json!([{ "id": "a", "name": "A" }, { "id": "a", "name": "B" }]);
    violates("same ids", methods(json!({}), twins), &["AU-01 2 1"]);
    violates(
        "no name",
        methods(json!({}), json!([{ "id": "a" }])),
        &["AU-01 2 1"],
    );
    let odd = json!([{ "id": "a", "name": "A", "type": "browser" }]);
    // What an unknown type contains is not another fault.
    let foreign = json!([{ "id": "a", "name": "A", "type": "env_var", "vars": [] }]);
    violates("foreign type", methods(json!({}), foreign), &["AU-03 2 1"]);
    let own = json!([{ "id": "a", "name": "A", "type": "agent", "vars": [] }]);
    violates("own member", methods(json!({}), own), &["EX-01 2 1"]);
    violates("odd type", methods(json!({}), odd), &["AU-03 2 1"]);
    let vars = json!([{ "name": "KEY" }]);
    let former =
        json!([{ "id": "a", "name": "A", "type": "env_var", "vars": vars, "link": "https://a" }]);
    violates(
        "type of an earlier draft",
        methods(json!({}), former),
        &["AU-03 2 1"],
    );
    let command = json!([{ "id": "a", "name": "A", "type": "terminal", "command": "x" }]);
    violates(
        "command",
        methods(terminal.clone(), command),
        &["AU-04 2 1"],
    );
    let env = json!([{ "id": "a", "name": "A", "type": "terminal", "env": { "X": 1 } }]);
    violates("env", methods(terminal.clone(), env), &["AU-04 2 1"]);
    let args = json!([{ "id": "a", "name": "A", "type": "terminal", "args": "login" }]);
    violates("args", methods(terminal, args), &["AU-04 2 1"]);
}

#[test]
fn new_sessions() {
    passes("plain", session(json!({})), &["SE-01", "SE-03"]);
    let with = |result: Value| session_with(json!({}), result);
    violates("number", with(json!({ "sessionId": 7 })), &["SE-01 4 3"]);
    violates("none", with(json!({})), &["SE-01 4 3"]);
    violates("empty", with(json!({ "sessionId": "" })), &["SE-01 4 3"]);
    let list = json!({ "sessionId": "s", "modes": ["ask"] });
    violates("modes are a list", with(list), &["SE-03 4 3"]);
    let models = json!({ "sessionId": "s", "models": {} });
    violates(
        "models of an earlier draft",
        with(models.clone()),
        &["EX-01? 4 3"],
    );
    let notes = run_monitors(&with(models));
    let what = super::describe(&notes);
    assert!(what.contains("an earlier draft"), "{what}");
    let again = |id: &str| {
        let new = ask(3, "session/new", json!({ "cwd": "/w", "mcpServers": [] }));
        then(
            session(json!({})),
            [new, answer(3, json!({ "sessionId": id }))],
        )
    };
    violates("same id", again("s"), &["SE-02 6 5 4"]);
    passes("other id", again("t"), &["SE-02"]);
}

#[test]
fn sessions_that_are_alive() {
    passes("alive", then(session(json!({})), [words("a")]), &["SE-14"]);
    let other = notify(
        "session/update",
        json!({ "sessionId": "x", "update": { "sessionUpdate": "plan", "entries": [] } }),
    );
    violates(
        "unknown",
        then(session(json!({})), [other.clone()]),
        &["SE-14 5"],
    );
    let none = notify(
        "session/update",
        json!({ "update": { "sessionUpdate": "plan", "entries": [] } }),
    );
    violates("none", then(session(json!({})), [none]), &["SE-14 5"]);
    let mut early = session(json!({}));
    early.insert(3, words("before the answer"));
    passes("early", early, &["SE-14"]);
    let mut early = session(json!({}));
    early.insert(3, other);
    violates("early and unknown", early, &["SE-14 4"]);
    let close = ask(3, "session/close", json!({ "sessionId": "s" }));
    let closed = then(session(json!({})), [close, answer(3, json!({}))]);
    passes("closed", closed.clone(), &["CL-02"]);
    violates(
        "after the end",
        then(closed.clone(), [words("a")]),
        &["CL-03 7 6"],
    );
    let read = call(
        1,
        "fs/read_text_file",
        json!({ "sessionId": "s", "path": "/a" }),
    );
    let mut able_closed = session(able());
    able_closed.extend(closed.into_iter().skip(4));
    violates(
        "asks after the end",
        then(able_closed, [read]),
        &["SE-14 7 6"],
    );
    let close = ask(3, "session/close", json!({ "sessionId": "s" }));
    let null = then(session(json!({})), [close, answer(3, Value::Null)]);
    violates("close with null", null, &["CL-02 6 5"]);
}

#[test]
fn lists() {
    let list = |result: Value| {
        let lines = start(
            json!({}),
            json!({ "protocolVersion": 1, "agentCapabilities": { "sessionCapabilities": { "list": {} } } }),
        );
        then(
            lines,
            [ask(2, "session/list", json!({})), answer(2, result)],
        )
    };
    let one = |session: Value| list(json!({ "sessions": [session] }));
    passes(
        "empty",
        list(json!({ "sessions": [] })),
        &["LI-01", "LI-03"],
    );
    let sound = json!({ "sessionId": "s", "cwd": "/w", "updatedAt": "2026-01-31T12:00:00Z" });
    passes("sound", one(sound), &["LI-01", "LI-02", "LI-07"]);
    violates("bare list", list(json!([])), &["LI-01 4 3"]);
    violates("no list", list(json!({})), &["LI-01 4 3"]);
    violates("null", list(json!({ "sessions": null })), &["LI-03 4 3"]);
    violates(
        "no directory",
        one(json!({ "sessionId": "s" })),
        &["LI-02 4 3"],
    );
    violates(
        "relative",
        one(json!({ "sessionId": "s", "cwd": "." })),
        &["LI-02 4 3"],
    );
    let seconds = json!({ "sessionId": "s", "cwd": "/w", "updatedAt": "1700000000" });
    violates("seconds", one(seconds), &["LI-07 4 3"]);
    let number = json!({ "sessionId": "s", "cwd": "/w", "updatedAt": 1_700_000_000 });
    violates("a number", one(number), &["LI-07 4 3"]);
}

#[test]
fn a_loaded_session_may_answer_null() {
    let load = |result: Value| {
        let lines = start(
            json!({}),
            json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": true } }),
        );
        let params = json!({ "sessionId": "s", "cwd": "/w", "mcpServers": [] });
        then(
            lines,
            [
                ask(2, "session/load", params),
                words("once"),
                answer(2, result),
            ],
        )
    };
    passes("null", load(Value::Null), &["SE-14"]);
    passes("object", load(json!({})), &["SE-14"]);
    violates("text", load(json!("done")), &["SE-03 5 3"]);
}

/// Invalid responses to methods that the agent did not announce in `initialize`. A case checks
/// IN-17, and the monitors report nothing.
#[test]
fn responses_of_methods_that_are_not_announced_are_not_checked() {
    let request = |capabilities: Value, method: &str, result: Value| {
        let agent = json!({ "protocolVersion": 1, "agentCapabilities": capabilities });
        let params = json!({ "sessionId": "s", "cwd": "/w", "mcpServers": [] });
        let lines = start(json!({}), agent);
        then(lines, [ask(2, method, params), answer(2, result)])
    };
    let own = |name: &str| json!({ "sessionCapabilities": { name: {} } });
    let off = [
        json!({}),
        json!({ "loadSession": false, "sessionCapabilities": {} }),
    ];
    let sessions = json!({ "sessions": [{ "sessionId": "s", "cwd": ".", "updatedAt": 1 }] });
    let missing_ids = json!({ "configOptions": [{ "name": "n" }] });
    let wrong = [
        ("session/list", own("list"), Value::Null, "LI-01 4 3"),
        ("session/list", own("list"), sessions, "LI-02 4 3"),
        (
            "session/load",
            json!({ "loadSession": true }),
            json!("done"),
            "SE-03 4 3",
        ),
        ("session/resume", own("resume"), missing_ids, "CO-02 4 3"),
        ("session/close", own("close"), Value::Null, "CL-02 4 3"),
    ];
    for (method, offered, result, expected) in wrong {
        let notes = run_monitors(&request(offered, method, result.clone()));
        let found = violations(&notes);
        assert!(found.iter().any(|f| f == expected), "{method}: {found:?}");
        for off in &off {
            passes(method, request(off.clone(), method, result.clone()), &[]);
        }
    }
}
