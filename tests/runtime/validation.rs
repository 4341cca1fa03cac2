//! Loading validates: a manifest with errors is refused with its findings, unless the caller allows
//! it.

use std::sync::{Arc, Mutex};

use super::place::{Place, allowing};
use agentproto_runtime::agent::AgentOptions;
use agentproto_runtime::{Agent, Code, Observer, Stage};

/// A manifest with errors that the runtime itself would not notice.
fn broken(place: &Place, name: &str) -> String {
    let dir = place.changed(name, "AGENT-CLI.md", |text| {
        text.replace("tags: [mock, acp]", "tags: [mock, mock]\nflavor: sweet")
    });
    dir.to_str().expect("a path").to_owned()
}

#[test]
fn an_invalid_manifest_is_refused_with_its_findings() {
    agentproto_suites::proves!("A45-CONF-01", "A45-API-01");
    let place = Place::new();
    let target = broken(&place, "broken");
    let ran = place.run(&target, &["--prompt", "hello"]);
    assert_eq!(ran.code, 65, "{}", ran.stderr);
    let (code, message) = ran.error();
    assert_eq!(code, "MANIFEST_INVALID");
    assert!(message.contains("AGENT-CLI.md:"), "{message}");
    assert!(message.ends_with(", and 1 more error"), "{message}");
    let summary = &ran.of("aoi:summary")[0];
    let findings = summary["details"]["findings"].as_array().expect("a list");
    assert_eq!(findings.len(), 2);
    for finding in findings {
        for key in ["rule", "message", "file", "pointer"] {
            assert!(finding[key].is_string(), "{key}: {finding}");
        }
        for key in ["line", "column"] {
            assert!(
                finding[key].as_u64().is_some_and(|n| n > 0),
                "{key}: {finding}"
            );
        }
    }
    assert!(findings.iter().any(|f| f["rule"] == "tags-unique"));
    // Nothing was started.
    assert!(
        !place.audit().contains("stage.install"),
        "{}",
        place.audit()
    );
    // The unchanged bundle runs.
    let good = place.changed("good", "AGENT-CLI.md", |text| text + "\n");
    let ran = place.run(good.to_str().expect("a path"), &["--prompt", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn the_override_is_announced_and_audited() {
    let place = Place::new();
    let target = broken(&place, "broken");
    let ran = place.run(&target, &["--allow-invalid", "--prompt", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let warnings = ran.of("aoi:warning");
    assert!(
        warnings.iter().any(|w| w["code"] == "MANIFEST_INVALID"),
        "{}",
        ran.stdout
    );
    let audit = place.audit();
    let line = audit
        .lines()
        .find(|line| line.contains("\"manifest.invalid\""));
    assert!(
        line.is_some_and(|line| line.contains("tags-unique")),
        "{audit}"
    );
    let ran = place.text(&target, &["--allow-invalid", "--prompt", "hello"]);
    assert!(
        ran.stderr.contains("the manifest is invalid"),
        "{}",
        ran.stderr
    );
}

/// A comment in the manifest cannot override the host.
#[test]
fn an_ignore_comment_does_not_make_a_manifest_valid() {
    let place = Place::new();
    let dir = place.changed("ignored", "AGENT-CLI.md", |text| {
        text.replace(
            "tags: [mock, acp]",
            "tags: [mock, mock] # agentproto: ignore[tags-unique] the author's opinion",
        )
    });
    let ran = place.run(dir.to_str().expect("a path"), &["--prompt", "hello"]);
    assert_eq!(ran.code, 65, "{}", ran.stderr);
}

#[test]
fn the_files_that_a_run_uses_must_be_valid() {
    let place = Place::new();
    for (file, old, new, rule) in [
        (
            "ACP.md",
            "transport: stdio",
            "transport: smoke",
            "acp-transport-enum",
        ),
        (
            "SANDBOX.md",
            "provider: local",
            "provider: local\nmood: calm",
            "fm-unknown-field",
        ),
    ] {
        let dir = place.changed(&rule[..6], file, |text| text.replace(old, new));
        let ran = place.run(dir.to_str().expect("a path"), &["--prompt", "hello"]);
        assert_eq!(ran.code, 65, "{file}: {}", ran.stderr);
        let findings = ran.of("aoi:summary")[0]["details"]["findings"].to_string();
        assert!(
            findings.contains(rule) && findings.contains(file),
            "{findings}"
        );
    }
    let operator = place.path("OPERATOR.md");
    std::fs::write(
        &operator,
        "---\nname: o\nid: operator\nversion: 1.0.0\n---\n",
    )
    .expect("written");
    let operator = operator.to_str().expect("a path");
    let ran = place.run("mock-acp", &["--operator", operator, "--prompt", "hello"]);
    assert_eq!(ran.code, 65, "{}", ran.stderr);
    assert!(ran.error().1.contains("OPERATOR.md:"), "{}", ran.stdout);
}

/// Errors that have a code of their own keep it.
#[test]
fn specific_codes_come_first() {
    let place = Place::new();
    for (old, new, code, exit) in [
        (
            "protocol: acp",
            "protocol: telepathy",
            "PROTOCOL_UNKNOWN",
            65,
        ),
        (
            "./SANDBOX.md",
            "./NOWHERE.md",
            "SANDBOX_REF_UNRESOLVABLE",
            65,
        ),
        (
            "multimodal: false",
            "multimodal: true",
            "CAPABILITY_MISMATCH",
            65,
        ),
    ] {
        let dir = place.changed("coded", "AGENT-CLI.md", |text| text.replace(old, new));
        let ran = place.run(dir.to_str().expect("a path"), &["--prompt", "hello"]);
        assert_eq!(ran.code, exit, "{new}: {}", ran.stderr);
        assert_eq!(ran.error().0, code, "{new}");
    }
}

#[test]
fn lifecycle_commands_validate() {
    let place = Place::new();
    let target = broken(&place, "broken");
    for command in [&["install"][..], &["setup"], &["auth", "status"]] {
        let out = |more: &[&str]| {
            let words = [command, &[target.as_str()][..], more].concat();
            place.command(&words).output().expect("started")
        };
        assert_eq!(out(&[]).status.code(), Some(65), "{command:?}");
        assert_eq!(
            out(&["--allow-invalid"]).status.code(),
            Some(0),
            "{command:?}"
        );
    }
    let doctor = place
        .command(&["doctor", &target])
        .output()
        .expect("started");
    assert_eq!(doctor.status.code(), Some(1));
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(text.contains("✗ manifest:"), "{text}");
    assert!(text.contains("cannot run on this machine"), "{text}");
}

#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Observer for Warnings {
    fn stage(&self, _: Stage, _: &str) {}
    fn progress(&self, _: Stage, _: &str) {}
    fn warning(&self, code: &str, _: &str) {
        self.0.lock().expect("a list").push(code.to_owned());
    }
}

#[test]
fn the_library_validates() {
    agentproto_suites::proves!("A45-API-01");
    let place = Place::new();
    let target = broken(&place, "broken");
    let open = |builder: agentproto_runtime::AgentBuilder| {
        builder
            .home(place.path("home"))
            .cwd(place.path("work"))
            .open()
    };
    let error = open(Agent::builder(&target)).err().expect("refused");
    assert_eq!(error.code, Code::ManifestInvalid);
    assert_eq!(error.details["errors"], 2);
    let heard = Warnings::default();
    let builder = Agent::builder(&target).allow_invalid();
    assert!(open(builder.observer(heard.clone())).is_ok());
    assert_eq!(*heard.0.lock().expect("a list"), ["manifest_invalid"]);
    // The lower level has the same option.
    assert!(place.agent(&target, allowing()).is_err());
    let options = AgentOptions {
        allow_invalid: true,
        ..allowing()
    };
    assert!(place.agent(&target, options).is_ok());
}

/// Validation must not be noticeable: it runs before every session of a daemon.
#[test]
fn validation_is_fast() {
    let place = Place::new();
    let load = || place.agent("mock-acp", allowing()).expect("loaded").0;
    let agent = load();
    let bundle = &agent.context.bundle;
    let started = std::time::Instant::now();
    for _ in 0..20 {
        assert!(agentproto_runtime::validate::errors(&bundle.manifest, &[]).is_empty());
    }
    let each = started.elapsed() / 20;
    // About 0.4 ms on a quiet machine.
    assert!(each < std::time::Duration::from_millis(250), "{each:?}");
}

#[test]
fn sandbox_run_refuses_what_run_refuses() {
    agentproto_suites::proves!("A45-CONF-01");
    let place = Place::new();
    let target = broken(&place, "broken");
    let sandbox = |args: &[&str]| {
        let output = place.command(&[&["sandbox"], args].concat()).output();
        super::place::Ran::new(output.expect("it runs"))
    };
    let ran = sandbox(&["run", &target, "--", "/bin/echo", "started"]);
    assert_eq!(ran.code, 65, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("manifest_invalid"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--allow-invalid"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("started"), "{}", ran.stdout);
    let allowed = [
        "run",
        "--allow-invalid",
        &target,
        "--",
        "/bin/echo",
        "started",
    ];
    let ran = sandbox(&allowed);
    assert_eq!(
        (ran.code, ran.stdout.trim()),
        (0, "started"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("the manifest is invalid"),
        "{}",
        ran.stderr
    );
    assert!(place.audit().contains("\"manifest.invalid\""));
    // `explain` runs nothing, so it only warns.
    let ran = sandbox(&["explain", &target]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("are refused"), "{}", ran.stderr);
    let good = place.changed("good", "AGENT-CLI.md", |text| text + "\n");
    let good = good.to_str().expect("a path");
    let ran = sandbox(&["run", good, "--", "/bin/echo", "started"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let ran = sandbox(&["explain", good]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}
