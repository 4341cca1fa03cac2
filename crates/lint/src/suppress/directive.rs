//! Reads ignore directives from comments.

use crate::registry;
use agentproto_manifest::comments::{comments, line_end, line_start, next_line};
use agentproto_manifest::{Document, Span};
use agentproto_text::truncate;

/// Start of every directive. A text without it has no directives.
pub const PREFIX: &str = "agentproto:";

/// A valid `ignore[…]` or `ignore-file[…]`.
#[derive(Debug, PartialEq)]
pub struct Directive<'d> {
    /// The comment, including `#` or `<!--`.
    pub span: Span,
    /// The text between the brackets.
    pub list: Span,
    /// The rule names and their places.
    pub names: Vec<(&'d str, Span)>,
    /// The text after the closing bracket.
    pub reason: &'d str,
    /// The line (from 1) that it applies to. `None` for the whole file.
    pub line: Option<u32>,
}

#[derive(Debug, PartialEq)]
pub struct InvalidDirective {
    pub span: Span,
    /// What is wrong: a clause about "this ignore".
    pub why: String,
    /// What to write instead.
    pub help: String,
}

#[derive(Debug, Default)]
pub struct Directives<'d> {
    pub valid: Vec<Directive<'d>>,
    pub invalid: Vec<InvalidDirective>,
    /// The range from the last comment on its own line to the line that it applies to, and that
    /// line. Comments in this range apply to the same line, so the search need not be repeated.
    cached_target: Option<(Span, u32)>,
}

pub fn directives(doc: &Document) -> Directives<'_> {
    let mut found = Directives::default();
    // Without a tree, comments and the text of scalars look the same.
    if doc.root.is_some() {
        for span in comments(doc) {
            let text = doc.slice(span);
            let inner = text.trim_start_matches('#');
            found.read(doc, span, inner, span.end as usize - inner.len(), false);
        }
    }
    body_comments(doc, &mut found);
    found
}

impl<'d> Directives<'d> {
    /// Reads one comment. `inner` is its text without the comment marks, and `at` is the offset of
    /// that text.
    fn read(&mut self, doc: &'d Document, span: Span, inner: &'d str, at: usize, body: bool) {
        let Some(order) = inner.trim_start().strip_prefix(PREFIX) else {
            return;
        };
        let at = at + (inner.len() - order.len());
        match parse(order, at, body) {
            Ok(parts) => {
                let line = (!parts.whole_file).then(|| self.target_line(doc, span));
                self.valid.push(Directive {
                    span,
                    line,
                    list: parts.list,
                    names: parts.names,
                    reason: parts.reason,
                });
            }
            Err((why, help)) => self.invalid.push(InvalidDirective { span, why, help }),
        }
    }

    /// The line that a comment applies to: its own line, or the next line with content if the
    /// comment is on its own line.
    fn target_line(&mut self, doc: &Document, comment: Span) -> u32 {
        let text = &doc.text;
        let end = doc
            .frontmatter
            .map_or(text.len(), |front| front.yaml.end as usize);
        let mut at = comment.start as usize;
        let alone = text
            .get(line_start(text, at)..at)
            .is_some_and(|head| head.trim().is_empty());
        if !alone {
            return doc.position(comment.start).line;
        }
        if let Some((gap, line)) = self.cached_target
            && gap.contains(comment)
        {
            return line;
        }
        loop {
            at = next_line(text, at);
            let line = text.get(at..line_end(text, at)).unwrap_or("").trim();
            if at >= end || !(line.is_empty() || line.starts_with('#')) {
                break;
            }
        }
        let line = doc.position(at as u32).line;
        self.cached_target = Some((Span::new(comment.start as usize, at), line));
        line
    }
}

struct Parts<'d> {
    whole_file: bool,
    list: Span,
    names: Vec<(&'d str, Span)>,
    reason: &'d str,
}

/// Help for an ignore of `rule` that has the wrong form.
fn usage(word: &str, rule: &str) -> String {
    format!("write `agentproto: {word}[{rule}] REASON`")
}

/// Parses the text after the mark. `at` is its offset in the file. The error is what is wrong, and
/// what to write instead.
fn parse(order: &str, at: usize, body: bool) -> Result<Parts<'_>, (String, String)> {
    let text = order.trim_start();
    let word_end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
        .unwrap_or(text.len());
    let (word, rest) = text.split_at(word_end);
    let whole_file = match word {
        "ignore-file" => true,
        "ignore" if body => {
            return Err((
                "`ignore` works only in the frontmatter".to_owned(),
                "use `ignore-file` in the body".to_owned(),
            ));
        }
        "ignore" => false,
        "" => {
            return Err((
                "this comment does not say what to do".to_owned(),
                usage("ignore", "RULE"),
            ));
        }
        other => {
            return Err((
                format!("unknown keyword `{}`", truncate(other, 40)),
                usage("ignore", "RULE"),
            ));
        }
    };
    let Some(list) = rest.trim_start().strip_prefix('[') else {
        // The rule is often written without brackets.
        let meant = rest.split_whitespace().next().unwrap_or("");
        let meant = meant.trim_end_matches([',', ':', ';']);
        let rule = registry::find(meant).map_or("RULE", |rule| rule.slug);
        return Err((
            "this ignore names no rule in brackets".to_owned(),
            usage(word, rule),
        ));
    };
    let Some((inside, reason)) = list.split_once(']') else {
        return Err((
            "this ignore has no closing bracket".to_owned(),
            "add `]` after the names of the rules".to_owned(),
        ));
    };
    let list_at = at + order.len() - list.len();
    let mut names = Vec::new();
    let mut name_at = list_at;
    for part in inside.split(',') {
        let name = part.trim();
        if name.is_empty() {
            return Err((
                "this ignore contains an empty rule name".to_owned(),
                usage(word, "RULE"),
            ));
        }
        let start = name_at + part.len() - part.trim_start().len();
        names.push((name, Span::new(start, start + name.len())));
        name_at += part.len() + 1;
    }
    Ok(Parts {
        whole_file,
        list: Span::new(list_at, list_at + inside.len()),
        names,
        reason: reason.trim(),
    })
}

/// Reads HTML comments at the start of a line of the Markdown body, outside fenced code.
fn body_comments<'d>(doc: &'d Document, found: &mut Directives<'d>) {
    let Some(front) = doc.frontmatter else {
        return;
    };
    let text = &doc.text;
    let mut fence: Option<&str> = None;
    let mut at = front.body.start as usize;
    while at < text.len() {
        let end = line_end(text, at);
        let raw = text.get(at..end).unwrap_or("");
        let line = raw.trim_start();
        let start = at + raw.len() - line.len();
        at = next_line(text, at);
        match fence {
            Some(mark) if line.starts_with(mark) => fence = None,
            Some(_) => {}
            None if line.starts_with("```") => fence = Some("```"),
            None if line.starts_with("~~~") => fence = Some("~~~"),
            None => {
                let Some(comment) = text.get(start..).and_then(|t| t.strip_prefix("<!--")) else {
                    continue;
                };
                let inside = comment.split("-->").next().unwrap_or(comment);
                let stop = (start + 4 + inside.len() + 3).min(text.len());
                found.read(doc, Span::new(start, stop), inside, start + 4, true);
                at = at.max(next_line(text, stop.saturating_sub(1)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc(text: &str) -> Document {
        Document::parse("AGENT-CLI.md", text.to_owned())
    }

    #[test]
    fn directives_have_names_lines_and_reasons() {
        let doc = doc(
            "---\n# agentproto: ignore[a-b, c] why so\n\n# prose\nx: 1\ny: 2 # agentproto:ignore[d]\n# agentproto: ignore-file[e] all\n---\n",
        );
        let found = directives(&doc);
        assert!(found.invalid.is_empty());
        let seen: Vec<_> = found
            .valid
            .iter()
            .map(|d| {
                (
                    d.names.iter().map(|n| n.0).collect::<Vec<_>>(),
                    d.line,
                    d.reason,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (vec!["a-b", "c"], Some(5), "why so"),
                (vec!["d"], Some(6), ""),
                (vec!["e"], None, "all")
            ]
        );
        for directive in &found.valid {
            for (name, span) in &directive.names {
                assert_eq!(doc.slice(*span), *name);
            }
        }
        assert_eq!(doc.slice(found.valid[0].list), "a-b, c");
    }

    #[test]
    fn comment_marks_inside_scalars_are_not_directives() {
        let doc = doc(
            "---\na: \"# agentproto: ignore[x] y\"\nb: '\n  # agentproto: ignore[x] y'\nc: |\n  # agentproto: ignore[x] y\nd: a#agentproto:x\n---\n",
        );
        assert!(doc.root.is_some(), "{:?}", doc.problems);
        let found = directives(&doc);
        assert!(
            found.valid.is_empty() && found.invalid.is_empty(),
            "{found:?}"
        );
    }

    #[test]
    fn only_ignore_file_is_allowed_in_the_body() {
        let doc = doc(
            "---\na: 1\n---\n<!-- agentproto: ignore-file[x] because\nof this -->\n<!-- agentproto: ignore[x] y -->\n```\n<!-- agentproto: ignore-file[y] z -->\n```\ntext <!-- agentproto: ignore-file[y] -->\n",
        );
        let found = directives(&doc);
        assert_eq!(found.valid.len(), 1);
        assert_eq!(found.valid[0].reason, "because\nof this");
        assert_eq!(
            doc.slice(found.invalid[0].span),
            "<!-- agentproto: ignore[x] y -->"
        );
        assert_eq!(found.invalid.len(), 1);
    }

    #[test]
    fn invalid_directives_are_reported() {
        for bad in [
            "",
            "ignore",
            "ignore reason",
            "ignore[]",
            "ignore[a,,b]",
            "ignore[a",
            "ignor[a] b",
            "IGNORE[a]",
            "ignore-file",
        ] {
            let doc = doc(&format!("---\na: 1 # agentproto: {bad}\n---\n"));
            assert_eq!(directives(&doc).invalid.len(), 1, "{bad:?}");
        }
        let doc = doc("---\n# see agentproto: ignore\na: 1\n---\n");
        assert!(directives(&doc).invalid.is_empty());
    }
}
