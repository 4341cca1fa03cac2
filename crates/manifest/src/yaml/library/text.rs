//! Searches in the source, to correct the places that the library reports.
//! Offsets count from the start of the source.

#[derive(Clone, Copy)]
pub struct Text<'s> {
    pub source: &'s str,
}

impl<'s> Text<'s> {
    pub fn bytes(self) -> &'s [u8] {
        self.source.as_bytes()
    }

    fn byte(self, at: usize) -> Option<u8> {
        self.bytes().get(at).copied()
    }

    /// Offset of the first byte in a range that `expected` accepts. Comments are skipped.
    fn find(self, from: usize, to: usize, expected: impl Fn(usize, u8) -> bool) -> Option<usize> {
        let mut comment = false;
        for (i, byte) in self.bytes().get(from..to)?.iter().enumerate() {
            let at = from + i;
            match byte {
                b'\n' | b'\r' => comment = false,
                _ if comment => {}
                b'#' if self.blank_before(at) => comment = true,
                _ => {}
            }
            if !comment && expected(at, *byte) {
                return Some(at);
            }
        }
        None
    }

    fn blank_before(self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|i| self.byte(i));
        before.is_none_or(|b| b.is_ascii_whitespace())
    }

    /// Offset of the first dash of a list item between `from` and `last`.
    pub fn dash(self, from: usize, last: usize) -> Option<usize> {
        let to = (last + 1).min(self.source.len());
        self.find(from, to, |at, byte| {
            byte == b'-'
                && self.blank_before(at)
                && self.byte(at + 1).is_none_or(|b| b.is_ascii_whitespace())
        })
    }

    /// Whether the start token of a collection, with its anchor and tag, opens a flow collection.
    /// The token of a block collection ends before the first member.
    pub fn has_bracket(self, from: usize, to: usize) -> bool {
        let bracket = self.find(from, to, |_, byte| matches!(byte, b'[' | b'{'));
        bracket.is_some()
    }

    /// Offset after the bracket that closes a flow collection.
    pub fn closing_bracket(self, from: usize) -> usize {
        let found = self.find(from, self.source.len(), |_, byte| {
            matches!(byte, b']' | b'}')
        });
        found.map_or(from, |at| at + 1)
    }

    /// Offset after the closing quote of a scalar, which may start with an anchor or a tag.
    pub fn quoted_end(self, start: usize, end: usize) -> Option<usize> {
        let open = self.find(start, end, |at, byte| {
            matches!(byte, b'"' | b'\'') && (at == start || self.blank_before(at))
        })?;
        let quote = self.byte(open)?;
        let mut at = open + 1;
        while at < end {
            match self.byte(at)? {
                b'\\' if quote == b'"' => at += 1,
                b'\'' if quote == b'\'' && self.byte(at + 1) == Some(quote) => at += 1,
                byte if byte == quote => return Some(at + 1),
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// Offset after the colon of a key that ends at `end`.
    pub fn behind_colon(self, end: usize) -> usize {
        let rest = self.source.get(end..).unwrap_or("");
        let gap = rest.len() - rest.trim_start().len();
        match rest.get(gap..) {
            Some(rest) if rest.starts_with(':') => end + gap + 1,
            _ => end,
        }
    }

    /// Offset of the `|` or `>` of a block scalar. The library reports `start` for its text.
    pub fn block_header(self, from: usize, start: usize, indicator: u8) -> Option<usize> {
        self.find(from.min(start), start, |_, byte| byte == indicator)
    }

    /// Whether the last line of a block scalar ends the source without a line break. A last line
    /// of blanks belongs to the scalar if it is indented at least as deep as the scalar's text.
    pub fn ends_unbroken(self, value: &str, header: usize, end: usize) -> bool {
        let spaces = |line: &str| line.len() - line.trim_start_matches(' ').len();
        let has_text = |line: &&str| spaces(line) < line.len();
        let breaks = ['\n', '\r'];
        let rest = self.source.get(end..).unwrap_or("");
        if self.source.ends_with(breaks) || !rest.trim().is_empty() {
            return false;
        }
        let written = self.source.get(header..).unwrap_or("");
        let lines = written.split(breaks);
        let Some(last) = lines.clone().skip(1).last() else {
            return false;
        };
        // The indentation is the number of spaces that the first line with text has in the source
        // but not in the value.
        match (lines.skip(1).find(has_text), value.lines().find(has_text)) {
            (Some(written), Some(read)) => spaces(last) + spaces(read) >= spaces(written),
            // The text is only blanks. Compare the number of line breaks, except the header's.
            _ => value.matches('\n').count() >= written.matches('\n').count(),
        }
    }

    /// Offset of the first `[` or `{` that is never closed, or is closed by the wrong bracket. The
    /// parser often reports such an error only at the end of the file.
    pub fn unclosed_bracket(self) -> Option<usize> {
        let mut open: Vec<(usize, u8)> = Vec::new();
        let mut quote = None;
        let mut comment = false;
        let mut previous = b'\n';
        for (i, byte) in self.source.bytes().enumerate() {
            match (quote, byte) {
                (None, b'\n') => comment = false,
                (None, _) if comment => {}
                (None, b'#') if matches!(previous, b' ' | b'\t' | b'\n') => comment = true,
                // A backslash escapes a quote only in double quotes.
                (Some(q), b) if b == q && (previous != b'\\' || q == b'\'') => quote = None,
                (Some(_), b'\n') if open.is_empty() => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') if matches!(previous, b' ' | b'[' | b'{' | b',' | b'\n') => {
                    quote = Some(byte);
                }
                (None, b'[' | b'{') if !open.is_empty() || matches!(previous, b' ' | b'\n') => {
                    open.push((i, byte))
                }
                (None, b']' | b'}') => {
                    if let Some((at, opener)) = open.pop()
                        && (opener == b'[') != (byte == b']')
                    {
                        return Some(at);
                    }
                }
                _ => {}
            }
            previous = byte;
        }
        open.first().map(|(at, _)| *at)
    }
}

/// Converts the library's character offsets to byte offsets.
pub struct ByteOffsets {
    /// For each non-ASCII character, the number of characters up to its end, and the number of
    /// bytes so far that exceeds it.
    shifts: Vec<(u32, u32)>,
    len: usize,
}

impl ByteOffsets {
    pub fn new(source: &str) -> Self {
        let mut shifts = Vec::new();
        if !source.is_ascii() {
            let mut surplus = 0;
            for (chars, c) in source.chars().enumerate() {
                let extra = c.len_utf8() as u32 - 1;
                if extra > 0 {
                    surplus += extra;
                    shifts.push((chars as u32 + 1, surplus));
                }
            }
        }
        ByteOffsets {
            shifts,
            len: source.len(),
        }
    }

    pub fn byte(&self, char_index: usize) -> usize {
        let before = self
            .shifts
            .partition_point(|(at, _)| *at as usize <= char_index);
        let surplus = match before.checked_sub(1).and_then(|i| self.shifts.get(i)) {
            Some((_, surplus)) => *surplus as usize,
            None => 0,
        };
        (char_index + surplus).min(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unclosed_bracket(source: &str) -> Option<usize> {
        Text { source }.unclosed_bracket()
    }

    #[test]
    fn the_unclosed_bracket_is_found() {
        assert_eq!(unclosed_bracket("a: [1, 2]\nb: {}\n"), None);
        assert_eq!(unclosed_bracket("a: [1, 2\nb: {}\n"), Some(3));
        assert_eq!(unclosed_bracket("a: {b: [1, 2}\n"), Some(7));
        assert_eq!(unclosed_bracket("# see [1\na: 'x[\\'\nb: [\n"), Some(21));
        assert_eq!(unclosed_bracket("a: \"[\\\"[\"\n"), None);
    }
}
