//! Shows what an installation would do.

use serde_json::{Value, json};

use super::entry::{Method, Skip};
use super::store::Store;
use super::{Installed, Missed, Options, bin_name, blocked, find, methods, ready};
use crate::context::Context;
use crate::fault::Fault;

/// The installation plan, with steps in the order in which they would be tried.
#[derive(Clone, Debug)]
pub struct Plan {
    pub bin: String,
    /// The program, if it is already there and nothing would be installed.
    pub found: Option<Installed>,
    /// Why the bundle cannot be installed on this machine.
    pub blocked: Option<Missed>,
    pub steps: Vec<Step>,
}

/// One entry of `install`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub method: String,
    pub subject: Option<String>,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Runs these commands, one after the other.
    Run(Vec<Vec<String>>),
    Fetch {
        url: String,
        sha256: Option<String>,
        /// What happens to the downloaded file.
        then: String,
    },
    Use {
        path: String,
    },
    Skip {
        why: String,
        hint: Option<String>,
    },
}

pub fn plan(ctx: &Context, options: Options) -> Result<Plan, Fault> {
    let bin = bin_name(ctx)?;
    let store = Store::of(ctx)?;
    let found = match options.reinstall {
        true => None,
        false => find(ctx, &store, bin, &methods(ctx)),
    };
    let steps = ctx.bundle.common().install().map(|entry| {
        let read = Method::read(entry).and_then(|m| ready(ctx, entry, &m, options).map(|()| m));
        let name = entry.method().unwrap_or("?").to_owned();
        let (subject, action) = match read {
            Ok(method) => (
                Some(method.subject().to_owned()),
                action(&method, &store.dir().join("NEW")),
            ),
            Err(Skip { why, hint, .. }) => (None, Action::Skip { why, hint }),
        };
        Step {
            method: name,
            subject,
            action,
        }
    });
    Ok(Plan {
        bin: bin.to_owned(),
        found,
        blocked: blocked(ctx),
        steps: steps.collect(),
    })
}

fn action(method: &Method, prefix: &std::path::Path) -> Action {
    match method {
        Method::Package {
            manager,
            package,
            shared,
        } => {
            let steps = manager.steps(package, *shared, prefix);
            let words = |argv: &[std::ffi::OsString]| {
                let words = argv.iter().map(|w| w.to_string_lossy().into_owned());
                words.collect()
            };
            Action::Run(steps.iter().map(|s| words(&s.argv)).collect())
        }
        Method::Curl { url, sha256 } => Action::Fetch {
            url: url.clone(),
            sha256: sha256.clone(),
            then: "run it with its shell, with its own home directory".to_owned(),
        },
        Method::Download {
            url,
            extract_bin,
            sha256,
        } => Action::Fetch {
            url: url.clone(),
            sha256: sha256.clone(),
            then: format!("unpack it and use `{extract_bin}`"),
        },
        Method::Vendored { path } => Action::Use { path: path.clone() },
    }
}

impl Step {
    /// The step as text for the user.
    pub fn text(&self) -> String {
        match &self.action {
            Action::Run(commands) => {
                let lines = commands.iter().map(shell_words::join);
                format!("run {}", lines.collect::<Vec<_>>().join(", then "))
            }
            Action::Fetch { url, sha256, then } => match sha256 {
                Some(sha256) => format!("fetch {url} (SHA-256 {sha256}), {then}"),
                None => format!("fetch {url} (unverified), {then}"),
            },
            Action::Use { path } => format!("use {path} from the bundle"),
            Action::Skip { why, .. } => format!("skipped: {why}"),
        }
    }

    /// The step as JSON.
    pub fn json(&self) -> Value {
        let mut out = json!({ "method": self.method });
        let fields = match &self.action {
            Action::Run(commands) => json!({ "action": "run", "commands": commands }),
            Action::Fetch { url, sha256, then } => {
                json!({ "action": "fetch", "url": url, "sha256": sha256, "then": then })
            }
            Action::Use { path } => json!({ "action": "use", "path": path }),
            Action::Skip { why, hint } => json!({ "action": "skip", "why": why, "hint": hint }),
        };
        if let (Value::Object(out), Value::Object(fields)) = (&mut out, fields) {
            out.extend(fields);
        }
        out
    }
}
