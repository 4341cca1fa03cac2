//! The history of a session as Markdown. The text comes from an agent that is not trusted.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::Value;

use super::markdown_text::{Kind, Text, block, code, fenced, inline};
use crate::cli::agents::preview;

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
                    self.tools
                        .insert(text("id").to_owned(), text("name").to_owned());
                }
                writeln!(out, "\n### Tool call: {}", inline(text("name")))?;
                block(&data["args"], out)
            }
            "tool-result" => {
                self.close(out)?;
                let name = self
                    .tools
                    .get(text("id"))
                    .map_or(text("id"), String::as_str);
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
                writeln!(
                    out,
                    "\n**Error** ({}): {}",
                    code(text("code")),
                    inline(text("message"))
                )
            }
            _ => Ok(()),
        }
    }

    /// A result: changes of files as diffs, text as text, and everything else as JSON.
    fn result(&mut self, content: &Value, out: &mut dyn Write) -> io::Result<()> {
        let items = content.as_array().map_or(&[][..], Vec::as_slice);
        let is_shown = |item: &Value| {
            item["type"] == "diff"
                || item["content"]["text"].is_string()
                || item["text"].is_string()
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
        markdown
            .end(&json!({ "status": "running" }), &mut out)
            .expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn every_kind_of_event_is_written() {
        let event = |data: Value| json!({ "event": "event", "data": data });
        let text = exported(&[
            json!({ "event": "prompt", "data": { "prompt": "```\nfix it", "cut": true } }),
            event(json!({ "type": "thought", "text": "*hm*\nok" })),
            event(
                json!({ "type": "tool-call", "id": "t1", "name": "edit `a`", "args": { "path": "a" } }),
            ),
            json!({ "event": "permission", "data": { "id": "q", "message": "May I?\n# x", "options":
                [{ "id": "y", "label": "Yes" }], "tool": { "content":
                [{ "type": "diff", "path": "a", "oldText": "1\n", "newText": "2\n" }] } } }),
            json!({ "event": "permission", "data": { "id": "q", "closed": true, "answer": { "option": "y", "label": "Yes" } } }),
            event(
                json!({ "type": "tool-result", "id": "t1", "ok": false, "content":
                [{ "type": "diff", "path": "a", "oldText": "1\n", "newText": "2\n" }] }),
            ),
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
