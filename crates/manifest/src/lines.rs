//! Converts byte offsets to lines and columns.

/// A place in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, starting at 1.
    pub line: u32,
    /// Column in characters, starting at 1.
    pub column: u32,
    /// Byte offset in the file.
    pub byte: u32,
}

/// Distance in bytes between two marks in a text with long lines.
const STRIDE: usize = 1024;

/// Start of each line. Built only when a position is needed.
#[derive(Debug)]
pub struct LineIndex {
    starts: Vec<u32>,
    /// Number of characters before each multiple of `STRIDE`. Empty if every line is shorter than
    /// that. The marks avoid counting a long line from its start for each position on it.
    marks: Vec<u32>,
}

impl LineIndex {
    /// Builds the index of a text.
    pub fn new(text: &str) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        let starts: Vec<u32> = std::iter::once(0)
            .chain(newlines.map(|(i, _)| i as u32 + 1))
            .collect();
        let mut ends = starts.iter().skip(1).copied().chain([text.len() as u32]);
        let long = starts
            .iter()
            .any(|start| ends.next().unwrap_or(0).saturating_sub(*start) as usize > STRIDE);
        let mut marks = Vec::new();
        if long {
            let mut before = 0;
            for from in (0..text.len()).step_by(STRIDE) {
                marks.push(before);
                before += characters(text, from, from + STRIDE);
            }
        }
        LineIndex { starts, marks }
    }

    /// Line and column of a byte offset. `text` must be the text of the index.
    pub fn position(&self, text: &str, byte: u32) -> Position {
        let byte = byte.min(text.len() as u32);
        let line = self
            .starts
            .partition_point(|s| *s <= byte)
            .saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or(0) as usize;
        Position {
            line: line as u32 + 1,
            column: self.columns(text, start, byte as usize) + 1,
            byte,
        }
    }

    fn columns(&self, text: &str, start: usize, end: usize) -> u32 {
        if end - start > STRIDE
            && let Some(first) = self.marks.get(start / STRIDE)
            && let Some(last) = self.marks.get(end / STRIDE)
        {
            let head = first + characters(text, start / STRIDE * STRIDE, start);
            let whole = last + characters(text, end / STRIDE * STRIDE, end);
            return whole.saturating_sub(head);
        }
        characters(text, start, end)
    }

    /// Byte offset of the start of a line. Lines start at 1.
    pub fn line_start(&self, line: u32) -> Option<u32> {
        self.starts.get(line.checked_sub(1)? as usize).copied()
    }

    /// Number of lines.
    pub fn line_count(&self) -> usize {
        self.starts.len()
    }
}

/// Number of characters that start in a range of bytes. Byte order marks are not counted.
fn characters(text: &str, from: usize, to: usize) -> u32 {
    let bytes = text.as_bytes();
    let range = from..to.min(bytes.len());
    let starts = bytes.get(range.clone()).unwrap_or_default();
    let starts = starts.iter().filter(|b| **b & 0xc0 != 0x80).count();
    let marks = memchr::memchr_iter(0xef, bytes.get(range).unwrap_or_default())
        .filter(|i| {
            bytes
                .get(from + i..)
                .is_some_and(|rest| rest.starts_with("\u{feff}".as_bytes()))
        })
        .count();
    (starts - marks) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_counted_like_short_ones() {
        let text = format!(
            "\u{feff}é\n{}\n{}\u{feff}x\n",
            "aé\u{feff}ü→😀".repeat(700),
            "b".repeat(3000)
        );
        let index = LineIndex::new(&text);
        assert!(!index.marks.is_empty());
        let (mut line, mut column) = (1, 1);
        for (at, c) in text.char_indices() {
            let found = index.position(&text, at as u32);
            assert_eq!((found.line, found.column), (line, column), "byte {at}");
            match c {
                '\n' => (line, column) = (line + 1, 1),
                '\u{feff}' => {}
                _ => column += 1,
            }
        }
    }
}
