//! Framing, envelopes, ids.

use super::{check, passes_raw, run_monitors};

const ASK: &[u8] = br#"> {"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}"#;
const ANSWER: &[u8] = br#"< {"jsonrpc":"2.0","id":1,"result":{"sessions":[]}}"#;
const ERROR: &[u8] = br#"< {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}"#;
const NAMELESS: &[u8] = br#"< {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#;

#[test]
fn a_valid_exchange_has_no_violations() {
    let requirements = [
        "TR-01", "TR-02", "TR-03", "TR-05", "TR-06", "TR-08", "TR-09",
    ];
    passes_raw("answer", &[ASK, ANSWER], &requirements);
    passes_raw("error", &[ASK, ERROR], &["TR-07"]);
    let end = run_monitors::<&[u8]>(&[]);
    assert!(end.found.is_empty(), "silence proves nothing");
}

#[test]
fn invalid_framing_is_reported() {
    let bad: &[u8] = b"< {\"jsonrpc\":\"2.0\",\"method\":\"_x\",\"params\":{\"a\":\"caf\xe9\"}}";
    check("latin 1", &[bad], &["TR-01 1"]);
    let spread: [&[u8]; 6] = [
        ASK,
        b"< {",
        br#"<   "jsonrpc": "2.0", "id": 1,"#,
        br#"<   "result": {"sessions": []"#,
        b"<   }",
        b"< }",
    ];
    check("over several lines", &spread, &["TR-02 2 6"]);
    let text: [&[u8]; 3] = [
        ASK,
        br#"< {"jsonrpc":"2.0","id":1,"result":{"sessions":[],"_meta":{"a":"one"#,
        br#"< two"}}}"#,
    ];
    check("a line feed in a text", &text, &["TR-02 2 3", "TR-09 1"]);
    let broken: &[u8] = br#"< {"jsonrpc":"2.0","id":1,"#;
    check("never ended", &[ASK, broken, ANSWER], &["TR-02 2"]);
    check("never ended at all", &[ASK, ANSWER, broken], &["TR-02 3"]);
    let two = [ANSWER, br#"{"jsonrpc":"2.0","method":"_x"}"#].concat();
    check("two on a line", &[ASK, &two], &["TR-02 2"]);
    check("banner", &[b"< Welcome!", ASK, ANSWER], &["TR-03 1"]);
    check("log", &[ASK, b"< [info] ready", ANSWER], &["TR-03 2"]);
    let tail = [ANSWER, b" done"].concat();
    check("words behind", &[ASK, &tail], &["TR-03 2"]);
    check("bare JSON", &[br#"< {"level":"info"}"#], &["TR-03 1"]);
    check("a list", &[b"< [1]"], &["TR-03 1"]);
    check("a number", &[b"< 17"], &["TR-03 1"]);
    check(
        "method is a number",
        &[br#"< {"jsonrpc":"2.0","method":7}"#],
        &["TR-03 1"],
    );
    let twice = br#"< {"jsonrpc":"2.0","id":1,"result":{"sessions":[],"sessions":[]}}"#;
    check("a name twice", &[ASK, twice], &["TR-03? 2"]);
    let half = br#"< {"jsonrpc":"2.0","id":1,"result":{"sessions":[],"_meta":{"a":"\ud800"}}}"#;
    check("half a surrogate pair", &[ASK, half], &["TR-03? 2"]);
    let deep = |levels| {
        let meta = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        let text = r#"< {"jsonrpc":"2.0","id":1,"result":{"sessions":[],"_meta":{"a":"#;
        format!("{text}{meta}}}}}}}").into_bytes()
    };
    check("too deep", &[ASK, &deep(200)], &["TR-03? 2"]);
    passes_raw("deep", &[ASK, &deep(100)], &["TR-03"]);
    check("an empty line", &[b"< "], &["TR-03? 1"]);
    check("stderr", &[b"! caf\xe9"], &["TR-04 1"]);
    passes_raw("stderr", &["! café".as_bytes()], &["TR-04"]);
}

#[test]
fn invalid_envelopes_are_reported() {
    let cases: [(&str, &[u8], &[&str]); 8] = [
        (
            "no version",
            br#"< {"id":1,"result":{"sessions":[]}}"#,
            &["TR-05 2 1"],
        ),
        (
            "old version",
            br#"< {"jsonrpc":"1.0","id":1,"result":{"sessions":[]}}"#,
            &["TR-05 2 1"],
        ),
        (
            "both",
            br#"< {"jsonrpc":"2.0","id":1,"result":{"sessions":[]},"error":null}"#,
            &["TR-06 2 1"],
        ),
        ("neither", br#"< {"jsonrpc":"2.0","id":1}"#, &["TR-06 2 1"]),
        (
            "error text",
            br#"< {"jsonrpc":"2.0","id":1,"error":"no"}"#,
            &["TR-07 2 1"],
        ),
        (
            "code text",
            br#"< {"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"no"}}"#,
            &["TR-07 2 1"],
        ),
        (
            "no message",
            br#"< {"jsonrpc":"2.0","id":1,"error":{"code":1}}"#,
            &["TR-07 2 1"],
        ),
        (
            "extra member",
            br#"< {"jsonrpc":"2.0","id":1,"result":{"sessions":[]},"took":3}"#,
            &["EX-01 2 1"],
        ),
    ];
    for (name, answer, expected) in cases {
        check(name, &[ASK, answer], expected);
    }
}

#[test]
fn wrong_ids_are_reported() {
    let text: &[u8] = br#"< {"jsonrpc":"2.0","id":"1","result":{"sessions":[]}}"#;
    check("number as text", &[ASK, text], &["TR-08 2 1"]);
    let lost: &[u8] = br#"< {"jsonrpc":"2.0","id":null,"result":{"sessions":[]}}"#;
    check("lost", &[ASK, lost], &["TR-08 2 1"]);
    let odd: &[u8] = br#"< {"jsonrpc":"2.0","id":7,"result":{}}"#;
    check("no such request", &[ASK, ANSWER, odd], &["TR-08 3"]);
    check("twice", &[ASK, ANSWER, ANSWER], &["TR-09 3 1 2"]);
    check("never", &[ASK], &["TR-09 1"]);
    let again: [&[u8]; 4] = [ASK, ASK, ANSWER, ANSWER];
    passes_raw("an id of ours used twice", &again, &["TR-09"]);
}

#[test]
fn errors_without_an_id_answer_only_invalid_messages() {
    let notification: &[u8] = br#"> {"jsonrpc":"2.0","method":"_x"}"#;
    check("answered", &[notification, NAMELESS], &["TR-10 2 1"]);
    passes_raw("silent", &[notification], &["TR-10"]);
    let cancel: &[u8] =
        br#"> {"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":9}}"#;
    check("cancel answered", &[cancel, NAMELESS], &["CR-02 2 1"]);
    passes_raw("cancel silent", &[cancel], &["CR-02"]);
    passes_raw("bad JSON", &[b"> {", NAMELESS], &["TR-07"]);
    let bare: &[u8] = br#"> {"id":1,"method":"session/list"}"#;
    passes_raw("bad envelope", &[bare, NAMELESS], &["TR-07"]);
    let named: [&[u8]; 4] = [bare, ERROR, notification, NAMELESS];
    check("answered by its id", &named, &["TR-10 4 3"]);
    check("out of the blue", &[NAMELESS], &["TR-08 1"]);
}

#[test]
fn results_and_messages_without_an_id_may_answer_notifications() {
    let notification: &[u8] = br#"> {"jsonrpc":"2.0","method":"_x"}"#;
    let null: &[u8] = br#"< {"jsonrpc":"2.0","id":null,"result":null}"#;
    let bare: &[u8] = br#"< {"jsonrpc":"2.0","error":{"code":-32601,"message":"no"}}"#;
    check("a result", &[notification, null], &["TR-10 2 1"]);
    check("no id", &[notification, bare], &["TR-10 2 1"]);
    // The open request is answered under its own id later.
    let between = [notification, ASK, null, ANSWER];
    check("while a request is open", &between, &["TR-10 3 1"]);
    let bare_between = [notification, ASK, bare, ANSWER];
    check("no id, and an open request", &bare_between, &["TR-10 3 1"]);
    // It never is, and the response could be its own.
    let listed: &[u8] = br#"< {"jsonrpc":"2.0","id":null,"result":{"sessions":[]}}"#;
    check("a lost id", &[notification, ASK, listed], &["TR-08 3 2"]);
    let bare_listed: &[u8] = br#"< {"jsonrpc":"2.0","result":{"sessions":[]}}"#;
    check(
        "no id at all",
        &[notification, ASK, bare_listed],
        &["TR-06 3 2"],
    );
    check("no notification", &[ASK, bare_listed], &["TR-06 2 1"]);
    check(
        "no such result",
        &[notification, ASK, null],
        &["TR-09 2", "TR-10 3 1"],
    );
    // An agent that answers every notification has one error.
    let cancel: &[u8] =
        br#"> {"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":9}}"#;
    let all = [notification, null, cancel, null];
    check("all", &all, &["TR-10 2 1", "TR-10 4 3"]);
}

#[test]
fn cancelled_requests_are_answered_once() {
    let cancel: &[u8] =
        br#"> {"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
    passes_raw("once", &[ASK, cancel, ERROR], &["CR-01"]);
    check("twice", &[ASK, cancel, ERROR, ERROR], &["CR-01 4 1 3"]);
    check("never", &[ASK, cancel], &["CR-01 1 2"]);
}

#[test]
fn custom_requests_are_answered() {
    let custom: &[u8] = br#"> {"jsonrpc":"2.0","id":1,"method":"_x"}"#;
    check("never", &[custom], &["EX-03 1"]);
    passes_raw("refused", &[custom, ERROR], &["EX-03", "TR-09"]);
}

#[test]
fn open_requests_of_the_agent_have_different_ids() {
    let one: &[u8] = br#"< {"jsonrpc":"2.0","id":1,"method":"_ask"}"#;
    let two: &[u8] = br#"< {"jsonrpc":"2.0","id":2,"method":"_ask"}"#;
    let reply: &[u8] = br#"> {"jsonrpc":"2.0","id":1,"result":{}}"#;
    check("same id", &[one, one], &["TR-17 2 1"]);
    passes_raw("other id", &[one, two], &["TR-17"]);
    let notes = run_monitors(&[one, reply, one, reply]);
    assert!(
        !notes.found.contains_key("TR-17"),
        "requests that are not open together prove nothing"
    );
}
