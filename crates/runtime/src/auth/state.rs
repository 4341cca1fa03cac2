//! The login state of a bundle and user, kept between runs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::context::Context;
use crate::fault::{Code, Fault};
use crate::home::Lock;
use crate::observe::Stage;
use crate::setup;
use crate::setup::ledger::{text, user};

const SCHEMA: &str = "agentproto.auth/v1";

/// The login state (A29-LOGIN-01).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum State {
    #[default]
    Unknown,
    Unauthed,
    Authed,
}

impl State {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The stored record. Times are in seconds since 1970.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    schema: String,
    pub bundle: String,
    pub state: State,
    pub since: u64,
    /// Time of the last refresh, or of the login if there was none.
    pub refreshed: Option<u64>,
}

pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

fn key(ctx: &Context) -> Result<String, Fault> {
    let mut hasher = Sha256::new();
    for part in [ctx.bundle.identity()?, text(&ctx.bundle.dir), user()] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let hash = agentproto_text::hex(&hasher.finalize());
    Ok(hash.get(..32).unwrap_or(&hash).to_owned())
}

/// Takes the login lock of the bundle. Two logins at once would overwrite each other.
pub async fn lock(ctx: &Context) -> Result<Lock, Fault> {
    setup::lock(ctx, Stage::Auth, format!("auth-{}", key(ctx)?)).await
}

pub fn read(ctx: &Context) -> Result<Kept, Fault> {
    let bytes = ctx.home.read(format!("auth/{}.json", key(ctx)?))?;
    // An invalid file is treated like a missing one.
    let kept: Option<Kept> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(match kept.filter(|kept| kept.schema == SCHEMA) {
        Some(kept) => kept,
        None => Kept {
            schema: SCHEMA.to_owned(),
            bundle: ctx.bundle.identity()?,
            state: State::Unknown,
            since: now(),
            refreshed: None,
        },
    })
}

impl Kept {
    pub fn write(&self, ctx: &Context) -> Result<(), Fault> {
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|e| Fault::new(Code::StateUnwritable, e.to_string()))?;
        ctx.home.write(format!("auth/{}.json", key(ctx)?), &bytes)
    }

    /// Changes the state, and writes the change to the audit log.
    pub fn enter(&mut self, ctx: &Context, state: State, why: &str) -> Result<(), Fault> {
        if self.state != state {
            let event = json!({ "from": self.state.as_str(), "to": state.as_str(), "why": why });
            ctx.audit.record("auth.state", event)?;
            self.state = state;
            self.since = now();
        }
        self.refreshed = match state {
            State::Authed => self.refreshed.or(Some(now())),
            State::Unknown | State::Unauthed => None,
        };
        self.write(ctx)
    }

    /// Whether a refresh is due (A29-AUTH-09). If the clock was set back, no time has passed.
    pub fn is_due(&self, every: Duration) -> bool {
        let since = self.refreshed.map(|at| now().saturating_sub(at));
        since.is_some_and(|since| Duration::from_secs(since) >= every)
    }
}
