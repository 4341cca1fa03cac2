//! `agentproto lint`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::args::{self, Global, Lint};
use super::config::{self, Config, ProfileName, SeverityName, SeveritySetting};
use super::{Failure, Outcome, discover, git, io_failure, signals, terminal};
use crate::exit;
use crate::lint::{Options, Profile, Report, RuleSet, Severity, Target, UnknownRule, lint_targets};
use crate::manifest::{Disk, MAX_FILE_BYTES, Overlay};
use crate::report::{self, Meta};

pub fn run(args: &Lint, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let config = config::load(global)?;
    let rules = rule_set(args, &config)?;
    let mut files = Overlay::new(&Disk);
    let targets = targets(args, &config, &mut files)?;
    signals::watch();
    let options = Options {
        threads: threads(args),
        stop: Some(&signals::STOP),
        ..Options::new(&rules, &files, root(&config))
    };
    let report = lint_targets(&targets, &options);
    let meta = Meta {
        profile: rules.profile(),
        color: terminal::color(global),
        unicode: terminal::unicode(),
        width: terminal::width(),
        elapsed: started.elapsed(),
        fail_on: fail_on(args, &config),
        exit_zero: args.exit_zero,
        ..Meta::default()
    };
    report::render(args::format(&args.output), &report, &meta, out).map_err(io_failure)?;
    Ok(verdict(&report, &meta))
}

fn verdict(report: &Report, meta: &Meta) -> u8 {
    if let Some(code) = signals::interrupted() {
        return code;
    }
    if meta.run_fails(report) {
        exit::FINDINGS
    } else {
        exit::CLEAN
    }
}

fn threads(args: &Lint) -> usize {
    args.threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
        .max(1)
}

/// References may go as far as the repository, or the configuration's directory, or here.
fn root(config: &Config) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    here.ancestors()
        .find(|dir| dir.join(".git").exists())
        .map(Path::to_owned)
        .or_else(|| config.path.as_ref().map(|_| here.join(&config.dir)))
        .unwrap_or(here)
}

fn rule_set(args: &Lint, config: &Config) -> Result<RuleSet, Failure> {
    let named = args.profile.as_deref().and_then(args::profile);
    let configured = config.lint.profile.map(|p| match p {
        ProfileName::Default => Profile::Default,
        ProfileName::Spec => Profile::Spec,
        ProfileName::Reference => Profile::Reference,
    });
    let mut rules = RuleSet::profile_defaults(named.or(configured).unwrap_or(Profile::Default));
    let here = config
        .path
        .as_deref()
        .unwrap_or(Path::new(config::FILE_NAME))
        .display()
        .to_string();
    let configured = |error: UnknownRule| Failure::new(exit::CONFIG, format!("{here}: {error}"));
    if !config.lint.select.is_empty() && args.select.is_empty() {
        rules.select(&config.lint.select).map_err(configured)?;
    }
    rules.ignore(&config.lint.ignore).map_err(configured)?;
    for (slug, setting) in &config.lint.severity {
        let severity = match setting {
            SeveritySetting::Error => Some(Severity::Error),
            SeveritySetting::Warning => Some(Severity::Warning),
            SeveritySetting::Info => Some(Severity::Info),
            SeveritySetting::Off => None,
        };
        rules.set(slug, severity).map_err(configured)?;
    }
    let usage = |error: UnknownRule| Failure::new(exit::USAGE, error.to_string());
    if !args.select.is_empty() {
        rules.select(&args.select).map_err(usage)?;
    }
    rules.ignore(&args.ignore).map_err(usage)?;
    Ok(rules)
}

fn fail_on(args: &Lint, config: &Config) -> Severity {
    let configured = config.lint.fail_on.map(|s| match s {
        SeverityName::Error => Severity::Error,
        SeverityName::Warning => Severity::Warning,
        SeverityName::Info => Severity::Info,
    });
    let named = args.fail_on.as_deref().and_then(args::severity);
    named.or(configured).unwrap_or(Severity::Error)
}

/// What to lint; texts that are not on disk go into the overlay.
fn targets(args: &Lint, config: &Config, files: &mut Overlay<'_>) -> Result<Vec<Target>, Failure> {
    if args.staged {
        let staged: BTreeMap<PathBuf, String> = git::staged()?.into_iter().collect();
        let targets = narrow(args, config, staged.keys())?;
        files
            .texts
            .extend(staged.into_iter().map(|(path, text)| (path, Some(text))));
        return Ok(targets);
    }
    if let Some(reference) = &args.changed {
        let changed = git::changed(reference)?;
        return narrow(args, config, changed.iter());
    }
    let mut paths = args.paths.clone();
    if paths.is_empty() {
        paths.push(PathBuf::from("."));
    }
    let stdin = paths.iter().position(|p| p.as_os_str() == "-");
    let Some(at) = stdin else {
        return discover::targets(&paths, config);
    };
    paths.remove(at);
    let name = args
        .stdin_filename
        .clone()
        .unwrap_or_else(|| PathBuf::from("stdin.md"));
    let name = discover::clean(&name);
    files.texts.insert(name.clone(), Some(stdin_text()?));
    let mut targets = discover::targets(&paths, config)?;
    targets.retain(|t| t.path != name);
    targets.push(Target::named(name));
    targets.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(targets)
}

/// Changed files that are below the named paths and may be manifests.
fn narrow<'p>(
    args: &Lint,
    config: &Config,
    changed: impl Iterator<Item = &'p PathBuf>,
) -> Result<Vec<Target>, Failure> {
    let excluded = discover::excludes(config)?;
    let below: Vec<PathBuf> = args.paths.iter().map(|p| discover::clean(p)).collect();
    let inside = |path: &Path| {
        below.is_empty()
            || below
                .iter()
                .any(|b| b.as_os_str().is_empty() || path.starts_with(b))
    };
    Ok(changed
        .filter(|p| discover::is_candidate(p) && inside(p) && !excluded.hit(p))
        .map(|p| discover::target(p))
        .collect())
}

fn stdin_text() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let mut limited = std::io::stdin().lock().take(MAX_FILE_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(|error| {
        Failure::new(exit::IO, format!("standard input cannot be read: {error}"))
    })?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Failure::new(
            exit::DATA,
            format!("standard input has more than {MAX_FILE_BYTES} bytes"),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(
            exit::DATA,
            format!("standard input is not UTF-8 (offset {at})"),
        )
    })
}
