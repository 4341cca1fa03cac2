//! What to write in a language so that a rule holds.

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
            "Keep the schema as package data (importlib.resources) and answer `schema` and `capabilities` before any configuration, client or login is touched.",
            "Import the schema as a JSON module and answer `schema` and `capabilities` before any client is made; load SDKs lazily.",
            "`//go:embed` the schema and give `schema` and `capabilities` no PersistentPreRun that logs in or reads configuration.",
            "`include_str!` the schema and match these two commands before configuration or a runtime is set up.",
            "Print it from a quoted here-document, before the script sources settings or asks for a token.",
        ],
        Topic::Json => [
            "One function writes events: `sys.stdout.write(json.dumps(event, ensure_ascii=False, allow_nan=False) + \"\\n\")`; logging and print go to sys.stderr.",
            "One function writes events: `process.stdout.write(JSON.stringify(event) + \"\\n\")`; no console.log, only console.error.",
            "One `json.NewEncoder(os.Stdout)` (SetEscapeHTML(false)) writes structs with a `type` field; the logger writes to os.Stderr.",
            "A serde enum with `#[serde(tag = \"type\")]`, written with serde_json::to_writer and one newline; tracing and eprintln! go to stderr.",
            "Emit with `jq -cn --arg …` and never with echo; send every other tool's stdout to `>&2`.",
        ],
        Topic::Summary => [
            "Write the summary in the same function that returns the exit code, in a `finally` that knows whether an exception came.",
            "Await all work, write the summary once, then set `process.exitCode`; a rejected promise writes ok: false.",
            "`main` calls `run() error`, writes the one summary from its result, then os.Exit.",
            "`main` takes the Result of `run`, writes the summary from it, then returns the ExitCode.",
            "`trap finish EXIT` where `finish` writes the summary from `$?`, once.",
        ],
        Topic::Flush => [
            "`sys.stdout.flush()` after the summary inside the try, and exit 74 where it raises; never os._exit before it.",
            "Never call process.exit() after a write: set process.exitCode and let stdout drain, or wait for the write's callback.",
            "Flush the bufio.Writer after the summary and turn its error into an exit status that is not 0.",
            "`flush()` stdout before returning and turn its error into a failing ExitCode; process::exit flushes no BufWriter.",
            "Check the status of the last printf: `printf … || exit 74`.",
        ],
        Topic::Errors => [
            "Subclass ArgumentParser.error to write an aoi:error and exit 64; catch everything at the top so that no Traceback reaches a stream.",
            "commander/yargs: override exit and `fail` to write an aoi:error; process.on('uncaughtException') does the same.",
            "Set SilenceUsage and SilenceErrors in cobra, and turn the returned error into an aoi:error and exit 64; recover() in main.",
            "`Cli::try_parse()` and turn clap's error into an aoi:error and exit 64; set a panic hook that prints no trace in machine mode.",
            "The `*)` of getopts or case writes an aoi:error with category usage and exits 64; quote and check every operand.",
        ],
        Topic::Confirm => [
            "Without --confirm raise before the first change; never call input() or click.confirm() in machine mode; --dry-run returns the plan from the same function that would act.",
            "Without --confirm write an aoi:error and stop before any await that changes something; no inquirer in machine mode.",
            "Check the confirm flag in the command's PreRunE; make the plan a value, print it for --dry-run, apply it otherwise.",
            "Make `plan()` return what would be done; print it for --dry-run and apply it only with --confirm.",
            "Test for --confirm first; never `read` from the terminal in machine mode; rm, mv and curl -X stand behind one `apply` function.",
        ],
        Topic::Idempotency => [
            "Keep key → result in the same transaction as the change (UNIQUE column); a known key returns the stored result.",
            "Insert the key with a unique constraint in the transaction of the change; on a conflict read the stored result and print it.",
            "Store key, fingerprint of the input and result together; a known key with another input is a conflict.",
            "Store key, fingerprint of the input and result in one transaction; replay the result for a known key.",
            "Pass the key on to the service (Idempotency-Key header), or keep results in a file per key made with `mkdir` as the lock.",
        ],
        Topic::Ids => [
            "Emit the id that the store gave back, after the commit, one event per changed thing.",
            "Emit the id of the response, not of the request, one event per changed thing.",
            "Return the stored record from the change and emit its ID, one event per changed thing.",
            "Let the store return the record and emit its id, one event per changed thing.",
            "Take the id out of the service's answer with `jq -r .id` and emit it in the event.",
        ],
        Topic::Secrets => [
            "Override ArgumentParser.error, which quotes what it refuses; never put argparse.Namespace, os.environ or a request into an event or a log; wrap secrets in a type whose __repr__ is `[redacted]`.",
            "Never stringify argv, process.env, a request or an SDK's error; keep secrets in an object whose toJSON is `[redacted]`.",
            "A `type Secret string` with String() and MarshalJSON that answer `[redacted]`; strip userinfo and query from URLs before they are shown.",
            "Keep secrets in a newtype whose Debug and Display are `[redacted]` (secrecy); name an unknown flag without its value.",
            "No `set -x`; give secrets to curl through a file (`-H @file`), and do not quote a refused argument with its value.",
        ],
        Topic::Pipe => [
            "`signal.signal(SIGPIPE, SIG_DFL)` at the start, or catch BrokenPipeError, point fd 1 to devnull and exit 141.",
            "`process.stdout.on('error', e => { if (e.code === 'EPIPE') process.exit(0) })`, and the same for stderr.",
            "On a write error that is syscall.EPIPE end quietly; do not signal.Ignore(SIGPIPE).",
            "Use writeln! and treat ErrorKind::BrokenPipe as a clean end; println! panics.",
            "Let SIGPIPE end the script; with `set -o pipefail` accept 141.",
        ],
        Topic::Signals => [
            "Handlers for SIGINT and SIGTERM set a flag; the loop ends, writes the summary with reason: interrupted and exits 130 or 143.",
            "process.once('SIGINT'|'SIGTERM') aborts an AbortController; the end writes the summary and sets exitCode 130 or 143.",
            "signal.NotifyContext; when the context is done write the summary with reason: interrupted, then exit 130 or 143.",
            "signal-hook or tokio::signal sets a flag; the loop ends, writes the summary and returns 130 or 143.",
            "`trap 'interrupted 130' INT; trap 'interrupted 143' TERM`, which writes the summary and exits; wait for children in the background so that traps run at once.",
        ],
        Topic::Bounds => [
            "Ask for limit + 1 rows: the one too many says truncated, and its key is next_cursor; yield rows as they come.",
            "Ask for limit + 1 rows; stream with for await and write each row at once.",
            "Ask for limit + 1 rows; the last key that was printed, encoded, is next_cursor; flush after each row.",
            "Take limit + 1 from the iterator; truncated is whether the last one was there; flush each line.",
            "Ask the service for a page with its own cursor and pass that on; `head -n` alone cannot say whether there was more.",
        ],
        Topic::Input => [
            "for number, line in enumerate(sys.stdin.buffer, 1): parse, check that it is a dict and validate before anything is applied; report `line_number`.",
            "readline over process.stdin with a counter; parse and validate each line before anything is applied; report `line_number`.",
            "bufio.Reader.ReadBytes('\\n') (a Scanner stops at 64 KiB), Decoder.DisallowUnknownFields, a counter for `line_number`.",
            "read_until(b'\\n') with a counter, serde with deny_unknown_fields, and all lines checked before the first is applied.",
            "`jq -c` line by line with `input_line_number`; refuse the whole input before the first change.",
        ],
        Topic::Versions => [
            "One constant for the schema version, put into meta and into the schema; a table version → serializer; an unknown one ends with aoi:error before meta.",
            "One constant for the schema version; a map version → encoder; an unknown one ends with aoi:error before the first event.",
            "Event structs per major version behind one interface; choose by the flag before the first event.",
            "An enum of versions parsed by clap's value_parser; each has its own From<Event>.",
            "A `case \"$schema_version\"` that chooses the jq filter; `*)` writes an aoi:error and exits 64.",
        ],
        Topic::Surface => [
            "argparse: `--output`/`--format` with choices that include jsonl on every subparser; -h and --version work without a subcommand.",
            "commander: a global `--output <format>` inherited by all commands; --help and --version exit 0.",
            "cobra: a persistent `--output` flag; every command in `capabilities` comes from the command tree itself.",
            "clap: a global `--output` ValueEnum; build `capabilities` from Cli::command() so that it cannot drift.",
            "Parse `--output jsonl` before the subcommand as well as after it; --help prints to stdout and exits 0.",
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
            Topic::Surface,
        ];
        for topic in topics {
            for (language, text) in of(topic) {
                assert!(text.len() > 20, "{topic:?} {language:?}");
            }
        }
    }
}
