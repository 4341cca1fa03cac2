//! `agentproto doctor`: shows what this machine supports, and whether the given bundles can run on
//! it.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::agents::host_rules::{self, Verdict};
use crate::cli::args::{Global, Output};
use crate::cli::{Failure, Outcome, io_failure, terminal};
use crate::exit;
use agentproto_aoi::isolation::powers;
use agentproto_lint::Severity;
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::Event;
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::context::{Context, Sandboxing, Setting};
use agentproto_runtime::home::Home;
use agentproto_runtime::interact::Headless;
use agentproto_runtime::observe::Silent;
use agentproto_sandbox::probe::{self, Finding, Line};
use agentproto_text::plain;

#[derive(Args, Debug)]
pub struct Doctor {
    /// Check whether these bundles can run here: slugs, manifests or directories
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Look up slugs in DIR first
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

/// A bundle and the results of the host rules.
struct Patient {
    target: String,
    verdicts: Vec<Verdict>,
}

impl Patient {
    fn is_well(&self) -> bool {
        let bad = |v: &Verdict| !v.ok && v.severity == Severity::Error;
        !self.verdicts.iter().any(bad)
    }
}

pub fn run(args: &Doctor, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let probe = probe::probe();
    let mut lines = probe.lines();
    lines.push(probe::bubblewrap_line());
    let able = probe.native().is_ok() || probe::bubblewrap().is_ok();
    let isolated = match able {
        true => Ok(()),
        false => Err("no sandbox can be enforced".to_owned()),
    };
    let patients = examine(args, isolated)?;
    let walls = aoi_powers(
        &probe.user_namespaces,
        &probe.network_namespaces,
        &probe.seccomp,
    )?;
    let well = able && patients.iter().all(Patient::is_well);
    match args.output {
        Output::Json => {
            let mut report = json!({
                "schema": "agentproto.doctor/v1",
                "kernel": probe.kernel,
                "root": probe.root,
                "sandbox": { "enforceable": able, "items": lines },
                "aoi": { "items": walls },
            });
            if let (false, Value::Object(report)) = (patients.is_empty(), &mut report) {
                let targets = patients.iter().map(|p| {
                    let checks: Vec<Value> = p.verdicts.iter().map(verdict_json).collect();
                    json!({ "target": p.target, "ok": p.is_well(), "checks": checks })
                });
                report.insert("targets".to_owned(), targets.collect());
            }
            writeln!(out, "{report:#}")
        }
        Output::Jsonl => events(&lines, &walls, &patients, well, started, out),
        Output::Human => {
            let color = terminal::color(global);
            human(&lines, able, &probe.kernel, color, out).map_err(io_failure)?;
            human_walls(&walls, color, out).map_err(io_failure)?;
            patients
                .iter()
                .try_for_each(|p| human_patient(p, color, out))
        }
    }
    .map_err(io_failure)?;
    Ok(match well {
        true => exit::CLEAN,
        false => exit::FINDINGS,
    })
}

/// The features of this machine that `aoi-lint` uses.
fn aoi_powers(
    users: &Finding,
    networks: &Finding,
    seccomp: &Finding,
) -> Result<Vec<Line>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| {
            Failure::new(
                exit::INTERNAL,
                format!("cannot start the async runtime: {e}"),
            )
        })?;
    let mut lines = [
        ("user namespaces", users),
        ("network namespaces", networks),
        ("seccomp", seccomp),
    ]
    .map(|(item, finding)| Line::new(item, finding))
    .to_vec();
    lines.extend(runtime.block_on(powers::lines()));
    Ok(lines)
}

/// Checks the bundles. Installs nothing and asks no questions.
fn examine(args: &Doctor, isolated: Result<(), String>) -> Result<Vec<Patient>, Failure> {
    if args.targets.is_empty() {
        return Ok(Vec::new());
    }
    let home = Home::from_env()?;
    let cwd = std::env::current_dir().map_err(|e| {
        Failure::new(
            exit::IO,
            format!("cannot determine the current directory: {e}"),
        )
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| {
            Failure::new(
                exit::INTERNAL,
                format!("cannot start the async runtime: {e}"),
            )
        })?;
    let mut patients = Vec::new();
    for target in &args.targets {
        let setting = Setting {
            home: home.clone(),
            cwd: cwd.clone(),
            host_env: std::sync::Arc::new(std::env::vars_os().collect()),
            sandboxing: Sandboxing::Auto,
            yes: false,
            observer: Arc::new(Silent),
            interact: Arc::new(Headless),
        };
        let bundle = Bundle::discover(target, &args.adapters, &home)?;
        let ctx = Context::new(bundle, setting)?;
        let judged = runtime.block_on(host_rules::judge(&ctx, isolated.clone()));
        patients.push(Patient {
            target: target.clone(),
            verdicts: judged?,
        });
    }
    Ok(patients)
}

fn verdict_json(verdict: &Verdict) -> Value {
    json!({
        "rule": verdict.slug,
        "ok": verdict.ok,
        "severity": if verdict.ok { "info" } else { verdict.severity.as_str() },
        "message": verdict.message,
        "file": verdict.place.file.to_string_lossy(),
        "line": verdict.place.line,
        "column": verdict.place.column,
        "pointer": verdict.pointer,
        "source": {
            "spec": verdict.source.spec,
            "section": verdict.source.section,
            "level": verdict.level.as_str(),
        },
    })
}

fn human_patient(patient: &Patient, color: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let (green, yellow, red, off) = match color {
        true => ("\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"),
        false => ("", "", "", ""),
    };
    writeln!(out, "\n{}", plain(&patient.target))?;
    for verdict in &patient.verdicts {
        let (mark, colour) = match (verdict.ok, verdict.severity) {
            (true, _) => ("✓", green),
            (false, Severity::Error) => ("✗", red),
            (false, _) => ("!", yellow),
        };
        let (slug, message) = (verdict.slug, plain(&verdict.message));
        writeln!(out, "  {colour}{mark}{off} {slug}: {message}")?;
        if !verdict.ok {
            let place = verdict.place.to_string();
            writeln!(
                out,
                "      {} ({}, {}; {})",
                plain(&place),
                verdict.source.spec,
                verdict.source.section,
                verdict.severity.as_str()
            )?;
        }
    }
    match patient.is_well() {
        true => writeln!(out, "  This bundle can run on this machine."),
        false => writeln!(out, "  This bundle cannot run on this machine."),
    }
}

fn events(
    lines: &[Line],
    walls: &[Line],
    patients: &[Patient],
    well: bool,
    started: Instant,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    emitter.meta("doctor")?;
    let named = lines.iter().map(|line| ("sandbox", line));
    for (about, line) in named.chain(walls.iter().map(|line| ("aoi", line))) {
        let fields = object(json!({
            "name": format!("{about}: {}", line.item),
            "ok": line.available,
            "severity": if line.available { "info" } else { "warning" },
            "detail": match &line.help {
                Some(help) => format!("{}; {help}", line.text),
                None => line.text.clone(),
            },
        }));
        emitter.event(Event::Check, &fields)?;
    }
    for patient in patients {
        for verdict in &patient.verdicts {
            let mut fields = object(verdict_json(verdict));
            let name = format!("{}: {}", patient.target, verdict.slug);
            fields.insert("name".to_owned(), name.into());
            let detail = fields.remove("message").unwrap_or_default();
            fields.insert("detail".to_owned(), detail);
            emitter.event(Event::Check, &fields)?;
        }
    }
    emitter.summary(well, started.elapsed(), Fields::new())
}

fn human_walls(lines: &[Line], color: bool, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "\nWhat `aoi-lint` can check on this machine")?;
    human_lines(lines, color, out)
}

fn human_lines(lines: &[Line], color: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let (green, yellow, off) = match color {
        true => ("\x1b[32m", "\x1b[33m", "\x1b[0m"),
        false => ("", "", ""),
    };
    let width = lines.iter().map(|l| l.item.len()).max().unwrap_or(0);
    for line in lines {
        let (mark, colour) = match line.available {
            true => ("✓", green),
            false => ("✗", yellow),
        };
        let text = plain(&line.text);
        writeln!(out, "  {colour}{mark}{off} {:<width$}  {text}", line.item)?;
        if let (false, Some(help)) = (line.available, &line.help) {
            writeln!(out, "    {:<width$}  {}", "", plain(help))?;
        }
    }
    Ok(())
}

fn human(
    lines: &[Line],
    able: bool,
    kernel: &str,
    color: bool,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    writeln!(out, "Sandbox on Linux {}", plain(kernel))?;
    human_lines(lines, color, out)?;
    match able {
        true => writeln!(out, "Declared sandboxes can be enforced on this machine."),
        false => writeln!(
            out,
            "Declared sandboxes cannot be enforced on this machine, so nothing is run in them."
        ),
    }
}
