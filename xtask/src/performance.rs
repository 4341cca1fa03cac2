//! Runs all benchmarks and writes their results to docs/performance.md.

use std::fs;
use std::process::Stdio;

use crate::{Outcome, cargo, root};

const BENCHMARKS: [&str; 5] = ["lint", "runtime", "sandbox", "sandbox_egress", "daemon"];
const START: &str = "<!-- results: cargo xtask performance -->\n";
const END: &str = "<!-- end of results -->\n";

/// Runs the benchmarks one after the other. A missed limit is an error, after the page is written.
pub fn measure() -> Outcome {
    let page = root().join("docs/performance.md");
    let text = fs::read_to_string(&page).map_err(|e| format!("{}: {e}", page.display()))?;
    let parts = text.split_once(START).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        return Err(format!("{} has no section for results", page.display()));
    };
    let mut table = String::from("\n| benchmark | measured | limit | |\n|---|---|---|---|\n");
    let (mut held, mut missed) = (0, Vec::new());
    for name in BENCHMARKS {
        eprintln!("xtask: cargo bench --bench {name}");
        let mut bench = cargo();
        bench.args(["bench", "--locked", "--bench", name]);
        let output = bench.stderr(Stdio::inherit()).output();
        let output = output.map_err(|e| format!("cargo bench: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        print!("{text}");
        let mut any = false;
        for (holds, what, value, limit) in text.lines().filter_map(result) {
            any = true;
            let mark = if holds { "holds" } else { "**missed**" };
            table += &format!("| `{name}` | {what}: {value} | {limit} | {mark} |\n");
            match holds {
                true => held += 1,
                false => missed.push(format!("{name}: {what}")),
            }
        }
        if !any || (!output.status.success() && missed.is_empty()) {
            return Err(format!("cargo bench --bench {name}: {}", output.status));
        }
    }
    let summary = format!("\n{held} of {} limits hold.\n\n", held + missed.len());
    fs::write(
        &page,
        format!("{before}{START}{table}{summary}{END}{after}"),
    )
    .map_err(|e| format!("{}: {e}", page.display()))?;
    match missed.as_slice() {
        [] => Ok(()),
        missed => Err(format!("missed: {}", missed.join(", "))),
    }
}

/// A line such as `ok   time of all rules / parsing: 1.42 (limit <= 1.6)`.
fn result(line: &str) -> Option<(bool, &str, &str, &str)> {
    let (mark, rest) = line.split_at_checked(5)?;
    let holds = match mark {
        "ok   " => true,
        "MISS " => false,
        _ => return None,
    };
    let (what, rest) = rest.rsplit_once(": ")?;
    let (value, limit) = rest.split_once(" (limit ")?;
    Some((holds, what, value, limit.strip_suffix(')')?))
}
