//! Excerpts of files that are safe to print.
//!
//! miette gets an excerpt instead of the file. Hidden characters are made visible, long lines are
//! cut around the mark, and lines far from all marks are left out. Each excerpt line ends with a
//! line break, so that there is a position to mark at the end of the file.

use std::collections::BTreeSet;

use miette::{LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use crate::render::secrets::is_masked;
use agentproto_manifest::{Document, Span};
use agentproto_text::{escape_char, is_hidden};

/// Number of context lines before and after a mark.
pub const CONTEXT: usize = 1;
/// A mark that spans more lines than this is drawn on its first line only.
const MARK_LINES: u32 = 8;

pub struct Mark {
    pub span: Span,
    pub label: Option<String>,
    pub primary: bool,
}

/// Limits of an excerpt line.
#[derive(Clone, Copy)]
pub struct LineLimits<'m> {
    /// Maximum number of columns of a line.
    pub width: usize,
    /// Inserted where a line was cut.
    pub cut: &'static str,
    /// Places whose text must not be printed.
    pub masks: &'m [Span],
}

/// An excerpt and its marks. Offsets are relative to the excerpt.
pub struct Snippet {
    name: String,
    text: String,
    lines: Vec<Line>,
    labels: Vec<LabeledSpan>,
    /// Offsets in the excerpt with line and column in the file, for the header of each part.
    origins: Vec<(usize, usize, usize)>,
}

struct Line {
    /// Line number in the file, from 0.
    number: usize,
    /// Offset of its start in the excerpt.
    start: usize,
}

/// The part of a mark that is drawn.
struct DrawnMark {
    start: usize,
    end: usize,
    first: u32,
    last: u32,
    /// Last line of the mark in the file, if that line is not drawn.
    hidden_last_line: Option<u32>,
}

impl Snippet {
    pub fn new(doc: &Document, name: String, marks: Vec<Mark>, limits: LineLimits<'_>) -> Self {
        let drawn: Vec<DrawnMark> = marks.iter().map(|m| drawn(doc, m.span)).collect();
        let mut numbers = BTreeSet::new();
        let count = doc.lines().line_count() as u32;
        for d in &drawn {
            let context = CONTEXT as u32;
            let first = d.first.saturating_sub(context).max(1);
            numbers.extend(first..=(d.last + context).min(count));
        }
        let mut text = String::new();
        let mut lines = Vec::new();
        // Start and end of each mark in the excerpt.
        let mut places = vec![(0, 0); drawn.len()];
        for number in numbers {
            let (from, raw) = raw_line(doc, number);
            let until = from + raw.len();
            let focus = drawn
                .iter()
                .zip(&marks)
                .filter(|(d, _)| d.first == number)
                .min_by_key(|(_, mark)| !mark.primary)
                .map_or(0, |(d, _)| d.start.saturating_sub(from));
            let start = text.len();
            lines.push(Line {
                number: number as usize - 1,
                start,
            });
            let offsets = push_line(&mut text, from, raw, focus, limits);
            for (d, place) in drawn.iter().zip(&mut places) {
                if d.first == number {
                    place.0 = offsets.at(d.start.clamp(from, until) - from);
                }
                if d.last == number {
                    place.1 = offsets.at(d.end.clamp(from, until) - from);
                }
            }
            text.push('\n');
        }
        let mut labels = Vec::new();
        let mut origins = Vec::new();
        for ((mark, d), (start, end)) in marks.into_iter().zip(drawn).zip(places) {
            let label = match d.hidden_last_line {
                Some(line) => {
                    let to = format!("up to line {line}");
                    Some(
                        mark.label
                            .map_or(to.clone(), |label| format!("{label} ({to})")),
                    )
                }
                None => mark.label,
            };
            let at = doc.position(d.start as u32);
            origins.push((start, d.first as usize - 1, at.column as usize - 1));
            let span = SourceSpan::from((start, end.saturating_sub(start)));
            labels.push(if mark.primary {
                LabeledSpan::new_primary_with_span(label, span)
            } else {
                LabeledSpan::new_with_span(label, span)
            });
        }
        Snippet {
            name,
            text,
            lines,
            labels,
            origins,
        }
    }

    pub fn labels(&self) -> Vec<LabeledSpan> {
        self.labels.clone()
    }

    /// Index of the excerpt line that contains an offset.
    fn line_at(&self, offset: usize) -> usize {
        self.lines
            .partition_point(|line| line.start <= offset)
            .saturating_sub(1)
    }
}

fn drawn(doc: &Document, span: Span) -> DrawnMark {
    let start = floor(&doc.text, span.start as usize);
    let mut end = floor(&doc.text, span.end as usize).max(start);
    let marked = doc.text.get(start..end).unwrap_or("");
    if marked.contains('\n') {
        // The span of a block ends where the next one starts. Do not mark the whitespace between.
        end = start + marked.trim_end().len().max(1);
        end = floor(&doc.text, end).max(start);
    }
    let first = doc.position(start as u32).line;
    let last = doc.position(end as u32).line.max(first);
    if last - first < MARK_LINES {
        return DrawnMark {
            start,
            end,
            first,
            last,
            hidden_last_line: None,
        };
    }
    let (from, raw) = raw_line(doc, first);
    DrawnMark {
        start,
        end: from + raw.len(),
        first,
        last: first,
        hidden_last_line: Some(last),
    }
}

/// The nearest character boundary at or before `offset`.
fn floor(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// A line (from 1) without its line break, and the offset of its start.
fn raw_line(doc: &Document, number: u32) -> (usize, &str) {
    let lines = doc.lines();
    let len = doc.text.len();
    let from = lines.line_start(number).map_or(len, |s| s as usize);
    let until = lines.line_start(number + 1).map_or(len, |s| s as usize);
    let raw = doc.text.get(from..until).unwrap_or("");
    let raw = raw.strip_suffix('\n').unwrap_or(raw);
    (from, raw.strip_suffix('\r').unwrap_or(raw))
}

/// Maps the characters of one line to the excerpt.
struct RenderedReport {
    /// Pairs of offset in the raw line and offset in the excerpt, ascending.
    map: Vec<(usize, usize)>,
}

impl RenderedReport {
    fn at(&self, raw: usize) -> usize {
        let i = self.map.partition_point(|(from, _)| *from < raw);
        let hit = self.map.get(i).or(self.map.last());
        hit.map_or(0, |(_, to)| *to)
    }
}

/// Appends a line to the excerpt, cut to the frame around `focus`. `line` is its offset in the
/// file.
fn push_line(
    text: &mut String,
    line: usize,
    raw: &str,
    focus: usize,
    limits: LineLimits<'_>,
) -> RenderedReport {
    let fits = raw.len() <= limits.width * 4 && text_width(raw) <= limits.width;
    let from = if fits {
        0
    } else {
        window_start(raw, focus, limits.width / 3)
    };
    let mut map = Vec::new();
    if from > 0 {
        text.push_str(limits.cut);
    }
    let mut used = 0;
    for (i, c) in raw.get(from..).unwrap_or("").char_indices() {
        let at = from + i;
        map.push((at, text.len()));
        if line + at == 0 && c == '\u{feff}' {
            continue;
        }
        used += char_width(c);
        if !fits && used > limits.width {
            text.push_str(limits.cut);
            // Offsets after the cut are mapped to the cut.
            break;
        }
        if is_masked(limits.masks, line + at) {
            text.push('*');
        } else if c != '\t' && is_hidden(c) {
            text.extend(escape_char(c));
        } else {
            text.push(c);
        }
    }
    map.push((raw.len(), text.len()));
    RenderedReport { map }
}

/// The first offset that is at most `lead` columns before `focus`.
fn window_start(raw: &str, focus: usize, lead: usize) -> usize {
    let mut start = floor(raw, focus);
    let mut used = 0;
    for (i, c) in raw.get(..start).unwrap_or("").char_indices().rev() {
        used += char_width(c);
        if used > lead {
            break;
        }
        start = i;
    }
    start
}

fn text_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Approximate width of a character in columns. Good enough for cutting; miette measures exactly.
fn char_width(c: char) -> usize {
    match c {
        '\t' => 4,
        c if is_hidden(c) => escape_char(c).len(),
        c if c >= '\u{1100}' => 2,
        _ => 1,
    }
}

impl SourceCode for Snippet {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let gone = MietteError::OutOfBounds;
        let last_byte = span.offset() + span.len().saturating_sub(1);
        let mut first = self.line_at(span.offset());
        let mut last = self.line_at(last_byte);
        let number = |i: usize| self.lines.get(i).map(|line| line.number);
        let next_to = |a: usize, b: usize| match (number(a), number(b)) {
            (Some(a), Some(b)) => a + 1 == b,
            _ => false,
        };
        // Lines were left out between the two marks, so they cannot be shown as one part.
        if !(first..last).all(|i| next_to(i, i + 1)) {
            return Err(gone);
        }
        for _ in 0..before {
            if first > 0 && next_to(first - 1, first) {
                first -= 1;
            }
        }
        for _ in 0..after {
            if next_to(last, last + 1) {
                last += 1;
            }
        }
        let start = self.lines.get(first).ok_or(MietteError::OutOfBounds)?;
        let end = self
            .lines
            .get(last + 1)
            .map_or(self.text.len(), |l| l.start);
        let data = self
            .text
            .get(start.start..end)
            .ok_or(MietteError::OutOfBounds)?;
        // Without context lines, miette only asks for the position of the mark.
        let origin = self.origins.iter().find(|(at, ..)| *at == span.offset());
        let (line, column) = match origin {
            Some((_, line, column)) if before == 0 && after == 0 => (*line, *column),
            _ => (start.number, 0),
        };
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            data.as_bytes(),
            SourceSpan::from((start.start, data.len())),
            line,
            column,
            last - first + 1,
        )))
    }
}
