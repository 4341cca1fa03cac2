//! `agentproto setup`: runs the setup steps of a bundle.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::agents::effects::Effects;
use crate::cli::agents::lifecycle::{Common, ResultLine, installed, run_lifecycle};
use crate::cli::args::Global;
use crate::cli::{Failure, Outcome};
use crate::exit;
use agentproto_report::event::EventType;
use agentproto_runtime::Error;
use agentproto_runtime::context::Context;
use agentproto_runtime::setup::answers::Answers;
use agentproto_runtime::setup::{self, Redo, SetupOptions};

/// Maximum size of an answers file, in bytes.
const MAX_ANSWERS_BYTES: u64 = 1 << 20;

#[derive(Args, Debug)]
pub struct Setup {
    #[command(flatten)]
    pub common: Common,
    /// Repeat one step, or all steps
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "")]
    pub redo: Option<String>,
    /// Read answers for the prompts from a YAML file of `id: value`; secrets are `id: {env: NAME}`
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
    #[command(flatten)]
    pub effects: Effects,
}

pub fn run(args: &Setup, global: &Global, out: &mut dyn Write) -> Outcome {
    let choices = SetupOptions {
        redo: match args.redo.as_deref() {
            None => Redo::Nothing,
            Some("") => Redo::All,
            Some(id) => Redo::One(id.to_owned()),
        },
        answers: match &args.answers {
            Some(path) => answers(path)?,
            None => Answers::default(),
        },
        requested: true,
    };
    run_lifecycle("setup", &args.common, global, out, async |ctx| {
        if args.effects.dry_run {
            return Ok(plan(ctx, &choices)?.into());
        }
        let bin = installed(ctx, &args.common).await?;
        let report = setup::run(ctx, &bin, &choices).await?;
        let results = report.steps.iter().map(|(id, outcome)| ResultLine {
            kind: Some(EventType::SetupStep),
            fields: json!({ "id": id, "outcome": outcome.as_str() }),
            text: format!("{id}: {}", outcome.as_str()),
        });
        let mut results: Vec<ResultLine> = results.collect();
        if results.is_empty() {
            results.push(ResultLine {
                kind: Some(EventType::SetupStep),
                fields: json!({ "id": Value::Null, "outcome": "none" }),
                text: NOTHING_TO_DO.to_owned(),
            });
        }
        Ok(results.into())
    })
}

const NOTHING_TO_DO: &str = "nothing to set up";

fn plan(ctx: &Context, choices: &SetupOptions) -> Result<Vec<ResultLine>, Error> {
    let pending = setup::pending(ctx, choices)?;
    let results = pending
        .iter()
        .map(|(id, kind)| ResultLine::plan("setup", id, format!("run the step `{id}` ({kind})")));
    let mut results: Vec<ResultLine> = results.collect();
    if results.is_empty() {
        results.push(ResultLine {
            kind: None,
            fields: Value::Null,
            text: NOTHING_TO_DO.to_owned(),
        });
    }
    Ok(results)
}

fn answers(path: &std::path::Path) -> Result<Answers, Failure> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MAX_ANSWERS_BYTES).read_to_end(&mut bytes));
    read.map_err(|e| Failure::new(exit::NO_INPUT, format!("`{}`: {e}", path.display())))?;
    Ok(Answers::parse(&path.display().to_string(), bytes)?)
}
