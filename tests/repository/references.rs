//! Reference pages agree with the code. `cargo xtask docs` rewrites the generated parts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Compares a page with its new text, or writes it if `UPDATE_DOCS` is set.
fn compare(name: &str, text: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(root().join(name), text).expect("written");
    }
    assert!(
        read(name) == text,
        "{name} is out of date: cargo xtask docs"
    );
}

/// First cells of the rows of the table below a heading, without backticks.
fn first_cells(page: &str, heading: &str) -> Vec<String> {
    let section = page.split(&format!("\n{heading}\n")).nth(1);
    let section = section.unwrap_or_else(|| panic!("no section {heading}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let first = rows.map(|row| row.split('|').nth(1).unwrap_or_default());
    first
        .map(|cell| cell.trim().trim_matches('`').to_owned())
        .collect()
}

#[test]
fn the_table_of_exit_codes_is_up_to_date() {
    let source = read("src/exit.rs");
    let mut rows = String::new();
    let mut doc = "";
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("/// ") {
            doc = text.trim_end_matches('.');
        }
        if let Some(constant) = line.strip_prefix("pub const ") {
            let (name, value) = constant.split_once(": u8 = ").expect("a constant");
            rows += &format!("| {} | {name} | {doc} |\n", value.trim_end_matches(';'));
        }
    }
    let page = read("docs/exit-codes.md");
    let head = "| code | name | meaning |\n|---|---|---|\n";
    let (before, rest) = page.split_once(head).expect("a table");
    let (_, after) = rest.split_once("\n\n").expect("text after the table");
    compare(
        "docs/exit-codes.md",
        &format!("{before}{head}{rows}\n{after}"),
    );
}

#[cfg(target_os = "linux")]
#[test]
fn every_error_code_is_listed() {
    let page = read("docs/exit-codes.md");
    let heading = "## Error codes of `run`, `install`, `setup` and `auth`";
    let listed: BTreeSet<String> = first_cells(&page, heading).into_iter().collect();
    let codes = agentproto_runtime::Code::ALL.iter();
    let known: BTreeSet<String> = codes.map(|code| code.as_str().to_owned()).collect();
    assert_eq!(listed, known);
}

#[test]
fn every_configuration_key_is_listed() {
    let page = read("docs/configuration.md");
    let schema: Value = serde_json::from_str(&read("schemas/config.schema.json")).expect("JSON");
    for table in ["lint", "aoi"] {
        let keys = schema["properties"][table]["properties"].as_object();
        let keys: BTreeSet<String> = keys.expect("keys").keys().cloned().collect();
        let listed = first_cells(&page, &format!("## Keys of `[{table}]`"));
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), keys, "{table}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_http_reference_is_up_to_date() {
    let document = agentproto_daemon::http::openapi::document();
    let mut out = String::from(
        "# HTTP API\n\n\
         <!-- Generated from the OpenAPI document by `cargo xtask docs`. -->\n\n\
         Routes of `agentproto serve`. [Run many agents](daemon.md) explains how to use them. A \
         running daemon serves the OpenAPI document itself at `/openapi.json`. Every route except \
         the dashboard needs `Authorization: Bearer TOKEN`.\n\n\
         | method | path | what it does | success | errors |\n|---|---|---|---|---|\n",
    );
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let responses = operation["responses"].as_object().expect("responses");
            let codes = |range: std::ops::Range<u16>| {
                let numbers = responses.keys().filter_map(|code| code.parse::<u16>().ok());
                let numbers = numbers.filter(|code| range.contains(code));
                numbers
                    .map(|code| code.to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let summary = operation["summary"].as_str().unwrap_or_default();
            out += &format!(
                "| {} | `{path}` | {} | {} | {} |\n",
                method.to_uppercase(),
                summary.replace('|', "\\|"),
                codes(100..400),
                codes(400..600),
            );
        }
    }
    out += "\n## Types\n";
    let types = document["components"]["schemas"]
        .as_object()
        .expect("types");
    for (name, schema) in types {
        let Some(fields) = schema["properties"].as_object() else {
            continue;
        };
        out += &format!("\n### {name}\n\n");
        if let Some(about) = schema["description"].as_str() {
            out += &format!("{}\n\n", about.replace('\n', " "));
        }
        out += "| field | type | |\n|---|---|---|\n";
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (field, shape) in fields {
            let about = shape["description"].as_str().unwrap_or_default();
            let optional = match required.iter().any(|name| name == field) {
                true => "",
                false => " (optional)",
            };
            out += &format!(
                "| `{field}` | {}{optional} | {} |\n",
                kind(shape),
                about.replace('\n', " ").replace('|', "\\|"),
            );
        }
    }
    compare("docs/http-api.md", &out);
}

#[cfg(target_os = "linux")]
#[test]
fn the_list_of_recipes_is_up_to_date() {
    use agentproto_harness::run::recipe;
    let mut rows = String::new();
    for name in recipe::names() {
        let text = recipe::built_in(name).expect("built in");
        let recipe = recipe::parse(text).expect("a recipe");
        let model = match recipe.uses_mock_model {
            true => "mock",
            false => "none",
        };
        let note = recipe.note.as_deref().unwrap_or_default();
        let install = recipe.package.install();
        rows += &format!(
            "| `{name}` | {} | `{install}` | {model} | {note} |\n",
            recipe.title
        );
    }
    let page = read("docs/recipes.md");
    let head = "| recipe | agent | install | model | note |\n|---|---|---|---|---|\n";
    let (before, rest) = page.split_once(head).expect("a table");
    let (_, after) = rest.split_once("\n\n").expect("text after the table");
    compare("docs/recipes.md", &format!("{before}{head}{rows}\n{after}"));
}

/// The type of a field, in words.
#[cfg(target_os = "linux")]
fn kind(shape: &Value) -> String {
    if let Some(reference) = shape["$ref"].as_str() {
        return reference.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if let Some(any) = shape["anyOf"].as_array().or(shape["oneOf"].as_array()) {
        let kinds: BTreeSet<String> = any.iter().map(kind).filter(|k| k != "null").collect();
        return kinds.into_iter().collect::<Vec<_>>().join(" or ");
    }
    if let Some(constant) = shape["const"].as_str() {
        return format!("`{constant}`");
    }
    match &shape["type"] {
        Value::String(name) if name == "array" => format!("list of {}", kind(&shape["items"])),
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let names = names
                .iter()
                .filter_map(Value::as_str)
                .filter(|n| *n != "null");
            names.collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

/// Markdown files of the repository that people read in place.
fn pages() -> Vec<PathBuf> {
    fn collect(dir: &Path, pages: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                collect(&path, pages);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.push(path);
            }
        }
    }
    let mut pages = Vec::new();
    collect(&root().join("docs"), &mut pages);
    for name in [
        "README",
        "ARCHITECTURE",
        "CONTRIBUTING",
        "SECURITY",
        "CHANGELOG",
    ] {
        pages.push(root().join(format!("{name}.md")));
    }
    for name in [
        "schemas/README.md",
        "fixtures/README.md",
        "reports/README.md",
    ] {
        pages.push(root().join(name));
    }
    pages
}

/// Lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fence = 0;
    text.lines().filter(move |line| {
        let ticks = line.len() - line.trim_start_matches('`').len();
        let was_open = fence > 0;
        match (ticks, fence) {
            (3.., 0) => fence = ticks,
            (3.., open) if ticks >= open && line.len() == ticks => fence = 0,
            _ => {}
        }
        !was_open && fence == 0
    })
}

/// The anchor that a heading gets on GitHub and in the site.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn every_link_leads_somewhere() {
    let mut checked = 0;
    let mut broken = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        for line in prose(&text) {
            for part in line.split("](").skip(1) {
                let target = part.split(')').next().unwrap_or_default();
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (file, wanted) = target.split_once('#').unwrap_or((target, ""));
                let file = match file {
                    "" => page.clone(),
                    file => page.parent().expect("a directory").join(file),
                };
                checked += 1;
                let is_there = file.exists()
                    && (wanted.is_empty() || {
                        let text = std::fs::read_to_string(&file).unwrap_or_default();
                        let headings = prose(&text).filter(|line| line.starts_with('#'));
                        let headings = headings.map(|line| line.trim_start_matches('#').trim());
                        headings.map(anchor).any(|found| found == wanted)
                    });
                if !is_there {
                    broken.push(format!("{}: {target}", page.display()));
                }
            }
        }
    }
    assert!(checked > 200, "only {checked} links");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(
        lines < 200,
        "README.md has {lines} lines: move some to docs/"
    );
}
