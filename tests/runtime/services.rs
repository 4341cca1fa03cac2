//! Services for the agent: permissions, files and terminals, within the sandbox and the workspace.

use super::place::{Place, allowing, collect};
use agentproto_runtime::StreamEvent;
use agentproto_runtime::agent::AgentOptions;
use agentproto_runtime::arm::permissions::{Answer, Permissions};

#[test]
fn permissions_follow_the_policy() {
    agentproto_suites::proves!("A44-SEC-02", "A45-EVT-06", "A45-SEC-04");
    let place = Place::new();
    let ask = |args: &[&str]| {
        let ran = place.run(
            "mock-acp",
            &[args, &["--prompt", "ask for permission"]].concat(),
        );
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let prompts = ran.of("agent-prompt");
        assert_eq!(prompts.len(), 1, "{}", ran.stdout);
        assert!(
            prompts[0]["options"]
                .as_array()
                .is_some_and(|o| o.len() == 4)
        );
        // The events show what was decided, and about what.
        let tool = &prompts[0]["tool"];
        assert_eq!(tool["name"], "Edit the notes", "{}", ran.stdout);
        assert_eq!(tool["input"]["path"], "notes.txt", "{}", ran.stdout);
        let is_allowed = ran.text().contains("You allowed it");
        let decision = if is_allowed { "allow" } else { "deny" };
        assert_eq!(prompts[0]["decision"], decision);
        let denied = &ran.of("aoi:summary")[0]["denied"];
        assert_eq!(denied.as_u64(), (!is_allowed).then_some(1));
        ran.text()
    };
    assert!(ask(&["--yes"]).contains("allowed"));
    assert!(ask(&["--permissions", "allow"]).contains("allowed"));
    for denied in [
        &[][..],
        &["--permissions", "deny"],
        &["--permissions", "ask"],
        &["--yes", "--deny-tool", "Edit*"],
    ] {
        assert!(!ask(denied).contains("allowed"), "{denied:?}");
    }
    assert!(ask(&["--allow-tool", "Edit*"]).contains("allowed"));
    assert!(!ask(&["--allow-tool", "Read*"]).contains("allowed"));
}

#[tokio::test]
async fn the_caller_can_answer_permission_requests() {
    agentproto_suites::proves!("A44-AUDIT-06", "A44-SEC-02", "A45-EVT-06");
    let place = Place::new();
    let options = AgentOptions {
        permissions: Permissions::Ask,
        ..AgentOptions::default()
    };
    let (agent, _) = place.agent("mock-acp", options).expect("loaded");
    let session = agent.start().await.expect("started");
    for (kind, wanted) in [("allow_once", true), ("reject_once", false)] {
        let mut turn = session.send("ask for permission").expect("sent");
        let mut text = String::new();
        while let Some(event) = turn.next().await {
            match event {
                StreamEvent::AgentPrompt { id, options, .. } => {
                    assert!(session.has_open_question(&id));
                    let choice = options
                        .iter()
                        .find(|o| o.kind.as_deref() == Some(kind))
                        .expect("offered");
                    assert!(session.answer(&id, Answer::Choice(choice.id.clone())));
                    assert!(
                        !session.answer(&id, Answer::Cancelled),
                        "a question can be answered only once"
                    );
                }
                StreamEvent::TextDelta { text: more } => text.push_str(&more),
                _ => {}
            }
        }
        assert_eq!(text.contains("allowed"), wanted, "{kind}: {text}");
    }
    // Canceling a turn answers its open questions.
    let mut turn = session.send("ask for permission").expect("sent");
    loop {
        match turn.next().await.expect("an event") {
            StreamEvent::AgentPrompt { .. } => break,
            event => assert!(!event.is_last(), "{event:?}"),
        }
    }
    session.cancel().await.expect("cancelled");
    let (_, events) = collect(&mut turn).await;
    assert!(
        matches!(events.last(), Some(StreamEvent::TurnEnd { .. })),
        "{events:?}"
    );
    session.close().await.expect("closed");
    // The audit log names the user who answered.
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    // SAFETY: no arguments, cannot fail.
    let user = user.unwrap_or_else(|_| unsafe { libc::geteuid() }.to_string());
    let log = place.audit();
    let entries = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let calls = entries.filter(|entry: &serde_json::Value| entry["kind"] == "tool-call");
    let decided = calls.map(|c| (c["data"]["approver"].clone(), c["data"]["approved"].clone()));
    let decided: Vec<_> = decided.collect();
    let approver = format!("user:{user}");
    assert_eq!(decided[0], (approver.clone().into(), true.into()));
    assert_eq!(decided[1], (approver.into(), false.into()));
}

#[test]
fn only_files_of_the_workspace_are_accessible() {
    let place = Place::new();
    let ran = place.run("mock-acp", &["--yes", "--prompt", "write notes.txt"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let written = std::fs::read_to_string(place.path("work/notes.txt")).expect("written");
    let ran = place.run("mock-acp", &["--prompt", "read notes.txt"]);
    assert!(ran.text().contains(written.trim()), "{}", ran.stdout);
    std::fs::write(place.path("outside.txt"), "not for you").expect("written");
    std::os::unix::fs::symlink(place.path("outside.txt"), place.path("work/link")).expect("linked");
    for path in ["/etc/hostname", "../outside.txt", "link"] {
        let ran = place.run("mock-acp", &["--yes", "--prompt", &format!("read {path}")]);
        assert!(
            !ran.text().contains("not for you"),
            "{path}: {}",
            ran.text()
        );
        assert!(
            !ran.of("tool-result").iter().any(|r| r["ok"] == true),
            "{path}: {}",
            ran.stdout
        );
    }
    assert!(place.audit().contains("\"fs.read\"") && place.audit().contains("\"fs.write\""));
}

#[test]
fn commands_run_in_the_same_sandbox() {
    let place = Place::new();
    std::fs::write(place.path("work/here.txt"), "x").expect("written");
    let ran = place.run("mock-acp", &["--yes", "--prompt", "run /bin/ls"]);
    assert!(ran.text().contains("here.txt"), "{}", ran.stdout);
    // Nothing outside the workspace is visible.
    let home = place.user();
    std::fs::write(home.join("private"), "x").expect("written");
    std::fs::write(place.path("work/command.txt"), "x").expect("written");
    let list = |options: &[&str], dir: &std::path::Path| {
        let prompt = format!("run /bin/ls {}", dir.display());
        let args = [options, &["--yes", "--prompt", &prompt]].concat();
        place.run("mock-acp", &args).text()
    };
    assert!(list(&[], &place.path("work")).contains("command.txt"));
    let listed = list(&[], &home);
    assert!(!listed.contains("private"), "{listed}");
    // Without the sandbox, the same command shows the file.
    let listed = list(&["--sandbox", "off"], &home);
    assert!(listed.contains("private"), "{listed}");
    let ran = place.run(
        "mock-acp",
        &["--option", "scenario=terminal", "--prompt", "x"],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(place.audit().contains("\"terminal.create\""));
}

#[tokio::test]
async fn the_agent_runs_in_the_workspace() {
    agentproto_suites::proves!("A45-SBX-04");
    let place = Place::new();
    let (agent, _) = place.agent("mock-acp", allowing()).expect("loaded");
    let session = agent.start().await.expect("started");
    let mut turn = session.send("show cwd").expect("sent");
    let (text, _) = collect(&mut turn).await;
    let work = place.path("work").canonicalize().expect("there");
    assert!(text.contains(&work.display().to_string()), "{text}");
    session.close().await.expect("closed");
}

/// AIP-45 requires an AIP-36 block, so a manifest with an AIP-29 block is only run on request.
const AS_AIP29: &str = "--allow-invalid";

/// Replaces the sandbox of the mock agent with an AIP-29 block.
fn under(place: &Place, name: &str, exec: &str) -> String {
    let block = format!(
        "sandbox:\n  network: {{ egress: [] }}\n  fs: {{ read: [\"./**\"], write: [\"./**\"], deny: [\"./.env\"] }}\n  exec: {exec}\n"
    );
    let dir = place.changed(name, "AGENT-CLI.md", |text| {
        text.replace("sandbox: ./SANDBOX.md\n", &block)
    });
    dir.to_str().expect("a path").to_owned()
}

#[test]
fn a_denied_file_is_denied_in_the_file_service() {
    agentproto_suites::proves!("A29-SBX-07");
    let place = Place::new();
    std::fs::write(place.path("work/.env"), "TOPSECRET").expect("written");
    std::fs::write(place.path("work/open.txt"), "for all").expect("written");
    std::os::unix::fs::symlink(".env", place.path("work/link")).expect("linked");
    std::os::unix::fs::symlink("open.txt", place.path("work/fine")).expect("linked");
    let target = under(&place, "denier", "{ allow: true, spawn: [ls] }");
    let read = |path: &str| {
        let ran = place.run(
            &target,
            &[AS_AIP29, "--yes", "--prompt", &format!("read {path}")],
        );
        assert_eq!(ran.code, 0, "{path}: {}{}", ran.stdout, ran.stderr);
        ran.text()
    };
    assert!(read("open.txt").contains("for all"));
    assert!(read("fine").contains("for all"));
    for path in [".env", "link"] {
        assert!(!read(path).contains("TOPSECRET"), "{path}");
    }
    let ran = place.run(&target, &[AS_AIP29, "--yes", "--prompt", "write link"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let kept = std::fs::read_to_string(place.path("work/.env")).expect("there");
    assert_eq!(kept, "TOPSECRET");
}

#[test]
fn a_terminal_has_the_restrictions_of_the_agent() {
    agentproto_suites::proves!("A29-SBX-08", "A29-SBX-09");
    let place = Place::new();
    std::fs::write(place.path("work/here.txt"), "inside").expect("written");
    let target = under(&place, "lister", "{ allow: true, spawn: [ls] }");
    let run = |target: &str, command: &str| {
        let ran = place.run(
            target,
            &[AS_AIP29, "--yes", "--prompt", &format!("run {command}")],
        );
        assert_eq!(ran.code, 0, "{command}: {}{}", ran.stdout, ran.stderr);
        ran.text()
    };
    assert!(run(&target, "/bin/ls").contains("here.txt"));
    assert!(run(&target, "ls").contains("here.txt"));
    for cat in ["/bin/cat here.txt", "cat here.txt"] {
        assert!(run("mock-acp", cat).contains("inside"), "{cat}");
        assert!(!run(&target, cat).contains("inside"), "{cat}");
    }
    let none = under(&place, "loner", "{ allow: false }");
    assert!(!run(&none, "/bin/ls").contains("here.txt"));
    // AIP-36: a program outside the visible directories does not make its neighbors visible.
    let outside = place.path("outside/bin");
    std::fs::create_dir_all(&outside).expect("made");
    std::fs::copy("/bin/ls", outside.join("tool")).expect("copied");
    std::fs::write(place.path("outside/neighbor"), "").expect("written");
    let command = format!(
        "{} {}",
        outside.join("tool").display(),
        place.path("outside").display()
    );
    assert!(!run("mock-acp", &command).contains("neighbor"));
    let off = ["--sandbox", "off", "--yes", "--prompt"];
    let ran = place.run(
        "mock-acp",
        &[&off[..], &[&format!("run {command}")]].concat(),
    );
    assert!(ran.text().contains("neighbor"), "{}", ran.stdout);
}

#[test]
fn a_flood_of_refused_requests_is_counted_in_the_audit_log() {
    let place = Place::new();
    let flood = "scenario: agentproto.scenario/v1
name: flood
turns:
  - steps:
      - repeat:
          times: 500
          steps:
            - fs_read: { path: /etc/hostname }
            - fs_write: { path: /etc/x, content: x }
      - fs_write: { path: notes.txt, content: x }
      - text: done
";
    std::fs::write(place.path("work/flood.yaml"), flood).expect("written");
    let ran = place.run(
        "mock-acp",
        &["--yes", "--option", "scenario=flood.yaml", "--prompt", "x"],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.text().contains("done"), "{}", ran.stdout);
    let log = place.audit();
    let entries: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let refused = |event: &str| -> u64 {
        let of = entries.iter().filter(|entry| entry["event"] == event);
        let refused = of.filter(|entry| entry["data"].get("error").is_some());
        refused
            .map(|entry| entry["data"]["count"].as_u64().unwrap_or(1))
            .sum()
    };
    assert_eq!((refused("fs.read"), refused("fs.write")), (500, 500));
    let is_file = |entry: &&serde_json::Value| {
        let event = entry["event"].as_str();
        event.is_some_and(|event| event.starts_with("fs."))
    };
    let files = entries.iter().filter(is_file).count();
    assert!(files < 2 * (20 + 30), "{files} entries");
    let last = entries.last().expect("an entry");
    assert_eq!(last["event"], "session.close");
    // The summaries are written when the turn ends, not when the session is closed.
    let end = entries.iter().position(|e| e["event"] == "turn.end");
    let last_file = entries.iter().rposition(|entry| is_file(&entry));
    assert!(last_file < end, "{last_file:?}, {end:?}");
    // A write that was allowed is recorded as before.
    let notes = |entry: &&serde_json::Value| {
        let path = entry["data"]["path"].as_str();
        path.is_some_and(|path| path.ends_with("notes.txt"))
    };
    let allowed: Vec<_> = entries.iter().filter(notes).collect();
    assert_eq!(allowed.len(), 1);
    assert!(allowed[0]["data"].get("error").is_none(), "{allowed:?}");
}

/// The agent replaces a directory on the way to its login state by a link, then asks the file
/// service for what is behind the link.
#[test]
fn a_link_in_the_place_of_login_state_is_not_followed() {
    let aip29 = "sandbox:\n  network: { egress: [] }\n  fs: { read: [\"./**\"], write: [\"./**\"] }\n  exec: { allow: true, spawn: [sh, mv, ln, cp, rm] }\n";
    for (name, sandbox, state, moved) in [
        ("linker", aip29, "cache", "cache"),
        ("mover", "sandbox: ./SANDBOX.md\n", "a/b", "a"),
    ] {
        let place = Place::new();
        let target = place.changed(name, "AGENT-CLI.md", |text| {
            let auth = format!("auth: {{ state: {{ paths: [\"./{state}/**\"] }} }}\n");
            text.replace("sandbox: ./SANDBOX.md\n", &(auth + sandbox))
        });
        let victim = place.path("victim");
        std::fs::create_dir_all(victim.join("b")).expect("made");
        for key in ["key", "b/key"] {
            std::fs::write(victim.join(key), "TOPSECRET").expect("written");
        }
        let work = place.path("work");
        std::fs::create_dir_all(work.join(state)).expect("made");
        std::fs::write(work.join(state).join("own"), "for the agent").expect("written");
        let swap = format!("mv {moved} old\nln -s {} {moved}\n", victim.display());
        std::fs::write(work.join("swap.sh"), swap).expect("written");
        let scenario = format!(
            "scenario: agentproto.scenario/v1
name: swap
turns:
  - steps:
      - fs_read: {{ path: {state}/own }}
      - text: \"{{result}}\"
      - terminal: {{ command: /bin/sh, args: [swap.sh] }}
      - text: \"{{result}}\"
      - fs_read: {{ path: {state}/key }}
      - text: \"{{result}}\"
      - fs_write: {{ path: {state}/planted, content: x }}
"
        );
        std::fs::write(work.join("swap.yaml"), scenario).expect("written");
        let target = target.to_str().expect("a path");
        // A block of AIP-29 is an error in an AGENT-CLI.md.
        let args = [
            "--yes",
            "--allow-invalid",
            "--option",
            "scenario=swap.yaml",
            "--prompt",
            "x",
        ];
        let ran = place.run(target, &args);
        assert_eq!(ran.code, 0, "{name}: {}{}", ran.stdout, ran.stderr);
        assert!(
            ran.text().contains("for the agent"),
            "{name}: {}",
            ran.stdout
        );
        assert!(work.join(moved).is_symlink(), "{name}: {}", ran.stdout);
        assert!(!ran.stdout.contains("TOPSECRET"), "{name}: {}", ran.stdout);
        assert!(!victim.join("planted").exists() && !victim.join("b/planted").exists());
    }
}
