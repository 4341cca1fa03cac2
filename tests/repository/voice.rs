//! Text that people read avoids phrases that have to be read twice. CONTRIBUTING.md says how we
//! write; these patterns catch the most frequent slips.

use std::path::{Path, PathBuf};
use std::process::Command;

use regress::{Flags, Regex};

/// Phrase to avoid, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    (
        r"(?<!there )\b(is|are|was|be) no (?!longer\b|more\b|need\b|such\b|different\b|way\b|one\b)[a-z`]+",
        "is not a",
    ),
    (
        r"(?<!-)\bstands?\b(?! (alone|for|out|by)\b)|\bstood\b",
        "is, is written",
    ),
    (r"\bmend(s|ed|ing)?\b", "fix"),
    (
        r"\b(is|are|was|were|be) told\b|\btells? of\b",
        "is reported",
    ),
    (r"\bsays? of (itself|it|them)\b", "reports"),
    (
        r"\b(so many|in so many words)\b",
        "name the number or its unit",
    ),
    (r"\bbeginnings?\b(?! of\b)", "start"),
    (r"\bcomes? to (its|an) end\b", "ends, exits"),
    (r"\bgo(es)? on with\b", "continue, resume"),
    (r"\bof before\b", "earlier"),
    (r"\bno news\b", "already known"),
    (
        r"\bwhat (it|they) (lacks?|wants?)\b",
        "name what is missing",
    ),
    (r", too\b[.,;)]", "also, before the verb"),
    (r"\b(nobody|whoever)\b(?!-)", "name who"),
    (r"\bkeeps? its word\b", "matches what it declared"),
    (r"\blies? (in|below|above|beside)\b", "is in"),
    (r"\bthe judge\b", "the checker, the self-test"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files that git knows, of the kinds that hold prose. Generated pages repeat their sources.
fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git");
    let listed = String::from_utf8(listed.stdout).expect("UTF-8");
    let is_prose = |path: &&str| {
        let kind = [
            ".rs", ".md", ".yaml", ".yml", ".html", ".js", ".mjs", ".toml",
        ];
        let kind = kind.iter().any(|end| path.ends_with(end)) || path.ends_with(".schema.json");
        // What mock agents answer and what tests send is data.
        let data = [
            "reports/",
            "tests/",
            "fixtures/",
            "mock-agents/",
            "crates/lint/tests/",
        ];
        kind && !data.iter().any(|dir| path.starts_with(dir))
    };
    let files = listed.lines().filter(is_prose).map(PathBuf::from);
    files.filter(|path| root().join(path).is_file()).collect()
}

/// Phrases of one text, each with its line.
fn slips(text: &str, phrases: &[(Regex, &str)]) -> Vec<String> {
    let mut found = Vec::new();
    for (i, line) in text.lines().enumerate() {
        for (phrase, instead) in phrases {
            if let Some(hit) = phrase.find(line) {
                let words = &line[hit.range()];
                found.push(format!("{}: `{words}` (write: {instead})", i + 1));
            }
        }
    }
    found
}

fn phrases() -> Vec<(Regex, &'static str)> {
    let flags = Flags {
        icase: true,
        ..Flags::default()
    };
    let compile = |(pattern, instead): &(&str, &'static str)| {
        (
            Regex::with_flags(pattern, flags).expect("a pattern"),
            *instead,
        )
    };
    PHRASES.iter().map(compile).collect()
}

#[test]
fn prose_is_plain() {
    let phrases = phrases();
    let mut found = Vec::new();
    let files = files();
    assert!(files.len() > 500, "only {} files", files.len());
    for path in files {
        let text = std::fs::read_to_string(root().join(&path)).unwrap_or_default();
        let slips = slips(&text, &phrases);
        found.extend(
            slips
                .iter()
                .map(|slip| format!("{}:{slip}", path.display())),
        );
    }
    assert!(found.is_empty(), "{}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn every_phrase_is_found() {
    let phrases = phrases();
    let bad = [
        "`x` is no number",
        "the key stands twice",
        "what to mend",
        "the user is told",
        "what it says of itself",
        "at most so many",
        "after the last beginning",
        "the turn comes to its end",
        "a session to go on with",
        "a report of before",
        "that is no news",
        "what it lacks",
        "look here, too.",
        "nobody is there",
        "an agent that keeps its word",
        "it lies in the directory",
        "judge the judge",
    ];
    assert_eq!(bad.len(), phrases.len());
    for (text, (phrase, _)) in bad.iter().zip(&phrases) {
        assert!(phrase.find(text).is_some(), "{text}");
    }
    let good =
        "This is no longer needed. There is no fix. It stands alone. At the beginning of a line.";
    assert_eq!(slips(good, &phrases), [""; 0]);
}
