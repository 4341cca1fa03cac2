//! Extracts the manifests, and parts of manifests, from the code blocks of a checkout of the
//! specs.

use std::path::Path;

use agentproto_manifest::Doctype;

use crate::published::Published;
use crate::stubs;

/// The AIPs whose manifests the linter checks.
const AIPS: [(u32, Doctype); 8] = [
    (9, Doctype::Operator),
    (14, Doctype::Tool),
    (17, Doctype::Runner),
    (19, Doctype::Secrets),
    (29, Doctype::Cli),
    (36, Doctype::Sandbox),
    (44, Doctype::Acp),
    (45, Doctype::AgentCli),
];

pub struct Printed {
    /// File and line, such as `aip-29.mdx:757`.
    pub origin: String,
    pub doctype: Doctype,
    /// Frontmatter with its fences, and the body if there is one.
    pub text: String,
    /// Whether the spec shows only a part, which is completed here.
    pub part: bool,
}

pub struct Skipped {
    pub origin: String,
    pub why: &'static str,
}

#[derive(Default)]
pub struct Extracted {
    pub printed: Vec<Printed>,
    pub skipped: Vec<Skipped>,
}

pub fn extract(specs: &Path, published: &Published) -> Extracted {
    let mut out = Extracted::default();
    for (number, doctype) in AIPS {
        let drafts = format!("resources/aip-{number}/draft");
        for file in [
            format!("aip-{number}.mdx"),
            format!("{drafts}/EXAMPLES.md"),
            format!("{drafts}/ADAPTER.md"),
        ] {
            let Ok(text) = std::fs::read_to_string(specs.join(&file)) else {
                continue;
            };
            let name = file.replace("resources/", "").replace("/draft", "");
            for fence in fences(&text) {
                let origin = format!("{name}:{}", fence.line);
                take(&fence, doctype, origin, published, &mut out);
            }
        }
    }
    out
}

struct Fence {
    line: usize,
    text: String,
}

fn fences(text: &str) -> Vec<Fence> {
    let mut out = Vec::new();
    let mut open: Option<(usize, bool, Vec<&str>)> = None;
    for (i, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(language)) => {
                let wanted = matches!(language.trim(), "md" | "yaml" | "yml" | "markdown");
                open = Some((i + 1, wanted, Vec::new()));
            }
            (Some(_), Some(_)) => {
                let Some((line, true, lines)) = open.take() else {
                    continue;
                };
                let text = lines.join("\n") + "\n";
                out.push(Fence { line, text });
            }
            (Some((_, _, lines)), None) => lines.push(line),
            (None, None) => {}
        }
    }
    out
}

fn take(fence: &Fence, home: Doctype, origin: String, published: &Published, out: &mut Extracted) {
    let mut skip = |origin: String, why| out.skipped.push(Skipped { origin, why });
    if is_form(&fence.text) {
        return skip(origin, "a template with placeholders");
    }
    if fence.text.starts_with("---\n") {
        let keys: Vec<String> = blocks(&fence.text).into_iter().map(|b| b.key).collect();
        let has = |key: &str| keys.iter().any(|k| k == key);
        if has("implements") && !has("inputs") {
            return skip(origin, "a DRIVER.md (AIP-30)");
        }
        out.printed.push(Printed {
            origin,
            doctype: home,
            text: fence.text.clone(),
            part: false,
        });
        return;
    }
    let parts = alternatives(&fence.text);
    let several = parts.len() > 1;
    for (i, part) in parts.into_iter().enumerate() {
        let origin = match several {
            true => format!("{origin}.{}", i + 1),
            false => origin.clone(),
        };
        match assemble(&part, home, published) {
            Some((doctype, text)) => out.printed.push(Printed {
                origin,
                doctype,
                text,
                part: true,
            }),
            None => out.skipped.push(Skipped {
                origin,
                why: "no manifest of these AIPs has all of these fields",
            }),
        }
    }
}

/// Whether a text is a template and not an example: `name: <your name>`, `config: { ... }`.
fn is_form(text: &str) -> bool {
    let front = text.strip_prefix("---\n").unwrap_or(text);
    let front = front.split("\n---").next().unwrap_or(front);
    front.lines().any(|line| {
        let line = line.split(" #").next().unwrap_or(line);
        let value = line.split_once(": ").map_or(line, |(_, v)| v).trim();
        let value = value.trim_start_matches("- ");
        value.starts_with('<')
            || value.contains("{ ... }")
            || value.contains("{...}")
            || value.contains("[...]")
    })
}

#[derive(Clone)]
struct Block {
    key: String,
    text: String,
}

/// The top-level fields of a block-style mapping, each with its lines.
fn blocks(text: &str) -> Vec<Block> {
    let front = text.strip_prefix("---\n").unwrap_or(text);
    let mut out: Vec<Block> = Vec::new();
    for line in front.lines() {
        if line.starts_with("---") {
            break;
        }
        let key = line.split(':').next().unwrap_or_default();
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if line.contains(':') && !key.is_empty() && key.chars().all(word) {
            let key = key.to_owned();
            let text = String::new();
            out.push(Block { key, text });
        }
        if let Some(block) = out.last_mut().filter(|_| !line.starts_with('#')) {
            block.text.push_str(line);
            block.text.push('\n');
        }
    }
    out
}

/// Splits a code block that shows a field several times, once for each way to write it.
fn alternatives(text: &str) -> Vec<Vec<Block>> {
    let mut out: Vec<Vec<Block>> = vec![Vec::new()];
    for block in blocks(text) {
        let repeated = |part: &Vec<Block>| part.iter().any(|b| b.key == block.key);
        if out.last().is_some_and(repeated) {
            out.push(Vec::new());
        }
        if let Some(part) = out.last_mut() {
            part.push(block);
        }
    }
    out.retain(|part| !part.is_empty());
    out
}

fn indented_by_two(block: &str) -> String {
    let inner = block.lines().skip(1);
    inner
        .map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned() + "\n")
        .collect()
}

/// Completes a part with a manifest that has all other fields.
fn assemble(part: &[Block], home: Doctype, published: &Published) -> Option<(Doctype, String)> {
    let find = |key: &str| part.iter().find(|b| b.key == key);
    match home {
        Doctype::Runner => {
            let runner = find("runner").filter(|_| part.len() == 1)?;
            let inner = indented_by_two(&runner.text);
            Some((Doctype::Runner, format!("---\n{inner}---\n")))
        }
        Doctype::Sandbox => {
            let mut inner = indented_by_two(&find("sandbox")?.text);
            if let Some(inline) = blocks(&inner).iter().find(|b| b.key == "inline") {
                inner = indented_by_two(&inline.text);
            }
            Some((home, overlay(stubs::base(home), &blocks(&inner))))
        }
        Doctype::Secrets if part.iter().all(|b| SECRET_FIELDS.contains(&b.key.as_str())) => {
            let fields: String = part
                .iter()
                .flat_map(|b| b.text.lines())
                .map(|line| format!("    {line}\n"))
                .collect();
            let base = stubs::base(home);
            Some((
                home,
                base.replacen("\n---\n", &format!("\n{fields}---\n"), 1),
            ))
        }
        // AIP-29 shows the fields that a tool of a CLI bundle adds to AIP-14.
        Doctype::Cli if find("runner").is_some_and(|b| b.text.contains("cli:")) => {
            Some((Doctype::Tool, overlay(stubs::base(Doctype::Tool), part)))
        }
        _ => {
            let fits = |doctype: Doctype| {
                let known = published.fields(doctype);
                part.iter().all(|b| known.contains(&b.key))
            };
            let others = [Doctype::Cli, Doctype::AgentCli, Doctype::Operator];
            let doctype = [home].into_iter().chain(others).find(|d| fits(*d))?;
            Some((doctype, overlay(stubs::base(doctype), part)))
        }
    }
}

const SECRET_FIELDS: [&str; 6] = ["access", "audit", "kind", "metadata", "tags", "exposures"];

fn overlay(base: &str, part: &[Block]) -> String {
    let mut fields = blocks(base);
    for block in part {
        match fields.iter_mut().find(|f| f.key == block.key) {
            Some(field) => field.text.clone_from(&block.text),
            None => fields.push(block.clone()),
        }
    }
    let front: String = fields.into_iter().map(|f| f.text).collect();
    format!("---\n{front}---\n")
}
