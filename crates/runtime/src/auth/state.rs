//! The login state of a bundle and user, stored between runs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::context::Context;
use crate::error::{Code, Error};
use crate::home::Lock;
use crate::observe::Stage;
use crate::setup;
use crate::setup::ledger::{path_text, user_id};

const SCHEMA: &str = "agentproto.auth/v1";

/// The login state (A29-LOGIN-01).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LoginState {
    /// Nothing has been checked yet.
    #[default]
    Unknown,
    /// The user is not logged in.
    Unauthed,
    /// The user is logged in.
    Authed,
}

impl LoginState {
    /// The state as text, for example `authed`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The stored record. Times are in seconds since 1970.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredState {
    schema: String,
    /// The bundle as `id@major`.
    pub bundle: String,
    /// The state.
    pub state: LoginState,
    /// Time of the last change of the state.
    pub since: u64,
    /// Time of the last refresh, or of the login if there was none.
    pub refreshed: Option<u64>,
    /// Time of the next refresh, if the refresh hook set it. It replaces the declared interval.
    #[serde(default)]
    pub next_refresh: Option<u64>,
}

/// The current time in seconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

fn key(ctx: &Context) -> Result<String, Error> {
    let mut hasher = Sha256::new();
    for part in [
        ctx.bundle.identity()?,
        path_text(&ctx.bundle.dir),
        user_id(),
    ] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let hash = agentproto_text::hex(&hasher.finalize());
    Ok(hash.get(..32).unwrap_or(&hash).to_owned())
}

/// Takes the login lock of the bundle. Two logins at once would overwrite each other.
pub async fn lock(ctx: &Context) -> Result<Lock, Error> {
    setup::lock(ctx, Stage::Auth, format!("auth-{}", key(ctx)?)).await
}

/// Reads the state of the context's bundle. Without a file it is unknown.
pub fn read(ctx: &Context) -> Result<StoredState, Error> {
    let bytes = ctx.home.read(format!("auth/{}.json", key(ctx)?))?;
    // An invalid file is treated like a missing one.
    let stored: Option<StoredState> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(match stored.filter(|stored| stored.schema == SCHEMA) {
        Some(stored) => stored,
        None => StoredState {
            schema: SCHEMA.to_owned(),
            bundle: ctx.bundle.identity()?,
            state: LoginState::Unknown,
            since: now(),
            refreshed: None,
            next_refresh: None,
        },
    })
}

/// Leaves the state unknown: the version check has passed, so the user counts as logged out until a
/// login completes (A29-LOGIN-02).
pub fn leave_unknown(ctx: &Context) -> Result<StoredState, Error> {
    let mut stored = read(ctx)?;
    if stored.state == LoginState::Unknown {
        stored.set_state(ctx, LoginState::Unauthed, "the version check passed")?;
    }
    Ok(stored)
}

impl StoredState {
    /// Writes the state to the home.
    pub fn write(&self, ctx: &Context) -> Result<(), Error> {
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::new(Code::StateUnwritable, e.to_string()))?;
        ctx.home.write(format!("auth/{}.json", key(ctx)?), &bytes)
    }

    /// Changes the state, and writes the change to the audit log.
    pub fn set_state(&mut self, ctx: &Context, state: LoginState, why: &str) -> Result<(), Error> {
        if self.state != state {
            let event = json!({ "from": self.state.as_str(), "to": state.as_str(), "why": why });
            ctx.audit.record("auth.state", event)?;
            self.state = state;
            self.since = now();
        }
        self.refreshed = match state {
            LoginState::Authed => self.refreshed.or(Some(now())),
            LoginState::Unknown | LoginState::Unauthed => None,
        };
        if state != LoginState::Authed {
            self.next_refresh = None;
        }
        self.write(ctx)
    }

    /// Time of the next refresh: as the refresh hook said (A29-DEFCLI-08), or after the declared
    /// interval (A29-AUTH-09).
    pub fn refresh_due(&self, every: Option<Duration>) -> Option<u64> {
        let interval =
            every.and_then(|every| Some(self.refreshed?.saturating_add(every.as_secs())));
        self.next_refresh.or(interval)
    }

    /// Whether a refresh is due. If the clock was set back, no time has passed.
    pub fn is_due(&self, every: Option<Duration>) -> bool {
        self.refresh_due(every).is_some_and(|due| now() >= due)
    }
}
