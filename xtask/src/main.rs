//! Developer tasks of this repository. `cargo xtask` lists them. It uses only the standard
//! library, so that it builds in a second in a fresh clone.

mod lines;
mod measure;
mod performance;
mod site;
mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
cargo xtask COMMAND

  test --list       list the test targets that need more than Rust
  test NAME…        run some of them (`--all` runs all)
  docs              regenerate the references in docs/ and build the site in target/site/html
  docs references   regenerate only the references
  docs site         build only the site
  docs lint         regenerate only docs/rules.md
  performance       run all benchmarks and write docs/performance.md
  typos             check the spelling of the tree
  snapshots         accept changed snapshots and show them with git diff
  deny              check licenses, bans and sources of the dependencies
  measure NAME…     measure build and test cost (release, lint, first, test, ci)
  lines             count lines of Rust per crate
";

type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["test", "--list"] => list(),
        ["test", "--all"] => all_targets().and_then(|all| {
            let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
            test(&names)
        }),
        ["test", names @ ..] if !names.is_empty() => test(names),
        ["docs"] => references().and_then(|()| site::build()),
        ["docs", "references"] => references(),
        ["docs", "site"] => site::build(),
        ["docs", "lint"] => docs(&[LINT_REFERENCE]),
        ["snapshots"] => snapshots(),
        ["deny"] => tools::deny(),
        ["typos"] => tools::typos(),
        ["performance"] => performance::measure(),
        ["measure", names @ ..] if !names.is_empty() => measure::all(names),
        ["lines"] => lines::print(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => Err(format!("unknown command\n\n{USAGE}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Top directory of the repository.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command. A non-zero exit code is an error.
fn run(command: &mut Command) -> Outcome {
    let shown = format!("{command:?}");
    let status = command.status().map_err(|e| format!("{shown}: {e}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{shown}: {status}")),
    }
}

/// Name and description of every `tests/NAME/run`.
fn all_targets() -> Result<Vec<(String, String)>, String> {
    let dir = root().join("tests");
    let entries = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let script = entry.path().join("run");
        let Ok(text) = std::fs::read_to_string(&script) else {
            continue;
        };
        let about = text
            .lines()
            .skip(1)
            .find_map(|line| line.strip_prefix("# "));
        let name = entry.file_name().to_string_lossy().into_owned();
        found.push((name, about.unwrap_or_default().to_owned()));
    }
    found.sort();
    Ok(found)
}

fn list() -> Outcome {
    for (name, about) in all_targets()? {
        println!("{name:<16} {about}");
    }
    Ok(())
}

fn test(names: &[&str]) -> Outcome {
    let known = all_targets()?;
    let mut failed = Vec::new();
    for name in names {
        if !known.iter().any(|(known, _)| known == name) {
            return Err(format!(
                "unknown test target `{name}`: `cargo xtask test --list` lists all targets"
            ));
        }
        println!("== {name}");
        let script = root().join("tests").join(name).join("run");
        if let Err(error) = run(Command::new(script).current_dir(root())) {
            eprintln!("xtask: {error}");
            failed.push(*name);
        }
    }
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(format!("failed: {}", failed.join(", "))),
    }
}

/// Package, test target and name filter of the tests that write docs/rules.md.
const LINT_REFERENCE: [&str; 3] = ["agentproto-lint", "lint", "the_reference_is_up_to_date"];
/// Package, test target and name filter of the tests that write docs/suites/ and
/// docs/aoi-rules.md.
const CHECK_REFERENCES: [&str; 3] = ["agentproto", "judges", "reference"];

/// Package, test target and name filter of the tests that write the picture in the README and the
/// pages about exit codes, configuration and the HTTP API.
const REPOSITORY_REFERENCES: [&str; 3] = ["agentproto", "repository", "up_to_date"];

fn references() -> Outcome {
    docs(&[LINT_REFERENCE, CHECK_REFERENCES, REPOSITORY_REFERENCES])
}

/// Regenerates references. The tests that check them write them if `UPDATE_DOCS` is set.
fn docs(tests: &[[&str; 3]]) -> Outcome {
    for [package, target, filter] in tests {
        let args = ["test", "--package", package, "--test", target, filter];
        run(cargo().args(args).env("UPDATE_DOCS", "1"))?;
    }
    let files = ["diff", "--stat", "--", "docs"];
    run(Command::new("git").args(files).current_dir(root()))
}

fn snapshots() -> Outcome {
    run(cargo().arg("test").env("INSTA_UPDATE", "always"))?;
    let files = ["diff", "--stat", "--", "*.snap"];
    run(Command::new("git").args(files).current_dir(root()))
}
