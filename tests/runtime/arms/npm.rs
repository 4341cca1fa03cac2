//! npm adapters without Node: pinned versions, installation, and missing programs.

use std::sync::Arc;
use std::time::Duration;

use agentproto_runtime::agent::{Agent, AgentOptions};
use agentproto_runtime::arm::npm::Package;
use agentproto_runtime::arm::{Arm, proprietary};
use agentproto_runtime::{Code, StopReason};

use crate::arms::fixture::{AgentFixture, ready, text, turn};

fn fields(adapter: &str, own: &str) -> String {
    format!("protocol: proprietary\nadapter: '{adapter}'\n{own}\n")
}

fn version(text: &str) -> String {
    format!("metadata: {{ agentproto: {{ adapter_version: {text} }} }}")
}

#[test]
fn only_an_exact_version_is_accepted() {
    agentproto_suites::proves!("A45-SEC-07");
    let pinned = Package::Pinned {
        name: "@fake/adapter".into(),
        version: "1.2.3".into(),
    };
    for (adapter, own) in [
        ("@fake/adapter", version("1.2.3")),
        ("@fake/adapter@1.2.3", String::new()),
        (
            "@fake/adapter",
            "runner: { needs: { npm: [other@2.0.0, '@fake/adapter@1.2.3'] } }".into(),
        ),
    ] {
        let fixture = AgentFixture::new("", &fields(adapter, &own));
        let package = Package::from_manifest(&fixture.context().bundle);
        assert_eq!(package.expect("pinned"), pinned, "{adapter} {own}");
    }
    for (adapter, own, said) in [
        (
            "@fake/adapter",
            String::new(),
            "the version of the adapter `@fake/adapter` is not pinned",
        ),
        (
            "@fake/adapter",
            version("'^1.2.3'"),
            "`^1.2.3` is not an exact version",
        ),
        (
            "@fake/adapter@latest",
            String::new(),
            "`latest` is not an exact version",
        ),
        (
            "@fake/adapter",
            version("3"),
            "`adapter_version` must be a string",
        ),
        (
            "../adapter",
            version("1.2.3"),
            "`../adapter` is not the name of an npm package",
        ),
        (
            "x",
            "metadata: { agentproto: { adapter_path: ../x } }".into(),
            "is not a package in this bundle",
        ),
        (
            "x",
            "metadata: { agentproto: { adapter_path: /etc } }".into(),
            "is not a package in this bundle",
        ),
        (
            "x",
            "metadata: { agentproto: { adapter_path: ./nothing } }".into(),
            "is not a package in this bundle",
        ),
    ] {
        let fixture = AgentFixture::new("", &fields(adapter, &own));
        let fault = Package::from_manifest(&fixture.context().bundle).expect_err("refused");
        assert_eq!(fault.code, Code::ManifestInvalid);
        assert!(fault.message.contains(said), "{fault}");
        assert!(fault.hint.is_some());
    }
    let own = "metadata: { agentproto: { adapter_path: ./adapter } }";
    let fixture = AgentFixture::new("", &fields("x", own));
    fixture.write("bundle/adapter/package.json", "{}");
    let package = Package::from_manifest(&fixture.context().bundle).expect("a package");
    assert_eq!(package, Package::Bundled(fixture.path("bundle/adapter")));
}

fn arm(fixture: &AgentFixture) -> Box<dyn Arm> {
    let arm = proprietary(fixture.context(), fixture.spec(&[]), fixture.broker.clone());
    arm.expect("an arm")
}

/// A fake Node that records its arguments: the bridge and the package.
const NODE: &str = r#"printf '%s\n' "$@" > "$0.args"
while IFS= read -r line; do case $line in
*'"op":"connect"'*) echo '{"type":"connected","sessionId":"n-1"}' ;;
*'"op":"send"'*) echo '{"type":"text-delta","text":"from node"}'; echo '{"type":"turn-end","reason":"end_turn"}' ;;
*'"op":"close"'*) exit 0 ;;
esac; done"#;

/// A fake npm.
fn npm(version: &str) -> String {
    format!(
        r#"echo "$*" >> "$0.calls"
        while [ "$1" != --prefix ]; do shift; done
        /bin/mkdir -p "$2/node_modules/@fake/adapter"
        echo '{{"version":"{version}"}}' > "$2/node_modules/@fake/adapter/package.json"
        echo '{{}}' > "$2/package.json""#
    )
}

#[tokio::test]
async fn a_pinned_package_is_installed_once_and_hosted() {
    let fixture = AgentFixture::new("", &fields("@fake/adapter", &version("1.2.3")))
        .with_programs("programs")
        .confirmed();
    fixture.program("programs/node", NODE);
    fixture.program("programs/npm", &npm("1.2.3"));
    for _ in 0..2 {
        let arm = arm(&fixture);
        assert_eq!(ready(&*arm, None).await, "n-1");
        let (events, end) = turn(&*arm, &fixture.context(), "hello").await;
        assert_eq!(events, [text("from node")]);
        assert_eq!(end.expect("an end"), StopReason::EndTurn);
        arm.close().await.expect("closed");
        arm.stop().await.expect("an exit");
    }
    let read = |name: &str| std::fs::read_to_string(fixture.path(name)).expect("there");
    let calls = read("programs/npm.calls");
    assert_eq!(calls.lines().count(), 1, "{calls}");
    assert!(
        calls.starts_with("install --ignore-scripts --no-audit --no-fund --prefix "),
        "{calls}"
    );
    assert!(
        calls.trim_end().ends_with(" -- @fake/adapter@1.2.3"),
        "{calls}"
    );
    let prefix = fixture.path("home/npm/@fake/adapter@1.2.3");
    let args = read("programs/node.args");
    let wanted = [
        prefix.join("bridge.mjs"),
        prefix.join("node_modules/@fake/adapter"),
    ];
    let wanted: Vec<_> = wanted.iter().map(|p| p.display().to_string()).collect();
    assert_eq!(args.lines().collect::<Vec<_>>(), wanted);
    let left = std::fs::read_dir(fixture.path("home/npm")).expect("there");
    assert_eq!(left.count(), 1, "no partial installation is left");
}

#[tokio::test]
async fn missing_programs_and_failures_are_reported() {
    let fields = fields("@fake/adapter", &version("1.2.3"));
    let refused = async |fixture: &AgentFixture, said: &str| {
        let fault = arm(fixture).handshake().await.expect_err("refused");
        assert_eq!(fault.code, Code::AdapterUnavailable, "{fault}");
        assert!(fault.message.contains(said), "{fault}");
        fault.hint.expect("a hint")
    };
    let fixture = AgentFixture::new("", &fields).with_programs("programs");
    let hint = refused(&fixture, "`node` is not installed").await;
    assert!(hint.contains("Node.js 18"), "{hint}");
    fixture.program("programs/node", NODE);
    refused(&fixture, "`npm` is not installed").await;
    fixture.program("programs/npm", "echo 'E404 no such package' >&2; exit 1");
    let hint = refused(&fixture, "agentproto cannot ask without a terminal").await;
    assert!(hint.contains("--yes"), "{hint}");
    let fixture = fixture.confirmed();
    refused(&fixture, "E404 no such package").await;
    fixture.program("programs/npm", &npm("1.2.4"));
    refused(&fixture, "npm installed version 1.2.4").await;
    fixture.program("programs/npm", "exit 0");
    refused(&fixture, "npm did not install the package").await;
    let left = std::fs::read_dir(fixture.path("home/npm")).expect("there");
    assert_eq!(left.count(), 0, "no partial installation is left");
}

#[tokio::test]
async fn the_package_is_installed_before_the_handshake() {
    let fixture = AgentFixture::new("", &fields("@fake/adapter", &version("1.2.3")))
        .with_programs("programs")
        .confirmed();
    fixture.program("programs/node", NODE);
    fixture.program("programs/npm", &npm("1.2.3"));
    let arm = arm(&fixture);
    arm.prepare().await.expect("prepared");
    assert!(fixture.path("programs/npm.calls").exists());
    assert!(!fixture.path("programs/node.args").exists());
    std::fs::remove_file(fixture.path("programs/npm")).expect("gone");
    assert_eq!(ready(&*arm, None).await, "n-1");
    arm.stop().await;
}

/// The handshake timeout is too short for any handshake, but the error of npm comes first.
#[tokio::test]
async fn the_handshake_timeout_does_not_include_the_installation() {
    let fixture = AgentFixture::new("", &fields("@fake/adapter", &version("1.2.3")))
        .with_programs("programs")
        .confirmed();
    fixture.program("programs/sh", "echo 1.0.0");
    fixture.program("programs/node", NODE);
    fixture.program("programs/npm", "echo 'E404 no such package' >&2; exit 1");
    let options = AgentOptions {
        handshake_timeout: Duration::from_nanos(1),
        ..AgentOptions::default()
    };
    let context = Arc::into_inner(fixture.context()).expect("the only reference");
    let agent = Agent::load(context, options).expect("loaded");
    let fault = agent.start().await.err().expect("refused");
    assert_eq!(fault.code, Code::AdapterUnavailable, "{fault}");
    assert!(fault.message.contains("E404"), "{fault}");
}
