//! Settings, files, terminals, elicitations.

use serde_json::{Value, json};

use super::lines::*;
use super::{passes, violates};

fn within<const N: usize>(capabilities: Value, lines: [String; N]) -> Vec<String> {
    let mut all = turn(capabilities);
    all.extend(lines);
    all.push(end(3));
    all
}

#[test]
fn modes() {
    let with = |modes: Value| session_with(json!({}), json!({ "sessionId": "s", "modes": modes }));
    let mode = |id: &str| json!({ "id": id, "name": "A" });
    let sound = || with(json!({ "currentModeId": "a", "availableModes": [mode("a"), mode("b")] }));
    passes("sound", sound(), &["MO-01"]);
    let other = json!({ "currentModeId": "x", "availableModes": [mode("a")] });
    violates("unknown", with(other), &["MO-01 4 3"]);
    let twins = json!({ "currentModeId": "a", "availableModes": [mode("a"), mode("a")] });
    violates("same ids", with(twins), &["MO-01 4 3"]);
    violates(
        "no current",
        with(json!({ "availableModes": [mode("a")] })),
        &["MO-01 4 3"],
    );
    let to = |update_: Value| then(sound(), [update("current_mode_update", update_)]);
    passes("known", to(json!({ "currentModeId": "b" })), &["MO-04"]);
    violates("wrong key", to(json!({ "modeId": "b" })), &["MO-04 5"]);
    violates(
        "no such mode",
        to(json!({ "currentModeId": "x" })),
        &["MO-04 5 4"],
    );
    let change = update("current_mode_update", json!({ "currentModeId": "b" }));
    violates(
        "no modes at all",
        then(session(json!({})), [change]),
        &["MO-04? 5"],
    );
}

fn select(id: &str, current: &str) -> Value {
    json!({ "id": id, "name": "A", "type": "select", "currentValue": current, "category": "model",
        "options": [{ "value": "x", "name": "X" }, { "value": "y", "name": "Y" }] })
}

#[test]
fn options() {
    let with = |capabilities: Value, options: Value| {
        session_with(
            capabilities,
            json!({ "sessionId": "s", "configOptions": options }),
        )
    };
    let sound = || with(json!({}), json!([select("a", "x"), select("b", "y")]));
    passes("sound", sound(), &["CO-01", "CO-02", "CO-03", "CO-08"]);
    let changed = |change: fn(&mut Value)| {
        let mut option = select("a", "x");
        change(&mut option);
        with(json!({}), json!([option]))
    };
    let without = changed(|option| {
        option.as_object_mut().map(|o| o.remove("currentValue"));
    });
    violates("no value", without, &["CO-01 4 3"]);
    violates(
        "unknown value",
        changed(|o| o["currentValue"] = "z".into()),
        &["CO-02 4 3"],
    );
    violates(
        "options are text",
        changed(|o| o["options"] = "x".into()),
        &["CO-02 4 3"],
    );
    violates(
        "odd type",
        changed(|o| o["type"] = "slider".into()),
        &["CO-02 4 3"],
    );
    violates(
        "odd category",
        changed(|o| o["category"] = "color".into()),
        &["CO-08 4 3"],
    );
    passes(
        "own category",
        changed(|o| o["category"] = "_color".into()),
        &["CO-08"],
    );
    let twins = json!([select("a", "x"), select("a", "y")]);
    violates("same ids", with(json!({}), twins), &["CO-02 4 3"]);
    let mut grouped = select("a", "y");
    grouped["options"] = json!([{ "group": "g", "name": "G", "options": grouped["options"] }]);
    passes("groups", with(json!({}), json!([grouped])), &["CO-02"]);
    let boolean = json!([{ "id": "a", "name": "A", "type": "boolean", "currentValue": true }]);
    violates("boolean", with(json!({}), boolean.clone()), &["CO-03 4 1"]);
    passes("boolean taken", with(able(), boolean), &["CO-01"]);
    let now = |options: Value| {
        then(
            sound(),
            [update(
                "config_option_update",
                json!({ "configOptions": options }),
            )],
        )
    };
    passes(
        "full",
        now(json!([select("a", "y"), select("b", "y")])),
        &["CO-06"],
    );
    violates(
        "only what changed",
        now(json!([select("a", "y")])),
        &["CO-06 5 4"],
    );
    violates(
        "one is gone",
        now(json!([select("a", "x")])),
        &["CO-06? 5 4"],
    );
    let none = update("config_option_update", json!({}));
    violates("no list", then(sound(), [none]), &["CO-06 5"]);
    let set = |wanted: &str, stored: &str| {
        let params = json!({ "sessionId": "s", "configId": "a", "value": wanted });
        let options = json!([select("a", stored), select("b", "y")]);
        let lines = [
            ask(9, "session/set_config_option", params),
            answer(9, json!({ "configOptions": options })),
        ];
        then(sound(), lines)
    };
    passes("set", set("y", "y"), &["CO-02"]);
    passes(
        "stores what the client sent",
        set("nonsense", "nonsense"),
        &["CO-02"],
    );
    violates(
        "stores something else",
        set("nonsense", "z"),
        &["CO-02 6 5"],
    );
}

#[test]
fn files() {
    let read = |extra: Value| {
        let mut params = json!({ "sessionId": "s", "path": "/a" });
        if let (Value::Object(params), Value::Object(extra)) = (&mut params, extra) {
            params.extend(extra);
        }
        call(1, "fs/read_text_file", params)
    };
    let write = || {
        call(
            1,
            "fs/write_text_file",
            json!({ "sessionId": "s", "path": "/a", "content": "" }),
        )
    };
    passes(
        "read",
        within(able(), [read(json!({ "line": 1, "limit": 2 }))]),
        &["FS-03", "FS-04"],
    );
    violates(
        "relative",
        within(able(), [read(json!({ "path": "a" }))]),
        &["FS-03 6"],
    );
    violates(
        "no path",
        within(able(), [read(json!({ "path": null }))]),
        &["FS-03 6"],
    );
    violates(
        "line 0",
        within(able(), [read(json!({ "line": 0 }))]),
        &["FS-04 6"],
    );
    violates(
        "limit",
        within(able(), [read(json!({ "limit": "all" }))]),
        &["FS-04 6"],
    );
    let terminal = json!({ "terminal": true });
    violates(
        "no reading",
        within(terminal.clone(), [read(json!({}))]),
        &["FS-01 6 1"],
    );
    violates("no writing", within(terminal, [write()]), &["FS-02 6 1"]);
    let reading = json!({ "fs": { "readTextFile": true } });
    violates("reading only", within(reading, [write()]), &["FS-02 6 1"]);
    let expected = ["FS-01 6 1", "IN-11 6 1"];
    violates(
        "nothing announced",
        within(json!({}), [read(json!({}))]),
        &expected,
    );
    let own = |kind: &str| {
        let call = json!({ "toolCallId": kind, "title": "T", "kind": kind, "status": "completed" });
        update("tool_call", call)
    };
    let alone = within(json!({}), [own("read"), own("edit"), own("execute")]);
    let notes = super::run_monitors(&alone);
    passes("without help", alone, &["IN-11"]);
    for id in ["FS-01", "FS-02", "TE-01"] {
        assert!(
            !notes.found.contains_key(id),
            "tools of its own prove nothing: {id}"
        );
    }
}

#[test]
fn terminals() {
    let create = |cwd: &str| {
        call(
            1,
            "terminal/create",
            json!({ "sessionId": "s", "command": "ls", "cwd": cwd }),
        )
    };
    let created = || reply(1, json!({ "terminalId": "t" }));
    let about =
        |id: u64, method: &str| call(id, method, json!({ "sessionId": "s", "terminalId": "t" }));
    let release = || about(2, "terminal/release");
    let kill = || about(3, "terminal/kill");
    let output = || about(4, "terminal/output");
    let whole = [create("/w"), created(), output(), release()];
    passes("whole", within(able(), whole), &["TE-02", "TE-03", "TE-05"]);
    let killed = [create("/w"), created(), kill(), release()];
    passes("killed", within(able(), killed), &["TE-04"]);
    violates(
        "not released",
        within(able(), [create("/w"), created()]),
        &["TE-02 6"],
    );
    let lost = [create("/w"), created(), kill()];
    violates("killed, not released", within(able(), lost), &["TE-04 6 8"]);
    let late = [create("/w"), created(), release(), output()];
    violates("used after release", within(able(), late), &["TE-03 9 8"]);
    violates("never created", within(able(), [output()]), &["TE-03 6"]);
    let relative = [create("."), created(), release()];
    violates("relative", within(able(), relative), &["TE-05 6"]);
    let reading = json!({ "fs": { "readTextFile": true } });
    let unasked = within(reading, [create("/w"), created(), release()]);
    let notes = super::run_monitors(&unasked);
    assert_eq!(super::violations(&notes), ["TE-01 6 1", "TE-01 8 1"]);
    let show = || {
        let content = json!([{ "type": "terminal", "terminalId": "t" }]);
        let call = json!({ "toolCallId": "c", "title": "C", "status": "completed",
            "content": content });
        update("tool_call", call)
    };
    let shown = [create("/w"), created(), show(), release()];
    passes("shown", within(able(), shown), &["TC-10"]);
    violates("unknown", within(able(), [show()]), &["TC-10 6"]);
    let late = [create("/w"), created(), release(), show()];
    violates("shown too late", within(able(), late), &["TC-10 9 8"]);
}

#[test]
fn questions() {
    let form = |extra: Value| {
        let mut params = json!({ "sessionId": "s", "mode": "form", "message": "m",
            "requestedSchema": { "type": "object", "properties": { "a": { "type": "string" } } } });
        if let (Value::Object(params), Value::Object(extra)) = (&mut params, extra) {
            params.extend(extra);
            params.retain(|_, value| !value.is_null());
        }
        call(1, "elicitation/create", params)
    };
    let forms = || json!({ "elicitation": { "form": {} } });
    passes(
        "form",
        within(forms(), [form(json!({}))]),
        &["EL-01", "EL-02", "EL-03"],
    );
    let none = json!({ "elicitation": {}, "terminal": true });
    violates("no modes", within(none, [form(json!({}))]), &["EL-01 6 1"]);
    let urls = json!({ "elicitation": { "url": {} } });
    violates(
        "other mode",
        within(urls, [form(json!({}))]),
        &["EL-01 6 1"],
    );
    violates(
        "no mode",
        within(able(), [form(json!({ "mode": null }))]),
        &["EL-02 6"],
    );
    violates(
        "odd mode",
        within(able(), [form(json!({ "mode": "phone" }))]),
        &["EL-02 6"],
    );
    violates(
        "no scope",
        within(able(), [form(json!({ "sessionId": null }))]),
        &["EL-02 6"],
    );
    violates(
        "both",
        within(able(), [form(json!({ "requestId": 3 }))]),
        &["EL-02 6"],
    );
    let request = form(json!({ "sessionId": null, "requestId": 3 }));
    passes("about a request", within(able(), [request]), &["EL-02"]);
    let nested = json!({ "type": "object", "properties": { "a": { "type": "object" } } });
    violates(
        "nested",
        within(able(), [form(json!({ "requestedSchema": nested }))]),
        &["EL-03 6"],
    );
    let url = |id: &str, url: &str| {
        let params = json!({ "sessionId": "s", "mode": "url", "message": "m",
            "elicitationId": id, "url": url });
        call(1, "elicitation/create", params)
    };
    let complete = |id: &str| notify("elicitation/complete", json!({ "elicitationId": id }));
    let page = "https://example.org/login?state=1";
    let whole = [
        url("e", page),
        reply(1, json!({ "action": "accept" })),
        complete("e"),
    ];
    passes("url", within(able(), whole), &["EL-04", "EL-06"]);
    violates("never begun", within(able(), [complete("e")]), &["EL-04 6"]);
    let twice = [
        url("e", page),
        reply(1, json!({ "action": "accept" })),
        url("e", page),
    ];
    violates("used twice", within(able(), twice), &["EL-04 8 6"]);
    for odd in [
        "http://example.org/",
        "https://me:secret@example.org/",
        "https://example.org/?access_token=abc",
        "example.org",
    ] {
        violates(odd, within(able(), [url("e", odd)]), &["EL-06? 6"]);
    }
    let local = within(able(), [url("e", "http://127.0.0.1:8080/cb")]);
    passes("loopback", local, &["EL-06"]);
}
