//! A command that needs a login, run without one: it must emit an error and neither prompt nor open
//! a browser.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::refusals::{PROMPT, SILENCE, variable, wait_message};
use crate::capture::{Capture, ExitKind};
use crate::model::CheckId;
use crate::observe::{is_mutating, unconfirmed};
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::run::{RunDirs, StdinSource};
use crate::session::{LintSession, RunOptions};
use crate::stream::{EventLine, EventStream};
use crate::verdicts::Verdicts;

const AUTH_RULES: [&Rule; 5] = [&AUTH_ERROR, &AUTH_CATEGORY, &AUTH_FIELDS, &BROWSER, &PROMPT];

/// Programs that open a web page.
const BROWSERS: [&str; 9] = [
    "xdg-open",
    "open",
    "sensible-browser",
    "x-www-browser",
    "www-browser",
    "wslview",
    "gio",
    "firefox",
    "google-chrome",
];

pub async fn check(session: &LintSession, command: &ProbeCommand) {
    let mut verdicts = Verdicts::new(session.reporter(&command.name));
    if is_mutating(session, command) && !session.probe.sandbox {
        let why = "the command changes something, and the probe file does not have `sandbox: true`";
        for rule in AUTH_RULES {
            verdicts.skip(rule, why);
        }
        return verdicts.report(&AUTH_RULES, why);
    }
    let browsers = session.new_dirs().and_then(FakeBrowsers::new);
    match browsers {
        Ok(browsers) => check_command(session, command, &browsers, &mut verdicts).await,
        Err(error) => verdicts.unverify(
            &AUTH_RULES,
            &format!("cannot create a directory for the run: {error}"),
        ),
    }
    verdicts.report(&AUTH_RULES, "the probe did not get that far");
}

pub(super) static BROWSER: Rule = Rule {
    id: "AOI-06.browser",
    check: CheckId::Number(6),
    level: Level::Must,
    section: "§1.3",
    requirement: "Machine mode does not open a browser",
    why: "In machine mode, no user is present who could click.",
    hint: "Start the login in human mode only. In machine mode, emit INTERACTIVE_REQUIRED.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-1.3-02"],
};

async fn check_command(
    session: &LintSession,
    command: &ProbeCommand,
    browsers: &FakeBrowsers,
    verdicts: &mut Verdicts<'_>,
) {
    let run = run_once(
        session,
        command,
        browsers,
        StdinSource::Null,
        session.options.limit,
    )
    .await;
    check_run(session, command, &run, verdicts);
    let mut patience = SILENCE + 3 * run.elapsed;
    if run.end == ExitKind::TimedOut {
        verdicts.violation(
            &PROMPT,
            format!("without credentials: {}", wait_message(&run)),
            &run,
        );
        patience = SILENCE;
    }
    let mut shown = run_once(session, command, browsers, StdinSource::Terminal, patience).await;
    if shown.end == ExitKind::TimedOut && run.end != ExitKind::TimedOut {
        shown = run_once(
            session,
            command,
            browsers,
            StdinSource::Terminal,
            2 * patience,
        )
        .await;
    }
    match shown.end {
        ExitKind::TimedOut => {
            let message = format!(
                "without credentials, on a terminal: {}",
                wait_message(&shown)
            );
            verdicts.violation(&PROMPT, message, &shown);
        }
        _ => verdicts.pass(&PROMPT, "the command never waits for input"),
    }
    match browsers.started_browser() {
        Some(name) => verdicts.violation(&BROWSER, format!("the command started `{name}`"), &run),
        None => verdicts.pass(&BROWSER, "the command started none of the fake browsers"),
    }
}

async fn run_once(
    session: &LintSession,
    command: &ProbeCommand,
    browsers: &FakeBrowsers,
    input: StdinSource,
    limit: Duration,
) -> Arc<Capture> {
    let call = unconfirmed(session, command, &browsers.dirs, None);
    let what = match input {
        StdinSource::Terminal => "no credentials, on a terminal",
        _ => "no credentials",
    };
    let mut env = browsers.env();
    for (name, _) in &session.probe.env {
        if session.probe.credentials.env.contains(name) {
            env.push(variable(name, ""));
        }
    }
    let how = RunOptions {
        input: match command.input {
            Some(_) => call.input,
            None => input,
        },
        env,
        limit: Some(limit),
        dirs: Some(browsers.dirs.clone()),
        ..RunOptions::default()
    };
    session.run(&command.name, what, &call.words, how).await
}

pub(super) static AUTH_ERROR: Rule = Rule {
    id: "AOI-06.interactive-required",
    check: CheckId::Number(6),
    level: Level::Must,
    section: "§1.3",
    requirement: "Without credentials, the command emits an aoi:error of category authn \
              (INTERACTIVE_REQUIRED) and exits with a non-zero code",
    why: "A caller must be able to tell its operator that a login is needed.",
    hint: "Emit aoi:error with category authn, code INTERACTIVE_REQUIRED, retryable false and a hint, then exit 77.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-1.3-05"],
};

pub(super) static AUTH_CATEGORY: Rule = Rule {
    id: "AOI-06.auth-category",
    check: CheckId::Number(6),
    level: Level::Must,
    section: "§9.1",
    requirement: "The error for missing credentials has category authn",
    why: "Portable callers branch on the category.",
    hint: "Set the category to authn. Use authz for credentials with insufficient permissions.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-1.3-05"],
};

pub(super) static AUTH_FIELDS: Rule = Rule {
    id: "AOI-adv.interactive-fields",
    check: CheckId::Advisory,
    level: Level::Open,
    section: "§1.3",
    requirement: "The error for missing credentials has code INTERACTIVE_REQUIRED, retryable false \
              and a hint",
    why: "A caller that knows the code can ask its operator to log in.",
    hint: "Set the code to INTERACTIVE_REQUIRED and retryable to false, and name the login command \
           in the hint.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-1.3-06"],
};

/// The first field of the error for missing credentials that is not as §1.3 describes it.
fn unexpected_field(error: &EventLine) -> Option<String> {
    let code = text(error, "code");
    if code != "INTERACTIVE_REQUIRED" {
        return Some(format!(
            "the code is `{code}`; expected `INTERACTIVE_REQUIRED`"
        ));
    }
    if error.get("retryable") != Some(&Value::Bool(false)) {
        return Some("`retryable` is not false".to_owned());
    }
    let hint = text(error, "hint");
    hint.is_empty().then(|| "the error has no hint".to_owned())
}

/// Words in a failed check that reports a missing login.
const LOGIN: [&str; 7] = [
    "auth",
    "credential",
    "key",
    "logged in",
    "login",
    "secret",
    "token",
];

/// Whether the command reports the missing login as its result, as `doctor` does (§16.2). This
/// needs no interaction.
fn reports_login_as_check(
    session: &LintSession,
    command: &ProbeCommand,
    stream: &EventStream,
) -> bool {
    let declared = session.declared.get();
    let entry = declared.and_then(|declared| declared.command(&command.name));
    let kinds = entry.and_then(|entry| entry.get("event_types")?.as_array());
    let emits_checks = kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "aoi:check"));
    let is_doctor = command.name.split_whitespace().next_back() == Some("doctor");
    let is_login = |check: &EventLine| {
        let words = format!("{} {}", text(check, "name"), text(check, "detail")).to_lowercase();
        let failed = check.get("ok") == Some(&Value::Bool(false));
        failed && LOGIN.iter().any(|word| words.contains(word))
    };
    let reports = stream.of_type("aoi:check").any(is_login);
    (emits_checks || is_doctor) && reports && stream.ok() == Some(false)
}

fn check_run(
    session: &LintSession,
    command: &ProbeCommand,
    run: &Arc<Capture>,
    verdicts: &mut Verdicts<'_>,
) {
    let stream = EventStream::parse(&run.stdout);
    if reports_login_as_check(session, command, &stream) {
        let why = "the command reports the missing login as a failed aoi:check";
        for rule in [&AUTH_ERROR, &AUTH_CATEGORY, &AUTH_FIELDS] {
            verdicts.not_applicable(rule, why);
        }
        return;
    }
    let is_error = stream.errors().next().is_some();
    let login_error = stream.errors().find(names_login);
    match run.end {
        ExitKind::TimedOut => verdicts.not_verified(
            &AUTH_ERROR,
            "the command did not exit within its time limit",
        ),
        ExitKind::Code(0) if !is_error && stream.domain().next().is_some() => {
            let why = "the command prints results without credentials: it needs none, or it found \
                       some";
            for rule in [&AUTH_ERROR, &AUTH_CATEGORY, &AUTH_FIELDS] {
                verdicts.not_verified(rule, why);
            }
        }
        ExitKind::Code(0) => {
            let message = "the command has no credentials, but exits 0; expected an aoi:error and \
                           a non-zero exit code";
            verdicts.violation(&AUTH_ERROR, message, run);
        }
        ExitKind::Signal(_) => verdicts.violation(&AUTH_ERROR, run.end.describe(), run),
        ExitKind::Code(_) => match (login_error, is_error) {
            (Some(error), _) => {
                let proof = "an aoi:error reports the missing login, and the exit code is not 0";
                verdicts.pass(&AUTH_ERROR, proof);
                let category = text(error, "category");
                let violation = (category != "authn")
                    .then(|| format!("the category is `{category}`; expected `authn`"));
                verdicts.decide(&AUTH_CATEGORY, "the category is authn", violation, run);
                let violation = unexpected_field(error);
                verdicts.decide(&AUTH_FIELDS, "the fields are as in §1.3", violation, run);
            }
            (None, true) => {
                let message = "neither the category nor the code of the aoi:error says that a \
                               login is missing";
                verdicts.violation(&AUTH_ERROR, message, run);
            }
            (None, false) => {
                let message = "no aoi:error says that a login is missing";
                verdicts.violation(&AUTH_ERROR, message, run);
            }
        },
    }
    for rule in [&AUTH_CATEGORY, &AUTH_FIELDS] {
        verdicts.not_applicable(rule, "no aoi:error reports a missing login");
    }
}

fn text<'l>(line: &'l EventLine, key: &str) -> &'l str {
    line.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the error is the one that §1.3 requires for a missing login.
fn names_login(error: &&EventLine) -> bool {
    text(error, "category") == "authn" || text(error, "code") == "INTERACTIVE_REQUIRED"
}

/// Fake browsers that record that they were started.
struct FakeBrowsers {
    dirs: RunDirs,
}

impl FakeBrowsers {
    fn new(dirs: RunDirs) -> io::Result<FakeBrowsers> {
        let browsers = FakeBrowsers { dirs };
        let bin = browsers.bin();
        std::fs::create_dir_all(&bin)?;
        let log = browsers.log_path();
        // The path is ours and contains no quotes.
        let text = format!("#!/bin/sh\necho \"${{0##*/}}\" >> '{}'\n", log.display());
        for name in BROWSERS {
            let path = bin.join(name);
            std::fs::write(&path, &text)?;
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
        }
        Ok(browsers)
    }

    fn bin(&self) -> PathBuf {
        self.dirs.root.join("browsers")
    }

    fn log_path(&self) -> PathBuf {
        self.dirs.root.join("browser-started")
    }

    fn env(&self) -> Vec<(String, String)> {
        let bin = self.bin();
        let usual = std::env::var("PATH").unwrap_or_default();
        let browser = bin.join("x-www-browser");
        vec![
            variable("PATH", &format!("{}:{usual}", bin.to_string_lossy())),
            variable("BROWSER", &browser.to_string_lossy()),
            // Without a display, many tools do not try to open a browser.
            variable("DISPLAY", ":99"),
        ]
    }

    fn started_browser(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.log_path()).ok()?;
        text.lines().next().map(str::to_owned)
    }
}
