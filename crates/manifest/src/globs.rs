//! Path globs as sandbox lists use them: `*`, `**`, `?`, `[a-z]`, `{a,b}`.
//!
//! `*` and `?` match within one path segment. `**` as a whole segment matches zero or more
//! segments, so `~/.config/x/**` also matches the directory itself. Names that begin with a dot
//! are not special. A leading `$HOME` or `${HOME}` is the same as `~`.

use std::borrow::Cow;
use std::collections::VecDeque;

/// Maximum length of a glob in bytes. Longer globs are invalid, because no path is that long.
const MAX_LENGTH: usize = 1024;
/// Maximum number of alternatives after brace expansion. A glob with more is invalid.
const MAX_ALTERNATIVES: usize = 64;
/// Maximum number of token comparisons per query. Beyond it the answer is no.
const MAX_COMPARISONS: usize = 1 << 22;

/// Whether a glob is valid: brackets and braces are closed, and ranges ascend.
pub fn is_valid(glob: &str) -> bool {
    parse(glob).is_some()
}

/// Whether a glob matches a path. An invalid glob matches nothing.
pub fn matches(glob: &str, path: &str) -> bool {
    let (glob, path) = (home(glob), home(path));
    if let Some(answer) = quick(&glob, &path) {
        return answer;
    }
    let segments = split(&path)
        .map(|s| Segment::Tokens(s.chars().map(Token::Char).collect()))
        .collect();
    parse(&glob).is_some_and(|alternatives| alternatives.contain(&[segments]))
}

/// Whether a glob matches every path that `other` matches. If unsure, the answer is no.
pub fn covers(glob: &str, other: &str) -> bool {
    let (glob, other) = (home(glob), home(other));
    if !has_wildcard(&other)
        && let Some(answer) = quick(&glob, &other)
    {
        return answer;
    }
    match (parse(&glob), parse(&other)) {
        (Some(glob), Some(other)) => glob.contain(&other.0),
        _ => false,
    }
}

/// Whether a text contains a character that is special in a glob.
pub fn has_wildcard(glob: &str) -> bool {
    glob.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

/// Whether a pattern matches everything that `other` matches. `*` is the only special character
/// in both. Case is ignored, because the patterns are host names.
pub fn wildcard_covers(pattern: &str, other: &str) -> bool {
    let (pattern, other) = (pattern.as_bytes(), other.as_bytes());
    let (mut p, mut o) = (0, 0);
    // Where to continue if the last star has to match one more byte.
    let mut retry: Option<(usize, usize)> = None;
    while let Some(byte) = other.get(o) {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, o));
                p += 1;
            }
            Some(own) if *byte != b'*' && own.eq_ignore_ascii_case(byte) => {
                p += 1;
                o += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    p = star + 1;
                    o = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern
        .get(p..)
        .is_some_and(|rest| rest.iter().all(|b| *b == b'*'))
}

/// Replaces a leading `$HOME` or `${HOME}` by `~`.
fn home(path: &str) -> Cow<'_, str> {
    for name in ["${HOME}", "$HOME"] {
        if let Some(rest) = path.strip_prefix(name)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return Cow::Owned(format!("~{rest}"));
        }
    }
    Cow::Borrowed(path)
}

/// Fast path for the two common forms, a plain path and `directory/**`. It does not parse the
/// glob. `None` if the glob has another form.
fn quick(glob: &str, path: &str) -> Option<bool> {
    let needs_parser = |text: &str| {
        let bytes = text.as_bytes();
        let inner = |w: &[u8]| w.starts_with(b"//") || w == b"/./";
        bytes.is_empty()
            || bytes.ends_with(b"//")
            || bytes.ends_with(b"/.")
            || bytes.windows(3).any(inner)
    };
    let path = path.strip_suffix('/').unwrap_or(path);
    let (stem, deep) = match glob.strip_suffix("/**") {
        Some(stem) => (stem, true),
        None => (glob.strip_suffix('/').unwrap_or(glob), false),
    };
    if has_wildcard(stem) {
        return None;
    }
    match path.strip_prefix(stem) {
        Some("") if !stem.is_empty() => Some(true),
        Some(rest) if deep && !stem.is_empty() && rest.starts_with('/') => Some(true),
        // `a/./b` and `a//b` are other spellings of `a/b`, which only the slow path handles.
        _ if needs_parser(stem)
            || needs_parser(path)
            || stem.starts_with("./")
            || path.starts_with("./") =>
        {
            None
        }
        _ => Some(false),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Char(char),
    /// `?`
    One,
    /// `*`
    Any,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

#[derive(Clone, Debug, PartialEq)]
enum Segment {
    /// `**`
    Deep,
    Tokens(Vec<Token>),
}

/// A glob after brace expansion.
struct Alternatives(Vec<Vec<Segment>>);

fn parse(glob: &str) -> Option<Alternatives> {
    let glob = home(glob);
    if glob.is_empty() || glob.len() > MAX_LENGTH || glob.contains('\0') {
        return None;
    }
    let flat = expand(&glob)?;
    let parsed: Option<Vec<_>> = flat.iter().map(|text| segments(text)).collect();
    parsed.map(Alternatives)
}

/// Segments of a path. A leading slash is a separate segment. Empty segments and `.` are skipped.
fn split(path: &str) -> impl Iterator<Item = &str> {
    path.split('/')
        .enumerate()
        .filter(|(i, s)| (*i == 0 && s.is_empty()) || !(s.is_empty() || *s == "."))
        .map(|(_, s)| s)
}

fn segments(text: &str) -> Option<Vec<Segment>> {
    split(text)
        .map(|s| match s {
            "**" => Some(Segment::Deep),
            _ => tokens(s).map(Segment::Tokens),
        })
        .collect()
}

fn tokens(segment: &str) -> Option<Vec<Token>> {
    let mut out = Vec::new();
    let mut chars = segment.chars().peekable();
    while let Some(c) = chars.next() {
        let token = match c {
            '*' => Token::Any,
            '?' => Token::One,
            '\\' => Token::Char(chars.next()?),
            '[' => class(&mut chars)?,
            ']' => return None,
            _ => Token::Char(c),
        };
        // Several stars in a row match the same as one.
        if token != Token::Any || out.last() != Some(&Token::Any) {
            out.push(token);
        }
    }
    Some(out)
}

fn class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Token> {
    let negated = chars.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut ranges = Vec::new();
    loop {
        let first = match chars.next()? {
            // A `]` directly after the `[` is a member of the class, as in every shell.
            ']' if !ranges.is_empty() => break,
            '\\' => chars.next()?,
            c => c,
        };
        let mut ahead = chars.clone();
        let is_range = ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']');
        let last = if is_range {
            chars.next();
            match chars.next()? {
                '\\' => chars.next()?,
                c => c,
            }
        } else {
            first
        };
        if last < first {
            return None;
        }
        ranges.push((first, last));
    }
    Some(Token::Class { negated, ranges })
}

/// Expands braces: `a{b,c}` → `ab`, `ac`. `None` if a brace is not closed.
fn expand(glob: &str) -> Option<Vec<String>> {
    let mut waiting = VecDeque::from([glob.to_owned()]);
    let mut done = Vec::new();
    while let Some(text) = waiting.pop_front() {
        match first_group(&text)? {
            None => done.push(text),
            Some(group) => {
                let (before, after) = (text.get(..group.open)?, text.get(group.close + 1..)?);
                let mut from = group.open + 1;
                for to in group.commas.iter().copied().chain([group.close]) {
                    waiting.push_back(format!("{before}{}{after}", text.get(from..to)?));
                    from = to + 1;
                }
            }
        }
        if waiting.len() + done.len() > MAX_ALTERNATIVES {
            return None;
        }
    }
    Some(done)
}

struct Group {
    open: usize,
    close: usize,
    commas: Vec<usize>,
}

/// The first outermost `{…}`, if there is one. The outer `None` means that brackets or braces do
/// not match.
fn first_group(text: &str) -> Option<Option<Group>> {
    let mut depth = 0usize;
    let mut open = 0;
    let mut commas = Vec::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next()?;
            }
            '[' => {
                let inside = text.get(at + 1..)?;
                let mut rest = inside.chars().peekable();
                class(&mut rest)?;
                let left: usize = rest.map(char::len_utf8).sum();
                let end = at + 1 + inside.len() - left;
                while chars.offset() < end {
                    chars.next();
                }
            }
            '{' => {
                if depth == 0 {
                    open = at;
                }
                depth += 1;
            }
            ',' if depth == 1 => commas.push(at),
            '}' if depth == 1 => {
                return Some(Some(Group {
                    open,
                    close: at,
                    commas,
                }));
            }
            '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    (depth == 0).then_some(None)
}

impl Alternatives {
    /// Whether each of `others` is contained in one of these alternatives.
    fn contain(&self, others: &[Vec<Segment>]) -> bool {
        if weight(&self.0) * weight(others) > MAX_COMPARISONS {
            return false;
        }
        others.iter().all(|other| {
            self.0.iter().any(|own| {
                contains(
                    own,
                    other,
                    |s| *s == Segment::Deep,
                    |own, other| match (own, other) {
                        (Segment::Tokens(own), Segment::Tokens(other)) => {
                            contains(own, other, |t| *t == Token::Any, covers_token)
                        }
                        _ => false,
                    },
                )
            })
        })
    }
}

fn weight(alternatives: &[Vec<Segment>]) -> usize {
    let of = |segment: &Segment| match segment {
        Segment::Deep => 1,
        Segment::Tokens(tokens) => tokens.len() + 1,
    };
    alternatives.iter().flatten().map(of).sum()
}

/// Whether `own` matches everything that `other` matches, for sequences of segments or of
/// characters. `is_any` identifies the element that matches any number of elements, and `covers`
/// compares two other elements. Only such an any-element contains an any-element of `other`.
fn contains<T>(
    own: &[T],
    other: &[T],
    is_any: impl Fn(&T) -> bool,
    covers: impl Fn(&T, &T) -> bool,
) -> bool {
    // row[j]: the elements of `own` seen so far contain the first j of `other`.
    let mut row = vec![false; other.len() + 1];
    row[0] = true;
    for element in own {
        let mut next = vec![false; other.len() + 1];
        for j in 0..=other.len() {
            next[j] = if is_any(element) {
                row[j] || (j > 0 && next[j - 1])
            } else {
                j > 0 && row[j - 1] && !is_any(&other[j - 1]) && covers(element, &other[j - 1])
            };
        }
        row = next;
    }
    row.last().copied().unwrap_or(false)
}

/// Whether a single-character token matches everything that another one matches.
fn covers_token(own: &Token, other: &Token) -> bool {
    match (own, other) {
        (Token::One, _) => true,
        (Token::Char(a), Token::Char(b)) => a == b,
        (Token::Class { negated, ranges }, Token::Char(c)) => {
            ranges.iter().any(|(from, to)| from <= c && c <= to) != *negated
        }
        (
            Token::Class {
                negated: false,
                ranges,
            },
            Token::Class {
                negated: false,
                ranges: inner,
            },
        ) => inner
            .iter()
            .all(|(a, b)| ranges.iter().any(|(from, to)| from <= a && b <= to)),
        (own, other) => own == other,
    }
}

/// The directory that a glob is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobAnchor {
    /// `/`.
    Root,
    /// The home directory.
    Home,
    /// The working directory.
    WorkingDir,
}

/// One alternative of a glob, as segments below its anchor. Unlike `matches`, it works while a
/// directory is walked, so that directories in which nothing can match are skipped.
#[derive(Clone, Debug)]
pub struct GlobPattern {
    segments: Vec<Segment>,
}

/// State of a pattern after some segments of a path: the possible positions in its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobProgress(Vec<usize>);

impl GlobProgress {
    /// Whether nothing below the current path can match.
    pub fn is_dead(&self) -> bool {
        self.0.is_empty()
    }
}

impl GlobPattern {
    /// The alternatives of a glob, or `None` if it is invalid.
    pub fn alternatives(glob: &str) -> Option<Vec<(GlobAnchor, GlobPattern)>> {
        if glob.is_empty() || glob.len() > MAX_LENGTH || glob.contains('\0') {
            return None;
        }
        let read = |text: &String| {
            let text = home(text);
            let (anchor, rest) = match text.strip_prefix('~') {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => (GlobAnchor::Home, rest),
                _ if text.starts_with('/') => (GlobAnchor::Root, &*text),
                _ => (GlobAnchor::WorkingDir, &*text),
            };
            let segments = match rest.trim_start_matches('/') {
                "" => Vec::new(),
                rest => segments(rest)?,
            };
            Some((anchor, GlobPattern { segments }))
        };
        expand(glob)?.iter().map(read).collect()
    }

    /// Splits off the leading segments that are plain names.
    pub fn split_literal(mut self) -> (Vec<String>, GlobPattern) {
        let names: Vec<String> = self.segments.iter().map_while(literal).collect();
        self.segments.drain(..names.len());
        (names, self)
    }

    /// Whether no segments are left, because the pattern was a plain path.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether the pattern is `**` or `**/*`, which match everything below.
    pub fn is_everything(&self) -> bool {
        let any = [Token::Any];
        let deep = |s: &Segment| *s == Segment::Deep;
        match self.segments.split_last() {
            Some((Segment::Deep, before)) => before.iter().all(deep),
            Some((Segment::Tokens(t), before)) => {
                t[..] == any && !before.is_empty() && before.iter().all(deep)
            }
            None => false,
        }
    }

    /// Whether a segment is the plain name `..`.
    pub fn goes_up(&self) -> bool {
        self.segments
            .iter()
            .any(|s| literal(s).is_some_and(|name| name == ".."))
    }

    /// State before the first segment.
    pub fn start(&self) -> GlobProgress {
        self.closed(vec![0])
    }

    /// State after one more path segment.
    pub fn step(&self, from: &GlobProgress, name: &str) -> GlobProgress {
        let name: Vec<Token> = name.chars().map(Token::Char).collect();
        let mut next = Vec::new();
        for at in &from.0 {
            match self.segments.get(*at) {
                Some(Segment::Deep) => next.push(*at),
                Some(Segment::Tokens(own))
                    if contains(own, &name, |t| *t == Token::Any, covers_token) =>
                {
                    next.push(at + 1);
                }
                _ => {}
            }
        }
        self.closed(next)
    }

    /// Whether everything below the path walked so far matches, regardless of its name.
    pub fn matches_all_below(&self, progress: &GlobProgress) -> bool {
        let last = self.segments.len().saturating_sub(1);
        self.segments.last() == Some(&Segment::Deep) && progress.0.contains(&last)
    }

    /// Whether the path walked so far matches.
    pub fn accepts(&self, progress: &GlobProgress) -> bool {
        progress.0.contains(&self.segments.len())
    }

    /// Adds the positions after each `**`, because `**` also matches zero segments.
    fn closed(&self, mut states: Vec<usize>) -> GlobProgress {
        let mut i = 0;
        while let Some(at) = states.get(i).copied() {
            if self.segments.get(at) == Some(&Segment::Deep) && !states.contains(&(at + 1)) {
                states.push(at + 1);
            }
            i += 1;
        }
        states.sort_unstable();
        states.dedup();
        GlobProgress(states)
    }
}

/// The name of a segment without special characters, or `None` if it has some.
fn literal(segment: &Segment) -> Option<String> {
    let Segment::Tokens(tokens) = segment else {
        return None;
    };
    tokens
        .iter()
        .map(|t| match t {
            Token::Char(c) => Some(*c),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_and_invalid_globs() {
        for glob in [
            "a",
            "/",
            "**",
            "~/.ssh/**",
            "*.{md,txt}",
            "[a-z]?",
            "[!a]*",
            "[]a]",
            "a{b,{c,d}}e",
            r"\[x\]",
            "{a}",
            "{,a}",
            "[{]x",
            "ä/ö",
            "[ä-ö]",
        ] {
            assert!(is_valid(glob), "{glob}");
        }
        let long = "a".repeat(MAX_LENGTH + 1);
        let many = "{a,b}".repeat(7);
        let deep = "{".repeat(500) + &"}".repeat(500);
        assert!(is_valid(&deep));
        for glob in [
            "", "[", "[]", "[a", "a]", "{a", "a}", "{a,b", "[z-a]", "a\\", "a\0b", &long, &many,
        ] {
            assert!(!is_valid(glob), "{glob}");
        }
    }

    #[test]
    fn matching_paths() {
        for (glob, path) in [
            ("a/b", "a/b"),
            ("a/b", "a/b/"),
            ("a/b/", "a/./b"),
            ("~/.config/gh/**", "~/.config/gh"),
            ("~/.config/gh/**", "~/.config/gh/hosts.yml"),
            ("$HOME/.config/gh/**", "~/.config/gh/x/y"),
            ("~/.config/gh", "${HOME}/.config/gh"),
            ("**", "~/.config/gh"),
            ("**/.git/**", "src/.git/config"),
            ("**/.git/**", ".git"),
            ("/**", "/etc"),
            ("/**", "/"),
            ("a/**/z", "a/z"),
            ("a/**/z", "a/b/c/z"),
            ("*.md", "x.md"),
            ("*", ".hidden"),
            ("a*c", "ac"),
            ("a**c", "abbc"),
            ("?[0-9][!x]", "a1y"),
            ("src/*.{rs,toml}", "src/lib.rs"),
            ("{a,b/c}/d", "b/c/d"),
            (r"a\*", "a*"),
            ("ä?", "äö"),
        ] {
            assert!(matches(glob, path), "{glob} {path}");
        }
        for (glob, path) in [
            ("a/b", "a/bc"),
            ("a/*", "a"),
            ("a/*", "a/b/c"),
            ("~/.config/gh/**", "~/.config/ghost"),
            ("~/.config/gh/**", "~/.config"),
            ("*.md", "x/y.md"),
            ("/**", "a"),
            ("[a", "[a"),
            ("[!a]", "/"),
            ("a?c", "a/c"),
            ("", ""),
            ("$HOMER/x", "~R/x"),
        ] {
            assert!(!matches(glob, path), "{glob} {path}");
        }
    }

    #[test]
    fn covering_globs() {
        for (glob, other) in [
            ("~/.config/gh/**", "~/.config/gh"),
            ("~/.config/**", "~/.config/gh/**"),
            ("**", "a/**/b"),
            ("a/**", "a/*/c"),
            ("a/*", "a/?x[0-9]"),
            ("[a-z]", "[c-d]"),
            ("{a,b}/**", "{b,a}/x"),
            ("**/x/**", "a/x/**"),
            ("a/**/**", "a/**"),
            ("a*", "ab*"),
        ] {
            assert!(covers(glob, other), "{glob} {other}");
        }
        for (glob, other) in [
            ("~/.config/gh", "~/.config/gh/**"),
            ("a/*", "a/**"),
            ("a/*/**", "a/**"),
            ("ab*", "a*"),
            ("[a-c]", "[b-d]"),
            ("[a-z]", "?"),
            ("a/x", "{a,b}/x"),
            ("**/x", "**"),
            ("[", "a"),
            ("a", "["),
        ] {
            assert!(!covers(glob, other), "{glob} {other}");
        }
    }

    #[test]
    fn hostile_globs_finish_quickly() {
        let stars = "*a".repeat(500);
        let path = "a".repeat(1000) + "b";
        assert!(!matches(&stars, &path));
        assert!(!covers(&stars, &("*".to_owned() + &path)));
        let deep = "**/a/".repeat(200);
        assert!(!matches(&deep, &"a/".repeat(400).replace("a/a/", "a/b/")));
    }

    #[test]
    fn patterns_agree_with_matches() {
        for (glob, path) in [
            ("/a/**/z", "/a/b/c/z"),
            ("/a/**/z", "/a/z"),
            ("/a/**/z", "/a/y"),
            ("/**", "/"),
            ("/**/.git/**", "/x/.git"),
            ("/x/{a,b/c}/*.rs", "/x/b/c/d.rs"),
            ("/x/[!a]?", "/x/ab"),
            ("/x/*", "/x/y/z"),
        ] {
            let found =
                GlobPattern::alternatives(glob)
                    .expect("a glob")
                    .iter()
                    .any(|(_, pattern)| {
                        let names = path.split('/').filter(|n| !n.is_empty());
                        let end = names.fold(pattern.start(), |at, name| pattern.step(&at, name));
                        pattern.accepts(&end)
                    });
            assert_eq!(found, matches(glob, path), "{glob} {path}");
        }
    }

    #[test]
    fn patterns_have_an_anchor_and_a_literal_head() {
        let one = |glob: &str| {
            let (anchor, pattern) = GlobPattern::alternatives(glob).expect("a glob").remove(0);
            let (names, rest) = pattern.split_literal();
            (
                anchor,
                names.join("/"),
                rest.is_empty(),
                rest.is_everything(),
            )
        };
        assert_eq!(
            one("~/.ssh/**"),
            (GlobAnchor::Home, ".ssh".into(), false, true)
        );
        assert_eq!(one("$HOME"), (GlobAnchor::Home, String::new(), true, false));
        assert_eq!(
            one("./a/b"),
            (GlobAnchor::WorkingDir, "a/b".into(), true, false)
        );
        assert_eq!(one("/a/**/*"), (GlobAnchor::Root, "a".into(), false, true));
        assert_eq!(one("/a/*"), (GlobAnchor::Root, "a".into(), false, false));
        assert_eq!(
            one(r"/a\*/b"),
            (GlobAnchor::Root, "a*/b".into(), true, false)
        );
    }
}
