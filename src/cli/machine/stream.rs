//! Stdout as every command sees it. In machine mode it tracks the frame: whether the stream was
//! opened and closed. It ends the stream correctly if the command cannot.

use std::io::{self, Write};

use crate::cli::signals;

/// Maximum number of bytes of a result that are stored for a replay.
const MOST_KEPT: usize = 1 << 20;

/// Describes what is wrong with a line, if anything.
pub type Check = Box<dyn FnMut(&[u8]) -> Option<String>>;

pub struct Stream<W: Write> {
    out: W,
    is_machine: bool,
    /// The start of an incomplete line.
    begun: Vec<u8>,
    pub frame: Frame,
    /// A copy of the output, for a repeated call with the same key.
    kept: Option<Kept>,
    check: Option<Check>,
    /// What is wrong with the first line that failed the check.
    pub breach: Option<String>,
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
    pub is_cut: bool,
}

/// The first bytes of an output, and its last line.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    pub bytes: Vec<u8>,
    pub is_whole: bool,
    pub last: Vec<u8>,
}

impl<W: Write> Stream<W> {
    pub fn new(out: W, is_machine: bool) -> Self {
        Stream {
            out,
            is_machine,
            begun: Vec::new(),
            frame: Frame::default(),
            kept: None,
            check: None,
            breach: None,
        }
    }

    /// Checks every line of machine mode against what the command declares.
    #[cfg(all(agents, debug_assertions))]
    pub fn checked(mut self, check: Option<Check>) -> Self {
        self.check = check.filter(|_| self.is_machine);
        self
    }

    pub fn keep(&mut self) {
        self.kept = Some(Kept {
            is_whole: true,
            ..Kept::default()
        });
    }

    pub fn take_kept(&mut self) -> Option<Kept> {
        self.kept.take()
    }

    /// Writes one complete line of machine mode.
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(check) = &mut self.check
            && self.breach.is_none()
        {
            self.breach = check(line);
        }
        let kind = kind(line);
        // After a signal that the command did not handle, only the end of the frame may follow.
        if signals::is_unheard() && !self.frame.is_cut {
            self.frame.is_cut = true;
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
        let Some(kept) = &mut self.kept else {
            return;
        };
        kept.last = bytes.to_vec();
        match kept.is_whole && kept.bytes.len() + bytes.len() <= MOST_KEPT {
            true => kept.bytes.extend_from_slice(bytes),
            false => kept.is_whole = false,
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
            self.begun.extend_from_slice(piece);
            if self.begun.ends_with(b"\n") {
                let line = std::mem::take(&mut self.begun);
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

    fn said(lines: &str) -> Stream<Vec<u8>> {
        let mut stream = Stream::new(Vec::new(), true);
        // Byte by byte: the pieces of a line do not matter.
        for byte in lines.as_bytes() {
            stream.write_all(&[*byte]).expect("written");
        }
        stream
    }

    #[test]
    fn the_state_of_the_frame_is_tracked() {
        let stream = said(
            "{\"type\":\"aoi:meta\"}\n{\"type\":\"rule\"}\n{\"type\":\"aoi:check\"}\n\
             {\"type\":\"aoi:progress\"}\n{\"type\":\"aoi:warning\"}\n",
        );
        let frame = &stream.frame;
        assert!(frame.is_open && !frame.is_closed);
        assert_eq!((frame.events, frame.warnings, frame.errors), (2, 1, 0));
        assert!(
            said("{\"type\":\"aoi:summary\",\"ok\":true}\n")
                .frame
                .is_closed
        );
        assert!(!said("{\"type\":\"aoi:summary\"").frame.is_closed);
    }

    #[test]
    fn the_stored_output_is_limited() {
        let mut stream = Stream::new(Vec::new(), true);
        stream.keep();
        stream
            .write_all(b"{\"type\":\"aoi:meta\"}\n")
            .expect("written");
        let long = format!("{{\"type\":\"x\",\"y\":\"{}\"}}\n", "z".repeat(MOST_KEPT));
        stream.write_all(long.as_bytes()).expect("written");
        stream
            .write_all(b"{\"type\":\"aoi:summary\"}\n")
            .expect("written");
        let kept = stream.take_kept().expect("kept");
        assert!(!kept.is_whole);
        assert_eq!(kept.bytes, b"{\"type\":\"aoi:meta\"}\n");
        assert_eq!(kept.last, b"{\"type\":\"aoi:summary\"}\n");
    }
}
