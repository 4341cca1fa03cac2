//! Breaks prose into lines.

/// Breaks text into lines of at most `width` columns, at spaces outside backticks. A word or a code
/// span that is longer than a line gets a line of its own. The first line has `used` columns less.
/// Line breaks in the text are kept.
pub fn wrap(text: &str, width: usize, used: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left = width.saturating_sub(used);
    for paragraph in text.lines() {
        let mut line = String::new();
        let mut columns = 0;
        for word in words(paragraph) {
            let size = word.chars().map(char_width).sum::<usize>();
            if columns > 0 && columns + 1 + size > left {
                lines.push(std::mem::take(&mut line));
                left = width;
                columns = 0;
            }
            if columns > 0 {
                line.push(' ');
                columns += 1;
            }
            line.push_str(word);
            columns += size;
        }
        lines.push(line);
        left = width;
    }
    lines
}

/// Breaks the paragraphs and list items of Markdown into lines of at most `width` columns. Headings,
/// tables and code blocks are not changed.
pub fn wrap_markdown(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fenced = false;
    for line in text.lines() {
        let is_fence = line.starts_with("```");
        fenced ^= is_fence;
        let fixed = fenced || is_fence || line.starts_with(['#', '|', ' ', '<']);
        let indent = if line.starts_with("- ") { "  " } else { "" };
        if fixed || line.is_empty() {
            out.push_str(line);
        } else {
            let lines = wrap(line, width.saturating_sub(indent.len()), 0);
            out.push_str(&lines.join(&format!("\n{indent}")));
        }
        out.push('\n');
    }
    out
}

/// Splits at whitespace, except between two backticks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    let mut rest = text;
    let parts = text.split(move |c: char| {
        if c == '`' {
            // A backtick without a partner does not start a code span.
            code = !code
                && rest
                    .split_once('`')
                    .is_some_and(|(_, tail)| tail.contains('`'));
            rest = rest.split_once('`').map_or("", |(_, tail)| tail);
        }
        c.is_whitespace() && !code
    });
    parts.filter(|word| !word.is_empty())
}

/// Number of columns of a character, approximately.
fn char_width(c: char) -> usize {
    if c >= '\u{1100}' && !('\u{2000}'..'\u{2e80}').contains(&c) {
        2
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_outside_backticks() {
        assert_eq!(wrap("one two three", 8, 0), ["one two", "three"]);
        assert_eq!(wrap("one two three", 8, 4), ["one", "two", "three"]);
        assert_eq!(wrap("use `a b c d` now", 8, 0), ["use", "`a b c d`", "now"]);
        assert_eq!(wrap("it`s a b c d", 6, 0), ["it`s a", "b c d"]);
        assert_eq!(wrap("`a b` `c d", 5, 0), ["`a b`", "`c d"]);
        assert_eq!(wrap("a\nb  c", 80, 0), ["a", "b c"]);
        assert_eq!(wrap("muchtoolong x", 4, 0), ["muchtoolong", "x"]);
        assert_eq!(wrap("漢字 漢字", 8, 0), ["漢字", "漢字"]);
        assert!(wrap("", 8, 0).is_empty());
    }

    #[test]
    fn only_prose_is_wrapped_in_markdown() {
        let page = "# a long heading\n\none two three\n\n- four five six\n\n```yaml\na: b c d e f\n```\n| a | b c d |\n    code of a kind\n";
        assert_eq!(
            wrap_markdown(page, 9),
            "# a long heading\n\none two\nthree\n\n- four\n  five\n  six\n\n```yaml\na: b c d e f\n```\n| a | b c d |\n    code of a kind\n"
        );
        assert_eq!(wrap_markdown(page, 80), page);
    }
}
