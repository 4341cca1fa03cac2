//! `sandbox` and `doctor`: human output, machine-readable output and exit codes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::outputs::{schema, valid};
use crate::support::Dir;

const READER: &str = "network: { egress: [] }\nfs: { read: ['./**'] }\nexec: { allow: false }\n";

fn dir() -> Dir {
    let dir = Dir::new();
    dir.write("reader.yaml", READER);
    dir.write("note.txt", "a note\n");
    dir
}

#[test]
fn explain_lists_every_clause_in_every_format() {
    let dir = dir();
    let report = dir.run(&["sandbox", "explain", "reader.yaml", "-o", "json"]);
    let report = report.exits(0).json();
    assert_eq!(report["schema"], "agentproto.sandbox/v1");
    assert_eq!(report["enforceable"], true);
    let clauses = report["clauses"].as_array().expect("clauses");
    let read = clauses.iter().find(|c| c["text"] == "fs.read ./**");
    let read = read.expect("the read clause");
    assert_eq!(read["pointer"], "/fs/read/0");
    assert_eq!(read["standing"], "enforced");
    let validator = schema(&dir, "events");
    for args in [
        &["sandbox", "explain", "reader.yaml", "-o", "jsonl"] as &[&str],
        &[
            "sandbox",
            "run",
            "reader.yaml",
            "-o",
            "jsonl",
            "--",
            "cat",
            "note.txt",
        ],
        &[
            "sandbox",
            "run",
            "reader.yaml",
            "-o",
            "jsonl",
            "--",
            "no-such-program",
        ],
        &["sandbox", "explain", "nowhere.yaml", "-o", "jsonl"],
        &["doctor", "-o", "jsonl"],
    ] {
        let lines = dir.run(args).lines();
        assert_eq!(lines[0]["type"], "aoi:meta", "{args:?}");
        assert_eq!(lines[lines.len() - 1]["type"], "aoi:summary", "{args:?}");
        for line in &lines {
            valid(&validator, line);
        }
    }
}

/// A29-SEC-05: a clause that cannot be enforced stops the run, and the error names the clause.
#[test]
fn an_unenforceable_clause_is_refused_and_named() {
    agentproto_suites::proves!("A29-SEC-05");
    let dir = dir();
    dir.write(
        "later.yaml",
        "network: { egress: [] }\nfs: { write: ['./**'], deny: ['./*.key'] }\nexec: { allow: false }\n",
    );
    let ran = dir.run(&["sandbox", "run", "later.yaml", "--", "touch", "ran"]);
    let ran = ran.exits(69);
    assert!(ran.err.contains("sandbox_unenforceable"), "{}", ran.err);
    // The error, the clause, the reason and the advice each have their own line.
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines.len(), 4, "{}", ran.err);
    assert!(lines[0].ends_with("so nothing was executed"), "{}", ran.err);
    assert_eq!(lines[1], "  `fs.deny ./*.key`");
    assert!(
        lines[3].contains("`agentproto sandbox explain`"),
        "{}",
        ran.err
    );
    assert!(!dir.at("ran").exists());
    dir.run(&["sandbox", "explain", "later.yaml"]).exits(1);
    let args = ["sandbox", "run", "later.yaml", "-o", "jsonl", "--", "true"];
    let lines = dir.run(&args).exits(69).lines();
    assert_eq!(lines[1]["code"], "SANDBOX_UNENFORCEABLE");
    let message = lines[1]["message"].as_str().expect("a message");
    assert!(
        message.contains("executed: `fs.deny ./*.key`: "),
        "{message}"
    );
}

const TOOL: &str = "---\nname: Tern\nid: tern\ndescription: Counts.\nversion: 1.0.0\nbin: cat\n\
    install: [{ method: apt, package: coreutils }]\n\
    version_check: { cmd: cat --version, parse: '(\\d+)', range: '*' }\n\
    sandbox:\n  network: {}\n  fs: {}\n  exec: EXEC\n  env: { pass: PASS }\n\
    commands: {}\n---\n";

#[test]
fn a_clause_that_grants_everything_is_not_called_enforced() {
    let dir = dir();
    let manifest = TOOL
        .replace("EXEC", "{ allow: false }")
        .replace("PASS", "['*']");
    dir.write("CLI.md", &manifest);
    let out = dir.run(&["sandbox", "explain", "CLI.md"]).exits(0).out;
    let line = out.lines().find(|line| line.contains("env.pass *"));
    let line = line.expect("a line for the clause");
    assert!(line.starts_with("  ! "), "{line}");
    assert!(line.contains("grants everything: "), "{line}");
    assert!(!out.contains("the environment starts empty"), "{out}");
    let last = out.lines().last();
    assert_eq!(
        last,
        Some("Every clause is enforced, but 1 clause grants everything.")
    );
}

#[test]
fn the_result_for_an_invalid_manifest_says_that_it_cannot_run() {
    let dir = dir();
    let manifest = TOOL.replace("EXEC", "{}").replace("PASS", "[]");
    dir.write(
        "CLI.md",
        &manifest.replace("version: 1.0.0", "version: one"),
    );
    let ran = dir.run(&["sandbox", "explain", "CLI.md"]).exits(0);
    let last = ran.out.lines().last().unwrap_or_default();
    assert_eq!(
        last,
        "The manifest has 2 errors, so it cannot run: see `agentproto lint CLI.md`. Apart from \
         that, every clause is enforced."
    );
    assert!(
        ran.out.contains("exec.allow false (default)"),
        "{}",
        ran.out
    );
}

#[test]
fn a_file_that_is_not_a_sandbox_is_explained() {
    let dir = dir();
    dir.write("open.yaml", "network: {egress: [\n");
    let ran = dir.run(&["sandbox", "explain", "open.yaml"]).exits(65);
    let what = "open.yaml:1:10: the file is not valid YAML: this bracket is never closed";
    assert!(ran.err.contains(what), "{}", ran.err);
    let ran = dir.run(&["sandbox", "explain", "note.txt"]).exits(65);
    assert!(
        ran.err.contains("or a YAML file with a sandbox block"),
        "{}",
        ran.err
    );
    dir.write("p.yaml", "a: [\n");
    for args in [
        &["certify", "--prompts", "p.yaml", "--", "cat"] as &[&str],
        &["aoi-lint", "--probe", "p.yaml"],
    ] {
        let ran = dir.run(args).exits(65);
        let what = "p.yaml:1:4: the file is not valid YAML: this bracket is never closed";
        assert!(ran.err.contains(what), "{args:?}: {}", ran.err);
        assert!(!ran.err.contains("allowed keys"), "{}", ran.err);
    }
}

#[test]
fn a_clause_without_effect_is_not_called_enforced() {
    let dir = dir();
    dir.write(
        "absent.yaml",
        "network: { egress: [] }\nfs: { read: ['nowhere/**'] }\nexec: { allow: true, spawn: [no-such-program] }\n",
    );
    let explained = dir.run(&["sandbox", "explain", "absent.yaml"]).exits(0);
    for (clause, why) in [
        ("fs.read nowhere/**", "nothing on this machine matches"),
        (
            "exec.spawn no-such-program",
            "the program is not installed on this machine",
        ),
    ] {
        let line = explained.out.lines().find(|line| line.contains(clause));
        let line = line.expect("a line for the clause");
        assert!(line.starts_with("  – "), "{line}");
        assert!(line.ends_with(&format!("no effect: {why}")), "{line}");
    }
}

#[test]
fn each_refusal_has_its_exit_code() {
    let dir = dir();
    dir.write(
        "cloud.yaml",
        "provider: mastra-e2b\nconfig: { template: x }\n",
    );
    dir.write(
        "sealed.yaml",
        "provider: local\nconfig: {}\nread_only: true\n",
    );
    dir.write(
        "typo.yaml",
        "network: { egress: 7 }\nfs: {}\nexec: { allow: false }\n",
    );
    for (file, code, word) in [
        ("cloud.yaml", 69, "sandbox_unsupported_provider"),
        ("sealed.yaml", 77, "sandbox_read_only"),
        ("typo.yaml", 65, "typo.yaml:1:20"),
        ("nowhere.yaml", 66, "manifest_unreadable"),
    ] {
        let ran = dir.run(&["sandbox", "run", file, "--", "true"]).exits(code);
        assert!(ran.err.contains(word), "{file}: {}", ran.err);
    }
    dir.run(&["sandbox", "run", "reader.yaml"]).exits(64);
}

/// Streams and exit code are those of the child. On failure, the message names the clause that
/// caused it.
#[test]
fn a_run_passes_through_streams_and_exit_code() {
    agentproto_suites::proves!("A29-SBX-01");
    let dir = dir();
    let run = |args: &[&str]| {
        let mut all = vec!["sandbox", "run", "reader.yaml", "--"];
        all.extend(args);
        dir.run(&all)
    };
    assert_eq!(run(&["cat", "note.txt"]).exits(0).out, "a note\n");
    let ran = run(&["touch", "./new"]).exits(1);
    assert!(
        ran.err.contains("`fs.write` does not include"),
        "{}",
        ran.err
    );
    let ran = run(&["cat", "/etc/hostname", "/root/x"]).exits(1);
    assert!(!ran.out.contains("a note"));
    let ran = run(&["sh", "-c", "kill -TERM $$"]);
    assert_eq!(ran.code, 143);
}

#[test]
fn a_time_limit_ends_the_run() {
    let dir = dir();
    let started = Instant::now();
    let args = [
        "sandbox",
        "run",
        "reader.yaml",
        "--timeout",
        "0.3",
        "--",
        "sleep",
        "60",
    ];
    let ran = dir.run(&args).exits(75);
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(ran.err.contains("time limit"), "{}", ran.err);
    dir.run(&[
        "sandbox",
        "run",
        "reader.yaml",
        "--timeout",
        "-1",
        "--",
        "true",
    ])
    .exits(64);
}

/// The probe program of the escape tests. `cargo test` builds it next to the tests.
fn probe() -> String {
    let own = std::env::current_exe().expect("own path");
    let built = own.parent().and_then(|dir| dir.parent()).expect("a target");
    let path = built.join("examples/escape_probe");
    assert!(path.exists(), "run `cargo build --example escape_probe`");
    path.to_str().expect("a path").to_owned()
}

/// A29-SBX-02: the proxy's decision is written to the audit file.
#[test]
fn every_decision_is_audited() {
    let dir = dir();
    dir.write(
        "one.yaml",
        "network: { egress: [allowed.invalid] }\nfs: { read: ['./**'] }\nexec: { allow: false }\n",
    );
    let probe = probe();
    let args = [
        "sandbox",
        "run",
        "one.yaml",
        "--audit",
        "audit.jsonl",
        "--",
        &probe,
        "proxy_connect",
        "127.0.0.1:3128",
        "other.invalid:443",
    ];
    let ran = dir.run(&args);
    assert!(ran.out.contains("blocked"), "{}{}", ran.out, ran.err);
    let entry: serde_json::Value =
        serde_json::from_str(dir.read("audit.jsonl").trim()).expect("one entry");
    assert_eq!(entry["event"], "refused");
    assert_eq!(entry["host"], "other.invalid");
}

/// A29-SBX-04: a port inside the sandbox is reachable through the same port on the host's loopback
/// interface.
#[test]
fn an_inbound_url_is_exposed() {
    agentproto_suites::proves!("A29-SBX-04");
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a port")
        .port();
    let dir = dir();
    dir.write(
        "in.yaml",
        &format!(
            "network: {{ egress: [], ingress: ['http://localhost:{port}/callback'] }}\nfs: {{ read: ['./**'] }}\nexec: {{ allow: false }}\n"
        ),
    );
    let binary = assert_cmd::cargo::cargo_bin("agentproto");
    let mut child = std::process::Command::new(binary)
        .args([
            "sandbox",
            "run",
            "in.yaml",
            "--",
            &probe(),
            "serve_once",
            &port.to_string(),
        ])
        .current_dir(dir.path())
        .spawn()
        .expect("started");
    let answer = (0..200).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.write_all(b"hello").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        (!text.is_empty()).then_some(text)
    });
    assert_eq!(answer.as_deref(), Some("from inside"));
    child.wait().expect("ended");
}

/// A repository may protect more, but must not weaken the sandbox.
#[test]
fn only_a_named_configuration_weakens_the_sandbox() {
    let dir = Dir::new();
    let policy = "fs: { write: ['./**'] }\nexec: { allow: true, spawn: [mkdir] }\n";
    dir.write("policy.yaml", policy);
    let make = |name: &str, more: &[&str]| {
        let mut args = vec!["sandbox", "run", "policy.yaml"];
        args.extend(more);
        args.extend(["--", "mkdir", name]);
        dir.run(&args)
    };
    make(".vscode", &[]).exits(1);
    make("plain", &[]).exits(0);
    for key in ["unprotect = ['.vscode']", "processes = 0", "private-mb = 9"] {
        dir.write("agentproto.toml", &format!("[sandbox]\n{key}\n"));
        let refused = make(".vscode", &[]).exits(78);
        assert!(refused.err.contains("--config"), "{}", refused.err);
    }
    dir.write("agentproto.toml", "[sandbox]\nprotect = ['.github']\n");
    make(".github", &[]).exits(1);
    dir.write("own.toml", "[sandbox]\nunprotect = ['.vscode']\n");
    make(".vscode", &["--config", "own.toml"]).exits(0);
    dir.write("own.toml", "[sandbox]\nunprotect = ['../x']\n");
    make("other", &["--config", "own.toml"]).exits(65);
}
