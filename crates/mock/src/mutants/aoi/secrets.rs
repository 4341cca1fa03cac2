//! Check 9: values that look like secrets are not shown.

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

/// Adds data derived from a flag's value to the meta event.
fn meta(info: &RunInfo, flag: &str, event: Value, make: impl FnOnce(&str) -> Value) -> EventFrames {
    match info.value(flag) {
        Some(value) => {
            let shown = make(value);
            on("aoi:meta", event, |e| set(e, "source", shown))
        }
        None => send(event),
    }
}

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-09-token-in-meta", "AOI-09.flag-value")
            .describe("The token is in the meta event.")
            .violates(&["AOI-11-02", "AOI-11-03"])
            .run(TOKEN)
            .events(|info, _, event| meta(info, "--token", event, |value| value.into())),
        mutant("aoi-09-inline-token-in-meta", "AOI-09.flag-value")
            .describe("A token after `=` is in the meta event.")
            .violates(&["AOI-11-02", "AOI-11-03"])
            .run(&["search", "x", "--token=canary-4f1d9b7c"])
            .events(|info, _, event| {
                let inline = info.args.iter().find(|word| word.starts_with("--token="));
                match inline {
                    Some(word) => on("aoi:meta", event, |e| set(e, "options", word.as_str())),
                    None => send(event),
                }
            }),
        mutant("aoi-09-header-in-meta", "AOI-09.header")
            .describe("The header is in the meta event.")
            .violates(&["AOI-11-02", "AOI-11-05"])
            .run(HEADER)
            .events(|info, _, event| meta(info, "--header", event, |value| value.into())),
        mutant("aoi-09-header-half-masked", "AOI-09.header")
            .describe("Only the scheme of the header is hidden.")
            .violates(&["AOI-11-02", "AOI-11-05"])
            .run(HEADER)
            .events(|info, _, event| {
                meta(info, "--header", event, |header| {
                    header.replace("Bearer", "***").into()
                })
            }),
        mutant("aoi-09-url-userinfo", "AOI-09.url-userinfo")
            .describe("The password of the URL is in the meta event.")
            .violates(&["AOI-11-02", "AOI-11-04"])
            .run(URL)
            .events(|info, _, event| {
                meta(info, "--url", event, |url| {
                    url.split(['?', '#']).next().into()
                })
            }),
        mutant("aoi-09-url-signature", "AOI-09.url-query")
            .describe("The signature of the URL is in the meta event.")
            .violates(&["AOI-11-02", "AOI-11-04"])
            .run(URL)
            .events(|info, _, event| {
                meta(info, "--url", event, |url| match url.split_once('?') {
                    Some((_, query)) => query.into(),
                    None => "none".into(),
                })
            }),
        mutant("aoi-09-url-in-warning", "AOI-09.url-query")
            .describe("A warning contains the whole URL.")
            .violates(&["AOI-11-02", "AOI-11-04"])
            .run(URL)
            .events(|info, _, event| {
                let url = info.value("--url").filter(|_| is(&event, "aoi:summary"));
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
        mutant("aoi-09-shows-credential-file", "AOI-09.config-file")
            .describe("The meta event contains the content of the credential file.")
            .events(|_, _, event| {
                let file = crate::aoi::credentials::file();
                let content = file.and_then(|file| std::fs::read_to_string(file).ok());
                let content = content.unwrap_or_else(|| "no login".to_owned());
                on("aoi:meta", event, |e| set(e, "login", content.as_str()))
            }),
        mutant("aoi-09-unknown-flag-quoted", "AOI-09.flag-value")
            .describe("The error about an unknown flag contains its value.")
            .violates(&["AOI-11-02", "AOI-11-03"])
            .run(UNKNOWN)
            .quirk(Quirk::QuotesFlagValues),
        mutant("aoi-09-change-shows-token", "AOI-09.flag-value")
            .describe("A mutating command repeats the token in its meta event.")
            .violates(&["AOI-11-02", "AOI-11-03"])
            .run(&["create", "x", "--token", "canary-4f1d9b7c"])
            .events(|info, _, event| match info.command == "create" {
                true => meta(info, "--token", event, |value| json!(value)),
                false => send(event),
            }),
        mutant("aoi-09-operand-quoted", "AOI-09.rejected-operand")
            .describe("The error about an extra operand contains the operand.")
            .run(&["search", "x", "password=canary-4f1d9b7c"])
            .quirk(Quirk::QuotesOperands),
        mutant("aoi-09-rejected-line-on-stderr", "AOI-09.flag-value")
            .describe("A usage error prints the whole command line to stderr.")
            .violates(&["AOI-11-02", "AOI-11-03"])
            .run(UNKNOWN)
            .events(|info, _, event| {
                if info.failure == Some("usage") && is(&event, "aoi:error") {
                    stderr(&format!("mock-aoi: bad usage: {}\n", info.args.join(" ")));
                }
                send(event)
            }),
        mutant("aoi-09-debug-shows-token", "AOI-09.flag-value")
            .describe("With `--debug`, the token is printed to stderr.")
            .violates(&["AOI-16.1-13", "AOI-11-02", "AOI-11-03"])
            .run(&["search", "x", "--token", "canary-4f1d9b7c", "--debug"])
            .start(|info| {
                if let (true, Some(token)) = (info.has("--debug"), info.value("--token")) {
                    stderr(&format!(
                        "debug: GET /search, Authorization: Bearer {token}\n"
                    ));
                }
                None
            }),
        mutant("aoi-09-log-shows-token", "AOI-09.flag-value")
            .describe("The token is printed to stderr in every run.")
            .violates(&["AOI-11-02", "AOI-11-03"])
            .run(TOKEN)
            .start(|info| {
                if let Some(token) = info.value("--token") {
                    stderr(&format!("using token {token}\n"));
                }
                None
            }),
        mutant("aoi-09-environment-dump", "AOI-09.environment")
            .describe("With `--debug`, the environment is printed to stderr.")
            .violates(&["AOI-11-06", "AOI-16.1-13"])
            .run(&["search", "x", "--debug"])
            .start(|info| {
                if info.has("--debug") {
                    for (name, value) in std::env::vars_os() {
                        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
                        stderr(&format!("env {name}={value}\n"));
                    }
                }
                None
            })
            .env("AWS_SECRET_ACCESS_KEY", "canary-4f1d9b7c"),
        mutant("aoi-09-doctor-shows-variable", "AOI-09.environment")
            .describe("`doctor` shows the token from the environment.")
            .violates(&["AOI-11-06"])
            .run(&["doctor"])
            .events(|_, _, event| match std::env::var("MOCK_AOI_TOKEN") {
                Ok(token) if text(&event, "name") == "credentials" => on("aoi:check", event, |e| {
                    set(e, "detail", format!("found {token}"))
                }),
                _ => send(event),
            })
            .env("MOCK_AOI_TOKEN", "canary-4f1d9b7c"),
        mutant("aoi-09-fetch-shows-variable", "AOI-09.environment")
            .describe("`fetch` shows the token from the environment in its meta event.")
            .violates(&["AOI-8.3-02", "AOI-11-06"])
            .run(&["fetch"])
            .events(|info, _, event| match std::env::var("MOCK_AOI_TOKEN") {
                Ok(token) if info.command == "fetch" => {
                    on("aoi:meta", event, |e| set(e, "account", token))
                }
                _ => send(event),
            })
            .env("MOCK_AOI_TOKEN", "canary-4f1d9b7c"),
        mutant("aoi-09-base64", "AOI-09.flag-value")
            .describe("The token is in the meta event, encoded as base64.")
            .violates(&["AOI-11-02", "AOI-11-03"])
            .run(TOKEN)
            .events(|info, _, event| {
                meta(info, "--token", event, |token| {
                    STANDARD.encode(format!("user:{token}")).into()
                })
            }),
        mutant("aoi-09-hexadecimal", "AOI-09.flag-value")
            .describe("The token is in the meta event, encoded as hexadecimal digits.")
            .violates(&["AOI-11-02", "AOI-11-03"])
            .run(TOKEN)
            .events(|info, _, event| {
                meta(info, "--token", event, |token| {
                    token
                        .bytes()
                        .map(|byte| format!("{byte:02x}"))
                        .collect::<String>()
                        .into()
                })
            }),
        mutant("aoi-09-percent", "AOI-09.flag-value")
            .describe("The token is in the meta event, percent-encoded.")
            .violates(&["AOI-11-02", "AOI-11-03"])
            .run(TOKEN)
            .events(|info, _, event| {
                meta(info, "--token", event, |token| {
                    token
                        .bytes()
                        .map(|byte| format!("%{byte:02X}"))
                        .collect::<String>()
                        .into()
                })
            }),
        mutant("aoi-09-reversed", "AOI-09.flag-value")
            .describe("The token is in the meta event, reversed.")
            .violates(&["AOI-11-02", "AOI-11-03"])
            .run(TOKEN)
            .events(|info, _, event| {
                meta(info, "--token", event, |token| {
                    token.chars().rev().collect::<String>().into()
                })
            }),
        mutant("aoi-09-half-a-token", "AOI-09.flag-value")
            .describe("All but the last four characters of the token are shown.")
            .violates(&["AOI-11-02", "AOI-11-03"])
            .run(TOKEN)
            .events(|info, _, event| {
                meta(info, "--token", event, |token| {
                    let shown = token.chars().count().saturating_sub(4);
                    format!("{}****", token.chars().take(shown).collect::<String>()).into()
                })
            }),
        mutant("aoi-09-token-in-cursor", "AOI-09.flag-value")
            .describe("The cursor contains the token.")
            .violates(&["AOI-11-02", "AOI-11-03"])
            .run(TOKEN)
            .events(|info, _, event| match info.value("--token") {
                Some(token) if event.get("next_cursor").is_some_and(Value::is_string) => {
                    let cursor = STANDARD.encode(token);
                    on("aoi:summary", event, |e| set(e, "resume", cursor))
                }
                _ => send(event),
            }),
        mutant("aoi-09-token-in-trace-id", "AOI-09.flag-value")
            .describe("The token is the trace id.")
            .violates(&["AOI-11-02", "AOI-11-03"])
            .run(TOKEN)
            .events(|info, _, mut event| {
                let has_trace = event.get("trace_id").is_some();
                if let (Some(token), true) = (info.value("--token"), has_trace) {
                    set(&mut event, "trace_id", token);
                }
                send(event)
            }),
        mutant("aoi-09-interrupted-token", "AOI-09.on-signal")
            .describe("The summary of an interrupted run shows the token.")
            .run(&[
                "search",
                "x",
                "--delay-ms",
                "40",
                "--token",
                "canary-4f1d9b7c",
            ])
            .events(
                |info, _, event| match (info.signal, info.value("--token")) {
                    (Some(_), Some(token)) => {
                        on("aoi:summary", event, |e| set(e, "resume_with", token))
                    }
                    _ => send(event),
                },
            )
            .at(RunCondition::Signal(libc::SIGINT)),
        mutant("aoi-09-log-file", "AOI-09.written-file")
            .describe("The token is written to a log file in the working directory.")
            .run(TOKEN)
            .start(|info| {
                if let Some(token) = info.value("--token") {
                    let _ = std::fs::write("mock-aoi.log", format!("token {token}\n"));
                }
                None
            }),
        mutant("aoi-09-input-quoted", "AOI-09.stdin")
            .describe("The error about an invalid line contains the line.")
            .run(&["import", "--input-jsonl", "-"])
            .quirk(Quirk::QuotesInput)
            .input("password=canary-4f1d9b7c\n"),
    ]
}
