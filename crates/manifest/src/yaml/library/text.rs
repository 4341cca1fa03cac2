//! Looking into the source where the library's places are not those that we want.
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

    /// First byte of a range that `wanted` picks, comments left out.
    fn find(self, from: usize, to: usize, wanted: impl Fn(usize, u8) -> bool) -> Option<usize> {
        let mut comment = false;
        for (i, byte) in self.bytes().get(from..to)?.iter().enumerate() {
            let at = from + i;
            match byte {
                b'\n' | b'\r' => comment = false,
                _ if comment => {}
                b'#' if self.blank_before(at) => comment = true,
                _ => {}
            }
            if !comment && wanted(at, *byte) {
                return Some(at);
            }
        }
        None
    }

    fn blank_before(self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|i| self.byte(i));
        before.is_none_or(|b| b.is_ascii_whitespace())
    }

    /// The first dash of a list item up to `last`.
    pub fn dash(self, from: usize, last: usize) -> Option<usize> {
        let to = (last + 1).min(self.source.len());
        self.find(from, to, |at, byte| {
            byte == b'-'
                && self.blank_before(at)
                && self.byte(at + 1).is_none_or(|b| b.is_ascii_whitespace())
        })
    }

    /// Whether the start of a collection, with its anchor and tag, opens a flow collection;
    /// that of a block collection ends before its first member.
    pub fn has_bracket(self, from: usize, to: usize) -> bool {
        let bracket = self.find(from, to, |_, byte| matches!(byte, b'[' | b'{'));
        bracket.is_some()
    }

    /// Behind the bracket that closes a flow collection.
    pub fn closing_bracket(self, from: usize) -> usize {
        let found = self.find(from, self.source.len(), |_, byte| {
            matches!(byte, b']' | b'}')
        });
        found.map_or(from, |at| at + 1)
    }

    /// Behind the closing quote of a scalar that may start with an anchor or a tag.
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

    /// Behind the colon of a key that ends at `end`.
    pub fn behind_colon(self, end: usize) -> usize {
        let rest = self.source.get(end..).unwrap_or("");
        let gap = rest.len() - rest.trim_start().len();
        match rest.get(gap..) {
            Some(rest) if rest.starts_with(':') => end + gap + 1,
            _ => end,
        }
    }

    /// The `|` or `>` of a block scalar whose text the library places at `start`.
    pub fn block_header(self, from: usize, start: usize, indicator: u8) -> Option<usize> {
        self.find(from.min(start), start, |_, byte| byte == indicator)
    }

    /// Whether the last line of a block scalar is the last of the source and has no break.
    /// A last line of blanks belongs to the scalar if it is as deep as the scalar's text.
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
        // What the first line with text has lost on its way into the value is the indentation.
        match (lines.skip(1).find(has_text), value.lines().find(has_text)) {
            (Some(written), Some(read)) => spaces(last) + spaces(read) >= spaces(written),
            // Only blanks: as many breaks as there are, but for that of the header.
            _ => value.matches('\n').count() >= written.matches('\n').count(),
        }
    }

    /// First `[` or `{` that stays open, or that is closed by the other kind: where a reader has
    /// to look when the parser only complains at the end of the file.
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
                // A backslash hides a quote in double quotes only.
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

/// The library counts characters; we count bytes.
pub struct ByteOffsets {
    /// Characters before each non-ASCII character's end, with the surplus of bytes so far.
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
    fn the_bracket_to_mend_is_found() {
        assert_eq!(unclosed_bracket("a: [1, 2]\nb: {}\n"), None);
        assert_eq!(unclosed_bracket("a: [1, 2\nb: {}\n"), Some(3));
        assert_eq!(unclosed_bracket("a: {b: [1, 2}\n"), Some(7));
        assert_eq!(unclosed_bracket("# see [1\na: 'x[\\'\nb: [\n"), Some(21));
        assert_eq!(unclosed_bracket("a: \"[\\\"[\"\n"), None);
    }
}
