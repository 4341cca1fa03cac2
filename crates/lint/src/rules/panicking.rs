//! A check that panics on purpose, to test how the linter handles a defective rule. It is part of
//! every build, so that the command-line tests can arm it. While unarmed, it costs one atomic load
//! per document.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::context::RuleContext;
use crate::registry::{Family, FamilyCheck};
use agentproto_manifest::Doctype;

/// Whether the check is armed, so that it panics on [`TRIGGER`].
pub static ARMED: AtomicBool = AtomicBool::new(false);

/// Frontmatter that makes the armed check panic.
pub const TRIGGER: &str = "metadata: {fail-on-purpose: true}";

pub static FAMILY: Family = Family {
    name: "faulty",
    rules: &[],
    checks: &[FamilyCheck {
        doctypes: &Doctype::ALL,
        run: check,
    }],
};

fn check(ctx: &RuleContext<'_>) {
    if ARMED.load(Ordering::Relaxed) && ctx.root.at(&["metadata", "fail-on-purpose"]).is_some() {
        panic!("on purpose");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LintOptions, Profile, Report, RuleSet, Skip, lint_files};
    use agentproto_manifest::{Disk, Overlay};

    /// Lints 100 files with an unknown field, plus one file that makes the check panic.
    fn lint(rules: &RuleSet, name: &str, threads: usize, skip: Option<&Skip<'_>>) -> Report {
        ARMED.store(true, Ordering::Relaxed);
        let mut texts = Overlay::new(&Disk);
        let mut add = |path: String, text: String| texts.texts.insert(path.into(), Some(text));
        for i in 0..100 {
            add(
                format!("no-such-place/b{i}/TOOL.md"),
                "---\nodd: 1\n---\n".to_owned(),
            );
        }
        add(
            format!("no-such-place/b50/{name}"),
            format!("---\nodd: 1\n{TRIGGER}\n---\n"),
        );
        let mut paths: Vec<_> = texts.texts.keys().cloned().collect();
        paths.sort();
        let mut options = LintOptions::new(rules, &texts, "no-such-place");
        options.threads = threads;
        options.skip = skip;
        lint_files(&paths, &options)
    }

    fn count(report: &Report, slug: &str) -> usize {
        let of_rule = report.findings.iter().filter(|f| f.rule.slug == slug);
        of_rule.count()
    }

    #[test]
    fn a_panicking_check_is_reported_and_the_other_files_are_linted() {
        let rules = RuleSet::profile_defaults(Profile::Default);
        // OPERATOR.md files are checked last, on a different code path.
        for name in ["CLI.md", "OPERATOR.md"] {
            for threads in [1, 4] {
                let report = lint(&rules, name, threads, None);
                assert_eq!(report.files.len(), 101);
                assert_eq!(count(&report, "fm-unknown-field"), 100);
                let mut findings = report
                    .findings
                    .iter()
                    .filter(|f| f.rule.slug == "internal-fault");
                let finding = findings.next().expect("a finding");
                assert!(findings.next().is_none());
                assert!(finding.file.ends_with(format!("b50/{name}")));
                assert_eq!(finding.severity, finding.rule.severity);
                assert_eq!((finding.start.line, finding.start.column), (1, 1));
                assert!(!finding.message.contains("on purpose"));
            }
        }
    }

    #[test]
    fn internal_fault_cannot_be_disabled() {
        let mut rules = RuleSet::profile_defaults(Profile::Spec);
        rules.ignore(&["*".to_owned()]).expect("rules");
        let report = lint(&rules, "CLI.md", 1, Some(&|_, _| true));
        assert_eq!(report.findings.len(), 1);
        assert_eq!(count(&report, "internal-fault"), 1);
    }
}
