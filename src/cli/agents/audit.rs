//! `agentproto audit verify`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::args::Output;
use crate::cli::{Outcome, io_failure};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_runtime::audit;
use agentproto_runtime::home::Home;

#[derive(Subcommand, Debug)]
pub enum AuditAction {
    /// Check the hash chain of an audit log, including its end
    Verify(Verify),
}

#[derive(Args, Debug)]
pub struct Verify {
    /// Audit log [default: the log in $AGENTPROTO_HOME]
    pub file: Option<PathBuf>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

pub fn run(action: &AuditAction, out: &mut dyn Write) -> Outcome {
    let AuditAction::Verify(args) = action;
    let started = Instant::now();
    let path = match &args.file {
        Some(path) => path.clone(),
        None => audit::default_path(&Home::from_env()?),
    };
    let verified = audit::verify(&path)?;
    let facts =
        json!({ "file": path.to_string_lossy(), "events": verified.events, "head": verified.head });
    match args.output {
        Output::Json => writeln!(out, "{facts:#}"),
        Output::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta("audit verify").and_then(|()| {
                emitter.event(EventType::AuditLog, &object(facts.clone()))?;
                emitter.summary(true, started.elapsed(), object(json!({})))
            })
        }
        Output::Human => writeln!(
            out,
            "audit log intact: {}",
            agentproto_text::count(verified.events as usize, "event", "events")
        ),
    }
    .map_err(io_failure)?;
    Ok(exit::CLEAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_not_utf8_is_reported() {
        use std::os::unix::ffi::OsStringExt;
        let dir = tempfile::tempdir().expect("a directory");
        let name = std::ffi::OsString::from_vec(b"home-\xff".to_vec());
        let home = Home::new(dir.path().join(name));
        audit::Audit::open(
            &home,
            "x",
            agentproto_text::redact::SecretRedactor::default(),
        )
        .and_then(|log| log.record("x", json!({})))
        .expect("written");
        let path = audit::default_path(&home);
        for output in [Output::Json, Output::Jsonl, Output::Human] {
            let action = AuditAction::Verify(Verify {
                file: Some(path.clone()),
                output,
            });
            let mut out = Vec::new();
            assert!(matches!(run(&action, &mut out), Ok(exit::CLEAN)));
            let text = String::from_utf8(out).expect("UTF-8");
            assert_eq!(
                text.contains("home-\u{fffd}"),
                output != Output::Human,
                "{text}"
            );
        }
    }
}
