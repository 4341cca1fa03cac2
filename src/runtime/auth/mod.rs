//! Login as a state (AIP-29 § Login state machine): unknown, unauthed, authed. Secrets reach
//! a child by its environment alone (A45-AUTH-03).

use std::ffi::OsString;
use std::path::Path;

use serde_json::json;

use super::context::Context;
use super::fault::{Code, Fault};
use super::observe::Stage;

/// Resolves what the bundle needs to be logged in; the variables for its child.
pub async fn ensure(ctx: &Context, bin: &Path) -> Result<Vec<(OsString, OsString)>, Fault> {
    let _ = bin;
    let Some(auth) = ctx.bundle.common().auth() else {
        return Ok(Vec::new());
    };
    ctx.observer.stage(Stage::Auth, &ctx.bundle.identity()?);
    let names: Vec<&str> = auth
        .state()
        .map(|state| state.env().collect())
        .unwrap_or_default();
    let mut out = Vec::new();
    for name in &names {
        if let Some(value) = ctx.variable(name) {
            if let Some(text) = value.to_str() {
                ctx.masks.add(text);
            }
            let event = json!({ "name": name, "source": "environment", "to": "agent" });
            ctx.audit.record("secret.reveal", event)?;
            out.push((name.into(), value.to_owned()));
        }
    }
    if out.is_empty() && !names.is_empty() {
        let what = format!("not logged in: {} is not set", names.join(" or "));
        return Err(Fault::new(Code::AuthRequired, what)
            .details(json!({ "env": names, "login": auth.login().and_then(|l| l.cmd()) })));
    }
    Ok(out)
}
