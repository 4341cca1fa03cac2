//! Package managers, vendored files, and requirements on the machine.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::install::support::{World, ran};

const NPM: &str = "  - { method: npm, package: '@demo/tool@1' }";

fn is_root() -> bool {
    // SAFETY: `geteuid` takes no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A29-INSTALL-08, A29-VER-08, A45-LIFE-02.
#[test]
fn a_missing_program_is_installed_once_in_our_directory() {
    agentproto_suites::proves!("A29-PRIN-01", "A29-VER-08", "A45-LIFE-02");
    let world = World::new();
    world.manager("npm");
    world.manifest(NPM);
    let first = world.install(&["--yes"]);
    first.works();
    assert!(
        first.stdout.contains("1.2.3 (installed by npm)"),
        "{}",
        first.stdout
    );
    assert!(
        first.stderr.contains("working on it"),
        "no progress is shown"
    );
    let calls = world.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert!(calls[0].starts_with("npm|install|--global|"), "{calls:?}");
    assert!(calls[0].ends_with("|--|@demo/tool@1"), "{calls:?}");
    assert!(calls[0].contains(&format!(
        "|--prefix|{}/tools/demo-tool@1/",
        world.home().display()
    )));
    assert_eq!(
        world.audited(),
        ["install.attempt", "install.done", "version.checked"]
    );

    // Now installed: nothing runs and there is no question.
    world.install(&[]).works();
    assert_eq!(world.calls().len(), 1);

    // Unless a reinstallation is requested. The previous one stays for processes that use it.
    world.install(&["--yes", "--reinstall"]).works();
    world.install(&["--yes", "--reinstall"]).works();
    assert_eq!(world.calls().len(), 3);
    let dir = world.home().join("tools/demo-tool@1");
    let generations = fs::read_dir(&dir).expect("there").flatten();
    assert_eq!(
        generations
            .filter(|e| e.path().join("installed.json").exists())
            .count(),
        2
    );
    let mode = fs::metadata(dir).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_program_on_path_is_used_unchanged() {
    let world = World::new();
    world.manager("npm");
    world.manifest(NPM);
    world.script("path/demo-tool", "#!/bin/sh\necho demo-tool 1.9.0\n");
    let ran = world.install(&[]);
    assert!(
        ran.works().stdout.contains("1.9.0 (already installed"),
        "{}",
        ran.stdout
    );
    assert!(world.calls().is_empty());
}

/// A29-INSTALL-02 to A29-INSTALL-11: each manager is called with its arguments, never through a
/// shell.
#[test]
fn every_manager_is_called_with_its_arguments() {
    let cases = [
        (
            "brew",
            "{ method: brew, package: demo/tap/tool }",
            "brew|install|--|demo/tap/tool",
        ),
        (
            "apt-get",
            "{ method: apt, package: demo-tool }",
            "apt-get|install|--yes|--|demo-tool",
        ),
        (
            "dnf",
            "{ method: dnf, package: demo-tool }",
            "dnf|install|--assumeyes|demo-tool",
        ),
        (
            "pacman",
            "{ method: pacman, package: demo-tool }",
            "pacman|-S|--noconfirm|--needed|--|demo-tool",
        ),
        (
            "choco",
            "{ method: choco, package: demo-tool }",
            "choco|install|--yes|demo-tool",
        ),
        (
            "scoop",
            "{ method: scoop, package: demo-tool }",
            "scoop|install|demo-tool",
        ),
        (
            "npm",
            "{ method: npm, package: demo-tool, global: true }",
            "npm|install|--global|--no-fund|--no-audit|--|demo-tool",
        ),
        (
            "python3",
            "{ method: pip, package: 'demo-tool[extra]>=1', user: true }",
            "python3|-m|pip|install|--no-input|--user|--|demo-tool[extra]>=1",
        ),
        (
            "python3",
            "{ method: pip, package: demo-tool }",
            "python3|-m|pip|install|--no-input|--|demo-tool",
        ),
        (
            "cargo",
            "{ method: cargo, package: demo-tool }",
            "cargo|install|--root|DIR|--|demo-tool",
        ),
        (
            "go",
            "{ method: go, package: example.com/demo/tool }",
            "go|install|example.com/demo/tool@latest",
        ),
    ];
    for (program, entry, expected) in cases {
        if !is_root() && ["apt-get", "dnf", "pacman"].contains(&program) {
            continue;
        }
        let world = World::new();
        world.manager(program);
        world.manifest(&format!("  - {entry}"));
        world.install(&["--yes"]).works();
        let last = world.calls().pop().expect("a call");
        let words: Vec<&str> = last.split('|').collect();
        let shown: Vec<&str> = words
            .iter()
            .map(|w| {
                if w.starts_with(&*world.home().to_string_lossy()) {
                    "DIR"
                } else {
                    w
                }
            })
            .collect();
        assert_eq!(shown.join("|"), expected);
        // The next run finds the program without the manager.
        fs::remove_file(world.root().join("path").join(program)).expect("removed");
        world.install(&[]).works();
    }
}

/// A29-INSTALL-01, A29-PRIN-04.
#[test]
fn methods_are_tried_in_order_until_one_succeeds() {
    agentproto_suites::proves!("A29-PRIN-04", "A29-INSTALL-01");
    let world = World::new();
    world.script(
        "path/cargo",
        "#!/bin/sh\necho cargo >> @ROOT@/calls\necho no such crate >&2\nexit 101\n",
    );
    world.script("path/scoop", "#!/bin/sh\necho scoop >> @ROOT@/calls\n");
    world.manager("npm");
    world.manager("choco");
    world.manifest(
        "  - { method: brew, package: tool }
  - { method: cargo, package: tool }
  - { method: scoop, package: tool }
  - { method: npm, package: tool }
  - { method: choco, package: tool }",
    );
    let ran = world.install(&["--yes"]);
    ran.works();
    assert!(ran.stderr.contains("no `brew` on PATH"), "{}", ran.stderr);
    assert!(ran.stderr.contains("no such crate"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("does not contain `demo-tool`"),
        "{}",
        ran.stderr
    );
    let calls = world.calls();
    let calls: Vec<&str> = calls.iter().filter_map(|c| c.split('|').next()).collect();
    assert_eq!(calls, ["cargo", "scoop", "npm"]);
}

#[test]
fn if_no_method_works_every_reason_is_reported() {
    let world = World::new();
    world.script(
        "path/npm",
        "#!/bin/sh\nmkdir -p \"$6/bin\"\necho broken >&2\nexit 3\n",
    );
    world.manifest(&format!("  - {{ method: brew, package: tool }}\n{NPM}"));
    let ran = world.install(&["--yes"]);
    ran.fails(69, "install_failed", "no `brew` on PATH");
    assert!(ran.stderr.contains("broken"), "{}", ran.stderr);
    assert!(world.tools().is_empty(), "{:?}", world.tools());
    assert_eq!(world.audited(), ["install.attempt", "install.failed"]);
}

/// A29-SEC-01: the manifest is untrusted.
#[test]
fn hostile_package_names_are_refused() {
    agentproto_suites::proves!("A29-SEC-01");
    for package in [
        "--prefix=/",
        "-g",
        "a; touch pwned",
        "$(id)",
        "git+https://example.com/x.git",
        "../../etc",
        "file:/etc",
        "a\\nb",
        "",
    ] {
        for (method, program) in [
            ("npm", "npm"),
            ("pip", "python3"),
            ("cargo", "cargo"),
            ("go", "go"),
            ("brew", "brew"),
            ("apt", "apt-get"),
            ("dnf", "dnf"),
            ("pacman", "pacman"),
        ] {
            let world = World::new();
            world.manager(program);
            world.manifest(&format!(
                "  - {{ method: {method}, package: \"{package}\" }}"
            ));
            let ran = world.install(&["--yes", "--dry-run"]);
            assert!(ran.works().stdout.contains("skipped"), "{method} {package}");
        }
    }
    let world = World::new();
    world.manager("npm");
    world.manifest("  - { method: npm, package: '--prefix=/' }");
    world
        .install(&["--yes"])
        .fails(69, "install_failed", "invalid npm package name");
    assert!(world.calls().is_empty());
}

/// A29-INSTALL-19 to A29-INSTALL-21.
#[test]
fn unknown_and_experimental_methods_are_skipped_with_a_warning() {
    agentproto_suites::proves!("A29-INSTALL-20", "A29-INSTALL-21");
    let world = World::new();
    world.manager("npm");
    world.manifest(&format!(
        "  - {{ method: warp, package: tool, experimental: true }}
  - {{ method: teleport, package: tool }}
  - {{ method: brew }}
{NPM}"
    ));
    let ran = world.install(&["--yes", "--allow-invalid", "-o", "jsonl"]);
    let events = ran.works().events();
    let codes: Vec<_> = events
        .iter()
        .filter(|e| e["type"] == "aoi:warning")
        .map(|e| e["code"].as_str().expect("a code"))
        .collect();
    assert_eq!(
        codes,
        [
            "MANIFEST_INVALID",
            "INSTALL_METHOD_EXPERIMENTAL",
            "INSTALL_METHOD_UNKNOWN",
            "INSTALL_ENTRY_INVALID"
        ]
    );
    let last = events.last().expect("a summary");
    assert_eq!(last["type"], "aoi:summary");
    assert_eq!(last["ok"], true);
    assert_eq!(last["method"], "npm");
    assert_eq!(last["version"], "1.2.3");
}

/// A29-INSTALL-16, A45-LIFE-02.
#[test]
fn nothing_is_installed_on_an_unsupported_machine() {
    agentproto_suites::proves!("A29-INSTALL-16", "A45-LIFE-02");
    for (requires, part) in [
        ("requires: { os: [darwin, windows] }", "darwin, windows"),
        ("requires: { arch: [pdp11] }", "pdp11"),
        ("requires: { min_disk_mb: 999999999 }", "999999999 MB"),
        ("requires: { min_memory_mb: 999999999 }", "999999999 MB"),
    ] {
        let world = World::new();
        world.manager("npm");
        world.manifest_with(NPM, "range: '*'", requires);
        world
            .install(&["--yes", "--allow-invalid"])
            .fails(69, "install_failed", part);
        assert!(world.calls().is_empty());
    }
    let world = World::new();
    world.manager("npm");
    world.manager("cargo");
    world.manifest(
        "  - { method: cargo, package: tool, requires: { os: [darwin] } }
  - { method: npm, package: tool, requires: { os: [linux] } }",
    );
    world.install(&["--yes", "--allow-invalid"]).works();
    assert!(world.calls()[0].starts_with("npm|"));
}

#[test]
fn nothing_is_installed_without_confirmation() {
    let world = World::new();
    world.manager("npm");
    world.manifest(NPM);
    world.install(&[]).fails(69, "install_failed", "--yes");
    assert!(world.calls().is_empty());
    assert!(world.tools().is_empty());
}

#[test]
fn system_package_managers_need_root() {
    if !is_root() || !std::path::Path::new("/usr/bin/setpriv").exists() {
        return;
    }
    let world = World::new();
    world.manager("apt-get");
    world.manifest("  - { method: apt, package: demo-tool }");
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(world.root(), open.clone()).expect("set");
    let command = world.command(&["install", "./bundle", "--dry-run"]);
    let binary = world.root().join("agentproto");
    fs::copy(command.get_program(), &binary).expect("copied");
    let mut again = std::process::Command::new("/usr/bin/setpriv");
    again
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(binary)
        .args(command.get_args())
        .current_dir(world.root());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            again.env(name, value);
        }
    }
    again.env("AGENTPROTO_HOME", world.root().join("other"));
    let ran = ran(&mut again);
    assert!(ran.works().stdout.contains("needs root"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("sudo apt-get install --yes demo-tool"),
        "{}",
        ran.stdout
    );
}

/// A29-INSTALL-15.
#[test]
fn a_vendored_program_must_be_inside_the_bundle() {
    let world = World::new();
    let entry = |path: &str| world.manifest(&format!("  - {{ method: vendored, path: '{path}' }}"));
    entry("./tool");
    world
        .install(&[])
        .fails(69, "install_failed", "no `./tool` in the bundle");

    world.script("bundle/tool", "#!/bin/sh\necho demo-tool 1.0.0\n");
    let ran = world.install(&[]);
    assert!(
        ran.works().stdout.contains("installed by vendored"),
        "{}",
        ran.stdout
    );

    let tool = world.bundle().join("tool");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o644)).expect("set");
    world
        .install(&[])
        .fails(69, "install_failed", "not executable");

    let outside = world.script("outside", "#!/bin/sh\necho demo-tool 1.0.0\n");
    fs::remove_file(&tool).expect("removed");
    symlink(&outside, &tool).expect("linked");
    world
        .install(&[])
        .fails(69, "install_failed", "points outside the bundle");
    for path in ["../outside", "/bin/sh", "./", "a/../../outside"] {
        entry(path);
        world.install(&[]).fails(69, "install_failed", "`");
    }
}
