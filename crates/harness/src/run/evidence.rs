//! Quotes lines of a transcript as evidence: in wire order, and with long lines shortened around
//! the error.

use std::ops::Range;

use crate::model::Evidence;
use agentproto_text::escape_line;
use agentproto_text::excerpt::shorten;
use agentproto_wire::{Direction, Line, Transcript, span};

/// Maximum number of evidence lines.
const MAX_LINES: usize = 6;
/// Maximum number of lines that are searched for the position of an error.
const MAX_SEARCHED_LINES: usize = 200;
/// Maximum number of characters per evidence line.
const MAX_CHARS: usize = 1500;
/// Maximum number of characters per evidence line of a row that passed.
const MAX_CHARS_PASSED: usize = 300;
/// Maximum size in bytes of a line that is searched for the position of an error.
const MAX_SEARCHED_BYTES: usize = 4 << 20;

/// Quotes the lines that prove a violation. `at` is the JSON Pointer to the error in one of them.
pub fn quote_lines(transcript: &Transcript, lines: &[u64], at: Option<&str>) -> Vec<Evidence> {
    // An empty pointer means the whole message and needs no mark.
    let at = at.filter(|at| !at.is_empty());
    let marked = at.and_then(|at| {
        let searched = lines.iter().take(MAX_SEARCHED_LINES);
        let searched: Vec<Line> = searched.filter_map(|n| transcript.line(*n)).collect();
        Some((at, locate(&searched, at)?))
    });
    let proof = marked.as_ref().map(|(_, (line, _))| *line);
    let lines = select_lines(transcript, lines, proof);
    let mut quoted: Vec<Evidence> = Vec::new();
    for line in &lines {
        let here = marked
            .as_ref()
            .filter(|(_, (number, _))| *number == line.number);
        let mark = here.map(|(_, (_, span))| span.clone());
        let mut evidence = quote_line(line, mark, MAX_CHARS);
        evidence.pointer = here.map(|(at, _)| (*at).to_owned());
        quoted.push(evidence);
    }
    quoted.sort_by_key(|evidence| evidence.line);
    quoted
}

/// Quotes lines that show what happened if nothing is wrong.
pub fn quote_passed(transcript: &Transcript, lines: &[u64]) -> Vec<Evidence> {
    let lines = select_lines(transcript, lines, None);
    let mut quoted: Vec<_> = lines
        .iter()
        .map(|l| quote_line(l, None, MAX_CHARS_PASSED))
        .collect();
    quoted.sort_by_key(|evidence| evidence.line);
    quoted
}

/// Selects lines. If there are too many, keeps the first and the last of the list: the error, and
/// what led to it. The line that contains the error is always kept.
fn select_lines(transcript: &Transcript, lines: &[u64], proof: Option<u64>) -> Vec<Line> {
    let mut numbers: Vec<u64> = Vec::new();
    for number in lines {
        if !numbers.contains(number) {
            numbers.push(*number);
        }
    }
    if numbers.len() > MAX_LINES {
        let half = MAX_LINES / 2;
        let rest = numbers.len() - (MAX_LINES - half);
        numbers.drain(half..rest);
        if let Some(proof) = proof.filter(|proof| !numbers.contains(proof))
            && let Some(middle) = numbers.get_mut(half)
        {
            *middle = proof;
        }
    }
    let found = numbers.iter().filter_map(|number| transcript.line(*number));
    found.collect()
}

/// The line of the agent that contains the pointer, and the byte range of its value. If no line
/// contains it, the first line, and the range of the closest parent.
fn locate(lines: &[Line], at: &str) -> Option<(u64, Range<usize>)> {
    let mut nearest = None;
    for line in lines {
        if line.direction != Direction::FromAgent || line.bytes.len() > MAX_SEARCHED_BYTES {
            continue;
        }
        let Ok(text) = std::str::from_utf8(&line.bytes) else {
            continue;
        };
        match span::of(text, at) {
            Some((span, true)) => return Some((line.number, span)),
            Some((span, false)) if nearest.is_none() => nearest = Some((line.number, span)),
            _ => {}
        }
    }
    nearest
}

fn quote_line(line: &Line, mark: Option<Range<usize>>, longest: usize) -> Evidence {
    let text = readable(&line.bytes);
    let characters = |to: usize| text.get(..to).map_or(0, |before| before.chars().count());
    // A mark over the whole line is useless.
    let mark = mark.filter(|mark| mark.len() < text.len());
    let mark = mark.map(|mark| characters(mark.start)..characters(mark.end));
    let (mut short, mark) = shorten(&text, mark, longest);
    if let Some(length) = line.cut {
        short.push_str(&format!("… ({length} bytes in total)"));
    }
    // Escaped characters take more space, so the mark moves.
    let shown = |from: usize, to: usize| {
        let part: String = short.chars().skip(from).take(to - from).collect();
        escape_line(&part).chars().count()
    };
    let mark = mark.map(|mark| {
        let start = shown(0, mark.start);
        (start, start + shown(mark.start, mark.end))
    });
    Evidence {
        direction: line.direction.as_str().to_owned(),
        line: line.number,
        text: escape_line(&short).into_owned(),
        pointer: None,
        mark,
        at_ms: (line.at.as_secs_f64() * 1_000_000.0).round() / 1000.0,
    }
}

/// The bytes as text. Bytes that are not valid UTF-8 become `\xNN`, so that a reader sees them.
fn readable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn transcript(lines: &[(Direction, &str)]) -> Transcript {
        let mut transcript = Transcript::new();
        for (direction, text) in lines {
            transcript.push(*direction, Duration::ZERO, text.as_bytes(), true, None);
        }
        transcript
    }

    fn marked(evidence: &Evidence) -> String {
        let (from, to) = evidence.mark.expect("a mark");
        evidence.text.chars().skip(from).take(to - from).collect()
    }

    #[test]
    fn lines_are_in_wire_order_with_the_error_marked() {
        let long = format!(
            r#"{{"id":3,"pad":"{}","result":{{"stopReason":"do\u001bne"}}}}"#,
            "\u{1b}é".repeat(4000)
        );
        let transcript = transcript(&[
            (
                Direction::ToAgent,
                r#"{"id":3,"result":{"stopReason":"not this"}}"#,
            ),
            (Direction::FromAgent, r#"{"method":"session/update"}"#),
            (Direction::FromAgent, &long),
        ]);
        // Monitors name the line with the error first.
        let shown = quote_lines(&transcript, &[4, 2, 3, 4], Some("/result/stopReason"));
        let lines: Vec<u64> = shown.iter().map(|e| e.line).collect();
        assert_eq!(lines, [2, 3, 4]);
        assert_eq!(marked(&shown[2]), r#""do\u001bne""#);
        assert_eq!(shown[2].pointer.as_deref(), Some("/result/stopReason"));
        assert!(shown[2].text.contains("characters]…"), "{}", shown[2].text);
        assert!(shown[0].mark.is_none() && shown[1].pointer.is_none());
    }

    #[test]
    fn the_line_with_the_error_is_always_kept() {
        let plain = (Direction::FromAgent, r#"{"result":{}}"#);
        let mut all = vec![plain; 20];
        all[9] = (Direction::FromAgent, r#"{"result":{"stopReason":"done"}}"#);
        let transcript = transcript(&all);
        let named: Vec<u64> = (2..20).collect();
        let shown = quote_lines(&transcript, &named, Some("/result/stopReason"));
        assert_eq!(shown.len(), MAX_LINES);
        let proof = shown.iter().find(|line| line.pointer.is_some());
        assert_eq!(marked(proof.expect("the line")), r#""done""#);
    }

    #[test]
    fn invalid_bytes_are_shown() {
        assert_eq!(readable(b"caf\xe9 \xff!"), r"caf\xE9 \xFF!");
        assert_eq!(readable("café".as_bytes()), "café");
    }

    #[test]
    fn a_missing_member_marks_its_parent() {
        let transcript = transcript(&[(Direction::FromAgent, r#"{"id":1,"result":{"a":1}}"#)]);
        let shown = quote_lines(&transcript, &[2], Some("/result/sessionId"));
        assert_eq!(marked(&shown[0]), r#"{"a":1}"#);
        let shown = quote_lines(&transcript, &[2], Some("/error"));
        assert!(shown[0].mark.is_none(), "the whole line is not marked");
        assert_eq!(shown[0].pointer.as_deref(), Some("/error"));
    }

    #[test]
    fn the_first_and_last_of_many_lines_are_kept() {
        let all: Vec<_> = (0..20).map(|_| (Direction::FromAgent, "{}")).collect();
        let transcript = transcript(&all);
        let named: Vec<u64> = std::iter::once(15).chain(2..12).collect();
        let shown = quote_lines(&transcript, &named, None);
        let lines: Vec<u64> = shown.iter().map(|e| e.line).collect();
        assert_eq!(lines, [2, 3, 9, 10, 11, 15]);
    }
}
