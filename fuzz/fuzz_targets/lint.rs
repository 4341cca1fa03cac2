//! Any text as any doctype: rules end without panic, their places lie inside the file, and
//! fixes never make it worse.
#![no_main]

use agentproto::lint::{Options, Profile, RuleSet, Severity, fix, lint_files};
use agentproto::manifest::{Disk, Overlay};
use libfuzzer_sys::fuzz_target;

const NAMES: [&str; 8] = [
    "CLI.md", "AGENT-CLI.md", "ACP.md", "SANDBOX.md", "SECRETS.md", "RUNNER.md", "TOOL.md", "OPERATOR.md",
];

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let name = NAMES[usize::from(*first) % NAMES.len()];
    let path = std::path::PathBuf::from("bundle").join(name);
    let mut files = Overlay::new(&Disk);
    files.texts.insert(path.clone(), Some(format!("---\n{text}\n---\n")));
    let rules = RuleSet::profile_defaults(Profile::Default);
    let options = Options::new(&rules, &files, "bundle");
    let before = lint_files(std::slice::from_ref(&path), &options);
    for finding in &before.findings {
        assert!(finding.rule.slug != "internal-fault");
        if let Some(doc) = before.source(&finding.file) {
            assert!(doc.text.get(finding.span.range()).is_some());
        }
    }
    let outcome = fix::fix_documents(std::slice::from_ref(&path), &options, true);
    assert!(outcome.report.count(Severity::Error) <= before.count(Severity::Error));
});
