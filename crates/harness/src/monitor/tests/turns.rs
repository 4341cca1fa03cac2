//! Turns, updates, tool calls, permissions, plans.

use serde_json::{Value, json};

use super::lines::*;
use super::{passes, violates};

/// A turn that contains these lines, starting at line 6.
fn within<const N: usize>(capabilities: Value, lines: [String; N]) -> Vec<String> {
    let mut all = turn(capabilities);
    all.extend(lines);
    all.push(end(3));
    all
}

#[test]
fn stop_reasons_and_canceled_turns_are_checked() {
    let ended = |result: Value| then(turn(json!({})), [answer(3, result)]);
    passes(
        "end",
        ended(json!({ "stopReason": "end_turn" })),
        &["PT-01", "PT-02"],
    );
    violates(
        "odd",
        ended(json!({ "stopReason": "done" })),
        &["PT-02 6 5"],
    );
    violates(
        "camel",
        ended(json!({ "stopReason": "endTurn" })),
        &["PT-02 6 5"],
    );
    violates("none", ended(json!({})), &["PT-01 6 5"]);
    let usage = json!({ "stopReason": "end_turn", "usage": {} });
    violates("draft", ended(usage), &["EX-01? 6 5"]);
    let cancelled = then(
        turn(json!({})),
        [
            tell("session/cancel", json!({ "sessionId": "s" })),
            words("stopping"),
            answer(3, json!({ "stopReason": "cancelled" })),
        ],
    );
    passes("cancelled", cancelled.clone(), &["PT-10"]);
    violates(
        "late",
        then(cancelled.clone(), [words("more")]),
        &["PT-10 9 8"],
    );
    let again = then(cancelled.clone(), [prompt(4), words("more"), end(4)]);
    passes("another turn", again, &["PT-10"]);
    let two = then(
        turn(json!({})),
        [
            prompt(4),
            tell("session/cancel", json!({ "sessionId": "s" })),
            answer(4, json!({ "stopReason": "cancelled" })),
            words("of the first turn"),
            end(3),
        ],
    );
    passes("an older turn is open", two, &["PT-10"]);
    let commands = update(
        "available_commands_update",
        json!({ "availableCommands": [] }),
    );
    passes("not of the turn", then(cancelled, [commands]), &["PT-10"]);
}

#[test]
fn messages_and_usage() {
    let chunk = |id: &str| {
        let content = json!({ "type": "text", "text": "a" });
        update(
            "agent_message_chunk",
            json!({ "content": content, "messageId": id }),
        )
    };
    passes(
        "in turn",
        within(json!({}), [chunk("a"), chunk("a"), chunk("b")]),
        &["PT-18"],
    );
    let mixed = within(json!({}), [chunk("a"), chunk("b"), chunk("a")]);
    violates("mixed", mixed, &["PT-18 8 7"]);
    let usage = |update_: Value| within(json!({}), [update("usage_update", update_)]);
    let cost = json!({ "amount": 0.1, "currency": "EUR" });
    passes(
        "usage",
        usage(json!({ "used": 1, "size": 2, "cost": cost })),
        &["PT-19"],
    );
    violates(
        "null",
        usage(json!({ "used": null, "size": 2 })),
        &["PT-19 6"],
    );
    let cost = json!({ "amount": 0.1 });
    violates(
        "no currency",
        usage(json!({ "used": 1, "size": 2, "cost": cost })),
        &["PT-19 6"],
    );
    let cost = json!({ "amount": 0.1, "currency": "euro" });
    violates(
        "odd currency",
        usage(json!({ "used": 1, "size": 2, "cost": cost })),
        &["PT-19 6"],
    );
}

#[test]
fn updates() {
    passes(
        "words",
        within(json!({}), [words("a")]),
        &["UP-01", "EX-01", "EX-02", "TR-22"],
    );
    let one = |kind: &str, value: Value| within(json!({}), [update(kind, value)]);
    violates("unknown", one("agent_message", json!({})), &["UP-01 6"]);
    violates(
        "bare text",
        one("agent_message_chunk", json!({ "content": "a" })),
        &["UP-01 6"],
    );
    violates(
        "draft",
        one("plan_removed", json!({ "id": "p" })),
        &["UP-01? 6"],
    );
    violates("camel", one("agentMessageChunk", json!({})), &["TR-22 6"]);
    violates("no kind", one("", json!({})), &["UP-01 6"]);
    let text = notify("session/update", json!("a"));
    violates("params are text", within(json!({}), [text]), &["UP-01 6"]);
    let content = json!({ "type": "text", "text": "a" });
    let mood = json!({ "content": content, "mood": "good" });
    violates("own field", one("agent_message_chunk", mood), &["EX-01 6"]);
    let own = json!({ "content": content, "_meta": { "mood": "good" } });
    passes("in meta", one("agent_message_chunk", own), &["EX-01"]);
    let snake = json!({ "content": content, "message_id": "m" });
    violates("snake", one("agent_message_chunk", snake), &["TR-22 6"]);
}

#[test]
fn updates_that_need_a_capability_are_checked() {
    let notice = || update("notice", json!({ "severity": "info", "title": "a" }));
    let compaction = || {
        update(
            "compaction_update",
            json!({ "compactionId": "c", "status": "completed" }),
        )
    };
    violates("notice", within(json!({}), [notice()]), &["NO-01 6 1"]);
    violates(
        "compaction",
        within(json!({}), [compaction()]),
        &["NO-02 6 1"],
    );
    passes(
        "taken",
        within(able(), [notice(), compaction()]),
        &["UP-01"],
    );
    passes("none", within(json!({}), [words("a")]), &["NO-01", "NO-02"]);
}

fn tool(extra: Value) -> String {
    let mut call = json!({ "toolCallId": "t", "title": "T", "status": "completed" });
    if let (Value::Object(call), Value::Object(extra)) = (&mut call, extra) {
        call.extend(extra);
    }
    update("tool_call", call)
}

fn change(status: &str) -> String {
    update(
        "tool_call_update",
        json!({ "toolCallId": "t", "status": status }),
    )
}

#[test]
fn tool_calls() {
    let pending = || tool(json!({ "status": "pending" }));
    let whole = within(
        json!({}),
        [pending(), change("in_progress"), change("completed")],
    );
    passes(
        "whole",
        whole,
        &["TC-01", "TC-03", "TC-04", "TC-05", "TC-07"],
    );
    let untitled = update(
        "tool_call",
        json!({ "toolCallId": "t", "status": "completed" }),
    );
    violates("no title", within(json!({}), [untitled]), &["TC-01 6"]);
    let missing_ids = update("tool_call", json!({ "title": "T" }));
    violates("no id", within(json!({}), [missing_ids]), &["TC-01 6"]);
    let twice = within(json!({}), [tool(json!({})), tool(json!({}))]);
    violates("announced twice", twice, &["TC-02 7 6"]);
    let two = within(
        json!({}),
        [tool(json!({})), tool(json!({ "toolCallId": "u" }))],
    );
    passes("two", two, &["TC-02"]);
    violates(
        "unknown call",
        within(json!({}), [change("completed")]),
        &["TC-03 6"],
    );
    violates(
        "odd kind",
        within(json!({}), [tool(json!({ "kind": "shell" }))]),
        &["TC-04 6"],
    );
    violates(
        "odd status",
        within(json!({}), [pending(), change("done")]),
        &["TC-04 7"],
    );
    let again = [tool(json!({})), change("in_progress"), change("completed")];
    violates("starts again", within(json!({}), again), &["TC-05 7 6"]);
    violates("left open", within(json!({}), [pending()]), &["TC-07 7 6"]);
    let refused = answer(3, json!({ "stopReason": "refusal" }));
    passes(
        "refused",
        then(turn(json!({})), [pending(), refused]),
        &["TC-01"],
    );
    let snake = tool(json!({ "raw_input": {} }));
    violates("snake", within(json!({}), [snake]), &["TR-22 6"]);
    let free = tool(json!({ "rawInput": { "some_key": 1 }, "rawOutput": [1] }));
    passes("free", within(json!({}), [free]), &["TR-22", "EX-01"]);
    let bare = json!({ "toolCallId": "t", "content": [{ "type": "text", "text": "a" }] });
    let bare = update("tool_call_update", bare);
    violates(
        "bare content",
        within(json!({}), [tool(json!({})), bare]),
        &["UP-01 7"],
    );
}

#[test]
fn locations_of_tool_calls_are_checked() {
    let place = |place: Value| within(json!({}), [tool(json!({ "locations": [place] }))]);
    passes(
        "sound",
        place(json!({ "path": "/a", "line": 1 })),
        &["TC-08", "TC-09"],
    );
    passes("elsewhere", place(json!({ "path": "C:\\a" })), &["TC-08"]);
    violates("relative", place(json!({ "path": "a" })), &["TC-08 6"]);
    violates(
        "line 0",
        place(json!({ "path": "/a", "line": 0 })),
        &["TC-09 6"],
    );
    violates(
        "line -1",
        place(json!({ "path": "/a", "line": -1 })),
        &["TC-09 6"],
    );
    let diff = |path: &str| {
        let diff = json!({ "type": "diff", "path": path, "newText": "a" });
        within(json!({}), [tool(json!({ "content": [diff] }))])
    };
    passes("diff", diff("/a"), &["TC-08"]);
    violates("relative diff", diff("a"), &["TC-08 6"]);
}

fn permission(options: Value) -> String {
    let params = json!({ "sessionId": "s", "toolCall": { "toolCallId": "t" }, "options": options });
    call(1, "session/request_permission", params)
}

#[test]
fn permissions() {
    let option = |id: &str, kind: &str| json!({ "optionId": id, "name": "A", "kind": kind });
    let allow = || {
        permission(json!([
            option("y", "allow_once"),
            option("n", "reject_once")
        ]))
    };
    let chosen = |id: &str| {
        reply(
            1,
            json!({ "outcome": { "outcome": "selected", "optionId": id } }),
        )
    };
    let pending = || tool(json!({ "status": "pending" }));
    let granted = [
        pending(),
        allow(),
        chosen("y"),
        change("in_progress"),
        change("completed"),
    ];
    passes(
        "granted",
        within(json!({}), granted),
        &["PE-01", "PE-02", "TC-06"],
    );
    let hasty = [pending(), allow(), chosen("y"), change("completed")];
    violates("no progress", within(json!({}), hasty), &["TC-06 9 8"]);
    let refused = [pending(), allow(), chosen("n"), change("failed")];
    passes("refused", within(json!({}), refused), &["PE-02"]);
    let silent = [allow(), chosen("y")];
    violates("nothing after", within(json!({}), silent), &["TC-06 8 7"]);
    violates(
        "no options",
        within(json!({}), [permission(json!([]))]),
        &["PE-02 6"],
    );
    let twins = permission(json!([
        option("y", "allow_once"),
        option("y", "reject_once")
    ]));
    violates("same ids", within(json!({}), [twins]), &["PE-02 6"]);
    let odd = permission(json!([option("y", "yes")]));
    violates("odd kind", within(json!({}), [odd]), &["PE-02 6"]);
    let call_less = json!({ "sessionId": "s", "options": [option("y", "allow_once")] });
    let call_less = call(1, "session/request_permission", call_less);
    violates("no call", within(json!({}), [call_less]), &["PE-01 6"]);
    let session_less = json!({ "toolCall": { "toolCallId": "t" },
        "options": [option("y", "allow_once")] });
    let session_less = call(1, "session/request_permission", session_less);
    violates(
        "no session",
        within(json!({}), [session_less]),
        &["PE-01 6"],
    );
    let announced = [allow(), chosen("n"), change("failed")];
    passes("announced by it", within(json!({}), announced), &["TC-03"]);
}

#[test]
fn plans_and_commands() {
    let entry =
        |content: &str| json!({ "content": content, "priority": "low", "status": "pending" });
    let plan = |entries: Value| update("plan", json!({ "entries": entries }));
    let whole = plan(json!([entry("a"), entry("b")]));
    passes(
        "whole",
        within(json!({}), [whole.clone(), whole.clone()]),
        &["PL-01", "PL-02"],
    );
    let part = plan(json!([entry("b")]));
    violates(
        "part",
        within(json!({}), [whole.clone(), part]),
        &["PL-02? 7 6"],
    );
    let new = plan(json!([entry("c")]));
    passes("anew", within(json!({}), [whole, new]), &["PL-02"]);
    let odd = json!([{ "content": "a", "priority": "urgent", "status": "pending" }]);
    violates("priority", within(json!({}), [plan(odd)]), &["PL-01 6"]);
    let none = json!([{ "content": "a", "priority": "low" }]);
    violates("no status", within(json!({}), [plan(none)]), &["PL-01 6"]);
    let commands = |list: Value| {
        let list = json!({ "availableCommands": list });
        within(json!({}), [update("available_commands_update", list)])
    };
    let command =
        |name: &str| json!({ "name": name, "description": "d", "input": { "hint": "h" } });
    passes(
        "commands",
        commands(json!([command("a"), command("b")])),
        &["SL-01", "SL-02"],
    );
    violates(
        "no description",
        commands(json!([{ "name": "a" }])),
        &["SL-01 6"],
    );
    let hint = json!([{ "name": "a", "description": "d", "input": { "hint": 7 } }]);
    violates("hint", commands(hint), &["SL-01 6"]);
    violates("slash", commands(json!([command("/a")])), &["SL-02 6"]);
    violates(
        "same names",
        commands(json!([command("a"), command("a")])),
        &["SL-02 6"],
    );
}

#[test]
fn extensions() {
    let one = |line: String| within(json!({}), [line]);
    passes("own", one(notify("_own/thing", json!({}))), &["EX-02"]);
    violates("custom", one(notify("own/thing", json!({}))), &["EX-02 6"]);
    violates(
        "wrong side",
        one(notify("session/cancel", json!({}))),
        &["EX-02 6"],
    );
    violates(
        "draft",
        one(notify("auth/status_update", json!({}))),
        &["EX-02? 6"],
    );
    let traced = |parent: &str| {
        let content = json!({ "type": "text", "text": "a" });
        let meta = json!({ "traceparent": parent });
        update(
            "agent_message_chunk",
            json!({ "content": content, "_meta": meta }),
        )
    };
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    passes("trace", one(traced(parent)), &["EX-08"]);
    violates("odd trace", one(traced("trace-1")), &["EX-08 6"]);
}
