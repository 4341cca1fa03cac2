//! Tool calls that change something pass the permission policy, or are noticed (A45-SEC-03).

use super::place::{Place, Ran};

/// Runs a scenario with these steps.
fn run(place: &Place, steps: &str, args: &[&str]) -> Ran {
    let scenario =
        format!("scenario: agentproto.scenario/v1\nname: gate\nturns:\n  - steps:\n{steps}");
    std::fs::write(place.path("work/gate.yaml"), scenario).expect("written");
    let scenario = ["--option", "scenario=gate.yaml", "--prompt", "x"];
    place.run("mock-acp", &[args, &scenario].concat())
}

/// A call of this kind that the agent does not ask about.
fn unasked(kind: &str) -> String {
    format!(
        "      - tool_call: {{ id: a, title: Edit the notes, kind: {kind}, status: in_progress }}
      - tool_update: {{ id: a, status: completed, text: edited }}
      - text: done
"
    )
}

/// A call that ends with `status` after the agent asked, and the request was rejected.
fn rejected(status: &str) -> String {
    format!(
        "      - tool_call: {{ id: a, title: Edit the notes, kind: edit }}
      - permission:
          id: a
          title: Edit the notes
          on_allow:
            - tool_update: {{ id: a, status: completed, text: edited }}
          on_reject:
            - tool_update: {{ id: a, status: {status}, text: edited }}
      - text: done
"
    )
}

fn ungated(place: &Place) -> Vec<serde_json::Value> {
    let audit = place.audit();
    let lines = audit
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let lines = lines.filter(|line: &serde_json::Value| line["event"] == "tool.ungated");
    lines.map(|line| line["data"].clone()).collect()
}

#[test]
fn a_call_without_a_request_is_reported_and_audited() {
    agentproto_suites::proves!("A45-SEC-03");
    for kind in ["edit", "delete", "move", "execute"] {
        let place = Place::new();
        let ran = run(&place, &unasked(kind), &["--permissions", "deny"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let warnings = ran.of("aoi:warning");
        let warned = warnings.iter().any(|w| w["code"] == "TOOL_CALL_NOT_ASKED");
        assert!(warned, "{kind}: {}", ran.stdout);
        let found = ungated(&place);
        assert_eq!(found.len(), 1, "{kind}");
        assert_eq!(
            (&found[0]["name"], &found[0]["denied"]),
            (&"Edit the notes".into(), &false.into())
        );
    }
    // A call that changes nothing needs no permission, and neither does one that is allowed.
    for (kind, args) in [
        ("read", &["--permissions", "deny"][..]),
        ("edit", &["--yes"]),
        ("edit", &["--allow-tool", "Edit*"]),
    ] {
        let place = Place::new();
        let ran = run(&place, &unasked(kind), args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(
            !ran.stdout.contains("TOOL_CALL_NOT_ASKED"),
            "{}",
            ran.stdout
        );
        assert!(ungated(&place).is_empty(), "{kind} {args:?}");
    }
}

#[test]
fn a_denied_call_ends_the_session() {
    agentproto_suites::proves!("A45-SEC-03", "A45-SEC-04");
    let place = Place::new();
    for (steps, args) in [
        (unasked("edit"), &["--yes", "--deny-tool", "Edit*"][..]),
        (rejected("completed"), &["--permissions", "deny"]),
    ] {
        let ran = run(&place, &steps, args);
        assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
        let (code, message) = ran.error();
        assert_eq!(code, "TOOL_CALL_DENIED", "{message}");
        assert!(message.contains("Edit the notes"), "{message}");
        assert!(!ran.text().contains("done"), "{}", ran.stdout);
        assert!(place.survivors().is_empty());
    }
    let denied: Vec<_> = ungated(&place)
        .iter()
        .map(|e| e["denied"].clone())
        .collect();
    assert_eq!(denied, [true, true]);
    // An agent that respects the answer continues.
    let place = Place::new();
    let ran = run(&place, &rejected("failed"), &["--permissions", "deny"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = run(&place, &rejected("failed"), &["--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ungated(&place).is_empty());
}
