//! Fixes for the `---` lines (fences) of the frontmatter. A fix is proposed only if the changed
//! text parses as a manifest.

use crate::finding::Edit;
use agentproto_manifest::{Document, Span};

/// A proposed fix for the fences.
pub struct Proposal {
    pub message: &'static str,
    pub title: &'static str,
    /// Place of the misspelled fence, or where the missing fence belongs.
    pub at: Span,
    pub edits: Vec<Edit>,
}

/// Proposes a fix for a file whose opening fence is missing, misspelled or not on the first line.
pub fn opening(doc: &Document) -> Option<Proposal> {
    let start = if doc.text.starts_with('\u{feff}') {
        3
    } else {
        0
    };
    let first = lines(&doc.text, start).find(|line| !line.text.trim().is_empty())?;
    let insert = || Proposal {
        message: "the opening `---` line of the frontmatter is missing",
        title: "Insert the opening `---`",
        at: Span::empty(start),
        edits: vec![edit(start, start, &format!("---{}", line_break(doc)))],
    };
    let replace = || Proposal {
        message: "the opening line of the frontmatter is not exactly `---`",
        title: "Write the opening line as `---`",
        at: first.span(),
        edits: vec![edit(start, first.end(), "---")],
    };
    let proposal = if looks_like_fence(first.text) {
        replace()
    } else if looks_like_field(first.text) {
        insert()
    } else {
        return text_before(doc, start);
    };
    fixes_parse(doc, &proposal.edits).then_some(proposal)
}

/// Proposes to move a title or other text from above the frontmatter to below it. This applies only
/// if the file name is that of a manifest: in another file, two horizontal rules could look like
/// fences.
fn text_before(doc: &Document, start: usize) -> Option<Proposal> {
    doc.doctype?;
    let open = lines(&doc.text, start)
        .take(24)
        .find(|l| is_fence(l.text))?;
    let close = lines(&doc.text, open.next).find(|l| is_fence(l.text))?;
    let edits = move_after(doc, Span::new(start, open.start), close.next);
    fixes_parse(doc, &edits).then_some(Proposal {
        message: "the opening `---` is not the first line of the file",
        title: "Move the text to below the frontmatter",
        at: Span::new(start, open.start),
        edits,
    })
}

/// Proposes a fix for an opening fence that follows blank lines or comments.
pub fn leading(doc: &Document, before: Span) -> Option<(&'static str, Vec<Edit>)> {
    let front = doc.frontmatter?;
    if doc.slice(before).trim().is_empty() {
        let edits = vec![edit(before.start as usize, before.end as usize, "")];
        return Some(("Remove the blank lines above the frontmatter", edits));
    }
    let edits = move_after(doc, before, front.body.start as usize);
    Some(("Move the comment to below the frontmatter", edits))
}

/// Proposes a fix for a frontmatter without a closing fence.
pub fn closing(doc: &Document) -> Option<Proposal> {
    let front = doc.frontmatter?;
    let from = front.yaml.start as usize;
    let fence = format!("---{}", line_break(doc));
    if let Some(line) = lines(&doc.text, from).find(|l| looks_like_fence(l.text)) {
        let proposal = Proposal {
            message: "the closing line of the frontmatter is not exactly `---`",
            title: "Write the closing line as `---`",
            at: line.span(),
            edits: vec![edit(line.start, line.end(), "---")],
        };
        if fixes_parse(doc, &proposal.edits) {
            return Some(proposal);
        }
    }
    let message = "the closing `---` line of the frontmatter is missing";
    let title = "Insert the closing `---`";
    // The fence goes after the last non-blank line before the body.
    let mut end_of_fields = from;
    for line in lines(&doc.text, from) {
        if begins_body(line.text) {
            let edits = vec![edit(end_of_fields, end_of_fields, &fence)];
            if fixes_parse(doc, &edits) {
                return Some(Proposal {
                    message,
                    title,
                    at: Span::empty(end_of_fields),
                    edits,
                });
            }
            break;
        }
        if !line.text.trim().is_empty() {
            end_of_fields = line.next;
        }
    }
    let end = doc.text.len();
    let glue = if doc.text.ends_with('\n') {
        ""
    } else {
        line_break(doc)
    };
    let edits = vec![edit(end, end, &format!("{glue}{fence}"))];
    fixes_parse(doc, &edits).then_some(Proposal {
        message,
        title,
        at: Span::empty(end),
        edits,
    })
}

fn move_after(doc: &Document, moved: Span, after: usize) -> Vec<Edit> {
    let eol = line_break(doc);
    let text = doc.slice(moved).trim();
    let glue = if doc.text.ends_with('\n') || after < doc.text.len() {
        ""
    } else {
        eol
    };
    vec![
        edit(moved.start as usize, moved.end as usize, ""),
        edit(after, after, &format!("{glue}{eol}{text}{eol}")),
    ]
}

fn fixes_parse(doc: &Document, edits: &[Edit]) -> bool {
    let mut text = doc.text.clone();
    // Edits are in text order. Applied from last to first, no edit shifts another.
    for edit in edits.iter().rev() {
        let range = edit.span.range();
        if text.get(range.clone()).is_none() {
            return false;
        }
        text.replace_range(range, &edit.text);
    }
    let fixed = Document::parse(doc.path.clone(), text);
    fixed.root.is_some() && fixed.problems.is_empty()
}

fn edit(start: usize, end: usize, text: &str) -> Edit {
    Edit {
        span: Span::new(start, end),
        text: text.to_owned(),
    }
}

fn line_break(doc: &Document) -> &'static str {
    if doc.text.contains("\r\n") {
        "\r\n"
    } else {
        "\n"
    }
}

struct Line<'a> {
    start: usize,
    /// The line without its line break.
    text: &'a str,
    next: usize,
}

impl Line<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }
    fn span(&self) -> Span {
        Span::new(self.start, self.end())
    }
}

fn lines(text: &str, from: usize) -> impl Iterator<Item = Line<'_>> {
    let mut at = from;
    let rest = text.get(from..).unwrap_or("");
    rest.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        Line {
            start,
            text: line.trim_end_matches(['\n', '\r']),
            next: at,
        }
    })
}

fn is_fence(line: &str) -> bool {
    line.starts_with("---") && line.trim_end() == "---"
}

/// Whether a line looks like a misspelled fence: `--`, `-----`, ` ---`, `***`, `___`, `...` or long
/// dashes.
fn looks_like_fence(line: &str) -> bool {
    let marks = line.trim();
    let only = |c: char| marks.chars().all(|m| m == c);
    let long = marks.chars().count() >= 2;
    !is_fence(line)
        && !marks.is_empty()
        && ((long && (only('-') || only('*') || only('_') || marks == "...")) || only('—'))
}

fn looks_like_field(line: &str) -> bool {
    line.split_once(':').is_some_and(|(key, value)| {
        !key.is_empty()
            && key
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            && (value.is_empty() || value.starts_with(' '))
    })
}

/// Whether a line cannot be top-level YAML and so belongs to the body: a heading of level two or
/// deeper (a single `#` may be a comment), or prose.
fn begins_body(line: &str) -> bool {
    if line.starts_with("##") {
        return true;
    }
    let first = line.chars().next();
    first.is_some_and(|c| c.is_alphabetic() || c == '*' || c == '>' || c == '`')
        && !looks_like_field(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(doc: &Document, edits: &[Edit]) -> String {
        let mut text = doc.text.clone();
        for edit in edits.iter().rev() {
            text.replace_range(edit.span.range(), &edit.text);
        }
        text
    }

    fn closed(text: &str) -> Option<String> {
        let doc = Document::parse("SANDBOX.md", text.to_owned());
        closing(&doc).map(|p| apply(&doc, &p.edits))
    }

    fn opened(text: &str) -> Option<String> {
        let doc = Document::parse("SANDBOX.md", text.to_owned());
        opening(&doc).map(|p| apply(&doc, &p.edits))
    }

    #[test]
    fn a_closing_fence_goes_between_fields_and_body() {
        let fixed = closed("---\na: 1\nb:\n  - x\n\n## Head\n\nText: more.\n").unwrap();
        assert_eq!(
            fixed,
            "---\na: 1\nb:\n  - x\n---\n\n## Head\n\nText: more.\n"
        );
        let fixed = closed("---\na: 1\n\nSome words here.\n").unwrap();
        assert_eq!(fixed, "---\na: 1\n---\n\nSome words here.\n");
        assert_eq!(closed("---\na: 1").unwrap(), "---\na: 1\n---\n");
        let crlf = closed("---\r\na: 1\r\n").unwrap();
        assert_eq!(crlf, "---\r\na: 1\r\n---\r\n");
    }

    #[test]
    fn a_misspelled_fence_is_replaced() {
        for mark in ["----", "--", "***", "...", "—"] {
            let fixed = closed(&format!("---\na: 1\n{mark}\n\nBody\n"));
            assert_eq!(fixed.as_deref(), Some("---\na: 1\n---\n\nBody\n"), "{mark}");
        }
        assert_eq!(opened("----\na: 1\n---\n").unwrap(), "---\na: 1\n---\n");
        assert_eq!(opened("\n ---\na: 1\n---\n").unwrap(), "---\na: 1\n---\n");
    }

    #[test]
    fn an_opening_fence_is_inserted_or_moved() {
        assert_eq!(
            opened("a: 1\n---\nBody\n").unwrap(),
            "---\na: 1\n---\nBody\n"
        );
        assert_eq!(
            opened("# Title\n\n---\na: 1\n---\nBody\n").unwrap(),
            "---\na: 1\n---\n\n# Title\nBody\n"
        );
        assert_eq!(opened("# Title\n\nText only.\n"), None);
        assert_eq!(opened("+++\na = 1\n+++\n"), None);
    }

    #[test]
    fn invalid_yaml_gets_no_proposal() {
        assert_eq!(closed("---\na: [1\n\n## Head\n"), None);
    }
}
