//! Runs of `install`: concurrent, repeated, dry, interrupted, and with secrets in the environment.

use std::fs;

use serde_json::json;

use crate::install::support::{World, ran};

const NPM: &str = "  - { method: npm, package: '@demo/tool@1' }";

#[test]
fn concurrent_installations_install_once() {
    let world = World::new();
    world.manager("npm");
    world.manifest(NPM);
    let start = || {
        let mut command = world.command(&["install", "./bundle", "--yes"]);
        command.stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped());
        command.spawn().expect("started")
    };
    let children = [start(), start(), start()];
    for child in children {
        let output = child.wait_with_output().expect("ended");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(world.calls().len(), 1);
}

/// A29-ID-02, A29-ID-03: installations are keyed by id, major version and origin.
#[test]
fn another_bundle_with_the_same_name_is_installed_separately() {
    agentproto_suites::proves!("A29-ID-02");
    let world = World::new();
    world.manager("npm");
    world.manifest(NPM);
    world.install(&["--yes"]).works();
    world.manifest("  - { method: npm, package: other-tool }");
    world.install(&["--yes"]).works();
    assert_eq!(world.calls().len(), 2);
    let text = fs::read_to_string(world.bundle().join("CLI.md")).expect("read");
    let next = text.replace("\nversion: 1.0.0", "\nversion: 2.0.0");
    fs::write(world.bundle().join("CLI.md"), next).expect("written");
    world.install(&["--yes"]).works();
    assert_eq!(world.calls().len(), 3);
    assert!(
        world
            .home()
            .join("tools/demo-tool@1/bin/demo-tool")
            .exists()
    );
    assert!(
        world
            .home()
            .join("tools/demo-tool@2/bin/demo-tool")
            .exists()
    );
}

#[test]
fn a_dry_run_lists_everything_and_changes_nothing() {
    let world = World::new();
    world.manager("npm");
    let digest = "0123456789abcdef".repeat(4);
    world.manifest(&format!(
        "{NPM}
  - {{ method: curl, url: 'https://example.com/i.sh' }}
  - {{ method: download, url: 'https://example.com/t.tgz', extract_bin: t/demo-tool, verify_sha256: '{digest}' }}"
    ));
    let ran = world.install(&["--dry-run", "-o", "jsonl"]);
    let events = ran.works().events();
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../schemas/events.schema.json"))
            .expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    for event in &events {
        assert!(validator.is_valid(event), "{event}");
    }
    let plans: Vec<_> = events.iter().filter(|e| e["type"] == "aoi:plan").collect();
    let actions: Vec<_> = plans.iter().map(|p| p["action"].clone()).collect();
    assert_eq!(actions, [json!("run"), json!("skip"), json!("fetch")]);
    assert_eq!(plans[2]["sha256"], json!(digest));
    assert!(world.calls().is_empty() && world.tools().is_empty());

    let people = world.install(&["--dry-run"]);
    let text = &people.works().stdout;
    assert!(text.contains("1. npm: run npm install --global"), "{text}");
    assert!(text.contains("--allow-unverified"), "{text}");

    world.script("path/demo-tool", "#!/bin/sh\n");
    let there = world.install(&["--dry-run"]);
    assert!(
        there.works().stdout.contains("already installed"),
        "{}",
        there.stdout
    );
}

#[test]
fn proxy_passwords_are_redacted_and_tokens_are_not_passed() {
    let world = World::new();
    world.manager("npm");
    world.script("path/go", "#!/bin/sh\nfor v in \"${GOOGLE_API_KEY:-}\" \"${NPM_CONFIG__AUTHTOKEN:-}\"; do echo \"got<$v>\"; done\nexit 1\n");
    world.manifest(&format!(
        "  - {{ method: go, package: example.com/x }}\n{NPM}"
    ));
    let mut command = world.command(&["install", "./bundle", "--yes"]);
    command.env("HTTPS_PROXY", "http://me:canary-5512@proxy.example:3128");
    command.env("GOOGLE_API_KEY", "canary-5512");
    command.env("NPM_CONFIG__AUTHTOKEN", "canary-5512");
    let ran = ran(&mut command);
    ran.works();
    assert!(
        ran.stderr
            .contains("proxy http://me:[secret]@proxy.example"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stderr.matches("got<>").count(), 2, "{}", ran.stderr);
    let audit = format!("{:?}", world.audit());
    assert!(!ran.stderr.contains("canary") && !audit.contains("canary"));
}

#[test]
fn invalid_names_are_refused() {
    let world = World::new();
    for (from, to) in [
        ("bin: demo-tool", "bin: '-rf'"),
        ("bin: demo-tool", "bin: 'a b'"),
        ("bin: demo-tool", "bin: [a]"),
        ("id: demo-tool", "id: ../../escape"),
        ("version: 1.0.0", "version: '../..'"),
    ] {
        world.manifest(NPM);
        let path = world.bundle().join("CLI.md");
        let text = fs::read_to_string(&path).expect("read");
        fs::write(&path, text.replacen(from, to, 1)).expect("written");
        world
            .install(&["--yes"])
            .fails(65, "manifest_invalid", "CLI.md:");
    }
}

/// A signal during an installation ends all its processes and is reported.
#[test]
fn an_interrupted_installation_leaves_no_process() {
    use std::io::Read;
    let world = World::new();
    let fifo = world.root().join("alive");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("run").success());
    // The manager writes to the pipe, then keeps running with the pipe open.
    let text =
        "#!/bin/sh\nexec 9>@ROOT@/alive\necho here >&9\nwhile :; do wc -c < @ROOT@/never; done\n";
    let never = std::process::Command::new("mkfifo")
        .arg(world.root().join("never"))
        .status();
    assert!(never.expect("run").success());
    world.script("path/npm", text);
    world.manifest(NPM);
    let child = world
        .command(&["install", "./bundle", "--yes", "-o", "jsonl"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("started");
    let mut alive = fs::File::open(&fifo).expect("opened");
    let mut start = [0; 5];
    alive.read_exact(&mut start).expect("started");
    // SAFETY: the process is our child and has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(143));
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().expect("a summary");
    let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(last["type"], "aoi:summary");
    assert_eq!(last["reason"], "interrupted");
    // End of file on the pipe: the process that held it open is gone.
    let mut rest = Vec::new();
    alive.read_to_end(&mut rest).expect("ended");
}
