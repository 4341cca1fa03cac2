//! Check 9: what looks like a secret is not shown.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::tools::*;

const TOKEN: &[&str] = &["search", "x", "--token", "canary-4f1d9b7c"];
const HEADER: &[&str] = &[
    "search",
    "x",
    "--header",
    "Authorization: Bearer canary-4f1d9b7c",
];
const URL: &[&str] = &[
    "search",
    "x",
    "--url",
    "https://u:canary-4f1d9b7c@h.example/?sig=canary-4f1d9b7c",
];
const UNKNOWN: &[&str] = &["search", "x", "--client-secret", "canary-4f1d9b7c"];

/// Puts something made of a flag's value into the meta event.
fn meta(facts: &Facts, flag: &str, event: Value, make: impl FnOnce(&str) -> Value) -> Frames {
    match facts.value(flag) {
        Some(value) => {
            let shown = make(value);
            on("aoi:meta", event, |e| set(e, "source", shown))
        }
        None => send(event),
    }
}

pub static MUTANTS: &[Mutant] = &[
    mutant(
        "aoi-09-token-in-meta",
        "AOI-09.flag-value",
        "The token stands in the meta event.",
        TOKEN,
        Twist::Event(|facts, _, event| meta(facts, "--token", event, |value| value.into())),
    ),
    mutant(
        "aoi-09-inline-token-in-meta",
        "AOI-09.flag-value",
        "A token behind `=` stands in the meta event.",
        &["search", "x", "--token=canary-4f1d9b7c"],
        Twist::Event(|facts, _, event| {
            let inline = facts.args.iter().find(|word| word.starts_with("--token="));
            match inline {
                Some(word) => on("aoi:meta", event, |e| set(e, "options", word.as_str())),
                None => send(event),
            }
        }),
    ),
    mutant(
        "aoi-09-header-in-meta",
        "AOI-09.header",
        "The header stands in the meta event.",
        HEADER,
        Twist::Event(|facts, _, event| meta(facts, "--header", event, |value| value.into())),
    ),
    mutant(
        "aoi-09-header-half-masked",
        "AOI-09.header",
        "Only the scheme of the header is hidden.",
        HEADER,
        Twist::Event(|facts, _, event| {
            meta(facts, "--header", event, |header| {
                header.replace("Bearer", "***").into()
            })
        }),
    ),
    mutant(
        "aoi-09-url-userinfo",
        "AOI-09.url-userinfo",
        "The password of the URL stands in the meta event.",
        URL,
        Twist::Event(|facts, _, event| {
            meta(facts, "--url", event, |url| {
                url.split(['?', '#']).next().into()
            })
        }),
    ),
    mutant(
        "aoi-09-url-signature",
        "AOI-09.url-query",
        "The signature of the URL stands in the meta event.",
        URL,
        Twist::Event(|facts, _, event| {
            meta(facts, "--url", event, |url| match url.split_once('?') {
                Some((_, query)) => query.into(),
                None => "none".into(),
            })
        }),
    ),
    mutant(
        "aoi-09-url-in-warning",
        "AOI-09.url-query",
        "A warning quotes the whole URL.",
        URL,
        Twist::Event(|facts, _, event| {
            let url = facts.value("--url").filter(|_| is(&event, "aoi:summary"));
            let Some(url) = url else {
                return send(event);
            };
            let count = number(&event, "warning_count") + 1;
            let warning = json!({
                "type": "aoi:warning", "code": "SLOW", "message": format!("{url} was slow."),
            });
            let mut frames = send(warning);
            frames.extend(on("aoi:summary", event, |e| set(e, "warning_count", count)));
            frames
        }),
    ),
    mutant(
        "aoi-09-unknown-flag-quoted",
        "AOI-09.flag-value",
        "The error about an unknown flag quotes its value.",
        UNKNOWN,
        Twist::Quirk(Quirk::QuotesFlagValues),
    ),
    mutant(
        "aoi-09-change-shows-token",
        "AOI-09.flag-value",
        "What makes something repeats the token in its meta event.",
        &["create", "x", "--token", "canary-4f1d9b7c"],
        Twist::Event(|facts, _, event| match facts.command == "create" {
            true => meta(facts, "--token", event, |value| json!(value)),
            false => send(event),
        }),
    ),
    mutant(
        "aoi-09-operand-quoted",
        "AOI-09.rejected-operand",
        "The error about an operand too many quotes it.",
        &["search", "x", "password=canary-4f1d9b7c"],
        Twist::Quirk(Quirk::QuotesOperands),
    ),
    mutant(
        "aoi-09-rejected-line-on-stderr",
        "AOI-09.flag-value",
        "Wrong usage quotes the whole command line on stderr.",
        UNKNOWN,
        Twist::Event(|facts, _, event| {
            if facts.failure == Some("usage") && is(&event, "aoi:error") {
                stderr(&format!("mock-aoi: bad usage: {}\n", facts.args.join(" ")));
            }
            send(event)
        }),
    ),
    mutant(
        "aoi-09-debug-shows-token",
        "AOI-09.flag-value",
        "With `--debug`, the token stands on stderr.",
        &["search", "x", "--token", "canary-4f1d9b7c", "--debug"],
        Twist::Start(|facts| {
            if let (true, Some(token)) = (facts.has("--debug"), facts.value("--token")) {
                stderr(&format!(
                    "debug: GET /search, Authorization: Bearer {token}\n"
                ));
            }
            None
        }),
    ),
    mutant(
        "aoi-09-log-shows-token",
        "AOI-09.flag-value",
        "The token stands on stderr in every run.",
        TOKEN,
        Twist::Start(|facts| {
            if let Some(token) = facts.value("--token") {
                stderr(&format!("using token {token}\n"));
            }
            None
        }),
    ),
    mutant(
        "aoi-09-environment-dump",
        "AOI-09.environment",
        "With `--debug`, the environment stands on stderr.",
        &["search", "x", "--debug"],
        Twist::Start(|facts| {
            if facts.has("--debug") {
                for (name, value) in std::env::vars_os() {
                    let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
                    stderr(&format!("env {name}={value}\n"));
                }
            }
            None
        }),
    )
    .env("AWS_SECRET_ACCESS_KEY", "canary-4f1d9b7c"),
    mutant(
        "aoi-09-doctor-shows-variable",
        "AOI-09.environment",
        "The doctor shows the token of the environment.",
        &["doctor"],
        Twist::Event(|_, _, event| match std::env::var("MOCK_AOI_TOKEN") {
            Ok(token) if text(&event, "name") == "credentials" => on("aoi:check", event, |e| {
                set(e, "detail", format!("found {token}"))
            }),
            _ => send(event),
        }),
    )
    .env("MOCK_AOI_TOKEN", "canary-4f1d9b7c"),
    mutant(
        "aoi-09-fetch-shows-variable",
        "AOI-09.environment",
        "`fetch` shows the token of the environment in its meta event.",
        &["fetch"],
        Twist::Event(|facts, _, event| match std::env::var("MOCK_AOI_TOKEN") {
            Ok(token) if facts.command == "fetch" => {
                on("aoi:meta", event, |e| set(e, "account", token))
            }
            _ => send(event),
        }),
    )
    .env("MOCK_AOI_TOKEN", "canary-4f1d9b7c"),
    mutant(
        "aoi-09-base64",
        "AOI-09.flag-value",
        "The token stands in the meta event as base64.",
        TOKEN,
        Twist::Event(|facts, _, event| {
            meta(facts, "--token", event, |token| {
                STANDARD.encode(format!("user:{token}")).into()
            })
        }),
    ),
    mutant(
        "aoi-09-hexadecimal",
        "AOI-09.flag-value",
        "The token stands in the meta event as hexadecimal digits.",
        TOKEN,
        Twist::Event(|facts, _, event| {
            meta(facts, "--token", event, |token| {
                token
                    .bytes()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>()
                    .into()
            })
        }),
    ),
    mutant(
        "aoi-09-percent",
        "AOI-09.flag-value",
        "The token stands in the meta event with percent signs.",
        TOKEN,
        Twist::Event(|facts, _, event| {
            meta(facts, "--token", event, |token| {
                token
                    .bytes()
                    .map(|byte| format!("%{byte:02X}"))
                    .collect::<String>()
                    .into()
            })
        }),
    ),
    mutant(
        "aoi-09-reversed",
        "AOI-09.flag-value",
        "The token stands in the meta event backwards.",
        TOKEN,
        Twist::Event(|facts, _, event| {
            meta(facts, "--token", event, |token| {
                token.chars().rev().collect::<String>().into()
            })
        }),
    ),
    mutant(
        "aoi-09-half-a-token",
        "AOI-09.flag-value",
        "All but the last four characters of the token are shown.",
        TOKEN,
        Twist::Event(|facts, _, event| {
            meta(facts, "--token", event, |token| {
                let shown = token.chars().count().saturating_sub(4);
                format!("{}****", token.chars().take(shown).collect::<String>()).into()
            })
        }),
    ),
    mutant(
        "aoi-09-token-in-cursor",
        "AOI-09.flag-value",
        "The cursor carries the token.",
        TOKEN,
        Twist::Event(|facts, _, event| match facts.value("--token") {
            Some(token) if event.get("next_cursor").is_some_and(Value::is_string) => {
                let cursor = STANDARD.encode(token);
                on("aoi:summary", event, |e| set(e, "resume", cursor))
            }
            _ => send(event),
        }),
    ),
    mutant(
        "aoi-09-token-in-trace-id",
        "AOI-09.flag-value",
        "The token is the trace id.",
        TOKEN,
        Twist::Event(|facts, _, mut event| {
            let has_trace = event.get("trace_id").is_some();
            if let (Some(token), true) = (facts.value("--token"), has_trace) {
                set(&mut event, "trace_id", token);
            }
            send(event)
        }),
    ),
    mutant(
        "aoi-09-interrupted-token",
        "AOI-09.on-signal",
        "The summary of an interrupted run shows the token.",
        &[
            "search",
            "x",
            "--delay-ms",
            "40",
            "--token",
            "canary-4f1d9b7c",
        ],
        Twist::Event(
            |facts, _, event| match (facts.signal, facts.value("--token")) {
                (Some(_), Some(token)) => {
                    on("aoi:summary", event, |e| set(e, "resume_with", token))
                }
                _ => send(event),
            },
        ),
    )
    .at(Place::Signal(libc::SIGINT)),
    mutant(
        "aoi-09-log-file",
        "AOI-09.written-file",
        "The token is written to a log file in the working directory.",
        TOKEN,
        Twist::Start(|facts| {
            if let Some(token) = facts.value("--token") {
                let _ = std::fs::write("mock-aoi.log", format!("token {token}\n"));
            }
            None
        }),
    ),
    mutant(
        "aoi-09-input-quoted",
        "AOI-09.stdin",
        "The error about a bad line quotes the line.",
        &["import", "--input-jsonl", "-"],
        Twist::Quirk(Quirk::QuotesInput),
    )
    .input("password=canary-4f1d9b7c\n"),
];
