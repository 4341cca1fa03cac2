//! Findings for the problems that prevent reading a file, and for YAML quirks.

use super::*;
use crate::context::{FindingDraft, Location, finish_draft};
use crate::finding::{Edit, Finding, Safety};
use crate::rule::{FixKind, Level, Rule, Severity, Source};
use crate::settings::RuleSet;
use agentproto_manifest::{
    Doctype, Document, Problem, ProblemKind, Span, YamlQuirk, YamlQuirkKind,
};
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

/// Maximum number of YAML quirks reported per file. The last one gives the number of the rest.
const MAX_QUIRKS: usize = 20;

/// Findings for the problems that prevent reading a file. They do not depend on the doctype.
pub fn problem_findings(doc: &Document, rules: &RuleSet) -> Vec<Finding> {
    let known = doc.doctype.is_some() || doc.root.is_none();
    if doc.problems.is_empty() && doc.quirks.is_empty() && known {
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
            drafts.push(problem_draft(doc, problem));
        }
    }
    if !unclosed {
        push_quirks(doc, &mut drafts);
    }
    let is_other_format = doc
        .problems
        .iter()
        .any(|p| other_format_of(doc, p).is_some());
    if !known && !is_other_format {
        drafts.push(doctype_unknown(doc));
    }
    drafts
        .into_iter()
        .filter_map(|draft| {
            let severity = rules.severity(draft.rule())?;
            Some(finish_draft(doc, draft, severity))
        })
        .collect()
}

fn problem_draft<'d>(doc: &'d Document, problem: &Problem) -> FindingDraft<'d> {
    let here = || Location::Bytes(problem.span);
    let message = problem.message.as_str();
    if let Some(name) = other_format_of(doc, problem) {
        return other_format(doc, problem, name);
    }
    match problem.kind {
        ProblemKind::Missing => missing(doc, problem),
        ProblemKind::Empty => FindingDraft::new(&FM_MISSING, here(), message)
            .help("write the fields between the two `---` lines"),
        ProblemKind::FenceNotFirst => {
            let draft = FindingDraft::new(&FM_DELIMITERS, here(), message)
                .help("remove everything before it, except a byte order mark");
            match fences::leading(doc, problem.span) {
                Some((title, edits)) => draft.fix(Safety::Safe, title, edits),
                None => draft,
            }
        }
        ProblemKind::FenceUnclosed => match fences::closing(doc) {
            Some(p) => {
                let draft = FindingDraft::new(&FM_DELIMITERS, here(), p.message)
                    .nearby(p.at, "the closing `---` belongs here");
                draft.fix(Safety::Safe, p.title, p.edits)
            }
            None => FindingDraft::new(&FM_DELIMITERS, here(), message)
                .help("end the fields with a line that is exactly `---`"),
        },
        ProblemKind::NotUtf8 => {
            FindingDraft::new(&FM_ENCODING, here(), message).help("save the file as UTF-8")
        }
        ProblemKind::Syntax => syntax(problem),
        ProblemKind::MultipleDocuments => FindingDraft::new(&FM_YAML_SYNTAX, here(), message)
            .help("keep one document: a `---` line inside the frontmatter starts another one"),
        ProblemKind::TooDeep | ProblemKind::TooManyNodes => {
            FindingDraft::new(&FM_YAML_SYNTAX, here(), message)
                .help("split the manifest, or remove the aliases")
        }
        ProblemKind::NotMapping => {
            let found = match doc.slice(problem.span).chars().next() {
                Some('-' | '[') => "a list",
                _ => "a single value",
            };
            FindingDraft::new(
                &FM_NOT_MAPPING,
                here(),
                format!("the frontmatter is {found}, not a mapping of fields"),
            )
            .help("write one `field: value` per line")
        }
        ProblemKind::DuplicateKey => duplicate(doc, problem),
        ProblemKind::KeyNotString => FindingDraft::new(&FM_TYPE, here(), message)
            .help("use a string as the key, and quote it if it starts with `[` or `{`"),
    }
}

/// The name of a file without a frontmatter that is not Markdown, because of its extension.
fn other_format_of<'d>(doc: &'d Document, problem: &Problem) -> Option<&'d str> {
    let lacks_frontmatter = matches!(
        problem.kind,
        ProblemKind::Missing
            | ProblemKind::Empty
            | ProblemKind::FenceNotFirst
            | ProblemKind::FenceUnclosed
    );
    if !lacks_frontmatter {
        return None;
    }
    let extension = doc.path.extension()?.to_str()?;
    let is_markdown = ["md", "markdown", "mdx"]
        .iter()
        .any(|md| extension.eq_ignore_ascii_case(md));
    doc.path.file_name()?.to_str().filter(|_| !is_markdown)
}

/// A file in another format. A frontmatter would break it.
fn other_format<'d>(doc: &Document, problem: &Problem, name: &str) -> FindingDraft<'d> {
    let message = format!("`{name}` is not a Markdown file, so it is not a manifest");
    let is_yaml = name.ends_with(".yaml") || name.ends_with(".yml");
    let mut help = "`lint` checks manifests such as AGENT-CLI.md".to_owned();
    if is_yaml {
        let path = agentproto_text::shell(&[doc.path.to_string_lossy()]);
        help.push_str(&format!(
            "; to check a sandbox file, run `agentproto sandbox explain {path}`"
        ));
    }
    FindingDraft::new(&FM_MISSING, problem.span, message).help(help)
}

fn missing<'d>(doc: &'d Document, problem: &Problem) -> FindingDraft<'d> {
    if let Some(proposal) = fences::opening(doc) {
        return FindingDraft::new(&FM_DELIMITERS, proposal.at, proposal.message)
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
    FindingDraft::new(&FM_MISSING, problem.span, message).help(help)
}

fn duplicate<'d>(doc: &'d Document, problem: &Problem) -> FindingDraft<'d> {
    let first = problem.related.as_ref();
    // The tree contains only the first of the two keys, but both have the same pointer.
    let entry = match (&doc.root, first) {
        (Some(root), Some((span, _))) => find(root, *span),
        _ => None,
    };
    let place = match entry {
        Some(Location::Key(entry)) => Location::Part(&entry.value, problem.span),
        _ => Location::Bytes(problem.span),
    };
    let draft = FindingDraft::new(&FM_DUPLICATE_KEY, place, problem.message.as_str())
        .help("remove one of the two: YAML parsers disagree on which value counts");
    match first {
        Some((span, note)) => draft.nearby(*span, note.as_str()),
        None => draft,
    }
}

/// The parser's message says what is wrong (`manifest::yaml::cause`).
fn syntax<'d>(problem: &Problem) -> FindingDraft<'d> {
    let draft = FindingDraft::new(&FM_YAML_SYNTAX, problem.span, problem.message.as_str());
    let draft = match problem.help {
        Some(help) => draft.help(help),
        None => draft,
    };
    match &problem.related {
        Some((span, note)) => draft.nearby(*span, note.as_str()),
        None => draft,
    }
}

fn push_quirks<'d>(doc: &'d Document, drafts: &mut Vec<FindingDraft<'d>>) {
    let more = doc.quirks.len().saturating_sub(MAX_QUIRKS);
    for (i, quirk) in doc.quirks.iter().take(MAX_QUIRKS).enumerate() {
        let rest = match more {
            n if n > 0 && i + 1 == MAX_QUIRKS => format!(" (and {n} more in this file)"),
            _ => String::new(),
        };
        drafts.push(quirk_draft(doc, *quirk, &rest));
    }
}

fn quirk_draft<'d>(doc: &'d Document, quirk: YamlQuirk, rest: &str) -> FindingDraft<'d> {
    let place = doc.root.as_ref().and_then(|root| find(root, quirk.span));
    let text = doc.slice(quirk.span);
    let feature = |what: &str, help: &str| {
        let place = place.clone().unwrap_or(Location::Bytes(quirk.span));
        FindingDraft::new(&FM_YAML_FEATURE, place, format!("{what}{rest}")).help(help)
    };
    match quirk.kind {
        YamlQuirkKind::Anchor => feature(
            "the frontmatter contains an anchor (`&name`)",
            "remove it and repeat the value where it is used",
        ),
        YamlQuirkKind::Alias => feature(
            "the frontmatter contains an alias (`*name`)",
            "replace it with the value",
        ),
        YamlQuirkKind::MergeKey => feature(
            "the frontmatter contains a merge key (`<<`)",
            "replace it with the merged fields",
        ),
        YamlQuirkKind::Tag => feature(
            "the frontmatter contains a tag (`!name`)",
            "remove the tag, or quote the value if `!` is part of it",
        ),
        YamlQuirkKind::Yaml11 => yaml11(place, text, quirk.span, rest),
    }
}

fn yaml11<'d>(place: Option<Location<'d>>, text: &str, span: Span, rest: &str) -> FindingDraft<'d> {
    // Where YAML 1.2 reads a string, quotes keep the meaning and make it the same in YAML 1.1.
    let is_text = match &place {
        Some(Location::Value(node)) => node.as_str().is_some(),
        Some(Location::Key(entry)) => entry.key_kind == KeyKind::Str,
        // The value of a duplicate key is not in the tree. All digits: an octal number in YAML 1.1.
        _ => !text
            .trim_start_matches(['+', '-'])
            .bytes()
            .all(|b| b.is_ascii_digit()),
    };
    let here = place.unwrap_or(Location::Bytes(span));
    if !is_text {
        return FindingDraft::new(
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
    FindingDraft::new(
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
fn find(node: &Node, span: Span) -> Option<Location<'_>> {
    if node.span == span && !node.is_map() {
        return Some(Location::Value(node));
    }
    match &node.value {
        Value::Map(entries) => entries.iter().find_map(|entry| {
            if entry.key_span == span {
                Some(Location::Key(entry))
            } else {
                find(&entry.value, span)
            }
        }),
        Value::Seq(items) => items.iter().find_map(|item| find(item, span)),
        _ => None,
    }
}

fn doctype_unknown(doc: &Document) -> FindingDraft<'_> {
    let open = doc.frontmatter.map_or(Span::default(), |front| front.open);
    let name = doc.path.file_stem().and_then(|n| n.to_str()).unwrap_or("");
    let names = Doctype::ALL.map(Doctype::file_name);
    // Without the extension, which would make short names look more alike than they are.
    let stems = names.map(|name| name.trim_end_matches(".md"));
    let help = match closest_of(name, stems) {
        Some(meant) if meant.eq_ignore_ascii_case(name) => {
            format!("name it `{meant}.md`: file names are case-sensitive")
        }
        Some(meant) => format!("did you mean to name it `{meant}.md`?"),
        None => format!(
            "name it after its format ({}), optionally with a prefix such as `NAME.ACP.md`, or do not lint it",
            names.join(", ")
        ),
    };
    FindingDraft::new(
        &FM_DOCTYPE_UNKNOWN,
        open,
        "cannot determine the format of this manifest from its file name or its fields",
    )
    .help(help)
}
