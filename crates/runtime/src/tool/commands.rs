//! The commands of a bundle: the leaves of `commands` in its CLI.md (AIP-29, subcommands).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::template::{ArgvTemplate, TemplateError};
use crate::bundle::Bundle;
use crate::error::{Code, Error};
use agentproto_manifest::views::View;
use agentproto_manifest::{Disk, Document, Node, RefRole, Span, Workspace, to_json};
use agentproto_sandbox::policy::ManifestPosition;

/// Maximum number of commands of a bundle.
const MAX_COMMANDS: usize = 2000;

/// A command of a bundle: one TOOL.md.
#[derive(Clone, Debug)]
pub struct ToolCommand {
    /// The words after the binary, for example `["pr", "list"]`.
    pub path: Vec<String>,
    /// `id` of the TOOL.md.
    pub id: String,
    /// Display name of the tool.
    pub name: String,
    /// What the tool does.
    pub description: String,
    /// Path of the TOOL.md.
    pub file: PathBuf,
    /// JSON Schema of the input.
    pub inputs: Value,
    /// JSON Schema of the output, if the TOOL.md has one.
    pub outputs: Option<Value>,
    /// What callers should know before a call.
    pub annotations: Annotations,
    /// `timeout_ms` of the TOOL.md.
    pub timeout: Option<Duration>,
    /// The arguments, or why the tool cannot be called.
    pub(super) argv: Result<ArgvTemplate, Error>,
}

/// What a tool does to its environment, from its TOOL.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// It changes nothing: `mutates` is empty.
    pub read_only: bool,
    /// It changes something, and its `risk_level` is not declared as 0 or 1.
    pub destructive: bool,
    /// A second call with the same input changes nothing more: `idempotent`.
    pub idempotent: bool,
    /// It can reach other machines: the sandbox of the bundle has `network.egress`.
    pub open_world: bool,
}

impl ToolCommand {
    /// The command as a person types it, for example `pr list`.
    pub fn title(&self) -> String {
        self.path.join(" ")
    }

    /// Why the tool cannot be called, if it cannot.
    pub fn problem(&self) -> Option<&Error> {
        self.argv.as_ref().err()
    }

    /// The command as JSON.
    pub fn json(&self) -> Value {
        let mut command = json!({
            "path": self.path,
            "id": self.id,
            "description": self.description,
            "inputs": self.inputs,
        });
        if let Some(problem) = self.problem() {
            command["problem"] = json!(problem.message);
        }
        command
    }
}

/// All commands of a bundle, in the order of its CLI.md.
pub fn commands(bundle: &Bundle) -> Result<Vec<ToolCommand>, Error> {
    let Some(tree) = bundle.root().get("commands") else {
        return Err(bundle.invalid(bundle.root(), "`commands` is missing (AIP-29)"));
    };
    if !tree.is_map() {
        let what = format!("`commands` must be a mapping, not {}", tree.type_name());
        return Err(bundle.invalid(tree, &what));
    }
    let workspace = Workspace::new(&Disk, "/");
    let mut found = Vec::new();
    collect(bundle, &workspace, tree, &mut Vec::new(), &mut found)?;
    Ok(found)
}

/// The parser limits the nesting depth, so the recursion is bounded.
fn collect(
    bundle: &Bundle,
    workspace: &Workspace<'_>,
    tree: &Node,
    path: &mut Vec<String>,
    found: &mut Vec<ToolCommand>,
) -> Result<(), Error> {
    for entry in tree.entries() {
        path.push(entry.key.to_string());
        if entry.value.is_map() {
            collect(bundle, workspace, &entry.value, path, found)?;
        } else if let Some(reference) = entry.value.as_str() {
            if found.len() >= MAX_COMMANDS {
                let what = format!("`commands` has more than {MAX_COMMANDS} tools");
                return Err(bundle.invalid(tree, &what));
            }
            found.push(command(bundle, workspace, path, &entry.value, reference));
        } else {
            let what = format!(
                "a command must be the path of a TOOL.md or a group, not {}",
                entry.value.type_name()
            );
            return Err(bundle.invalid(&entry.value, &what));
        }
        path.pop();
    }
    Ok(())
}

fn command(
    bundle: &Bundle,
    workspace: &Workspace<'_>,
    path: &[String],
    node: &Node,
    reference: &str,
) -> ToolCommand {
    let doc = tool_document(bundle, workspace, node, reference);
    match doc.as_ref().map(|doc| (doc, doc.view())) {
        Ok((doc, Some(View::Tool(tool)))) => read(bundle, path, doc, tool.node()),
        // The other commands of the bundle still work.
        other => ToolCommand {
            path: path.to_vec(),
            id: String::new(),
            name: String::new(),
            description: String::new(),
            file: bundle.dir.join(reference),
            inputs: json!({}),
            outputs: None,
            annotations: Annotations::default(),
            timeout: None,
            argv: Err(match other {
                Err(error) => error.clone(),
                Ok(_) => bundle.invalid(node, &format!("`{reference}` is not a TOOL.md (AIP-14)")),
            }),
        },
    }
}

fn tool_document(
    bundle: &Bundle,
    workspace: &Workspace<'_>,
    node: &Node,
    reference: &str,
) -> Result<Arc<Document>, Error> {
    let found = workspace.resolve(&bundle.manifest, RefRole::Tool, reference);
    let Some(doc) = found.document() else {
        let what = format!("cannot read the TOOL.md `{reference}`");
        return Err(bundle.invalid(node, &what));
    };
    if let Some(problem) = doc.problems.first() {
        return Err(invalid(doc, problem.span, &problem.explained()));
    }
    Ok(Arc::clone(doc))
}

fn read(bundle: &Bundle, path: &[String], doc: &Document, root: &Node) -> ToolCommand {
    let text = |key: &str| root.str_at(&[key]).unwrap_or_default().to_owned();
    let schema = |key: &str| root.get(key).filter(|node| !node.is_null()).map(to_json);
    let mutates = root.get("mutates").map_or(0, |list| list.items().len());
    let risk = root.get("risk_level").and_then(Node::as_int);
    let egress = bundle.root().at(&["sandbox", "network", "egress"]);
    let timeout = root.get("timeout_ms").and_then(Node::as_int);
    let timeout = timeout.and_then(|ms| u64::try_from(ms).ok());
    let inputs = schema("inputs").unwrap_or_else(|| json!({ "type": "object" }));
    let argv = arguments(path, doc, root, &inputs);
    ToolCommand {
        path: path.to_vec(),
        id: text("id"),
        name: text("name"),
        description: text("description"),
        file: doc.path.clone(),
        argv,
        inputs,
        outputs: schema("outputs"),
        annotations: Annotations {
            read_only: mutates == 0,
            destructive: mutates > 0 && risk.is_none_or(|risk| risk > 1),
            idempotent: root.get("idempotent").is_some_and(Node::is_true),
            open_world: egress.is_some_and(|hosts| !hosts.items().is_empty()),
        },
        timeout: timeout.map(Duration::from_millis),
    }
}

/// `runner.argv`, or the words of the command (A29-CMD-02, A29-CMD-04).
fn arguments(
    path: &[String],
    doc: &Document,
    root: &Node,
    inputs: &Value,
) -> Result<ArgvTemplate, Error> {
    let Some(argv) = root.at(&["runner", "argv"]) else {
        return Ok(ArgvTemplate::literal(path));
    };
    let template = ArgvTemplate::parse(argv);
    let template = template.map_err(|TemplateError { span, what }| invalid(doc, span, &what))?;
    if super::schema::is_closed(inputs) {
        let known = super::schema::inputs(inputs);
        let unknown = template
            .references()
            .find(|reference| !known.iter().any(|input| input.name == reference.name()));
        if let Some(reference) = unknown {
            let what = format!("the tool has no input `{}`", reference.name());
            return Err(invalid(doc, argv.span, &what));
        }
    }
    Ok(template)
}

/// The error for a place in a TOOL.md.
fn invalid(doc: &Document, span: Span, what: &str) -> Error {
    let at = ManifestPosition::new(doc, span);
    Error::new(Code::ManifestInvalid, format!("{at}: {what}")).hint(format!(
        "run `agentproto lint {}` to see what is wrong with the tool",
        doc.path.display()
    ))
}

/// The command whose tool is this file.
pub fn by_file<'c>(commands: &'c [ToolCommand], file: &Path) -> Option<&'c ToolCommand> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let file = real(file);
    commands.iter().find(|command| real(&command.file) == file)
}
