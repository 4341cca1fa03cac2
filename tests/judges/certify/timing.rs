//! Slow machines, slow agents, agents that cannot be tested, and runs that are killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::certify::{certify, run, verdicts};

/// Processes that do nothing but keep the processors busy.
struct Hogs(Vec<Child>);

impl Hogs {
    fn new(count: usize) -> Hogs {
        let hog = |_| {
            Command::new("sh")
                .args(["-c", "while :; do :; done"])
                .spawn()
        };
        Hogs((0..count).map(hog).collect::<Result<_, _>>().unwrap())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// Case, requirement and verdict of every row of a case.
fn rows(report: &Value) -> Vec<(String, String, String)> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let rows = report["results"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["case"] != "monitor");
    rows.map(|row| ["case", "requirement", "verdict"].map(|key| text(row, key)))
        .map(|[case, requirement, verdict]| (case, requirement, verdict))
        .collect()
}

fn row<'r>(report: &'r Value, requirement: &str, case: &str) -> &'r Value {
    let mut rows = report["results"].as_array().unwrap().iter();
    rows.find(|row| row["requirement"] == requirement && row["case"] == case)
        .unwrap_or_else(|| panic!("no row for {requirement} in {case}: {report:#}"))
}

#[test]
fn verdicts_are_the_same_on_an_idle_and_on_a_busy_machine() {
    // Starts, restarts, limits for the exit, MCP servers, and a turn that is canceled.
    let cases = "in-01-first-answer,tr-20-pieces,tr-18-idle,pt-01-stop-reason,ld-replay,\
                 se-08-stdio-server,cl-01-cancels,tr-09-every-request-is-answered";
    let agents = [
        (None, 0),
        (Some("MOCK_SCENARIO=hang"), 1),
        (Some("MOCK_MUTANT=acp-tr-18-stays"), 0),
        (Some("MOCK_MUTANT=acp-tr-09-no-answer"), 1),
    ];
    for (env, code) in agents {
        let mut args = vec!["--mock", "acp", "--only", cases, "--timeout", "1.5"];
        args.extend(env.iter().flat_map(|env| ["--env", *env]));
        let (output, idle) = run(&args);
        assert_eq!(output.status.code(), Some(code), "{env:?}: {idle:#}");
        let _hogs = Hogs::new(20);
        let (output, busy) = run(&args);
        assert_eq!(output.status.code(), Some(code), "{env:?}: {busy:#}");
        assert_eq!(rows(&busy), rows(&idle), "{env:?}");
    }
}

/// The agent does not answer `session/new` while another agent of the run is alive, so all cases
/// but the last are too late at first.
const LONER: &str = r#"
echo $$ >> "$PLACE/alive"
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
    *'"initialize"'*)
        echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":1,"agentCapabilities":{}}}' ;;
    *'"session/new"'*)
        sleep 0.2
        others=0
        for other in $(cat "$PLACE/alive"); do
            [ $other = $$ ] || ! kill -0 $other 2> /dev/null || others=1
        done
        [ $others = 0 ] && echo '{"jsonrpc":"2.0","id":'$id',"result":{"sessionId":"s'$$'"}}' ;;
    esac
done
"#;

#[test]
fn a_late_case_is_repeated_alone_before_it_gets_a_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let place = format!("PLACE={}", dir.path().display());
    let cases = "se-01-session-id,tr-11-unknown-method,tr-09-every-request-is-answered,\
                 ex-06-session";
    let (_, report) = run(&[
        "--only",
        cases,
        "--jobs",
        "4",
        "--timeout",
        "2",
        "--env",
        &place,
        "--",
        "sh",
        "-c",
        LONER,
    ]);
    assert_eq!(
        row(&report, "SE-01", "se-01-session-id")["verdict"],
        "pass",
        "{report:#}"
    );
    let case = "tr-09-every-request-is-answered";
    assert_eq!(row(&report, "TR-09", case)["verdict"], "pass", "{report:#}");
    assert!(
        report["timing"]["repeated"].as_u64().unwrap() > 0,
        "{report:#}"
    );
}

#[test]
fn the_time_to_start_does_not_count() {
    // It starts in twice the time that it has for a response.
    let own = env!("CARGO_BIN_EXE_agentproto");
    let script = format!("sleep 2; exec {own} mock acp");
    let (output, report) = run(&[
        "--only",
        "in-01-first-answer,tr-20-pieces,se-02-unique-ids",
        "--timeout",
        "1",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    for (requirement, case) in [
        ("IN-01", "in-01-first-answer"),
        ("TR-20", "tr-20-pieces"),
        ("SE-02", "se-02-unique-ids"),
    ] {
        assert_eq!(
            row(&report, requirement, case)["verdict"],
            "pass",
            "{report:#}"
        );
    }
}

#[test]
fn an_agent_has_time_to_store_its_sessions_before_a_restart() {
    let only = [
        "--mock",
        "acp",
        "--only",
        "ld-replay",
        "--env",
        "MOCK_VARIANT=stores-at-exit",
    ];
    let (output, report) = run(&only);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(
        row(&report, "LD-01", "ld-replay")["verdict"],
        "pass",
        "{report:#}"
    );
}

#[test]
fn a_dead_agent_costs_a_handful_of_starts_and_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let starts = dir.path().join("starts");
    let script = format!(
        "echo x >> {}; echo out of order >&2; exit 3",
        starts.display()
    );
    let output = certify(&["--", "sh", "-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    let count = std::fs::read_to_string(&starts).unwrap().lines().count();
    assert!(count <= 4, "{count} starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let first =
        "NOT CERTIFIED: the agent never answered `initialize`: the agent exited with status 3";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("out of order"), "{text}");
    assert_eq!(text.matches("FAIL").count(), 1, "{text}");
}

#[test]
fn a_missing_program_fails_nothing() {
    let (output, report) = run(&["--", "sh", "-c", "exec no-such-agent-anywhere"]);
    assert_eq!(output.status.code(), Some(69), "{report:#}");
    assert_eq!(report["summary"]["fail"], 0, "{report:#}");
    let reason = report["summary"]["reason"].as_str().unwrap();
    assert!(reason.contains("no-such-agent-anywhere"), "{reason}");
}

/// An agent whose sessions require a login.
fn locked(args: &[&str]) -> Command {
    let own = env!("CARGO_BIN_EXE_agentproto");
    let mut command = certify(args);
    command.args(["--", own, "mock", "acp", "--scenario", "auth"]);
    command
}

#[test]
fn a_locked_agent_is_not_started_for_what_needs_a_login() {
    let output = locked(&["--output", "json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = report["suites"][0]["cases"].as_u64().unwrap();
    let processes = report["timing"]["processes"].as_u64().unwrap();
    assert!(
        processes * 2 < cases,
        "{processes} processes for {cases} cases"
    );
    let turn = row(&report, "PT-01", "pt-01-stop-reason");
    assert_eq!(turn["verdict"], "not_verified", "{turn:#}");
    assert!(
        turn["message"]
            .as_str()
            .unwrap()
            .contains("requires a login"),
        "{turn:#}"
    );
    assert_eq!(
        row(&report, "TR-11", "tr-11-unknown-method")["verdict"],
        "pass"
    );
    assert!(
        report["needs_login"]["methods"].as_array().unwrap().len() > 1,
        "{report:#}"
    );
    let text = locked(&[]).output().unwrap().stdout;
    let text = String::from_utf8_lossy(&text).replace('\n', " ");
    for option in ["--auth-method", "--mock-llm", "--home", "--env"] {
        assert!(text.contains(option), "{option}: {text}");
    }
    // With a login, everything is tested.
    let output = locked(&[
        "--output",
        "json",
        "--auth-method",
        "key",
        "--only",
        "PT-01",
    ])
    .output();
    let report: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(verdicts(&report, "PT-01"), ["pass"], "{report:#}");
    assert!(report.get("needs_login").is_none());
}

#[test]
fn a_selection_still_says_which_agent_was_tested() {
    let (_, report) = run(&["--mock", "acp", "--only", "in-01-first-answer"]);
    assert_eq!(
        report["target"]["info"]["name"], "agentproto-mock",
        "{report:#}"
    );
    assert_eq!(report["target"]["protocol_version"], 1, "{report:#}");
}

#[test]
fn one_fault_fails_one_requirement() {
    // No turn ever ends. Only PT-01 is about that.
    let cases = "pt-01-stop-reason,pt-03-text-blocks,pt-08-empty-prompt,pt-16-second-prompt,\
                 tr-16-turn-and-session";
    let hang = [
        "--mock",
        "acp",
        "--env",
        "MOCK_SCENARIO=hang",
        "--timeout",
        "1",
    ];
    let (_, report) = run(&[&hang[..], &["--only", cases]].concat());
    let all = report["results"].as_array().unwrap().iter();
    let failed: Vec<&Value> = all
        .filter(|row| ["fail", "warn"].contains(&row["verdict"].as_str().unwrap()))
        .map(|row| &row["requirement"])
        .collect();
    assert_eq!(failed, ["PT-01"], "{report:#}");
    let other = row(&report, "PT-03", "pt-03-text-blocks");
    assert_eq!(other["follows"], "PT-01", "{other:#}");
    assert_eq!(report["summary"]["reason"], "1 failed");
    // Alone, the other requirement fails itself.
    let (_, report) = run(&[&hang[..], &["--only", "pt-03-text-blocks"]].concat());
    assert_eq!(verdicts(&report, "PT-03"), ["fail"], "{report:#}");
}

/// The directories of runs in a temporary directory.
fn run_directories(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).unwrap().flatten();
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| name(path).starts_with("agentproto-certify-"))
        .collect()
}

#[test]
fn the_next_run_removes_what_a_killed_run_left() {
    let temporary = tempfile::tempdir().unwrap();
    let mut never = certify(&["--mock", "acp", "--env", "MOCK_SCENARIO=never-starts"]);
    never.env("TMPDIR", temporary.path());
    let mut killed = never.stdout(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while run_directories(temporary.path()).is_empty() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the run did not start"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(run_directories(temporary.path()).len(), 1);
    let mut next = certify(&["--mock", "acp", "--only", "in-01-first-answer"]);
    let output = next.env("TMPDIR", temporary.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(run_directories(temporary.path()), Vec::<PathBuf>::new());
}
