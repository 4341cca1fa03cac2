//! The picture in the README is what `agentproto lint` prints. `cargo xtask docs` renews it.

use assert_cmd::Command;

#[test]
fn the_picture_is_up_to_date() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = Command::cargo_bin("agentproto")
        .expect("binary")
        .current_dir(root)
        .env("COLUMNS", "100")
        .args([
            "lint",
            "--color",
            "always",
            "--no-config",
            "fixtures/demo/bad",
        ])
        .output()
        .expect("runs");
    let printed = String::from_utf8(run.stdout).expect("UTF-8");
    let shown = finding(&printed, "caps-superset-of-acp");
    let picture = anstyle_svg::Term::new()
        .palette(anstyle_svg::WIN10_CONSOLE)
        .render_svg(&shown);
    let path = root.join("docs/images/lint.svg");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("created");
        std::fs::write(&path, &picture).expect("written");
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        known == picture,
        "docs/images/lint.svg is out of date: cargo xtask docs"
    );
}

/// The part of a report about one rule: from its heading to the next one.
fn finding(printed: &str, rule: &str) -> String {
    let lines: Vec<&str> = printed.lines().collect();
    let start = lines
        .iter()
        .position(|line| line.contains(&format!("[{rule}]")));
    let start = start.expect("the finding");
    let is_heading = |line: &&str| line.contains("error[") || line.contains("warning[");
    let after = lines[start + 1..].iter().position(is_heading);
    let end = after.map_or(lines.len(), |after| start + 1 + after);
    let text = lines[start..end].join("\n");
    text.trim_end().to_owned()
}
