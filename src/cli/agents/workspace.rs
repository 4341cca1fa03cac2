//! `agentproto workspace`: manages the named directories of this host (A46-REF-04). It only edits
//! the file: a running host reads the file again for each spawn, and writers lock it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::agents::effects::Effects;
use crate::cli::args::Output;
use crate::cli::machine::page::{Cut, Page};
use crate::cli::{Outcome, io_failure};
use crate::exit;
use agentproto_daemon::workspaces::{Workspace, Workspaces};
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::Event;
use agentproto_runtime::Fault;
use agentproto_runtime::home::Home;
use agentproto_text::plain;

#[derive(Subcommand, Debug)]
pub enum WorkspaceAction {
    /// Register a directory; the first one becomes active
    Add(Add),
    /// List the workspaces
    List(List),
    /// Remove a workspace from the list; the directory is kept
    Remove(Named),
    /// Make a workspace active: sessions without a workspace run in it
    Use(Named),
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
pub struct Named {
    /// Name of the workspace
    pub slug: String,
    #[command(flatten)]
    pub effects: Effects,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

impl WorkspaceAction {
    pub fn said(&self) -> (&'static str, Output) {
        match self {
            WorkspaceAction::Add(args) => ("workspace add", args.output),
            WorkspaceAction::List(args) => ("workspace list", args.output),
            WorkspaceAction::Remove(args) => ("workspace remove", args.output),
            WorkspaceAction::Use(args) => ("workspace use", args.output),
        }
    }
}

pub fn run(action: &WorkspaceAction, out: &mut dyn Write) -> Outcome {
    let began = Instant::now();
    let home = Home::from_env()?;
    let (command, output) = action.said();
    let change = match action {
        WorkspaceAction::List(args) => {
            let mut all = Workspaces::load(&home)?;
            let slug = |workspace: &Workspace| workspace.slug.clone();
            let cut = args.page.keep_after(command, &mut all.workspaces, slug)?;
            let part = Part { all, cut, args };
            part.tell(began, out).map_err(io_failure)?;
            return Ok(exit::CLEAN);
        }
        WorkspaceAction::Add(args) => Change {
            action: "add",
            dry_run: args.effects.dry_run,
            done: changed(&home, args.effects.dry_run, |all| {
                all.add(&args.path, args.slug.as_deref(), args.label.as_deref())
            })?,
        },
        WorkspaceAction::Remove(args) => Change {
            action: "remove",
            dry_run: args.effects.dry_run,
            done: changed(&home, args.effects.dry_run, |all| all.remove(&args.slug))?,
        },
        WorkspaceAction::Use(args) => Change {
            action: "use",
            dry_run: args.effects.dry_run,
            done: changed(&home, args.effects.dry_run, |all| all.activate(&args.slug))?,
        },
    };
    change
        .tell(command, output, began, out)
        .map_err(io_failure)?;
    Ok(exit::CLEAN)
}

/// A change that was made, or would be made.
struct Change {
    action: &'static str,
    dry_run: bool,
    /// The workspace, and whether it is the active one afterwards.
    done: (Workspace, bool),
}

/// Makes the change. A dry run makes it on a copy.
fn changed(
    home: &Home,
    dry_run: bool,
    change: impl FnOnce(&mut Workspaces) -> Result<Workspace, Fault>,
) -> Result<(Workspace, bool), Fault> {
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
    fn tell(
        &self,
        command: &str,
        output: Output,
        began: Instant,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (workspace, is_active) = &self.done;
        let facts = facts(workspace, *is_active);
        match output {
            Output::Json => writeln!(out, "{}", agentproto_text::pretty(&facts)?),
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
                        emitter.event(Event::Plan, &object(plan))?;
                    }
                    false => emitter.event(Event::Workspace, &object(facts))?,
                }
                let fields = json!({ "dry_run": self.dry_run });
                emitter.summary(true, began.elapsed(), object(fields))
            }
            Output::Human => {
                let (would, slug) = (if self.dry_run { "would " } else { "" }, &workspace.slug);
                let path = shown(&workspace.path);
                match (self.action, is_active) {
                    ("add", true) => writeln!(out, "{would}add {slug}: {path} (active)"),
                    ("add", false) => writeln!(out, "{would}add {slug}: {path}"),
                    ("remove", _) => writeln!(out, "{would}remove {slug}; {path} is kept"),
                    _ => writeln!(out, "{would}use {slug}: {path}"),
                }
            }
        }
    }
}

fn shown(path: &Path) -> String {
    plain(&path.to_string_lossy()).into_owned()
}

fn facts(workspace: &Workspace, is_active: bool) -> Value {
    let mut facts = serde_json::to_value(workspace).unwrap_or_default();
    facts["active"] = is_active.into();
    facts
}

/// A page of the list.
struct Part<'a> {
    all: Workspaces,
    cut: Cut,
    args: &'a List,
}

impl Part<'_> {
    fn is_active(&self, workspace: &Workspace) -> bool {
        self.all.active.as_deref() == Some(workspace.slug.as_str())
    }

    fn tell(&self, began: Instant, out: &mut dyn Write) -> io::Result<()> {
        match self.args.output {
            Output::Json => {
                let mut all = object(serde_json::to_value(&self.all).unwrap_or_default());
                all.extend(self.args.page.told(&self.cut));
                writeln!(out, "{}", agentproto_text::pretty(&Value::Object(all))?)
            }
            Output::Jsonl => {
                let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
                emitter.meta("workspace list")?;
                for workspace in &self.all.workspaces {
                    let facts = facts(workspace, self.is_active(workspace));
                    emitter.event(Event::Workspace, &object(facts))?;
                }
                emitter.summary(true, began.elapsed(), self.cut.fields())
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
                shown(&workspace.path),
                plain(label)
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
