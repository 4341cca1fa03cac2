//! Secrets (AIP-19): storage, access checks, and an audit entry for every read. A value never
//! appears in an argument, a log or an error.

pub mod inventory;
pub mod keyring;
pub(crate) mod oauth;
pub mod random;
pub(crate) mod resolve;
pub(crate) mod store;

use serde_json::json;

pub use self::store::{SecretScope, SecretStore, StoredValue, ValueKind};
use crate::context::Context;
use crate::error::Error;
use crate::setup::scope;

/// A variable that setup stored for this workspace. A secret value is masked from now on.
pub fn variable(ctx: &Context, name: &str, to: &str) -> Result<Option<StoredValue>, Error> {
    let stored = SecretStore::new(&ctx.home).get(&scope(ctx)?, ValueKind::Variable, name)?;
    if let Some(stored) = stored.as_ref().filter(|stored| stored.secret) {
        ctx.masks.add(&stored.value);
        let event = json!({ "name": name, "source": "store", "to": to });
        ctx.audit.record("secret.reveal", event)?;
    }
    Ok(stored)
}

/// Whether setup stored this variable for this workspace.
pub fn has_variable(ctx: &Context, name: &str) -> Result<bool, Error> {
    let stored = SecretStore::new(&ctx.home).get(&scope(ctx)?, ValueKind::Variable, name)?;
    Ok(stored.is_some())
}

/// Stores a variable for this workspace.
pub fn store_variable(ctx: &Context, name: &str, stored: StoredValue) -> Result<(), Error> {
    ctx.audit
        .record("secret.write", json!({ "name": name, "backend": "store" }))?;
    SecretStore::new(&ctx.home).put(&scope(ctx)?, ValueKind::Variable, name, stored)
}

/// The stored value of a slug. It is masked, and the read is audited.
pub fn slug(ctx: &Context, slug: &str, to: &str) -> Result<Option<StoredValue>, Error> {
    let stored = SecretStore::new(&ctx.home).find(&scope(ctx)?, ValueKind::Slug, slug)?;
    if let Some(stored) = &stored {
        ctx.masks.add(&stored.value);
        let event = json!({ "slug": slug, "source": "store", "to": to });
        ctx.audit.record("secret.reveal", event)?;
    }
    Ok(stored)
}

/// The slugs of these that are stored. Changes nothing, and reveals no value.
pub async fn stored_slugs<'s>(ctx: &Context, slugs: &'s [String]) -> Result<Vec<&'s str>, Error> {
    let store = SecretStore::new(&ctx.home);
    if !store.exists()? {
        return Ok(Vec::new());
    }
    keyring::unlock(ctx).await?;
    let scope = scope(ctx)?;
    let mut stored = Vec::new();
    for slug in slugs {
        if store.find(&scope, ValueKind::Slug, slug)?.is_some() {
            stored.push(slug.as_str());
        }
    }
    Ok(stored)
}

/// Removes a slug, for this workspace and for all. Returns whether it existed.
pub fn forget_slug(ctx: &Context, slug: &str) -> Result<bool, Error> {
    let existed = SecretStore::new(&ctx.home).remove(&scope(ctx)?, ValueKind::Slug, slug)?;
    if existed {
        ctx.audit.record("secret.forget", json!({ "slug": slug }))?;
    }
    Ok(existed)
}

/// Stores a slug for this workspace, or for every workspace of this user with this bundle.
pub fn store_slug(
    ctx: &Context,
    slug: &str,
    stored: StoredValue,
    everywhere: bool,
) -> Result<(), Error> {
    ctx.audit
        .record("secret.write", json!({ "slug": slug, "backend": "store" }))?;
    let store = SecretStore::new(&ctx.home);
    let scope = scope(ctx)?;
    if everywhere {
        // An older value of the workspace would take precedence.
        store.remove(&scope, ValueKind::Slug, slug)?;
        return store.put(&scope.everywhere(), ValueKind::Slug, slug, stored);
    }
    store.put(&scope, ValueKind::Slug, slug, stored)
}

/// Replaces a slug where it is stored now: for this workspace or for all.
pub fn replace_slug(ctx: &Context, slug: &str, stored: StoredValue) -> Result<(), Error> {
    let own = SecretStore::new(&ctx.home).get(&scope(ctx)?, ValueKind::Slug, slug)?;
    store_slug(ctx, slug, stored, own.is_none())
}
