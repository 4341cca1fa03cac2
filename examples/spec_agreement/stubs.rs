//! The files that a manifest in the specs needs: those that it names, and for a part the rest of
//! the manifest. All of them conform, so that they cause no findings.

use std::path::{Path, PathBuf};

use agentproto_manifest::Doctype;
use serde_json::Value;

use crate::extract::Printed;
use crate::published::frontmatter;

pub fn base(doctype: Doctype) -> &'static str {
    match doctype {
        Doctype::Cli => CLI,
        Doctype::AgentCli => AGENT_CLI,
        Doctype::Acp => ACP,
        Doctype::Sandbox => SANDBOX,
        Doctype::Secrets => SECRETS,
        Doctype::Runner => RUNNER,
        Doctype::Tool => TOOL,
        Doctype::Operator => OPERATOR,
    }
}

const CLI: &str = "---
name: Example
id: example
description: Replaces the parts that the spec does not show.
version: 1.0.0
bin: example
install:
  - { method: brew, package: example }
version_check:
  cmd: example --version
  parse: '(\\d+\\.\\d+\\.\\d+)'
  range: '>=1.0.0 <2.0.0'
sandbox:
  network: { egress: [] }
  fs:
    read: ['~/.config/gh/**']
    write: ['~/.config/gh/**']
  exec: { allow: false }
  env: { pass: [GH_TOKEN, GITHUB_TOKEN] }
commands:
  run: ./tools/run/TOOL.md
---
";

const AGENT_CLI: &str = "---
name: example
id: example
description: Replaces the parts that the spec does not show.
version: 1.0.0
bin: example
install:
  - { method: brew, package: example }
version_check:
  cmd: example --version
  parse: '(\\d+\\.\\d+\\.\\d+)'
  range: '>=1.0.0 <2.0.0'
sandbox: ./SANDBOX.md
protocol: proprietary
adapter: '@example/adapter'
---
";

const ACP: &str = "---
name: example-acp
id: example-acp
description: Replaces a profile that the spec does not show.
version: 1.0.0
kind: server
transport: stdio
metadata:
  aip44:
    acp_rev: 5ec1a7e9d0b34f6882c17ad94be0532f6a88c1d7
    tier: governance-aware
    capabilities:
      agent:
        loadSession: true
        promptCapabilities: { image: true }
    operator: ./OPERATOR.md
---
";

const SANDBOX: &str = "---
schema: sandbox/v1
id: '@example/box'
version: 1.0.0
provider: local
config: { cwd: . }
network: { egress: [api.example.com] }
---
";

const SECRETS: &str = "---
secrets:
  - slug: example-key
    name: Example key
    description: Replaces a secret that the spec does not show.
---
";

const RUNNER: &str = "---
engine: subprocess
---
";

const TOOL: &str = "---
name: Run
id: run
description: Replaces a tool that the spec does not show.
version: 1.0.0
inputs:
  type: object
  properties:
    title: { type: string }
    body: { type: string }
    base: { type: string }
outputs: { type: object }
---
";

const OPERATOR: &str = "---
name: Example
id: example
persona_summary: Replaces the parts that the spec does not show.
version: 1.0.0
profile:
  role: Does what the example asks.
  voice: Plain.
  boundaries: [Do not guess.]
---
";

/// Writes `printed` and the files that it names. Returns the files to lint.
pub fn lay_out(dir: &Path, printed: &Printed, all: &[Printed]) -> std::io::Result<Vec<PathBuf>> {
    let json = frontmatter(&printed.text).unwrap_or_default();
    let id = json.get("id").and_then(Value::as_str).unwrap_or("example");
    let folder = id.rsplit('/').next().unwrap_or(id);
    let mut bundle = dir.join(folder);
    let in_bundle = printed.doctype == Doctype::Tool && printed.text.contains("\nrunner:");
    if in_bundle {
        put(&dir.join("CLI.md"), CLI)?;
        bundle = dir.join("tools/run");
    }
    let file = bundle.join(printed.doctype.file_name());
    let mut lint = vec![file.clone()];
    if in_bundle {
        lint.push(dir.join("CLI.md"));
    }
    let mut names = Vec::new();
    strings(&json, &mut names);
    for name in names.iter().filter(|n| n.starts_with("./")) {
        let target = bundle.join(name);
        let leaf = target.file_name().and_then(|n| n.to_str());
        let stub = leaf.map(|leaf| stub(leaf, &json, all)).unwrap_or_default();
        put(&target, &stub)?;
        executable(&target)?;
    }
    put(&file, &printed.text)?;
    if let Some(slug) = json.pointer("/runtime/ref").and_then(Value::as_str) {
        let agent = dir.join("adapters").join(slug).join("AGENT-CLI.md");
        put(&agent, &bound_agent(slug, &json, all))?;
        put(&agent.with_file_name("SANDBOX.md"), SANDBOX)?;
        lint.push(agent);
    }
    Ok(lint)
}

fn stub(leaf: &str, json: &Value, all: &[Printed]) -> String {
    let Some(doctype) = Doctype::from_file_name(leaf) else {
        return "---\nname: Stub\n---\n".to_owned();
    };
    let slug = leaf.strip_suffix(doctype.file_name()).unwrap_or_default();
    let twin = all.iter().find(|p| {
        let id = format!("\nid: {}\n", slug.trim_end_matches('.'));
        p.doctype == doctype && !p.part && p.text.contains(&id)
    });
    match (twin, doctype) {
        (Some(printed), _) => printed.text.clone(),
        (None, Doctype::Secrets) => secrets(json),
        (None, doctype) => base(doctype).to_owned(),
    }
}

/// A secret for each variable and slug that the manifest names.
fn secrets(json: &Value) -> String {
    let mut slugs = Vec::new();
    for at in ["/auth/state/env", "/env/auth/state/env"] {
        let names = json.pointer(at).and_then(Value::as_array);
        for name in names.into_iter().flatten().filter_map(Value::as_str) {
            slugs.push(name.to_ascii_lowercase().replace('_', "-"));
        }
    }
    let steps = json.get("setup").and_then(Value::as_array);
    for step in steps.into_iter().flatten() {
        let slug = step.pointer("/persist/secret_slug").and_then(Value::as_str);
        slugs.extend(slug.map(str::to_owned));
    }
    if slugs.is_empty() {
        return SECRETS.to_owned();
    }
    let mut out = "---\nsecrets:\n".to_owned();
    for slug in slugs {
        out += &format!("  - {{ slug: {slug}, name: Key, description: Placeholder. }}\n");
    }
    out + "---\n"
}

/// The agent of an operator: the one in the specs if it has options, else one that has everything
/// that the binding needs, so that only the binding itself is checked.
fn bound_agent(slug: &str, operator: &Value, all: &[Printed]) -> String {
    let id = format!("\nid: {slug}\n");
    let printed = all.iter().find(|p| {
        p.doctype == Doctype::AgentCli && p.text.contains(&id) && p.text.contains("\noptions:")
    });
    if let Some(printed) = printed {
        return printed.text.clone();
    }
    let mut text = AGENT_CLI.replace("example\nid: example", &format!("{slug}\nid: {slug}"));
    let mut fields = String::new();
    let config = operator.pointer("/runtime/config");
    let at = |key: &str| config.and_then(|c| c.get(key));
    if let Some(mode) = at("mode").and_then(Value::as_str) {
        fields += &format!("modes: [{{ id: {mode}, bin_args_append: [--mode, {mode}] }}]\n");
    }
    if let Some(options) = at("options").and_then(Value::as_object) {
        fields += "options:\n";
        for (key, value) in options {
            let kind = match value {
                Value::Number(_) => "integer",
                Value::Bool(_) => "boolean",
                _ => "string",
            };
            fields += &format!("  - {{ id: {key}, type: {kind}, env: {{ V: '{{value}}' }} }}\n");
        }
    }
    if let Some(id) = at("continuation").and_then(Value::as_str) {
        fields += &format!("continuation: {{ default: {id}, supported: [{id}] }}\n");
    }
    text = text.replacen("\n---\n", &format!("\n{fields}---\n"), 1);
    text
}

fn strings(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(text) => out.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|v| strings(v, out)),
        Value::Object(map) => map.values().for_each(|v| strings(v, out)),
        _ => {}
    }
}

fn put(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, text)
}

#[cfg(unix)]
fn executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755))
}

#[cfg(not(unix))]
fn executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}
