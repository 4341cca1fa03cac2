//! Parses server-sent events as the HTML standard defines them, line by line.

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// The event name, or `message` if there is none.
    pub name: String,
    pub data: String,
    pub id: Option<String>,
    /// Transcript lines that contain the event.
    pub lines: Vec<u64>,
}

/// The meaning of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SseItem {
    Comment,
    Event(SseEvent),
    /// A field of an event that is not complete yet.
    Field,
}

/// Splits bytes into lines at LF, CR or CRLF.
#[derive(Default)]
pub struct SseLines {
    buffer: Vec<u8>,
    /// Whether the last byte was a CR, so that an LF after it belongs to the same line break.
    after_cr: bool,
    started: bool,
}

impl SseLines {
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for byte in bytes {
            let was_cr = std::mem::replace(&mut self.after_cr, *byte == b'\r');
            match byte {
                b'\n' if was_cr => {}
                b'\n' | b'\r' => lines.push(self.line()),
                byte => self.buffer.push(*byte),
            }
        }
        lines
    }

    fn line(&mut self) -> Vec<u8> {
        let line = std::mem::take(&mut self.buffer);
        let first = !std::mem::replace(&mut self.started, true);
        match line.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) if first => rest.to_vec(),
            _ => line,
        }
    }
}

/// Assembles lines into events.
#[derive(Default)]
pub struct SseReader {
    name: String,
    data: Vec<String>,
    id: Option<String>,
    lines: Vec<u64>,
}

impl SseReader {
    /// Handles a line, with its number in the transcript.
    pub fn line(&mut self, line: &[u8], number: u64) -> SseItem {
        let text = String::from_utf8_lossy(line);
        if text.is_empty() {
            return self.dispatch();
        }
        if text.starts_with(':') {
            return SseItem::Comment;
        }
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        self.lines.push(number);
        match field {
            "event" => self.name = value.to_owned(),
            "data" => self.data.push(value.to_owned()),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            _ => {}
        }
        SseItem::Field
    }

    fn dispatch(&mut self) -> SseItem {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data).join("\n");
        let lines = std::mem::take(&mut self.lines);
        // An event without data is ignored, whatever its name.
        if data.is_empty() {
            return SseItem::Field;
        }
        SseItem::Event(SseEvent {
            name: match name.is_empty() {
                true => "message".to_owned(),
                false => name,
            },
            data,
            id: self.id.clone(),
            lines,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> (Vec<(String, String)>, usize) {
        let mut all = Vec::new();
        let mut comments = 0;
        // The result must not depend on how the bytes are split.
        let mut lines = SseLines::default();
        let mut reader = SseReader::default();
        for piece in text.as_bytes().chunks(3) {
            for line in lines.push(piece) {
                match reader.line(&line, 1) {
                    SseItem::Event(event) => all.push((event.name, event.data)),
                    SseItem::Comment => comments += 1,
                    SseItem::Field => {}
                }
            }
        }
        (all, comments)
    }

    #[test]
    fn messages_are_read_with_any_line_break() {
        let text = "\u{feff}event: line\ndata: {\"a\":1}\n\n: hi\n\ndata:x\ndata:  y\nid: 7\n\nevent: ping\ndata:\n\nretry: 5\n\nevent: half\ndata: x\n";
        let own = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let wanted = vec![own("line", "{\"a\":1}"), own("message", "x\n y")];
        for breaks in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', breaks);
            assert_eq!(events(&text), (wanted.clone(), 1), "{breaks:?}");
        }
    }
}
