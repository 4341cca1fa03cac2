//! Advice per programming language: how to satisfy the rules of a topic.

use crate::rules::Topic;

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum Language {
    Python,
    Node,
    Go,
    Rust,
    #[strum(serialize = "shell")]
    Shell,
}

impl Language {
    pub const ALL: [Language; 5] = [
        Language::Python,
        Language::Node,
        Language::Go,
        Language::Rust,
        Language::Shell,
    ];

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Advice on a topic, in the order of `Language::ALL`.
pub fn of(topic: Topic) -> [(Language, &'static str); 5] {
    let texts = texts(topic);
    let mut pairs = Language::ALL.map(|language| (language, ""));
    for (pair, text) in pairs.iter_mut().zip(texts) {
        pair.1 = text;
    }
    pairs
}

fn texts(topic: Topic) -> [&'static str; 5] {
    match topic {
        Topic::Discovery => [
            "Store the schema as package data (importlib.resources). Handle `schema` and \
             `capabilities` before the program reads configuration, creates a client or logs in.",
            "Import the schema as a JSON module. Handle `schema` and `capabilities` before \
             creating any client, and load SDKs lazily.",
            "Use `//go:embed` for the schema, and do not give `schema` and `capabilities` a \
             PersistentPreRun that logs in or reads configuration.",
            "Use `include_str!` for the schema, and handle both commands before setting up \
             configuration or a runtime.",
            "Print it from a quoted here-document, before the script sources settings or asks for \
             a token.",
        ],
        Topic::Json => [
            "Use one function to write events: `sys.stdout.write(json.dumps(event, \
             ensure_ascii=False, allow_nan=False) + \"\\n\")`. Send logging and print to \
             sys.stderr.",
            "Use one function to write events: `process.stdout.write(JSON.stringify(event) + \
             \"\\n\")`. Use console.error instead of console.log.",
            "Use one `json.NewEncoder(os.Stdout)` (SetEscapeHTML(false)) to write structs with a \
             `type` field. Let the logger write to os.Stderr.",
            "Use a serde enum with `#[serde(tag = \"type\")]`. Write it with \
             serde_json::to_writer and one newline. Send tracing and eprintln! to stderr.",
            "Emit events with `jq -cn --arg …`, never with echo. Redirect the stdout of every \
             other program to `>&2`.",
        ],
        Topic::Summary => [
            "Write the summary in the function that returns the exit code, in a `finally` block \
             that knows whether an exception occurred.",
            "Await all work, write the summary once, then set `process.exitCode`. A rejected \
             promise writes ok: false.",
            "Let `main` call `run() error`, write the one summary from its result, then call \
             os.Exit.",
            "Let `main` take the Result of `run`, write the summary from it, then return the \
             ExitCode.",
            "Use `trap finish EXIT`, where `finish` writes the summary once, based on `$?`.",
        ],
        Topic::Flush => [
            "Call `sys.stdout.flush()` after the summary, inside the try block, and exit 74 if it \
             raises. Never call os._exit before that.",
            "Never call process.exit() after a write. Set process.exitCode and let stdout drain, \
             or wait for the callback of the write.",
            "Flush the bufio.Writer after the summary, and turn its error into a non-zero exit \
             code.",
            "Call `flush()` on stdout before returning, and turn its error into a failing \
             ExitCode. process::exit does not flush a BufWriter.",
            "Check the exit code of the last printf: `printf … || exit 74`.",
        ],
        Topic::Errors => [
            "Override ArgumentParser.error to write an aoi:error and exit 64. Catch all \
             exceptions at the top level, so that no traceback is printed.",
            "commander/yargs: override the exit and `fail` handlers to write an aoi:error. Do the \
             same in process.on('uncaughtException').",
            "Set SilenceUsage and SilenceErrors in cobra. Turn the returned error into an \
             aoi:error and exit 64. Call recover() in main.",
            "Use `Cli::try_parse()` and turn clap's error into an aoi:error and exit 64. Set a \
             panic hook that prints no backtrace in machine mode.",
            "Let the `*)` branch of getopts or case write an aoi:error with category usage and \
             exit 64. Quote and check every operand.",
        ],
        Topic::Confirm => [
            "Without --confirm, raise an error before the first change. Never call input() or \
             click.confirm() in machine mode. Let --dry-run return the plan from the function \
             that would apply it.",
            "Without --confirm, write an aoi:error and stop before any await that changes \
             something. Do not use inquirer in machine mode.",
            "Check the confirm flag in the command's PreRunE. Build the plan as a value: print it \
             for --dry-run, apply it otherwise.",
            "Let `plan()` return the changes. Print them for --dry-run, and apply them only with \
             --confirm.",
            "Test for --confirm first. Never `read` from the terminal in machine mode. Call rm, \
             mv and curl -X only from one `apply` function.",
        ],
        Topic::Idempotency => [
            "Store the key and the result in the same transaction as the change (UNIQUE column). \
             For a known key, return the stored result.",
            "Insert the key with a unique constraint in the transaction of the change. On a \
             conflict, read the stored result and print it.",
            "Store the key, a fingerprint of the input and the result together. Report a conflict \
             for a known key with different input.",
            "Store the key, a fingerprint of the input and the result in one transaction. Replay \
             the result for a known key.",
            "Pass the key to the service (Idempotency-Key header), or keep one result file per \
             key, with `mkdir` as the lock.",
        ],
        Topic::Ids => [
            "After the commit, emit the id that the store returned, with one event per changed \
             resource.",
            "Emit the id from the response, not from the request, with one event per changed \
             resource.",
            "Return the stored record from the change and emit its ID, with one event per changed \
             resource.",
            "Let the store return the record and emit its id, with one event per changed resource.",
            "Extract the id from the service's response with `jq -r .id` and emit it in the event.",
        ],
        Topic::Secrets => [
            "Override ArgumentParser.error, which quotes the rejected argument. Never put \
             argparse.Namespace, os.environ or a request into an event or a log. Wrap secrets in \
             a type whose __repr__ is `[redacted]`.",
            "Never stringify argv, process.env, a request or an SDK error. Keep secrets in an \
             object whose toJSON returns `[redacted]`.",
            "Use a `type Secret string` whose String() and MarshalJSON return `[redacted]`. Strip \
             userinfo and query from URLs before printing them.",
            "Keep secrets in a newtype whose Debug and Display print `[redacted]` (secrecy). Name \
             an unknown flag without its value.",
            "Do not use `set -x`. Pass secrets to curl through a file (`-H @file`). Do not quote \
             a rejected argument with its value.",
        ],
        Topic::Pipe => [
            "Call `signal.signal(SIGPIPE, SIG_DFL)` at startup, or catch BrokenPipeError, \
             redirect fd 1 to devnull and exit 141.",
            "Add `process.stdout.on('error', e => { if (e.code === 'EPIPE') process.exit(0) })`, \
             and the same for stderr.",
            "On a write error that is syscall.EPIPE, exit silently. Do not call \
             signal.Ignore(SIGPIPE).",
            "Use writeln! and treat ErrorKind::BrokenPipe as normal termination. println! panics.",
            "Let SIGPIPE terminate the script. With `set -o pipefail`, accept 141.",
        ],
        Topic::Signals => [
            "Let the handlers for SIGINT and SIGTERM set a flag that ends the loop. Then write \
             the summary with reason: interrupted and exit 130 or 143.",
            "Let process.once('SIGINT'|'SIGTERM') abort an AbortController. At the end, write the \
             summary and set exitCode to 130 or 143.",
            "Use signal.NotifyContext. When the context is done, write the summary with reason: \
             interrupted, then exit 130 or 143.",
            "Let signal-hook or tokio::signal set a flag that ends the loop. Then write the \
             summary and return 130 or 143.",
            "Use `trap 'interrupted 130' INT; trap 'interrupted 143' TERM`, where `interrupted` \
             writes the summary and exits. Run children in the background and wait for them, so \
             that traps run at once.",
        ],
        Topic::Bounds => [
            "Fetch limit + 1 rows: if the extra row exists, set truncated and use its key as \
             next_cursor. Yield rows as they arrive.",
            "Fetch limit + 1 rows. Stream them with for await and write each row at once.",
            "Fetch limit + 1 rows. Encode the last printed key as next_cursor. Flush after each \
             row.",
            "Take limit + 1 items from the iterator. Set truncated if the last one exists. Flush \
             each line.",
            "Request a page from the service with its own cursor and pass that cursor on. `head \
             -n` alone cannot tell whether there is more.",
        ],
        Topic::Input => [
            "for number, line in enumerate(sys.stdin.buffer, 1): parse the line, check that it is \
             a dict, and validate it before applying anything. Report `line_number`.",
            "Use readline over process.stdin with a counter. Parse and validate each line before \
             applying anything. Report `line_number`.",
            "Use bufio.Reader.ReadBytes('\\n') (a Scanner stops at 64 KiB), \
             Decoder.DisallowUnknownFields, and a counter for `line_number`.",
            "Use read_until(b'\\n') with a counter and serde with deny_unknown_fields. Check all \
             lines before applying the first.",
            "Run `jq -c` line by line with `input_line_number`. Reject the whole input before the \
             first change.",
        ],
        Topic::Versions => [
            "Use one constant for the schema version in meta and in the schema, and a table from \
             version to serializer. For an unknown version, write an aoi:error before meta.",
            "Use one constant for the schema version, and a map from version to encoder. For an \
             unknown version, write an aoi:error before the first event.",
            "Define event structs per major version behind one interface. Select them by the flag \
             before the first event.",
            "Parse the version into an enum with clap's value_parser, and give each variant its \
             own From<Event>.",
            "Select the jq filter with `case \"$schema_version\"`. Let `*)` write an aoi:error \
             and exit 64.",
        ],
        Topic::Help => [
            "argparse handles -h and --help. Make both work without a subcommand, and add \
             --version with `action=\"version\"`.",
            "commander handles -h and --help. Call `.version(…)` for --version, and let all three \
             exit 0.",
            "cobra handles -h and --help. Set `Version` on the root command for --version.",
            "clap handles -h and --help. Add `#[command(version)]` for --version, and print all \
             three to stdout.",
            "Handle --help, -h and --version before everything else: print to stdout and exit 0.",
        ],
        Topic::Surface => [
            "argparse: add `--output`/`--format` with a jsonl choice to every subparser.",
            "commander: add a global `--output <format>` that all commands inherit.",
            "cobra: add a persistent `--output` flag. Generate the command list of `capabilities` \
             from the command tree.",
            "clap: add a global `--output` ValueEnum. Generate `capabilities` from \
             Cli::command(), so that both always agree.",
            "Accept `--output jsonl` before and after the subcommand.",
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_advice_in_every_language() {
        let topics = [
            Topic::Discovery,
            Topic::Json,
            Topic::Summary,
            Topic::Flush,
            Topic::Errors,
            Topic::Confirm,
            Topic::Idempotency,
            Topic::Ids,
            Topic::Secrets,
            Topic::Pipe,
            Topic::Signals,
            Topic::Bounds,
            Topic::Input,
            Topic::Versions,
            Topic::Help,
            Topic::Surface,
        ];
        for topic in topics {
            for (language, text) in of(topic) {
                assert!(text.len() > 20, "{topic:?} {language:?}");
            }
        }
    }
}
