//! Byte offset → line and column.

/// Line and column from 1; columns count characters, `byte` is the offset in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    pub column: u32,
    pub byte: u32,
}

/// Start of each line. Built only when a place has to be shown.
#[derive(Debug)]
pub struct LineIndex {
    starts: Vec<u32>,
}

impl LineIndex {
    pub fn new(text: &str) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        let starts = std::iter::once(0)
            .chain(newlines.map(|(i, _)| i as u32 + 1))
            .collect();
        LineIndex { starts }
    }

    pub fn position(&self, text: &str, byte: u32) -> Position {
        let byte = byte.min(text.len() as u32);
        let line = self
            .starts
            .partition_point(|s| *s <= byte)
            .saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or(0) as usize;
        // A byte order mark takes no column.
        let column = text.get(start..byte as usize).map_or(0, |before| {
            let mark = start == 0 && before.starts_with('\u{feff}');
            before.chars().count() - usize::from(mark)
        });
        Position {
            line: line as u32 + 1,
            column: column as u32 + 1,
            byte,
        }
    }

    /// Byte offset at which a line (from 1) starts.
    pub fn line_start(&self, line: u32) -> Option<u32> {
        self.starts.get(line.checked_sub(1)? as usize).copied()
    }

    pub fn line_count(&self) -> usize {
        self.starts.len()
    }
}
