//! Finds the bytes of a JSON Pointer's value in a line, so that excerpts can keep them.

use std::ops::Range;

/// Byte range of the value, and whether the whole pointer was resolved. If it was not, the range
/// is that of the value in which the next part is missing. `None` if the text is not JSON as far
/// as it had to be read.
pub fn of(text: &str, pointer: &str) -> Option<(Range<usize>, bool)> {
    let mut scan = Scan {
        bytes: text.as_bytes(),
        at: 0,
    };
    scan.blanks();
    if !matches!(scan.peek(), Some(b'{' | b'[')) {
        return None;
    }
    let mut here = scan.value()?;
    let parts = pointer.split('/').skip(1);
    for part in parts {
        let part = part.replace("~1", "/").replace("~0", "~");
        match scan.part(&here, text, &part)? {
            Some(inner) => here = inner,
            None => return Some((here, false)),
        }
    }
    Some((here, true))
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Moves past a string.
    fn string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'\\' => self.at += 2,
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                _ => self.at += 1,
            }
        }
    }

    /// Moves past a value of any depth. Returns its byte range.
    fn value(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                Some(b'"') => self.string()?,
                Some(b'{' | b'[') => {
                    depth += 1;
                    self.at += 1;
                }
                Some(b'}' | b']') if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                Some(b',' | b':' | b' ' | b'\t' | b'\r' | b'\n') if depth > 0 => self.at += 1,
                Some(b'a'..=b'z' | b'0'..=b'9' | b'-' | b'+' | b'.' | b'E') => {
                    self.at += 1;
                    // A number or word continues until another kind of byte.
                    if matches!(
                        self.peek(),
                        Some(b'a'..=b'z' | b'0'..=b'9' | b'-' | b'+' | b'.' | b'E')
                    ) {
                        continue;
                    }
                }
                _ => return None,
            }
            if depth == 0 {
                return Some(start..self.at);
            }
        }
    }

    /// The part of a value that one token of a pointer names. The last of duplicate names wins.
    fn part(&mut self, of: &Range<usize>, text: &str, name: &str) -> Option<Option<Range<usize>>> {
        self.at = of.start;
        let is_object = match self.peek()? {
            b'{' => true,
            b'[' => false,
            _ => return Some(None),
        };
        self.at += 1;
        let mut found = None;
        for index in 0_usize.. {
            self.blanks();
            if matches!(self.peek()?, b'}' | b']') {
                break;
            }
            let is_meant = match is_object {
                true => {
                    let start = self.at;
                    self.string()?;
                    let key: String = serde_json::from_str(text.get(start..self.at)?).ok()?;
                    self.blanks();
                    self.at += 1;
                    self.blanks();
                    key == name
                }
                false => name.parse() == Ok(index),
            };
            let value = self.value()?;
            if is_meant {
                found = Some(value);
            }
            self.blanks();
            if self.peek()? == b',' {
                self.at += 1;
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'t>(text: &'t str, pointer: &str) -> Option<(&'t str, bool)> {
        of(text, pointer).map(|(span, whole)| (&text[span], whole))
    }

    #[test]
    fn values_are_found_by_their_pointer() {
        let text = r#" {"a": [1, {"b~/c": "x\"}]"}, null], "é": -2.5e3, "a2":{} } "#;
        assert_eq!(at(text, "/a/0"), Some(("1", true)));
        assert_eq!(at(text, "/a/1/b~0~1c"), Some((r#""x\"}]""#, true)));
        assert_eq!(at(text, "/a/2"), Some(("null", true)));
        assert_eq!(at(text, "/é"), Some(("-2.5e3", true)));
        assert_eq!(at(text, "/a2"), Some(("{}", true)));
        assert_eq!(at(text, "").map(|(found, _)| found), Some(text.trim()));
    }

    #[test]
    fn a_missing_part_gives_the_value_around_it() {
        assert_eq!(
            at(r#"{"a":{"b":1}}"#, "/a/c/d"),
            Some((r#"{"b":1}"#, false))
        );
        assert_eq!(at(r#"{"a":[]}"#, "/a/0"), Some(("[]", false)));
        assert_eq!(at(r#"{"a":1}"#, "/a/0"), Some(("1", false)));
        // The last of two members with the same name wins.
        assert_eq!(at(r#"{"a":1,"a":2}"#, "/a"), Some(("2", true)));
    }

    #[test]
    fn invalid_json_is_not_searched() {
        for text in ["", "{", r#"{"a"#, r#"{"a":"#, "[1,", "hello", r#"{"a":1"#] {
            assert_eq!(at(text, "/a"), None, "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(of(&deep, "/0/0"), None);
    }
}
