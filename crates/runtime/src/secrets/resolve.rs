//! Resolves a variable to its value: from the caller's environment, then from the store.

use std::ffi::OsString;

use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::inventory::{self, Inventory, Requester, SecretEntry, SecretKind};
use super::store::{SecretStore, StoredValue, ValueKind};
use super::{oauth, scope};
use crate::context::Context;
use crate::error::{Code, Error};
use crate::setup::ledger::user_id;

/// A variable with its value. The value is already masked.
pub struct ResolvedSecret {
    pub name: String,
    pub value: OsString,
}

/// Resolves one variable, or returns `None` if it has no value.
pub async fn resolve(
    ctx: &Context,
    inventory: &Inventory,
    name: &str,
    to: &str,
) -> Result<Option<ResolvedSecret>, Error> {
    let bound = inventory.variable(name);
    let slug = match bound {
        Some((entry, _)) => entry.slug.clone(),
        None => inventory::conventional_slug(name),
    };
    if let Some(value) = ctx.variable(name).filter(|v| !v.is_empty()) {
        // A value that is not valid UTF-8 is masked in its printed form.
        ctx.masks.add(&value.to_string_lossy());
        audit_read(ctx, &slug, name, "environment", "caller", to)?;
        return Ok(Some(ResolvedSecret {
            name: name.to_owned(),
            value: value.to_owned(),
        }));
    }
    let granted_by = match bound {
        Some((entry, _)) => match entry.access(&requester(ctx)) {
            Ok(grant) => grant,
            Err(why) => {
                let event = json!({ "slug": slug, "name": name, "to": to, "reason": why });
                ctx.audit.record("secret.reveal.denied", event)?;
                return Err(Error::new(Code::SecretUnavailable, why)
                    .hint("name the bundle's id in the entry's `access.bind` (AIP-19 § Access)"));
            }
        },
        None => "owner".to_owned(),
    };
    let (stored_value, source) = match bound.and_then(|(entry, _)| entry.backend.as_deref()) {
        Some(backend) => from_backend(ctx, &slug, backend)?,
        None => (stored(ctx, &slug)?, "store".to_owned()),
    };
    let Some(stored_value) = stored_value else {
        return Ok(None);
    };
    ctx.masks.add(&stored_value.value);
    let value = match bound {
        Some((entry, field)) => extract_field(ctx, entry, field, stored_value).await?,
        None => Zeroizing::new(stored_value.value.clone()),
    };
    ctx.masks.add(&value);
    if value.contains('\0') {
        let what =
            format!("the secret `{slug}` contains a NUL byte and cannot be passed in a variable");
        return Err(Error::new(Code::SecretUnavailable, what));
    }
    audit_read(ctx, &slug, name, &source, &granted_by, to)?;
    Ok(Some(ResolvedSecret {
        name: name.to_owned(),
        value: value.as_str().into(),
    }))
}

/// Where `resolve` would find a value, without reading it for use.
pub fn source(ctx: &Context, inventory: &Inventory, name: &str) -> Result<Option<String>, Error> {
    if ctx.variable(name).is_some_and(|v| !v.is_empty()) {
        return Ok(Some("environment".to_owned()));
    }
    let bound = inventory.variable(name).map(|(entry, _)| entry);
    let slug = bound.map_or_else(|| inventory::conventional_slug(name), |e| e.slug.clone());
    let (stored_value, source) = match bound.and_then(|entry| entry.backend.as_deref()) {
        Some(backend) => from_backend(ctx, &slug, backend)?,
        None => (stored(ctx, &slug)?, "store".to_owned()),
    };
    Ok(stored_value.map(|_| source))
}

fn stored(ctx: &Context, slug: &str) -> Result<Option<StoredValue>, Error> {
    SecretStore::new(&ctx.home).find(&scope(ctx)?, ValueKind::Slug, slug)
}

/// Reads from `vault://env/NAME` or `vault://store/SLUG`. Other backends are not supported.
fn from_backend(
    ctx: &Context,
    slug: &str,
    backend: &str,
) -> Result<(Option<StoredValue>, String), Error> {
    let rest = backend.strip_prefix("vault://");
    match rest.and_then(|rest| rest.split_once('/')) {
        Some(("env", name)) => {
            let value = ctx.variable(name).filter(|v| !v.is_empty());
            let stored_value = value.map(|value| StoredValue {
                value: value.to_string_lossy().into_owned(),
                secret: true,
            });
            Ok((stored_value, "environment".to_owned()))
        }
        Some(("store", path)) => Ok((stored(ctx, path)?, "store".to_owned())),
        _ => Err(Error::new(
            Code::SecretUnavailable,
            format!("unsupported backend `{backend}` for the secret `{slug}`"),
        )
        .hint("remove `backend`, or use `vault://store/…` or `vault://env/NAME` (AIP-19)")),
    }
}

/// Extracts one field of a structured value.
async fn extract_field(
    ctx: &Context,
    entry: &SecretEntry,
    field: Option<&str>,
    stored_value: StoredValue,
) -> Result<Zeroizing<String>, Error> {
    let default = match entry.kind {
        SecretKind::Opaque => return Ok(Zeroizing::new(stored_value.value.clone())),
        // Only the access token, like in the examples of AIP-19.
        SecretKind::Oauth => Some("accessToken"),
        SecretKind::Keypair => Some("private"),
        SecretKind::Json => None,
    };
    let stored_value = match entry.kind {
        SecretKind::Oauth => oauth::valid_tokens(ctx, entry, stored_value).await?,
        _ => stored_value,
    };
    let Ok(mut value) = serde_json::from_str::<Value>(&stored_value.value) else {
        // Not JSON: the token itself, pasted by the user.
        return Ok(Zeroizing::new(stored_value.value.clone()));
    };
    mask_all(ctx, &value);
    let Some(field) = field.or(default) else {
        return Ok(Zeroizing::new(stored_value.value.clone()));
    };
    match value.get_mut(field).map(Value::take) {
        Some(Value::String(text)) => Ok(Zeroizing::new(text)),
        Some(Value::Number(number)) => Ok(Zeroizing::new(number.to_string())),
        _ => Err(Error::new(
            Code::SecretUnavailable,
            format!("the secret `{}` has no field `{field}`", entry.slug),
        )
        .hint("enter the secret again, or fix `exposures` in the SECRETS.md (AIP-19)")),
    }
}

fn mask_all(ctx: &Context, value: &Value) {
    match value {
        Value::String(text) => ctx.masks.add(text),
        Value::Array(items) => items.iter().for_each(|item| mask_all(ctx, item)),
        Value::Object(map) => map.values().for_each(|item| mask_all(ctx, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Who asks for a secret of this bundle.
pub(crate) fn requester(ctx: &Context) -> Requester<'_> {
    let root = ctx.bundle.root();
    let names = ["id", "bin", "name"].map(|key| root.str_at(&[key]));
    let mut users = vec![user_id()];
    let named = ["USER", "LOGNAME"].map(|key| ctx.variable(key));
    users.extend(
        named
            .into_iter()
            .flatten()
            .filter_map(|n| Some(n.to_str()?.to_owned())),
    );
    Requester {
        tools: names.into_iter().flatten().collect(),
        users,
    }
}

/// Audits a read before the value is used (AIP-19 § Audit).
fn audit_read(
    ctx: &Context,
    slug: &str,
    name: &str,
    source: &str,
    granted_by: &str,
    to: &str,
) -> Result<(), Error> {
    let event = json!({
        "slug": slug,
        "name": name,
        "source": source,
        "granted_by": granted_by,
        "to": to,
        "purpose": format!("env binding for {}", ctx.bundle.text("id")?),
    });
    ctx.audit.record("secret.reveal", event)
}
