//! Lints any text as any doctype. Rules must not panic, their places must be inside the files,
//! their pointers must exist, and every format must render them.
#![no_main]

mod bundle;

use agentproto_lint::render::{Format, Meta, render};
use agentproto_lint::{LintOptions, lint_files};
use bundle::Bundle;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(bundle) = Bundle::new(data) else {
        return;
    };
    let options = LintOptions::new(&bundle.rules, &bundle.files, "bundle");
    let report = lint_files(std::slice::from_ref(&bundle.path), &options);
    for finding in &report.findings {
        assert!(finding.rule.slug != "internal-fault");
        let doc = report
            .source(&finding.file)
            .expect("the text of every finding is kept");
        assert!(doc.text.get(finding.span.range()).is_some(), "{finding:#?}");
        if !finding.pointer.is_empty() {
            assert!(doc.at_pointer(&finding.pointer).is_some(), "{finding:#?}");
        }
        for related in &finding.related {
            let doc = report
                .source(&related.file)
                .expect("the text of every place is kept");
            assert!(doc.text.get(related.span.range()).is_some(), "{finding:#?}");
        }
        for edit in finding.fix.iter().flat_map(|fix| &fix.edits) {
            assert!(doc.text.get(edit.span.range()).is_some(), "{finding:#?}");
        }
    }
    for &format in Format::ALL {
        render(format, &report, &Meta::default(), &mut std::io::sink())
            .expect("a sink accepts everything");
    }
});
