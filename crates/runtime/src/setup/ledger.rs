//! Records which setup steps are done, per bundle, workspace and user (A29-SETUP-24). It contains
//! no values.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::context::Context;
use crate::error::{Code, Error};
use crate::home::Home;
use agentproto_text::time;

const SCHEMA: &str = "agentproto.setup/v1";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ledger {
    schema: String,
    pub bundle: String,
    pub workspace: String,
    pub user: String,
    steps: BTreeMap<String, DoneStep>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DoneStep {
    pub definition: String,
    pub at: String,
    /// `done`, or `skipped` by the step's own check.
    pub how: String,
}

/// The key of a ledger.
#[derive(Clone, Debug)]
pub struct LedgerKey {
    pub bundle: String,
    pub workspace: String,
    pub user: String,
}

impl LedgerKey {
    pub fn from_context(ctx: &Context) -> Result<LedgerKey, Error> {
        Ok(LedgerKey {
            bundle: ctx.bundle.identity()?,
            workspace: path_text(&ctx.cwd),
            user: user_id(),
        })
    }

    /// The name of its files and locks.
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        for part in [&self.bundle, &self.workspace, &self.user] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let hash = agentproto_text::hex(&hasher.finalize());
        hash.get(..32).unwrap_or(&hash).to_owned()
    }
}

/// A path as text. A path that is not UTF-8 is represented by its escaped bytes.
pub fn path_text(path: &Path) -> String {
    match path.to_str() {
        Some(text) => text.to_owned(),
        None => format!(
            "bytes:{}",
            path.as_os_str().as_encoded_bytes().escape_ascii()
        ),
    }
}

pub fn user_id() -> String {
    // SAFETY: no arguments, cannot fail.
    format!("uid:{}", unsafe { libc::geteuid() })
}

impl Ledger {
    pub fn read(home: &Home, key: &LedgerKey) -> Result<Ledger, Error> {
        let path = file(key);
        let Some(bytes) = home.read(&path)? else {
            return Ok(Ledger {
                schema: SCHEMA.to_owned(),
                bundle: key.bundle.clone(),
                workspace: key.workspace.clone(),
                user: key.user.clone(),
                steps: BTreeMap::new(),
            });
        };
        let ledger: Option<Ledger> = serde_json::from_slice(&bytes).ok();
        ledger.filter(|l| l.schema == SCHEMA).ok_or_else(|| {
            let what = format!(
                "the setup ledger `{}` is invalid",
                home.path(&path).display()
            );
            Error::new(Code::StateUnwritable, what).hint("remove it to run all setup steps again")
        })
    }

    pub fn write(&self, home: &Home, key: &LedgerKey) -> Result<(), Error> {
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::new(Code::StateUnwritable, e.to_string()))?;
        home.write(file(key), &bytes)
    }

    pub fn has(&self, id: &str, definition: &str) -> bool {
        self.steps
            .get(id)
            .is_some_and(|done| done.definition == definition)
    }

    pub fn was_skipped(&self, id: &str) -> bool {
        self.steps.get(id).is_some_and(|done| done.how == "skipped")
    }

    pub fn mark(&mut self, id: &str, definition: &str, how: &str) {
        let done = DoneStep {
            definition: definition.to_owned(),
            at: time::now(),
            how: how.to_owned(),
        };
        self.steps.insert(id.to_owned(), done);
    }

    pub fn forget(&mut self, id: &str) {
        self.steps.remove(id);
    }
}

fn file(key: &LedgerKey) -> String {
    format!("setup/{}.json", key.hash())
}
