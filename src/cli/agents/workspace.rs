//! `agentproto workspace`: manages the named directories of this host (A46-REF-04). It only edits
//! the file: a running host reads the file again for each spawn, and writers lock it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::agents::effects::Effects;
use crate::cli::args::Output;
use crate::cli::machine::page::{Page, PageRange};
use crate::cli::{Outcome, io_failure};
use crate::exit;
use agentproto_daemon::workspaces::{RegisteredWorkspace, Workspaces};
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_runtime::Error;
use agentproto_runtime::home::Home;
use agentproto_text::escape_line;

#[derive(Subcommand, Debug)]
pub enum WorkspaceAction {
    /// Register a directory; the first one becomes active
    Add(Add),
    /// List the workspaces
    List(List),
    /// Remove a workspace from the list; the directory is kept
    Remove(WorkspaceName),
    /// Make a workspace active: sessions without a workspace run in it
    Use(WorkspaceName),
}

#[derive(Args, Debug)]
pub struct Add {
    /// Directory to register
    pub path: PathBuf,
    /// Name of the workspace [default: derived from the directory's name]
    #[arg(long, value_name = "SLUG")]
    pub slug: Option<String>,
    /// Label of the workspace, any text
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    #[command(flatten)]
    pub effects: Effects,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct List {
    #[command(flatten)]
    pub page: Page,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct WorkspaceName {
    /// Name of the workspace
    pub slug: String,
    #[command(flatten)]
    pub effects: Effects,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

impl WorkspaceAction {
    pub fn name_and_output(&self) -> (&'static str, Output) {
        match self {
            WorkspaceAction::Add(args) => ("workspace add", args.output),
            WorkspaceAction::List(args) => ("workspace list", args.output),
            WorkspaceAction::Remove(args) => ("workspace remove", args.output),
            WorkspaceAction::Use(args) => ("workspace use", args.output),
        }
    }
}

pub fn run(action: &WorkspaceAction, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let home = Home::from_env()?;
    let (command, output) = action.name_and_output();
    let change = match action {
        WorkspaceAction::List(args) => {
            let mut all = Workspaces::load(&home)?;
            let slug = |workspace: &RegisteredWorkspace| workspace.slug.clone();
            let range = args.page.select_after(command, &mut all.workspaces, slug)?;
            let page = ListPage { all, range, args };
            page.print(started, out).map_err(io_failure)?;
            return Ok(exit::CLEAN);
        }
        WorkspaceAction::Add(args) => Change {
            action: "add",
            dry_run: args.effects.dry_run,
            done: apply_change(&home, args.effects.dry_run, |all| {
                all.add(&args.path, args.slug.as_deref(), args.label.as_deref())
            })?,
        },
        WorkspaceAction::Remove(args) => Change {
            action: "remove",
            dry_run: args.effects.dry_run,
            done: apply_change(&home, args.effects.dry_run, |all| all.remove(&args.slug))?,
        },
        WorkspaceAction::Use(args) => Change {
            action: "use",
            dry_run: args.effects.dry_run,
            done: apply_change(&home, args.effects.dry_run, |all| all.activate(&args.slug))?,
        },
    };
    change
        .print(command, output, started, out)
        .map_err(io_failure)?;
    Ok(exit::CLEAN)
}

/// A change that was made, or would be made.
struct Change {
    action: &'static str,
    dry_run: bool,
    /// The workspace, and whether it is the active one afterwards.
    done: (RegisteredWorkspace, bool),
}

/// Makes the change. A dry run makes it on a copy.
fn apply_change(
    home: &Home,
    dry_run: bool,
    change: impl FnOnce(&mut Workspaces) -> Result<RegisteredWorkspace, Error>,
) -> Result<(RegisteredWorkspace, bool), Error> {
    let with_active = |all: &mut Workspaces| {
        let workspace = change(all)?;
        let is_active = all.active.as_deref() == Some(workspace.slug.as_str());
        Ok((workspace, is_active))
    };
    match dry_run {
        true => with_active(&mut Workspaces::load(home)?),
        false => Workspaces::change(home, with_active),
    }
}

impl Change {
    fn print(
        &self,
        command: &str,
        output: Output,
        started: Instant,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (workspace, is_active) = &self.done;
        let fields = fields(workspace, *is_active);
        match output {
            Output::Json => writeln!(out, "{}", agentproto_text::pretty(&fields)?),
            Output::Jsonl => {
                let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
                emitter.meta(command)?;
                match self.dry_run {
                    true => {
                        let plan = json!({
                            "action": self.action,
                            "target": workspace.slug,
                            "detail": workspace.path.to_string_lossy(),
                        });
                        emitter.event(EventType::Plan, &object(plan))?;
                    }
                    false => emitter.event(EventType::Workspace, &object(fields))?,
                }
                let fields = json!({ "dry_run": self.dry_run });
                emitter.summary(true, started.elapsed(), object(fields))
            }
            Output::Human => {
                let slug = &workspace.slug;
                let path = display_path(&workspace.path);
                let action = match (self.action, self.dry_run) {
                    ("add", false) => "added",
                    ("remove", false) => "removed",
                    (_, false) => "activated",
                    ("add", true) => "would add",
                    ("remove", true) => "would remove",
                    (_, true) => "would activate",
                };
                match (self.action, is_active) {
                    ("add", true) => writeln!(out, "{action} workspace `{slug}`: {path} (active)"),
                    ("remove", _) => {
                        writeln!(
                            out,
                            "{action} workspace `{slug}`; its directory {path} is kept"
                        )
                    }
                    _ => writeln!(out, "{action} workspace `{slug}`: {path}"),
                }
            }
        }
    }
}

fn display_path(path: &Path) -> String {
    escape_line(&path.to_string_lossy()).into_owned()
}

fn fields(workspace: &RegisteredWorkspace, is_active: bool) -> Value {
    let mut fields = serde_json::to_value(workspace).unwrap_or_default();
    fields["active"] = is_active.into();
    fields
}

/// A page of the list.
struct ListPage<'a> {
    all: Workspaces,
    range: PageRange,
    args: &'a List,
}

impl ListPage<'_> {
    fn is_active(&self, workspace: &RegisteredWorkspace) -> bool {
        self.all.active.as_deref() == Some(workspace.slug.as_str())
    }

    fn print(&self, started: Instant, out: &mut dyn Write) -> io::Result<()> {
        match self.args.output {
            Output::Json => {
                let mut all = object(serde_json::to_value(&self.all).unwrap_or_default());
                all.extend(self.args.page.document_fields(&self.range));
                writeln!(out, "{}", agentproto_text::pretty(&Value::Object(all))?)
            }
            Output::Jsonl => {
                let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
                emitter.meta("workspace list")?;
                for workspace in &self.all.workspaces {
                    let fields = fields(workspace, self.is_active(workspace));
                    emitter.event(EventType::Workspace, &object(fields))?;
                }
                emitter.summary(true, started.elapsed(), self.range.fields())
            }
            Output::Human if self.all.workspaces.is_empty() => {
                writeln!(
                    out,
                    "no workspaces; `agentproto workspace add PATH` adds one"
                )
            }
            Output::Human => self.table(out),
        }
    }

    fn table(&self, out: &mut dyn Write) -> io::Result<()> {
        let widest = self.all.workspaces.iter().map(|w| w.slug.len()).max();
        let width = widest.unwrap_or(0);
        for workspace in &self.all.workspaces {
            let mark = if self.is_active(workspace) { '*' } else { ' ' };
            let label = workspace.label.as_deref().unwrap_or_default();
            let line = format!(
                "{mark} {:<width$}  {}  {}",
                workspace.slug,
                display_path(&workspace.path),
                escape_line(label)
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        out.write_all(self.range.describe("workspaces").as_bytes())
    }
}
