//! Agents that fail in every way: a stable error code, a message with the next step, no hang, and
//! no process left.

use super::place::Place;

fn fails(scenario: &str, more: &[&str]) -> (i32, String, String) {
    let place = Place::new();
    let option = format!("scenario={scenario}");
    let args = [&["--option", &option, "--prompt", "hi"], more].concat();
    let ran = place.run("mock-acp", &args);
    let (code, message) = ran.error();
    assert_eq!(
        ran.of("turn-end").len(),
        0,
        "{scenario}: an error or a turn end, never both"
    );
    assert_eq!(place.survivors(), Vec::<String>::new(), "{scenario}");
    let summary = &ran.of("aoi:summary")[0];
    assert_eq!(summary["ok"], false);
    (ran.code, code, message)
}

fn works(scenario: &str) -> super::place::Ran {
    let place = Place::new();
    let option = format!("scenario={scenario}");
    let ran = place.run("mock-acp", &["--option", &option, "--prompt", "hi"]);
    assert_eq!(ran.code, 0, "{scenario}: {}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.of("turn-end").len(), 1, "{scenario}");
    assert_eq!(place.survivors(), Vec::<String>::new(), "{scenario}");
    ran
}

#[test]
fn an_agent_that_dies_during_a_turn() {
    agentproto_suites::proves!("A45-EVT-08");
    for (scenario, how) in [
        ("crash", "status 3"),
        ("killed", "signal 9"),
        ("half-line", "status 0"),
    ] {
        let (exit, code, message) = fails(scenario, &[]);
        assert_eq!(
            (exit, code.as_str()),
            (69, "AGENT_EXITED"),
            "{scenario}: {message}"
        );
        assert!(message.contains(how), "{scenario}: {message}");
    }
}

#[test]
fn the_stderr_of_an_agent_that_exits_at_once_is_quoted() {
    let (exit, code, message) = fails("exit-at-once", &[]);
    assert_eq!((exit, code.as_str()), (69, "AGENT_EXITED"));
    assert!(
        message.contains("status 7") && message.contains("I cannot find my configuration"),
        "{message}"
    );
}

#[test]
fn an_agent_that_never_responds() {
    agentproto_suites::proves!("A44-SEC-07", "A45-LIFE-05");
    let (exit, code, message) = fails("never-starts", &["--handshake-timeout", "1"]);
    assert_eq!(
        (exit, code.as_str()),
        (75, "HANDSHAKE_TIMEOUT"),
        "{message}"
    );
    let (exit, code, message) = fails("hang", &["--turn-timeout", "1"]);
    assert_eq!((exit, code.as_str()), (75, "TURN_TIMEOUT"), "{message}");
    let (exit, code, _) = fails("half-line-hang", &["--turn-timeout", "1"]);
    assert_eq!((exit, code.as_str()), (75, "TURN_TIMEOUT"));
}

/// An agent that opens a session, announces session lists, and never responds to a list request.
const SILENT_ON_LIST: &str = r#"while IFS= read -r line; do
id=$(printf '%s' "$line" | sed 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/')
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
case $line in
*'"initialize"'*) say '{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"list":{}}},"authMethods":[]}' ;;
*'"session/new"'*) say '{"sessionId":"s"}' ;;
*'"session/list"'*) : > listing ;;
esac; done
"#;

/// A bundle whose agent is a script.
fn scripted(place: &Place, script: &str) -> String {
    std::fs::write(place.path("work/agent.sh"), script).expect("written");
    let dir = place.changed("scripted", "AGENT-CLI.md", |text| {
        text.replace("bin: agentproto", "bin: sh").replace(
            "bin_args: [mock, acp, --state, .mock-agent, \"--\"]",
            "bin_args: [agent.sh]",
        )
    });
    dir.to_str().expect("a path").to_owned()
}

/// Without this check the turn would wait until its time limit, which may be infinite.
#[test]
fn an_agent_that_closes_its_stdin() {
    let place = Place::new();
    let opened = "say '{\"sessionId\":\"s\"}' ;;";
    let script = SILENT_ON_LIST.replace(opened, &format!("exec 0<&-; {opened}"));
    let script = script.replace("esac; done", "esac; done\nexec sleep 300");
    let target = scripted(&place, &script);
    let ran = place.run(&target, &["--sandbox", "off", "--yes", "--prompt", "hi"]);
    let (code, message) = ran.error();
    let told = (ran.code, code.as_str());
    assert_eq!(told, (69, "PROTOCOL_VIOLATION"), "{message}");
    let said = "the agent closed its stdin";
    assert!(message.contains(said), "{message}");
    assert_eq!(place.survivors(), Vec::<String>::new());
}

#[test]
fn an_agent_that_never_lists_its_sessions() {
    agentproto_suites::proves!("A44-SEC-07");
    let place = Place::new();
    let target = scripted(&place, SILENT_ON_LIST);
    let target = target.as_str();
    let flags = ["--list-sessions", "--sandbox", "off", "--yes"];
    let ran = place.run(
        target,
        &[&flags[..], &["--handshake-timeout", "2"]].concat(),
    );
    let (code, message) = ran.error();
    assert_eq!((ran.code, code.as_str()), (75, "HANDSHAKE_TIMEOUT"));
    assert!(message.contains("list its sessions"), "{message}");
    assert_eq!(place.survivors(), Vec::<String>::new());

    let listing = place.path("work/listing");
    std::fs::remove_file(&listing).expect("the agent got the request");
    let args = [&["run", target, "--output", "jsonl"], &flags[..]].concat();
    let mut runner = place
        .command(&args)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    while !listing.exists() {
        assert!(runner.try_wait().expect("a child").is_none(), "it waits");
        std::thread::yield_now();
    }
    // SAFETY: the process is our child and has not been waited for.
    unsafe { libc::kill(runner.id() as i32, libc::SIGTERM) };
    let ran = super::place::Ran::new(runner.wait_with_output().expect("ended"));
    assert_eq!(ran.code, 143, "{}", ran.stdout);
    assert_eq!(ran.of("aoi:summary")[0]["reason"], "interrupted");
    assert_eq!(place.survivors(), Vec::<String>::new());
}

#[test]
fn an_agent_that_responds_with_an_error() {
    let (exit, code, message) = fails("error", &[]);
    assert_eq!((exit, code.as_str()), (1, "TURN_FAILED"));
    assert!(message.contains("-32603"), "{message}");
}

#[test]
fn invalid_output_is_reported_and_the_turn_continues() {
    for scenario in ["banner", "garbage", "invalid-utf8"] {
        let ran = works(scenario);
        let warnings = ran.of("aoi:warning");
        assert_eq!(warnings.len(), 1, "{scenario}");
        assert_eq!(warnings[0]["code"], "PROTOCOL_GARBAGE");
    }
}

#[test]
fn floods_do_not_break_the_turn() {
    let ran = works("flood");
    assert!(ran.text().ends_with("100000 "), "the last event is missing");
    works("stderr-flood");
}

#[test]
fn a_second_response_is_ignored() {
    assert_eq!(works("answer-twice").text(), "Twice.");
}

#[test]
fn an_agent_that_ignores_the_end_is_killed() {
    agentproto_suites::proves!("A44-SEC-08", "A44-LIFEC-03", "A45-LIFE-09");
    works("ignore-eof");
    works("ignore-sigterm");
}

#[test]
fn a_login_offered_by_the_agent_is_used() {
    works("auth");
}

#[test]
fn a_manifest_with_wrong_capabilities() {
    let (exit, code, message) = fails("bare", &[]);
    assert_eq!((exit, code.as_str()), (65, "CAPABILITY_MISMATCH"));
    assert!(message.contains("AGENT-CLI.md:"), "{message}");
    // If `ACP.md` already denies it, the error comes at load time, before anything runs.
    let place = Place::new();
    let dir = place.changed("liar", "ACP.md", |text| {
        text.replace("loadSession: true", "loadSession: false")
    });
    let ran = place.run(dir.to_str().expect("a path"), &["--prompt", "hi"]);
    assert_eq!(
        (ran.code, ran.error().0.as_str()),
        (65, "CAPABILITY_MISMATCH")
    );
    assert!(
        ran.of("aoi:progress").is_empty(),
        "an agent was started: {}",
        ran.stdout
    );
}

#[test]
fn an_unknown_protocol_is_refused_before_anything_runs() {
    agentproto_suites::proves!("A45-PROTO-04");
    let place = Place::new();
    let dir = place.changed("odd", "AGENT-CLI.md", |text| {
        text.replace("protocol: acp", "protocol: smtp")
    });
    let ran = place.run(dir.to_str().expect("a path"), &["--prompt", "hi"]);
    assert_eq!((ran.code, ran.error().0.as_str()), (65, "PROTOCOL_UNKNOWN"));
    assert!(ran.of("aoi:progress").is_empty());
    assert_eq!(place.audit(), "");
}

#[test]
fn a_missing_or_invalid_program() {
    let place = Place::new();
    let bin = |bin: &'static str| {
        move |text: String| {
            text.replace("bin: agentproto", &format!("bin: {bin}"))
                .replace(
                    "  - { method: cargo, package: agentproto }",
                    "  - { method: vendored, path: ./nothing-here }",
                )
        }
    };
    let missing = place.changed("missing", "AGENT-CLI.md", bin("no-such-agent"));
    let ran = place.run(
        missing.to_str().expect("a path"),
        &["--prompt", "hi", "--yes"],
    );
    assert_eq!(
        (ran.code, ran.error().0.as_str()),
        (69, "INSTALL_FAILED"),
        "{}",
        ran.stdout
    );
    let plain = place.changed("plain", "AGENT-CLI.md", bin("./file"));
    std::fs::write(plain.join("file"), "not executable").expect("written");
    let ran = place.run(
        plain.to_str().expect("a path"),
        &["--prompt", "hi", "--yes"],
    );
    assert_eq!(ran.code, 69, "{}", ran.stdout);
    let ran = place.run("nobody", &["--prompt", "hi"]);
    assert_eq!((ran.code, ran.error().0.as_str()), (66, "TARGET_UNKNOWN"));
}

#[test]
fn a_transcript_that_is_not_used_or_not_there() {
    let place = Place::new();
    let file = place.path("turns.jsonl");
    std::fs::write(&file, "").expect("written");
    let file = file.to_str().expect("a path");
    let ran = place.run(
        "mock-acp",
        &[
            "--prompt",
            "hi",
            "--continuation",
            "none",
            "--transcript",
            file,
        ],
    );
    assert_eq!(ran.code, 64, "{}", ran.stdout);
    let transcript = [
        "--prompt",
        "hi",
        "--continuation",
        "transcript",
        "--transcript",
    ];
    let ran = place.run("mock-acp", &[&transcript[..], &["missing.jsonl"]].concat());
    assert_eq!(ran.code, 66, "{}", ran.stdout);
    let ran = place.run("mock-acp", &[&transcript[..], &[file]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stdout);
}

#[test]
fn an_unwritable_state_directory() {
    let place = Place::new();
    let file = place.path("file");
    std::fs::write(&file, "").expect("written");
    let output = place
        .command(&["run", "mock-acp", "--prompt", "hi", "--output", "jsonl"])
        .env("AGENTPROTO_HOME", &file)
        .output()
        .expect("started");
    let ran = super::place::Ran::new(output);
    assert_eq!((ran.code, ran.error().0.as_str()), (73, "STATE_UNWRITABLE"));
}

/// Uses a nearly full file system in its own mount namespace, and runs until it is full.
#[test]
fn a_full_disk() {
    let place = Place::new();
    let script = "mount -t tmpfs -o size=$ROOM none \"$AGENTPROTO_HOME\" || exit 98
        while :; do
            \"$0\" run mock-acp --prompt 'use a tool' --output jsonl || { code=$?; break; }
        done
        [ $ROOM = 16k ] || \"$0\" audit verify >&2 || exit 99
        exit $code";
    for room in ["16k", "160k"] {
        let inner = place.command(&[]);
        let mut command = std::process::Command::new("unshare");
        command
            .args(["-Urm", "sh", "-c", script, super::place::BINARY])
            .current_dir(place.path("work"))
            .env("ROOM", room)
            .envs(
                inner
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
        let ran = super::place::Ran::new(command.output().expect("unshare of util-linux"));
        assert_eq!(ran.code, 73, "{room}: {}{}", ran.stdout, ran.stderr);
        let (code, message) = ran.error();
        assert_eq!(code, "STATE_UNWRITABLE", "{message}");
        assert!(message.contains("No space left"), "{message}");
        assert_eq!(place.survivors(), Vec::<String>::new(), "{room}");
    }
}
