//! The quick start in docs/daemon.md works as written.

use assert_cmd::Command;

/// The block is one bash script. The lines after `#>` must occur in the output of the command above
/// them, in this order.
#[cfg(target_os = "linux")]
#[test]
fn the_quick_start_of_the_daemon_works() {
    let root = env!("CARGO_MANIFEST_DIR");
    let guide = std::fs::read_to_string(format!("{root}/docs/daemon.md")).expect("docs/daemon.md");
    let walk = guide
        .split("<!-- walk -->\n```sh\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("a walk");
    let dir = tempfile::tempdir().expect("a directory");
    let mut script = String::from("trap 'kill $(jobs -p) 2>/dev/null' EXIT\n");
    let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in walk.lines() {
        match (line.strip_prefix("#> "), steps.last_mut()) {
            (Some(output), Some((_, wanted))) => wanted.push(output.trim()),
            (Some(_), None) => panic!("output before a command: {line}"),
            (None, _) if line.is_empty() || line.starts_with('#') => {}
            (None, _) => {
                script += &format!("echo; echo '=== step {}'\n{line}\n", steps.len());
                steps.push((line, Vec::new()));
            }
        }
    }
    let binary = assert_cmd::cargo::cargo_bin("agentproto");
    let path = std::env::var("PATH").unwrap_or_default();
    let ran = Command::new("timeout")
        .args(["120", "bash", "-c", &script])
        .current_dir(dir.path())
        .env_clear()
        .env(
            "PATH",
            format!("{}:{path}", binary.parent().expect("a directory").display()),
        )
        .env("HOME", dir.path())
        .env("TMPDIR", dir.path())
        .output()
        .expect("runs");
    let printed = String::from_utf8(ran.stdout).expect("UTF-8");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    let mut checked = 0;
    for (n, (command, wanted)) in steps.iter().enumerate() {
        let after = printed.split(&format!("=== step {n}\n")).nth(1);
        let mut output = after.unwrap_or_else(|| panic!("{command}\n{printed}\n{said}"));
        output = output.split("\n=== step ").next().unwrap_or_default();
        for line in wanted {
            let at = output.find(line);
            let at =
                at.unwrap_or_else(|| panic!("{command}\n{line}\nis not in\n{printed}\n{said}"));
            output = &output[at + line.len()..];
            checked += 1;
        }
    }
    assert!(checked > 10, "{printed}");
}
