//! `agentproto audit verify`, `agentproto audit anchor` and `agentproto audit accept`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::args::Output;
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_runtime::audit::{self, Anchor, Verified};
use agentproto_runtime::error::Code;
use agentproto_runtime::home::Home;
use agentproto_text::count;

#[derive(Subcommand, Debug)]
pub enum AuditAction {
    /// Check that an audit log was not changed or truncated
    Verify(Verify),
    /// Check an audit log and print an anchor, a short value that later proves that the log was not
    /// changed
    Anchor(PrintAnchor),
    /// Accept that the audit log is broken: keep it under another name, so that a new one is started
    Accept(Accept),
}

#[derive(Args, Debug)]
pub struct Accept {
    /// Confirm that the damage was looked into
    #[arg(long)]
    pub confirm: bool,
}

#[derive(Args, Debug)]
pub struct Verify {
    /// Audit log [default: the log in $AGENTPROTO_HOME]
    pub file: Option<PathBuf>,
    /// Check that the log still contains this state, as printed by `audit anchor`
    #[arg(long, value_name = "VALUE")]
    pub anchor: Vec<Anchor>,
    /// Check that the log still contains the states in FILE, one per line
    #[arg(long, value_name = "FILE")]
    pub anchor_file: Option<PathBuf>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct PrintAnchor {
    /// Audit log [default: the log in $AGENTPROTO_HOME]
    pub file: Option<PathBuf>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

pub fn run(action: &AuditAction, out: &mut dyn Write) -> Outcome {
    run_with(&Home::from_env()?, action, out)
}

/// `home` contains the key that wrote the log.
fn run_with(home: &Home, action: &AuditAction, out: &mut dyn Write) -> Outcome {
    match action {
        AuditAction::Verify(args) => {
            let anchors = anchors(args)?;
            check(home, "audit verify", &args.file, &anchors, args.output, out)
        }
        AuditAction::Anchor(args) => check(home, "audit anchor", &args.file, &[], args.output, out),
        AuditAction::Accept(args) => accept(home, args, out),
    }
}

fn accept(home: &Home, args: &Accept, out: &mut dyn Write) -> Outcome {
    if !args.confirm {
        let what = "a broken log may be the trace of an attack, so it is only accepted explicitly";
        return Err(Failure::new(exit::USAGE, what)
            .typed("confirmation_required")
            .hint("look into it (`agentproto audit verify`), then add `--confirm`"));
    }
    match audit::accept(home)? {
        None => writeln!(out, "the audit log is intact; nothing was changed"),
        Some(moved_to) => writeln!(
            out,
            "the broken audit log is kept as {}; the next run starts a new one",
            moved_to.display()
        ),
    }
    .map_err(io_failure)?;
    Ok(exit::CLEAN)
}

/// Checks a log, and prints the result or an anchor.
fn check(
    home: &Home,
    command: &str,
    file: &Option<PathBuf>,
    anchors: &[Anchor],
    output: Output,
    out: &mut dyn Write,
) -> Outcome {
    let started = Instant::now();
    let path = file.clone().unwrap_or_else(|| audit::default_path(home));
    let verified = audit::verify(home, &path, anchors).map_err(|error| match error.code {
        Code::TargetUnknown => {
            let what = format!("no audit log at `{}`", path.display());
            // The hint of the error says that there was a log.
            let hint = error.hint.unwrap_or_else(|| {
                "`agentproto run` writes it; to check another log, name its file".to_owned()
            });
            Failure::new(exit::NO_INPUT, what).hint(hint)
        }
        _ => Failure::from(error),
    })?;
    let facts = json!({
        "file": path.to_string_lossy(),
        "events": verified.events,
        "head": verified.head,
        "unkeyed": verified.unkeyed,
        "restarted": verified.restarted,
        "anchor": verified.anchor().to_string(),
        "anchors_checked": anchors.len(),
    });
    match output {
        Output::Json => writeln!(out, "{facts:#}"),
        Output::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta(command).and_then(|()| {
                emitter.event(EventType::AuditLog, &object(facts.clone()))?;
                emitter.summary(true, started.elapsed(), object(json!({})))
            })
        }
        Output::Human if command == "audit anchor" => writeln!(out, "{}", verified.anchor()),
        Output::Human => print_result(&verified, anchors.len(), out),
    }
    .map_err(io_failure)?;
    Ok(exit::CLEAN)
}

/// All anchors of the command line and of the file.
fn anchors(args: &Verify) -> Result<Vec<Anchor>, Failure> {
    let mut anchors = args.anchor.clone();
    if let Some(path) = &args.anchor_file {
        let given = anchors.len();
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::new(exit::NO_INPUT, format!("`{}`: {e}", path.display())))?;
        for (number, line) in text.lines().enumerate() {
            if !line.trim().is_empty() {
                anchors.push(read_anchor(path, number + 1, line)?);
            }
        }
        if anchors.len() == given {
            let what = format!("`{}`: the file contains no anchor", path.display());
            return Err(Failure::new(exit::DATA, what));
        }
    }
    Ok(anchors)
}

fn read_anchor(path: &Path, number: usize, line: &str) -> Result<Anchor, Failure> {
    line.parse()
        .map_err(|what| Failure::new(exit::DATA, format!("{}:{number}: {what}", path.display())))
}

fn print_result(verified: &Verified, anchors: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let events = |n: u64| count(n as usize, "event", "events");
    write!(out, "audit log intact: {}", events(verified.events))?;
    match anchors {
        0 => writeln!(out)?,
        n => writeln!(out, ", {} found", count(n, "anchor", "anchors"))?,
    }
    if verified.restarted {
        writeln!(
            out,
            "note: the log was started after an earlier one was moved or deleted"
        )?;
    }
    match verified.unkeyed {
        0 => Ok(()),
        1 => writeln!(
            out,
            "note: the first event was written before keyed chains and is only hash-chained"
        ),
        n => writeln!(
            out,
            "note: the first {n} events were written before keyed chains and are only hash-chained"
        ),
    }
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
                anchor: Vec::new(),
                anchor_file: None,
                output,
            });
            let mut out = Vec::new();
            assert!(matches!(
                run_with(&home, &action, &mut out),
                Ok(exit::CLEAN)
            ));
            let text = String::from_utf8(out).expect("UTF-8");
            assert_eq!(
                text.contains("home-\u{fffd}"),
                output != Output::Human,
                "{text}"
            );
        }
    }
}
