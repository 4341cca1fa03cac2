//! Certifies an agent from your own test suite.
//!
//! ```sh
//! cargo run --example certify_in_tests                 # a built-in mock agent
//! cargo run --example certify_in_tests -- my-agent acp # your agent
//! ```
//!
//! In a test target with `harness = false`, `main` looks the same.

use agentproto::certify;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    agentproto::init();
    let command: Vec<String> = std::env::args().skip(1).collect();
    let certification = match command.is_empty() {
        true => certify::mock("acp"),
        false => certify::command(command),
    };
    let report = tokio::runtime::Runtime::new()?.block_on(
        certification
            .only(["IN-01", "PT-01"]) // without `only`, the whole suite runs
            .prompt("text", "Say hello.")
            .run(),
    )?;
    println!(
        "{} passed, {} failed",
        report.summary.pass, report.summary.fail
    );
    for failure in certify::failures(&report) {
        println!("{}: {}", failure.requirement, failure.message);
        println!(
            "  fix: {}",
            failure.hint.as_deref().unwrap_or("see the message")
        );
    }
    match certify::failures(&report).next() {
        Some(_) => Err("the agent does not conform".into()),
        None => Ok(()),
    }
}
