//! Turns, updates, tool calls, permissions, plans.

use serde_json::{Value, json};

use super::talk::*;
use super::{breaks, keeps};

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
    keeps(
        "end",
        ended(json!({ "stopReason": "end_turn" })),
        &["PT-01", "PT-02"],
    );
    breaks(
        "odd",
        ended(json!({ "stopReason": "done" })),
        &["PT-02 6 5"],
    );
    breaks(
        "camel",
        ended(json!({ "stopReason": "endTurn" })),
        &["PT-02 6 5"],
    );
    breaks("none", ended(json!({})), &["PT-01 6 5"]);
    let usage = json!({ "stopReason": "end_turn", "usage": {} });
    breaks("draft", ended(usage), &["EX-01? 6 5"]);
    let cancelled = then(
        turn(json!({})),
        [
            tell("session/cancel", json!({ "sessionId": "s" })),
            words("stopping"),
            answer(3, json!({ "stopReason": "cancelled" })),
        ],
    );
    keeps("cancelled", cancelled.clone(), &["PT-10"]);
    breaks(
        "late",
        then(cancelled.clone(), [words("more")]),
        &["PT-10 9 8"],
    );
    let again = then(cancelled.clone(), [prompt(4), words("more"), end(4)]);
    keeps("another turn", again, &["PT-10"]);
    let commands = update(
        "available_commands_update",
        json!({ "availableCommands": [] }),
    );
    keeps("not of the turn", then(cancelled, [commands]), &["PT-10"]);
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
    keeps(
        "in turn",
        within(json!({}), [chunk("a"), chunk("a"), chunk("b")]),
        &["PT-18"],
    );
    let mixed = within(json!({}), [chunk("a"), chunk("b"), chunk("a")]);
    breaks("mixed", mixed, &["PT-18 8 7"]);
    let usage = |update_: Value| within(json!({}), [update("usage_update", update_)]);
    let cost = json!({ "amount": 0.1, "currency": "EUR" });
    keeps(
        "usage",
        usage(json!({ "used": 1, "size": 2, "cost": cost })),
        &["PT-19"],
    );
    breaks(
        "null",
        usage(json!({ "used": null, "size": 2 })),
        &["PT-19 6"],
    );
    let cost = json!({ "amount": 0.1 });
    breaks(
        "no currency",
        usage(json!({ "used": 1, "size": 2, "cost": cost })),
        &["PT-19 6"],
    );
    let cost = json!({ "amount": 0.1, "currency": "euro" });
    breaks(
        "odd currency",
        usage(json!({ "used": 1, "size": 2, "cost": cost })),
        &["PT-19 6"],
    );
}

#[test]
fn updates() {
    keeps(
        "words",
        within(json!({}), [words("a")]),
        &["UP-01", "EX-01", "EX-02", "TR-22"],
    );
    let one = |kind: &str, value: Value| within(json!({}), [update(kind, value)]);
    breaks("unknown", one("agent_message", json!({})), &["UP-01 6"]);
    breaks(
        "bare text",
        one("agent_message_chunk", json!({ "content": "a" })),
        &["UP-01 6"],
    );
    breaks(
        "draft",
        one("plan_removed", json!({ "id": "p" })),
        &["UP-01? 6"],
    );
    breaks("camel", one("agentMessageChunk", json!({})), &["TR-22 6"]);
    breaks("no kind", one("", json!({})), &["UP-01 6"]);
    let text = notify("session/update", json!("a"));
    breaks("params are text", within(json!({}), [text]), &["UP-01 6"]);
    let content = json!({ "type": "text", "text": "a" });
    let mood = json!({ "content": content, "mood": "good" });
    breaks("own field", one("agent_message_chunk", mood), &["EX-01 6"]);
    let own = json!({ "content": content, "_meta": { "mood": "good" } });
    keeps("in meta", one("agent_message_chunk", own), &["EX-01"]);
    let snake = json!({ "content": content, "message_id": "m" });
    breaks("snake", one("agent_message_chunk", snake), &["TR-22 6"]);
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
    breaks("notice", within(json!({}), [notice()]), &["NO-01 6 1"]);
    breaks(
        "compaction",
        within(json!({}), [compaction()]),
        &["NO-02 6 1"],
    );
    keeps(
        "taken",
        within(able(), [notice(), compaction()]),
        &["UP-01"],
    );
    keeps("none", within(json!({}), [words("a")]), &["NO-01", "NO-02"]);
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
    keeps(
        "whole",
        whole,
        &["TC-01", "TC-03", "TC-04", "TC-05", "TC-07"],
    );
    let untitled = update(
        "tool_call",
        json!({ "toolCallId": "t", "status": "completed" }),
    );
    breaks("no title", within(json!({}), [untitled]), &["TC-01 6"]);
    let nameless = update("tool_call", json!({ "title": "T" }));
    breaks("no id", within(json!({}), [nameless]), &["TC-01 6"]);
    let twice = within(json!({}), [tool(json!({})), tool(json!({}))]);
    breaks("announced twice", twice, &["TC-02 7 6"]);
    let two = within(
        json!({}),
        [tool(json!({})), tool(json!({ "toolCallId": "u" }))],
    );
    keeps("two", two, &["TC-02"]);
    breaks(
        "unknown call",
        within(json!({}), [change("completed")]),
        &["TC-03 6"],
    );
    breaks(
        "odd kind",
        within(json!({}), [tool(json!({ "kind": "shell" }))]),
        &["TC-04 6"],
    );
    breaks(
        "odd status",
        within(json!({}), [pending(), change("done")]),
        &["TC-04 7"],
    );
    let again = [tool(json!({})), change("in_progress"), change("completed")];
    breaks("starts again", within(json!({}), again), &["TC-05 7 6"]);
    breaks("left open", within(json!({}), [pending()]), &["TC-07 7 6"]);
    let refused = answer(3, json!({ "stopReason": "refusal" }));
    keeps(
        "refused",
        then(turn(json!({})), [pending(), refused]),
        &["TC-01"],
    );
    let snake = tool(json!({ "raw_input": {} }));
    breaks("snake", within(json!({}), [snake]), &["TR-22 6"]);
    let free = tool(json!({ "rawInput": { "some_key": 1 }, "rawOutput": [1] }));
    keeps("free", within(json!({}), [free]), &["TR-22", "EX-01"]);
    let bare = json!({ "toolCallId": "t", "content": [{ "type": "text", "text": "a" }] });
    let bare = update("tool_call_update", bare);
    breaks(
        "bare content",
        within(json!({}), [tool(json!({})), bare]),
        &["UP-01 7"],
    );
}

#[test]
fn locations_of_tool_calls_are_checked() {
    let place = |place: Value| within(json!({}), [tool(json!({ "locations": [place] }))]);
    keeps(
        "sound",
        place(json!({ "path": "/a", "line": 1 })),
        &["TC-08", "TC-09"],
    );
    keeps("elsewhere", place(json!({ "path": "C:\\a" })), &["TC-08"]);
    breaks("relative", place(json!({ "path": "a" })), &["TC-08 6"]);
    breaks(
        "line 0",
        place(json!({ "path": "/a", "line": 0 })),
        &["TC-09 6"],
    );
    breaks(
        "line -1",
        place(json!({ "path": "/a", "line": -1 })),
        &["TC-09 6"],
    );
    let diff = |path: &str| {
        let diff = json!({ "type": "diff", "path": path, "newText": "a" });
        within(json!({}), [tool(json!({ "content": [diff] }))])
    };
    keeps("diff", diff("/a"), &["TC-08"]);
    breaks("relative diff", diff("a"), &["TC-08 6"]);
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
    keeps(
        "granted",
        within(json!({}), granted),
        &["PE-01", "PE-02", "TC-06"],
    );
    let hasty = [pending(), allow(), chosen("y"), change("completed")];
    breaks("no progress", within(json!({}), hasty), &["TC-06 9 8"]);
    let refused = [pending(), allow(), chosen("n"), change("failed")];
    keeps("refused", within(json!({}), refused), &["PE-02"]);
    let silent = [allow(), chosen("y")];
    breaks("nothing after", within(json!({}), silent), &["TC-06 8 7"]);
    breaks(
        "no options",
        within(json!({}), [permission(json!([]))]),
        &["PE-02 6"],
    );
    let twins = permission(json!([
        option("y", "allow_once"),
        option("y", "reject_once")
    ]));
    breaks("same ids", within(json!({}), [twins]), &["PE-02 6"]);
    let odd = permission(json!([option("y", "yes")]));
    breaks("odd kind", within(json!({}), [odd]), &["PE-02 6"]);
    let call_less = json!({ "sessionId": "s", "options": [option("y", "allow_once")] });
    let call_less = call(1, "session/request_permission", call_less);
    breaks("no call", within(json!({}), [call_less]), &["PE-01 6"]);
    let session_less = json!({ "toolCall": { "toolCallId": "t" },
        "options": [option("y", "allow_once")] });
    let session_less = call(1, "session/request_permission", session_less);
    breaks(
        "no session",
        within(json!({}), [session_less]),
        &["PE-01 6"],
    );
    let announced = [allow(), chosen("n"), change("failed")];
    keeps("announced by it", within(json!({}), announced), &["TC-03"]);
}

#[test]
fn plans_and_commands() {
    let entry =
        |content: &str| json!({ "content": content, "priority": "low", "status": "pending" });
    let plan = |entries: Value| update("plan", json!({ "entries": entries }));
    let whole = plan(json!([entry("a"), entry("b")]));
    keeps(
        "whole",
        within(json!({}), [whole.clone(), whole.clone()]),
        &["PL-01", "PL-02"],
    );
    let part = plan(json!([entry("b")]));
    breaks(
        "part",
        within(json!({}), [whole.clone(), part]),
        &["PL-02? 7 6"],
    );
    let new = plan(json!([entry("c")]));
    keeps("anew", within(json!({}), [whole, new]), &["PL-02"]);
    let odd = json!([{ "content": "a", "priority": "urgent", "status": "pending" }]);
    breaks("priority", within(json!({}), [plan(odd)]), &["PL-01 6"]);
    let none = json!([{ "content": "a", "priority": "low" }]);
    breaks("no status", within(json!({}), [plan(none)]), &["PL-01 6"]);
    let commands = |list: Value| {
        let list = json!({ "availableCommands": list });
        within(json!({}), [update("available_commands_update", list)])
    };
    let command =
        |name: &str| json!({ "name": name, "description": "d", "input": { "hint": "h" } });
    keeps(
        "commands",
        commands(json!([command("a"), command("b")])),
        &["SL-01", "SL-02"],
    );
    breaks(
        "no description",
        commands(json!([{ "name": "a" }])),
        &["SL-01 6"],
    );
    let hint = json!([{ "name": "a", "description": "d", "input": { "hint": 7 } }]);
    breaks("hint", commands(hint), &["SL-01 6"]);
    breaks("slash", commands(json!([command("/a")])), &["SL-02 6"]);
    breaks(
        "same names",
        commands(json!([command("a"), command("a")])),
        &["SL-02 6"],
    );
}

#[test]
fn extensions() {
    let one = |line: String| within(json!({}), [line]);
    keeps("own", one(notify("_own/thing", json!({}))), &["EX-02"]);
    breaks("custom", one(notify("own/thing", json!({}))), &["EX-02 6"]);
    breaks(
        "wrong side",
        one(notify("session/cancel", json!({}))),
        &["EX-02 6"],
    );
    breaks(
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
    keeps("trace", one(traced(parent)), &["EX-08"]);
    breaks("odd trace", one(traced("trace-1")), &["EX-08 6"]);
}
