//! Builds the documentation site: docs/, the files they refer to, one page per lint rule, and the
//! API documentation. mdBook renders it with a search index; the links are checked afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::{Outcome, cargo, root, run, tools};

const MDBOOK: &str = "0.5.4";

/// Files at the top of the repository that the documentation refers to.
const TOP: [&str; 7] = [
    "README.md",
    "fixtures/README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "LICENSE",
];
/// Directories that are copied whole. The source tree of the book mirrors the repository, so that
/// relative links work in both.
const DIRECTORIES: [&str; 4] = ["docs", "reports", "schemas", "examples"];

/// Pages about the project, at the end of the table of contents.
const PROJECT: [(&str, &str); 8] = [
    ("Documentation", "docs/index.md"),
    ("Architecture", "ARCHITECTURE.md"),
    ("Contributing", "CONTRIBUTING.md"),
    ("Security", "SECURITY.md"),
    ("Changelog", "CHANGELOG.md"),
    ("Examples", "examples/index.md"),
    ("Schemas", "schemas/index.md"),
    ("Fixtures", "fixtures/index.md"),
];

const BOOK: &str = "\
[book]
title = \"agentproto\"
language = \"en\"
src = \"src\"

[build]
build-dir = \"html\"
create-missing = false

[output.html]
no-section-label = true
preferred-dark-theme = \"navy\"

[output.html.fold]
enable = true
level = 0
";

/// Builds target/site/html.
pub fn build() -> Outcome {
    tools::install("mdbook", "mdbook", MDBOOK)?;
    let site = root().join("target/site");
    let _ = fs::remove_dir_all(&site);
    let source = site.join("src");
    for name in TOP {
        copy(&root().join(name), &source.join(name))?;
    }
    for name in DIRECTORIES {
        copy(&root().join(name), &source.join(name))?;
    }
    // The reports are pages already.
    for name in ["README.md", "findings.md", "index.md"] {
        let _ = fs::remove_file(source.join("reports").join(name));
    }
    write(&source.join("examples/README.md"), &examples(&source)?)?;
    let rules = split_rules(&source.join("docs"))?;
    rename_readmes(&source)?;
    write(&source.join("SUMMARY.md"), &summary(&source, &rules)?)?;
    let library = source.join("docs/library.md");
    let text = read(&library)?
        + "\n## API\n\nSee the [API documentation](../api/agentproto/index.html).\n";
    write(&library, &text)?;
    write(&site.join("book.toml"), BOOK)?;
    run(Command::new("mdbook").arg("build").arg(&site))?;
    run(cargo()
        .args(["doc", "--no-deps", "--workspace", "--exclude", "xtask"])
        .args(["--target-dir", "target"])
        .env("RUSTDOCFLAGS", "-D warnings"))?;
    copy(&root().join("target/doc"), &site.join("html/api"))?;
    let pages = check_links(&site.join("html"))?;
    println!("{pages} pages: {}", site.join("html/index.html").display());
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, text: &str) -> Outcome {
    let dir = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(dir).and_then(|()| fs::write(path, text));
    written.map_err(|e| format!("{}: {e}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Outcome {
    let failed = |e| format!("{}: {e}", from.display());
    if !from.is_dir() {
        let dir = to.parent().unwrap_or(to);
        fs::create_dir_all(dir).map_err(failed)?;
        return fs::copy(from, to).map(drop).map_err(failed);
    }
    for entry in fs::read_dir(from).map_err(failed)?.flatten() {
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Renames README.md to index.md, as mdBook does, with the links to it.
fn rename_readmes(dir: &Path) -> Outcome {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            rename_readmes(&path)?;
        } else if path.extension().is_some_and(|e| e == "md") {
            let text = read(&path)?
                .replace("reports/README.md)", "reports/index.html)")
                .replace("README.md)", "index.md)")
                .replace("README.md#", "index.md#");
            let is_readme = path.file_name().is_some_and(|name| name == "README.md");
            if is_readme {
                fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            }
            let name = if is_readme {
                path.with_file_name("index.md")
            } else {
                path
            };
            write(&name, &text)?;
        }
    }
    Ok(())
}

/// Moves every `### rule` section of docs/rules.md to docs/rules/RULE.md, and returns the names.
fn split_rules(docs: &Path) -> Result<Vec<String>, String> {
    let text = read(&docs.join("rules.md"))?;
    let mut index = String::new();
    let mut rules: Vec<(String, String)> = Vec::new();
    let mut fence = 0;
    for line in text.lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        let in_code = fence > 0;
        match (ticks, fence) {
            (3.., 0) => fence = ticks,
            (3.., open) if ticks >= open && line.len() == ticks => fence = 0,
            _ => {}
        }
        let heading = |marks| line.strip_prefix(marks).filter(|_| !in_code);
        if let Some(name) = heading("### ") {
            rules.push((name.to_owned(), format!("# {name}\n")));
        } else if heading("## ").is_some() {
            rules.push((String::new(), String::new()));
        } else if let Some((_, page)) = rules.last_mut() {
            // Headings move up: the page's title is the rule.
            *page += heading("##").filter(|l| l.starts_with('#')).unwrap_or(line);
            page.push('\n');
        } else {
            index += line;
            index.push('\n');
        }
    }
    rules.retain(|(name, _)| !name.is_empty());
    for (name, page) in &rules {
        let page = page.replace("](#", "](../rules.md#");
        write(&docs.join("rules").join(format!("{name}.md")), &page)?;
    }
    let mut names: Vec<String> = rules.into_iter().map(|(name, _)| name).collect();
    for name in &names {
        index = index.replace(&format!("](#{name})"), &format!("](rules/{name}.md)"));
    }
    write(&docs.join("rules.md"), &index)?;
    for entry in fs::read_dir(docs).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "md") {
            let mut text = read(&path)?;
            for name in &names {
                text = text.replace(&format!("rules.md#{name})"), &format!("rules/{name}.md)"));
            }
            write(&path, &text)?;
        }
    }
    names.sort();
    Ok(names)
}

/// The table of contents: the links of docs/README.md, in its order.
fn summary(source: &Path, rules: &[String]) -> Result<String, String> {
    let mut out = String::from("# Summary\n\n[agentproto](index.md)\n\n");
    let index = read(&source.join("docs/index.md"))?;
    let mut seen = BTreeSet::new();
    for line in index.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            out += &format!("\n# {heading}\n\n");
        }
        if !line.starts_with('|') {
            continue;
        }
        for (title, target) in links(line) {
            let file = normalize(&Path::new("docs").join(target));
            if file.extension().is_none_or(|e| e != "md") || !seen.insert(file.clone()) {
                continue;
            }
            out += &format!("- [{title}]({})\n", file.display());
            if file == Path::new("docs/rules.md") {
                for rule in rules {
                    out += &format!("  - [{rule}](docs/rules/{rule}.md)\n");
                }
            }
        }
    }
    out += "\n# Project\n\n";
    for (title, file) in PROJECT {
        if seen.insert(PathBuf::from(file)) {
            out += &format!("- [{title}]({file})\n");
        }
    }
    Ok(out)
}

/// A page that lists the examples with their first sentence.
fn examples(source: &Path) -> Result<String, String> {
    let mut out = String::from("# Examples\n\n");
    let dir = source.join("examples");
    let entries = fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files
        .iter()
        .filter(|f| f.extension().is_some_and(|e| e == "rs"))
    {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let text = read(file)?;
        let about = text.lines().next().unwrap_or_default();
        out += &format!("- [{name}]({name}): {}\n", about.trim_start_matches("//! "));
    }
    Ok(out)
}

/// Title and target of each Markdown link in a line.
fn links(line: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find("](") {
        let title = rest[..at].rsplit('[').next().unwrap_or_default();
        let after = &rest[at + 2..];
        let Some(end) = after.find(')') else { break };
        found.push((title, &after[..end]));
        rest = &after[end..];
    }
    found
}

/// Resolves `.` and `..`.
fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// Checks that every relative link of every page leads to a file, and to an anchor in it. Returns
/// the number of pages. rustdoc and report pages are only checked as targets: they are generated.
fn check_links(html: &Path) -> Result<usize, String> {
    let mut pages = BTreeMap::new();
    collect(html, &mut pages)?;
    let mut broken = Vec::new();
    for (page, text) in &pages {
        let name = page.strip_prefix(html).unwrap_or(page);
        let is_checked = !name.starts_with("api") && !name.starts_with("reports");
        if !is_checked || name == Path::new("404.html") {
            continue;
        }
        for target in attributes(text, "href").chain(attributes(text, "src")) {
            let outside = target.contains("://") || target.starts_with("mailto:");
            if outside || target.is_empty() || target.starts_with("data:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => page.clone(),
                file => normalize(&page.parent().unwrap_or(page).join(file)),
            };
            let file = if file.is_dir() {
                file.join("index.html")
            } else {
                file
            };
            let has_anchor =
                |text: &String| anchor.is_empty() || attributes(text, "id").any(|id| id == anchor);
            let is_there = match pages.get(&file) {
                Some(text) => has_anchor(text),
                None => file.is_file() && anchor.is_empty(),
            };
            if !is_there {
                broken.push(format!("{}: {target}", name.display()));
            }
        }
    }
    broken.sort();
    broken.dedup();
    match broken.as_slice() {
        [] => Ok(pages.len()),
        broken => Err(format!(
            "{} broken links:\n{}",
            broken.len(),
            broken.join("\n")
        )),
    }
}

fn collect(dir: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Outcome {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, pages)?;
        } else if path.extension().is_some_and(|e| e == "html") {
            let text = read(&path)?;
            pages.insert(path, text);
        }
    }
    Ok(())
}

/// Values of an attribute in a page.
fn attributes<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let start = format!(" {name}=\"");
    let parts: Vec<&str> = text.split(start.as_str()).skip(1).collect();
    parts.into_iter().filter_map(|part| part.split('"').next())
}
