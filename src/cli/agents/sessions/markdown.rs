//! The history of a session as Markdown. The text comes from an agent that is not trusted: it must
//! not end a block of the document, and must not look like one of its headings.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::Value;

use crate::cli::agents::preview;
use agentproto_text::{escape_line, escape_output};

/// Maximum length of a line that is completed before it is written, in bytes.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Maximum number of tool calls whose names are kept.
const MAX_TOOLS: usize = 10_000;

/// Writes one event after the other.
#[derive(Default)]
pub struct Markdown {
    /// What the text that arrives belongs to.
    open: Option<Text>,
    /// Names of the tools that the agent called, by the id of the call.
    tools: HashMap<String, String>,
    turns: usize,
}

impl Markdown {
    pub fn head(&mut self, session: &Value, out: &mut dyn Write) -> io::Result<()> {
        let text = |name: &str| session[name].as_str().map(code);
        let title = session["label"].as_str().map_or_else(
            || format!("Session {}", session["id"].as_str().unwrap_or_default()),
            |label| label.chars().take(200).collect(),
        );
        writeln!(out, "# {}\n", inline(&title))?;
        for (name, value) in [
            ("Session", text("id")),
            ("Adapter", text("adapterSlug")),
            ("Directory", text("cwd")),
            ("Started", text("startedAt")),
            ("Ended", text("endedAt")),
            ("Status", text("status")),
            ("Reason", text("reason")),
        ] {
            if let Some(value) = value {
                writeln!(out, "- {name}: {value}")?;
            }
        }
        Ok(())
    }

    pub fn event(&mut self, event: &Value, out: &mut dyn Write) -> io::Result<()> {
        let data = &event["data"];
        match event["event"].as_str().unwrap_or_default() {
            "prompt" => self.prompt(data, out),
            "event" => self.structured(data, out),
            "permission" => self.question(data, out),
            "gap" => {
                self.close(out)?;
                match data["missed"].as_u64() {
                    Some(0) => writeln!(out, "\n*Gap: the disk rejected the events before this.*"),
                    Some(missed) => writeln!(out, "\n*Gap: {missed} events are missing here.*"),
                    None => writeln!(out, "\n*Gap: events are missing here.*"),
                }
            }
            // The agent's text is in the structured events. Its stderr is not.
            "line" if data["stream"] == "stderr" => {
                self.text(Kind::Stderr, data["line"].as_str().unwrap_or_default(), out)?;
                self.text(Kind::Stderr, "\n", out)
            }
            _ => Ok(()),
        }
    }

    pub fn end(&mut self, session: &Value, out: &mut dyn Write) -> io::Result<()> {
        self.close(out)?;
        match session["status"].as_str() {
            Some(status @ ("exited" | "killed" | "error")) => {
                writeln!(out, "\n---\n\nThe session ended: {}.", inline(status))
            }
            _ => Ok(()),
        }
    }

    fn prompt(&mut self, data: &Value, out: &mut dyn Write) -> io::Result<()> {
        self.close(out)?;
        self.turns += 1;
        writeln!(out, "\n## Turn {}\n", self.turns)?;
        writeln!(out, "### Prompt\n")?;
        fenced(data["prompt"].as_str().unwrap_or_default(), "text", out)?;
        match data["cut"] == true {
            true => writeln!(out, "\n*The rest of the prompt is not stored.*"),
            false => Ok(()),
        }
    }

    fn structured(&mut self, data: &Value, out: &mut dyn Write) -> io::Result<()> {
        let text = |name: &str| data[name].as_str().unwrap_or_default();
        match text("type") {
            "text-delta" => self.text(Kind::Answer, text("text"), out),
            "thought" => self.text(Kind::Thought, text("text"), out),
            "tool-call" => {
                self.close(out)?;
                if self.tools.len() < MAX_TOOLS {
                    self.tools.insert(text("id").to_owned(), text("name").to_owned());
                }
                writeln!(out, "\n### Tool call: {}", inline(text("name")))?;
                block(&data["args"], out)
            }
            "tool-result" => {
                self.close(out)?;
                let name = self.tools.get(text("id")).map_or(text("id"), String::as_str);
                let outcome = match data["ok"] == true {
                    true => "Result",
                    false => "Failed",
                };
                writeln!(out, "\n**{outcome}:** {}", inline(name))?;
                self.result(&data["content"], out)
            }
            // Open questions follow as `permission`.
            "agent-prompt" => match data["decision"].as_str() {
                Some(decision) => {
                    self.asked(data, out)?;
                    writeln!(out, "\n**Decided by a rule:** {}", inline(decision))
                }
                None => Ok(()),
            },
            "turn-end" => {
                self.close(out)?;
                writeln!(out, "\n*Turn ended: {}.*", inline(text("reason")))
            }
            "error" => {
                self.close(out)?;
                writeln!(out, "\n**Error** ({}): {}", code(text("code")), inline(text("message")))
            }
            _ => Ok(()),
        }
    }

    /// A result: changes of files as diffs, text as text, and everything else as JSON.
    fn result(&mut self, content: &Value, out: &mut dyn Write) -> io::Result<()> {
        let items = content.as_array().map_or(&[][..], Vec::as_slice);
        let is_shown = |item: &Value| {
            item["type"] == "diff" || item["content"]["text"].is_string() || item["text"].is_string()
        };
        if items.is_empty() || !items.iter().all(is_shown) {
            return block(content, out);
        }
        for item in items {
            writeln!(out)?;
            match (item["type"].as_str(), item["content"]["text"].as_str()) {
                (Some("diff"), _) => fenced(&preview::diff(item).join("\n"), "diff", out)?,
                (_, Some(text)) => fenced(text, "text", out)?,
                _ => fenced(item["text"].as_str().unwrap_or_default(), "text", out)?,
            }
        }
        Ok(())
    }

    fn question(&mut self, data: &Value, out: &mut dyn Write) -> io::Result<()> {
        if data["closed"] != true {
            return self.asked(data, out);
        }
        self.close(out)?;
        let answer = &data["answer"];
        let chosen = answer["label"].as_str().or(answer["option"].as_str());
        match chosen {
            Some(chosen) => writeln!(out, "\n**Answer:** {}", inline(chosen)),
            None if answer["content"] == true => writeln!(out, "\n**Answer:** a filled-in form"),
            None if answer["declined"] == true => writeln!(out, "\n**Answer:** declined"),
            None => writeln!(out, "\n**No answer:** the question was closed"),
        }
    }

    fn asked(&mut self, data: &Value, out: &mut dyn Write) -> io::Result<()> {
        self.close(out)?;
        let message = data["message"].as_str().unwrap_or_default();
        writeln!(out, "\n### Question: {}", inline(message))?;
        let preview = data.get("tool").map(preview::lines).unwrap_or_default();
        if !preview.is_empty() {
            writeln!(out)?;
            fenced(&preview.join("\n"), "diff", out)?;
        }
        let options = data["options"].as_array().map_or(&[][..], Vec::as_slice);
        if !options.is_empty() {
            writeln!(out)?;
        }
        for option in options {
            let label = option["label"].as_str().or(option["id"].as_str());
            writeln!(out, "- {}", inline(label.unwrap_or_default()))?;
        }
        Ok(())
    }

    /// Appends to the text that is open, or begins a new one.
    fn text(&mut self, kind: Kind, text: &str, out: &mut dyn Write) -> io::Result<()> {
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.close(out)?;
            match kind {
                Kind::Answer => writeln!(out, "\n### Answer\n")?,
                Kind::Thought => writeln!(out, "\n### Thought\n")?,
                Kind::Stderr => writeln!(out, "\n### Standard error of the agent\n")?,
            }
            self.open = Some(Text::new(kind));
        }
        match &mut self.open {
            Some(open) => open.push(text, out),
            None => Ok(()),
        }
    }

    fn close(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.open.take() {
            Some(open) => open.end(out),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Markdown of the agent.
    Answer,
    /// Plain text, as a quote.
    Thought,
    /// Plain text, indented.
    Stderr,
}

/// Text of the agent that arrives in pieces. It is written line by line.
struct Text {
    kind: Kind,
    line: String,
    /// Character and length of the code fence that is open.
    fence: Option<(char, usize)>,
}

impl Text {
    fn new(kind: Kind) -> Self {
        Text {
            kind,
            line: String::new(),
            fence: None,
        }
    }

    fn push(&mut self, text: &str, out: &mut dyn Write) -> io::Result<()> {
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
        if let Some(mark) = mark.filter(|mark| length >= 3 && (*mark == '~' || !info.contains('`'))) {
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
        let is_underline = text.starts_with(['=', '-'])
            && text.trim_end().chars().all(|c| Some(c) == text.chars().next());
        match is_underline {
            true => format!("\\{text}"),
            false => without_html(line),
        }
    }

    fn end(mut self, out: &mut dyn Write) -> io::Result<()> {
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
            let end = from.char_indices().nth(2).map_or(from.len(), |(end, _)| end);
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
fn inline(text: &str) -> String {
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
fn code(text: &str) -> String {
    let line = escape_line(text);
    let longest = longest_run(&line, '`');
    let ticks = "`".repeat(longest + 1);
    match longest {
        0 => format!("{ticks}{line}{ticks}"),
        _ => format!("{ticks} {line} {ticks}"),
    }
}

/// A block of JSON, unless the value is empty. A command is written as such.
fn block(value: &Value, out: &mut dyn Write) -> io::Result<()> {
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
fn fenced(text: &str, language: &str, out: &mut dyn Write) -> io::Result<()> {
    let text = escape_output(text);
    let fence = "`".repeat(longest_run(&text, '`').max(2) + 1);
    writeln!(out, "{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'))
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
    use serde_json::json;

    fn exported(events: &[Value]) -> String {
        let mut out = Vec::new();
        let mut markdown = Markdown::default();
        for event in events {
            markdown.event(event, &mut out).expect("written");
        }
        markdown.end(&json!({ "status": "running" }), &mut out).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    fn answer(pieces: &[&str]) -> String {
        let delta = |text: &&str| json!({ "event": "event", "data": { "type": "text-delta", "text": text } });
        let text = exported(&pieces.iter().map(delta).collect::<Vec<_>>());
        text.strip_prefix("\n### Answer\n\n").expect("an answer").to_owned()
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
            ("#hashtag\n- item\n| a | b |", "#hashtag\n- item\n| a | b |\n"),
        ] {
            assert_eq!(answer(&[text]), expected, "{text:?}");
        }
        // Pieces are joined before they are read.
        assert_eq!(answer(&["#", "# a", "\n``", "`\nb"]), "##### a\n```\nb\n```\n");
    }

    #[test]
    fn every_kind_of_event_is_written() {
        let event = |data: Value| json!({ "event": "event", "data": data });
        let text = exported(&[
            json!({ "event": "prompt", "data": { "prompt": "```\nfix it", "cut": true } }),
            event(json!({ "type": "thought", "text": "*hm*\nok" })),
            event(json!({ "type": "tool-call", "id": "t1", "name": "edit `a`", "args": { "path": "a" } })),
            json!({ "event": "permission", "data": { "id": "q", "message": "May I?\n# x", "options":
                [{ "id": "y", "label": "Yes" }], "tool": { "content":
                [{ "type": "diff", "path": "a", "oldText": "1\n", "newText": "2\n" }] } } }),
            json!({ "event": "permission", "data": { "id": "q", "closed": true, "answer": { "option": "y", "label": "Yes" } } }),
            event(json!({ "type": "tool-result", "id": "t1", "ok": false, "content":
                [{ "type": "diff", "path": "a", "oldText": "1\n", "newText": "2\n" }] })),
            json!({ "event": "gap", "data": { "missed": 3 } }),
            json!({ "event": "line", "data": { "line": "# oops", "stream": "stderr" } }),
            json!({ "event": "line", "data": { "line": "not again", "stream": "stdout" } }),
            event(json!({ "type": "turn-end", "reason": "end_turn" })),
        ]);
        for part in [
            "## Turn 1\n\n### Prompt\n\n````text\n```\nfix it\n````\n\n*The rest",
            "### Thought\n\n> \\*hm\\*\n> ok\n",
            "### Tool call: edit \\`a\\`\n\n```json\n{\n  \"path\": \"a\"\n}\n```\n",
            "### Question: May I?\\\\n\\# x\n\n```diff\n--- a\n+++ a\n@@ -1 +1 @@\n-1\n+2\n```\n\n- Yes\n",
            "**Answer:** Yes\n",
            "**Failed:** edit \\`a\\`\n\n```diff\n--- a\n",
            "*Gap: 3 events are missing here.*\n",
            "### Standard error of the agent\n\n    # oops\n",
            "*Turn ended: end\\_turn.*\n",
        ] {
            assert!(text.contains(part), "{part}\nis not in\n{text}");
        }
        assert!(!text.contains("not again"), "{text}");
    }
}
