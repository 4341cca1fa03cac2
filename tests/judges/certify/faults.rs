//! Agents whose process misbehaves: a verdict with evidence in bounded time, and the run continues.

use std::time::Duration;

use serde_json::Value;

use crate::certify::{certify, run, verdicts};

/// Runs the prompt cases against the mock agent in a bad scenario. Returns exit code and report.
fn turn(scenario: &str) -> (Option<i32>, Value) {
    let scenario = format!("MOCK_SCENARIO={scenario}");
    let (output, report) = run(&[
        "--mock",
        "acp",
        "--env",
        &scenario,
        // Selecting cases by name reports every requirement that is checked in them.
        "--only",
        "pt-01-stop-reason,in-01-first-answer",
        "--timeout",
        "2",
    ]);
    assert!(
        !report.is_null(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status.code(), report)
}

fn message(report: &Value, requirement: &str) -> String {
    let rows = report["results"].as_array().unwrap().iter();
    let of = rows.filter(|row| row["requirement"] == requirement);
    let texts: Vec<&str> = of.filter_map(|row| row["message"].as_str()).collect();
    texts.join(" / ")
}

#[test]
fn a_missing_program_is_reported() {
    let output = certify(&["--", "no-such-agent-anywhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(
        words.contains("program `no-such-agent-anywhere` not found"),
        "{words}"
    );
}

#[test]
fn an_agent_that_exits_at_once_is_reported_with_its_exit_code() {
    let (code, report) = turn("exit-at-once");
    assert_eq!(code, Some(69));
    assert!(verdicts(&report, "IN-01").contains(&"fail"), "{report:#}");
    let message = message(&report, "IN-01");
    assert!(message.contains("exited with status 7"), "{message}");
}

#[test]
fn an_agent_that_never_starts_times_out_once() {
    let (code, report) = turn("never-starts");
    assert_eq!(code, Some(69));
    assert!(verdicts(&report, "IN-01").contains(&"fail"), "{report:#}");
    let message = message(&report, "IN-01");
    assert!(message.contains("timed out after"), "{message}");
}

#[test]
fn crashes_hangs_and_incomplete_lines_fail_the_turn() {
    // The last line of the process belongs to the proof of a crash.
    let (_, report) = turn("crash");
    let rows = report["results"].as_array().unwrap();
    let crash = rows.iter().find(|row| row["verdict"] == "fail").unwrap();
    let evidence = crash["evidence"].as_array().unwrap();
    assert!(
        evidence.iter().any(|line| line["direction"] == "process"),
        "{crash:#}"
    );
    for (scenario, words) in [
        ("crash", "exited with status 3"),
        ("segfault", "signal 11"),
        ("hang", "timed out after"),
        ("half-line", ""),
        ("half-line-hang", "timed out after"),
    ] {
        let (code, report) = turn(scenario);
        assert_eq!(code, Some(1), "{scenario}");
        let reported = verdicts(&report, "PT-01");
        assert!(reported.contains(&"fail"), "{scenario}: {reported:?}");
        let message = message(&report, "PT-01");
        assert!(message.contains(words), "{scenario}: {message}");
        assert!(verdicts(&report, "IN-01").contains(&"pass"), "{scenario}");
    }
}

/// The agent died before the requirement was tested, so the hint is about the crash and not about
/// the requirement.
#[test]
fn a_crash_has_its_own_hint() {
    let case = "tr-17-two-questions";
    let hint = |more: &[&str]| {
        let (_, report) = run(&[&["--mock", "acp", "--only", case][..], more].concat());
        let mut rows = report["results"].as_array().unwrap().iter();
        let row = rows.find(|row| row["requirement"] == "TR-17").unwrap();
        assert_eq!(row["verdict"], "fail", "{row:#}");
        row["hint"].as_str().unwrap().to_owned()
    };
    let expected = "Find out why the agent exits";
    let died = hint(&["--env", "MOCK_SCENARIO=crash"]);
    assert!(died.contains(expected), "{died}");
    let broken = hint(&["--env", "MOCK_MUTANT=acp-tr-17-same-request-id"]);
    assert!(!broken.contains(expected), "{broken}");
}

#[test]
fn noise_on_stdout_fails_the_transport_requirements() {
    for (scenario, requirement) in [
        ("garbage", "TR-03"),
        ("invalid-utf8", "TR-01"),
        ("banner", "TR-03"),
    ] {
        let (code, report) = turn(scenario);
        assert_eq!(code, Some(1), "{scenario}");
        let reported = verdicts(&report, requirement);
        assert!(reported.contains(&"fail"), "{scenario}: {reported:?}");
        let rows = report["results"].as_array().unwrap().iter();
        let row = rows
            .filter(|row| row["requirement"] == requirement)
            .find(|row| row["verdict"] == "fail");
        let evidence = &row.unwrap()["evidence"];
        assert_eq!(evidence[0]["direction"], "from-agent", "{scenario}");
    }
}

#[test]
fn an_agent_of_another_protocol_fails() {
    agentproto_suites::proves!("A44-CONF-01", "A44-CONF-03", "A45-CONF-03");
    let own = env!("CARGO_BIN_EXE_agentproto");
    let (output, report) = run(&[
        "--only",
        "IN-01",
        "--only",
        "SE-01",
        "--timeout",
        "2",
        "--",
        own,
        "mock",
        "mcp",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(report["summary"]["certified"], false);
    assert!(verdicts(&report, "IN-01").contains(&"fail"), "{report:#}");
}

/// Memory that a flood of output may add, in kB. Together with the baseline of the harness, which
/// is mostly its code and more than twice as large in a debug build, it stays below 100 MB.
const FLOOD: u64 = 52 << 10;

/// Peak memory with an agent that prints little.
fn calm() -> u64 {
    peak_of(&[
        "--mock", "acp", "--only", "PT-01", "--jobs", "1", "--output", "json",
    ])
}

/// However much an agent prints, the memory of the harness stays bounded. The output goes to disk.
#[test]
fn floods_do_not_exhaust_memory() {
    for scenario in ["flood-bytes", "huge-line", "stderr-flood"] {
        let scenario = format!("MOCK_SCENARIO={scenario}");
        let peak = peak_of(&[
            "--mock",
            "acp",
            "--env",
            &scenario,
            "--only",
            "PT-01",
            "--timeout",
            "20",
            "--jobs",
            "1",
            "--output",
            "json",
        ]);
        assert!(peak < calm() + FLOOD, "{scenario}: {peak} kB");
    }
}

/// Several floods of valid messages at a time: history, queues and transcripts share their limits.
#[test]
fn parallel_floods_do_not_exhaust_memory() {
    let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#;
    let args = [
        "--only",
        "IN-01,IN-02,IN-03",
        "--timeout",
        "1",
        "--jobs",
        "4",
    ];
    let command = ["--output", "json", "--", "yes", update];
    let peak = peak_of(&[&args[..], &command[..]].concat());
    assert!(peak < calm() + FLOOD, "{peak} kB");
}

/// An agent that never prints anything fails once. An agent that prints something else fails the
/// requirement about that output.
#[test]
fn silence_fails_once_and_other_output_fails_separately() {
    for silent in ["exit 3", "sleep 100"] {
        let (output, report) = run(&["--timeout", "0.3", "--", "sh", "-c", silent]);
        assert_eq!(output.status.code(), Some(69), "{silent}: {report:#}");
        let rows = report["results"].as_array().unwrap().iter();
        let failed = rows.filter(|row| row["verdict"] == "fail");
        assert_eq!(failed.count(), 1, "{silent}: {report:#}");
        assert!(
            report["timing"]["processes"].as_u64().unwrap() <= 4,
            "{report:#}"
        );
        assert_eq!(report["summary"]["certified"], false);
    }
    let talk = "while read -r line; do echo 220 ready; done";
    let (output, report) = run(&["--timeout", "0.3", "--", "sh", "-c", talk]);
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    assert_eq!(verdicts(&report, "TR-03"), ["fail"], "{report:#}");
}

/// An agent that hangs on `session/new` times out a few times, and still gets its verdicts.
#[test]
fn a_hang_before_the_first_session_is_reported() {
    let agent = r#"while read -r line; do case "$line" in
        *'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}' ;;
        esac; done"#;
    let (output, report) = run(&[
        "--only",
        "SE,TR-09",
        "--timeout",
        "1",
        "--",
        "sh",
        "-c",
        agent,
    ]);
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    // One fault: TR-09 names the requirement whose failure explains it.
    assert!(verdicts(&report, "SE-01").contains(&"fail"), "{report:#}");
    assert!(!verdicts(&report, "TR-09").contains(&"fail"), "{report:#}");
    assert!(
        message(&report, "TR-09").contains("follows from SE-01"),
        "{report:#}"
    );
    let reported = report.to_string();
    assert!(
        reported.contains("`session/new` was not answered"),
        "{report:#}"
    );
    assert!(
        reported.contains("it was never answered in this run"),
        "{report:#}"
    );
}

/// An agent whose turns end only after a cancel, and then need 1.2 s. The time limit for its turns
/// becomes short, but not for its canceled turns.
#[test]
fn a_slow_cancel_is_not_a_failure() {
    let agent = r#"while read -r line; do case "$line" in
        *'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}' ;;
        *'"session/new"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}' ;;
        *'"session/prompt"'*) id=${line#*'"id":'}; id=${id%%[,\}]*}
            echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"."}}}}' ;;
        *'"session/cancel"'*) sleep 1.2
            echo '{"jsonrpc":"2.0","id":'$id',"result":{"stopReason":"cancelled"}}' ;;
        esac; done"#;
    let directory = tempfile::tempdir().unwrap();
    let prompts = directory.path().join("prompts.yaml");
    std::fs::write(&prompts, "text: hello\nslow: be slow\n").unwrap();
    let prompts = prompts.to_string_lossy();
    let (_, report) = run(&[
        "--only",
        // Cases start in any order. With this many, some turns are never answered before PT-11.
        "PT-01,PT-03,PT-04,PT-06,PT-09,PT-15,PT-16,TR-18,NO-01,EX-06,IN-11,PT-11",
        "--prompts",
        &prompts,
        "--timeout",
        "4",
        "--",
        "sh",
        "-c",
        agent,
    ]);
    assert!(verdicts(&report, "PT-01").contains(&"fail"), "{report:#}");
    let canceled = verdicts(&report, "PT-11");
    assert!(canceled.contains(&"pass"), "{report:#}");
    // The case that needs a mock model is skipped.
    let judged = |verdict: &&str| ["pass", "skip"].contains(verdict);
    assert!(canceled.iter().all(judged), "{report:#}");
}

/// Peak memory of a run in kilobytes, as reported by `wait4`.
fn peak_of(args: &[&str]) -> u64 {
    #[expect(
        clippy::zombie_processes,
        reason = "wait4 below waits for it and returns its memory use"
    )]
    let child = certify(args)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: the kernel fills in plain data; the child is ours and has not been waited for.
    let peak = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let mut status = 0;
        assert_eq!(libc::wait4(pid, &mut status, 0, &mut usage), pid);
        usage.ru_maxrss
    };
    u64::try_from(peak).unwrap()
}

#[test]
fn an_interrupted_run_gives_a_partial_report() {
    let mut child = certify(&[
        "--mock",
        "acp",
        "--env",
        "MOCK_SCENARIO=never-starts",
        "--timeout",
        "60",
        "--output",
        "json",
    ])
    .stdout(std::process::Stdio::piped())
    .spawn()
    .unwrap();
    // The cases hang, so once one has started there is always something to interrupt.
    let pid = i32::try_from(child.id()).unwrap();
    while !has_children(pid) {
        assert!(
            child.try_wait().unwrap().is_none(),
            "the run ended by itself"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: the process is our child.
    unsafe { libc::kill(pid, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["partial"], true);
    assert_eq!(report["summary"]["certified"], false);
    assert!(!report["results"].as_array().unwrap().is_empty());
}

fn has_children(pid: i32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    tasks.flatten().any(|task| {
        let children = std::fs::read_to_string(task.path().join("children"));
        children.is_ok_and(|children| !children.trim().is_empty())
    })
}
