//! Check 5: a usage error is a failure, and errors have their four fields.

use serde_json::{Value, json};

use super::tools::*;
use crate::aoi::die_by;

const UNKNOWN_FLAG: &[&str] = &["search", "x", "--no-such-flag"];
const UNKNOWN_COMMAND: &[&str] = &["frobnicate"];

const PYTHON: &str =
    "Traceback (most recent call last):\n  File \"cli.py\", line 8, in main\nKeyError\n";
const NODE: &str =
    "TypeError: x is undefined\n    at main (cli.js:10:5)\n    at run (cli.js:20:3)\n";
const RUST: &str = "thread 'main' panicked at src/main.rs:12:34:\nunexpected argument\n";

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("aoi-05-unknown-flag-passes", "AOI-05.unknown-flag")
            .says("Unknown flags are ignored.")
            .run(UNKNOWN_FLAG)
            .quirk(Quirk::UnknownFlagsPass),
        wrong("aoi-05-unknown-command-passes", "AOI-05.unknown-command")
            .says("An unknown command is treated as `list`.")
            .run(UNKNOWN_COMMAND)
            .quirk(Quirk::UnknownCommandPasses),
        wrong("aoi-05-missing-operand-passes", "AOI-05.malformed")
            .says("A search without a query succeeds.")
            .run(&["search"])
            .quirk(Quirk::MissingOperandPasses),
        wrong("aoi-05-odd-limit-passes", "AOI-05.bad-value")
            .says("A limit that is not a number is ignored.")
            .run(&["search", "x", "--limit", "abc"])
            .args(|args| {
                let is_odd =
                    |text: &String| !text.is_empty() && text.chars().all(char::is_alphabetic);
                let place = args.iter().position(|word| word == "--limit");
                let value = place.and_then(|at| args.get(at + 1));
                match value.is_some_and(is_odd) {
                    true => without(args, "--limit", true),
                    false => args,
                }
            }),
        wrong("aoi-05-odd-output-passes", "AOI-05.bad-value")
            .says("An unknown output format is treated as the default.")
            .run(&["search", "x", "--output", "nonsense"])
            .quirk(Quirk::OddOutputPasses),
        wrong("aoi-05-missing-value-passes", "AOI-05.bad-value")
            .says("A flag without its value is ignored.")
            .run(&["search", "x", "--limit"])
            .quirk(Quirk::MissingValuePasses),
        wrong("aoi-05-extra-operand-passes", "AOI-05.malformed")
            .says("Extra operands are ignored.")
            .run(&["search", "x", "y", "z"])
            .quirk(Quirk::ExtraOperandPasses),
        wrong("aoi-05-exit-zero", "AOI-05.unknown-flag")
            .says("A usage error exits with code 0.")
            .run(UNKNOWN_FLAG)
            .exit(|facts, code| match facts.failure {
                Some("usage") if !facts.has("delete") && !facts.has("purge") => 0,
                _ => code,
            }),
        wrong("aoi-05-help-and-exit-zero", "AOI-05.unknown-command")
            .says("An unknown command prints the help and succeeds.")
            .run(UNKNOWN_COMMAND)
            .args(|args| {
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
        wrong("aoi-05-prose-on-stdout", "AOI-05.prose")
            .says("A usage error is explained in prose on stdout.")
            .run(UNKNOWN_FLAG)
            .instead_if(failed("usage"), |_| {
                vec![raw("usage: mock-aoi COMMAND [OPTIONS]\n"), Frame::Exit(64)]
            }),
        wrong("aoi-05-panics", "AOI-05.trace")
            .says("A usage error causes a Rust panic.")
            .run(UNKNOWN_FLAG)
            .instead_if(failed("usage"), |_| {
                stderr(RUST);
                vec![Frame::Exit(101)]
            }),
        wrong("aoi-05-python-trace", "AOI-05.trace")
            .says("A usage error causes a Python traceback.")
            .run(UNKNOWN_COMMAND)
            .instead_if(failed("usage"), |_| {
                stderr(PYTHON);
                vec![Frame::Exit(1)]
            }),
        wrong("aoi-05-node-trace", "AOI-05.trace")
            .says("A usage error causes a Node stack trace.")
            .run(UNKNOWN_COMMAND)
            .instead_if(failed("usage"), |_| {
                stderr(NODE);
                vec![Frame::Exit(1)]
            }),
        wrong("aoi-05-aborts", "AOI-05.signal")
            .says("A usage error kills the process with a signal.")
            .run(UNKNOWN_FLAG)
            .instead_if(failed("usage"), |_| die_by(libc::SIGABRT)),
        wrong("aoi-05-no-category", "AOI-05.error-fields")
            .says("Errors have no category.")
            .run(UNKNOWN_FLAG)
            .event("aoi:error", removes("category")),
        wrong("aoi-05-no-code", "AOI-05.error-fields")
            .says("Errors have no code.")
            .run(UNKNOWN_FLAG)
            .event("aoi:error", removes("code")),
        wrong("aoi-05-code-number", "AOI-05.error-fields")
            .says("The code of an error is a number.")
            .run(UNKNOWN_FLAG)
            .event("aoi:error", sets("code", 64)),
        wrong("aoi-05-no-message", "AOI-05.error-fields")
            .says("Errors have no message.")
            .run(UNKNOWN_FLAG)
            .event("aoi:error", removes("message")),
        wrong("aoi-05-message-object", "AOI-05.error-fields")
            .says("The message of an error is an object.")
            .run(UNKNOWN_FLAG)
            .event("aoi:error", sets("message", json!({ "en": "No." }))),
        wrong("aoi-05-no-retryable", "AOI-05.error-fields")
            .says("Errors do not say whether a retry may help.")
            .run(UNKNOWN_FLAG)
            .event("aoi:error", removes("retryable")),
        wrong("aoi-05-retryable-text", "AOI-05.error-fields")
            .says("`retryable` is a string.")
            .run(UNKNOWN_FLAG)
            .event("aoi:error", sets("retryable", "false")),
        wrong("aoi-05-retryable-null", "AOI-05.error-fields")
            .says("`retryable` is null.")
            .run(&["get", "absent"])
            .event("aoi:error", sets("retryable", Value::Null)),
        wrong("aoi-05-ok-true", "AOI-05.ok-true")
            .says("The summary of a usage error reports a success.")
            .run(UNKNOWN_FLAG)
            .event_if(failed("usage"), "aoi:summary", sets("ok", true)),
        wrong("aoi-05-odd-category", "AOI-05.category-unknown")
            .says("A usage error has a custom category.")
            .run(UNKNOWN_FLAG)
            .event_if(failed("usage"), "aoi:error", sets("category", "bad_input"))
            .document(|document| {
                if let Some(category) = document.pointer_mut("/$defs/aoi:error/properties/category")
                {
                    *category = json!({ "type": "string" });
                }
            })
            .warns(),
        wrong("aoi-05-lower-case-code", "AOI-05.code-form")
            .says("Error codes are in lower case.")
            .run(UNKNOWN_FLAG)
            .events(|_, _, event| {
                let code = text(&event, "code").to_ascii_lowercase();
                on("aoi:error", event, |e| set(e, "code", code))
            })
            .document(|document| {
                if let Some(code) = document.pointer_mut("/$defs/aoi:error/properties/code") {
                    *code = json!({ "type": "string" });
                }
            })
            .warns(),
        wrong("aoi-05-usage-is-retryable", "AOI-05.retryable-contradicts")
            .says("A usage error is reported as retryable.")
            .run(UNKNOWN_FLAG)
            .event_if(failed("usage"), "aoi:error", sets("retryable", true))
            .warns(),
    ]
}
