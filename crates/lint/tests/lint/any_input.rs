//! Linting arbitrary text and bytes never panics, and fixes never add errors.

use std::path::PathBuf;

use crate::common::base_dir;
use agentproto_lint::{
    Finding, LintOptions, Profile, RuleSet, Severity, fix_documents, lint_document, lint_files,
};
use agentproto_manifest::{Disk, Doctype, Document, FileSource, Overlay, Workspace};
use proptest::prelude::*;

fn rules() -> RuleSet {
    RuleSet::profile_defaults(Profile::Default)
}

/// Asserts what must be true for every finding of every text.
fn sound(doc: &Document, findings: &[Finding]) {
    for finding in findings {
        let span = finding.span;
        assert!(span.start <= span.end, "{finding:?}");
        assert!(
            doc.text.get(span.range()).is_some(),
            "{finding:?}\n{:?}",
            doc.text
        );
        assert!(
            finding.pointer.is_empty() || doc.at_pointer(&finding.pointer).is_some(),
            "{finding:?}\n{:?}",
            doc.text
        );
        assert_ne!(finding.rule.slug, "internal-fault");
        for edit in finding.fix.iter().flat_map(|f| &f.edits) {
            assert!(doc.text.get(edit.span.range()).is_some(), "{finding:?}");
        }
        for place in finding.related.iter().filter(|r| r.file == doc.path) {
            assert!(doc.text.get(place.span.range()).is_some(), "{finding:?}");
        }
    }
}

fn lint_text(doctype: Doctype, text: &str) {
    let path = base_dir().join("harbor").join(doctype.file_name());
    let doc = Document::parse(&path, text.to_owned());
    let workspace = Workspace::new(&Disk, base_dir());
    sound(
        &doc,
        &lint_document(&doc, &workspace, &rules(), None, &|_| false),
    );
}

/// Pieces of manifests in random order.
fn scraps() -> impl Strategy<Value = String> {
    let scrap = prop_oneof![
        Just("---\n".to_owned()),
        Just("# agentproto: ignore[fm-enum, x] y\n".to_owned()),
        "(name|id|version|bin|install|auth|sandbox|protocol|acp|modes|options|commands|secrets|provider|config|runtime|inputs|continuation|session|setup): ",
        "[ ]{0,4}- (id|method|cmd|kind|ref|default|env|slug): ",
        r#"([a-zé"'&*!\[\]{},#|>]|\n  |\\n|: | ){0,12}"#,
        "(\\./ACP\\.md|\\.\\./\\.\\./x|>=1\\.2 <3|1\\.2\\.3|acp|true|null|-5|no|\\{value\\})\n",
        Just("\n".to_owned()),
        Just("\r\n".to_owned()),
    ];
    prop::collection::vec(scrap, 0..30).prop_map(|parts| format!("---\n{}\n---\n", parts.concat()))
}

/// A fixture with some lines removed, repeated or replaced.
fn mutated() -> impl Strategy<Value = (PathBuf, String)> {
    let mut files = Vec::new();
    crate::common::markdown_below(&base_dir(), &mut files);
    files.sort();
    let cut = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        scraps(),
        0..4u8,
    );
    (
        prop::sample::select(files),
        prop::collection::vec(cut, 1..4),
    )
        .prop_map(|(path, cuts)| {
            let mut text = std::fs::read_to_string(&path).expect("a fixture");
            for (from, len, scrap, how) in cuts {
                let lines: Vec<&str> = text.split_inclusive('\n').collect();
                let (from, len) = (from.index(lines.len()), len.index(3) + 1);
                let end = (from + len).min(lines.len());
                let piece = lines[from..end].concat();
                let middle = match how {
                    0 => String::new(),
                    1 => piece.repeat(2),
                    2 => scrap.trim_start_matches("---\n").to_owned(),
                    _ => piece.replacen(|c: char| c.is_ascii_alphabetic(), "Ü", 1),
                };
                text = format!(
                    "{}{middle}{}",
                    lines[..from].concat(),
                    lines[end..].concat()
                );
            }
            (path, text)
        })
}

fn errors(findings: &[Finding]) -> usize {
    let error = |f: &&Finding| f.severity == Severity::Error && f.counts();
    findings.iter().filter(error).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_can_be_linted(text in any::<String>(), which in 0..8usize) {
        lint_text(Doctype::ALL[which], &text);
        lint_text(Doctype::ALL[which], &format!("---\n{text}\n---\n"));
    }

    #[test]
    fn any_pieces_of_manifests_can_be_linted(text in scraps()) {
        for doctype in Doctype::ALL {
            lint_text(doctype, &text);
        }
    }

    #[test]
    fn any_bytes_can_be_linted(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let doc = Document::from_bytes("AGENT-CLI.md", bytes);
        let workspace = Workspace::new(&Disk, base_dir());
        sound(&doc, &lint_document(&doc, &workspace, &rules(), None, &|_| false));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fixes_add_no_errors_and_are_idempotent((path, text) in mutated()) {
        let rules = rules();
        let mut files = Overlay::new(&Disk);
        files.texts.insert(path.clone(), Some(text.clone()));
        let paths = [path.clone()];
        let options = LintOptions::new(&rules, &files, base_dir());
        let before = lint_files(&paths, &options);
        sound(&Document::parse(&path, text), &before.findings);
        let fixed = fix_documents(&paths, &options, true);
        prop_assert!(errors(&fixed.report.findings) <= errors(&before.findings));
        let mut after = Overlay::new(&Disk);
        after.texts = files.texts.clone();
        for change in &fixed.changed {
            after.texts.insert(change.path.clone(), Some(change.new.clone()));
        }
        let options = LintOptions::new(&rules, &after, base_dir());
        let again = fix_documents(&paths, &options, true);
        prop_assert!(again.changed.is_empty(), "{:?}", again.changed);
        prop_assert!(after.read(&path).is_ok());
    }
}
