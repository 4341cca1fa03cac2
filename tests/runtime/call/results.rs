//! Results, exit codes, time limits and output of a call.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Aviary, tool};
use agentproto_suites::proves;

#[test]
fn the_result_has_its_schema_and_the_output_in_its_format() {
    proves!("A29-OUT-01", "A29-OUT-14");
    let schema: Value =
        serde_json::from_str(include_str!("../../../schemas/call-result.schema.json"))
            .expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let aviary = Aviary::new("");
    let result = aviary.result(&["run", "say", "--text", "hello"], 0);
    assert!(schema.is_valid(&result), "{result:#}");
    assert_eq!(result["schema"], "agentproto.call/v1");
    assert_eq!(result["command"], "run say");
    assert_eq!(result["target"]["id"], "bird");
    assert_eq!(
        (&result["ok"], &result["exit_code"], &result["meaning"]),
        (&json!(true), &json!(0), &json!("ok"))
    );
    assert_eq!(
        (&result["text"], &result["value"]),
        (&json!("hello"), &Value::Null)
    );
    assert_eq!(result["stderr"], "a note\n");
    let cases = [("json", "json"), ("yaml", "yaml"), ("binary", "bytes")];
    for (format, verb) in cases {
        let aviary = Aviary::new(&format!("output: {{ default_format: {format} }}"));
        let result = aviary.result(&["run", "any", "--verb", verb], 0);
        assert!(schema.is_valid(&result), "{result:#}");
        match format {
            "json" => assert_eq!(result["value"]["items"], json!([1, 2])),
            "yaml" => assert_eq!(result["value"], json!({ "items": [1, "two"] })),
            _ => assert_eq!(
                (&result["base64"], &result["text"]),
                (&json!("/wBh"), &Value::Null)
            ),
        }
        if format == "binary" {
            assert_eq!(
                aviary.bird(&["run", "any", "--verb", "bytes"]).exits(0).out,
                b"\xff\0a"
            );
        }
    }
}

#[test]
fn output_that_is_not_in_its_format_is_reported() {
    let aviary = Aviary::new("output: { default_format: json }");
    let result = aviary.result(&["run", "say", "--text", "{ not json"], 1);
    assert_eq!(result["ok"], false);
    assert_eq!(result["error"]["code"], "output_invalid");
    assert_eq!(result["text"], "{ not json");
    let more = "x-unused: 1\n".replace("x-unused: 1\n", "");
    aviary.write(
        "bird/tools/say/TOOL.md",
        &tool(
            "say",
            "{ text: { type: string } }",
            r#"[say, "${input.text}"]"#,
            &more,
        )
        .replace(
            "outputs: { }",
            "outputs: { type: object, required: [number] }",
        ),
    );
    let result = aviary.result(&["run", "say", "--text", "{}"], 0);
    assert_eq!(result["warnings"][0]["code"], "output_schema_mismatch");
    let result = aviary.result(&["run", "say", "--text", "{\"number\":1}"], 0);
    assert_eq!(result["warnings"], json!([]));
}

#[test]
fn exit_codes_have_declared_and_reserved_meanings() {
    proves!(
        "A29-OUT-04",
        "A29-OUT-06",
        "A29-OUT-07",
        "A29-OUT-09",
        "A29-OUT-10",
        "A29-OUT-11"
    );
    let aviary = Aviary::new("output: { exit_codes: { 0: ok, 3: rate_limited, 5: ok } }");
    for (tool_code, meaning, code) in [
        ("1", "error", 1),
        ("2", "usage_error", 1),
        ("3", "rate_limited", 1),
        ("4", "auth_required", 77),
        ("5", "ok", 0),
        ("9", "error", 1),
        ("124", "timeout", 75),
        ("137", "killed", 1),
    ] {
        let result = aviary.result(&["run", "exit", "--code", tool_code], code);
        assert_eq!(result["meaning"], meaning, "{tool_code}");
        assert_eq!(result["exit_code"].to_string(), tool_code);
        assert_eq!(result["stderr"], "it broke\n");
        assert_eq!(result["ok"], code == 0);
    }
    let result = aviary.result(&["run", "any", "--verb", "kill"], 1);
    assert_eq!(
        (&result["meaning"], &result["exit_code"]),
        (&json!("killed"), &json!(137))
    );
    let ran = aviary.bird(&["run", "exit", "--code", "3"]).exits(1);
    assert!(
        ran.err.contains("it broke\n") && ran.err.contains("exit code 3 (rate_limited)"),
        "{}",
        ran.err
    );
}

#[test]
fn a_slow_tool_is_killed_at_its_time_limit() {
    let aviary = Aviary::new("");
    let started = Instant::now();
    let ran = aviary.call(&[
        "--timeout",
        "1",
        "--output",
        "json",
        "../bird",
        "run",
        "any",
        "--verb",
        "sleep",
    ]);
    let result = ran.exits(75).json();
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(
        (&result["meaning"], &result["text"]),
        (&json!("timeout"), &json!("started\n"))
    );
    assert_eq!(result["error"]["code"], "tool_timeout");
    // The TOOL.md's own limit applies, and the caller cannot extend it.
    aviary.tool(
        "any",
        "{ verb: { type: string } }",
        r#"["${input.verb}"]"#,
        "timeout_ms: 500",
    );
    let ran = aviary.call(&[
        "--timeout",
        "50",
        "--output",
        "json",
        "../bird",
        "run",
        "any",
        "--verb",
        "sleep",
    ]);
    let result = ran.exits(75).json();
    assert_eq!(result["warnings"][0]["code"], "timeout_not_extended");
}

#[test]
fn a_flood_is_cut_in_the_result_and_streamed_as_text() {
    let aviary = Aviary::new("");
    aviary.tool(
        "any",
        "{ verb: { type: string } }",
        r#"["${input.verb}"]"#,
        "timeout_ms: 3000",
    );
    let ran = aviary.call(&[
        "--output", "json", "../bird", "run", "any", "--verb", "flood",
    ]);
    let result = ran.exits(75).json();
    assert_eq!(result["truncated"], true);
    assert!(
        result["text"]
            .as_str()
            .is_some_and(|text| text.len() <= 8 << 20)
    );
    // A reader that stops reading ends the tool.
    let mut command = aviary.command(&["../bird", "run", "any", "--verb", "flood"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let mut first = [0; 64];
    let mut stdout = child.stdout.take().expect("a pipe");
    std::io::Read::read_exact(&mut stdout, &mut first).expect("output");
    drop(stdout);
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}

/// Calls the tool that prints 1 GiB. Returns the result, and the peak memory in MiB.
#[expect(
    clippy::zombie_processes,
    reason = "`wait4` waits for it, and returns its memory"
)]
fn call_giant(aviary: &Aviary) -> (Value, i64) {
    let args = [
        "--output", "json", "../bird", "run", "any", "--verb", "giant",
    ];
    let mut command = aviary.command(&args);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let mut text = String::new();
    let mut stdout = child.stdout.take().expect("a pipe");
    std::io::Read::read_to_string(&mut stdout, &mut text).expect("text");
    let (mut status, pid) = (0, i32::try_from(child.id()).expect("a pid"));
    // SAFETY: all bytes zero is a valid value of this structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the process is a child of this test, and only this function waits for it.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    assert_eq!(waited, pid);
    let result = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:.300}"));
    (result, usage.ru_maxrss / 1024)
}

#[test]
fn a_gigabyte_of_output_is_bounded_in_memory() {
    const GIBIBYTE: &str = "1073741824";
    let aviary = Aviary::new("output: { default_format: json }");
    aviary.replace("bird/CLI.md", "[sh, sleep,", "[sh, sleep, head, tr,");
    aviary.replace(
        "bird/tools/any/TOOL.md",
        "timeout_ms: 20000",
        "timeout_ms: 120000",
    );
    // Valid JSON, so that only its length is wrong.
    let giant = r#"  giant) printf '"'; head -c 1073741822 /dev/zero | tr '\0' x; printf '"' ;;"#;
    aviary.replace("bird/bin/bird", "  bytes)", &format!("{giant}\n  bytes)"));
    let small = aviary.result(&["run", "any", "--verb", "json"], 0);
    assert_eq!(small["ok"], true);
    let (result, peak) = call_giant(&aviary);
    assert_eq!(
        result["error"]["code"], "output_invalid",
        "{}",
        result["error"]
    );
    let message = result["error"]["message"].as_str().expect("text");
    assert!(message.contains("longer than 8388608 bytes"), "{message}");
    let warning = result["warnings"][0]["message"].as_str().expect("text");
    assert!(
        warning.contains(&format!("has {GIBIBYTE} bytes")),
        "{warning}"
    );
    // The result contains at most 8 MiB of output, and is built and printed once each.
    assert!(peak < 200, "{peak} MiB");
}

#[test]
fn an_interrupt_ends_the_tool() {
    let aviary = Aviary::new("");
    for output in ["text", "jsonl"] {
        let args = [
            "--output", output, "../bird", "run", "any", "--verb", "sleep",
        ];
        let mut command = aviary.command(&args);
        let mut child = command
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("started");
        let mut stdout = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
        let mut lines = String::new();
        while !lines.contains("started") {
            assert_ne!(
                std::io::BufRead::read_line(&mut stdout, &mut lines).expect("a line"),
                0,
                "{lines}"
            );
        }
        // SAFETY: a process of this test.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        std::io::Read::read_to_string(&mut stdout, &mut lines).expect("the rest");
        assert_eq!(child.wait().expect("an end").code(), Some(130), "{lines}");
        if output == "jsonl" {
            let last: Value =
                serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
            assert_eq!(
                (&last["type"], &last["reason"]),
                (&json!("aoi:summary"), &json!("interrupted"))
            );
        }
    }
}

#[test]
fn background_processes_do_not_outlive_the_call() {
    let aviary = Aviary::new("");
    let started = Instant::now();
    aviary.bird(&["run", "any", "--verb", "leave"]).exits(0);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn events_show_the_output_and_then_the_result() {
    let aviary = Aviary::new("");
    let ran = aviary
        .call(&[
            "--output", "jsonl", "../bird", "run", "say", "--text", "hällo",
        ])
        .exits(0);
    let text = ran.text();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let kinds: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["type"].as_str())
        .collect();
    let kinds: Vec<&str> = kinds
        .into_iter()
        .filter(|kind| *kind != "aoi:progress")
        .collect();
    assert_eq!(kinds.first(), Some(&"aoi:meta"));
    assert_eq!(kinds[kinds.len() - 2..], ["result", "aoi:summary"]);
    let said = lines
        .iter()
        .filter(|line| line["type"] == "tool-output" && line["stream"] == "stdout");
    let said: String = said.filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(said, "hällo");
    let ran = aviary
        .call(&["--output", "jsonl", "../bird", "run", "exit", "--code", "1"])
        .exits(1);
    assert!(ran.text().contains("\"TOOL_FAILED\""), "{}", ran.text());
    let ran = aviary.call(&["--output", "jsonl", "../bird"]).exits(0);
    assert_eq!(ran.text().matches("\"type\":\"tool-command\"").count(), 6);
}
