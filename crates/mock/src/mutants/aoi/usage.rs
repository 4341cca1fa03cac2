//! Check 5: a usage error is a failure, and errors have their four fields.

use serde_json::{Value, json};

use super::tools::*;
use crate::aoi::kill_self;

const UNKNOWN_FLAG: &[&str] = &["search", "x", "--no-such-flag"];
const UNKNOWN_COMMAND: &[&str] = &["frobnicate"];

const PYTHON: &str =
    "Traceback (most recent call last):\n  File \"cli.py\", line 8, in main\nKeyError\n";
const NODE: &str =
    "TypeError: x is undefined\n    at main (cli.js:10:5)\n    at run (cli.js:20:3)\n";
const RUST: &str = "thread 'main' panicked at src/main.rs:12:34:\nunexpected argument\n";

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-05-unknown-flag-passes", "AOI-05.unknown-flag")
            .describe("Unknown flags are ignored.")
            .violates(&["AOI-6-02"])
            .run(UNKNOWN_FLAG)
            .quirk(Quirk::UnknownFlagsPass),
        mutant("aoi-05-unknown-command-passes", "AOI-05.unknown-command")
            .describe("An unknown command is treated as `list`.")
            .violates(&["AOI-6-02"])
            .run(UNKNOWN_COMMAND)
            .quirk(Quirk::UnknownCommandPasses),
        mutant("aoi-05-missing-operand-passes", "AOI-05.malformed")
            .describe("A search without a query succeeds.")
            .violates(&["AOI-6-02"])
            .run(&["search"])
            .quirk(Quirk::MissingOperandPasses),
        mutant("aoi-05-odd-limit-passes", "AOI-05.bad-value")
            .describe("A limit that is not a number is ignored.")
            .violates(&["AOI-6-02"])
            .run(&["search", "x", "--limit", "abc"])
            .args(|args| {
                let is_invalid =
                    |text: &String| !text.is_empty() && text.chars().all(char::is_alphabetic);
                let condition = args.iter().position(|word| word == "--limit");
                let value = condition.and_then(|at| args.get(at + 1));
                match value.is_some_and(is_invalid) {
                    true => without(args, "--limit", true),
                    false => args,
                }
            }),
        mutant("aoi-05-odd-output-passes", "AOI-05.bad-value")
            .describe("An unknown output format is treated as the default.")
            .violates(&["AOI-6-02"])
            .run(&["search", "x", "--output", "nonsense"])
            .quirk(Quirk::InvalidOutputPasses),
        mutant("aoi-05-missing-value-passes", "AOI-05.bad-value")
            .describe("A flag without its value is ignored.")
            .violates(&["AOI-6-02"])
            .run(&["search", "x", "--limit"])
            .quirk(Quirk::MissingValuePasses),
        mutant("aoi-05-extra-operand-passes", "AOI-05.malformed")
            .describe("Extra operands are ignored.")
            .violates(&["AOI-6-02"])
            .run(&["search", "x", "y", "z"])
            .quirk(Quirk::ExtraOperandPasses),
        mutant("aoi-05-exit-zero", "AOI-05.unknown-flag")
            .describe("A usage error exits with code 0.")
            .violates(&["AOI-6-02"])
            .run(UNKNOWN_FLAG)
            .exit(|info, code| match info.failure {
                Some("usage") if !info.has("delete") && !info.has("purge") => 0,
                _ => code,
            }),
        mutant("aoi-05-help-and-exit-zero", "AOI-05.unknown-command")
            .describe("An unknown command prints the help and succeeds.")
            .violates(&["AOI-6-02"])
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
        mutant("aoi-05-prose-on-stdout", "AOI-05.prose")
            .describe("A usage error is explained in prose on stdout.")
            .violates(&["AOI-2-12"])
            .run(UNKNOWN_FLAG)
            .instead_if(failed("usage"), |_| {
                vec![
                    raw("usage: mock-aoi COMMAND [OPTIONS]\n"),
                    EventFrame::Exit(64),
                ]
            }),
        mutant("aoi-05-panics", "AOI-05.trace")
            .describe("A usage error causes a Rust panic.")
            .run(UNKNOWN_FLAG)
            .instead_if(failed("usage"), |_| {
                stderr(RUST);
                vec![EventFrame::Exit(101)]
            }),
        mutant("aoi-05-python-trace", "AOI-05.trace")
            .describe("A usage error causes a Python traceback.")
            .run(UNKNOWN_COMMAND)
            .instead_if(failed("usage"), |_| {
                stderr(PYTHON);
                vec![EventFrame::Exit(1)]
            }),
        mutant("aoi-05-node-trace", "AOI-05.trace")
            .describe("A usage error causes a Node stack trace.")
            .run(UNKNOWN_COMMAND)
            .instead_if(failed("usage"), |_| {
                stderr(NODE);
                vec![EventFrame::Exit(1)]
            }),
        mutant("aoi-05-aborts", "AOI-05.signal")
            .describe("A usage error kills the process with a signal.")
            .run(UNKNOWN_FLAG)
            .instead_if(failed("usage"), |_| kill_self(libc::SIGABRT)),
        mutant("aoi-05-no-category", "AOI-05.error-fields")
            .describe("Errors have no category.")
            .violates(&["AOI-8.3-11", "AOI-9-03"])
            .run(UNKNOWN_FLAG)
            .event("aoi:error", removes("category")),
        mutant("aoi-05-no-code", "AOI-05.error-fields")
            .describe("Errors have no code.")
            .violates(&["AOI-8.3-11", "AOI-9-03"])
            .run(UNKNOWN_FLAG)
            .event("aoi:error", removes("code")),
        mutant("aoi-05-code-number", "AOI-05.error-fields")
            .describe("The code of an error is a number.")
            .violates(&["AOI-8.3-11", "AOI-9-03"])
            .run(UNKNOWN_FLAG)
            .event("aoi:error", sets("code", 64)),
        mutant("aoi-05-no-message", "AOI-05.error-fields")
            .describe("Errors have no message.")
            .violates(&["AOI-8.3-11", "AOI-9-03"])
            .run(UNKNOWN_FLAG)
            .event("aoi:error", removes("message")),
        mutant("aoi-05-message-object", "AOI-05.error-fields")
            .describe("The message of an error is an object.")
            .violates(&["AOI-8.3-11", "AOI-9-03"])
            .run(UNKNOWN_FLAG)
            .event("aoi:error", sets("message", json!({ "en": "No." }))),
        mutant("aoi-05-no-retryable", "AOI-05.error-fields")
            .describe("Errors do not say whether a retry may help.")
            .violates(&["AOI-8.3-11", "AOI-9-03"])
            .run(UNKNOWN_FLAG)
            .event("aoi:error", removes("retryable")),
        mutant("aoi-05-retryable-text", "AOI-05.error-fields")
            .describe("`retryable` is a string.")
            .violates(&["AOI-8.3-11", "AOI-9-03"])
            .run(UNKNOWN_FLAG)
            .event("aoi:error", sets("retryable", "false")),
        mutant("aoi-05-retryable-null", "AOI-05.error-fields")
            .describe("`retryable` is null.")
            .violates(&["AOI-8.3-11", "AOI-9-03"])
            .run(&["get", "absent"])
            .event("aoi:error", sets("retryable", Value::Null)),
        mutant("aoi-05-ok-true", "AOI-05.ok-true")
            .describe("The summary of a usage error reports a success.")
            .run(UNKNOWN_FLAG)
            .event_if(failed("usage"), "aoi:summary", sets("ok", true)),
        mutant("aoi-05-odd-category", "AOI-05.category-unknown")
            .describe("A usage error has a custom category.")
            .violates(&["AOI-9-02", "AOI-9.1-01"])
            .run(UNKNOWN_FLAG)
            .event_if(failed("usage"), "aoi:error", sets("category", "bad_input"))
            .document(|document| {
                if let Some(category) = document.pointer_mut("/$defs/aoi:error/properties/category")
                {
                    *category = json!({ "type": "string" });
                }
            })
            .expect_warning(),
        mutant("aoi-05-lower-case-code", "AOI-05.code-form")
            .describe("Error codes are in lower case.")
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
            .expect_warning(),
        mutant("aoi-05-usage-is-retryable", "AOI-05.retryable-contradicts")
            .describe("A usage error is reported as retryable.")
            .violates(&["AOI-9.1-01"])
            .run(UNKNOWN_FLAG)
            .event_if(failed("usage"), "aoi:error", sets("retryable", true))
            .expect_warning(),
    ]
}
