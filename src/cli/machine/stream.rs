//! Stdout as every command sees it. In machine mode it tracks the frame: whether the stream was
//! opened and closed. It ends the stream correctly if the command cannot.

use std::io::{self, Write};

use crate::cli::signals;

/// Maximum number of bytes of a result that are stored for a replay.
const MAX_STORED_BYTES: usize = 1 << 20;

/// Describes what is wrong with a line, if anything.
pub type Check = Box<dyn FnMut(&[u8]) -> Option<String>>;

pub struct Stream<W: Write> {
    out: W,
    is_machine: bool,
    /// The start of an incomplete line.
    partial_line: Vec<u8>,
    pub frame: Frame,
    /// A copy of the output, for a repeated call with the same key.
    stored: Option<StoredOutput>,
    check: Option<Check>,
    /// What is wrong with the first line that failed the check.
    pub violation: Option<String>,
}

/// What was written so far.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    pub is_open: bool,
    pub is_closed: bool,
    pub events: usize,
    pub errors: usize,
    pub warnings: usize,
    /// Whether a signal arrived that the command did not handle.
    pub is_interrupted: bool,
}

/// The first bytes of an output, and its last line.
#[derive(Clone, Debug, Default)]
pub struct StoredOutput {
    pub bytes: Vec<u8>,
    pub is_complete: bool,
    pub last: Vec<u8>,
}

impl<W: Write> Stream<W> {
    pub fn new(out: W, is_machine: bool) -> Self {
        Stream {
            out,
            is_machine,
            partial_line: Vec::new(),
            frame: Frame::default(),
            stored: None,
            check: None,
            violation: None,
        }
    }

    /// Checks every line of machine mode against what the command declares.
    #[cfg(all(agents, debug_assertions))]
    pub fn checked(mut self, check: Option<Check>) -> Self {
        self.check = check.filter(|_| self.is_machine);
        self
    }

    pub fn store_output(&mut self) {
        self.stored = Some(StoredOutput {
            is_complete: true,
            ..StoredOutput::default()
        });
    }

    pub fn take_stored(&mut self) -> Option<StoredOutput> {
        self.stored.take()
    }

    /// Writes one complete line of machine mode.
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(check) = &mut self.check
            && self.violation.is_none()
        {
            self.violation = check(line);
        }
        let kind = kind(line);
        // After a signal that the command did not handle, only the end of the frame may follow.
        if signals::is_unreported() && !self.frame.is_interrupted {
            self.frame.is_interrupted = true;
            return Err(io::Error::other("interrupted"));
        }
        match kind {
            "aoi:meta" => self.frame.is_open = true,
            "aoi:summary" => self.frame.is_closed = true,
            "aoi:error" => self.frame.errors += 1,
            "aoi:warning" => self.frame.warnings += 1,
            "aoi:check" => self.frame.events += 1,
            kind if kind.starts_with("aoi:") => {}
            _ => self.frame.events += 1,
        }
        self.copy(line);
        self.out.write_all(line)
    }

    fn copy(&mut self, bytes: &[u8]) {
        let Some(stored) = &mut self.stored else {
            return;
        };
        stored.last = bytes.to_vec();
        match stored.is_complete && stored.bytes.len() + bytes.len() <= MAX_STORED_BYTES {
            true => stored.bytes.extend_from_slice(bytes),
            false => stored.is_complete = false,
        }
    }
}

impl<W: Write> Write for Stream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_machine {
            self.copy(bytes);
            self.out.write_all(bytes)?;
            return Ok(bytes.len());
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial_line.extend_from_slice(piece);
            if self.partial_line.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial_line);
                self.line(&line)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The type of an event, which is always the first field.
pub fn kind(line: &[u8]) -> &str {
    let text = line.strip_prefix(b"{\"type\":\"").unwrap_or_default();
    let end = text.iter().position(|byte| *byte == b'"').unwrap_or(0);
    std::str::from_utf8(text.get(..end).unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_lines(lines: &str) -> Stream<Vec<u8>> {
        let mut stream = Stream::new(Vec::new(), true);
        // Byte by byte: the pieces of a line do not matter.
        for byte in lines.as_bytes() {
            stream.write_all(&[*byte]).expect("written");
        }
        stream
    }

    #[test]
    fn the_state_of_the_frame_is_tracked() {
        let stream = write_lines(
            "{\"type\":\"aoi:meta\"}\n{\"type\":\"rule\"}\n{\"type\":\"aoi:check\"}\n\
             {\"type\":\"aoi:progress\"}\n{\"type\":\"aoi:warning\"}\n",
        );
        let frame = &stream.frame;
        assert!(frame.is_open && !frame.is_closed);
        assert_eq!((frame.events, frame.warnings, frame.errors), (2, 1, 0));
        assert!(
            write_lines("{\"type\":\"aoi:summary\",\"ok\":true}\n")
                .frame
                .is_closed
        );
        assert!(!write_lines("{\"type\":\"aoi:summary\"").frame.is_closed);
    }

    #[test]
    fn the_stored_output_is_limited() {
        let mut stream = Stream::new(Vec::new(), true);
        stream.store_output();
        stream
            .write_all(b"{\"type\":\"aoi:meta\"}\n")
            .expect("written");
        let long = format!(
            "{{\"type\":\"x\",\"y\":\"{}\"}}\n",
            "z".repeat(MAX_STORED_BYTES)
        );
        stream.write_all(long.as_bytes()).expect("written");
        stream
            .write_all(b"{\"type\":\"aoi:summary\"}\n")
            .expect("written");
        let stored = stream.take_stored().expect("kept");
        assert!(!stored.is_complete);
        assert_eq!(stored.bytes, b"{\"type\":\"aoi:meta\"}\n");
        assert_eq!(stored.last, b"{\"type\":\"aoi:summary\"}\n");
    }
}
