//! `agentproto lint`: checks manifests.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cli::args::{Global, Lint};
use crate::cli::config::{self, Config};
use crate::cli::{Failure, Outcome, git, io_failure, signals, terminal};
use crate::exit;
use agentproto_lint::discover::{self, Excludes, Globs, NotFound};
use agentproto_lint::render as report;
use agentproto_lint::render::{FindingCounts, Format, Meta, PageInfo};
use agentproto_lint::root;
use agentproto_lint::{
    Baseline, BaselineError, ChangedFile, Finding, Fix, LintOptions, LintTarget, Profile, Report,
    Rule, RuleSet, Safety, Severity, UnknownRule, compare_with_base, fix_targets, lint_targets,
    matching,
};
use agentproto_manifest::{ConfinedDisk, FileSource, MAX_FILE_BYTES, Overlay, normalize};

/// Up to this number of files, clearing huge pages takes longer than they save.
#[cfg(agents)]
const FEW_FILES: usize = 100;

pub fn run(args: &Lint, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let config = config::load(global)?;
    let rules = rule_set(args, &config)?;
    if (args.fix || args.unsafe_fixes)
        && (args.staged || args.paths.iter().any(|p| p.as_os_str() == "-"))
    {
        return Err(Failure::new(
            exit::USAGE,
            "staged contents and stdin cannot be fixed in place",
        )
        .hint("use `--diff` to see what the fixes would change"));
    }
    if args.diff && !matches!(args.output, Format::Human | Format::Concise) {
        return Err(Failure::new(
            exit::USAGE,
            format!("`--diff` does not support the output `{}`", args.output),
        )
        .hint("remove `--diff`: in this format the findings contain their edits"));
    }
    let root = root::of(&root_paths(args));
    let disk = ConfinedDisk::new(&root);
    let staged = match args.staged {
        true => Some(git::Staged::read(&root, &disk)?),
        false => None,
    };
    let changed_since = args.changed.as_deref().map(git::Base::of).transpose()?;
    let base = staged.as_ref().map(|s| &s.base).or(changed_since.as_ref());
    let mut files = Overlay::new(match &staged {
        Some(staged) => staged,
        None => &disk,
    });
    let targets = match (&staged, &changed_since) {
        (Some(staged), _) => narrow(args, &config, &staged.paths, &staged.base)?,
        (_, Some(base)) => narrow(args, &config, &base.changed(&disk)?, base)?,
        _ => targets(args, &config, &disk, &mut files)?,
    };
    let per_file = per_file(&config)?;
    let skip = |file: &Path, rule: &'static Rule| {
        per_file
            .iter()
            .any(|(globs, slugs)| slugs.contains(&rule.slug) && globs.matches(file))
    };
    #[cfg(agents)]
    crate::set_huge_pages(targets.len() > FEW_FILES);
    signals::watch();
    let options = LintOptions {
        threads: threads(args),
        stop: Some(&signals::STOP),
        skip: (!per_file.is_empty()).then_some(&skip),
        ..LintOptions::new(&rules, &files, root.clone())
    };
    let fixing = args.fix || args.unsafe_fixes || args.diff;
    let (mut report, changed) = if fixing {
        let outcome = fix_targets(&targets, &options, args.unsafe_fixes);
        (outcome.report, outcome.changed)
    } else {
        (lint_targets(&targets, &options), Vec::new())
    };
    if let Some(base) = base {
        compare_with_base(&mut report, &options, |path| base.text(path));
    }
    // Read before a baseline or an option can hide it.
    let internal_error = has_internal_error(&report);
    let meta = Meta {
        profile: rules.profile(),
        color: terminal::color(global),
        unicode: terminal::unicode(),
        width: terminal::width(),
        elapsed: started.elapsed(),
        fail_on: fail_on(args, &config),
        exit_zero: args.exit_zero,
        interrupted: signals::interrupted().is_some(),
        // Services match findings to files by relative paths, and pipelines name files relative to
        // the root.
        base: std::env::current_dir().ok(),
        quiet: global.quiet,
        ..Meta::default()
    };
    if global.verbose {
        print_verbose(&config, &root, &report, &meta);
    }
    if fixing && !global.quiet {
        print_unfixed_links(&report, &disk, args.unsafe_fixes, &meta);
    }
    if args.diff {
        let unsafe_fixes = FindingCounts::of(&report.findings).unsafe_fixes;
        if unsafe_fixes > 0 && !args.unsafe_fixes && !global.quiet {
            let changes = agentproto_text::count(unsafe_fixes, "more change", "more changes");
            note(&format!("{changes} with `--unsafe-fixes --diff`"));
        }
        let code = show_diff(&changed, &meta, out)?;
        return Ok(if internal_error { exit::INTERNAL } else { code });
    }
    write_fixed(&changed, &disk)?;
    if let (Some(file), None) = (&args.write_baseline, signals::interrupted()) {
        write_baseline(file, &report, global)?;
        // Findings in the new baseline no longer count.
        report.findings.clear();
        if args.output == Format::Jsonl {
            report::render(args.output, &report, &meta, out).map_err(io_failure)?;
        }
        return Ok(if internal_error {
            exit::INTERNAL
        } else {
            exit::CLEAN
        });
    }
    let known = known_findings(args, &config)?;
    if let Some(baseline) = known {
        let matched = baseline.apply(&mut report);
        if matched.stale > 0 && !global.quiet {
            let entries = match matched.stale {
                1 => "1 baseline entry no longer matches".to_owned(),
                n => format!("{n} baseline entries no longer match"),
            };
            note(&format!(
                "{entries} a finding; update the baseline with `--write-baseline FILE`"
            ));
        }
    }
    if !changed.is_empty() && !global.quiet {
        let files = agentproto_text::count(changed.len(), "file", "files");
        note(&format!("fixed {files}"));
    }
    if args.hide_suppressed {
        report.findings.retain(Finding::counts);
    }
    let code = verdict(&report, &meta, internal_error);
    let (page, more) = match args.page.is_paged() {
        true => page(args, &meta, &mut report).map(|(page, more)| (Some(page), more))?,
        false => (None, String::new()),
    };
    let meta = Meta {
        page,
        arguments: args.repeated(global, &meta),
        ..meta
    };
    report::render(args.output, &report, &meta, out).map_err(io_failure)?;
    match args.output {
        Format::Human | Format::Agent => out.write_all(more.as_bytes()).map_err(io_failure)?,
        // They have fields for it.
        Format::Json | Format::Jsonl => {}
        _ => more.lines().for_each(note),
    }
    Ok(code)
}

/// Keeps only the findings of one page. The verdict and the counts are those of all findings. The
/// text tells people which page it is.
fn page(args: &Lint, meta: &Meta, report: &mut Report) -> Result<(PageInfo, String), Failure> {
    let failed = meta.run_fails(report);
    let counts = FindingCounts::of(&report.findings);
    let list = format!(
        "lint {:?} {:?} {:?} {:?}",
        args.paths,
        args.profile.map(Profile::as_str),
        args.select,
        args.ignore
    );
    let range = args.page.select(&list, &mut report.findings)?;
    let more = range.describe("findings");
    let page = PageInfo {
        failed,
        counts,
        next: range.next,
    };
    Ok((page, more))
}

/// The messages of `--verbose`.
fn print_verbose(config: &Config, root: &Path, report: &Report, meta: &Meta) {
    match &config.path {
        Some(path) => note(&format!("configuration: {}", meta.path(path))),
        None => note("configuration: none"),
    }
    note(&format!(
        "workspace: {} (references must not leave it)",
        root.display()
    ));
    for file in &report.files {
        note(&format!("read {}", meta.path(file)));
    }
    let suppressed = report.findings.iter().filter(|f| !f.counts()).count();
    note(&format!(
        "{} read, {suppressed} suppressed, {} ms",
        agentproto_text::count(report.files.len(), "file", "files"),
        meta.elapsed_ms()
    ));
}

/// Prints a message for people, which is never part of the results.
fn note(text: &str) {
    let _ = writeln!(
        std::io::stderr(),
        "agentproto: {}",
        agentproto_text::escape_line(text)
    );
}

fn show_diff(changed: &[ChangedFile], meta: &Meta, out: &mut dyn Write) -> Outcome {
    for change in changed {
        let name = meta.path(&change.path);
        let diff = similar::TextDiff::from_lines(&change.old, &change.new);
        let mut unified = diff.unified_diff();
        let unified = unified
            .context_radius(3)
            .header(&format!("a/{name}"), &format!("b/{name}"))
            .to_string();
        for line in unified.lines() {
            let line = agentproto_text::escape_line(line);
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

/// Writes each fixed file atomically, unless it was changed in the meantime.
fn write_fixed(changed: &[ChangedFile], disk: &ConfinedDisk) -> Result<(), Failure> {
    for change in changed {
        let (path, old, new) = (&change.path, &change.old, &change.new);
        disk.replace(path, old.as_bytes(), new.as_bytes())
            .map_err(|error| {
                let message = format!("{}: {error}", path.display());
                Failure::new(exit::CANT_CREATE, message)
            })?;
    }
    Ok(())
}

/// Names the files whose fixes are not applied because they are symbolic links.
fn print_unfixed_links(report: &Report, disk: &ConfinedDisk, all_fixes: bool, meta: &Meta) {
    let applies = |fix: &Fix| all_fixes || fix.safety == Safety::Safe;
    let fixable = |f: &&Finding| f.counts() && f.fix.as_ref().is_some_and(applies);
    let mut files: Vec<&Path> = report
        .findings
        .iter()
        .filter(fixable)
        .map(|f| f.file.as_path())
        .collect();
    files.dedup();
    for file in files {
        if let Some(target) = disk.link_target(file) {
            note(&format!(
                "{} is a symbolic link and is not fixed; fix the file that it points to: {}",
                meta.path(file),
                meta.path(&target)
            ));
        }
    }
}

fn write_baseline(file: &Path, report: &Report, global: &Global) -> Result<(), Failure> {
    let baseline = Baseline::of(report, file);
    baseline.write(file).map_err(baseline_failure)?;
    if !global.quiet {
        note(&format!(
            "wrote {} to {}",
            agentproto_text::count(baseline.len(), "entry", "entries"),
            file.display()
        ));
    }
    Ok(())
}

fn known_findings(args: &Lint, config: &Config) -> Result<Option<Baseline>, Failure> {
    if args.no_baseline {
        return Ok(None);
    }
    if let Some(file) = &args.baseline {
        return Baseline::load(file).map(Some).map_err(baseline_failure);
    }
    let Some(file) = &config.lint.baseline else {
        return Ok(None);
    };
    // The configuration may belong to an untrusted repository.
    let file = discover::clean(&config.dir.join(file));
    let tree = ConfinedDisk::new(config::tree(&config.dir));
    Baseline::load_from(&tree, &file)
        .map(Some)
        .map_err(baseline_failure)
}

fn baseline_failure(error: BaselineError) -> Failure {
    let code = match error {
        BaselineError::Missing(_) => exit::NO_INPUT,
        BaselineError::Read { .. } => exit::IO,
        BaselineError::Invalid { .. } => exit::DATA,
        BaselineError::Write { .. } => return Failure::new(exit::CANT_CREATE, error.to_string()),
    };
    Failure::new(code, error.to_string()).hint("`agentproto lint --write-baseline FILE` writes one")
}

/// `[[lint.per-file]]`: which rules do not apply to which paths.
fn per_file(config: &Config) -> Result<Vec<(Globs, Vec<&'static str>)>, Failure> {
    let mut settings = Vec::new();
    for per_file in &config.lint.per_file {
        let globs = globs(&config.dir, &per_file.paths, "per-file.paths")?;
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

/// Whether a rule had an internal error, so that a file was not checked completely.
fn has_internal_error(report: &Report) -> bool {
    let mut slugs = report.findings.iter().map(|f| f.rule.slug);
    slugs.any(|slug| slug == "internal-fault")
}

fn verdict(report: &Report, meta: &Meta, internal_error: bool) -> u8 {
    if let Some(code) = signals::interrupted() {
        return code;
    }
    if internal_error {
        return exit::INTERNAL;
    }
    if meta.run_fails(report) {
        exit::FINDINGS
    } else {
        exit::CLEAN
    }
}

/// One file needs one thread, and asking for the number of cores takes longer than reading it.
fn threads(args: &Lint) -> usize {
    let one_file = matches!(args.paths.as_slice(), [only] if only.is_file());
    args.threads
        .unwrap_or_else(|| match one_file {
            true => 1,
            false => std::thread::available_parallelism().map_or(1, usize::from),
        })
        .max(1)
}

fn rule_set(args: &Lint, config: &Config) -> Result<RuleSet, Failure> {
    let profile = args.profile.or(config.lint.profile);
    let mut rules = RuleSet::profile_defaults(profile.unwrap_or(Profile::Default));
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
        rules.set(slug, (*setting).into()).map_err(configured)?;
    }
    let usage = |error: UnknownRule| Failure::new(exit::USAGE, error.to_string());
    if !args.select.is_empty() {
        rules.select(&args.select).map_err(usage)?;
    }
    rules.ignore(&args.ignore).map_err(usage)?;
    Ok(rules)
}

/// The paths that determine the root of the run.
fn root_paths(args: &Lint) -> Vec<PathBuf> {
    let named = args.paths.iter().map(|path| match &args.stdin_filename {
        Some(name) if path.as_os_str() == "-" => name.clone(),
        _ if path.as_os_str() == "-" => PathBuf::from("."),
        _ => path.clone(),
    });
    named.collect()
}

fn fail_on(args: &Lint, config: &Config) -> Severity {
    let named = args.fail_on.or(config.lint.fail_on);
    named.unwrap_or(Severity::Error)
}

fn discover_targets(
    paths: &[PathBuf],
    disk: &ConfinedDisk,
    config: &Config,
    args: &Lint,
) -> Result<Vec<LintTarget>, Failure> {
    let excluded = excludes(config)?;
    let found = discover::targets(paths, disk, &excluded, args.force_exclude, threads(args));
    found.map_err(|error| not_found(&error, false))
}

fn not_found(error: &NotFound, with_git: bool) -> Failure {
    let hint = match with_git {
        // `--changed HEAD` names a path.
        true => format!(
            "pass a manifest or a directory; to compare with a git revision, write `--changed={}`",
            error.path.display()
        ),
        false => "pass a manifest, a directory, or `-` for stdin".to_owned(),
    };
    Failure::new(exit::NO_INPUT, error.to_string()).hint(hint)
}

fn excludes(config: &Config) -> Result<Excludes, Failure> {
    match config.lint.exclude.as_slice() {
        [] => Ok(Excludes::default()),
        patterns => globs(&config.dir, patterns, "exclude").map(Excludes::new),
    }
}

/// Compiles the globs of the configuration's `field`.
fn globs(dir: &Path, patterns: &[String], field: &str) -> Result<Globs, Failure> {
    Globs::new(dir, patterns).map_err(|error| {
        let message = format!("`{field}` in the configuration: {error}");
        Failure::new(exit::CONFIG, message)
    })
}

/// The targets to check. Texts that are not on disk go into the overlay.
fn targets(
    args: &Lint,
    config: &Config,
    disk: &ConfinedDisk,
    files: &mut Overlay<'_>,
) -> Result<Vec<LintTarget>, Failure> {
    let mut paths = args.paths.clone();
    if paths.is_empty() {
        paths.push(PathBuf::from("."));
    }
    let stdin = paths.iter().position(|p| p.as_os_str() == "-");
    let Some(at) = stdin else {
        return discover_targets(&paths, disk, config, args);
    };
    paths.remove(at);
    let name = args
        .stdin_filename
        .clone()
        .unwrap_or_else(|| PathBuf::from("stdin.md"));
    let name = discover::clean(&name);
    files.texts.insert(name.clone(), Some(stdin_text()?));
    let mut targets = discover_targets(&paths, disk, config, args)?;
    targets.retain(|t| t.path != name);
    targets.push(LintTarget::named(name));
    targets.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(targets)
}

/// Changed files that are below the given paths and may be manifests.
fn narrow(
    args: &Lint,
    config: &Config,
    changed: &[PathBuf],
    base: &git::Base,
) -> Result<Vec<LintTarget>, Failure> {
    let excluded = excludes(config)?;
    let here = std::env::current_dir().unwrap_or_default();
    let mut below = Vec::with_capacity(args.paths.len());
    for path in &args.paths {
        let absolute = normalize(&here.join(path));
        if !absolute.starts_with(&here) {
            return Err(Failure::new(
                exit::USAGE,
                format!(
                    "{}: outside the current directory, where git looks for changes",
                    path.display()
                ),
            )
            .hint("run the command in the repository, or remove the path"));
        }
        // Git may know a file that no longer exists.
        let known = |file: &Path| here.join(file).starts_with(&absolute);
        let is_known = changed.iter().any(|file| known(file)) || base.files().any(known);
        if !is_known {
            discover::check(path).map_err(|error| not_found(&error, true))?;
        }
        below.push(absolute);
    }
    let inside =
        |path: &Path| below.is_empty() || below.iter().any(|b| here.join(path).starts_with(b));
    Ok(changed
        .iter()
        .filter(|p| discover::is_candidate(p) && inside(p) && !excluded.matches(p))
        .map(|p| discover::target(p))
        .collect())
}

fn stdin_text() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let mut limited = std::io::stdin().lock().take(MAX_FILE_BYTES + 1);
    limited
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(exit::IO, format!("cannot read stdin: {error}")))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Failure::new(
            exit::DATA,
            format!("stdin is larger than {MAX_FILE_BYTES} bytes"),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(exit::DATA, format!("stdin is not UTF-8 (offset {at})"))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use clap::Parser;

    use crate::cli::{Cli, run};
    use crate::exit;
    use agentproto_lint::rules::panicking::{self, TRIGGER};

    #[test]
    fn no_option_hides_the_exit_code_of_an_internal_error() {
        panicking::ARMED.store(true, Ordering::Relaxed);
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).expect("written");
        };
        write("CLI.md", &format!("---\n{TRIGGER}\n---\n"));
        write("TOOL.md", "---\nodd: 1\n---\n");
        let baseline = dir.path().join("known.json");
        let baseline = baseline.to_str().expect("UTF-8");
        let lint = |options: &[&str]| {
            let place = dir.path().to_str().expect("UTF-8");
            let args = ["agentproto", "lint", "--no-config", "-o", "concise", place];
            let cli = Cli::try_parse_from(args.iter().chain(options)).expect("arguments");
            let mut out = Vec::new();
            let code = run(&cli, &mut out).expect("a verdict");
            (code, String::from_utf8(out).expect("UTF-8"))
        };
        let (code, out) = lint(&[]);
        assert_eq!(code, exit::INTERNAL);
        assert!(out.contains("internal-fault"), "{out}");
        assert!(out.contains("fm-unknown-field"), "{out}");
        assert_eq!(lint(&["--exit-zero"]).0, exit::INTERNAL);
        assert_eq!(lint(&["--ignore", "*"]).0, exit::INTERNAL);
        assert_eq!(lint(&["--diff"]).0, exit::INTERNAL);
        assert_eq!(lint(&["--write-baseline", baseline]).0, exit::INTERNAL);
        let known = ["--baseline", baseline, "--hide-suppressed"];
        assert_eq!(lint(&known).0, exit::INTERNAL);
        std::fs::remove_file(dir.path().join("CLI.md")).expect("removed");
        assert_eq!(lint(&[]).0, exit::FINDINGS);
        assert_eq!(lint(&known).0, exit::CLEAN);
    }
}
