//! Tests of AIP-45 rules that mutants cannot express: severities by profile, related places.

use crate::common::Bundle;
use agentproto_lint::{Finding, Profile, Severity};

fn changed(bundle: &str, file: &str, old: &str, new: &str) -> Bundle {
    let mut bundle = Bundle::new(bundle);
    bundle.replace(file, old, new);
    bundle
}

fn the<'f>(findings: &'f [Finding], slug: &str) -> &'f Finding {
    let mut hits = findings.iter().filter(|f| f.rule.slug == slug);
    let first = hits.next().unwrap_or_else(|| panic!("no {slug}"));
    assert!(hits.next().is_none(), "{slug} is reported twice");
    first
}

#[test]
fn protocol_print_is_an_error_in_profile_spec() {
    let bundle = changed("gull", "AGENT-CLI.md", "protocol: mcp", "protocol: print");
    for (profile, severity) in [
        (Profile::Default, Severity::Warning),
        (Profile::Spec, Severity::Error),
        (Profile::Reference, Severity::Warning),
    ] {
        let findings = bundle.lint(profile);
        let finding = the(&findings, "protocol-print-extension");
        assert_eq!(finding.severity, severity, "{profile:?}");
    }
}

#[test]
fn a_list_of_model_mappings_is_reported_once() {
    let models = changed(
        "gull",
        "AGENT-CLI.md",
        "    - shorebird-1\n",
        "    - id: shorebird-1\n    - id: shorebird-2\n",
    );
    for (profile, slug, severity) in [
        (Profile::Default, "models-allowed-type", Severity::Error),
        (Profile::Spec, "models-allowed-type", Severity::Error),
        (
            Profile::Reference,
            "fm-known-drift-field",
            Severity::Warning,
        ),
    ] {
        let findings = models.lint(profile);
        assert_eq!(the(&findings, slug).severity, severity, "{profile:?}");
        assert_eq!(findings.len(), 1, "{profile:?}");
    }
}

#[test]
fn a_capability_finding_points_at_the_line_in_the_acp_md() {
    for (old, new, line) in [
        (
            "loadSession: true",
            "loadSession: false",
            "loadSession: false",
        ),
        ("image: true", "image: false", "image: false"),
    ] {
        let bundle = changed("harbor", "harbor.ACP.md", old, new);
        let findings = bundle.lint(Profile::Spec);
        let finding = the(&findings, "caps-superset-of-acp");
        let related = finding.related.first().expect("a related place");
        assert!(related.file.ends_with("harbor.ACP.md"));
        let text = bundle.text("harbor.ACP.md");
        assert_eq!(text.get(related.span.range()), Some(line));
    }
}

#[test]
fn a_missing_capability_is_reported_at_the_field_that_requires_it() {
    let bundle = changed(
        "harbor",
        "AGENT-CLI.md",
        "resumable: true",
        "resumable: false",
    );
    let findings = bundle.lint(Profile::Spec);
    for (slug, pointer) in [
        ("session-resumable-cap", "/session/mode"),
        ("cont-native-resume-cap", "/continuation/default"),
    ] {
        let finding = the(&findings, slug);
        assert_eq!(finding.pointer, pointer);
        let related = finding.related.first().expect("a related place");
        let text = bundle.text("AGENT-CLI.md");
        assert_eq!(text.get(related.span.range()), Some("resumable: false"));
    }
}

#[test]
fn the_added_continuation_matches_session_and_capabilities() {
    let block = "continuation:\n  default: native-resume\n  supported:\n    - native-resume\n    \
                 - transcript\n    - none\n";
    let without = |mode: &str, carry: &str, resumable: &str| {
        let mut bundle = changed("harbor", "AGENT-CLI.md", block, "");
        bundle.replace("AGENT-CLI.md", "mode: resumable", &format!("mode: {mode}"));
        let carryover = format!("context_carryover: {carry}");
        bundle.replace("AGENT-CLI.md", "context_carryover: true", &carryover);
        let flag = format!("resumable: {resumable}");
        bundle.replace("AGENT-CLI.md", "resumable: true", &flag);
        let findings = bundle.lint(Profile::Default);
        let fix = the(&findings, "cont-recommended").fix.clone();
        fix.expect("a fix").edits.remove(0).text
    };
    for (mode, carry, resumable, default) in [
        ("resumable", "true", "true", "native-resume"),
        ("persistent", "true", "false", "pinned-session"),
        ("persistent", "true", "true", "pinned-session"),
        ("persistent", "false", "false", "transcript"),
        ("ephemeral", "true", "false", "transcript"),
        ("ephemeral", "true", "true", "native-resume"),
    ] {
        let added = without(mode, carry, resumable);
        let expected = format!("default: {default}\n");
        assert!(
            added.contains(&expected),
            "{mode} {carry} {resumable}: {added}"
        );
    }
}

#[test]
fn messages_never_contain_secrets() {
    let bundle = changed(
        "gull",
        "AGENT-CLI.md",
        "    passthrough:\n      - LANG\n",
        "    set:\n      GULL_API_KEY: hunter2-hunter2\n",
    );
    for finding in bundle.lint(Profile::Default) {
        let help = finding.help.as_deref().unwrap_or("");
        assert!(!finding.message.contains("hunter2") && !help.contains("hunter2"));
    }
}
