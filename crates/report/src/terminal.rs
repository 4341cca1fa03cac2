//! Terminal output: colors, symbols, wrapped text.

use std::io::{self, Write};
use std::ops::Range;

use agentproto_text::{clip, escape_line};

use crate::Verdict;

/// Minimum width in columns. A narrower terminal is treated as this wide.
pub const MIN_WIDTH: usize = 40;

/// Terminal settings.
pub struct TerminalStyle {
    /// Whether to use colors.
    pub color: bool,
    /// Whether to use symbols outside ASCII.
    pub unicode: bool,
    /// Width in columns.
    pub width: usize,
}

impl TerminalStyle {
    /// Settings with at least the minimum width.
    pub fn new(color: bool, unicode: bool, width: usize) -> Self {
        TerminalStyle {
            color,
            unicode,
            width: width.max(MIN_WIDTH),
        }
    }

    /// Colors text with an SGR code, if colors are on.
    pub fn paint(&self, code: &str, text: &str) -> String {
        match self.color {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }

    /// Text in bold green.
    pub fn success(&self, text: &str) -> String {
        self.paint("1;32", text)
    }

    /// Text in bold red.
    pub fn error(&self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Bold text.
    pub fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Dim text.
    pub fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Text in the color of a verdict.
    pub fn paint_verdict(&self, verdict: Verdict, text: &str) -> String {
        match verdict {
            Verdict::Pass => self.paint("32", text),
            Verdict::Fail => self.paint("1;31", text),
            Verdict::Warn => self.paint("33", text),
            Verdict::Error => self.paint("35", text),
            Verdict::Skip | Verdict::NotApplicable | Verdict::NotVerified => self.dim(text),
        }
    }

    /// Symbol of a verdict, in its color.
    pub fn verdict_symbol(&self, verdict: Verdict) -> String {
        let (fancy, plain) = match verdict {
            Verdict::Pass => ("✓", "+"),
            Verdict::Fail => ("✗", "x"),
            Verdict::Warn => ("!", "!"),
            Verdict::Error => ("?", "?"),
            Verdict::Skip | Verdict::NotApplicable | Verdict::NotVerified => ("·", "."),
        };
        self.paint_verdict(verdict, if self.unicode { fancy } else { plain })
    }

    /// Text clipped to the rest of a line of which `used` columns are taken.
    pub fn one_line(&self, text: &str, used: usize) -> String {
        let room = self.width.saturating_sub(used).max(20);
        clip(&escape_line(text), room).into_owned()
    }

    /// Writes a labeled paragraph below a row, or nothing if the text is empty.
    pub fn paragraph(&self, label: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
        match text.trim() {
            "" => Ok(()),
            text => self.wrapped(&format!("{label:<9}"), &escape_line(text), out),
        }
    }

    /// Writes text with a hanging indent after its label, wrapped at spaces.
    pub fn wrapped(&self, label: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
        let indent = 2 + label.chars().count();
        let room = self.width.saturating_sub(indent).max(20);
        let mut lines = wrap(text, room).into_iter();
        writeln!(out, "  {label}{}", lines.next().unwrap_or_default())?;
        for line in lines {
            writeln!(out, "{}{line}", " ".repeat(indent))?;
        }
        Ok(())
    }

    /// Highlights the marked range in a piece of text. `from` is the offset of the piece in the
    /// whole text, in characters.
    pub fn marked(&self, piece: &str, from: usize, range: Option<&Range<usize>>) -> String {
        let Some(range) = range.filter(|_| self.color) else {
            return piece.to_owned();
        };
        let chars: Vec<char> = piece.chars().collect();
        let inside = |at: usize| at.saturating_sub(from).min(chars.len());
        let (start, end) = (inside(range.start), inside(range.end));
        let part = |range: Range<usize>| chars.get(range).unwrap_or_default().iter().collect();
        let [before, here, after]: [String; 3] =
            [part(0..start), part(start..end), part(end..chars.len())];
        match here.is_empty() {
            true => piece.to_owned(),
            false => format!("{before}{}{after}", self.paint("1;4", &here)),
        }
    }
}

/// Wraps text into lines of about `room` columns. Very long words are split.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let lines = agentproto_text::wrap(text, room, 0);
    let lines = lines.iter().flat_map(|l| chunks(l, room.max(1) * 4));
    let lines: Vec<String> = lines.collect();
    match lines.is_empty() {
        true => vec![String::new()],
        false => lines,
    }
}

/// Splits text into pieces of `room` characters, at least one piece.
pub fn chunks(text: &str, room: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    match chars.is_empty() {
        true => vec![String::new()],
        false => chars
            .chunks(room.max(1))
            .map(|c| c.iter().collect())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_spaces() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("日本語 日本", 3), ["日本語", "日本"]);
    }

    #[test]
    fn very_long_words_are_split() {
        assert_eq!(chunks("abcde", 2), ["ab", "cd", "e"]);
        assert!(wrap(&"x".repeat(100), 10).len() > 1);
    }
}
