//! Secrets (AIP-19): storage, access checks, and an audit entry for every read. A value never
//! appears in an argument, a log or an error.

pub mod inventory;
pub mod keyring;
pub mod oauth;
pub mod random;
pub mod resolve;
pub mod store;

use serde_json::json;

pub use self::store::{Kept, Kind, Scope, Store};
use crate::context::Context;
use crate::fault::Fault;
use crate::setup::scope;

/// A variable that setup stored for this workspace. A secret value is masked from now on.
pub fn variable(ctx: &Context, name: &str, to: &str) -> Result<Option<Kept>, Fault> {
    let kept = Store::new(&ctx.home).get(&scope(ctx)?, Kind::Variable, name)?;
    if let Some(kept) = kept.as_ref().filter(|kept| kept.secret) {
        ctx.masks.add(&kept.value);
        let event = json!({ "name": name, "source": "store", "to": to });
        ctx.audit.record("secret.reveal", event)?;
    }
    Ok(kept)
}

pub fn has_variable(ctx: &Context, name: &str) -> Result<bool, Fault> {
    let kept = Store::new(&ctx.home).get(&scope(ctx)?, Kind::Variable, name)?;
    Ok(kept.is_some())
}

pub fn keep_variable(ctx: &Context, name: &str, kept: Kept) -> Result<(), Fault> {
    ctx.audit
        .record("secret.write", json!({ "name": name, "backend": "store" }))?;
    Store::new(&ctx.home).put(&scope(ctx)?, Kind::Variable, name, kept)
}

/// The stored value of a slug. It is masked, and the read is audited.
pub fn slug(ctx: &Context, slug: &str, to: &str) -> Result<Option<Kept>, Fault> {
    let kept = Store::new(&ctx.home).find(&scope(ctx)?, Kind::Slug, slug)?;
    if let Some(kept) = &kept {
        ctx.masks.add(&kept.value);
        let event = json!({ "slug": slug, "source": "store", "to": to });
        ctx.audit.record("secret.reveal", event)?;
    }
    Ok(kept)
}

/// Removes a slug, for this workspace and for all. Returns whether it existed.
pub fn forget_slug(ctx: &Context, slug: &str) -> Result<bool, Fault> {
    let was_there = Store::new(&ctx.home).remove(&scope(ctx)?, Kind::Slug, slug)?;
    if was_there {
        ctx.audit.record("secret.forget", json!({ "slug": slug }))?;
    }
    Ok(was_there)
}

/// Stores a slug for this workspace, or for every workspace of this user with this bundle.
pub fn keep_slug(ctx: &Context, slug: &str, kept: Kept, everywhere: bool) -> Result<(), Fault> {
    ctx.audit
        .record("secret.write", json!({ "slug": slug, "backend": "store" }))?;
    let store = Store::new(&ctx.home);
    let scope = scope(ctx)?;
    if everywhere {
        // An older value of the workspace would take precedence.
        store.remove(&scope, Kind::Slug, slug)?;
        return store.put(&scope.everywhere(), Kind::Slug, slug, kept);
    }
    store.put(&scope, Kind::Slug, slug, kept)
}

/// Replaces a slug where it is stored now: for this workspace or for all.
pub fn replace_slug(ctx: &Context, slug: &str, kept: Kept) -> Result<(), Fault> {
    let own = Store::new(&ctx.home).get(&scope(ctx)?, Kind::Slug, slug)?;
    keep_slug(ctx, slug, kept, own.is_none())
}
