//! Counts lines of Rust per crate, for docs/development.md.

use std::path::Path;

use crate::{Outcome, root};

pub fn print() -> Outcome {
    let top = root();
    let mut places: Vec<(String, usize)> = Vec::new();
    for dir in [
        "src",
        "schemas",
        "suites",
        "mock-agents",
        "tests",
        "benches",
        "examples",
        "xtask",
    ] {
        places.push((dir.to_owned(), count(&top.join(dir))));
    }
    let crates = std::fs::read_dir(top.join("crates")).map_err(|e| format!("crates: {e}"))?;
    for entry in crates.flatten() {
        let name = format!("crates/{}", entry.file_name().to_string_lossy());
        places.push((name, count(&entry.path())));
    }
    places.sort();
    for (name, lines) in &places {
        println!("{lines:>8} {name}");
    }
    let total: usize = places.iter().map(|(_, lines)| lines).sum();
    println!("{total:>8} total");
    Ok(())
}

fn count(path: &Path) -> usize {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        return entries.map(|entry| count(&entry.path())).sum();
    }
    if path.extension().is_none_or(|ending| ending != "rs") {
        return 0;
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().count()
}
