//! `runner-image-engine`, `runner-in-process-untrusted`.

use super::DOCTYPES;
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Node;

pub static IMAGE_ENGINE: Rule = Rule {
    slug: "runner-image-engine",
    title: "`image` is set for an engine that does not use images",
    severity: Severity::Warning,
    level: Level::May,
    source: Source {
        spec: "AIP-17",
        section: "runner.image",
    },
    doctypes: DOCTYPES,
    scope: Scope::CrossField,
    docs: include_str!("runner-image-engine.md"),
    ..Rule::BASE
};

pub static IN_PROCESS_UNTRUSTED: Rule = Rule {
    slug: "runner-in-process-untrusted",
    title: "A bundle uses `engine: in-process`, which is reserved for the host's own code",
    severity: Severity::Warning,
    source: Source {
        spec: "AIP-17",
        section: "runner.engine",
    },
    doctypes: DOCTYPES,
    scope: Scope::CrossField,
    docs: include_str!("runner-in-process-untrusted.md"),
    ..Rule::BASE
};

pub(super) fn check_block<'d>(ctx: &RuleContext<'d>, block: &'d Node) {
    let engine = block.entry("engine");
    let name = engine.and_then(|e| e.value.as_str());
    if let (Some(engine), Some("in-process")) = (engine, name) {
        let report = FindingDraft::new(
            &IN_PROCESS_UNTRUSTED,
            &engine.value,
            "`in-process` is for code that ships with the host; hosts must use `subprocess` for this bundle",
        )
        .help("write `engine: subprocess`, or `engine: sandbox` for a container");
        ctx.report(report);
    }
    // An unknown engine is reported by another rule. It may use images.
    let without_image = matches!(name, Some("subprocess" | "in-process")) || engine.is_none();
    if let Some(image) = block.entry("image")
        && without_image
    {
        let message = match name {
            Some(name) => format!("`image` has no effect with `engine: {name}`"),
            None => {
                "`image` has no effect: without `engine`, the runner is a `subprocess`".to_owned()
            }
        };
        let mut report = FindingDraft::new(&IMAGE_ENGINE, image, message)
            .help("write `engine: sandbox`, or remove `image`");
        if let Some(engine) = engine {
            report = report.nearby(engine.value.span, "this engine runs on the host");
        }
        ctx.report(report);
    }
}
