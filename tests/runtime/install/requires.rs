//! `requires` also applies to programs that are already installed.

use crate::bench_bundle::Bench;
use agentproto_runtime::Code;
use agentproto_suites::proves;

/// A program on this machine does not make up for the wrong machine.
#[tokio::test]
async fn an_installed_program_also_needs_the_required_machine() {
    proves!("A29-INSTALL-16");
    let ensure = async |requires: &str| {
        let bench = Bench::new(requires);
        let text = std::fs::read_to_string(bench.at("bundle/AGENT-CLI.md")).expect("a manifest");
        bench.write("bundle/AGENT-CLI.md", &text.replace("bin: tool", "bin: sh"));
        let ctx = bench.alone();
        let found = agentproto_runtime::install::ensure(&ctx, Default::default()).await;
        found.map_err(|error| (error.code, error.message))
    };
    for requires in [
        "requires: { os: [darwin] }\n",
        "requires: { arch: [z80] }\n",
        "requires: { min_memory_mb: 1000000000 }\n",
    ] {
        let (code, message) = ensure(requires).await.expect_err(requires);
        assert_eq!(code, Code::InstallFailed);
        assert!(message.contains("`requires."), "{message}");
    }
    for requires in [
        "",
        "requires: { os: [linux, darwin] }\n",
        // There is nothing to install, so no space is needed.
        "requires: { min_disk_mb: 1000000000000 }\n",
    ] {
        let found = ensure(requires).await.expect(requires);
        assert!(found.bin.ends_with("sh"));
    }
}

/// The command line finds a bundle by its id, and says where it looked.
#[test]
fn a_bundle_is_found_by_its_id_from_the_command_line() {
    proves!("A29-FILE-05");
    let bench = Bench::new("");
    let place = |dir: &str| {
        std::fs::create_dir_all(bench.at(dir)).expect("made");
        for entry in std::fs::read_dir(bench.at("bundle")).expect("a directory") {
            let from = entry.expect("an entry");
            if from.path().is_file() {
                let to = bench.at(dir).join(from.file_name());
                std::fs::copy(from.path(), to).expect("copied");
            }
        }
    };
    place("registry/cloud/any-name");
    let install = |target: &str| {
        let out = bench.command(&["install", target, "--adapters", "../registry"]);
        let out = { out }.output().expect("ran");
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        (out.status.code(), stderr)
    };
    let (code, stderr) = install("probe");
    assert_eq!(code, Some(0), "{stderr}");
    let (code, stderr) = install("zebra");
    assert_eq!(code, Some(66), "{stderr}");
    assert!(stderr.contains("../registry"), "{stderr}");
    place("registry/probe");
    let (code, stderr) = install("probe");
    assert_eq!(code, Some(64), "{stderr}");
    assert!(stderr.contains("target_ambiguous"), "{stderr}");
    assert!(
        stderr.contains("cloud/any-name") && stderr.contains("registry/probe"),
        "{stderr}"
    );
}
