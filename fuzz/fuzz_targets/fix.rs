//! Applies safe fixes, and all fixes, to any text as any doctype. They must not add errors, make
//! the file unreadable or lose comments, and a second run must not change anything.
#![no_main]

mod bundle;

use agentproto_lint::{LintOptions, Severity, fix_documents, lint_files};
use agentproto_manifest::comments::comments;
use agentproto_manifest::{Document, Overlay};
use bundle::Bundle;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(bundle) = Bundle::new(data) else {
        return;
    };
    for unsafe_too in [false, true] {
        apply_fixes(&bundle, unsafe_too);
    }
});

fn apply_fixes(bundle: &Bundle, unsafe_too: bool) {
    let paths = std::slice::from_ref(&bundle.path);
    let options = LintOptions::new(&bundle.rules, &bundle.files, "bundle");
    let before = lint_files(paths, &options);
    let outcome = fix_documents(paths, &options, unsafe_too);
    let errors = outcome.report.count(Severity::Error);
    assert!(errors <= before.count(Severity::Error));
    let Some(changed) = outcome.changed.first() else {
        return;
    };

    let old = Document::parse(&bundle.path, changed.old.clone());
    let new = Document::parse(&bundle.path, changed.new.clone());
    assert!(new.root.is_some() >= old.root.is_some(), "{}", new.text);
    assert!(new.problems.len() <= old.problems.len(), "{}", new.text);
    let kept = comment_texts(&new);
    for comment in comment_texts(&old) {
        // A new fence can move a comment to the body.
        let there =
            kept.contains(&comment) || (!old.problems.is_empty() && new.text.contains(&comment));
        assert!(there, "{comment} is lost:\n{}", new.text);
    }

    let mut files = Overlay::new(&bundle.files);
    files
        .texts
        .insert(bundle.path.clone(), Some(changed.new.clone()));
    let options = LintOptions::new(&bundle.rules, &files, "bundle");
    let again = fix_documents(paths, &options, unsafe_too);
    assert_eq!(again.changed, [], "a second run changes more");
    assert_eq!(again.report.count(Severity::Error), errors);
}

/// All comments that fixes must keep. An unused ignore comment may be removed.
fn comment_texts(doc: &Document) -> Vec<String> {
    let own = comments(doc).into_iter().map(|span| doc.slice(span));
    own.filter(|text| !text.contains("agentproto:"))
        .map(str::to_owned)
        .collect()
}
