//! Reports for tests of the renderers: from fixtures, and one that covers all special cases.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentproto_lint::render::Meta;
use agentproto_lint::{
    Edit, Finding, Fix, FixKind, Level, LintOptions, Profile, Related, Report, Rule, RuleSet,
    Safety, Scope, Severity, Source, lint_files,
};
use agentproto_manifest::{Disk, Doctype, Document, Span};

pub static LEASH: Rule = Rule {
    slug: "leash-length",
    title: "The leash is too long",
    severity: Severity::Error,
    level: Level::Must,
    source: Source {
        spec: "AIP-45",
        section: "Conformance",
    },
    decides: &["A45-CONF-01"],
    doctypes: &[Doctype::AgentCli],
    scope: Scope::CrossFile,
    fix: FixKind::Safe,
    docs: "# leash-length\n\n\
           ## What it checks\n\nThe leash is not longer than the harbor allows.\n\n\
           ## Why\n\nA long leash ends in the propeller.\n\n\
           ## Example\n\nOver `harbor/AGENT-CLI.md`:\n\n```yaml\nleash: 90\n```\n\n\
           ## Use instead\n\nOver `harbor/AGENT-CLI.md`:\n\n```yaml\nleash: 9\n```\n\n\
           ## Notes\n\nC99: two texts give different lengths. This rule uses the shorter one.\n",
    ..Rule::BASE
};

pub static FEATHER: Rule = Rule {
    slug: "feather-count",
    title: "Feathers are not counted",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source {
        spec: "AIP-36",
        section: "Limits",
    },
    fix: FixKind::Unsafe,
    ..Rule::BASE
};

pub static WHIM: Rule = Rule {
    slug: "whim",
    title: "A matter of taste",
    severity: Severity::Info,
    level: Level::Derived,
    source: Source {
        spec: "agentproto",
        section: "Taste",
    },
    ..Rule::BASE
};

pub fn meta(base: &Path) -> Meta {
    Meta {
        version: "0.0.0-test".to_owned(),
        base: Some(base.to_owned()),
        elapsed: Duration::from_millis(12),
        width: 100,
        ..Meta::default()
    }
}

/// A directory of `fixtures/`, linted from disk.
pub fn fixture(dir: &Path) -> Report {
    let mut paths = Vec::new();
    super::markdown_below(dir, &mut paths);
    paths.sort();
    let rules = RuleSet::profile_defaults(Profile::Default);
    let options = LintOptions::new(&rules, &Disk, dir.to_owned());
    lint_files(&paths, &options)
}

/// A finding at the first occurrence of `needle`.
pub fn at(doc: &Document, rule: &'static Rule, needle: &str, message: &str) -> Finding {
    finding(doc, rule, span_of(doc, needle), message)
}

pub fn span_of(doc: &Document, needle: &str) -> Span {
    let start = doc.text.find(needle).expect("the needle is in the text");
    Span::new(start, start + needle.len())
}

pub fn finding(doc: &Document, rule: &'static Rule, span: Span, message: &str) -> Finding {
    Finding {
        rule,
        source: rule.source,
        severity: rule.severity,
        message: message.to_owned(),
        help: None,
        file: doc.path.clone(),
        span,
        start: doc.position(span.start),
        end: doc.position(span.end),
        pointer: String::new(),
        related: Vec::new(),
        fix: None,
        suppressed: None,
    }
}

pub fn related(doc: &Document, span: Span, message: &str) -> Related {
    Related {
        file: doc.path.clone(),
        span,
        start: doc.position(span.start),
        end: doc.position(span.end),
        message: message.to_owned(),
    }
}

pub fn report(documents: Vec<Document>, mut findings: Vec<Finding>) -> Report {
    findings.sort_by(Finding::order);
    let mut sources: Vec<(PathBuf, Arc<Document>)> = documents
        .into_iter()
        .map(|doc| (doc.path.clone(), Arc::new(doc)))
        .collect();
    sources.sort_by(|a, b| a.0.cmp(&b.0));
    let mut files: Vec<PathBuf> = sources.iter().map(|(path, _)| path.clone()).collect();
    files.extend(findings.iter().map(|f| f.file.clone()));
    files.sort();
    files.dedup();
    Report {
        findings,
        files,
        sources,
    }
}

/// A report with all special cases: unusual places, line endings and characters, and a file that
/// cannot be read.
pub fn odd() -> Report {
    let long = "x".repeat(400);
    let main = Document::parse(
        "kennel/AGENT-CLI.md",
        format!(
            "---\nname: rex\nleash: 90\n\tcollar:\tred\nbark: \u{1b}[31mloud\u{202e}\n\
             wide: 日本語 🦀 wuff\nlong: {long} needle {long}\nblock:\n  - a\n  - b\n\n\
             many:\n  - 1\n  - 2\n  - 3\n  - 4\n  - 5\n  - 6\n  - 7\n  - 8\n  - 9\nlast: x\n---\n"
        ),
    );
    let dos = Document::parse(
        "kennel/ACP.md",
        "\u{feff}---\r\nname: rex\r\nkind: dog\r\n---".to_owned(),
    );
    let clean = Document::parse("kennel/SANDBOX.md", "---\nname: rex\n---\n".to_owned());

    let mut leash = at(&main, &LEASH, "90", "`leash` must be at most 10, found 90");
    leash.help = Some("Write a length from 1 to 10.\nThe harbor measures in meters.".to_owned());
    leash.pointer = "/leash".to_owned();
    leash.related = vec![
        related(&main, span_of(&main, "rex"), "of this dog"),
        related(&dos, span_of(&dos, "dog"), "the intended kind"),
        related(&main, span_of(&main, "last"), "far below"),
    ];
    leash.fix = Some(Fix {
        safety: Safety::Safe,
        title: "Write `9`".to_owned(),
        edits: vec![Edit {
            span: leash.span,
            text: "9".to_owned(),
        }],
    });
    let mut tab = at(&main, &FEATHER, "red", "a tab: \t and 100%, or: so");
    tab.fix = Some(Fix {
        safety: Safety::Unsafe,
        title: "Add a feather".to_owned(),
        edits: vec![
            Edit {
                span: Span::empty(tab.span.end as usize),
                text: "\nfeathers: 1".to_owned(),
            },
            Edit {
                span: tab.span,
                text: String::new(),
            },
        ],
    });
    let mut suppressed = at(&main, &FEATHER, "name", "no feathers");
    suppressed.suppressed = Some("it is a dog".to_owned());
    let mut known = at(&main, &WHIM, "rex", "a plain name");
    known.suppressed = Some("baseline".to_owned());
    let start = main.text.find("many").expect("in the text");
    let end = main.text.find("last").expect("in the text");
    let findings = vec![
        leash,
        tab,
        suppressed,
        known,
        at(&main, &WHIM, "loud", "says \u{1b}[2J\u{7}\nand more"),
        at(&main, &WHIM, "🦀", "not a dog"),
        at(&main, &FEATHER, "needle", "a needle in a long line"),
        at(&main, &FEATHER, "- a\n  - b\n", "a block"),
        finding(&main, &FEATHER, Span::new(start, end), "a long block"),
        finding(&main, &LEASH, Span::empty(main.text.len()), "at the end"),
        finding(&dos, &LEASH, Span::new(0, 6), "the fence"),
        at(&dos, &FEATHER, "dog\r\n", "over the line end"),
        finding(&dos, &WHIM, Span::empty(dos.text.len()), "at the end"),
        finding(
            &Document::parse("kennel/gone\n.md", String::new()),
            &LEASH,
            Span::default(),
            "the file cannot be read",
        ),
    ];
    report(vec![main, dos, clean], findings)
}
