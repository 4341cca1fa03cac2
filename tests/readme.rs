//! The sample of output in the README is what the binary prints.

use assert_cmd::Command;

#[test]
fn the_sample_is_real_output() {
    let root = env!("CARGO_MANIFEST_DIR");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).expect("README.md");
    let sample = readme
        .split("<!-- sample: fixtures/demo/bad -->\n```text\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("a sample");
    let run = Command::cargo_bin("agentproto")
        .expect("binary")
        .current_dir(root)
        .env("COLUMNS", "100")
        .args([
            "lint",
            "--color",
            "never",
            "--no-config",
            "fixtures/demo/bad",
        ])
        .output()
        .expect("runs");
    let printed = String::from_utf8(run.stdout).expect("UTF-8");
    let reports: Vec<&str> = sample.split("\n\nerror[").collect();
    assert!(
        reports.len() >= 2,
        "the sample shows less than two findings"
    );
    for (i, report) in reports.iter().enumerate() {
        let report = if i == 0 {
            (*report).to_owned()
        } else {
            format!("error[{report}")
        };
        assert!(
            printed.contains(report.trim_end()),
            "not printed:\n{report}\n--- printed ---\n{printed}"
        );
    }
}
