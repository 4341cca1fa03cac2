//! `agentproto lint`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use ignore::gitignore::Gitignore;

use super::args::{self, Global, Lint};
use super::config::{self, Config, ProfileName, SeverityName, SeveritySetting};
use super::{Failure, Outcome, discover, git, io_failure, signals, terminal};
use crate::exit;
use crate::lint::rules::registry_wide;
use crate::lint::{
    Baseline, BaselineError, Changed, Options, Profile, Report, Rule, RuleSet, Severity, Target,
    UnknownRule, fix_targets, lint_targets, matching,
};
use crate::manifest::{Disk, Document, MAX_FILE_BYTES, Overlay, replace_file};
use crate::report::{self, Meta};

pub fn run(args: &Lint, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let config = config::load(global)?;
    let rules = rule_set(args, &config)?;
    if (args.fix || args.unsafe_fixes)
        && (args.staged || args.paths.iter().any(|p| p.as_os_str() == "-"))
    {
        return Err(Failure::new(
            exit::USAGE,
            "staged contents and standard input cannot be fixed in place",
        )
        .hint("`--diff` shows what the fixes would change"));
    }
    let mut files = Overlay::new(&Disk);
    let targets = targets(args, &config, &mut files)?;
    let per_file = per_file(&config)?;
    let here = std::env::current_dir().unwrap_or_default();
    let skip = |file: &Path, rule: &'static Rule| {
        per_file.iter().any(|(globs, slugs)| {
            let absolute = here.join(file);
            let inside = absolute.strip_prefix(globs.path()).unwrap_or(file);
            slugs.contains(&rule.slug)
                && globs.matched_path_or_any_parents(inside, false).is_ignore()
        })
    };
    signals::watch();
    let options = Options {
        threads: threads(args),
        stop: Some(&signals::STOP),
        skip: (!per_file.is_empty()).then_some(&skip),
        ..Options::new(&rules, &files, root(&config))
    };
    let fixing = args.fix || args.unsafe_fixes || args.diff;
    let (mut report, changed) = if fixing {
        let outcome = fix_targets(&targets, &options, args.unsafe_fixes);
        (outcome.report, outcome.changed)
    } else {
        (lint_targets(&targets, &options), Vec::new())
    };
    if let Some(reference) = &args.changed {
        compare_with_base(reference, &mut report, &rules);
    }
    let meta = Meta {
        profile: rules.profile(),
        color: terminal::color(global),
        unicode: terminal::unicode(),
        width: terminal::width(),
        elapsed: started.elapsed(),
        fail_on: fail_on(args, &config),
        exit_zero: args.exit_zero,
        interrupted: signals::interrupted().is_some(),
        // Services match findings with files by relative paths, and pipelines name theirs
        // from the root.
        base: std::env::current_dir().ok(),
        ..Meta::default()
    };
    if args.diff {
        return show_diff(&changed, &meta, out);
    }
    write_fixed(&changed)?;
    if let Some(file) = &args.write_baseline {
        return write_baseline(file, &report, global);
    }
    let known = known_findings(args, &config)?;
    if let Some(baseline) = known {
        let matched = baseline.apply(&mut report);
        if matched.stale > 0 && !global.quiet {
            note(&format!(
                "{} entr{} of the baseline match nothing any more; `--write-baseline` drops them",
                matched.stale,
                if matched.stale == 1 { "y" } else { "ies" }
            ));
        }
    }
    if !changed.is_empty() && !global.quiet {
        note(&format!("fixed {} file(s)", changed.len()));
    }
    if args.hide_suppressed {
        report.findings.retain(crate::lint::Finding::counts);
    }
    report::render(args::format(&args.output), &report, &meta, out).map_err(io_failure)?;
    Ok(verdict(&report, &meta))
}

/// A remark for people; never part of the results.
fn note(text: &str) {
    let _ = writeln!(
        std::io::stderr(),
        "agentproto: {}",
        report::text::plain(text)
    );
}

fn show_diff(changed: &[Changed], meta: &Meta, out: &mut dyn Write) -> Outcome {
    for change in changed {
        let name = meta.path(&change.path);
        let diff = similar::TextDiff::from_lines(&change.old, &change.new);
        let mut unified = diff.unified_diff();
        let unified = unified
            .context_radius(3)
            .header(&format!("a/{name}"), &format!("b/{name}"))
            .to_string();
        for line in unified.lines() {
            let line = report::text::plain(line);
            let painted = match line.as_bytes().first() {
                Some(b'+') if meta.color => format!("\x1b[32m{line}\x1b[0m"),
                Some(b'-') if meta.color => format!("\x1b[31m{line}\x1b[0m"),
                _ => line.into_owned(),
            };
            writeln!(out, "{painted}").map_err(io_failure)?;
        }
    }
    Ok(if changed.is_empty() || meta.exit_zero {
        exit::CLEAN
    } else {
        exit::FINDINGS
    })
}

/// Writes the fixed texts, each in one step, unless the file changed meanwhile.
fn write_fixed(changed: &[Changed]) -> Result<(), Failure> {
    for change in changed {
        let path = &change.path;
        let fail =
            |what: &str| Failure::new(exit::CANT_CREATE, format!("{}: {what}", path.display()));
        let now = std::fs::read(path).map_err(|e| fail(&format!("cannot be read again: {e}")))?;
        if now != change.old.as_bytes() {
            return Err(fail(
                "changed while it was being fixed; nothing was written to it",
            ));
        }
        replace_file(path, change.new.as_bytes())
            .map_err(|e| fail(&format!("cannot be written: {e}")))?;
    }
    Ok(())
}

fn write_baseline(file: &Path, report: &Report, global: &Global) -> Outcome {
    let baseline = Baseline::of(report, file);
    baseline.write(file).map_err(baseline_failure)?;
    if !global.quiet {
        note(&format!(
            "wrote {} entr{} to {}",
            baseline.len(),
            if baseline.len() == 1 { "y" } else { "ies" },
            file.display()
        ));
    }
    Ok(exit::CLEAN)
}

fn known_findings(args: &Lint, config: &Config) -> Result<Option<Baseline>, Failure> {
    if args.no_baseline {
        return Ok(None);
    }
    let configured = || {
        config
            .lint
            .baseline
            .as_ref()
            .map(|b| discover::clean(&config.dir.join(b)))
    };
    match args.baseline.clone().or_else(configured) {
        Some(file) => Baseline::load(&file).map(Some).map_err(baseline_failure),
        None => Ok(None),
    }
}

fn baseline_failure(error: BaselineError) -> Failure {
    let code = match error {
        BaselineError::Missing(_) => exit::NO_INPUT,
        BaselineError::Read { .. } => exit::IO,
        BaselineError::Malformed { .. } => exit::DATA,
        BaselineError::Write { .. } => exit::CANT_CREATE,
    };
    Failure::new(code, error.to_string()).hint("`agentproto lint --write-baseline FILE` writes one")
}

/// `[[lint.per-file]]`: which rules do not apply to which paths.
fn per_file(config: &Config) -> Result<Vec<(Gitignore, Vec<&'static str>)>, Failure> {
    let mut settings = Vec::new();
    for per_file in &config.lint.per_file {
        let globs = discover::globs(&config.dir, &per_file.paths, "per-file.paths")?;
        let mut slugs = Vec::new();
        for selector in &per_file.ignore {
            let rules = matching(selector).map_err(|error| {
                Failure::new(
                    exit::CONFIG,
                    format!("`per-file.ignore` in the configuration: {error}"),
                )
            })?;
            slugs.extend(rules.into_iter().map(|rule| rule.slug));
        }
        settings.push((globs, slugs));
    }
    Ok(settings)
}

/// Rules that need the revision before: only `--changed` knows one.
fn compare_with_base(reference: &str, report: &mut Report, rules: &RuleSet) {
    let mut found = Vec::new();
    for path in &report.files {
        let Some(old) = git::text_at(reference, path) else {
            continue;
        };
        let Ok(new) = std::fs::read_to_string(path) else {
            continue;
        };
        let (old, new) = (Document::parse(path, old), Document::parse(path, new));
        let findings = registry_wide::compare_with_base(&old, &new, rules);
        if !findings.is_empty() && report.source(path).is_none() {
            let at = report.sources.partition_point(|(p, _)| p < path);
            report
                .sources
                .insert(at, (path.clone(), std::sync::Arc::new(new)));
        }
        found.extend(findings);
    }
    report.findings.extend(found);
    report.findings.sort_by(crate::lint::Finding::order);
}

fn verdict(report: &Report, meta: &Meta) -> u8 {
    if let Some(code) = signals::interrupted() {
        return code;
    }
    if report
        .findings
        .iter()
        .any(|f| f.rule.slug == "internal-fault")
    {
        return exit::INTERNAL;
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
        return discover::targets(&paths, config, args.force_exclude, threads(args));
    };
    paths.remove(at);
    let name = args
        .stdin_filename
        .clone()
        .unwrap_or_else(|| PathBuf::from("stdin.md"));
    let name = discover::clean(&name);
    files.texts.insert(name.clone(), Some(stdin_text()?));
    let mut targets = discover::targets(&paths, config, args.force_exclude, threads(args))?;
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
