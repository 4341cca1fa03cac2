//! `agentproto doctor`: shows what this machine supports, and whether the given bundles can run on
//! it.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::agents::host_rules::{self, RuleResult};
use crate::cli::agents::sandbox_settings;
use crate::cli::args::{Global, Output};
use crate::cli::{Failure, Outcome, io_failure, terminal};
use crate::exit;
use agentproto_aoi::isolation::doctor;
use agentproto_lint::Severity;
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::EventType;
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::context::{Context, ContextOptions, Sandboxing};
use agentproto_runtime::home::Home;
use agentproto_runtime::interact::Headless;
use agentproto_runtime::observe::Silent;
use agentproto_sandbox::probe::{self, Availability, Feature};
use agentproto_text::escape_line;

#[derive(Args, Debug)]
pub struct Doctor {
    /// Check whether these bundles can run here: adapter names, manifests or directories
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Look up adapters in DIR first
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

/// A bundle and the results of the host rules.
struct CheckedBundle {
    target: String,
    verdicts: Vec<RuleResult>,
}

impl CheckedBundle {
    fn can_run(&self) -> bool {
        let bad = |v: &RuleResult| !v.ok && v.severity == Severity::Error;
        !self.verdicts.iter().any(bad)
    }
}

pub fn run(args: &Doctor, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let probe = probe::probe();
    let mut features = probe.features();
    features.push(probe::bubblewrap_feature());
    let can_enforce = probe.check_native().is_ok() || probe::bubblewrap().is_ok();
    let isolated = match can_enforce {
        true => Ok(()),
        false => Err("no sandbox can be enforced".to_owned()),
    };
    let bundles = check_bundles(args, global, isolated)?;
    let aoi_features = aoi_features(
        &probe.user_namespaces,
        &probe.network_namespaces,
        &probe.seccomp,
    )?;
    let all_ok = can_enforce && bundles.iter().all(CheckedBundle::can_run);
    match args.output {
        Output::Json => {
            let mut report = json!({
                "schema": "agentproto.doctor/v1",
                "kernel": probe.kernel,
                "root": probe.root,
                "sandbox": { "enforceable": can_enforce, "items": features },
                "aoi": { "items": aoi_features },
            });
            if let (false, Value::Object(report)) = (bundles.is_empty(), &mut report) {
                let targets = bundles.iter().map(|p| {
                    let checks: Vec<Value> = p.verdicts.iter().map(verdict_json).collect();
                    json!({ "target": p.target, "ok": p.can_run(), "checks": checks })
                });
                report.insert("targets".to_owned(), targets.collect());
            }
            writeln!(out, "{report:#}")
        }
        Output::Jsonl => events(&features, &aoi_features, &bundles, all_ok, started, out),
        Output::Human => {
            let color = terminal::color(global);
            print_sandbox(&features, can_enforce, &probe.kernel, color, out).map_err(io_failure)?;
            print_aoi_features(&aoi_features, color, out).map_err(io_failure)?;
            bundles.iter().try_for_each(|p| print_bundle(p, color, out))
        }
    }
    .map_err(io_failure)?;
    Ok(match all_ok {
        true => exit::CLEAN,
        false => exit::FINDINGS,
    })
}

/// The features of this machine that `aoi-lint` uses.
fn aoi_features(
    users: &Availability,
    networks: &Availability,
    seccomp: &Availability,
) -> Result<Vec<Feature>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| {
            Failure::new(
                exit::INTERNAL,
                format!("cannot start the async runtime: {e}"),
            )
        })?;
    let mut features = [
        ("user namespaces", users),
        ("network namespaces", networks),
        ("seccomp", seccomp),
    ]
    .map(|(item, availability)| Feature::new(item, availability))
    .to_vec();
    features.extend(runtime.block_on(doctor::lines()));
    Ok(features)
}

/// Checks the bundles. Installs nothing and asks no questions.
fn check_bundles(
    args: &Doctor,
    global: &Global,
    isolated: Result<(), String>,
) -> Result<Vec<CheckedBundle>, Failure> {
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
    let sandbox = sandbox_settings::load(global, &args.adapters)?;
    let mut bundles = Vec::new();
    for target in &args.targets {
        let options = ContextOptions {
            home: home.clone(),
            cwd: cwd.clone(),
            host_env: std::sync::Arc::new(std::env::vars_os().collect()),
            sandboxing: Sandboxing::Auto,
            sandbox: sandbox.clone(),
            yes: false,
            observer: Arc::new(Silent),
            interact: Arc::new(Headless),
        };
        let bundle = Bundle::discover(target, &args.adapters, &home)?;
        let ctx = Context::new(bundle, options)?;
        let verdicts = runtime.block_on(host_rules::check(&ctx, isolated.clone()));
        bundles.push(CheckedBundle {
            target: target.clone(),
            verdicts: verdicts?,
        });
    }
    Ok(bundles)
}

fn verdict_json(verdict: &RuleResult) -> Value {
    json!({
        "rule": verdict.slug,
        "ok": verdict.ok,
        "severity": if verdict.ok { "info" } else { verdict.severity.as_str() },
        "message": verdict.message,
        "file": verdict.position.file.to_string_lossy(),
        "line": verdict.position.line,
        "column": verdict.position.column,
        "pointer": verdict.pointer,
        "source": {
            "spec": verdict.source.spec,
            "section": verdict.source.section,
            "level": verdict.level.as_str(),
        },
    })
}

fn print_bundle(bundle: &CheckedBundle, color: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let (green, yellow, red, off) = match color {
        true => ("\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"),
        false => ("", "", "", ""),
    };
    writeln!(out, "\n{}", escape_line(&bundle.target))?;
    for verdict in &bundle.verdicts {
        let (mark, paint) = match (verdict.ok, verdict.severity) {
            (true, _) if !verdict.checked => ("–", yellow),
            (true, _) => ("✓", green),
            (false, Severity::Error) => ("✗", red),
            (false, _) => ("!", yellow),
        };
        let (label, message) = (verdict.label, escape_line(&verdict.message));
        writeln!(out, "  {paint}{mark}{off} {label}: {message}")?;
        if !verdict.ok {
            let position = verdict.position.to_string();
            writeln!(
                out,
                "      at {} ({}, {})",
                escape_line(&position),
                verdict.source.spec,
                verdict.source.section
            )?;
        }
    }
    match bundle.can_run() {
        true => writeln!(out, "  This bundle can run on this machine."),
        false => writeln!(out, "  This bundle cannot run on this machine."),
    }
}

fn events(
    features: &[Feature],
    aoi_features: &[Feature],
    bundles: &[CheckedBundle],
    all_ok: bool,
    started: Instant,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    emitter.meta("doctor")?;
    let named = features.iter().map(|feature| ("sandbox", feature));
    for (about, feature) in named.chain(aoi_features.iter().map(|feature| ("aoi", feature))) {
        let fields = object(json!({
            "name": format!("{about}: {}", feature.item),
            "ok": feature.available,
            "severity": if feature.available { "info" } else { "warning" },
            "detail": match &feature.help {
                Some(help) => format!("{}; {help}", feature.text),
                None => feature.text.clone(),
            },
        }));
        emitter.event(EventType::Check, &fields)?;
    }
    for bundle in bundles {
        for verdict in &bundle.verdicts {
            let mut fields = object(verdict_json(verdict));
            let name = format!("{}: {}", bundle.target, verdict.slug);
            fields.insert("name".to_owned(), name.into());
            let detail = fields.remove("message").unwrap_or_default();
            fields.insert("detail".to_owned(), detail);
            emitter.event(EventType::Check, &fields)?;
        }
    }
    emitter.summary(all_ok, started.elapsed(), Fields::new())
}

fn print_aoi_features(
    features: &[Feature],
    color: bool,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    writeln!(out, "\nFeatures that `aoi-lint` can use on this machine")?;
    print_features(features, color, out)
}

fn print_features(features: &[Feature], color: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let (green, yellow, off) = match color {
        true => ("\x1b[32m", "\x1b[33m", "\x1b[0m"),
        false => ("", "", ""),
    };
    let width = features.iter().map(|l| l.item.len()).max().unwrap_or(0);
    for feature in features {
        let (mark, paint) = match feature.available {
            true => ("✓", green),
            false => ("✗", yellow),
        };
        let text = escape_line(&feature.text);
        writeln!(out, "  {paint}{mark}{off} {:<width$}  {text}", feature.item)?;
        if let (false, Some(help)) = (feature.available, &feature.help) {
            writeln!(out, "    {:<width$}  {}", "", escape_line(help))?;
        }
    }
    Ok(())
}

fn print_sandbox(
    features: &[Feature],
    can_enforce: bool,
    kernel: &str,
    color: bool,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    writeln!(out, "Sandbox on Linux {}", escape_line(kernel))?;
    print_features(features, color, out)?;
    match can_enforce {
        true => writeln!(out, "Declared sandboxes can be enforced on this machine."),
        false => writeln!(
            out,
            "Declared sandboxes cannot be enforced on this machine, so `run` would refuse to start agents."
        ),
    }
}
