//! `agentproto diff`: compares two transcripts.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::agents::file_errors::unreadable;
use crate::cli::args::{Global, Output};
use crate::cli::{Failure, Outcome, io_failure, terminal};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_text::{clip, count, escape_line};
use agentproto_wire::Transcript;
use agentproto_wire::diff::{self, Difference};
use agentproto_wire::file::{self, TranscriptError};

/// Maximum number of lines shown per difference.
const MAX_SHOWN_LINES: usize = 60;
const MAX_LINE_WIDTH: usize = 500;

#[derive(Args, Debug)]
pub struct Diff {
    /// Transcript written by `record`, `replay` or `certify --report-dir`
    pub a: PathBuf,
    /// Transcript to compare it with
    pub b: PathBuf,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

pub fn run(args: &Diff, global: &Global, out: &mut dyn Write) -> Outcome {
    let (a, _) = read(&args.a)?;
    let (b, _) = read(&args.b)?;
    let sides = [
        Side::new(&args.a.to_string_lossy(), &a, a.numbers()),
        Side::new(&args.b.to_string_lossy(), &b, b.numbers()),
    ];
    show(&sides, &[], args.output, "diff", global, out)
}

/// A transcript and its name.
pub struct Side<'t> {
    pub name: String,
    pub transcript: &'t Transcript,
    pub lines: RangeInclusive<u64>,
}

impl<'t> Side<'t> {
    pub fn new(name: &str, transcript: &'t Transcript, lines: RangeInclusive<u64>) -> Side<'t> {
        Side {
            name: name.to_owned(),
            transcript,
            lines,
        }
    }
}

/// Reads a transcript file and its header.
pub fn read(path: &Path) -> Result<(Transcript, Value), Failure> {
    let name = path.to_string_lossy();
    let read_failure = |error: io::Error| {
        let failure = unreadable(path, &error);
        match error.kind() {
            io::ErrorKind::NotFound => Failure {
                message: format!("the recording {}", failure.message),
                ..failure
            },
            _ => Failure::new(exit::IO, failure.message),
        }
    };
    let file = File::open(path).map_err(read_failure)?;
    file::read(BufReader::new(file)).map_err(|error| match error {
        TranscriptError::Io(error) => read_failure(error),
        TranscriptError::Line(line, what) => Failure::new(
            exit::DATA,
            format!("invalid transcript: {name}:{line}: {what}"),
        )
        .hint("`agentproto record` writes one; see `agentproto schema --name transcript`"),
    })
}

pub fn show(
    [a, b]: &[Side<'_>; 2],
    notes: &[String],
    output: Output,
    command: &str,
    global: &Global,
    out: &mut dyn Write,
) -> Outcome {
    let started = Instant::now();
    let normal = |side: &Side| diff::normalize(side.transcript, side.lines.clone());
    let (ours, theirs) = (normal(a), normal(b));
    let found = diff::diff(&ours, &theirs);
    let is_same = found.is_empty();
    let written = match output {
        Output::Json => {
            let list: Vec<Value> = found.iter().map(Difference::as_json).collect();
            let side = |side: &Side, lines: usize| json!({"name": side.name, "lines": lines});
            let document = json!({
                "schema": "agentproto.diff/v1",
                "a": side(a, ours.len()),
                "b": side(b, theirs.len()),
                "same": is_same,
                "differences": list,
                "notes": notes,
            });
            writeln!(out, "{document:#}")
        }
        Output::Jsonl => {
            let sides = [(a, ours.len()), (b, theirs.len())];
            events(&found, sides, notes, command, started, out)
        }
        Output::Human => human(&found, [a, b], ours.len(), notes, global, out),
    };
    written.map_err(io_failure)?;
    Ok(match is_same {
        true => exit::CLEAN,
        false => exit::FINDINGS,
    })
}

fn events(
    found: &[Difference],
    sides: [(&Side<'_>, usize); 2],
    notes: &[String],
    command: &str,
    started: Instant,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    emitter.meta(command)?;
    for (side, lines) in sides {
        let fields = json!({ "name": side.name, "lines": lines });
        emitter.event(EventType::Transcript, &object(fields))?;
    }
    for difference in found {
        emitter.event(EventType::Difference, &object(difference.as_json()))?;
    }
    let is_same = found.is_empty();
    let fields = object(json!({"same": is_same, "differences": found.len(), "notes": notes}));
    emitter.summary(is_same, started.elapsed(), fields)
}

fn human(
    found: &[Difference],
    [a, b]: [&Side<'_>; 2],
    lines: usize,
    notes: &[String],
    global: &Global,
    out: &mut dyn Write,
) -> io::Result<()> {
    for note in notes {
        writeln!(out, "note: {}", escape_line(note))?;
    }
    if found.is_empty() {
        return writeln!(
            out,
            "No differences in {} (ids, times and paths are ignored).",
            count(lines, "line", "lines")
        );
    }
    let color = terminal::color(global);
    for difference in found {
        let (head, lines) = difference.lines();
        writeln!(out, "{}", escape_line(&head))?;
        for (mark, line) in lines.iter().take(MAX_SHOWN_LINES) {
            let line = escape_line(line);
            let line = clip(&line, MAX_LINE_WIDTH);
            match (color, mark) {
                (true, '-') => writeln!(out, "  \x1b[31m- {line}\x1b[0m")?,
                (true, '+') => writeln!(out, "  \x1b[32m+ {line}\x1b[0m")?,
                _ => writeln!(out, "  {mark} {line}")?,
            }
        }
        if lines.len() > MAX_SHOWN_LINES {
            writeln!(out, "  and {} more lines", lines.len() - MAX_SHOWN_LINES)?;
        }
        writeln!(out)?;
    }
    writeln!(
        out,
        "{} between a ({}) and b ({})",
        count(found.len(), "difference", "differences"),
        escape_line(&a.name),
        escape_line(&b.name)
    )
}
