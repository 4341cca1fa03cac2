//! Escapes untrusted text for Markdown and the HTML in it, so that it contains no markup, links
//! or mentions.

use agentproto_text::plain;

use crate::words::escape;

/// Escapes untrusted text for a paragraph.
pub fn inline(text: &str) -> String {
    guarded(text, |c, out| {
        match c {
            '&' | '<' | '>' | '"' | '\'' => return out.push_str(&escape(&c.to_string())),
            c if is_markup(c) => out.push('\\'),
            _ => {}
        }
        out.push(c);
    })
}

/// Escapes untrusted text for an HTML block, where a backslash does not escape.
pub fn in_html(text: &str) -> String {
    guarded(text, |c, out| match c {
        c if is_markup(c) => out.push_str(&format!("&#{};", u32::from(c))),
        c => out.push_str(&escape(&c.to_string())),
    })
}

fn is_markup(c: char) -> bool {
    "\\`*_[]|~$".contains(c)
}

/// An empty HTML comment. Code hosts turn addresses, names and numbers in rendered text into
/// links, and a comment between two characters prevents that.
const SPLIT: &str = "<!-- -->";

fn guarded(text: &str, put: impl Fn(char, &mut String)) -> String {
    let text = plain(text);
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
    let text = plain(text);
    let text = match text.trim() {
        "" => "unnamed agent",
        text => text,
    };
    let ticks = "`".repeat(longest_run(text) + 1);
    // Nothing but its backticks ends a code span, even inside a table.
    format!("{ticks} {text} {ticks}")
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
    fn fences_are_longer_than_the_backticks_inside() {
        assert_eq!(code("a ``` b"), "```` a ``` b ````");
        assert_eq!(block("yaml", "a `b` c"), "```yaml\na `b` c\n```");
        assert_eq!(block("", "x\n````"), "`````\nx\n````\n`````");
    }

    #[test]
    fn addresses_stay_in_their_brackets() {
        assert_eq!(address_of("a b)c<d>\n\"e\""), "abcde");
    }
}
