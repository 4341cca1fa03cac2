//! Transcript files: JSON lines, starting with a header. Bytes that are not UTF-8 are stored as
//! base64.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::transcript::{Direction, Line, Transcript};

/// Value of `schema` in the header, which identifies a transcript.
pub const FORMAT: &str = "agentproto.transcript/v1";

/// Maximum length in bytes of a line in a file. This tool never writes longer lines.
pub(super) const MAX_LINE_BYTES: u64 = 64 << 20;

/// Why a transcript file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// Error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Number of the invalid line, starting at 1, and what is wrong with it.
    #[error("line {0}: {1}")]
    Line(usize, String),
}

/// The header, which is the first line of a file.
pub fn head(target: &str) -> Value {
    json!({"schema": FORMAT, "target": target})
}

/// A line of a transcript as JSON.
pub fn line_value(line: &Line) -> Value {
    let mut value = json!({
        "line": line.number,
        "direction": line.direction.as_str(),
        "ms": (line.at.as_secs_f64() * 1_000_000.0).round() / 1000.0,
        "offset": line.offset,
    });
    if let Some(members) = value.as_object_mut() {
        match std::str::from_utf8(&line.bytes) {
            Ok(text) => members.insert("text".to_owned(), json!(text)),
            Err(_) => members.insert("base64".to_owned(), json!(STANDARD.encode(&line.bytes))),
        };
        if !line.ended {
            members.insert("ended".to_owned(), json!(false));
        }
        if let Some(length) = line.cut {
            members.insert("length".to_owned(), json!(length));
        }
    }
    value
}

/// Writes a transcript.
pub fn write(transcript: &Transcript, target: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", head(target))?;
    for line in transcript.lines() {
        writeln!(out, "{}", line_value(&line))?;
    }
    out.flush()
}

/// Reads a file. Returns the transcript and its header.
pub fn read(mut input: impl BufRead) -> Result<(Transcript, Value), TranscriptError> {
    let mut transcript = Transcript::new();
    let mut head = None;
    let mut number = 0;
    let mut text = Vec::new();
    loop {
        text.clear();
        let read = io::Read::take(&mut input, MAX_LINE_BYTES).read_until(b'\n', &mut text)?;
        if read == 0 {
            break;
        }
        number += 1;
        let wrong = |what: &str| TranscriptError::Line(number, what.to_owned());
        let value: Value = serde_json::from_slice(&text)
            .map_err(|error| TranscriptError::Line(number, format!("not valid JSON: {error}")))?;
        if head.is_none() {
            if value.get("schema").and_then(Value::as_str) != Some(FORMAT) {
                return Err(wrong(
                    "not a transcript: `schema` in the first line must be `agentproto.transcript/v1`",
                ));
            }
            head = Some(value);
            continue;
        }
        let direction = value.get("direction").and_then(Value::as_str);
        let direction = direction.and_then(Direction::parse);
        let direction = direction
            .ok_or_else(|| wrong("`direction` must be to-agent, from-agent, stderr or process"))?;
        let bytes = match (value.get("text"), value.get("base64")) {
            (Some(Value::String(text)), _) => text.clone().into_bytes(),
            (None, Some(Value::String(text))) => STANDARD
                .decode(text)
                .map_err(|_| wrong("`base64` cannot be decoded"))?,
            _ => return Err(wrong("`text` or `base64` is missing")),
        };
        let ms = value.get("ms").and_then(Value::as_f64).unwrap_or(0.0);
        let at = Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default();
        let ended = value.get("ended").and_then(Value::as_bool).unwrap_or(true);
        let length = value.get("length").and_then(Value::as_u64);
        transcript.push(direction, at, &bytes, ended, length);
    }
    match head {
        Some(head) => Ok((transcript, head)),
        None => Err(TranscriptError::Line(1, "the file is empty".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_can_be_written_and_read() {
        let mut transcript = Transcript::new();
        let at = Duration::from_micros(1500);
        transcript.push(Direction::ToAgent, at, b"{\"a\":1}", true, None);
        transcript.push(Direction::FromAgent, at, b"\xff\xfe", false, None);
        transcript.push(Direction::FromAgent, at, b"cut", true, Some(99));
        let mut file = Vec::new();
        write(&transcript, "x", &mut file).unwrap();
        let (back, head) = read(file.as_slice()).unwrap();
        assert_eq!(head["target"], "x");
        let lines: Vec<Line> = back.lines().collect();
        assert_eq!(lines, transcript.lines().collect::<Vec<_>>());
    }

    #[test]
    fn invalid_transcripts_are_reported_with_their_line() {
        assert!(matches!(
            read(&b"{}\n"[..]),
            Err(TranscriptError::Line(1, _))
        ));
        assert!(matches!(read(&b""[..]), Err(TranscriptError::Line(1, _))));
        let bad = format!("{}\n{{\"direction\":\"up\"}}\n", head("x"));
        assert!(matches!(
            read(bad.as_bytes()),
            Err(TranscriptError::Line(2, _))
        ));
    }
}
