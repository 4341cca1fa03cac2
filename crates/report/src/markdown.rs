//! Escapes untrusted text for Markdown and the HTML in it, so that it contains no links, mentions or
//! markup, except for code between single backticks.

use agentproto_text::escape_line;

use crate::words::escape_html;

/// Escapes untrusted text for a paragraph.
pub fn inline(text: &str) -> String {
    let put = |c: char, out: &mut String| {
        match c {
            '&' | '<' | '>' => return out.push_str(&escape_html(&c.to_string())),
            c if is_markup(c) => out.push('\\'),
            _ => {}
        }
        out.push(c);
    };
    let text = escape_line(text);
    let parts = split_code(&text).into_iter();
    let parts = parts.map(|(is_code, part)| match is_code {
        true => format!("`{part}`"),
        false => guarded(part, put),
    });
    parts.collect()
}

/// Escapes untrusted text for an HTML block, where a backslash does not escape.
pub fn in_html(text: &str) -> String {
    let put = |c: char, out: &mut String| match c {
        c if is_markup(c) => out.push_str(&format!("&#{};", u32::from(c))),
        c => out.push_str(&escape_html(&c.to_string())),
    };
    let text = escape_line(text);
    let parts = split_code(&text).into_iter();
    let parts = parts.map(|(is_code, part)| match is_code {
        true => format!("<code>{}</code>", guarded(part, put)),
        false => guarded(part, put),
    });
    parts.collect()
}

/// Splits text into prose (false) and code (true). Code is what is between two single backticks, if
/// it contains nothing that could be a tag, a link, a mention or the border of a table cell.
fn split_code(text: &str) -> Vec<(bool, &str)> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut from = 0;
    while let Some((open, run)) = next_backticks(text, from) {
        from = open + run;
        if run != 1 {
            continue;
        }
        let Some((close, 1)) = next_backticks(text, from) else {
            continue;
        };
        let inner = text.get(from..close).unwrap_or_default();
        if is_plain_code(inner) {
            parts.push((false, text.get(start..open).unwrap_or_default()));
            parts.push((true, inner));
            start = close + 1;
        }
        from = close + 1;
    }
    parts.push((false, text.get(start..).unwrap_or_default()));
    parts
}

/// Position and length of the next run of backticks.
fn next_backticks(text: &str, from: usize) -> Option<(usize, usize)> {
    let rest = text.get(from..)?;
    let at = rest.find('`')?;
    let run = rest.get(at..)?.bytes().take_while(|b| *b == b'`').count();
    Some((from + at, run))
}

fn is_plain_code(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    !text.trim().is_empty()
        && !text.contains(['<', '>', '&', '@', '|', '\\'])
        && !lower.contains("://")
        && !lower.contains("www.")
}

fn is_markup(c: char) -> bool {
    "\\`*_[]|~$".contains(c)
}

/// An empty HTML comment. Code hosts turn addresses, names and numbers in rendered text into
/// links, and a comment between two characters prevents that.
const SPLIT: &str = "<!-- -->";

fn guarded(text: &str, put: impl Fn(char, &mut String)) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut before = ['\0'; 3];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        put(c, &mut out);
        let next = chars.peek().copied();
        let splits = match c {
            '@' => next.is_some(),
            '#' => next.is_some_and(char::is_alphanumeric),
            ':' => next == Some('/'),
            '.' => before.map(|c| c.to_ascii_lowercase()) == ['w'; 3],
            _ => false,
        };
        if splits {
            out.push_str(SPLIT);
        }
        before = [before[1], before[2], c];
    }
    out
}

/// Formats text as a code span, with more backticks than any run in the text.
pub fn code(text: &str) -> String {
    let text = escape_line(text);
    let text = match text.trim() {
        "" => "unnamed agent",
        text => text,
    };
    let ticks = "`".repeat(longest_run(text) + 1);
    // Nothing but its backticks ends a code span, even inside a table. Blanks keep backticks of the
    // text apart from them.
    match text.starts_with('`') || text.ends_with('`') {
        true => format!("{ticks} {text} {ticks}"),
        false => format!("{ticks}{text}{ticks}"),
    }
}

/// Formats text as a code block. Its fence has one backtick more than the longest run in the
/// text, and at least three.
pub fn block(language: &str, text: &str) -> String {
    let fence = "`".repeat((longest_run(text) + 1).max(3));
    format!("{fence}{language}\n{text}\n{fence}")
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|c| c != '`').map(str::len);
    runs.max().unwrap_or(0)
}

/// Removes all characters from an address that could end the brackets around it.
pub fn address_of(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#@!$&*+,;=%".contains(c);
    text.chars().filter(|c| safe(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_stays_text() {
        assert_eq!(inline("a*b_[x](y)"), r"a\*b\_\[x\](y)");
        assert_eq!(inline("@me #12"), "@<!-- -->me #<!-- -->12");
        assert_eq!(inline("https://x.y"), "https:<!-- -->//x.y");
        assert_eq!(inline("WWW.x.y"), "WWW.<!-- -->x.y");
        assert_eq!(inline("end. <b>"), "end. &lt;b&gt;");
        assert_eq!(in_html("#1 <'>["), "#<!-- -->1 &lt;&#39;&gt;&#91;");
    }

    #[test]
    fn text_in_backticks_is_code() {
        assert_eq!(inline("`a_b` is \"x\""), "`a_b` is \"x\"");
        assert_eq!(inline("a ` b"), r"a \` b");
        assert_eq!(inline("``a`` `b`"), r"\`\`a\`\` `b`");
        assert_eq!(inline("`<b>` `c`"), r"\`&lt;b&gt;\` `c`");
        assert_eq!(inline("`a|b`"), r"\`a\|b\`");
        assert_eq!(in_html("`a_b` c"), "<code>a&#95;b</code> c");
    }

    #[test]
    fn fences_are_longer_than_the_backticks_inside() {
        assert_eq!(code("a ``` b"), "````a ``` b````");
        assert_eq!(code("`a`"), "`` `a` ``");
        assert_eq!(block("yaml", "a `b` c"), "```yaml\na `b` c\n```");
        assert_eq!(block("", "x\n````"), "`````\nx\n````\n`````");
    }

    #[test]
    fn addresses_stay_in_their_brackets() {
        assert_eq!(address_of("a b)c<d>\n\"e\""), "abcde");
    }
}
