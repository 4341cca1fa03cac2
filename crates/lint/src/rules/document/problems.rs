//! Findings for the problems that prevent reading a file, and for YAML oddities.

use super::*;
use crate::context::{Draft, Place, conclude};
use crate::finding::{Edit, Finding, Safety};
use crate::rule::{FixKind, Level, Rule, Severity, Source};
use crate::settings::RuleSet;
use agentproto_manifest::{Doctype, Document, Oddity, OddityKind, Problem, ProblemKind, Span};
use agentproto_text::closest_of;

pub static FM_MISSING: Rule = Rule {
    slug: "fm-missing",
    title: "The file has no frontmatter",
    level: Level::Must,
    source: FRONTMATTER,
    decides: &["A29-FM-01"],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    docs: include_str!("fm-missing.md"),
    ..Rule::BASE
};

pub static FM_DELIMITERS: Rule = Rule {
    slug: "fm-delimiters",
    title: "A `---` line of the frontmatter is missing or misplaced",
    level: Level::Must,
    source: FRONTMATTER,
    decides: &["A29-FM-01"],
    doctypes: &Doctype::ALL,
    fix: FixKind::Safe,
    docs: include_str!("fm-delimiters.md"),
    ..Rule::BASE
};

pub static FM_YAML_SYNTAX: Rule = Rule {
    slug: "fm-yaml-syntax",
    title: "The frontmatter is not valid YAML",
    level: Level::Must,
    source: FRONTMATTER,
    decides: &["A29-FM-01"],
    doctypes: &Doctype::ALL,
    docs: include_str!("fm-yaml-syntax.md"),
    ..Rule::BASE
};

pub static FM_NOT_MAPPING: Rule = Rule {
    slug: "fm-not-mapping",
    title: "The frontmatter is not a mapping",
    level: Level::Must,
    source: FRONTMATTER,
    decides: &["A29-FM-01"],
    doctypes: &Doctype::ALL,
    docs: include_str!("fm-not-mapping.md"),
    ..Rule::BASE
};

pub static FM_DUPLICATE_KEY: Rule = Rule {
    slug: "fm-duplicate-key",
    title: "A mapping contains a duplicate key",
    level: Level::Must,
    source: Source {
        spec: "YAML 1.2",
        section: "3.2.1.3 Node comparison",
    },
    decides: &["A29-FM-01"],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    docs: include_str!("fm-duplicate-key.md"),
    ..Rule::BASE
};

pub static FM_ENCODING: Rule = Rule {
    slug: "fm-encoding",
    title: "The file is not UTF-8",
    level: Level::Must,
    source: OWN,
    doctypes: &Doctype::ALL,
    docs: include_str!("fm-encoding.md"),
    ..Rule::BASE
};

pub static FM_DOCTYPE_UNKNOWN: Rule = Rule {
    slug: "fm-doctype-unknown",
    title: "Neither the file name nor the fields identify the format of the manifest",
    level: Level::Must,
    source: OWN,
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    docs: include_str!("fm-doctype-unknown.md"),
    ..Rule::BASE
};

pub static FM_YAML11_SCALAR: Rule = Rule {
    slug: "fm-yaml11-scalar",
    title: "YAML 1.1 and YAML 1.2 read this value differently",
    severity: Severity::Warning,
    level: Level::Derived,
    source: Source {
        spec: "YAML 1.2",
        section: "10.3 Core schema",
    },
    doctypes: &Doctype::ALL,
    fix: FixKind::Safe,
    docs: include_str!("fm-yaml11-scalar.md"),
    ..Rule::BASE
};

pub static FM_YAML_FEATURE: Rule = Rule {
    slug: "fm-yaml-feature",
    title: "The frontmatter uses anchors, aliases, merge keys or tags",
    severity: Severity::Warning,
    level: Level::Derived,
    source: Source {
        spec: "YAML 1.2",
        section: "6.9 Node properties",
    },
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    docs: include_str!("fm-yaml-feature.md"),
    ..Rule::BASE
};

const FRONTMATTER: Source = Source {
    spec: "AIP-29",
    section: "Frontmatter",
};

/// Maximum number of YAML oddities reported per file. The last one gives the number of the rest.
const MOST_ODDITIES: usize = 20;

/// Findings for the problems that prevent reading a file. They do not depend on the doctype.
pub fn problem_findings(doc: &Document, rules: &RuleSet) -> Vec<Finding> {
    let known = doc.doctype.is_some() || doc.root.is_none();
    if doc.problems.is_empty() && doc.oddities.is_empty() && known {
        return Vec::new();
    }
    let mut drafts = Vec::new();
    let unclosed = doc
        .problems
        .iter()
        .any(|p| p.kind == ProblemKind::FenceUnclosed);
    for problem in &doc.problems {
        // Without a closing fence the body is read as YAML, so the other problems are irrelevant.
        if !unclosed || problem.kind == ProblemKind::FenceUnclosed {
            drafts.push(of_problem(doc, problem));
        }
    }
    if !unclosed {
        of_oddities(doc, &mut drafts);
    }
    if !known {
        drafts.push(doctype_unknown(doc));
    }
    drafts
        .into_iter()
        .filter_map(|draft| {
            let severity = rules.severity(draft.rule())?;
            Some(conclude(doc, draft, severity))
        })
        .collect()
}

fn of_problem<'d>(doc: &'d Document, problem: &Problem) -> Draft<'d> {
    let here = || Place::Bytes(problem.span);
    let message = problem.message.as_str();
    match problem.kind {
        ProblemKind::Missing => missing(doc, problem),
        ProblemKind::Empty => Draft::new(&FM_MISSING, here(), message)
            .help("write the fields between the two `---` lines"),
        ProblemKind::FenceNotFirst => {
            let draft = Draft::new(&FM_DELIMITERS, here(), message)
                .help("remove everything before it, except a byte order mark");
            match fences::leading(doc, problem.span) {
                Some((title, edits)) => draft.fix(Safety::Safe, title, edits),
                None => draft,
            }
        }
        ProblemKind::FenceUnclosed => match fences::closing(doc) {
            Some(p) => {
                let draft = Draft::new(&FM_DELIMITERS, here(), p.message)
                    .nearby(p.at, "the closing `---` belongs here");
                draft.fix(Safety::Safe, p.title, p.edits)
            }
            None => Draft::new(&FM_DELIMITERS, here(), message)
                .help("end the fields with a line that is exactly `---`"),
        },
        ProblemKind::NotUtf8 => {
            Draft::new(&FM_ENCODING, here(), message).help("save the file as UTF-8")
        }
        ProblemKind::Syntax => syntax(problem),
        ProblemKind::MultipleDocuments => Draft::new(&FM_YAML_SYNTAX, here(), message)
            .help("keep one document: a `---` line inside the frontmatter starts another one"),
        ProblemKind::TooDeep | ProblemKind::TooManyNodes => {
            Draft::new(&FM_YAML_SYNTAX, here(), message)
                .help("split the manifest, or remove the aliases")
        }
        ProblemKind::NotMapping => {
            let found = match doc.slice(problem.span).chars().next() {
                Some('-' | '[') => "a list",
                _ => "a single value",
            };
            Draft::new(
                &FM_NOT_MAPPING,
                here(),
                format!("the frontmatter is {found}, not a mapping of fields"),
            )
            .help("write one `field: value` per line")
        }
        ProblemKind::DuplicateKey => duplicate(doc, problem),
        ProblemKind::KeyNotString => Draft::new(&FM_TYPE, here(), message)
            .help("use a string as the key, and quote it if it starts with `[` or `{`"),
    }
}

fn missing<'d>(doc: &'d Document, problem: &Problem) -> Draft<'d> {
    if let Some(proposal) = fences::opening(doc) {
        return Draft::new(&FM_DELIMITERS, proposal.at, proposal.message)
            .help("make the first line of the file exactly `---`")
            .fix(Safety::Safe, proposal.title, proposal.edits);
    }
    let text = doc.text.trim_start_matches('\u{feff}');
    let message = if text.trim().is_empty() {
        "the file is empty"
    } else {
        problem.message.as_str()
    };
    let help = if text.starts_with("+++") {
        "replace the TOML (`+++`) with YAML between two `---` lines"
    } else {
        "start the file with a `---` line, the fields, and a second `---` line"
    };
    Draft::new(&FM_MISSING, problem.span, message).help(help)
}

fn duplicate<'d>(doc: &'d Document, problem: &Problem) -> Draft<'d> {
    let first = problem.related.as_ref();
    // The tree contains only the first of the two keys, but both have the same pointer.
    let entry = match (&doc.root, first) {
        (Some(root), Some((span, _))) => find(root, *span),
        _ => None,
    };
    let place = match entry {
        Some(Place::Key(entry)) => Place::Part(&entry.value, problem.span),
        _ => Place::Bytes(problem.span),
    };
    let draft = Draft::new(&FM_DUPLICATE_KEY, place, problem.message.as_str())
        .help("remove one of the two: YAML parsers disagree on which value counts");
    match first {
        Some((span, note)) => draft.nearby(*span, note.as_str()),
        None => draft,
    }
}

fn syntax<'d>(problem: &Problem) -> Draft<'d> {
    let message = problem.message.as_str();
    // After an unclosed bracket the parser fails much later, but the bracket is the place to fix.
    if let Some((bracket, note)) = &problem.related
        && ["flow", "bracket", "eof", "expected ':'"]
            .iter()
            .any(|sign| message.contains(sign))
    {
        return Draft::new(
            &FM_YAML_SYNTAX,
            *bracket,
            format!("the frontmatter is not valid YAML: {note}"),
        )
        .nearby(problem.span, "the YAML parser failed here")
        .help("close it, or quote the value if the bracket is part of the text");
    }
    let cause = CAUSES.iter().find(|cause| message.contains(cause.sign));
    match cause {
        Some(cause) => Draft::new(
            &FM_YAML_SYNTAX,
            problem.span,
            format!("the frontmatter is not valid YAML: {}", cause.what),
        )
        .help(cause.help),
        None => Draft::new(&FM_YAML_SYNTAX, problem.span, message),
    }
}

/// An explanation of a parser error for the authors of manifests.
struct Cause {
    sign: &'static str,
    what: &'static str,
    help: &'static str,
}

/// The first cause whose `sign` is in the parser's message applies.
const CAUSES: &[Cause] = &[
    Cause {
        sign: "mapping values are not allowed",
        what: "`: ` is not allowed here",
        help: "quote a value that contains `: `, and indent the line like its neighbors",
    },
    Cause {
        sign: "tab",
        what: "a tab is used where YAML allows only spaces",
        help: "indent with spaces",
    },
    Cause {
        sign: "unknown escape character",
        what: "a string in double quotes contains an unknown escape sequence",
        help: "write patterns in single quotes, where a backslash has no special meaning: '(\\d+)'",
    },
    Cause {
        sign: "anchor",
        what: "a value starts with `*` or `&`, which YAML uses for aliases and anchors",
        help: "quote the value",
    },
    Cause {
        sign: "unexpected character",
        what: "a value starts with a character that YAML reserves",
        help: "quote a value that starts with `@`, `%` or a backtick",
    },
    Cause {
        sign: "quoted scalar, found unexpected end",
        what: "a quoted string is not closed",
        help: "close the quote on the same line",
    },
    Cause {
        sign: "invalid indentation in quoted scalar",
        what: "a quoted string continues into the next field",
        help: "close the quote on the same line",
    },
    Cause {
        sign: "block sequence entries are not allowed",
        what: "a list starts on the line of its key",
        help: "put the items on their own lines, below the key",
    },
    Cause {
        sign: "tag",
        what: "a value starts with `!`, which YAML uses for tags",
        help: "quote the value",
    },
    Cause {
        sign: "did not find expected key",
        what: "this line is not indented like its neighbors",
        help: "start the keys of a mapping, and the items of a list, in the same column",
    },
    Cause {
        sign: "expected '-' indicator",
        what: "a line between the items of a list is not an item",
        help: "start the items of a list with `- ` in the same column",
    },
    Cause {
        sign: "indent",
        what: "the indentation is inconsistent",
        help: "indent this line like its neighbors",
    },
    Cause {
        sign: "':'",
        what: "a key has no colon, here or on the line above",
        help: "write `key: value`, with a space after the colon",
    },
];

fn of_oddities<'d>(doc: &'d Document, drafts: &mut Vec<Draft<'d>>) {
    let more = doc.oddities.len().saturating_sub(MOST_ODDITIES);
    for (i, oddity) in doc.oddities.iter().take(MOST_ODDITIES).enumerate() {
        let rest = match more {
            n if n > 0 && i + 1 == MOST_ODDITIES => format!(" (and {n} more in this file)"),
            _ => String::new(),
        };
        drafts.push(of_oddity(doc, *oddity, &rest));
    }
}

fn of_oddity<'d>(doc: &'d Document, oddity: Oddity, rest: &str) -> Draft<'d> {
    let place = doc.root.as_ref().and_then(|root| find(root, oddity.span));
    let text = doc.slice(oddity.span);
    let feature = |what: &str, help: &str| {
        let place = place.clone().unwrap_or(Place::Bytes(oddity.span));
        Draft::new(&FM_YAML_FEATURE, place, format!("{what}{rest}")).help(help)
    };
    match oddity.kind {
        OddityKind::Anchor => feature(
            "the frontmatter contains an anchor (`&name`)",
            "remove it and repeat the value where it is used",
        ),
        OddityKind::Alias => feature(
            "the frontmatter contains an alias (`*name`)",
            "replace it with the value",
        ),
        OddityKind::MergeKey => feature(
            "the frontmatter contains a merge key (`<<`)",
            "replace it with the merged fields",
        ),
        OddityKind::Tag => feature(
            "the frontmatter contains a tag (`!name`)",
            "remove the tag, or quote the value if `!` is part of it",
        ),
        OddityKind::Yaml11 => yaml11(place, text, oddity.span, rest),
    }
}

fn yaml11<'d>(place: Option<Place<'d>>, text: &str, span: Span, rest: &str) -> Draft<'d> {
    // Where YAML 1.2 reads a string, quotes keep the meaning and make it the same in YAML 1.1.
    let is_text = match &place {
        Some(Place::Value(node)) => node.as_str().is_some(),
        Some(Place::Key(entry)) => entry.key_kind == KeyKind::Str,
        _ => false,
    };
    let here = place.unwrap_or(Place::Bytes(span));
    if !is_text {
        return Draft::new(
            &FM_YAML11_SCALAR,
            here,
            format!(
                "`{text}` is a decimal number in YAML 1.2 and an octal number in YAML 1.1{rest}"
            ),
        )
        .help("remove the leading zero, or quote the value if it is a string");
    }
    let other = match text.as_bytes().first() {
        Some(b'0'..=b'9' | b'+' | b'-') => "a number",
        _ => "a boolean",
    };
    Draft::new(
        &FM_YAML11_SCALAR,
        here,
        format!("`{text}` is a string in YAML 1.2 and {other} in YAML 1.1{rest}"),
    )
    .help(format!("quote it: \"{text}\""))
    .fix(
        Safety::Safe,
        format!("Quote `{text}`"),
        vec![Edit {
            span,
            text: format!("\"{text}\""),
        }],
    )
}

/// The key or value at exactly these bytes.
fn find(node: &Node, span: Span) -> Option<Place<'_>> {
    if node.span == span && !node.is_map() {
        return Some(Place::Value(node));
    }
    match &node.value {
        Value::Map(entries) => entries.iter().find_map(|entry| {
            if entry.key_span == span {
                Some(Place::Key(entry))
            } else {
                find(&entry.value, span)
            }
        }),
        Value::Seq(items) => items.iter().find_map(|item| find(item, span)),
        _ => None,
    }
}

fn doctype_unknown(doc: &Document) -> Draft<'_> {
    let open = doc.front.map_or(Span::default(), |front| front.open);
    let name = doc.path.file_name().and_then(|n| n.to_str()).unwrap_or("");
    let names = Doctype::ALL.map(Doctype::file_name);
    let help = match closest_of(name, names) {
        Some(meant) => format!("did you mean to name it `{meant}`? File names are case-sensitive"),
        None => format!(
            "name it after its format ({}), optionally with a prefix such as `NAME.ACP.md`, or do not lint it",
            names.join(", ")
        ),
    };
    Draft::new(
        &FM_DOCTYPE_UNKNOWN,
        open,
        "cannot determine the format of this manifest from its file name or its fields",
    )
    .help(help)
}
