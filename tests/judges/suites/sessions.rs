//! The sessions suite. tests/judges/certify/selftest.rs tests that every mutant of our daemon fails
//! the requirement that it breaks, and that no conforming host fails.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

use agentproto_harness::model::{Level, Report, Verdict};
use agentproto_harness::sessions;
use agentproto_harness::suite::{self, StepKind, Suite};
use agentproto_sandbox::helper;
use agentproto_selftest::sessions::{HostBench, Mutant, mutants, variants};
use agentproto_suites::register;
use futures::stream::{self, StreamExt};
use serde_json::Value;

fn the_suite() -> Suite {
    suite::built_in("sessions").expect("there").expect("right")
}

// --- requirements and mutants --------------------------------------------------------------

#[test]
fn the_suite_checks_its_requirements_with_suitable_probes() {
    let suite = the_suite();
    for case in &suite.cases {
        for step in &case.steps {
            let StepKind::Probe(probe) = &step.kind else {
                panic!("{} has a step that is not a probe", case.id);
            };
            let can: BTreeSet<&str> = sessions::PROBES.decided_by(probe).iter().copied().collect();
            let does: BTreeSet<&str> = case.decides.iter().map(String::as_str).collect();
            assert_eq!(can, does, "{probe}");
        }
    }
    let used = |name: &str| {
        let mut steps = suite.cases.iter().flat_map(|c| &c.steps);
        steps.any(|s| matches!(&s.kind, StepKind::Probe(probe) if probe == name))
    };
    for name in sessions::PROBES.names() {
        assert!(used(name), "no case uses {name}");
    }
}

/// The suite checks every requirement whose register entry proposes it, under the same id.
/// Requirements that the spec does not state have their own ids and never fail.
#[test]
fn the_register_and_the_suite_agree() {
    let suite = the_suite();
    for requirement in register() {
        if requirement.decided_by.contains("case:sessions") {
            let decided = suite.requirement(requirement.id).is_some();
            assert!(decided, "{} is not in the suite", requirement.id);
        }
    }
    let known: Vec<&str> = register().map(|s| s.id).collect();
    for requirement in &suite.requirements {
        match requirement.id.starts_with("SES-") {
            true => assert_eq!(requirement.level, Level::Info, "{}", requirement.id),
            false => {
                assert!(
                    known.contains(&requirement.id.as_str()),
                    "{}",
                    requirement.id
                );
                assert_eq!(requirement.register, std::slice::from_ref(&requirement.id));
            }
        }
    }
}

/// Every requirement that can be broken has a mutant.
#[test]
fn every_requirement_has_a_mutant() {
    let suite = the_suite();
    let mutants = mutants();
    let ids: BTreeSet<&str> = mutants.iter().map(|m| m.id).collect();
    assert_eq!(ids.len(), mutants.len(), "duplicate ids");
    for mutant in &mutants {
        let requirement = suite.requirement(mutant.requirement);
        let requirement = requirement.unwrap_or_else(|| panic!("{}", mutant.id));
        assert!(matches!(mutant.verdict.as_str(), "fail" | "warn"));
        if requirement.level != Level::Must {
            assert_eq!(mutant.verdict.as_str(), "warn", "{}", mutant.id);
        }
    }
    for requirement in suite.requirements.iter().filter(|r| r.level != Level::May) {
        let broken = mutants.iter().any(|m| m.requirement == requirement.id);
        assert!(broken, "no mutant breaks {}", requirement.id);
    }
    assert!(mutants.len() >= 100 && variants().len() >= 15);
}

// --- verdicts -----------------------------------------------------------------------------

fn is_failure(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Fail | Verdict::Warn | Verdict::Error)
}

/// Each mutant has one defect and breaks one requirement. Runs the whole suite with mutants of all
/// kinds.
#[test]
fn mutants_break_no_other_requirement() {
    helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
    let chosen = [
        "se-label-ascii",
        "se-spawn-200",
        "se-forget-thin",
        "se-overlap-400",
        "se-stream-number",
        "se-tool-kill-id",
        "se-gate-stream",
    ];
    let all = mutants();
    let chosen: Vec<&Mutant> = all.iter().filter(|m| chosen.contains(&m.id)).collect();
    assert_eq!(chosen.len(), 7);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let reports: Vec<Report> = runtime.block_on(async {
        let bench = HostBench::open().expect("a bench");
        let trials = chosen
            .iter()
            .map(|mutant| bench.run_suite(&mutant.data, &[], 3));
        let reports: Vec<_> = stream::iter(trials).buffered(2).collect().await;
        bench.close().await;
        reports.into_iter().map(|r| r.expect("a report")).collect()
    });
    let mut others = Vec::new();
    for (mutant, report) in chosen.iter().zip(&reports) {
        let blamed = report.results.iter().filter(|r| is_failure(r.verdict));
        let (own, wrongly): (Vec<_>, Vec<_>) =
            blamed.partition(|r| r.requirement == mutant.requirement);
        assert!(!own.is_empty(), "{} survived", mutant.id);
        assert!(own.iter().all(|r| !r.evidence.is_empty()), "{}", mutant.id);
        others.extend(
            wrongly
                .iter()
                .map(|r| format!("{}: {} {}", mutant.id, r.requirement, r.message)),
        );
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

// --- servers that are not hosts -----------------------------------------------------------

const TOKEN: &str = "tok-3f9c1d7785a2";

/// A server that sends this answer to every connection and closes it.
fn host(answer: fn(&mut TcpStream, &str)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut asked = vec![0; 64 << 10];
                let count = stream.read(&mut asked).unwrap_or(0);
                let asked = String::from_utf8_lossy(&asked[..count]).into_owned();
                answer(&mut stream, &asked);
            });
        }
    });
    url
}

fn write_response(stream: &mut TcpStream, head: &str, body: &str) {
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
}

fn certify(home: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_agentproto"))
        .args(["certify", "--output", "json"])
        .args(args)
        .env("AGENTPROTO_HOME", home)
        .output()
        .expect("it runs")
}

/// Runs `certify` on a server that is not a host. Returns exit code and report.
fn certify_server(url: &str, more: &[&str]) -> (i32, Value) {
    let dir = tempfile::tempdir().expect("a directory");
    let token = dir.path().join("token");
    std::fs::write(&token, format!("{TOKEN}\n")).expect("written");
    let token = token.to_string_lossy();
    let mut args = vec!["--url", url, "--token-file", &token, "--timeout", "1"];
    args.extend(more);
    let output = certify(dir.path(), &args);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !said.contains(TOKEN) && !errors.contains(TOKEN),
        "the report contains the token"
    );
    assert!(!errors.contains("panicked"), "{errors}");
    let report: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{errors}"));
    assert_eq!(report["summary"]["certified"], false);
    assert_eq!(report["summary"]["error"], 0, "{report:#}");
    (output.status.code().unwrap_or(-1), report)
}

fn verdict<'r>(report: &'r Value, id: &str) -> &'r str {
    let rows = report["results"].as_array().expect("rows");
    let row = rows.iter().find(|r| r["requirement"] == id).expect("a row");
    row["verdict"].as_str().expect("a word")
}

#[test]
fn an_unreachable_host_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    drop(listener);
    let (code, report) = certify_server(&url, &[]);
    assert_eq!(code, 69);
    let why = report["summary"]["reason"].as_str().expect("a reason");
    assert!(
        why.contains("never answered") && why.contains("cannot reach the host"),
        "{why}"
    );
    assert_eq!(report["summary"]["fail"], 0);
}

#[test]
fn a_host_that_hangs_gets_a_verdict() {
    let url = host(|stream, _| {
        // Until the client gives up.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    });
    let (code, report) = certify_server(&url, &["--only", "record,routes,stream,mcp-tools"]);
    assert_eq!(verdict(&report, "A46-HTTP-03"), "fail", "{report:#}");
    assert_eq!(verdict(&report, "A46-HTTP-08"), "not_verified");
    assert_eq!(verdict(&report, "A46-MCP-01"), "not_verified");
    assert_eq!(code, 1);
}

#[test]
fn a_server_without_http_is_reported() {
    let url = host(|stream, _| {
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n");
    });
    let (code, report) = certify_server(&url, &[]);
    assert_eq!(code, 1);
    assert_eq!(verdict(&report, "A46-HTTP-03"), "fail");
    let text = report.to_string();
    assert!(text.contains("is not a status line"), "{text}");
}

#[test]
fn unrelated_servers_fail_without_breaking_the_run() {
    let page =
        host(|stream, _| write_response(stream, "200 OK\r\nContent-Type: text/html", "<html>"));
    let (code, report) = certify_server(&page, &[]);
    assert_eq!((code, verdict(&report, "A46-HTTP-03")), (1, "fail"));
    let broken = host(|stream, _| write_response(stream, "500 Oh", "{}"));
    let (code, report) = certify_server(&broken, &[]);
    assert_eq!((code, verdict(&report, "A46-HTTP-03")), (1, "fail"));
    // Endless bodies and endless heads.
    let flood = host(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        while stream.write_all(chunk.as_bytes()).is_ok() {}
    });
    let (code, _) = certify_server(&flood, &["--only", "record,mcp-tools,rebinding"]);
    assert_eq!(code, 1);
    let headers = host(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"x-more: and more\r\n").is_ok() {}
    });
    let (code, _) = certify_server(&headers, &["--only", "record,stream"]);
    assert_eq!(code, 1);
}

/// A host that refuses every request neither fails nor is certified.
#[test]
fn a_host_without_the_adapter_is_not_certified() {
    let url =
        host(|stream, _| write_response(stream, "404 Not Found", "{\"error\":\"no adapter\"}"));
    let (code, report) = certify_server(&url, &["--only", "record,kill,turn"]);
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(verdict(&report, "A46-HTTP-03"), "skip");
    let (_, report) = certify_server(&url, &["--adapter", "mine", "--only", "record"]);
    assert_eq!(verdict(&report, "A46-HTTP-03"), "not_verified");
}

/// A host that echoes the request: the evidence never contains the token.
#[test]
fn the_token_is_not_in_the_evidence() {
    let url = host(|stream, asked| {
        let body = serde_json::json!({"id": asked, "error": {"message": asked}});
        write_response(
            stream,
            "201 Created\r\nContent-Type: application/json",
            &body.to_string(),
        );
    });
    // `certify_server` checks for the token.
    let (code, report) = certify_server(&url, &[]);
    assert_eq!(code, 1);
    assert!(report.to_string().contains("[secret]"));
}

// --- the command --------------------------------------------------------------------------

#[test]
fn usage_errors_are_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let empty = dir.path().join("empty");
    std::fs::write(&empty, "\n").expect("written");
    let empty = empty.to_string_lossy();
    for (args, code, said) in [
        (vec!["--suite", "sessions"], 69, "agentproto serve"),
        (vec!["--url", "localhost:1"], 64, "http"),
        (vec!["--url", "http://u:p@x"], 64, "--token-file"),
        (
            vec!["--url", "http://x", "--suite", "acp"],
            64,
            "session suites only",
        ),
        (
            vec!["--suite", "sessions", "--mock", "acp"],
            64,
            "session suites only",
        ),
        (
            vec!["--suite", "sessions", "--", "cat"],
            64,
            "session suites only",
        ),
        (vec!["--mock", "acp", "--adapter", "x"], 64, "--adapter"),
        (
            vec!["--url", "http://x", "--cwd", "work"],
            64,
            "absolute path",
        ),
        (
            vec!["--url", "http://x", "--prefix", "sessions"],
            64,
            "--prefix",
        ),
        (
            vec!["--url", "http://x", "--mcp-command", "no-such-program"],
            64,
            "not found",
        ),
        (
            vec!["--mcp-command", "x"],
            64,
            "applies only to session hosts",
        ),
        (
            vec!["--url", "http://x", "--token-file", "/no/such"],
            66,
            "does not exist",
        ),
        (
            vec!["--url", "http://x", "--token-file", &empty],
            65,
            "does not contain a token",
        ),
    ] {
        let output = certify(dir.path(), &args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.contains(said), "{args:?}: {errors}");
    }
}

/// A daemon, killed on drop.
struct Daemon(std::process::Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// As a user would do it: `certify` finds our running daemon and certifies it.
#[test]
fn our_daemon_is_certified() {
    let home = tempfile::tempdir().expect("a directory");
    let child = Command::new(env!("CARGO_BIN_EXE_agentproto"))
        .args(["serve", "--port", "0"])
        .env("AGENTPROTO_HOME", home.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("started");
    let mut daemon = Daemon(child);
    // It prints its first line when it listens.
    let mut first = [0; 16];
    let stdout = daemon.0.stdout.as_mut().expect("a pipe");
    stdout.read_exact(&mut first).expect("its first words");
    // The MCP tools over HTTP, and over the standard streams of `agentproto mcp`.
    let binary = env!("CARGO_BIN_EXE_agentproto");
    let command = format!("'{binary}' mcp");
    let over_stdio = ["--mcp-command", &command];
    let unknown = ["A46-WS-08", "A46-COMPAT-03", "SES-06", "SES-07"];
    for (more, not_applicable) in [(&[][..], &unknown[..]), (&over_stdio[..], &unknown[..2])] {
        let args = [&["--suite", "sessions"], more].concat();
        is_certified(&certify(home.path(), &args), not_applicable);
    }
}

fn is_certified(output: &Output, not_applicable: &[&str]) {
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let rows = report["results"].as_array().expect("rows");
    let blamed = rows.iter().filter(|r| {
        !["pass", "n_a", "not_verified"].contains(&r["verdict"].as_str().unwrap_or_default())
    });
    let blamed: Vec<&Value> = blamed.collect();
    assert!(blamed.is_empty(), "{blamed:#?}");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(report["summary"]["certified"], true, "{report:#}");
    // The check that takes half a minute is not run. The others do not apply to this host.
    let open = |verdict: &str| {
        let rows = rows.iter().filter(|r| r["verdict"] == verdict);
        let ids: Vec<&str> = rows.filter_map(|r| r["requirement"].as_str()).collect();
        ids
    };
    assert_eq!(open("not_verified"), ["A46-SSE-06"]);
    assert_eq!(open("n_a"), not_applicable);
    assert_eq!(report["target"]["kind"], "url");
}
