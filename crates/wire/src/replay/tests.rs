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
fn sent_lines(replay: &mut AgentReplay) -> (Vec<String>, ReplayAction) {
    let mut sent = Vec::new();
    loop {
        match replay.next_action() {
            ReplayAction::Stdout { bytes, .. } => sent.push(String::from_utf8(bytes).unwrap()),
            action => return (sent, action),
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
    let mut replay = AgentReplay::new(&recording, recording.numbers());
    assert_eq!(sent_lines(&mut replay), (vec![], ReplayAction::Wait));
    let reaction =
        replay.on_line(br#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{}}"#);
    assert_eq!(reaction, Reaction::default());
    let (lines, _) = sent_lines(&mut replay);
    assert_eq!(
        lines,
        ["{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"protocolVersion\":1}}\n"]
    );
    replay.on_line(
        br#"{"jsonrpc":"2.0","id":"b","method":"session/new","params":{"cwd":"/here/now"}}"#,
    );
    sent_lines(&mut replay);
    replay.on_line(
        br#"{"jsonrpc":"2.0","id":"c","method":"session/prompt","params":{"sessionId":"s1"}}"#,
    );
    let (lines, action) = sent_lines(&mut replay);
    assert!(lines[0].contains("\"/here/now/a\""), "{lines:?}");
    assert_eq!(action, ReplayAction::Wait);
    replay.on_line(br#"{"jsonrpc":"2.0","id":0,"result":{"content":"x"}}"#);
    let (lines, action) = sent_lines(&mut replay);
    assert!(lines[0].contains("\"id\":\"c\""), "{lines:?}");
    assert_eq!(action, ReplayAction::Done);
    assert_eq!(
        (replay.ended(), replay.deviations, replay.exit_code()),
        (None, 0, Some(0))
    );
}

#[test]
fn unrecorded_requests_get_an_error_that_names_the_expected_one() {
    let recording = recording(TURN);
    let mut replay = AgentReplay::new(&recording, recording.numbers());
    let reaction = replay.on_line(br#"{"jsonrpc":"2.0","id":7,"method":"session/list"}"#);
    let reply = reaction.reply.unwrap();
    assert_eq!(reply["id"], 7);
    assert_eq!(reply["error"]["code"], -32601);
    let warning = reaction.warning.unwrap();
    assert!(warning.contains("session/list"), "{warning}");
    assert!(warning.contains("initialize (line 3)"), "{warning}");
    // The request is recorded, but only after others that are missing.
    let reaction = replay.on_line(br#"{"jsonrpc":"2.0","id":8,"method":"session/prompt"}"#);
    assert_eq!(reaction.reply.unwrap()["error"]["code"], -32600);
    let reaction = replay.on_line(b"{");
    assert_eq!(reaction.reply.unwrap()["error"]["code"], -32700);
    // The position in the recording has not changed.
    let reaction = replay.on_line(br#"{"jsonrpc":"2.0","id":9,"method":"initialize"}"#);
    assert_eq!(reaction, Reaction::default());
    assert_eq!(sent_lines(&mut replay).0.len(), 1);
    assert!(replay.ended().unwrap().contains("session/new (line 5)"));
    assert_eq!(replay.deviations, 4);
}

#[test]
fn an_error_instead_of_a_result_is_reported() {
    let recording = recording(TURN);
    let mut replay = AgentReplay::new(&recording, 7..=10);
    replay.on_line(br#"{"jsonrpc":"2.0","id":2,"method":"session/prompt"}"#);
    sent_lines(&mut replay);
    let error = br#"{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":""}}"#;
    let warning = replay.on_line(error).warning.unwrap();
    assert!(warning.contains("line 9"), "{warning}");
    assert_eq!(sent_lines(&mut replay).0.len(), 1);
}

#[test]
fn a_missing_notification_is_reported_and_skipped() {
    let recording = recording(&[
        r#">{"jsonrpc":"2.0","method":"note"}"#,
        r#"<{"jsonrpc":"2.0","method":"heard"}"#,
        r#">{"jsonrpc":"2.0","id":1,"method":"ask"}"#,
        r#"<{"jsonrpc":"2.0","id":1,"result":{}}"#,
    ]);
    let mut replay = AgentReplay::new(&recording, recording.numbers());
    let reaction = replay.on_line(br#"{"jsonrpc":"2.0","id":1,"method":"ask"}"#);
    assert!(reaction.warning.unwrap().contains("the notification note"));
    assert_eq!(sent_lines(&mut replay).0.len(), 2);
}

#[test]
fn recorded_stderr_and_crashes_are_replayed() {
    let recording = recording(&[
        r#">{"jsonrpc":"2.0","id":1,"method":"ask"}"#,
        "!panic",
        r##"#{"exit":{"code":3,"signal":null}}"##,
    ]);
    let mut replay = AgentReplay::new(&recording, recording.numbers());
    replay.on_line(br#"{"jsonrpc":"2.0","id":1,"method":"ask"}"#);
    let pause = Duration::from_millis(10);
    let bytes = b"panic\n".to_vec();
    assert_eq!(replay.next_action(), ReplayAction::Stderr { bytes, pause });
    assert_eq!(replay.next_action(), ReplayAction::Exit(3));
}
