//! The process boundary (AIP-17): inline in a manifest, or in a RUNNER.md.

mod block;
mod runner_engine_enum;
mod runner_schema;

use crate::context::{FindingDraft, Location, RuleContext};
use crate::registry::{Family, FamilyCheck};
use crate::rules::document::is_general;
use crate::shape::{draft, shapes_for, violations};
use agentproto_manifest::{Doctype, Entry, RefRole};

use block::{IMAGE_ENGINE, IN_PROCESS_UNTRUSTED, check_block};
use runner_engine_enum::ENGINE_ENUM;
use runner_schema::{SCHEMA, check_target, check_wrapper};

pub static FAMILY: Family = Family {
    name: "runner",
    rules: &[&SCHEMA, &ENGINE_ENUM, &IMAGE_ENGINE, &IN_PROCESS_UNTRUSTED],
    checks: &[
        FamilyCheck {
            doctypes: &[Doctype::Cli, Doctype::AgentCli],
            run: check_holder,
        },
        FamilyCheck {
            doctypes: &[Doctype::Runner, Doctype::Tool],
            run: check_own_block,
        },
    ],
};

/// Doctypes that can contain a runner block.
const DOCTYPES: &[Doctype] = &[
    Doctype::Cli,
    Doctype::AgentCli,
    Doctype::Runner,
    Doctype::Tool,
];

/// The wrappers around a runner that the prose of AIP-17 allows.
const WRAPPERS: [&str; 3] = ["inline", "ref", "file"];

fn check_holder(ctx: &RuleContext<'_>) {
    let Some(holder) = ctx.root.entry("runner") else {
        return;
    };
    let runner = &holder.value;
    if runner.as_str().is_some() {
        let reference = ctx.refs().iter().find(|r| r.site.role == RefRole::Runner);
        if let Some(reference) = reference {
            check_target(ctx, reference.site.node, &reference.target);
        }
        return;
    }
    let Some(wrapper) = runner
        .entries()
        .iter()
        .find(|e| WRAPPERS.contains(&&*e.key))
    else {
        return check_block(ctx, runner);
    };
    if runner.entries().len() > 1 {
        let report = FindingDraft::new(
            &SCHEMA,
            holder,
            format!(
                "`{}` cannot be combined with other fields of `runner`",
                wrapper.key
            ),
        )
        .help("use the runner fields directly, or exactly one of `inline`, `ref` and `file`");
        ctx.report(report);
        return;
    }
    check_wrapper(ctx, wrapper);
}

fn check_own_block(ctx: &RuleContext<'_>) {
    let block = match ctx.root.entry("runner") {
        Some(wrapper) if ctx.is(Doctype::Runner) && wrapper.value.is_map() => {
            check_inner(ctx, wrapper);
            &wrapper.value
        }
        Some(wrapper) if ctx.is(Doctype::Tool) => &wrapper.value,
        _ if ctx.is(Doctype::Runner) => ctx.root,
        _ => return,
    };
    check_block(ctx, block);
}

/// Checks a block that the schema of the document does not cover.
fn check_inner<'d>(ctx: &RuleContext<'d>, wrapper: &'d Entry) {
    for violation in violations(
        shapes_for(Doctype::Runner),
        &wrapper.value,
        Location::Key(wrapper),
    ) {
        match violation.rule.report {
            Some(report) if !is_general(violation.rule) => report(ctx, &violation),
            _ => ctx.report(draft(ctx, &violation)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{LintOptions, Profile, RuleSet, lint_files};
    use agentproto_manifest::{Disk, Overlay};

    /// Findings of a CLI.md that refers to a RUNNER.md. `linted` says whether the RUNNER.md is
    /// linted in the same run.
    fn found(runner: &str, linted: bool) -> Vec<String> {
        let mut texts = Overlay::new(&Disk);
        let cli = "---\nbin: b\ncommands: {}\nrunner: ./RUNNER.md\n---\n";
        texts
            .texts
            .insert("no-such-place/CLI.md".into(), Some(cli.to_owned()));
        texts
            .texts
            .insert("no-such-place/RUNNER.md".into(), Some(runner.to_owned()));
        let mut rules = RuleSet::profile_defaults(Profile::Default);
        rules.select(&["runner-*".to_owned()]).expect("rules");
        let options = LintOptions::new(&rules, &texts, "no-such-place");
        let paths: Vec<_> = texts
            .texts
            .keys()
            .take(if linted { 2 } else { 1 })
            .cloned()
            .collect();
        let findings = lint_files(&paths, &options).findings;
        findings
            .iter()
            .map(|f| format!("{}#{}+{}", f.rule.slug, f.pointer, f.related.len()))
            .collect()
    }

    #[test]
    fn a_runner_that_is_not_linted_is_reported_at_its_reference() {
        let bad = "---\nengine: docker\nlimits: {timeout_ms: 0}\n---\n";
        assert_eq!(found(bad, false), ["runner-schema#/runner+2"]);
        assert_eq!(
            found(bad, true),
            [
                "runner-engine-enum#/engine+0",
                "runner-schema#/limits/timeout_ms+0"
            ]
        );
        let good = "---\nrunner:\n  engine: sandbox\n---\n";
        assert!(found(good, false).is_empty() && found(good, true).is_empty());
    }
}
