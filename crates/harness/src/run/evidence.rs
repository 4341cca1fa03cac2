//! Lines of a transcript as evidence: in the order of the wire, long ones shortened around what
//! is wrong in them.

use std::ops::Range;

use crate::model::Evidence;
use agentproto_text::excerpt::shorten;
use agentproto_text::plain;
use agentproto_wire::{Direction, Line, Transcript, span};

/// Evidence is for reading: so many lines, of so many characters.
const MOST_LINES: usize = 6;
const LONGEST: usize = 1500;
/// A row that passed needs less.
const LONGEST_PASSED: usize = 300;
/// Larger lines are not searched for the place of a fault.
const LARGEST: usize = 4 << 20;

/// Lines that prove a fault; `at` is the JSON Pointer of it in one of them.
pub fn proof(transcript: &Transcript, lines: &[u64], at: Option<&str>) -> Vec<Evidence> {
    let lines = chosen(transcript, lines);
    // The whole message is no place in it.
    let at = at.filter(|at| !at.is_empty());
    let marked = at.and_then(|at| Some((at, place(&lines, at)?)));
    let mut quoted: Vec<Evidence> = Vec::new();
    for line in &lines {
        let here = marked
            .as_ref()
            .filter(|(_, (number, _))| *number == line.number);
        let mark = here.map(|(_, (_, span))| span.clone());
        let mut evidence = quote(line, mark, LONGEST);
        evidence.pointer = here.map(|(at, _)| (*at).to_owned());
        quoted.push(evidence);
    }
    quoted.sort_by_key(|evidence| evidence.line);
    quoted
}

/// Lines that show what happened where nothing is wrong.
pub fn glimpse(transcript: &Transcript, lines: &[u64]) -> Vec<Evidence> {
    let lines = chosen(transcript, lines);
    let mut quoted: Vec<_> = lines
        .iter()
        .map(|l| quote(l, None, LONGEST_PASSED))
        .collect();
    quoted.sort_by_key(|evidence| evidence.line);
    quoted
}

/// Where there are too many, what is named first and what is named last: the fault, and how it
/// came to it.
fn chosen(transcript: &Transcript, lines: &[u64]) -> Vec<Line> {
    let mut numbers: Vec<u64> = Vec::new();
    for number in lines {
        if !numbers.contains(number) {
            numbers.push(*number);
        }
    }
    if numbers.len() > MOST_LINES {
        let half = MOST_LINES / 2;
        let rest = numbers.len() - (MOST_LINES - half);
        numbers.drain(half..rest);
    }
    let found = numbers.iter().filter_map(|number| transcript.line(*number));
    found.collect()
}

/// The line of the agent in which the pointer leads to something, and the bytes of that. Where it
/// leads nowhere, the line that comes first, and what the missing part should stand in.
fn place(lines: &[Line], at: &str) -> Option<(u64, Range<usize>)> {
    let mut nearest = None;
    for line in lines {
        if line.direction != Direction::FromAgent || line.bytes.len() > LARGEST {
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

fn quote(line: &Line, mark: Option<Range<usize>>, longest: usize) -> Evidence {
    let text = line.text();
    let characters = |to: usize| text.get(..to).map_or(0, |before| before.chars().count());
    // The whole line needs no mark.
    let mark = mark.filter(|mark| mark.len() < text.len());
    let mark = mark.map(|mark| characters(mark.start)..characters(mark.end));
    let (mut short, mark) = shorten(&text, mark, longest);
    if let Some(length) = line.cut {
        short.push_str(&format!("… ({length} bytes in all)"));
    }
    // What cannot be printed takes more room when it is shown; the mark moves along.
    let shown = |from: usize, to: usize| {
        let part: String = short.chars().skip(from).take(to - from).collect();
        plain(&part).chars().count()
    };
    let mark = mark.map(|mark| {
        let start = shown(0, mark.start);
        (start, start + shown(mark.start, mark.end))
    });
    Evidence {
        direction: line.direction.as_str().to_owned(),
        line: line.number,
        text: plain(&short).into_owned(),
        pointer: None,
        mark,
        at_ms: (line.at.as_secs_f64() * 1_000_000.0).round() / 1000.0,
    }
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
    fn lines_stand_in_the_order_of_the_wire_with_the_fault_marked() {
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
        // The fault first, as monitors name it.
        let shown = proof(&transcript, &[4, 2, 3, 4], Some("/result/stopReason"));
        let lines: Vec<u64> = shown.iter().map(|e| e.line).collect();
        assert_eq!(lines, [2, 3, 4]);
        assert_eq!(marked(&shown[2]), r#""do\u001bne""#);
        assert_eq!(shown[2].pointer.as_deref(), Some("/result/stopReason"));
        assert!(shown[2].text.contains("characters]…"), "{}", shown[2].text);
        assert!(shown[0].mark.is_none() && shown[1].pointer.is_none());
    }

    #[test]
    fn what_is_missing_marks_what_it_should_stand_in() {
        let transcript = transcript(&[(Direction::FromAgent, r#"{"id":1,"result":{"a":1}}"#)]);
        let shown = proof(&transcript, &[2], Some("/result/sessionId"));
        assert_eq!(marked(&shown[0]), r#"{"a":1}"#);
        let shown = proof(&transcript, &[2], Some("/error"));
        assert!(shown[0].mark.is_none(), "the whole line is no place in it");
        assert_eq!(shown[0].pointer.as_deref(), Some("/error"));
    }

    #[test]
    fn of_many_lines_the_first_and_last_named_are_kept() {
        let all: Vec<_> = (0..20).map(|_| (Direction::FromAgent, "{}")).collect();
        let transcript = transcript(&all);
        let named: Vec<u64> = std::iter::once(15).chain(2..12).collect();
        let shown = proof(&transcript, &named, None);
        let lines: Vec<u64> = shown.iter().map(|e| e.line).collect();
        assert_eq!(lines, [2, 3, 9, 10, 11, 15]);
    }
}
