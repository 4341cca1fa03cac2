//! Less obvious defects: they show only in a certain place, on a terminal, in a locale, in a new home
//! directory or after another run.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use super::discover::{CAPABILITIES, SCHEMA, has_route};
use super::tools::*;
use crate::aoi::habits::{early_meta, slower_watch, without_late_meta};

const INT: RunCondition = RunCondition::Signal(libc::SIGINT);
const DELETE: &[&str] = &["delete", "item-0001"];
const DOCUMENTS: &[&str] = &["list", "--documents"];
const IMPORT: &[&str] = &["import", "--input-jsonl", "-"];
const RANK: &[&str] = &["rank", "--input-jsonl", "-"];

const TRACE: &str = "It failed.\nTraceback (most recent call last):\n  File \"cli.py\", line 3, in main\nValueError: x";

pub fn mutants() -> Vec<AoiMutant> {
    let groups = [
        discovery(),
        wording(),
        usage(),
        streaming(),
        upstream(),
        safety(),
        signals(),
    ];
    groups.into_iter().flatten().collect()
}

fn discovery() -> Vec<AoiMutant> {
    vec![
        mutant(
            "aoi-advisory-schema-tries-network",
            "AOI-adv.discovery-network",
        )
        .describe("`schema` looks for updates, although it works without a network.")
        .violates(&["AOI-3-01"])
        .run(SCHEMA)
        .start(|info| {
            if info.command == "schema" && !has_route() {
                stderr("mock-aoi: cannot look for updates: network is unreachable\n");
            }
            None
        })
        .at(RunCondition::NoNetwork)
        .expect_warning(),
        mutant("aoi-01-schema-writes-file", "AOI-01.discovery-writes")
            .describe("`schema` writes a file into the working directory.")
            .run(SCHEMA)
            .start(|info| {
                if info.command == "schema" {
                    let _ = fs::write("mock-aoi-schema.json", "{}\n");
                }
                None
            })
            .expect_warning(),
        mutant(
            "aoi-advisory-lists-missing-command",
            "AOI-adv.command-missing",
        )
        .describe("The capabilities list a command that does not exist.")
        .run(CAPABILITIES)
        .document(|document| {
            let commands = document.get_mut("commands").and_then(Value::as_array_mut);
            let Some(commands) = commands else { return };
            let get = commands.iter().find(|one| text(one, "name") == "get");
            let Some(mut archive) = get.cloned() else {
                return;
            };
            set(&mut archive, "name", "archive");
            commands.push(archive);
        })
        .expect_warning(),
        mutant(
            "aoi-advisory-input-schema-differs",
            "AOI-adv.input-schema-differs",
        )
        .describe("The input schema of `import` requires a field that the command does not know.")
        .violates(&["AOI-12.1-02", "AOI-16.2-02"])
        .run(&["input-schema", "--output", "json", "--command", "import"])
        .document(|document| {
            if text(document, "title") == "An item to make" {
                set(document, "required", json!(["title"]));
                set(
                    document,
                    "properties",
                    json!({ "title": { "type": "string" } }),
                );
            }
        })
        .expect_warning(),
        mutant("aoi-11-limit-undeclared", "AOI-11.limit")
            .describe("Only the help mentions `--limit`.")
            .violates(&["AOI-18.2-11"])
            .run(CAPABILITIES)
            .command("search", |search| {
                remove(search, "supports_limit");
                remove(search, "supports_cursor");
            })
            .expect_not_verified(),
    ]
}

fn wording() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-02-trace-in-message", "AOI-02.trace-in-event")
            .describe("The message of an error is a stack trace.")
            .run(&["search"])
            .event("aoi:error", sets("message", TRACE)),
        mutant("aoi-02-warning-in-note", "AOI-02.warning-in-event")
            .describe("A warning is text in a hit.")
            .violates(&["AOI-2-10"])
            .event("hit", sets("note", "Warning: the cache is old."))
            .expect_warning(),
        mutant("aoi-05-category-of-another-code", "AOI-05.category-code")
            .describe("The error NO_SUCH_ITEM has the category conflict.")
            .violates(&["AOI-9.1-05"])
            .run(&["get", "absent"])
            .event_if(
                failed("not_found"),
                "aoi:error",
                sets("category", "conflict"),
            )
            .expect_warning(),
        mutant("aoi-03-error-count-of-warnings", "AOI-03.error-count")
            .describe("`doctor` counts a check with a warning as an error.")
            .violates(&["AOI-8.3-13", "AOI-19-03"])
            .run(&["doctor"])
            .events(|info, _, mut event| {
                if is(&event, "aoi:check") && text(&event, "name") == "state" {
                    set(&mut event, "severity", "warning");
                }
                if is(&event, "aoi:summary") && info.command == "doctor" && info.failure.is_none() {
                    set(&mut event, "error_count", 1);
                }
                send(event)
            }),
        mutant("aoi-02-spinner-on-terminal", "AOI-02.terminal")
            .describe("If there is a terminal, a spinner is drawn on it.")
            .violates(&["AOI-1.2-02", "AOI-2-07"])
            .start(|_| {
                if let Some(mut terminal) = terminal() {
                    let _ = terminal.write_all(b"\r| working");
                }
                None
            })
            .at(RunCondition::Terminal),
        mutant("aoi-02-locale-encoding", "AOI-02.utf8")
            .describe("Text is encoded as the locale says.")
            .event("hit", sets("title", "Über Signale"))
            .lines(|_, line| match locale().contains("8859-1") {
                true => latin1(&line),
                false => line,
            })
            .env("LC_ALL", "de_DE.ISO-8859-1"),
        mutant("aoi-02-decimal-comma", "AOI-02.object")
            .describe("Numbers have a decimal comma if the locale says so.")
            .violates(&["AOI-2-02"])
            .lines(|_, line| match locale().starts_with("de_") {
                true => hits(line, |text| text.replace("\"rank\":1,", "\"rank\":1,0,")),
                false => line,
            })
            .env("LC_ALL", "de_DE.ISO-8859-1"),
    ]
}

fn usage() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-05-limit-with-letters", "AOI-05.bad-value")
            .describe("Letters after a limit are ignored.")
            .violates(&["AOI-6-02", "AOI-18.2-05"])
            .run(&["search", "x", "--limit", "7x"])
            .args(|mut args| {
                let at = args.iter().position(|word| word == "--limit");
                if let Some(value) = at.and_then(|at| args.get_mut(at + 1))
                    && value.starts_with(|c: char| c.is_ascii_digit())
                {
                    *value = value.trim_end_matches(char::is_alphabetic).to_owned();
                }
                args
            }),
        mutant("aoi-05-negative-limit-passes", "AOI-05.bad-value")
            .describe("A negative limit is replaced by the default.")
            .violates(&["AOI-6-02", "AOI-18.2-05"])
            .run(&["search", "x", "--limit", "-1"])
            .args(|args| {
                let at = args.iter().position(|word| word == "--limit");
                let value = at.and_then(|at| args.get(at + 1));
                match value.is_some_and(|value| value.starts_with('-')) {
                    true => without(args, "--limit", true),
                    false => args,
                }
            }),
        mutant("aoi-03-get-never-ends", "AOI-03.exit-not-zero")
            .describe("`get` is declared as bounded, but does not end.")
            .violates(&["AOI-4.1-01", "AOI-18.2-03"])
            .run(&["get", "doc-001"])
            .events(
                |info, _, event| match info.command == "get" && is(&event, "entry") {
                    true => hang(),
                    false => send(event),
                },
            )
            .hangs(),
    ]
}

fn streaming() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-11-holds-back-the-rest", "AOI-11.streams")
            .describe("`search` writes the first result at once, and the others with the summary.")
            .violates(&["AOI-0-05", "AOI-21-01"])
            .run(&["search", "x", "--delay-ms", "5"])
            .event_if(of_command("search"), "aoi:summary", sets("batched", true))
            .lines(holding("search", "\"hit\"", 1)),
        mutant("aoi-11-slow-list-held-back", "AOI-11.streams")
            .describe("A long `list` is written only when it is complete.")
            .violates(&["AOI-0-05", "AOI-21-01"])
            .run(DOCUMENTS)
            .events(|info, _, mut event| {
                let is_long = info.command == "list" && !info.has("--delay-ms");
                if is_long && is(&event, "entry") && info.has("--documents") {
                    std::thread::sleep(Duration::from_millis(40));
                }
                if is_long && is(&event, "aoi:summary") {
                    set(&mut event, "batched", true);
                }
                send(event)
            })
            .lines(held_without_delay()),
    ]
}

/// Holds back the results of `list`, except with `--delay-ms`.
fn held_without_delay() -> impl Fn(&RunInfo, Vec<u8>) -> Vec<u8> + Send + Sync + 'static {
    let held = holding("list", "\"entry\"", 0);
    move |info: &RunInfo, line: Vec<u8>| match info.has("--delay-ms") {
        true => line,
        false => held(info, line),
    }
}

/// Holds back the lines with results of a command, after this many of them, until the summary.
fn holding(
    command: &'static str,
    result: &'static str,
    passed: usize,
) -> impl Fn(&RunInfo, Vec<u8>) -> Vec<u8> + Send + Sync + 'static {
    let held = Mutex::new((0, Vec::new()));
    move |info: &RunInfo, line: Vec<u8>| {
        let contains = |part: &str| memchr::memmem::find(&line, part.as_bytes()).is_some();
        let (is_result, is_summary) = (contains(result), contains("aoi:summary"));
        let Ok(mut held) = held.lock() else {
            return line;
        };
        if info.command == command && is_result {
            held.0 += 1;
            if held.0 > passed {
                held.1.extend_from_slice(&line);
                return Vec::new();
            }
        }
        match is_summary {
            true => [std::mem::take(&mut held.1), line].concat(),
            false => line,
        }
    }
}

fn upstream() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-03-import-believes-cut-input", "AOI-03.upstream-cut")
            .describe("`import` takes a stream without a summary for complete.")
            .run(IMPORT)
            .quirk(Quirk::UpstreamCutPasses)
            .input("{\"type\":\"aoi:meta\"}\n{\"name\":\"a\"}\n")
            .expect_warning(),
        mutant(
            "aoi-advisory-import-ignores-upstream-error",
            "AOI-adv.upstream-error",
        )
        .describe("`import` ignores that the upstream tool failed.")
        .violates(&["AOI-13-04", "AOI-13-07"])
        .run(IMPORT)
        .quirk(Quirk::UpstreamErrorPasses)
        .input(
            "{\"type\":\"aoi:meta\"}\n{\"type\":\"aoi:error\"}\n{\"type\":\"aoi:summary\",\"ok\":false}\n",
        )
        .expect_warning(),
    ]
}

fn safety() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-07-dry-run-uses-key", "AOI-07.dry-run-key")
            .describe("A dry run of `create` uses up the idempotency key.")
            .violates(&["AOI-16.1-08", "AOI-18.2-06"])
            .run(&["create", "a", "--idempotency-key", "k"])
            .quirk(Quirk::DryRunUsesKey)
            .after(&[&["create", "a", "--dry-run", "--idempotency-key", "k"]]),
        mutant("aoi-06-own-variable-confirms", "AOI-06.environment")
            .describe("If `MOCK_AOI_CONFIRM` is set, no confirmation is required.")
            .violates(&["AOI-14.3-01", "AOI-16.1-10"])
            .run(DELETE)
            .args(|args| match is_set("MOCK_AOI_CONFIRM") {
                true => with(args, "delete", "--confirm"),
                false => args,
            })
            .env("MOCK_AOI_CONFIRM", "1")
            .after(ONE_ITEM),
        mutant("aoi-06-assume-yes", "AOI-06.environment")
            .describe("`ASSUME_YES=true` is accepted as a confirmation.")
            .violates(&["AOI-14.3-01", "AOI-16.1-10"])
            .run(DELETE)
            .args(|args| match std::env::var("ASSUME_YES").as_deref() {
                Ok("true") => with(args, "delete", "--confirm"),
                _ => args,
            })
            .env("ASSUME_YES", "true")
            .after(ONE_ITEM),
        mutant("aoi-06-asks-on-first-run", "AOI-06.prompt")
            .describe("The first run in a home directory asks a question on the terminal.")
            .violates(&["AOI-1.3-01", "AOI-1.3-03"])
            .run(DOCUMENTS)
            .start(|_| {
                if is_first_run()
                    && let Some(mut terminal) = terminal()
                {
                    let _ = terminal.write_all(b"Send statistics? [Y/n] ");
                    let mut line = String::new();
                    let _ = BufReader::new(terminal.take(1024)).read_line(&mut line);
                }
                None
            })
            .at(RunCondition::Terminal)
            .hangs(),
        mutant(
            "aoi-06-login-error-is-a-check",
            "AOI-06.interactive-required",
        )
        .describe("`fetch` reports a missing login as a check instead of an error.")
        .run(&["fetch"])
        .events(|info, _, mut event| {
            if info.failure != Some("authn") {
                return send(event);
            }
            if is(&event, "aoi:summary") {
                set(&mut event, "count", 1);
            }
            match is(&event, "aoi:error") {
                true => send(json!({
                    "type": "aoi:check", "name": "login", "ok": false, "severity": "error",
                    "detail": "not logged in",
                })),
                false => send(event),
            }
        }),
    ]
}

fn signals() -> Vec<AoiMutant> {
    vec![
        mutant(
            "aoi-10-create-without-interrupted-summary",
            "AOI-10.no-interrupted-summary",
        )
        .describe("An interrupted `create` ends without a summary.")
        .violates(&["AOI-7-02"])
        .run(&["create", "a", "--delay-ms", "400"])
        .instead_if(
            |info| info.signal.is_some() && info.command == "create",
            |_| Vec::new(),
        )
        .at(INT)
        .expect_warning(),
        mutant(
            "aoi-10-rank-dies-while-waiting",
            "AOI-10.no-interrupted-summary",
        )
        .describe("`rank` writes its meta first, and a signal kills it while it waits for input.")
        .violates(&["AOI-7-02"])
        .run(RANK)
        .start(early_meta)
        .events(without_late_meta)
        .quirk(Quirk::DiesBySignal)
        .input("{\"type\":\"hit\",\"id\":\"doc-001\"}\n")
        .expect_warning(),
        mutant("aoi-10-quiet-watch-outlives-reader", "AOI-10.pipe-hangs")
            .describe(
                "`watch` writes every one and a half seconds, even after its reader has exited.",
            )
            .run(&["watch"])
            .args(|args| slower_watch(args, "1500"))
            .quirk(Quirk::WritesIntoClosedPipe)
            .at(RunCondition::ClosedPipe)
            .hangs(),
    ]
}

fn terminal() -> Option<fs::File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open("/dev/tty").ok()
}

fn locale() -> String {
    std::env::var("LC_ALL").unwrap_or_default()
}

fn latin1(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let bytes = text.chars().map(|c| u8::try_from(u32::from(c)));
    bytes.map(|byte| byte.unwrap_or(b'?')).collect()
}

/// Whether no run has used this home directory before.
fn is_first_run() -> bool {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let Some(dir) = home.map(|home| home.join(".cache/mock-aoi")) else {
        return false;
    };
    let marker = dir.join("seen");
    if marker.exists() {
        return false;
    }
    let _ = fs::create_dir_all(&dir);
    let _ = fs::write(marker, "");
    true
}
