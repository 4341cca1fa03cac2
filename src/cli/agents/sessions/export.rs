//! `agentproto sessions export`: the whole history of a session, page by page.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::find::{self, id_of};
use super::markdown::Markdown;
use crate::cli::agents::client::{Client, HostOptions, percent_encode};
use crate::cli::args::Output;
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_text::{count, escape_json, escape_line};

/// Events per page. Each can be large.
const PAGE: usize = 200;

#[derive(Args, Debug)]
pub struct Export {
    /// Id of the session, or a unique prefix
    #[arg(value_name = "ID")]
    pub session: String,
    /// Format of the document [default: markdown]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<Format>,
    /// Write the document to FILE
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    #[command(flatten)]
    pub host: HostOptions,
    /// Output format: the document as text, as one JSON document, or as events
    #[arg(long, short = 'o', value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Markdown,
    Json,
    Jsonl,
}

/// What was exported.
#[derive(Default)]
struct Counts {
    events: usize,
    gaps: usize,
}

pub fn run(args: &Export, out: &mut dyn Write) -> Outcome {
    if args.output_file.is_none() && args.format.is_some() && args.output != Output::Human {
        let what = "`--format` has no effect with this `--output`";
        return Err(Failure::new(exit::USAGE, what)
            .hint("add `--output-file FILE`, or leave out one of the two options"));
    }
    let started = Instant::now();
    let client = Client::new(&args.host)?;
    let session = find::one(&client, &args.session)?;
    let mut pages = Pages::new(client, id_of(&session))?;
    let format = args.format.unwrap_or(Format::Markdown);
    let Some(file) = &args.output_file else {
        return match args.output {
            Output::Human => document(&session, pages, format, out),
            Output::Json => document(&session, pages, Format::Json, out),
            Output::Jsonl => return events(&session, pages, started, out),
        }
        .map(|_| exit::CLEAN);
    };
    let cannot = |error: io::Error| {
        let what = format!("cannot write `{}`: {error}", file.display());
        Failure::new(exit::CANT_CREATE, what)
            .hint("`--output-file` must be a file that you can write")
    };
    let mut writer = BufWriter::new(File::create(file).map_err(cannot)?);
    let counts = document(&session, std::mem::take(&mut pages), format, &mut writer)?;
    writer.flush().map_err(cannot)?;
    written(args, &session, file, &counts, started, out)
}

/// Reports the file that was written.
fn written(
    args: &Export,
    session: &Value,
    file: &Path,
    counts: &Counts,
    started: Instant,
    out: &mut dyn Write,
) -> Outcome {
    let fields = json!({
        "session_id": session["id"],
        "file": file.to_string_lossy(),
        "events": counts.events,
        "gaps": counts.gaps,
    });
    match args.output {
        Output::Human => {
            let events = count(counts.events, "event", "events");
            let file = file.to_string_lossy();
            writeln!(out, "wrote {events} to {}", escape_line(&file)).map_err(io_failure)?;
        }
        Output::Json => {
            let text = agentproto_text::pretty(&fields).map_err(io_failure)?;
            writeln!(out, "{text}").map_err(io_failure)?;
        }
        Output::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta("sessions export").map_err(io_failure)?;
            emitter
                .event(EventType::HostSession, &object(session.clone()))
                .map_err(io_failure)?;
            emitter
                .summary(true, started.elapsed(), object(fields))
                .map_err(io_failure)?;
        }
    }
    Ok(exit::CLEAN)
}

/// The events as machine mode: the record of the session, then each event.
fn events(session: &Value, pages: Pages, started: Instant, out: &mut dyn Write) -> Outcome {
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    emitter.meta("sessions export").map_err(io_failure)?;
    emitter
        .event(EventType::HostSession, &object(session.clone()))
        .map_err(io_failure)?;
    let mut gaps = 0;
    for event in pages {
        let event = event?;
        gaps += usize::from(event["event"] == "gap");
        emitter
            .event(EventType::SessionEvent, &object(event))
            .map_err(io_failure)?;
        if emitter.is_closed() {
            return Ok(exit::CLEAN);
        }
    }
    let fields = json!({ "session_id": session["id"], "gaps": gaps });
    emitter
        .summary(true, started.elapsed(), object(fields))
        .map_err(io_failure)?;
    Ok(exit::CLEAN)
}

/// Writes the document while the pages arrive.
fn document(
    session: &Value,
    pages: Pages,
    format: Format,
    out: &mut dyn Write,
) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut markdown = Markdown::default();
    match format {
        Format::Markdown => markdown.head(session, out),
        Format::Json => write!(out, "{{\"session\":{},\"events\":[", safe_json(session)),
        Format::Jsonl => Ok(()),
    }
    .map_err(io_failure)?;
    for event in pages {
        let event = event?;
        counts.gaps += usize::from(event["event"] == "gap");
        match format {
            Format::Markdown => markdown.event(&event, out),
            Format::Json if counts.events == 0 => write!(out, "\n{}", safe_json(&event)),
            Format::Json => write!(out, ",\n{}", safe_json(&event)),
            Format::Jsonl => writeln!(out, "{}", safe_json(&event)),
        }
        .map_err(io_failure)?;
        counts.events += 1;
    }
    match format {
        Format::Markdown => markdown.end(session, out),
        Format::Json => writeln!(out, "\n]}}"),
        Format::Jsonl => Ok(()),
    }
    .map_err(io_failure)?;
    Ok(counts)
}

/// JSON on one line that is safe to print on a terminal.
fn safe_json(value: &Value) -> String {
    escape_json(&value.to_string()).into_owned()
}

/// The events of a session, one page after the other.
#[derive(Default)]
struct Pages {
    client: Option<Client>,
    id: String,
    page: std::vec::IntoIter<Value>,
    next: Option<String>,
}

impl Pages {
    /// Reads the first page, so that an unknown session is an error before anything is written.
    fn new(client: Client, id: String) -> Result<Pages, Failure> {
        let mut pages = Pages {
            client: Some(client),
            id,
            ..Pages::default()
        };
        pages.read(None)?;
        Ok(pages)
    }

    fn read(&mut self, after: Option<&str>) -> Result<(), Failure> {
        let Some(client) = &self.client else {
            return Ok(());
        };
        let mut path = find::path(&self.id, &format!("/events?limit={PAGE}"));
        if let Some(after) = after {
            path.push_str(&format!("&after={}", percent_encode(after)));
        }
        let answer = find::request(client, move |client| client.get(&path))?;
        let Value::Array(events) = answer["events"].clone() else {
            let what = "invalid response of the host (AIP-46): the list `events` is missing";
            return Err(Failure::new(exit::UNAVAILABLE, what)
                .hint("check that the URL is that of a session host"));
        };
        let next = answer["next"].as_str().map(str::to_owned);
        // A page that leads to itself would never end.
        self.next = next.filter(|next| !events.is_empty() && Some(next.as_str()) != after);
        self.page = events.into_iter();
        Ok(())
    }
}

impl Iterator for Pages {
    type Item = Result<Value, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.page.next() {
                return Some(Ok(event));
            }
            let after = self.next.take()?;
            if let Err(failure) = self.read(Some(&after)) {
                return Some(Err(failure));
            }
        }
    }
}
