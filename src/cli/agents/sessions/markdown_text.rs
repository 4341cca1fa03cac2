//! Text of an agent inside a Markdown document. It cannot end a block of the document, and cannot look
//! like one of its headings.

use std::io::{self, Write};

use serde_json::Value;

use agentproto_text::{escape_line, escape_output};

/// Maximum length of a line that is completed before it is written, in bytes.
const MAX_LINE_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Markdown of the agent.
    Answer,
    /// Plain text, as a quote.
    Thought,
    /// Plain text, indented.
    Stderr,
}

/// Text of the agent that arrives in pieces. It is written line by line.
pub struct Text {
    pub kind: Kind,
    line: String,
    /// Character and length of the code fence that is open.
    fence: Option<(char, usize)>,
}

impl Text {
    pub fn new(kind: Kind) -> Self {
        Text {
            kind,
            line: String::new(),
            fence: None,
        }
    }

    pub fn push(&mut self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        for piece in text.split_inclusive('\n') {
            self.line.push_str(piece);
            if self.line.ends_with('\n') || self.line.len() > MAX_LINE_BYTES {
                self.write(out)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix('\n').unwrap_or(&line);
        let line = escape_output(line.strip_suffix('\r').unwrap_or(line));
        match self.kind {
            Kind::Answer => writeln!(out, "{}", self.markdown(&line)),
            Kind::Thought => writeln!(out, "> {}", inline(&line)),
            Kind::Stderr => writeln!(out, "    {line}"),
        }
    }

    /// A line of the agent's Markdown that keeps to its own block.
    fn markdown(&mut self, line: &str) -> String {
        let text = line.trim_start_matches(' ');
        let is_indented = line.len() - text.len() > 3;
        let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'));
        let length = mark.map_or(0, |mark| text.chars().take_while(|c| *c == mark).count());
        if let Some((open, most)) = self.fence {
            let rest = text.get(length..).unwrap_or_default();
            if mark == Some(open) && length >= most && rest.trim().is_empty() && !is_indented {
                self.fence = None;
            }
            return line.to_owned();
        }
        if is_indented {
            return without_html(line);
        }
        let info = text.get(length..).unwrap_or_default();
        if let Some(mark) = mark.filter(|mark| length >= 3 && (*mark == '~' || !info.contains('`')))
        {
            self.fence = Some((mark, length));
            // Without indentation: inside a list, the fence would end with the item.
            return text.to_owned();
        }
        // Headings of the agent are below those of the document.
        let level = text.chars().take_while(|c| *c == '#').count();
        let after = text.get(level..).unwrap_or_default();
        if (1..=6).contains(&level) && (after.is_empty() || after.starts_with([' ', '\t'])) {
            return format!("{}{}", "#".repeat((level + 3).min(6)), without_html(after));
        }
        // An underline would make the line above a heading.
        let is_underline = ['=', '-']
            .iter()
            .any(|mark| text.starts_with(*mark) && text.trim_end().chars().all(|c| c == *mark));
        match is_underline {
            true => format!("\\{text}"),
            false => without_html(line),
        }
    }

    pub fn end(mut self, out: &mut dyn Write) -> io::Result<()> {
        if !self.line.is_empty() {
            self.write(out)?;
        }
        match self.fence {
            Some((mark, length)) => writeln!(out, "{}", mark.to_string().repeat(length)),
            None => Ok(()),
        }
    }
}

/// Text in which `<` cannot begin a tag. Inside code spans it is not changed.
fn without_html(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['`', '<', '\\']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if let Some(after) = from.strip_prefix('<') {
            out.push_str("&lt;");
            rest = after;
            continue;
        }
        if from.starts_with('\\') {
            // An escaped character.
            let end = from
                .char_indices()
                .nth(2)
                .map_or(from.len(), |(end, _)| end);
            let (escaped, after) = from.split_at(end);
            out.push_str(&escaped.replace('<', "&lt;"));
            rest = after;
            continue;
        }
        let length = from.chars().take_while(|c| *c == '`').count();
        let (ticks, after) = from.split_at(length);
        out.push_str(ticks);
        rest = after;
        // A code span ends with as many backticks as it began with.
        if let Some(end) = closing(after, length) {
            let (span, after) = after.split_at(end + length);
            out.push_str(span);
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Where a run of exactly `length` backticks begins.
fn closing(text: &str, length: usize) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = text.get(from..)?.find('`') {
        let start = from + found;
        let run = text.get(start..)?.chars().take_while(|c| *c == '`').count();
        if run == length {
            return Some(start);
        }
        from = start + run;
    }
    None
}

/// One line of plain text, with every character of Markdown escaped.
pub fn inline(text: &str) -> String {
    let line = escape_line(text);
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '>' | '|' | '~' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// A code span.
pub fn code(text: &str) -> String {
    let line = escape_line(text);
    let longest = longest_run(&line, '`');
    let ticks = "`".repeat(longest + 1);
    match longest {
        0 => format!("{ticks}{line}{ticks}"),
        _ => format!("{ticks} {line} {ticks}"),
    }
}

/// A block of JSON, unless the value is empty. A command is written as such.
pub fn block(value: &Value, out: &mut dyn Write) -> io::Result<()> {
    let is_empty = match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if is_empty {
        return Ok(());
    }
    writeln!(out)?;
    match value {
        Value::String(text) => fenced(text, "text", out),
        value => fenced(&agentproto_text::pretty(value)?, "json", out),
    }
}

/// A code block with a fence that the text does not contain.
pub fn fenced(text: &str, language: &str, out: &mut dyn Write) -> io::Result<()> {
    let text = escape_output(text);
    let fence = "`".repeat(longest_run(&text, '`').max(2) + 1);
    writeln!(
        out,
        "{fence}{language}\n{}\n{fence}",
        text.trim_end_matches('\n')
    )
}

fn longest_run(text: &str, of: char) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == of { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(pieces: &[&str]) -> String {
        let mut out = Vec::new();
        let mut text = Text::new(Kind::Answer);
        for piece in pieces {
            text.push(piece, &mut out).expect("written");
        }
        text.end(&mut out).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn text_of_the_agent_keeps_to_its_block() {
        for (text, expected) in [
            ("# Turn 9", "#### Turn 9\n"),
            ("## Prompt\ntext", "##### Prompt\ntext\n"),
            ("Prompt\n===\n---", "Prompt\n\\===\n\\---\n"),
            ("```\n# code <b>", "```\n# code <b>\n```\n"),
            ("- a\n\n  ```\n# b\n  ```", "- a\n\n```\n# b\n  ```\n"),
            ("a\n    <b>", "a\n    &lt;b>\n"),
            ("~~~~\n~~~\n~~~~\n# x", "~~~~\n~~~\n~~~~\n#### x\n"),
            ("<details> `<b>` \\<x>", "&lt;details> `<b>` \\&lt;x>\n"),
            ("`open <b>", "`open &lt;b>\n"),
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb\n"),
            (
                "#hashtag\n- item\n| a | b |",
                "#hashtag\n- item\n| a | b |\n",
            ),
        ] {
            assert_eq!(answer(&[text]), expected, "{text:?}");
        }
        // Pieces are joined before they are read.
        assert_eq!(
            answer(&["#", "# a", "\n``", "`\nb"]),
            "##### a\n```\nb\n```\n"
        );
    }
}
