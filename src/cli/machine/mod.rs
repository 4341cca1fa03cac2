//! What all commands share: the frame of machine mode, its schema version, idempotency keys, pages
//! of long lists, and errors without secrets.

pub mod catalogue;
pub mod page;
pub mod redact;
pub mod stream;

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use serde_json::{Value, json};

use self::redact::Secrets;
use self::stream::{Frame, Stream};
use crate::cli::args::Global;
use crate::cli::{Failure, signals};
use crate::exit;
use agentproto_report::aoi::{self, Emitter, Fields, SCHEMA_NAME, SCHEMA_VERSION, object};
use agentproto_text as text;

/// The parts of a command line that all commands share.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// Name of the command, for example `auth set`.
    pub name: String,
    pub is_machine: bool,
    /// Value of `--idempotency-key`, unless it is a dry run.
    pub key: Option<String>,
    pub started: Option<Instant>,
}

impl Call {
    pub fn of(matches: &ArgMatches) -> Self {
        let mut names = Vec::new();
        let mut leaf = matches;
        while let Some((name, below)) = leaf.subcommand() {
            names.push(name);
            leaf = below;
        }
        // Raw: the type of `--output` differs between commands.
        let text = |id: &str| {
            let mut values = leaf.try_get_raw(id).ok().flatten()?;
            Some(values.next()?.to_string_lossy().into_owned())
        };
        let is_set = |id: &str| {
            let known = leaf.try_contains_id(id).unwrap_or(false);
            known && leaf.value_source(id) == Some(ValueSource::CommandLine)
        };
        Call {
            name: names.join(" "),
            is_machine: text("output").as_deref() == Some("jsonl"),
            key: text("idempotency_key").filter(|_| !is_set("dry_run")),
            started: Some(Instant::now()),
        }
    }

    fn elapsed(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |at| at.elapsed())
    }
}

/// Stdout for a command. Debug builds check every line of machine mode against what the command
/// declares. The tests start debug builds.
pub fn stream<W: Write>(out: W, call: &Call) -> Stream<W> {
    let stream = Stream::new(out, call.is_machine);
    #[cfg(all(agents, debug_assertions))]
    let stream = stream.checked(crate::cli::agents::contract::Contract::check(&call.name));
    stream
}

/// Checks that the caller accepts our version of the events.
pub fn negotiate(global: &Global) -> Result<(), Failure> {
    let unknown = |requested: &str| {
        let message = format!("unsupported schema version `{requested}`");
        Failure::new(exit::USAGE, message)
            .typed("schema_version_unsupported")
            .hint(format!("supported: {SCHEMA_NAME}@{SCHEMA_VERSION}"))
    };
    if let Some(version) = &global.schema_version
        && !is_supported(version)
    {
        return Err(unknown(version));
    }
    let supported = |requested: &String| {
        requested
            .split_once('@')
            .is_some_and(|(name, version)| name == SCHEMA_NAME && is_supported(version))
    };
    match global.accept_schema.first() {
        Some(first) if !global.accept_schema.iter().any(supported) => Err(unknown(first)),
        _ => Ok(()),
    }
}

/// Whether this version is ours, in full or as a prefix: `1`, `1.0`.
fn is_supported(requested: &str) -> bool {
    let rest = SCHEMA_VERSION.strip_prefix(requested);
    !requested.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Prints an error: to stderr for people, and in machine mode also as events.
pub fn print_failure<W: Write>(
    call: &Call,
    failure: &Failure,
    secrets: &Secrets,
    out: &mut Stream<W>,
) {
    if failure.message.is_empty() {
        return;
    }
    let message = secrets.redact(&failure.message).into_owned();
    let hint = failure
        .hint
        .as_deref()
        .map(|hint| secrets.redact(hint).into_owned());
    let failure = &Failure {
        code: failure.code,
        message,
        hint,
        slug: failure.slug,
        details: failure.details.clone(),
    };
    let clauses = failure.details.get("clauses").and_then(Value::as_array);
    let message = match (clauses, failure.message.split_once(": `")) {
        // The clauses follow on their own lines.
        (Some(_), Some((message, _))) => message,
        _ => &failure.message,
    };
    // The message has several lines if a file has several errors.
    let message = text::escape_lines(message);
    let mut err = io::stderr().lock();
    let _ = match failure.slug {
        Some(slug) => writeln!(err, "agentproto: {slug}: {message}"),
        None => writeln!(err, "agentproto: {message}"),
    };
    for clause in clauses.into_iter().flatten() {
        let field = |name: &str| secrets.redact(clause[name].as_str().unwrap_or_default());
        let _ = writeln!(err, "  `{}`", text::escape_line(&field("clause")));
        let _ = writeln!(err, "    {}", text::escape_line(&field("why")));
    }
    if let Some(hint) = &failure.hint {
        let _ = writeln!(err, "  {}", text::escape_line(hint));
    }
    if call.is_machine && !out.frame.is_closed {
        let _ = failure_events(call, failure, out);
    }
}

/// Writes the missing events of the frame: meta, error and summary.
fn failure_events<W: Write>(call: &Call, failure: &Failure, out: &mut Stream<W>) -> io::Result<()> {
    let frame = out.frame.clone();
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    if !frame.is_open {
        emitter.meta(&call.name)?;
    }
    let error = failure.event();
    emitter.error(&error.as_failure())?;
    let mut fields = counts(&frame);
    fields.insert("error_count".to_owned(), (frame.errors + 1).into());
    if matches!(failure.code, exit::INTERRUPTED | exit::TERMINATED) {
        fields.extend(object(json!({ "reason": "interrupted", "partial": true })));
    }
    if !failure.details.is_null() {
        fields.insert("details".to_owned(), (*failure.details).clone());
    }
    emitter.summary(false, call.elapsed(), fields)
}

/// Counts of the events before this emitter was created.
fn counts(frame: &Frame) -> Fields {
    object(json!({
        "count": frame.events,
        "error_count": frame.errors,
        "warning_count": frame.warnings,
    }))
}

/// Reports output that the command does not declare, and returns the exit code for it.
pub fn report_violation<W: Write>(out: &Stream<W>) -> Option<u8> {
    let violation = out.violation.as_ref()?;
    let _ = writeln!(
        io::stderr().lock(),
        "agentproto: internal error: {violation}"
    );
    Some(exit::INTERNAL)
}

/// Ends a stream that a signal cut off, and returns the exit code.
pub fn interrupted<W: Write>(call: &Call, out: &mut Stream<W>) -> u8 {
    let frame = out.frame.clone();
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    if !frame.is_open {
        let _ = emitter.meta(&call.name);
    }
    let mut fields = counts(&frame);
    fields.extend(object(json!({ "reason": "interrupted", "partial": true })));
    let _ = emitter.summary(false, call.elapsed(), fields);
    signals::code().unwrap_or(exit::INTERRUPTED)
}

/// Reports an invalid command line: to stderr for people, and as events if the caller asks for
/// them.
pub fn usage_error(error: &clap::Error) -> u8 {
    // clap prints help and version to stdout, errors to stderr.
    if !error.use_stderr() {
        return match error.print() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => exit::IO,
            _ => exit::CLEAN,
        };
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let secrets = Secrets::of(words.iter().map(|word| word.to_string_lossy()));
    let plain = error.render().to_string();
    let redacted = secrets.redact(&plain);
    let _ = match redacted == plain {
        true => error.print(),
        false => io::stderr().lock().write_all(redacted.as_bytes()),
    };
    let tip = missing_separator_tip(error, &words);
    if let Some(tip) = &tip {
        let _ = writeln!(io::stderr().lock(), "\n  tip: {tip}");
    }
    if !asks_for_events(&words) {
        return exit::USAGE;
    }
    let first = redacted.lines().next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first);
    let failure = Failure::new(exit::USAGE, message).typed("usage").hint(
        tip.as_deref()
            .unwrap_or("`agentproto --help` lists the commands"),
    );
    let call = Call {
        name: command_in(&words),
        is_machine: true,
        ..Call::default()
    };
    let mut out = stream(io::stdout().lock(), &call);
    let _ = failure_events(&call, &failure, &mut out).and_then(|()| out.flush());
    report_violation(&out).unwrap_or(exit::USAGE)
}

/// A tip for a command of another program without `--` before it.
fn missing_separator_tip(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let takes_command = ["certify", "aoi-lint", "record"];
    let name = command_in(words);
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    // A typo is more likely than a command. clap also suggests options that are not very similar.
    let (found, suggested) = (
        text(ContextKind::InvalidArg),
        text(ContextKind::SuggestedArg),
    );
    let is_typo = text::closest_of(found, [suggested]).is_some();
    let is_that = error.kind() == clap::error::ErrorKind::UnknownArgument
        && !is_typo
        && takes_command.contains(&name.as_str())
        && !words.iter().any(|word| word == "--");
    is_that.then(|| {
        format!("put `--` before the command to run: `agentproto {name} [OPTIONS] -- my-tool …`")
    })
}

/// Whether an invalid command line asks for machine mode.
fn asks_for_events(words: &[OsString]) -> bool {
    let end = words.iter().position(|word| word == "--");
    let words = words.get(..end.unwrap_or(words.len())).unwrap_or(words);
    let one = |word: &OsString| {
        let forms = ["--output=jsonl", "--format=jsonl", "-o=jsonl", "-ojsonl"];
        forms.iter().any(|form| word == form)
    };
    let two = |pair: &[OsString]| {
        matches!(pair, [name, value] if value == "jsonl"
            && ["--output", "--format", "-o"].iter().any(|n| name == n))
    };
    words.iter().any(one) || words.windows(2).any(two)
}

/// The command that the arguments name, as far as it exists.
fn command_in(words: &[OsString]) -> String {
    let mut names = Vec::new();
    let root = catalogue::tree();
    let mut level = &root;
    for word in words {
        let Some(word) = word.to_str().filter(|word| !word.starts_with('-')) else {
            continue;
        };
        let Some(found) = level.find_subcommand(word) else {
            break;
        };
        names.push(found.get_name().to_owned());
        level = found;
    }
    match names.is_empty() {
        true => "agentproto".to_owned(),
        false => names.join(" "),
    }
}

/// The texts of an `aoi:error`.
pub struct ErrorEvent<'f> {
    failure: &'f Failure,
    code: String,
}

impl ErrorEvent<'_> {
    pub fn as_failure(&self) -> aoi::ErrorEvent<'_> {
        aoi::ErrorEvent {
            code: &self.code,
            category: self.failure.category(),
            message: &self.failure.message,
            retryable: self.failure.category().is_retryable(),
            hint: self.failure.hint.as_deref(),
        }
    }
}

impl Failure {
    /// The failure as an event of machine mode.
    pub fn event(&self) -> ErrorEvent<'_> {
        let code = match self.slug {
            Some(slug) => slug.to_ascii_uppercase(),
            None => format!("EXIT_{}", self.code),
        };
        ErrorEvent {
            failure: self,
            code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_given_in_full_or_as_a_prefix() {
        for (requested, expected) in [
            ("1", true),
            ("1.0", true),
            ("1.0.0", true),
            ("", false),
            ("1.", false),
            ("1.1", false),
            ("10", false),
            ("2", false),
        ] {
            assert_eq!(is_supported(requested), expected, "{requested}");
        }
    }

    #[test]
    fn the_command_of_an_invalid_command_line_is_found() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(OsString::from).collect() };
        for (text, expected) in [
            ("rules --nonsense", "rules"),
            ("--color never rules x", "rules"),
            ("nonsense", "agentproto"),
        ] {
            // The value of an option before the command is taken for an argument.
            let found = command_in(&words(text));
            assert!(
                found == expected || text.contains("--color"),
                "{text}: {found}"
            );
        }
    }
}
