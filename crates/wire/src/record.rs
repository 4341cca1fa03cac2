//! Writes a transcript during a conversation. It collects bytes into lines and writes each line
//! to disk before the next.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::Value;

use crate::file::line_value;
use crate::transcript::{Direction, FIRST_LINE, Line};

/// Maximum length in bytes of a recorded line. The rest is dropped, so that the line fits the
/// limit of the file even if every byte must be escaped.
const MAX_LINE_BYTES: usize = 8 << 20;
const _: () = assert!(6 * MAX_LINE_BYTES as u64 + 4096 < crate::file::MAX_LINE_BYTES);

#[derive(Default)]
struct Stream {
    offset: u64,
    kept: Vec<u8>,
    length: u64,
}

impl Stream {
    fn add(&mut self, bytes: &[u8], max_line_bytes: usize) {
        self.length += bytes.len() as u64;
        let room = max_line_bytes
            .saturating_sub(self.kept.len())
            .min(bytes.len());
        self.kept
            .extend_from_slice(bytes.get(..room).unwrap_or_default());
    }
}

/// Writes a transcript to `W`.
pub struct TranscriptRecorder<W> {
    out: W,
    max_line_bytes: usize,
    number: u64,
    to_agent: Stream,
    from_agent: Stream,
    stderr: Stream,
    process: Stream,
}

impl<W: Write> TranscriptRecorder<W> {
    /// Starts a recording. `head` is the first line of the file, see `file::head`.
    pub fn new(mut out: W, head: &Value) -> io::Result<Self> {
        out.write_all(format!("{head}\n").as_bytes())?;
        out.flush()?;
        Ok(TranscriptRecorder {
            out,
            max_line_bytes: MAX_LINE_BYTES,
            number: FIRST_LINE - 1,
            to_agent: Stream::default(),
            from_agent: Stream::default(),
            stderr: Stream::default(),
            process: Stream::default(),
        })
    }

    fn stream(&mut self, direction: Direction) -> &mut Stream {
        match direction {
            Direction::ToAgent => &mut self.to_agent,
            Direction::FromAgent => &mut self.from_agent,
            Direction::Stderr => &mut self.stderr,
            Direction::Process => &mut self.process,
        }
    }

    /// Records the next bytes of a direction, which may end in the middle of a line.
    pub fn bytes(&mut self, direction: Direction, at: Duration, bytes: &[u8]) -> io::Result<()> {
        let max_line_bytes = self.max_line_bytes;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(whole) => {
                    self.stream(direction).add(whole, max_line_bytes);
                    self.line(direction, at, true)?;
                }
                None => self.stream(direction).add(piece, max_line_bytes),
            }
        }
        Ok(())
    }

    /// Records an event of the process.
    pub fn process(&mut self, at: Duration, what: &Value) -> io::Result<()> {
        self.process
            .add(what.to_string().as_bytes(), self.max_line_bytes);
        self.line(Direction::Process, at, true)
    }

    /// Records the last lines that have no line feed.
    pub fn flush(&mut self, at: Duration) -> io::Result<()> {
        for direction in [Direction::ToAgent, Direction::FromAgent, Direction::Stderr] {
            if self.stream(direction).length > 0 {
                self.line(direction, at, false)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, direction: Direction, at: Duration, ended: bool) -> io::Result<()> {
        self.number += 1;
        let number = self.number;
        let stream = self.stream(direction);
        let bytes = std::mem::take(&mut stream.kept);
        let length = std::mem::take(&mut stream.length);
        let line = Line {
            number,
            direction,
            at,
            offset: stream.offset,
            cut: (length > bytes.len() as u64).then_some(length),
            bytes,
            ended,
        };
        stream.offset += length + u64::from(ended);
        // Write each line at once, so that a reader of the growing file sees only whole lines.
        self.out
            .write_all(format!("{}\n", line_value(&line)).as_bytes())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;
    use serde_json::json;

    #[test]
    fn pieces_are_recorded_as_lines_without_losing_bytes() {
        let mut written = Vec::new();
        let mut recorder = TranscriptRecorder::new(&mut written, &file::head("x")).unwrap();
        let at = Duration::from_millis(1);
        recorder.process(at, &json!({"started": true})).unwrap();
        recorder.bytes(Direction::ToAgent, at, b"{\"a\"").unwrap();
        recorder
            .bytes(Direction::FromAgent, at, b"one\r\n\ntwo")
            .unwrap();
        recorder
            .bytes(Direction::ToAgent, at, b":1}\n\xff\n")
            .unwrap();
        recorder.flush(at).unwrap();
        let (back, _) = file::read(written.as_slice()).unwrap();
        let of = |direction| {
            let mut bytes = Vec::new();
            for line in back.lines().filter(|l| l.direction == direction) {
                assert_eq!(line.offset, bytes.len() as u64);
                bytes.extend(line.bytes);
                bytes.extend(line.ended.then_some(b'\n'));
            }
            bytes
        };
        assert_eq!(of(Direction::ToAgent), b"{\"a\":1}\n\xff\n");
        assert_eq!(of(Direction::FromAgent), b"one\r\n\ntwo");
        assert_eq!(back.len(), 6);
    }

    #[test]
    fn only_the_start_of_an_endless_line_is_kept() {
        let mut written = Vec::new();
        let mut recorder = TranscriptRecorder::new(&mut written, &file::head("x")).unwrap();
        recorder.max_line_bytes = 10;
        for chunk in [&b"0123456"[..], b"789abc", b"def"] {
            let at = Duration::ZERO;
            recorder.bytes(Direction::FromAgent, at, chunk).unwrap();
        }
        recorder.flush(Duration::ZERO).unwrap();
        let (back, _) = file::read(written.as_slice()).unwrap();
        let line = back.line(FIRST_LINE).unwrap();
        assert_eq!(
            (line.bytes.as_slice(), line.cut),
            (&b"0123456789"[..], Some(16))
        );
    }
}
