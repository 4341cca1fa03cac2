//! `agentproto sessions start`: starts a session of an adapter.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use clap::Args;
use serde_json::{Value, json};

use super::attach::{self, Attach};
use super::changes::{Change, Changes};
use super::find::{self, id_of};
use super::prompt;
use super::stream::{follow, forward_signals};
use crate::cli::agents::client::{Client, HostOptions, StreamStart};
use crate::cli::agents::effects::Effects;
use crate::cli::agents::run::conversation::option_values;
use crate::cli::agents::run::pair;
use crate::cli::args::{Global, Output, values};
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_report::aoi::object;
use agentproto_report::event::EventType;
use agentproto_runtime::arm::permissions::Decision;
use agentproto_runtime::choices::OptionValue;
use agentproto_runtime::{Code, Error};
use agentproto_text::escape_line;

#[derive(Args, Debug)]
pub struct Start {
    /// Name of the adapter
    pub adapter: String,
    /// Run in this workspace [default: the active workspace, or the current directory]
    #[arg(long, value_name = "SLUG")]
    pub workspace: Option<String>,
    /// Run in DIR; takes precedence over the workspace
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Label of the session, any text
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Use this mode of the manifest
    #[arg(long, value_name = "ID")]
    pub mode: Option<String>,
    /// Set an option of the manifest
    #[arg(long, value_name = "ID=VALUE", value_parser = pair)]
    pub option: Vec<(String, String)>,
    /// Use this model, one of `models.allowed` if the manifest has that list
    #[arg(long, value_name = "ID")]
    pub model: Option<String>,
    /// Who answers permission requests: clients (ask), or the daemon, which allows or denies all
    /// [default: ask]
    #[arg(long, value_name = "POLICY", value_parser = values(Decision::ALL))]
    pub permissions: Option<Decision>,
    /// First prompt; `-` reads stdin
    #[arg(long, short = 'p', value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Print the answer to the prompt while it arrives, until the turn ends; the id is on stderr
    #[arg(long, requires = "prompt", conflicts_with = "dry_run")]
    pub wait: bool,
    /// Follow the session on this terminal, and send prompts to it
    #[arg(long, conflicts_with_all = ["wait", "dry_run"])]
    pub attach: bool,
    #[command(flatten)]
    pub effects: Effects,
    #[command(flatten)]
    pub host: HostOptions,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

pub fn run(args: &Start, global: &Global, out: &mut dyn Write) -> Outcome {
    if args.attach && args.output != Output::Human {
        let what = "`--attach` is for people, and cannot print JSON";
        return Err(Failure::new(exit::USAGE, what)
            .hint("start the session first, then follow it with `sessions --attach ID -o jsonl`"));
    }
    let mut body = request(args)?;
    let client = Client::new(&args.host)?;
    if args.effects.dry_run {
        return plan(args, &client, out);
    }
    let is_remote = args.host.url.is_some();
    // Without a workspace, the client says where to run (A46-WS-09).
    let is_placed = args.cwd.is_some() || args.workspace.is_some();
    if !is_placed && !is_remote && !has_active_workspace(&client) {
        body["cwd"] = json!(directory(Path::new("."), is_remote)?);
    }
    let session = find::request(&client, move |client| client.post("/sessions/agent", &body))?;
    for warning in session["warnings"].as_array().into_iter().flatten() {
        let message = warning["message"].as_str().unwrap_or_default();
        eprintln!("agentproto: warning: {}", escape_line(message));
    }
    let id = id_of(&session);
    if args.attach {
        let attach = Attach {
            from: Some(StreamStart::Start),
            output: Output::Human,
        };
        return attach::run(&attach, session, &client, global, out);
    }
    if args.wait {
        return wait(args, session, &client, global, out);
    }
    let mut changes = Changes::new("sessions start", args.output, false, false, out)?;
    changes.add(Change {
        text: id,
        session,
        action: "started",
        changed: true,
    })?;
    changes.end()
}

/// The body of the request, as far as it was given.
fn request(args: &Start) -> Result<Value, Failure> {
    let cwd = args.cwd.as_deref();
    let cwd = cwd.map(|cwd| directory(cwd, args.host.url.is_some()));
    let options = args.option.iter();
    let options = options.map(|(id, text)| (id.clone(), OptionValue::Text(text.clone())));
    let mut body = object(json!({
        "adapter": args.adapter,
        "workspaceSlug": args.workspace,
        "cwd": cwd.transpose()?,
        "label": args.label,
        "mode": args.mode,
        "model": args.model,
        "permissions": args.permissions.map(<&str>::from),
        "prompt": args.prompt.as_deref().map(prompt::text).transpose()?,
    }));
    if !args.option.is_empty() {
        body.insert(
            "options".to_owned(),
            option_values(&args.adapter, options)?.into(),
        );
    }
    body.retain(|_, value| !value.is_null());
    Ok(Value::Object(body))
}

/// Whether the host has an active workspace. Other hosts need not have the route, and the request
/// that follows reports any other error.
fn has_active_workspace(client: &Client) -> bool {
    let known = find::request(client, |client| client.get("/workspaces"));
    known.is_ok_and(|known| known["active"].is_string())
}

/// The directory for the host. Directories of another machine cannot be checked here.
fn directory(cwd: &Path, is_remote: bool) -> Result<PathBuf, Failure> {
    if is_remote {
        return match cwd.is_absolute() {
            true => Ok(cwd.to_owned()),
            false => {
                let what = format!("`--cwd {}` is relative", cwd.display());
                Err(Failure::new(exit::USAGE, what)
                    .hint("with `--url`, give the absolute path on the machine of the daemon"))
            }
        };
    }
    cwd.canonicalize().map_err(|error| {
        let what = format!(
            "cannot use the working directory `{}`: {error}",
            cwd.display()
        );
        Error::new(Code::TargetUnknown, what)
            .hint("name an existing directory with `--cwd`")
            .into()
    })
}

/// A dry run starts nothing, but the adapter must exist.
fn plan(args: &Start, client: &Client, out: &mut dyn Write) -> Outcome {
    let known = find::request(client, |client| client.get("/adapters"))?;
    let known: Vec<&str> = known["adapters"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if !known.contains(&args.adapter.as_str()) {
        let failure = Failure::new(
            exit::NO_INPUT,
            format!("unknown adapter `{}`", args.adapter),
        )
        .typed("adapter_not_found");
        return Err(match agentproto_text::closest_of(&args.adapter, known) {
            Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
            None => failure,
        });
    }
    let mut changes = Changes::new("sessions start", args.output, false, true, out)?;
    changes.add(Change {
        session: json!({ "adapterSlug": args.adapter }),
        action: "start",
        changed: false,
        text: format!("would start a session of `{}`", args.adapter),
    })?;
    changes.end()
}

fn wait(
    args: &Start,
    session: Value,
    client: &Client,
    global: &Global,
    out: &mut dyn Write,
) -> Outcome {
    let id = id_of(&session);
    let (sender, receiver) = channel();
    forward_signals(sender.clone())?;
    follow(
        client.clone(),
        id.clone(),
        StreamStart::Start,
        sender.clone(),
    );
    let mut output = prompt::output("sessions start", args.output, global, out)?;
    let mut record = object(session);
    record.insert("action".to_owned(), "started".into());
    record.insert("changed".to_owned(), true.into());
    output
        .record(EventType::HostSession, &record)
        .map_err(io_failure)?;
    if args.output != Output::Jsonl {
        eprintln!("{}", escape_line(&id));
    }
    prompt::wait(client, &id, sender, &receiver, output)
}
