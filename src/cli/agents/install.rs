//! `agentproto install`: installs the program of a bundle if it is missing, and checks its version.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::Outcome;
use crate::cli::agents::effects::Effects;
use crate::cli::agents::perform::{Common, Done, Told, perform};
use crate::cli::args::Global;
use agentproto_report::aoi::object;
use agentproto_report::event::Event;
use agentproto_runtime::context::Context;
use agentproto_runtime::install::{self, Action, Options, Plan};
use agentproto_runtime::{Fault, version};

#[derive(Args, Debug)]
pub struct Install {
    #[command(flatten)]
    pub common: Common,
    /// Install the program even if it is already installed
    #[arg(long)]
    pub reinstall: bool,
    #[command(flatten)]
    pub effects: Effects,
}

pub fn run(args: &Install, global: &Global, out: &mut dyn Write) -> Outcome {
    let options = Options {
        reinstall: args.reinstall,
        ..args.common.install_options()
    };
    perform("install", &args.common, global, out, async |ctx| {
        Ok(match args.effects.dry_run {
            true => plan(&install::plan(ctx, options)?),
            false => work(ctx, options).await?,
        })
    })
}

async fn work(ctx: &Context, options: Options) -> Result<Done, Fault> {
    let installed = install::ensure(ctx, options).await?;
    let (version, installed) = version::ensure_with(ctx, &installed, options).await?;
    let how = match &installed.method {
        Some(method) => format!("installed by {method}"),
        None => "already installed".to_owned(),
    };
    let bin = installed.bin.to_string_lossy().into_owned();
    let version = version.to_string();
    let facts = json!({ "bin": bin, "version": version, "method": installed.method });
    let told = Told {
        kind: Some(Event::Installed),
        fields: json!({
            "path": bin,
            "version": version,
            "method": installed.method,
            "changed": installed.method.is_some(),
        }),
        text: format!("{bin} {version} ({how})"),
    };
    Ok(Done {
        told: vec![told],
        fields: object(facts),
        ..Done::default()
    })
}

fn plan(plan: &Plan) -> Done {
    let is_open = plan.found.is_none() && plan.blocked.is_none();
    let mut told = vec![Told {
        kind: None,
        fields: Value::Null,
        text: opening(plan),
    }];
    for (number, step) in plan.steps.iter().enumerate().filter(|_| is_open) {
        let mut fields = object(step.json());
        let target = step.subject.clone().unwrap_or_else(|| plan.bin.clone());
        fields.insert("target".to_owned(), target.into());
        fields.insert("detail".to_owned(), step.text().into());
        let mut text = format!("  {}. {}: {}", number + 1, step.method, step.text());
        if let Action::Skip {
            hint: Some(hint), ..
        } = &step.action
        {
            text.push_str(&format!("\n     {hint}"));
        }
        told.push(Told {
            kind: Some(Event::Plan),
            fields: fields.into(),
            text,
        });
    }
    let facts = json!({
        "bin": plan.bin,
        "found": plan.found.as_ref().map(|f| f.bin.to_string_lossy()),
        "blocked": plan.blocked.as_ref().map(ToString::to_string),
    });
    Done {
        told,
        fields: object(facts),
        ..Done::default()
    }
}

fn opening(plan: &Plan) -> String {
    let bin = &plan.bin;
    if let Some(found) = &plan.found {
        let path = found.bin.to_string_lossy();
        return format!("{bin} is already installed: {path}. Nothing to do.");
    }
    if let Some(why) = &plan.blocked {
        return format!("{bin} cannot be installed here: {why}");
    }
    match plan.steps.is_empty() {
        true => format!("{bin} is not installed, and the manifest declares no install method."),
        false => format!("{bin} is not installed. Methods to try, in this order:"),
    }
}
