//! Analyzes `version_check.parse` as an ECMAScript regular expression: whether it is valid, how
//! many capture groups it has, and whether it can backtrack catastrophically.

use std::cell::RefCell;
use std::collections::HashMap;
use std::iter::Peekable;
use std::rc::Rc;
use std::str::Chars;

#[derive(Debug, Default, PartialEq)]
pub struct PatternAnalysis {
    /// Error message of the regex engine, if the pattern is not valid.
    pub error: Option<String>,
    /// Number of capture groups.
    pub groups: usize,
    /// Whether the pattern can backtrack catastrophically.
    pub backtracks: bool,
}

/// Maximum length in bytes of a pattern that is compiled. Patterns for versions are never longer.
const MAX_LENGTH: usize = 4096;
/// Maximum number of cached verdicts per thread.
const MAX_CACHED: usize = 512;
/// Maximum nesting depth of groups that is analyzed.
const MAX_DEPTH: usize = 64;

thread_local! {
    static KNOWN: RefCell<HashMap<String, Rc<PatternAnalysis>>> = RefCell::default();
}

pub fn analyze(pattern: &str) -> Rc<PatternAnalysis> {
    if let Some(groups) = plain(pattern) {
        return Rc::new(PatternAnalysis {
            groups,
            ..PatternAnalysis::default()
        });
    }
    if let Some(known) = KNOWN.with_borrow(|known| known.get(pattern).cloned()) {
        return known;
    }
    let verdict = Rc::new(PatternAnalysis {
        error: compile_error(pattern),
        groups: count_groups(pattern),
        backtracks: may_backtrack(pattern),
    });
    KNOWN.with_borrow_mut(|known| {
        if known.len() >= MAX_CACHED {
            known.clear();
        }
        known.insert(pattern.to_owned(), Rc::clone(&verdict));
    });
    verdict
}

/// The error of a pattern that is valid neither with nor without the `u` flag. Hosts may use
/// either.
fn compile_error(pattern: &str) -> Option<String> {
    if pattern.len() > MAX_LENGTH {
        return None;
    }
    let error = regress::Regex::with_flags(pattern, "").err()?;
    match regress::Regex::with_flags(pattern, "u") {
        Ok(_) => None,
        Err(_) => Some(error.text),
    }
}

/// Number of capture groups of a plain pattern, which is valid and harmless without compiling it:
/// literals, common escapes and classes, quantified atoms, and groups that are not repeated. Nearly
/// every version pattern is plain, and compiling costs more than reading the file.
fn plain(pattern: &str) -> Option<usize> {
    let mut bytes = pattern.bytes().peekable();
    let (mut groups, mut open) = (0, 0usize);
    let mut quantifiable = false;
    while let Some(byte) = bytes.next() {
        quantifiable = match byte {
            b'\\' => matches!(
                bytes.next()?,
                b'd' | b's' | b'S' | b'w' | b'.' | b'-' | b'/' | b'+'
            )
            .then_some(true)?,
            b'[' => loop {
                match bytes.next()? {
                    b'd' | b'w' | b'.' | b'_' | b'+' => {}
                    b']' => break true,
                    b'0' => range_to(&mut bytes, b'9')?,
                    b'a' => range_to(&mut bytes, b'z')?,
                    b'A' => range_to(&mut bytes, b'Z')?,
                    b'\\' => {
                        matches!(bytes.next()?, b'd' | b'w' | b's' | b'.' | b'-').then_some(())?;
                    }
                    _ => return None,
                }
            },
            b'(' => {
                open += 1;
                if bytes.next_if_eq(&b'?').is_some() {
                    bytes.next_if_eq(&b':')?;
                } else {
                    groups += 1;
                }
                false
            }
            b')' => {
                open = open.checked_sub(1)?;
                bytes.next_if_eq(&b'?');
                false
            }
            b'+' | b'*' | b'?' if quantifiable => {
                bytes.next_if_eq(&b'?');
                false
            }
            b'^' | b'$' | b'|' => false,
            b'.' | b' ' | b'/' | b'-' | b'_' | b':' | b',' | b'@' | b'"' | b'\'' => true,
            b if b.is_ascii_alphanumeric() => true,
            _ => return None,
        };
    }
    (open == 0).then_some(groups)
}

fn range_to(bytes: &mut Peekable<std::str::Bytes<'_>>, end: u8) -> Option<()> {
    bytes.next_if_eq(&b'-')?;
    bytes.next_if_eq(&end).map(|_| ())
}

/// Number of capture groups, including named ones. Parentheses in escapes and classes do not count.
fn count_groups(pattern: &str) -> usize {
    let mut groups = 0;
    let mut in_class = false;
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                rest.next();
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                let ahead = rest.as_str();
                let named = ahead.starts_with("?<")
                    && !ahead.starts_with("?<=")
                    && !ahead.starts_with("?<!");
                groups += usize::from(named || !ahead.starts_with('?'));
            }
            _ => {}
        }
    }
    groups
}

/// Whether a repeated group contains a repetition, without a character that separates one iteration
/// from the next: `(a+)+`, `(\w+\s?)*`, `(\d|\w)+`, but not `(\d+\.)+`.
fn may_backtrack(pattern: &str) -> bool {
    if ![")+", ")*", "){"].iter().any(|s| pattern.contains(s)) {
        return false;
    }
    let mut scan = Scan {
        chars: pattern.chars().peekable(),
        depth: 0,
    };
    scan.alternatives().is_some_and(|tree| any_ambiguous(&tree))
}

/// A set of characters: each ASCII character, and all others as one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Set {
    ascii: u128,
    other: bool,
}

impl Set {
    const ALL: Set = Set {
        ascii: u128::MAX,
        other: true,
    };

    fn of(c: char) -> Set {
        match u32::from(c) {
            n @ 0..128 => Set {
                ascii: 1 << n,
                other: false,
            },
            _ => Set {
                ascii: 0,
                other: true,
            },
        }
    }
    fn span(from: char, to: char) -> Set {
        (from.min('\u{7f}')..=to.min('\u{7f}')).map(Set::of).fold(
            Set {
                ascii: 0,
                other: !to.is_ascii(),
            },
            Set::or,
        )
    }
    fn or(self, more: Set) -> Set {
        Set {
            ascii: self.ascii | more.ascii,
            other: self.other || more.other,
        }
    }
    fn not(self) -> Set {
        Set {
            ascii: !self.ascii,
            other: true,
        }
    }
    fn meets(self, with: Set) -> bool {
        self.ascii & with.ascii != 0 || (self.other && with.other)
    }
    /// The characters that `\c` matches.
    fn escape(c: char) -> Set {
        let digit = Set::span('0', '9');
        let word = digit
            .or(Set::span('a', 'z'))
            .or(Set::span('A', 'Z'))
            .or(Set::of('_'));
        let space = "\t\n\u{b}\u{c}\r ".chars().map(Set::of).fold(
            Set {
                ascii: 0,
                other: true,
            },
            Set::or,
        );
        match c {
            'd' => digit,
            'D' => digit.not(),
            'w' => word,
            'W' => word.not(),
            's' => space,
            'S' => Set {
                other: true,
                ..space.not()
            },
            'n' => Set::of('\n'),
            't' => Set::of('\t'),
            'r' => Set::of('\r'),
            'p' | 'P' | 'u' | 'x' | 'c' | 'k' | '0'..='9' => Set::ALL,
            _ => Set::of(c),
        }
    }
}

type Tree = Vec<Vec<Item>>;

#[derive(Debug)]
struct Item {
    set: Set,
    group: Option<Tree>,
    optional: bool,
    unbounded: bool,
}

struct Scan<'p> {
    chars: Peekable<Chars<'p>>,
    depth: usize,
}

impl Scan<'_> {
    /// Parses up to the end, or up to and including the closing parenthesis. `None` if the pattern
    /// is nested too deeply.
    fn alternatives(&mut self) -> Option<Tree> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut tree: Tree = vec![Vec::new()];
        while let Some(c) = self.chars.next() {
            let (set, group) = match c {
                ')' => break,
                '|' => {
                    tree.push(Vec::new());
                    continue;
                }
                '^' | '$' => continue,
                '.' => (Set::of('\n').not(), None),
                '\\' => match self.chars.next() {
                    Some('b' | 'B') => continue,
                    Some(c) => (Set::escape(c), None),
                    None => break,
                },
                '[' => (self.class(), None),
                '(' => {
                    let looks = self.group_is_assertion();
                    let inner = self.alternatives()?;
                    if looks {
                        continue;
                    }
                    let set = inner
                        .iter()
                        .flatten()
                        .map(|i| i.set)
                        .fold(Set::default(), Set::or);
                    (set, Some(inner))
                }
                c => (Set::of(c), None),
            };
            let (optional, unbounded) = self.quantifier();
            let nullable = group
                .as_ref()
                .is_some_and(|tree| tree.iter().any(|alt| alt.iter().all(|i| i.optional)));
            if let Some(last) = tree.last_mut() {
                last.push(Item {
                    set,
                    group,
                    optional: optional || nullable,
                    unbounded,
                });
            }
        }
        self.depth -= 1;
        Some(tree)
    }

    /// Consumes the start of a group. Returns true for a look-around, which matches no characters.
    fn group_is_assertion(&mut self) -> bool {
        if self.chars.next_if_eq(&'?').is_none() {
            return false;
        }
        match self.chars.next() {
            Some('=' | '!') => true,
            Some('<') => match self.chars.peek() {
                Some('=' | '!') => true,
                _ => {
                    while self.chars.next().is_some_and(|c| c != '>') {}
                    false
                }
            },
            _ => false,
        }
    }

    fn class(&mut self) -> Set {
        let negated = self.chars.next_if_eq(&'^').is_some();
        let mut set = Set::default();
        while let Some(c) = self.chars.next() {
            let from = match c {
                ']' => break,
                '\\' => match self.chars.next() {
                    Some(c @ ('d' | 'D' | 'w' | 'W' | 's' | 'S' | 'p' | 'P' | 'u' | 'x')) => {
                        set = set.or(Set::escape(c));
                        continue;
                    }
                    Some(c) => c,
                    None => break,
                },
                c => c,
            };
            let mut ahead = self.chars.clone();
            let end = (ahead.next() == Some('-')).then(|| ahead.next()).flatten();
            match end {
                Some(to) if to != ']' && to != '\\' && to >= from => {
                    self.chars.nth(1);
                    set = set.or(Set::span(from, to));
                }
                _ => set = set.or(Set::of(from)),
            }
        }
        if negated { set.not() } else { set }
    }

    /// Consumes a quantifier. Returns whether the item is optional, and whether it has no upper
    /// bound.
    fn quantifier(&mut self) -> (bool, bool) {
        let found = match self.chars.peek() {
            Some('*') => (true, true),
            Some('+') => (false, true),
            Some('?') => (true, false),
            Some('{') => match self.braces() {
                Some(found) => found,
                None => return (false, false),
            },
            _ => return (false, false),
        };
        self.chars.next();
        self.chars.next_if_eq(&'?');
        found
    }

    /// Consumes `{2}`, `{2,}` or `{2,3}`, except for the closing brace.
    fn braces(&mut self) -> Option<(bool, bool)> {
        let inside: String = self
            .chars
            .clone()
            .skip(1)
            .take_while(|c| *c != '}')
            .take(16)
            .collect();
        let (least, most) = inside.split_once(',').unwrap_or((&inside, &inside));
        let least: u32 = least.parse().ok()?;
        let unbounded = most.is_empty();
        if !unbounded {
            most.parse::<u32>().ok()?;
        }
        self.chars.nth(inside.len());
        Some((least == 0, unbounded))
    }
}

fn any_ambiguous(tree: &Tree) -> bool {
    tree.iter().flatten().any(|item| {
        item.group
            .as_ref()
            .is_some_and(|inner| (item.unbounded && is_ambiguous(inner)) || any_ambiguous(inner))
    })
}

fn is_ambiguous(tree: &Tree) -> bool {
    let overlapping = tree.iter().enumerate().any(|(i, a)| match a.as_slice() {
        [a] if !a.optional => tree.iter().skip(i + 1).any(|b| {
            matches!(b.as_slice(), [b] if !b.optional && b.group.is_none() && a.group.is_none() && a.set.meets(b.set))
        }),
        _ => false,
    });
    overlapping
        || tree
            .iter()
            .any(|alternative| iterations_overlap(alternative))
}

/// Whether the end of one iteration can also be matched as the start of the next one.
fn iterations_overlap(alternative: &[Item]) -> bool {
    let mut items = Vec::new();
    flatten(alternative, &mut items);
    let repeated = items
        .iter()
        .filter_map(|i| repeated_below(i))
        .reduce(Set::or);
    repeated.is_some_and(|repeated| {
        !items
            .iter()
            .any(|i| !i.optional && repeated_below(i).is_none() && !i.set.meets(repeated))
    })
}

/// Collects the items, with the contents of groups that are neither optional nor repeated.
fn flatten<'t>(items: &'t [Item], out: &mut Vec<&'t Item>) {
    for item in items {
        match item.group.as_deref() {
            Some([only]) if !item.unbounded && !item.optional => flatten(only, out),
            _ => out.push(item),
        }
    }
}

fn repeated_below(item: &Item) -> Option<Set> {
    if item.unbounded {
        return Some(item.set);
    }
    let inner = item.group.as_ref()?;
    inner
        .iter()
        .flatten()
        .filter_map(repeated_below)
        .reduce(Set::or)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_patterns_agree_with_the_compiler() {
        for pattern in [
            r"forge version (\d+\.\d+\.\d+)",
            r"^quill\s+(\d+\.\d+\.\d+)",
            r"gull v?(\d+\.\d+\.\d+)",
            r"gh version (\S+)",
            r"([0-9]+)\.([0-9]+)(?:-rc)?",
            r"v([\d.]+)$",
            "",
        ] {
            let groups = plain(pattern).unwrap_or_else(|| panic!("{pattern} is not plain"));
            assert_eq!(groups, count_groups(pattern), "{pattern}");
            assert_eq!(compile_error(pattern), None, "{pattern}");
            assert!(!may_backtrack(pattern), "{pattern}");
        }
        for pattern in [
            "(", ")", "a)(", "*a", "a**", "(?", "[a", "a{2", r"\", "(a+)+", "(?<n>a)", "(+)", "^*",
        ] {
            assert_eq!(plain(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn patterns_are_validated_as_ecmascript() {
        for pattern in [
            r"(?<=v)(\d+)",
            "[^]",
            r"(?<maj>\d+)\k<maj>",
            r"(a)\1",
            "(?!x)a",
            "{",
            r"\-(\d)",
            r"\p{L}",
        ] {
            assert_eq!(analyze(pattern).error, None, "{pattern}");
        }
        for pattern in [
            r"(?P<maj>\d+)",
            "(?i:abc",
            "(",
            "[",
            "a**",
            r"(?<n>a)(?<n>b)",
            "(?#c)",
        ] {
            assert!(analyze(pattern).error.is_some(), "{pattern}");
        }
    }

    #[test]
    fn capture_groups_are_counted() {
        for (pattern, groups) in [
            (r"a(b)(?:c)(?=d)(?!e)(?<=f)(?<!g)(?<h>i)", 2),
            (r"\(a\)[(](b)", 1),
            (r"[\](](b)", 1),
            ("abc", 0),
        ] {
            assert_eq!(analyze(pattern).groups, groups, "{pattern}");
        }
    }

    #[test]
    fn only_repetitions_without_separator_may_backtrack() {
        for pattern in [
            "(a+)+",
            r"(\d*)*x",
            r"(\w+\s?)+$",
            r"([\w.-]+)+",
            r"((\d+))+",
            r"(.*\.)+",
            r"(\d|\w)+",
            r"(\d+\.?)+",
            r"((a+)b?)*",
            r"(?:x+){2,}",
            r"([^\n]+)*",
            r"(a|b|[a-c])*c",
        ] {
            assert!(may_backtrack(pattern), "{pattern}");
        }
        for pattern in [
            r"(\d+\.)+",
            r"(\d+(?:\.\d+)*)",
            r"v((?:\d+\.){2,}\d+)",
            r"(?:a|b)+",
            r"(\d{1,3}\.?)+",
            r"((\d+)(\.))+x",
            r"(?:[a-z]|\d)+",
            r"(\d+)(\s)*",
            r"\(a+\)+",
            "[(a+)+]",
            r"((?=x+)y)+",
        ] {
            assert!(!may_backtrack(pattern), "{pattern}");
        }
        let deep = "(".repeat(100_000) + "a+" + &")+".repeat(100_000);
        assert!(!may_backtrack(&deep));
    }
}
