//! `agentproto install`: installs the program of a bundle if it is missing, and checks its version.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::Outcome;
use crate::cli::agents::effects::Effects;
use crate::cli::agents::lifecycle::{CommandResult, Common, ResultLine, run_lifecycle};
use crate::cli::args::Global;
use agentproto_report::aoi::object;
use agentproto_report::event::EventType;
use agentproto_runtime::context::Context;
use agentproto_runtime::install::{self, InstallAction, InstallOptions, InstallPlan};
use agentproto_runtime::{Error, version};

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
    let options = InstallOptions {
        reinstall: args.reinstall,
        ..args.common.install_options()
    };
    run_lifecycle("install", &args.common, global, out, async |ctx| {
        Ok(match args.effects.dry_run {
            true => plan(&install::plan(ctx, options)?),
            false => install_now(ctx, options).await?,
        })
    })
}

async fn install_now(ctx: &Context, options: InstallOptions) -> Result<CommandResult, Error> {
    let installed = install::ensure(ctx, options).await?;
    let (version, installed) = version::ensure_with(ctx, &installed, options).await?;
    let how = match &installed.method {
        Some(method) => format!("installed by {method}"),
        None => "already installed".to_owned(),
    };
    let bin = installed.bin.to_string_lossy().into_owned();
    let version = version.to_string();
    let facts = json!({ "bin": bin, "version": version, "method": installed.method });
    let result = ResultLine {
        kind: Some(EventType::Installed),
        fields: json!({
            "path": bin,
            "version": version,
            "method": installed.method,
            "changed": installed.method.is_some(),
        }),
        text: format!("{bin} {version} ({how})"),
    };
    Ok(CommandResult {
        results: vec![result],
        fields: object(facts),
        ..CommandResult::default()
    })
}

fn plan(plan: &InstallPlan) -> CommandResult {
    let is_needed = plan.found.is_none() && plan.blocked.is_none();
    let mut results = vec![ResultLine {
        kind: None,
        fields: Value::Null,
        text: first_line(plan),
    }];
    for (number, step) in plan.steps.iter().enumerate().filter(|_| is_needed) {
        let mut fields = object(step.json());
        let target = step.subject.clone().unwrap_or_else(|| plan.bin.clone());
        fields.insert("target".to_owned(), target.into());
        fields.insert("detail".to_owned(), step.text().into());
        let mut text = format!("  {}. {}: {}", number + 1, step.method, step.text());
        if let InstallAction::Skip {
            hint: Some(hint), ..
        } = &step.action
        {
            text.push_str(&format!("\n     {hint}"));
        }
        results.push(ResultLine {
            kind: Some(EventType::Plan),
            fields: fields.into(),
            text,
        });
    }
    let facts = json!({
        "bin": plan.bin,
        "found": plan.found.as_ref().map(|f| f.bin.to_string_lossy()),
        "blocked": plan.blocked.as_ref().map(ToString::to_string),
    });
    CommandResult {
        results,
        fields: object(facts),
        ..CommandResult::default()
    }
}

fn first_line(plan: &InstallPlan) -> String {
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
        false => {
            let has_new = plan.steps.iter().any(|step| step.text().contains("/NEW"));
            let new = if has_new {
                " (NEW is a new directory)"
            } else {
                ""
            };
            format!("{bin} is not installed. Methods to try, in this order{new}:")
        }
    }
}
