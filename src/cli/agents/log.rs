//! `--log LEVEL`: prints log messages of the libraries to stderr.

use std::fmt;

use clap::ValueEnum;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        }
    }
}

/// Starts printing log messages. Warnings of other libraries repeat what our own messages say, in
/// the words of programmers, so they are only printed with `debug` and `trace`.
pub fn start(level: LogLevel) {
    let level = LevelFilter::from(level);
    let of_libraries = match level >= LevelFilter::DEBUG {
        true => level,
        false => level.min(LevelFilter::ERROR),
    };
    let targets = Targets::new()
        .with_target("agentproto", level)
        .with_default(of_libraries);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .event_format(Line);
    let started = tracing_subscriber::registry()
        .with(targets)
        .with(lines)
        .try_init();
    // A second call in one process (tests) keeps the first subscriber.
    let _ = started;
}

/// Formats a message as `agentproto: warning: message key=value`, like all messages of the tool.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        out.write_str(match *event.metadata().level() {
            Level::ERROR => "agentproto: ",
            Level::WARN => "agentproto: warning: ",
            Level::INFO => "agentproto: info: ",
            Level::DEBUG => "agentproto: debug: ",
            Level::TRACE => "agentproto: trace: ",
        })?;
        let mut fields = String::new();
        context.format_fields(Writer::new(&mut fields), event)?;
        // Messages quote agents and manifests, so control characters are escaped.
        writeln!(out, "{}", agentproto_text::escape_lines(&fields))
    }
}
