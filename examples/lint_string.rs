//! Lints a manifest that is in memory, as an editor or a web service would.
//!
//! ```sh
//! cargo run --example lint_string
//! ```

use agentproto::lint::{self, Format, Linter, Severity};

const MANIFEST: &str = "\
---
name: heron
id: Heron_Agent
version: 1.0
---
";

fn main() {
    // The name decides which rules apply. The file does not have to exist.
    let report = lint::text("heron/AGENT-CLI.md", MANIFEST);
    for finding in &report.findings {
        println!(
            "{}:{}: {} [{}]",
            finding.start.line, finding.start.column, finding.message, finding.rule.slug
        );
    }
    println!("{} errors", report.count(Severity::Error));

    // Or print what `agentproto lint --output json` prints.
    let linter = Linter::new();
    let report = linter.files([("heron/AGENT-CLI.md", MANIFEST)]);
    println!("{}", linter.render(&report, Format::Json));
}
