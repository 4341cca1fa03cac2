//! A command that needs a login, run without one: it must emit an error and neither prompt nor open
//! a browser.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::refusals::{PROMPT, SILENCE, pair, waits};
use crate::capture::{Capture, End};
use crate::model::Check;
use crate::observe::{bare, is_mutating};
use crate::probe::Command;
use crate::rules::{Level, Rule, Topic};
use crate::run::{Input, World};
use crate::session::{How, Session};
use crate::sheet::Sheet;
use crate::stream::{Line, Stream};

const WANTED: [&Rule; 4] = [&AUTH_ERROR, &AUTH_CATEGORY, &BROWSER, &PROMPT];

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

pub async fn check(session: &Session, command: &Command) {
    let mut sheet = Sheet::new(session.judge(&command.name));
    if is_mutating(session, command) && !session.probe.sandbox {
        let why = "the command changes something, and the probe file does not have `sandbox: true`";
        for rule in WANTED {
            sheet.skip(rule, why);
        }
        return sheet.settle(&WANTED, why);
    }
    let wire = session.world().and_then(Tripwire::new);
    match wire {
        Ok(wire) => look(session, command, &wire, &mut sheet).await,
        Err(error) => sheet.doubt(
            &WANTED,
            &format!("cannot create a directory for the run: {error}"),
        ),
    }
    sheet.settle(&WANTED, "the probe did not get that far");
}

pub(super) static BROWSER: Rule = Rule {
    id: "AOI-06.browser",
    check: Check::Number(6),
    level: Level::Must,
    section: "§1.3",
    demands: "Machine mode does not open a browser",
    why: "In machine mode, no user is present who could click.",
    hint: "Start the login in human mode only. In machine mode, emit INTERACTIVE_REQUIRED.",
    topic: Topic::Confirm,
    register: &["AOI-1.3-02"],
};

async fn look(session: &Session, command: &Command, wire: &Tripwire, sheet: &mut Sheet<'_>) {
    let run = once(session, command, wire, Input::Null, session.options.limit).await;
    judge(&run, sheet);
    let mut patience = SILENCE + 3 * run.elapsed;
    if run.end == End::TimedOut {
        sheet.broken(
            &PROMPT,
            format!("without credentials: {}", waits(&run)),
            &run,
        );
        patience = SILENCE;
    }
    let mut shown = once(session, command, wire, Input::Terminal, patience).await;
    if shown.end == End::TimedOut && run.end != End::TimedOut {
        shown = once(session, command, wire, Input::Terminal, 2 * patience).await;
    }
    match shown.end {
        End::TimedOut => {
            let message = format!("without credentials, on a terminal: {}", waits(&shown));
            sheet.broken(&PROMPT, message, &shown);
        }
        _ => sheet.pass(&PROMPT, "the command never waits for input"),
    }
    match wire.touched() {
        Some(name) => sheet.broken(&BROWSER, format!("the command started `{name}`"), &run),
        None => sheet.pass(&BROWSER, "the command started none of the fake browsers"),
    }
}

async fn once(
    session: &Session,
    command: &Command,
    wire: &Tripwire,
    input: Input,
    limit: Duration,
) -> Arc<Capture> {
    let call = bare(session, command, &wire.world, None);
    let what = match input {
        Input::Terminal => "no credentials, on a terminal",
        _ => "no credentials",
    };
    let mut env = wire.env();
    for (name, _) in &session.probe.env {
        if session.probe.credentials.env.contains(name) {
            env.push(pair(name, ""));
        }
    }
    let how = How {
        input: match command.input {
            Some(_) => call.input,
            None => input,
        },
        env,
        limit: Some(limit),
        world: Some(wire.world.clone()),
        ..How::default()
    };
    session.run(&command.name, what, &call.words, how).await
}

pub(super) static AUTH_ERROR: Rule = Rule {
    id: "AOI-06.interactive-required",
    check: Check::Number(6),
    level: Level::Must,
    section: "§1.3",
    demands: "Without credentials, the command emits an aoi:error of category authn \
              (INTERACTIVE_REQUIRED) and exits with a non-zero code",
    why: "A caller must be able to tell its operator that a login is needed.",
    hint: "Emit aoi:error with category authn, code INTERACTIVE_REQUIRED, retryable false and a hint, then exit 77.",
    topic: Topic::Confirm,
    register: &["AOI-1.3-05"],
};

pub(super) static AUTH_CATEGORY: Rule = Rule {
    id: "AOI-06.auth-category",
    check: Check::Number(6),
    level: Level::Must,
    section: "§9.1",
    demands: "The error for missing credentials has category authn",
    why: "Portable callers branch on the category.",
    hint: "Set the category to authn. Use authz for credentials with insufficient permissions.",
    topic: Topic::Confirm,
    register: &["AOI-1.3-05"],
};

fn judge(run: &Arc<Capture>, sheet: &mut Sheet<'_>) {
    let stream = Stream::read(&run.stdout);
    let is_error = stream.errors().next().is_some();
    let said = stream.errors().find(names_login);
    match run.end {
        End::TimedOut => sheet.not_verified(
            &AUTH_ERROR,
            "the command did not exit within its time limit",
        ),
        End::Code(0) if !is_error && stream.domain().next().is_some() => {
            let why = "the command prints results without credentials: it needs none, or it found \
                       some";
            for rule in [&AUTH_ERROR, &AUTH_CATEGORY] {
                sheet.not_verified(rule, why);
            }
        }
        End::Code(0) => {
            let message = "the command has no credentials, but exits 0; expected an aoi:error and \
                           a non-zero exit code";
            sheet.broken(&AUTH_ERROR, message, run);
        }
        End::Signal(_) => sheet.broken(&AUTH_ERROR, run.end.told(), run),
        End::Code(_) => match (said, is_error) {
            (Some(error), _) => {
                let proof = "an aoi:error reports the missing login, and the exit code is not 0";
                sheet.pass(&AUTH_ERROR, proof);
                let category = text(error, "category");
                let wrong = (category != "authn")
                    .then(|| format!("the category is `{category}`; expected `authn`"));
                sheet.held(&AUTH_CATEGORY, "the category is authn", wrong, run);
            }
            (None, true) => {
                let message = "neither the category nor the code of the aoi:error says that a \
                               login is missing";
                sheet.broken(&AUTH_ERROR, message, run);
            }
            (None, false) => {
                let message = "no aoi:error says that a login is missing";
                sheet.broken(&AUTH_ERROR, message, run);
            }
        },
    }
    sheet.not_applicable(&AUTH_CATEGORY, "no aoi:error reports a missing login");
}

fn text<'l>(line: &'l Line, key: &str) -> &'l str {
    line.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the error is the one that §1.3 requires for a missing login.
fn names_login(error: &&Line) -> bool {
    text(error, "category") == "authn" || text(error, "code") == "INTERACTIVE_REQUIRED"
}

/// Fake browsers that record that they were started.
struct Tripwire {
    world: World,
}

impl Tripwire {
    fn new(world: World) -> io::Result<Tripwire> {
        let wire = Tripwire { world };
        let bin = wire.bin();
        std::fs::create_dir_all(&bin)?;
        let note = wire.note();
        // The path is ours and contains no quotes.
        let text = format!("#!/bin/sh\necho \"${{0##*/}}\" >> '{}'\n", note.display());
        for name in BROWSERS {
            let path = bin.join(name);
            std::fs::write(&path, &text)?;
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
        }
        Ok(wire)
    }

    fn bin(&self) -> PathBuf {
        self.world.root.join("browsers")
    }

    fn note(&self) -> PathBuf {
        self.world.root.join("browser-started")
    }

    fn env(&self) -> Vec<(String, String)> {
        let bin = self.bin();
        let usual = std::env::var("PATH").unwrap_or_default();
        let browser = bin.join("x-www-browser");
        vec![
            pair("PATH", &format!("{}:{usual}", bin.to_string_lossy())),
            pair("BROWSER", &browser.to_string_lossy()),
            // Without a display, many tools do not try to open a browser.
            pair("DISPLAY", ":99"),
        ]
    }

    fn touched(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.note()).ok()?;
        text.lines().next().map(str::to_owned)
    }
}
