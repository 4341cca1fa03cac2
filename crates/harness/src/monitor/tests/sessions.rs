//! Which sessions an agent may name.

use super::{check, passes_raw};

const OPEN: &[u8] =
    br#"> {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#;
const OPENED: &[u8] = br#"< {"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#;

fn word(session: &str) -> Vec<u8> {
    format!(
        r#"< {{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"x"}}}}}}}}"#
    )
    .into_bytes()
}

fn prompt(session: &str) -> Vec<u8> {
    format!(
        r#"> {{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"x"}}]}}}}"#
    )
    .into_bytes()
}

const END: &[u8] = br#"< {"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#;

#[test]
fn updates_name_a_session_that_is_open() {
    passes_raw(
        "own",
        &[OPEN, OPENED, &prompt("s"), &word("s"), END],
        &["SE-14"],
    );
    check(
        "other",
        &[OPEN, OPENED, &prompt("s"), &word("t"), END],
        &["SE-14 4"],
    );
}

#[test]
fn updates_may_name_an_unknown_session_that_the_client_named() {
    let conversation = [OPEN, OPENED, &prompt("unknown"), &word("unknown"), END];
    check("taken", &conversation, &[]);
    let conversation = [OPEN, OPENED, &prompt("unknown"), &word("other"), END];
    check("another", &conversation, &["SE-14 4"]);
}
