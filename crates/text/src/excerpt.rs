//! Shortens a long line to its start, its end, and a marked part in between.

use std::ops::Range;

/// Shortens a text to about `most` characters. The marked range stays visible as far as it fits.
/// Each gap shows how many characters were left out. Returns the text and the new range of the
/// mark. Ranges count characters.
pub fn shorten(
    text: &str,
    mark: Option<Range<usize>>,
    most: usize,
) -> (String, Option<Range<usize>>) {
    let chars: Vec<char> = text.chars().collect();
    let mark = mark.filter(|mark| mark.start <= mark.end && mark.end <= chars.len());
    if chars.len() <= most {
        return (text.to_owned(), mark);
    }
    let mut short = String::new();
    let (mut length, mut from, mut moved) = (0, 0, None::<Range<usize>>);
    for kept in kept(chars.len(), mark.as_ref(), most) {
        if kept.start > from {
            let gap = format!(" …[{} characters]… ", kept.start - from);
            length += gap.chars().count();
            short.push_str(&gap);
        }
        if let Some(mark) = &mark {
            let seen = mark.start.max(kept.start)..mark.end.min(kept.end);
            if seen.start < seen.end {
                let now = length + seen.start - kept.start..length + seen.end - kept.start;
                moved = Some(moved.map_or(now.clone(), |before| before.start..now.end));
            }
        }
        short.extend(chars.get(kept.clone()).unwrap_or_default());
        length += kept.len();
        from = kept.end;
    }
    (short, moved)
}

/// Minimum size of a gap in characters. A smaller gap would be shorter than its own label.
const MIN_GAP: usize = 24;

fn kept(length: usize, mark: Option<&Range<usize>>, most: usize) -> Vec<Range<usize>> {
    let Some(mark) = mark else {
        let head = most * 2 / 3;
        return vec![0..head, length - (most - head)..length];
    };
    // Use a third of the space for the start, half for the mark, and the rest for the end.
    let (head, window) = (most / 3, most / 2);
    let tail = most - head - window;
    let around = window.saturating_sub(mark.len()) / 2;
    let start = mark.start.saturating_sub(around.max(window / 8));
    let pieces = [
        0..head,
        start..(start + window).min(length),
        length - tail..length,
    ];
    let mut joined: Vec<Range<usize>> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if piece.start <= last.end + MIN_GAP => last.end = last.end.max(piece.end),
            _ => joined.push(piece),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str, mark: Range<usize>, most: usize) -> (String, String) {
        let (short, mark) = shorten(text, Some(mark), most);
        let mark = mark.expect("the mark is still visible");
        let seen = short.chars().skip(mark.start).take(mark.len()).collect();
        (short, seen)
    }

    #[test]
    fn short_texts_are_unchanged() {
        assert_eq!(shorten("ab", Some(1..2), 2), ("ab".into(), Some(1..2)));
        assert_eq!(shorten("", None, 0), (String::new(), None));
        assert_eq!(shorten("ab", Some(1..9), 5), ("ab".into(), None));
    }

    #[test]
    fn without_a_mark_the_middle_is_left_out() {
        let text = format!("{}{}{}", "a".repeat(60), "b".repeat(500), "c".repeat(30));
        let (short, _) = shorten(&text, None, 90);
        assert_eq!(
            short,
            format!("{} …[500 characters]… {}", "a".repeat(60), "c".repeat(30))
        );
    }

    #[test]
    fn the_marked_range_stays_visible() {
        let text: String = ('a'..='z').cycle().take(1000).collect();
        for start in [0, 1, 50, 300, 500, 900, 990] {
            let expected: String = text.chars().skip(start).take(10).collect();
            let (short, seen) = marked(&text, start..start + 10, 120);
            assert_eq!(seen, expected, "{start}: {short}");
            assert!(short.chars().count() < 120 + 2 * MIN_GAP, "{short}");
            assert!(
                short.starts_with("abc") && short.ends_with("jkl"),
                "{short}"
            );
        }
    }

    #[test]
    fn a_long_mark_shows_its_start() {
        let text = format!("{}{}", "é".repeat(500), "x".repeat(500));
        let (short, seen) = marked(&text, 500..1000, 100);
        assert!(seen.starts_with("xxxx"), "{short}");
        assert!(short.contains("éx"), "{short}");
    }
}
