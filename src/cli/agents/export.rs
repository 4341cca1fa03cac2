//! `agentproto export`: writes the definition of an agent in the format of another host.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::cli::{Outcome, io_failure};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_runtime::bundle::{Bundle, TargetKind};
use agentproto_runtime::command::CommandLine;
use agentproto_runtime::home::Home;
use agentproto_runtime::{Code, Error};

#[derive(Subcommand, Debug)]
pub enum ExportAction {
    /// Print the runtime definition of an ACP agent for Open Design, an
    /// application that runs agents over ACP
    OpenDesign(OpenDesign),
}

#[derive(Args, Debug)]
pub struct OpenDesign {
    /// Agent to export: an adapter's name, an AGENT-CLI.md, or a directory that contains one
    pub target: String,
    /// Look up adapters in DIR first
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// Output format: a TypeScript module, or its data
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = ExportOutput::Ts)]
    pub output: ExportOutput,
}

/// Values of `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportOutput {
    Ts,
    Json,
    Jsonl,
}

pub fn run(action: &ExportAction, out: &mut dyn Write) -> Outcome {
    let ExportAction::OpenDesign(args) = action;
    let started = Instant::now();
    let bundle = Bundle::discover_kind(
        &args.target,
        TargetKind::Agent,
        &args.adapters,
        &Home::from_env()?,
    )?;
    let definition = Definition::new(&bundle)?;
    match args.output {
        ExportOutput::Ts => out.write_all(definition.typescript().as_bytes()),
        ExportOutput::Json => writeln!(out, "{:#}", definition.json()),
        ExportOutput::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            let fields = object(json!({ "content": definition.json() }));
            emitter
                .meta("export open-design")
                .and_then(|()| emitter.event(EventType::Document, &fields))
                .and_then(|()| emitter.summary(true, started.elapsed(), object(json!({}))))
        }
    }
    .map_err(io_failure)?;
    Ok(exit::CLEAN)
}

/// A runtime definition of Open Design (OD-38 to OD-42).
struct Definition {
    id: String,
    name: String,
    bin: String,
    version_args: Vec<String>,
    models: Vec<String>,
    args: Vec<String>,
}

/// The format in which Open Design drives ACP agents. It drives no other protocol.
const STREAM_FORMAT: &str = "acp-json-rpc";

impl Definition {
    fn new(bundle: &Bundle) -> Result<Definition, Error> {
        let protocol = bundle.text("protocol").unwrap_or("none");
        let Some(agent) = bundle.agent().filter(|_| protocol == "acp") else {
            let node = bundle.root().get("protocol").unwrap_or(bundle.root());
            let what = format!(
                "cannot export to Open Design: it runs only ACP agents, but the manifest's protocol is {protocol}"
            );
            return Err(bundle
                .error_at(Code::CapabilityMismatch, node, &what)
                .hint("export an AGENT-CLI.md with `protocol: acp`"));
        };
        let bin = bundle.text("bin")?;
        let models = agent.models();
        let default = models.and_then(|models| models.default());
        let allowed = models.into_iter().flat_map(|models| models.allowed());
        let mut names: Vec<String> = Vec::new();
        for name in default.into_iter().chain(allowed) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        if names.is_empty() {
            names.push("default".to_owned());
        }
        Ok(Definition {
            id: bundle.text("id")?.to_owned(),
            name: bundle.text("name")?.to_owned(),
            version_args: version_args(bundle, bin)?,
            models: names,
            args: agent.bin_args().map(str::to_owned).collect(),
            // A path in a manifest is relative to it. Open Design does not know the bundle.
            bin: match bin.contains('/') {
                true => bundle.dir.join(bin).to_string_lossy().into_owned(),
                false => bin.to_owned(),
            },
        })
    }

    /// The definition as data. `buildArgs` is a function in TypeScript, and its result here.
    fn json(&self) -> Value {
        let models = self.models.iter();
        let models = models.map(|model| json!({ "id": model, "label": model }));
        json!({
            "id": self.id,
            "name": self.name,
            "bin": self.bin,
            "versionArgs": self.version_args,
            "fallbackModels": models.collect::<Vec<_>>(),
            "buildArgs": self.args,
            "streamFormat": STREAM_FORMAT,
        })
    }

    fn typescript(&self) -> String {
        // JSON strings are also TypeScript strings.
        let text = |text: &str| Value::from(text).to_string();
        let list = |words: &[String]| {
            let words: Vec<String> = words.iter().map(|word| text(word)).collect();
            format!("[{}]", words.join(", "))
        };
        let models = self.models.iter();
        let models: Vec<String> = models
            .map(|model| format!("{{ id: {0}, label: {0} }}", text(model)))
            .collect();
        format!(
            "// Written by `agentproto export open-design`.\n\
             import type {{ RuntimeAgentDef }} from '../types.js';\n\n\
             export const {}Def = {{\n  id: {},\n  name: {},\n  bin: {},\n  versionArgs: {},\n  \
             fallbackModels: [{}],\n  buildArgs: () => {},\n  streamFormat: '{STREAM_FORMAT}',\n\
             }} satisfies RuntimeAgentDef;\n",
            identifier(&self.id),
            text(&self.id),
            text(&self.name),
            text(&self.bin),
            list(&self.version_args),
            models.join(", "),
            list(&self.args),
        )
    }
}

/// The arguments of `version_check.cmd`. Open Design passes them to `bin`.
fn version_args(bundle: &Bundle, bin: &str) -> Result<Vec<String>, Error> {
    let Some(check) = bundle.common().version_check() else {
        return Ok(vec!["--version".to_owned()]);
    };
    let cmd = check.cmd().unwrap_or_default();
    let words = match CommandLine::parse(cmd) {
        Ok(CommandLine::Words(words)) => words,
        _ => Vec::new(),
    };
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    match words.split_first() {
        Some((program, args)) if base(program) == base(bin) => Ok(args.to_vec()),
        _ => {
            let what = format!(
                "cannot export to Open Design: `version_check.cmd` is `{cmd}`, but Open Design asks `{bin}` for its version"
            );
            Err(bundle
                .error_at(Code::CapabilityMismatch, check.node(), &what)
                .hint("use a command that starts with the agent's `bin`"))
        }
    }
}

/// An id in camel case, as a name in TypeScript: `my-agent` becomes `myAgent`.
fn identifier(id: &str) -> String {
    let mut name = String::new();
    let parts = id.split(|c: char| !c.is_ascii_alphanumeric());
    for part in parts.filter(|part| !part.is_empty()) {
        let (first, rest) = part.split_at(1);
        match name.is_empty() {
            true => name.push_str(&first.to_ascii_lowercase()),
            false => name.push_str(&first.to_ascii_uppercase()),
        }
        name.push_str(rest);
    }
    match name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => name,
        false => format!("agent{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::identifier;

    #[test]
    fn ids_become_names() {
        for (id, name) in [
            ("my-agent", "myAgent"),
            ("Kimi", "kimi"),
            ("a.b_c", "aBC"),
            ("4o", "agent4o"),
            ("--", "agent"),
        ] {
            assert_eq!(identifier(id), name);
        }
    }
}
