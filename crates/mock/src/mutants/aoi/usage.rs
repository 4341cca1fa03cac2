//! Check 5: wrong usage is a failure, and errors have their four fields.

use serde_json::{Value, json};

use super::tools::*;
use crate::aoi::die_by;

const UNKNOWN_FLAG: &[&str] = &["search", "x", "--no-such-flag"];
const UNKNOWN_COMMAND: &[&str] = &["frobnicate"];

pub static MUTANTS: &[Mutant] = &[
    mutant(
        "aoi-05-unknown-flag-passes",
        "AOI-05.unknown-flag",
        "Unknown flags are ignored.",
        UNKNOWN_FLAG,
        Twist::Quirk(Quirk::UnknownFlagsPass),
    ),
    mutant(
        "aoi-05-unknown-command-passes",
        "AOI-05.unknown-command",
        "An unknown command is taken for `list`.",
        UNKNOWN_COMMAND,
        Twist::Quirk(Quirk::UnknownCommandPasses),
    ),
    mutant(
        "aoi-05-missing-operand-passes",
        "AOI-05.malformed",
        "A search without a query succeeds.",
        &["search"],
        Twist::Quirk(Quirk::MissingOperandPasses),
    ),
    mutant(
        "aoi-05-odd-limit-passes",
        "AOI-05.bad-value",
        "A limit that is no number is ignored.",
        &["search", "x", "--limit", "abc"],
        Twist::Args(|args| {
            let is_odd = |text: &String| !text.is_empty() && text.chars().all(char::is_alphabetic);
            let place = args.iter().position(|word| word == "--limit");
            let value = place.and_then(|at| args.get(at + 1));
            match value.is_some_and(is_odd) {
                true => without(args, "--limit", true),
                false => args,
            }
        }),
    ),
    mutant(
        "aoi-05-odd-output-passes",
        "AOI-05.bad-value",
        "A format that is none is taken for the usual one.",
        &["search", "x", "--output", "nonsense"],
        Twist::Quirk(Quirk::OddOutputPasses),
    ),
    mutant(
        "aoi-05-missing-value-passes",
        "AOI-05.bad-value",
        "A flag without its value is ignored.",
        &["search", "x", "--limit"],
        Twist::Quirk(Quirk::MissingValuePasses),
    ),
    mutant(
        "aoi-05-extra-operand-passes",
        "AOI-05.malformed",
        "Operands that nobody wants are ignored.",
        &["search", "x", "y", "z"],
        Twist::Quirk(Quirk::ExtraOperandPasses),
    ),
    mutant(
        "aoi-05-exit-zero",
        "AOI-05.unknown-flag",
        "Wrong usage is reported with exit code 0.",
        UNKNOWN_FLAG,
        Twist::Exit(|facts, code| match facts.failure {
            Some("usage") if !facts.has("delete") && !facts.has("purge") => 0,
            _ => code,
        }),
    ),
    mutant(
        "aoi-05-help-and-exit-zero",
        "AOI-05.unknown-command",
        "An unknown command prints the help and succeeds.",
        UNKNOWN_COMMAND,
        Twist::Args(|args| {
            let is_word = |word: &&String| !word.starts_with('-');
            let known = args.iter().find(is_word).is_none_or(|word| {
                let words = [
                    "search", "list", "get", "create", "update", "delete", "purge",
                ];
                let more = ["rank", "import", "watch", "fetch", "doctor", "schema"];
                let rest = ["aoi-schema", "capabilities", "input-schema"];
                words.iter().chain(&more).chain(&rest).any(|k| k == word)
            });
            match known {
                true => args,
                false => vec!["--help".to_owned()],
            }
        }),
    ),
    mutant(
        "aoi-05-prose-on-stdout",
        "AOI-05.prose",
        "Wrong usage is explained in prose on stdout.",
        UNKNOWN_FLAG,
        Twist::Event(|facts, _, event| match facts.failure {
            Some("usage") => vec![raw("usage: mock-aoi COMMAND [OPTIONS]\n"), Frame::Exit(64)],
            _ => send(event),
        }),
    ),
    mutant(
        "aoi-05-panics",
        "AOI-05.trace",
        "Wrong usage ends in a panic.",
        UNKNOWN_FLAG,
        Twist::Event(|facts, _, event| match facts.failure {
            Some("usage") => {
                stderr("thread 'main' panicked at src/main.rs:12:34:\nunexpected argument\n");
                vec![Frame::Exit(101)]
            }
            _ => send(event),
        }),
    ),
    mutant(
        "aoi-05-python-trace",
        "AOI-05.trace",
        "Wrong usage ends in a Python trace.",
        UNKNOWN_COMMAND,
        Twist::Event(|facts, _, event| match facts.failure {
            Some("usage") => {
                stderr(
                    "Traceback (most recent call last):\n  File \"cli.py\", line 8, in main\nKeyError\n",
                );
                vec![Frame::Exit(1)]
            }
            _ => send(event),
        }),
    ),
    mutant(
        "aoi-05-node-trace",
        "AOI-05.trace",
        "Wrong usage ends in a Node trace.",
        UNKNOWN_COMMAND,
        Twist::Event(|facts, _, event| match facts.failure {
            Some("usage") => {
                stderr(
                    "TypeError: x is undefined\n    at main (cli.js:10:5)\n    at run (cli.js:20:3)\n",
                );
                vec![Frame::Exit(1)]
            }
            _ => send(event),
        }),
    ),
    mutant(
        "aoi-05-aborts",
        "AOI-05.signal",
        "Wrong usage kills the process by a signal.",
        UNKNOWN_FLAG,
        Twist::Event(|facts, _, event| match facts.failure {
            Some("usage") => die_by(libc::SIGABRT),
            _ => send(event),
        }),
    ),
    mutant(
        "aoi-05-no-category",
        "AOI-05.error-fields",
        "Errors have no category.",
        UNKNOWN_FLAG,
        Twist::Event(|_, _, event| on("aoi:error", event, |e| remove(e, "category"))),
    ),
    mutant(
        "aoi-05-no-code",
        "AOI-05.error-fields",
        "Errors have no code.",
        UNKNOWN_FLAG,
        Twist::Event(|_, _, event| on("aoi:error", event, |e| remove(e, "code"))),
    ),
    mutant(
        "aoi-05-code-number",
        "AOI-05.error-fields",
        "The code of an error is a number.",
        UNKNOWN_FLAG,
        Twist::Event(|_, _, event| on("aoi:error", event, |e| set(e, "code", 64))),
    ),
    mutant(
        "aoi-05-no-message",
        "AOI-05.error-fields",
        "Errors have no message.",
        UNKNOWN_FLAG,
        Twist::Event(|_, _, event| on("aoi:error", event, |e| remove(e, "message"))),
    ),
    mutant(
        "aoi-05-message-object",
        "AOI-05.error-fields",
        "The message of an error is an object.",
        UNKNOWN_FLAG,
        Twist::Event(|_, _, event| {
            on("aoi:error", event, |e| {
                set(e, "message", json!({ "en": "No." }))
            })
        }),
    ),
    mutant(
        "aoi-05-no-retryable",
        "AOI-05.error-fields",
        "Errors do not say whether a retry may help.",
        UNKNOWN_FLAG,
        Twist::Event(|_, _, event| on("aoi:error", event, |e| remove(e, "retryable"))),
    ),
    mutant(
        "aoi-05-retryable-text",
        "AOI-05.error-fields",
        "`retryable` is a text.",
        UNKNOWN_FLAG,
        Twist::Event(|_, _, event| on("aoi:error", event, |e| set(e, "retryable", "false"))),
    ),
    mutant(
        "aoi-05-retryable-null",
        "AOI-05.error-fields",
        "`retryable` is null.",
        &["get", "absent"],
        Twist::Event(|_, _, event| on("aoi:error", event, |e| set(e, "retryable", Value::Null))),
    ),
    mutant(
        "aoi-05-ok-true",
        "AOI-05.ok-true",
        "Wrong usage is summed up as a success.",
        UNKNOWN_FLAG,
        Twist::Event(|facts, _, event| match facts.failure {
            Some("usage") => on("aoi:summary", event, |e| set(e, "ok", true)),
            _ => send(event),
        }),
    ),
    mutant(
        "aoi-05-odd-category",
        "AOI-05.category-unknown",
        "Wrong usage has a category of the tool's own.",
        UNKNOWN_FLAG,
        Twist::Event(|facts, _, event| match facts.failure {
            Some("usage") => on("aoi:error", event, |e| set(e, "category", "bad_input")),
            _ => send(event),
        }),
    )
    .and(Twist::Document(|_, mut document| {
        if let Some(category) = document.pointer_mut("/$defs/aoi:error/properties/category") {
            *category = json!({ "type": "string" });
        }
        Frame::Json(document)
    }))
    .warns(),
    mutant(
        "aoi-05-lower-case-code",
        "AOI-05.code-form",
        "Codes are written in lower case.",
        UNKNOWN_FLAG,
        Twist::Event(|_, _, event| {
            let code = text(&event, "code").to_ascii_lowercase();
            on("aoi:error", event, |e| set(e, "code", code))
        }),
    )
    .and(Twist::Document(|_, mut document| {
        if let Some(code) = document.pointer_mut("/$defs/aoi:error/properties/code") {
            *code = json!({ "type": "string" });
        }
        Frame::Json(document)
    }))
    .warns(),
    mutant(
        "aoi-05-usage-is-retryable",
        "AOI-05.retryable-contradicts",
        "Wrong usage may help when it is tried again.",
        UNKNOWN_FLAG,
        Twist::Event(|facts, _, event| match facts.failure {
            Some("usage") => on("aoi:error", event, |e| set(e, "retryable", true)),
            _ => send(event),
        }),
    )
    .warns(),
];
