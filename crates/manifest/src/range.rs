//! Version ranges with npm's syntax (`version_check.range`).
//!
//! The parser on crates.io is not used: it reads `>2 <1` as "either", accepts `1 || foo` and
//! panics on `~x`. A range is a list of alternatives, and each alternative is a list of
//! comparators that must all match.

use std::cmp::Ordering;
use std::fmt;

/// Largest number that npm allows in a version. Beyond it JavaScript loses digits.
const MAX_NUMBER: u64 = 9_007_199_254_740_991;
/// Maximum length in bytes of a range that is analyzed. Longer ranges are only parsed.
const MAX_ANALYZED_LEN: usize = 1024;

/// A version: three numbers and an optional pre-release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    major: u64,
    minor: u64,
    patch: u64,
    pre: Vec<Identifier>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    // The order of the variants matters: numbers sort before words.
    Number(u64),
    Word(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Less,
    AtMost,
    Equal,
    AtLeast,
    Greater,
}

#[derive(Clone, Debug, PartialEq)]
struct Comparator {
    op: Op,
    version: Version,
}

/// A version range.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    alternatives: Vec<Vec<Comparator>>,
    analyzed: bool,
}

/// Why a text is not a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// A part of the range is not a version.
    #[error("`{0}` is not a version such as `1.2.3`, `1.2` or `1.x`")]
    NotAVersion(String),
    /// A number has a leading zero.
    #[error("`{0}` contains a number with a leading zero")]
    LeadingZero(String),
    /// A number is larger than npm allows.
    #[error("`{0}` contains a number that is too large")]
    TooLarge(String),
    /// An operator such as `>=` has no operand.
    #[error("expected a version after the operator")]
    NoVersion,
}

impl Version {
    /// A version without a pre-release.
    pub fn new(major: u64, minor: u64, patch: u64) -> Self {
        Version {
            major,
            minor,
            patch,
            pre: Vec::new(),
        }
    }

    /// Parses a full version. A leading `v` or `=` and build metadata are ignored.
    pub fn parse(text: &str) -> Option<Version> {
        let partial = Partial::parse(skip_prefix(text.trim())).ok()?;
        match partial.numbers {
            [Some(major), Some(minor), Some(patch)] => Some(Version {
                major,
                minor,
                patch,
                pre: partial.pre,
            }),
            _ => None,
        }
    }

    /// The lowest version with these numbers, which is the pre-release `-0`.
    fn floor(major: u64, minor: u64, patch: u64) -> Self {
        Version {
            pre: vec![Identifier::Number(0)],
            ..Version::new(major, minor, patch)
        }
    }

    fn numbers(&self) -> (u64, u64, u64) {
        (self.major, self.minor, self.patch)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_release = match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        };
        self.numbers().cmp(&other.numbers()).then(by_release)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (i, part) in self.pre.iter().enumerate() {
            f.write_str(if i == 0 { "-" } else { "." })?;
            match part {
                Identifier::Number(n) => write!(f, "{n}")?,
                Identifier::Word(w) => f.write_str(w)?,
            }
        }
        Ok(())
    }
}

impl Range {
    /// Parses a range.
    pub fn parse(text: &str) -> Result<Range, RangeError> {
        let alternatives: Result<Vec<_>, _> = text.split("||").map(alternative).collect();
        Ok(Range {
            alternatives: alternatives?,
            analyzed: text.len() <= MAX_ANALYZED_LEN,
        })
    }

    /// Whether a version is in the range. A pre-release is in the range only if a comparator names
    /// a pre-release of the same numbers.
    pub fn satisfies(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|set| fits(set, version))
    }

    /// Whether no version is in the range.
    pub fn is_empty(&self) -> bool {
        self.analyzed && self.alternatives.iter().all(|set| !is_satisfiable(set))
    }

    /// The major version after the highest one that the range names.
    pub fn next_major(&self) -> Option<u64> {
        let named = self.alternatives.iter().flatten().map(|c| c.version.major);
        named.max()?.checked_add(1)
    }

    /// The lowest major version that has a version in this range but none in `other`.
    pub fn first_major_beyond(&self, other: &Range) -> Option<u64> {
        if !self.analyzed || !other.analyzed {
            return None;
        }
        // The first such major version is 0, one that a range names, or the one after that.
        let named = self
            .alternatives
            .iter()
            .chain(&other.alternatives)
            .flatten();
        let mut majors: Vec<u64> = named
            .flat_map(|c| [c.version.major, c.version.major + 1])
            .chain([0])
            .collect();
        majors.sort_unstable();
        majors.dedup();
        majors
            .into_iter()
            .find(|major| self.admits_major(*major) && !other.admits_major(*major))
    }

    fn admits_major(&self, major: u64) -> bool {
        let within = [
            Comparator {
                op: Op::AtLeast,
                version: Version::new(major, 0, 0),
            },
            Comparator {
                op: Op::Less,
                version: Version::floor(major + 1, 0, 0),
            },
        ];
        self.alternatives
            .iter()
            .any(|set| is_satisfiable(&[set.as_slice(), &within].concat()))
    }

    /// Whether the range has no upper bound, so that every later version is in it.
    pub fn is_unbounded(&self) -> bool {
        self.alternatives.iter().any(|set| {
            set.iter()
                .all(|c| matches!(c.op, Op::AtLeast | Op::Greater))
        })
    }
}

fn fits(set: &[Comparator], version: &Version) -> bool {
    let holds = set.iter().all(|c| {
        let order = version.cmp(&c.version);
        match c.op {
            Op::Less => order.is_lt(),
            Op::AtMost => order.is_le(),
            Op::Equal => order.is_eq(),
            Op::AtLeast => order.is_ge(),
            Op::Greater => order.is_gt(),
        }
    });
    holds
        && (version.pre.is_empty()
            || set
                .iter()
                .any(|c| !c.version.pre.is_empty() && c.version.numbers() == version.numbers()))
}

/// Whether any version matches all comparators. The lowest such version is 0.0.0, a version that
/// the set names, or the next one after it, so only these are tried.
fn is_satisfiable(set: &[Comparator]) -> bool {
    let named = set.iter().flat_map(|c| {
        let v = &c.version;
        let (major, minor, patch) = v.numbers();
        let mut next = v.clone();
        next.pre.push(Identifier::Number(0));
        [
            v.clone(),
            next,
            Version::floor(major, minor, patch),
            Version::new(major, minor, patch),
            Version::new(major, minor, patch + 1),
        ]
    });
    [Version::new(0, 0, 0)]
        .into_iter()
        .chain(named)
        .any(|candidate| fits(set, &candidate))
}

fn alternative(text: &str) -> Result<Vec<Comparator>, RangeError> {
    let text = text.trim();
    let mut set = Vec::new();
    if let Some((from, to)) = hyphen(text) {
        let (from, to) = (
            Partial::parse(skip_prefix(from))?,
            Partial::parse(skip_prefix(to))?,
        );
        from.at_least(&mut set);
        to.at_most(&mut set);
        return Ok(set);
    }
    let mut rest = text;
    while !rest.is_empty() {
        let (op, behind) = operator(rest);
        let behind = skip_prefix(behind);
        let end = behind.find(char::is_whitespace).unwrap_or(behind.len());
        let (version, after) = behind.split_at(end);
        if version.is_empty() {
            return Err(RangeError::NoVersion);
        }
        Partial::parse(version)?.desugar(op, &mut set);
        rest = after.trim_start();
    }
    Ok(set)
}

/// Splits a hyphen range `a - b`.
fn hyphen(text: &str) -> Option<(&str, &str)> {
    let (from, to) = text.split_once(" - ")?;
    let (from, to) = (from.trim(), to.trim());
    let plain =
        |s: &str| !s.is_empty() && !s.contains(|c: char| c.is_whitespace() || "<>~^".contains(c));
    (plain(from) && plain(to)).then_some((from, to))
}

#[derive(Clone, Copy, PartialEq)]
enum Prefix {
    None,
    Compare(Op),
    Tilde,
    Caret,
}

fn operator(text: &str) -> (Prefix, &str) {
    for (sign, prefix) in [
        (">=", Prefix::Compare(Op::AtLeast)),
        ("<=", Prefix::Compare(Op::AtMost)),
        (">", Prefix::Compare(Op::Greater)),
        ("<", Prefix::Compare(Op::Less)),
        ("~>", Prefix::Tilde),
        ("~", Prefix::Tilde),
        ("^", Prefix::Caret),
    ] {
        if let Some(rest) = text.strip_prefix(sign) {
            return (prefix, rest);
        }
    }
    (Prefix::None, text)
}

/// Removes the characters that npm allows before a version.
fn skip_prefix(text: &str) -> &str {
    text.trim_start_matches(|c: char| c == 'v' || c == '=' || c.is_whitespace())
}

/// A version in which numbers may be missing or `x`.
struct Partial {
    numbers: [Option<u64>; 3],
    pre: Vec<Identifier>,
}

impl Partial {
    fn parse(text: &str) -> Result<Partial, RangeError> {
        let wrong = || RangeError::NotAVersion(text.to_owned());
        let (core, extra) = match text.find(['-', '+']) {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let mut numbers = [None; 3];
        let mut count = 0;
        for part in core.split('.') {
            let slot = numbers.get_mut(count).ok_or_else(wrong)?;
            *slot = number(part, text)?;
            count += 1;
        }
        // Numbers after an `x` are ignored.
        if numbers[0].is_none() {
            numbers[1] = None;
        }
        if numbers[1].is_none() {
            numbers[2] = None;
        }
        if !extra.is_empty() && count < 3 {
            return Err(wrong());
        }
        let (pre, build) = match extra.split_once('+') {
            Some((pre, build)) => (pre, Some(build)),
            None => (extra, None),
        };
        if build.is_some_and(|b| !b.split('.').all(is_identifier)) {
            return Err(wrong());
        }
        let pre = match pre.strip_prefix('-') {
            Some(pre) => pre
                .split('.')
                .map(|part| identifier(part, text))
                .collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        Ok(Partial { numbers, pre })
    }

    fn desugar(self, prefix: Prefix, set: &mut Vec<Comparator>) {
        match prefix {
            Prefix::None => self.exactly(set),
            Prefix::Compare(Op::AtLeast) => self.at_least(set),
            Prefix::Compare(Op::AtMost) => self.at_most(set),
            Prefix::Compare(op) => self.strictly(op, set),
            Prefix::Tilde => {
                let end = match self.numbers {
                    [Some(major), Some(minor), _] => Some((major, minor + 1, 0)),
                    [Some(major), None, _] => Some((major + 1, 0, 0)),
                    _ => None,
                };
                self.at_least(set);
                below(end, set);
            }
            Prefix::Caret => {
                let end = match self.numbers {
                    [Some(0), Some(0), Some(patch)] => Some((0, 0, patch + 1)),
                    [Some(0), Some(minor), _] => Some((0, minor + 1, 0)),
                    [Some(major), _, _] => Some((major + 1, 0, 0)),
                    _ => None,
                };
                self.at_least(set);
                below(end, set);
            }
        }
    }

    fn exactly(self, set: &mut Vec<Comparator>) {
        if let [Some(major), Some(minor), Some(patch)] = self.numbers {
            set.push(Comparator {
                op: Op::Equal,
                version: Version {
                    pre: self.pre,
                    ..Version::new(major, minor, patch)
                },
            });
            return;
        }
        let end = self.after();
        self.at_least(set);
        below(end, set);
    }

    fn at_least(self, set: &mut Vec<Comparator>) {
        let [Some(major), minor, patch] = self.numbers else {
            return;
        };
        let pre = if patch.is_some() {
            self.pre
        } else {
            Vec::new()
        };
        set.push(Comparator {
            op: Op::AtLeast,
            version: Version {
                pre,
                ..Version::new(major, minor.unwrap_or(0), patch.unwrap_or(0))
            },
        });
    }

    fn at_most(self, set: &mut Vec<Comparator>) {
        match self.numbers {
            [Some(major), Some(minor), Some(patch)] => set.push(Comparator {
                op: Op::AtMost,
                version: Version {
                    pre: self.pre,
                    ..Version::new(major, minor, patch)
                },
            }),
            _ => below(self.after(), set),
        }
    }

    /// `>` and `<`. `>x` and `<x` match nothing.
    fn strictly(self, op: Op, set: &mut Vec<Comparator>) {
        let comparator = match (self.numbers, op) {
            ([Some(major), Some(minor), Some(patch)], _) => Comparator {
                op,
                version: Version {
                    pre: self.pre,
                    ..Version::new(major, minor, patch)
                },
            },
            ([None, ..], _) => Comparator {
                op: Op::Less,
                version: Version::floor(0, 0, 0),
            },
            ([Some(major), None, _], Op::Greater) => Comparator {
                op: Op::AtLeast,
                version: Version::new(major + 1, 0, 0),
            },
            ([Some(major), Some(minor), None], Op::Greater) => Comparator {
                op: Op::AtLeast,
                version: Version::new(major, minor + 1, 0),
            },
            ([Some(major), minor, _], _) => Comparator {
                op: Op::Less,
                version: Version::floor(major, minor.unwrap_or(0), 0),
            },
        };
        set.push(comparator);
    }

    /// The first numbers after all versions that a partial version matches.
    fn after(&self) -> Option<(u64, u64, u64)> {
        match self.numbers {
            [Some(major), Some(minor), _] => Some((major, minor + 1, 0)),
            [Some(major), None, _] => Some((major + 1, 0, 0)),
            _ => None,
        }
    }
}

fn below(end: Option<(u64, u64, u64)>, set: &mut Vec<Comparator>) {
    if let Some((major, minor, patch)) = end {
        set.push(Comparator {
            op: Op::Less,
            version: Version::floor(major, minor, patch),
        });
    }
}

fn number(part: &str, whole: &str) -> Result<Option<u64>, RangeError> {
    if matches!(part, "x" | "X" | "*") {
        return Ok(None);
    }
    if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
        return Err(RangeError::NotAVersion(whole.to_owned()));
    }
    if part.len() > 1 && part.starts_with('0') {
        return Err(RangeError::LeadingZero(whole.to_owned()));
    }
    match part.parse::<u64>() {
        Ok(n) if n <= MAX_NUMBER => Ok(Some(n)),
        _ => Err(RangeError::TooLarge(whole.to_owned())),
    }
}

fn is_identifier(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn identifier(part: &str, whole: &str) -> Result<Identifier, RangeError> {
    if !is_identifier(part) {
        return Err(RangeError::NotAVersion(whole.to_owned()));
    }
    if part.bytes().all(|b| b.is_ascii_digit()) {
        return match number(part, whole)? {
            Some(n) => Ok(Identifier::Number(n)),
            None => Err(RangeError::NotAVersion(whole.to_owned())),
        };
    }
    Ok(Identifier::Word(part.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Range {
        Range::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn takes(text: &str, version: &str) -> bool {
        range(text).satisfies(&Version::parse(version).unwrap())
    }

    #[test]
    fn ranges_that_npm_accepts() {
        for (text, inside, outside) in [
            (">=0.13.0 <1.0.0", "0.99.1", "1.0.0"),
            (">=2.40 <3", "2.40.0", "3.0.0"),
            ("1.2.3", "1.2.3", "1.2.4"),
            ("=1.2.3", "1.2.3", "1.2.4"),
            ("v1.2.3", "1.2.3", "1.2.2"),
            (">= 1.2", "1.2.0", "1.1.9"),
            ("^1.2.3", "1.9.0", "2.0.0"),
            ("^0.2.3", "0.2.9", "0.3.0"),
            ("^0.0.3", "0.0.3", "0.0.4"),
            ("^0.x", "0.9.9", "1.0.0"),
            ("^1", "1.0.0", "2.0.0"),
            ("~1.2.3", "1.2.9", "1.3.0"),
            ("~1", "1.9.9", "2.0.0"),
            ("~> 1.2", "1.2.0", "1.3.0"),
            ("1.x", "1.9.0", "2.0.0"),
            ("1.x.3", "1.9.0", "2.0.0"),
            ("1.2.*", "1.2.9", "1.3.0"),
            ("1.2.3 - 2.3", "2.3.9", "2.4.0"),
            ("1.2 - 2.3.4", "1.2.0", "2.3.5"),
            (">1.2", "1.3.0", "1.2.9"),
            (">1", "2.0.0", "1.9.0"),
            ("<1.2", "1.1.9", "1.2.0"),
            ("<=1.2", "1.2.9", "1.3.0"),
            ("^1 || ^3", "3.1.0", "2.0.0"),
            (">1.2.3-alpha.3", "1.2.3-alpha.7", "3.4.5-alpha.9"),
            ("^1.2.3-beta.2", "1.2.3-beta.4", "1.2.4-beta.2"),
            ("1.2.3+build", "1.2.3", "1.2.4"),
            ("", "0.0.1", "1.0.0-rc.1"),
            ("*", "7.0.0", "7.0.0-0"),
            ("^1 ||", "9.0.0", "9.0.0-a"),
        ] {
            assert!(takes(text, inside), "{text} {inside}");
            assert!(!takes(text, outside), "{text} {outside}");
        }
        let order = ["1.0.0-1", "1.0.0-2.1", "1.0.0-a", "1.0.0-a.1", "1.0.0"];
        let order: Vec<_> = order.iter().filter_map(|v| Version::parse(v)).collect();
        assert!(order.is_sorted() && order.len() == 5);
        assert_eq!(order[3].to_string(), "1.0.0-a.1");
    }

    fn list(texts: &str) -> impl Iterator<Item = &str> {
        texts.split(';').map(str::trim)
    }

    #[test]
    fn ranges_that_npm_rejects() {
        for text in list(
            "foo; latest; 01.2.3; 1.02; 1.2.3.4; >=1, <2; >=1 && <2; 1 || foo; >; >= ; \
             1..2; 1.2.3-; 1.2.3-01; 1.2.3-a..b; 1.2-alpha; 1.2.3+; 99999999999999999; \
             1 - 2 <3; 1.2.3 -; ä; 1.0.0 -2.0.0",
        ) {
            assert!(Range::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn empty_and_open_ranges() {
        for text in list(
            ">2 <1; >=2 <2; 1.2.3 1.2.4; >1.0.0 <1.0.1; ^1 ^2; >x; <*; <0.0.0; \
             >2 <1 || >4 <3; >1.0.0-a <1.0.0-a.0; >=1.0.0 <1.0.0-5",
        ) {
            assert!(range(text).is_empty(), "{text}");
        }
        for text in list(
            ">=1 <2; ^1; 1.2.3; >2 <1 || 3; ; >=1.0.0-a <1.0.0-b; <1.0.0-b; <0.0.1; \
             >1.0.0-a <=1.0.0-a.0; >=1.0.0 <=1.0.0",
        ) {
            assert!(!range(text).is_empty(), "{text}");
        }
        for text in ["", "*", ">=1", ">1.2.3", "^1 || >=3", ">=x"] {
            assert!(range(text).is_unbounded(), "{text}");
        }
        for text in ["^1", "1.2.3", ">=1 <2", "<4", "1 - 2", "~1 || ^2"] {
            assert!(!range(text).is_unbounded(), "{text}");
        }
    }

    /// Recorded results of npm's own parser.
    #[test]
    fn agrees_with_npm() {
        let versions = [
            "0.2.0", "0.13.0", "1.0.0", "1.2.0", "1.2.3", "1.3.0", "2.0.0", "2.9.9", "3.0.0",
        ];
        for (text, admitted) in [
            (">=0.13.0 <1.0.0", "0.13.0"),
            ("^1.2.3", "1.2.3 1.3.0"),
            ("^0.2", "0.2.0"),
            ("~1.2", "1.2.0 1.2.3"),
            ("1.x", "1.0.0 1.2.0 1.2.3 1.3.0"),
            ("1.2.3 - 2", "1.2.3 1.3.0 2.0.0 2.9.9"),
            (">1.2", "1.3.0 2.0.0 2.9.9 3.0.0"),
            ("<=2", "0.2.0 0.13.0 1.0.0 1.2.0 1.2.3 1.3.0 2.0.0 2.9.9"),
            ("^1 || ^3", "1.0.0 1.2.0 1.2.3 1.3.0 3.0.0"),
        ] {
            let ours: Vec<_> = versions.into_iter().filter(|v| takes(text, v)).collect();
            assert_eq!(ours.join(" "), admitted, "{text}");
        }
    }

    #[test]
    fn majors_that_a_range_admits_and_another_does_not() {
        let beyond = |old: &str, new: &str| range(new).first_major_beyond(&range(old));
        for (old, new, major) in [
            (">=3.2.0 <4.0.0", ">=4.0.0 <5.0.0", Some(4)),
            ("^2.0.0", ">=2.0.0", Some(3)),
            ("^2.0.0", ">=2.0.0 <4", Some(3)),
            (">=2.0.0", ">=2.0.0 <3", None),
            ("^2.1.0", "^2.4.0", None),
            ("^0.4.0", "^0.5.0", None),
            ("^1.0.0", "^1.0.0 || ^7.0.0", Some(7)),
            ("^2.0.0", "^1.0.0", Some(1)),
            ("^3", "~x", Some(0)),
            ("~x", "^3", None),
            ("3.x", ">3.0.0", Some(4)),
            ("<3", "*", Some(3)),
            ("^3", "^3 || 4.0.0-rc.1", None),
            ("^1", ">5 <4", None),
            ("*", ">=9007199254740991", None),
            ("^1", ">=9007199254740991", Some(9_007_199_254_740_991)),
        ] {
            assert_eq!(beyond(old, new), major, "{old} → {new}");
        }
        let long = vec!["^1"; 400].join(" || ");
        assert_eq!(beyond(&long, "^2"), None);
    }
}
