//! `agentproto audit verify`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{Outcome, io_failure};
use crate::exit;
use crate::report::aoi::{Emitter, object};
use crate::runtime::audit;
use crate::runtime::home::Home;

#[derive(Subcommand, Debug)]
pub enum AuditAction {
    /// Check the chain of an audit log: every line, and its end
    Verify(Verify),
}

#[derive(Args, Debug)]
pub struct Verify {
    /// The log [default: that of $AGENTPROTO_HOME]
    pub file: Option<PathBuf>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value = "human", value_parser = ["human", "json", "jsonl"])]
    pub output: String,
}

pub fn run(action: &AuditAction, out: &mut dyn Write) -> Outcome {
    let AuditAction::Verify(args) = action;
    let began = Instant::now();
    let path = match &args.file {
        Some(path) => path.clone(),
        None => audit::default_path(&Home::from_env()?),
    };
    let verified = audit::verify(&path)?;
    let facts = json!({ "file": path, "events": verified.events, "head": verified.head });
    match args.output.as_str() {
        "json" => writeln!(out, "{facts:#}"),
        "jsonl" => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta("audit verify").and_then(|()| {
                emitter.event("audit-log", &object(facts.clone()))?;
                emitter.summary(true, began.elapsed(), object(json!({})))
            })
        }
        _ => writeln!(
            out,
            "{} events, each bound to the one before",
            verified.events
        ),
    }
    .map_err(io_failure)?;
    Ok(exit::CLEAN)
}
