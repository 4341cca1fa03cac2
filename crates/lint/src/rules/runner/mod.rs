//! The process boundary (AIP-17): inline in a manifest, or in a RUNNER.md.

mod catalog;

use catalog::*;

use crate::context::{Context, Draft, Place};
use crate::registry::{Check, Family};
use crate::rule::Severity;
use crate::rules::document::is_general;
use crate::shape::{Keyword, Violation, draft, shapes_for, violations};
use agentproto_manifest::{Doctype, Document, Entry, Node, RefRole, Resolution, Value};
use agentproto_text::{one_of, short};

pub static FAMILY: Family = Family {
    name: "runner",
    rules: &[&SCHEMA, &ENGINE_ENUM, &IMAGE_ENGINE, &IN_PROCESS_UNTRUSTED],
    checks: &[
        Check {
            doctypes: &[Doctype::Cli, Doctype::AgentCli],
            run: check_holder,
        },
        Check {
            doctypes: &[Doctype::Runner, Doctype::Tool],
            run: check_own_block,
        },
    ],
};

/// The ways in which AIP-17's prose lets a parent hold a runner.
const WRAPPERS: [&str; 3] = ["inline", "ref", "file"];

fn outside_schema<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    if violation.keyword == Keyword::OneOf {
        let report = Draft::new(
            &SCHEMA,
            violation.place.clone(),
            format!("`runner` is {}", article(violation.node)),
        )
        .help(
            "give the path of a RUNNER.md, or a mapping with `engine`, `image`, `needs`, `limits`",
        );
        return ctx.report(report);
    }
    let unknown = violation.keyword == Keyword::AdditionalProperties;
    let Some(entry) = violation.entry.filter(|_| unknown) else {
        return ctx.report(draft(ctx, violation));
    };
    if is_wrapper(ctx, violation.node, entry) {
        // Judged by `check_holder` and `check_own_block`.
        return;
    }
    let in_limits = ctx
        .doc
        .pointer_of(violation.node)
        .is_some_and(|pointer| pointer.ends_with("/limits"));
    let mut report = draft(ctx, violation);
    if in_limits {
        report = report
            .severity(Severity::Warning)
            .help("hosts may add limits of their own; a portable manifest keeps to `memory_mb`, `timeout_ms` and `cpu_ms`");
    } else if entry.key == "mode" {
        report = report.help("`mode` is the old name; write `engine`");
    } else if matches!(
        &*entry.key,
        "env" | "fs" | "network" | "resources" | "secrets"
    ) {
        report = report.help(format!(
            "a runner is the process boundary only; `{}` belongs to the manifest's own blocks",
            entry.key
        ));
    }
    ctx.report(report);
}

fn article(node: &Node) -> &'static str {
    match node.value {
        Value::Null => "empty",
        Value::Seq(_) => "a list",
        _ => "neither text nor a mapping",
    }
}

fn is_wrapper(ctx: &Context<'_>, block: &Node, entry: &Entry) -> bool {
    if ctx.is(Doctype::Runner) {
        return std::ptr::eq(block, ctx.root) && entry.key == "runner" && entry.value.is_map();
    }
    let at_top = ctx
        .root
        .get("runner")
        .is_some_and(|runner| std::ptr::eq(runner, block));
    at_top && WRAPPERS.contains(&&*entry.key) && !ctx.is(Doctype::Tool)
}

fn unknown_engine<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let Some(word) = violation.node.as_str() else {
        return ctx.report(draft(ctx, violation));
    };
    let container = [
        "docker",
        "podman",
        "container",
        "containerd",
        "oci",
        "e2b",
        "modal",
        "fly",
    ];
    let report = draft(ctx, violation);
    let lower = word.to_ascii_lowercase();
    ctx.report(if container.contains(&lower.as_str()) {
        report.help("a container is `engine: sandbox`, with the template in `image`")
    } else if lower == "process" || lower == "local" || lower == "host" {
        report.help("a process of its own on the host is `engine: subprocess`")
    } else {
        report
    });
}

fn check_holder(ctx: &Context<'_>) {
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
        let report = Draft::new(
            &SCHEMA,
            holder,
            format!("`runner` has `{}` and other fields beside it", wrapper.key),
        )
        .help("give the fields themselves, or exactly one of `inline`, `ref` and `file`");
        ctx.report(report);
        return;
    }
    check_wrapper(ctx, wrapper);
}

fn check_wrapper<'d>(ctx: &Context<'d>, wrapper: &'d Entry) {
    if wrapper.key == "inline" {
        judge_inner(ctx, wrapper);
        return check_block(ctx, &wrapper.value);
    }
    let Some(text) = wrapper.value.as_str() else {
        let report = Draft::new(
            &SCHEMA,
            &wrapper.value,
            format!("`runner.{}` must be a string", wrapper.key),
        );
        return ctx.report(report);
    };
    // `ref` is an id of a registry, which no file answers.
    if wrapper.key != "file" {
        return;
    }
    let target = ctx.workspace.resolve(ctx.doc, RefRole::Runner, text);
    if let Resolution::Missing(_) = target {
        let report = Draft::new(
            &SCHEMA,
            &wrapper.value,
            format!("there is no file `{}`", short(text, 60)),
        )
        .help("name a RUNNER.md relative to this file");
        return ctx.report(report);
    }
    check_target(ctx, &wrapper.value, &target);
}

fn check_own_block(ctx: &Context<'_>) {
    let block = match ctx.root.entry("runner") {
        Some(wrapper) if ctx.is(Doctype::Runner) && wrapper.value.is_map() => {
            judge_inner(ctx, wrapper);
            &wrapper.value
        }
        Some(wrapper) if ctx.is(Doctype::Tool) => &wrapper.value,
        _ if ctx.is(Doctype::Runner) => ctx.root,
        _ => return,
    };
    check_block(ctx, block);
}

/// Judges a block that the document's own schema does not reach.
fn judge_inner<'d>(ctx: &Context<'d>, wrapper: &'d Entry) {
    for violation in violations(
        shapes_for(Doctype::Runner),
        &wrapper.value,
        Place::Key(wrapper),
    ) {
        match violation.rule.words {
            Some(words) if !is_general(violation.rule) => words(ctx, &violation),
            _ => ctx.report(draft(ctx, &violation)),
        }
    }
}

fn check_block<'d>(ctx: &Context<'d>, block: &'d Node) {
    let engine = block.entry("engine");
    let name = engine.and_then(|e| e.value.as_str());
    if let (Some(engine), Some("in-process")) = (engine, name) {
        let report = Draft::new(
            &IN_PROCESS_UNTRUSTED,
            &engine.value,
            "`in-process` is for code that ships with the host; hosts must run this as `subprocess`",
        )
        .help("write `engine: subprocess`, or `engine: sandbox` for a container");
        ctx.report(report);
    }
    // An unknown engine is reported as such; whether it has images nobody knows.
    let without_image = matches!(name, Some("subprocess" | "in-process")) || engine.is_none();
    if let Some(image) = block.entry("image")
        && without_image
    {
        let message = match name {
            Some(name) => format!("`image` means nothing to `engine: {name}`"),
            None => "`image` means nothing here: without `engine` the runner is a `subprocess`"
                .to_owned(),
        };
        let mut report = Draft::new(&IMAGE_ENGINE, image, message)
            .help("write `engine: sandbox`, or remove `image`");
        if let Some(engine) = engine {
            report = report.nearby(engine.value.span, "this engine runs on the host");
        }
        ctx.report(report);
    }
}

/// A RUNNER.md outside the run has nobody else to report its mistakes.
fn check_target<'d>(ctx: &Context<'d>, reference: &'d Node, target: &Resolution) {
    let Some(doc) = target.document() else {
        return;
    };
    let Some(root) = doc.root.as_ref() else {
        return;
    };
    if doc.doctype != Some(Doctype::Runner) || ctx.is_linted(&doc.path) {
        return;
    }
    let block = root
        .get("runner")
        .filter(|inner| inner.is_map())
        .unwrap_or(root);
    let found = violations(shapes_for(Doctype::Runner), block, Place::Value(block));
    let Some(first) = found.first() else {
        return;
    };
    let mut report = Draft::new(
        &SCHEMA,
        reference,
        format!(
            "the runner that this names does not fit AIP-17: {}",
            sentence(doc, first)
        ),
    )
    .help("mend that file; lint it too to see every place");
    for violation in found.iter().take(5) {
        let span = match &violation.place {
            Place::Key(entry) => entry.key_span,
            Place::Part(_, span) | Place::Bytes(span) => *span,
            Place::Value(node) => node.span,
        };
        report = report.related(doc, span, sentence(doc, violation));
    }
    ctx.report(report);
}

/// What is wrong in another file, in one clause.
fn sentence(doc: &Document, violation: &Violation<'_>) -> String {
    let pointer = doc.pointer_of(violation.node).unwrap_or_default();
    let name = pointer.trim_start_matches('/').replace('/', ".");
    match (violation.keyword, violation.entry) {
        (Keyword::AdditionalProperties, Some(entry)) => {
            format!("`{}` is not a field of a runner", short(&entry.key, 40))
        }
        (Keyword::Enum | Keyword::Const, _) => {
            format!("`{name}` is not one of {}", one_of(&violation.expected))
        }
        (Keyword::Type, _) => format!("`{name}` has the wrong type"),
        (Keyword::Minimum, _) => format!("`{name}` is too small"),
        _ => format!("`{name}` has a value that is not allowed"),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Options, Profile, RuleSet, lint_files};
    use agentproto_manifest::{Disk, Overlay};

    /// Findings of a CLI.md that names a RUNNER.md, which is itself linted or not.
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
        let options = Options::new(&rules, &texts, "no-such-place");
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
    fn a_runner_outside_the_run_is_judged_at_its_reference() {
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
