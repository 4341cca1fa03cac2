//! Shows what an installation would do.

use serde_json::{Value, json};

use super::entry::{Method, SkipReason};
use super::store::ToolStore;
use super::{
    InstallOptions, Installed, UnmetRequirement, bin_name, find, methods, ready, unmet_requirement,
};
use crate::context::Context;
use crate::error::Error;

/// The installation plan, with steps in the order in which they would be tried.
#[derive(Clone, Debug)]
pub struct InstallPlan {
    /// The program's name, as in `bin`.
    pub bin: String,
    /// The program, if it is already there and nothing would be installed.
    pub found: Option<Installed>,
    /// Why the bundle cannot be installed on this machine.
    pub blocked: Option<UnmetRequirement>,
    /// The entries of `install`, in order.
    pub steps: Vec<InstallStep>,
}

/// One entry of `install`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallStep {
    /// The install method, for example `npm`.
    pub method: String,
    /// The package, URL or path to install, or `None` if the entry is skipped.
    pub subject: Option<String>,
    /// What would be done.
    pub action: InstallAction,
}

/// What an install step would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallAction {
    /// Runs these commands, one after the other.
    Run(Vec<Vec<String>>),
    /// Downloads a file.
    Fetch {
        /// The URL to download.
        url: String,
        /// The expected SHA-256 in hex, or `None` if the download is not verified.
        sha256: Option<String>,
        /// What happens to the downloaded file.
        then: String,
    },
    /// Uses a file of the bundle.
    Use {
        /// Path of the file, relative to the bundle.
        path: String,
    },
    /// Does nothing.
    Skip {
        /// Why the entry is skipped.
        why: String,
        /// What the user can do about it.
        hint: Option<String>,
    },
}

/// Returns the installation plan. Nothing is installed.
pub fn plan(ctx: &Context, options: InstallOptions) -> Result<InstallPlan, Error> {
    let bin = bin_name(ctx)?;
    let store = ToolStore::for_bundle(ctx)?;
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
            Err(SkipReason { why, hint, .. }) => (None, InstallAction::Skip { why, hint }),
        };
        InstallStep {
            method: name,
            subject,
            action,
        }
    });
    Ok(InstallPlan {
        bin: bin.to_owned(),
        found,
        blocked: unmet_requirement(ctx),
        steps: steps.collect(),
    })
}

fn action(method: &Method, prefix: &std::path::Path) -> InstallAction {
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
            InstallAction::Run(steps.iter().map(|s| words(&s.argv)).collect())
        }
        Method::Curl { url, sha256 } => InstallAction::Fetch {
            url: url.clone(),
            sha256: sha256.clone(),
            then: "run it with the shell in its first line, in a private home directory".to_owned(),
        },
        Method::Download {
            url,
            extract_bin,
            sha256,
        } => InstallAction::Fetch {
            url: url.clone(),
            sha256: sha256.clone(),
            then: format!("unpack it and use `{extract_bin}`"),
        },
        Method::Vendored { path } => InstallAction::Use { path: path.clone() },
    }
}

impl InstallStep {
    /// The step as text for the user.
    pub fn text(&self) -> String {
        match &self.action {
            InstallAction::Run(commands) => {
                let lines = commands.iter().map(shell_words::join);
                format!("run {}", lines.collect::<Vec<_>>().join(", then "))
            }
            InstallAction::Fetch { url, sha256, then } => match sha256 {
                Some(sha256) => format!("fetch {url}, check its SHA-256 ({sha256}), {then}"),
                None => format!("fetch {url} (not verified: no SHA-256), {then}"),
            },
            InstallAction::Use { path } => format!("use {path} from the bundle"),
            InstallAction::Skip { why, .. } => format!("skipped: {why}"),
        }
    }

    /// The step as JSON.
    pub fn json(&self) -> Value {
        let mut out = json!({ "method": self.method });
        let fields = match &self.action {
            InstallAction::Run(commands) => json!({ "action": "run", "commands": commands }),
            InstallAction::Fetch { url, sha256, then } => {
                json!({ "action": "fetch", "url": url, "sha256": sha256, "then": then })
            }
            InstallAction::Use { path } => json!({ "action": "use", "path": path }),
            InstallAction::Skip { why, hint } => {
                json!({ "action": "skip", "why": why, "hint": hint })
            }
        };
        if let (Value::Object(out), Value::Object(fields)) = (&mut out, fields) {
            out.extend(fields);
        }
        out
    }
}
