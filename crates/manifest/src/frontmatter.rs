//! Splits a file at its `---` fences.

use crate::document::{Problem, ProblemKind};
use crate::tree::Span;

/// Spans of the parts of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frontmatter {
    /// The opening `---`, without its line break.
    pub open: Span,
    /// The YAML between the fences.
    pub yaml: Span,
    /// The closing `---`. If it is missing, an empty span at the end of the file.
    pub close: Span,
    /// Everything after the line of the closing fence.
    pub body: Span,
}

/// Splits a file into frontmatter and body. If the closing fence is missing, the rest of the file
/// is the frontmatter, so that its fields can still be checked.
pub fn split(text: &str) -> Result<(Frontmatter, Option<Problem>), Problem> {
    let bom = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut problem = None;
    let mut open_at = bom;
    let first = line_at(text, bom);
    if !is_fence(first.text) {
        match leading_fence(text, bom) {
            Some(at) => {
                problem = Some(Problem::new(
                    ProblemKind::FenceNotFirst,
                    Span::new(bom, at),
                    "the opening `---` is not the first line of the file",
                ));
                open_at = at;
            }
            None => {
                return Err(Problem::new(
                    ProblemKind::Missing,
                    Span::new(bom, bom + first.text.len()),
                    "the file has no YAML frontmatter",
                ));
            }
        }
    }
    let open_line = line_at(text, open_at);
    let open = Span::new(open_at, open_at + open_line.text.trim_end().len());
    let mut at = open_line.next;
    let yaml_start = at;
    while at < text.len() {
        let line = line_at(text, at);
        if is_fence(line.text) {
            let front = Frontmatter {
                open,
                yaml: Span::new(yaml_start, at),
                close: Span::new(at, at + line.text.trim_end().len()),
                body: Span::new(line.next, text.len()),
            };
            return Ok((front, problem));
        }
        at = line.next;
    }
    let front = Frontmatter {
        open,
        yaml: Span::new(yaml_start, text.len()),
        close: Span::empty(text.len()),
        body: Span::empty(text.len()),
    };
    let unclosed = Problem::new(
        ProblemKind::FenceUnclosed,
        open,
        "the frontmatter is never closed by a second `---` line",
    );
    Ok((front, Some(unclosed)))
}

struct Line<'a> {
    /// Without the line break.
    text: &'a str,
    next: usize,
}

fn line_at(text: &str, start: usize) -> Line<'_> {
    let rest = text.get(start..).unwrap_or("");
    match memchr::memchr(b'\n', rest.as_bytes()) {
        Some(end) => Line {
            text: rest.get(..end).unwrap_or("").trim_end_matches('\r'),
            next: start + end + 1,
        },
        None => Line {
            text: rest,
            next: text.len(),
        },
    }
}

fn is_fence(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.bytes().all(|b| b == b' ' || b == b'\t'))
}

/// Byte offset of a fence that follows only blank lines and one-line HTML comments.
fn leading_fence(text: &str, start: usize) -> Option<usize> {
    let mut at = start;
    for _ in 0..16 {
        let line = line_at(text, at);
        if is_fence(line.text) {
            return Some(at);
        }
        let trimmed = line.text.trim();
        let skippable =
            trimmed.is_empty() || (trimmed.starts_with("<!--") && trimmed.ends_with("-->"));
        // An indented fence is not accepted as an opening fence.
        if is_fence(line.text.trim_start()) && !trimmed.is_empty() {
            return None;
        }
        if !skippable || line.next >= text.len() {
            return None;
        }
        at = line.next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> &str {
        &text[split(text).unwrap().0.yaml.range()]
    }

    #[test]
    fn plain_crlf_and_bom() {
        assert_eq!(yaml("---\na: 1\n---\nbody"), "a: 1\n");
        assert_eq!(yaml("---\r\na: 1\r\n---\r\nbody"), "a: 1\r\n");
        assert_eq!(yaml("\u{feff}---\na: 1\n---\n"), "a: 1\n");
        assert_eq!(yaml("---\n---\n"), "");
    }

    #[test]
    fn trailing_blanks_on_a_fence_are_accepted() {
        assert_eq!(yaml("---  \na: 1\n---\t\n"), "a: 1\n");
    }

    #[test]
    fn missing_and_misplaced_fences_are_reported() {
        let (front, problem) = split("---\na: 1\n").unwrap();
        assert_eq!(problem.unwrap().kind, ProblemKind::FenceUnclosed);
        assert_eq!(front.yaml, Span::new(4, 9));
        let (_, problem) = split("\n\n---\na: 1\n---\n").unwrap();
        assert_eq!(problem.unwrap().kind, ProblemKind::FenceNotFirst);
        assert_eq!(split("# Title\n").unwrap_err().kind, ProblemKind::Missing);
        assert_eq!(split("").unwrap_err().kind, ProblemKind::Missing);
        assert_eq!(
            split("----\na: 1\n").unwrap_err().kind,
            ProblemKind::Missing
        );
    }
}
