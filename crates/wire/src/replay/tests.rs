use super::*;

/// Builds a recording from lines that start with `>` (to the agent), `<` (from it), `!` (stderr)
/// or `#` (process).
pub fn recording(lines: &[&str]) -> Transcript {
    let mut transcript = Transcript::new();
    for (i, line) in lines.iter().enumerate() {
        let (mark, text) = line.split_at(1);
        let direction = match mark {
            ">" => Direction::ToAgent,
            "<" => Direction::FromAgent,
            "!" => Direction::Stderr,
            _ => Direction::Process,
        };
        let at = Duration::from_millis(10 * i as u64);
        transcript.push(direction, at, text.as_bytes(), true, None);
    }
    transcript
}

/// Everything that the agent sends until the client must send something.
fn said(player: &mut Player) -> (Vec<String>, Act) {
    let mut said = Vec::new();
    loop {
        match player.act() {
            Act::Say { bytes, .. } => said.push(String::from_utf8(bytes).unwrap()),
            act => return (said, act),
        }
    }
}

const TURN: &[&str] = &[
    r##"#{"started":true}"##,
    r#">{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#,
    r#"<{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#,
    r#">{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/old"}}"#,
    r#"<{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1"}}"#,
    r#">{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s1"}}"#,
    r#"<{"jsonrpc":"2.0","id":0,"method":"fs/read_text_file","params":{"path":"/old/a"}}"#,
    r#">{"jsonrpc":"2.0","id":0,"result":{"content":""}}"#,
    r#"<{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#,
    r##"#{"input":"closed"}"##,
    r##"#{"exit":{"code":0,"signal":null}}"##,
];

#[test]
fn replies_use_the_ids_and_directories_of_the_client() {
    let recording = recording(TURN);
    let mut player = Player::new(&recording, recording.numbers());
    assert_eq!(said(&mut player), (vec![], Act::Listen));
    let heard = player.hear(br#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{}}"#);
    assert_eq!(heard, Heard::default());
    let (lines, _) = said(&mut player);
    assert_eq!(
        lines,
        ["{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"protocolVersion\":1}}\n"]
    );
    player
        .hear(br#"{"jsonrpc":"2.0","id":"b","method":"session/new","params":{"cwd":"/here/now"}}"#);
    said(&mut player);
    player.hear(
        br#"{"jsonrpc":"2.0","id":"c","method":"session/prompt","params":{"sessionId":"s1"}}"#,
    );
    let (lines, act) = said(&mut player);
    assert!(lines[0].contains("\"/here/now/a\""), "{lines:?}");
    assert_eq!(act, Act::Listen);
    player.hear(br#"{"jsonrpc":"2.0","id":0,"result":{"content":"x"}}"#);
    let (lines, act) = said(&mut player);
    assert!(lines[0].contains("\"id\":\"c\""), "{lines:?}");
    assert_eq!(act, Act::Over);
    assert_eq!(
        (player.ended(), player.deviations, player.exit_code()),
        (None, 0, Some(0))
    );
}

#[test]
fn unrecorded_requests_get_an_error_that_names_the_expected_one() {
    let recording = recording(TURN);
    let mut player = Player::new(&recording, recording.numbers());
    let heard = player.hear(br#"{"jsonrpc":"2.0","id":7,"method":"session/list"}"#);
    let reply = heard.reply.unwrap();
    assert_eq!(reply["id"], 7);
    assert_eq!(reply["error"]["code"], -32601);
    let complaint = heard.complaint.unwrap();
    assert!(complaint.contains("session/list"), "{complaint}");
    assert!(complaint.contains("initialize (line 3)"), "{complaint}");
    // The request is recorded, but only after others that are missing.
    let heard = player.hear(br#"{"jsonrpc":"2.0","id":8,"method":"session/prompt"}"#);
    assert_eq!(heard.reply.unwrap()["error"]["code"], -32600);
    let heard = player.hear(b"{");
    assert_eq!(heard.reply.unwrap()["error"]["code"], -32700);
    // The position in the recording has not changed.
    let heard = player.hear(br#"{"jsonrpc":"2.0","id":9,"method":"initialize"}"#);
    assert_eq!(heard, Heard::default());
    assert_eq!(said(&mut player).0.len(), 1);
    assert!(player.ended().unwrap().contains("session/new (line 5)"));
    assert_eq!(player.deviations, 4);
}

#[test]
fn an_error_instead_of_a_result_is_reported() {
    let recording = recording(TURN);
    let mut player = Player::new(&recording, 7..=10);
    player.hear(br#"{"jsonrpc":"2.0","id":2,"method":"session/prompt"}"#);
    said(&mut player);
    let error = br#"{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":""}}"#;
    let complaint = player.hear(error).complaint.unwrap();
    assert!(complaint.contains("line 9"), "{complaint}");
    assert_eq!(said(&mut player).0.len(), 1);
}

#[test]
fn a_missing_notification_is_reported_and_skipped() {
    let recording = recording(&[
        r#">{"jsonrpc":"2.0","method":"note"}"#,
        r#"<{"jsonrpc":"2.0","method":"heard"}"#,
        r#">{"jsonrpc":"2.0","id":1,"method":"ask"}"#,
        r#"<{"jsonrpc":"2.0","id":1,"result":{}}"#,
    ]);
    let mut player = Player::new(&recording, recording.numbers());
    let heard = player.hear(br#"{"jsonrpc":"2.0","id":1,"method":"ask"}"#);
    assert!(heard.complaint.unwrap().contains("the notification note"));
    assert_eq!(said(&mut player).0.len(), 2);
}

#[test]
fn recorded_stderr_and_crashes_are_replayed() {
    let recording = recording(&[
        r#">{"jsonrpc":"2.0","id":1,"method":"ask"}"#,
        "!panic",
        r##"#{"exit":{"code":3,"signal":null}}"##,
    ]);
    let mut player = Player::new(&recording, recording.numbers());
    player.hear(br#"{"jsonrpc":"2.0","id":1,"method":"ask"}"#);
    let pause = Duration::from_millis(10);
    let bytes = b"panic\n".to_vec();
    assert_eq!(player.act(), Act::Complain { bytes, pause });
    assert_eq!(player.act(), Act::Exit(3));
}
