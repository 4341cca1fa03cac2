//! OAuth for secrets of kind `oauth`: authorization code with PKCE (RFC 7636, RFC 8252), and
//! refreshing tokens.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::inventory::{OauthEndpoints, SecretEntry};
use super::store::StoredValue;
use super::{random, replace_slug};
use crate::auth::callback::{Callback, Query, origin};
use crate::context::Context;
use crate::error::{Code, Error};
use crate::setup::template::percent;

/// Time limit for the user to log in and consent, including a second factor.
pub const CONSENT_TIMEOUT: Duration = Duration::from_secs(600);
/// Seconds before its expiry at which a token is refreshed.
const MARGIN: u64 = 60;
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_RESPONSE: u64 = 1 << 20;

/// Why getting tokens failed. The text contains no secrets.
type Reason = String;

/// Sends the user to the provider, and returns the tokens.
pub async fn login(ctx: &Context, endpoints: &OauthEndpoints) -> Result<StoredValue, Reason> {
    check_url(&endpoints.authorize_url)?;
    check_url(&endpoints.token_url)?;
    let message = |error: Error| error.message;
    let state = random::token().map_err(message)?;
    let verifier = Zeroizing::new(random::token().map_err(message)?);
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let origins: Vec<String> = origin(&endpoints.authorize_url).into_iter().collect();
    let path = endpoints.redirect_path.as_deref();
    let callback = Callback::open(&ctx.callback, path, Some(state.clone()), &origins);
    let callback = callback.await.map_err(message)?;
    let redirect = callback.url();
    let scope = endpoints.scopes.join(" ");
    let mut pairs = vec![
        ("response_type", "code"),
        ("client_id", endpoints.client_id.as_str()),
        ("redirect_uri", redirect.as_str()),
        ("code_challenge", challenge.as_str()),
        ("code_challenge_method", "S256"),
        ("state", state.as_str()),
    ];
    if !scope.is_empty() {
        pairs.push(("scope", scope.as_str()));
    }
    let join = if endpoints.authorize_url.contains('?') {
        '&'
    } else {
        '?'
    };
    let url = format!("{}{join}{}", endpoints.authorize_url, form(&pairs));
    ctx.interact
        .show(&format!("Open this page to log in:\n{url}"));
    let query = callback.wait(CONSENT_TIMEOUT).await;
    let code = Zeroizing::new(code(&query.map_err(|error| error.to_string())?)?);
    ctx.masks.add(&code);
    exchange(
        ctx,
        endpoints,
        &[
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &redirect),
            ("code_verifier", &verifier),
        ],
        None,
    )
    .await
}

fn code(query: &Query) -> Result<String, Reason> {
    let get = |name: &str| {
        query
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.clone())
    };
    if let Some(error) = get("error") {
        let more = get("error_description").map(|d| format!(" ({d})"));
        return Err(format!(
            "the provider refused: {error}{}",
            more.unwrap_or_default()
        ));
    }
    get("code").ok_or_else(|| "the provider did not send a code".to_owned())
}

/// Valid tokens: the stored ones, or refreshed and stored again if they have expired.
pub async fn valid_tokens(
    ctx: &Context,
    entry: &SecretEntry,
    stored: StoredValue,
) -> Result<StoredValue, Error> {
    let value: Option<Value> = serde_json::from_str(&stored.value).ok();
    let expires_at = value.and_then(|v| v.get("expiresAt")?.as_u64());
    match expires_at {
        Some(expires_at) if seconds(expires_at) <= now() + MARGIN => {
            renew(ctx, entry, &stored).await
        }
        _ => Ok(stored),
    }
}

/// Requests new tokens with the stored refresh token.
pub async fn renew(
    ctx: &Context,
    entry: &SecretEntry,
    stored: &StoredValue,
) -> Result<StoredValue, Error> {
    let expired = |why: &str| {
        let what = format!(
            "the login for the secret `{}` has expired: {why}",
            entry.slug
        );
        let target = ctx.bundle.dir.display();
        Error::new(Code::AuthRequired, ctx.masks.mask(&what))
            .hint(format!(
                "run `agentproto auth login {target}` to log in again"
            ))
            .details(json!({ "slug": entry.slug }))
    };
    let value: Value = serde_json::from_str(&stored.value).unwrap_or_default();
    let Some(refresh) = value.get("refreshToken").and_then(Value::as_str) else {
        return Err(expired("no refresh token is stored"));
    };
    let Some(endpoints) = &entry.oauth else {
        return Err(expired("its SECRETS.md entry has no token endpoint"));
    };
    ctx.masks.add(refresh);
    let pairs = [("grant_type", "refresh_token"), ("refresh_token", refresh)];
    let renewed = exchange(ctx, endpoints, &pairs, Some(refresh)).await;
    let renewed = renewed.map_err(|why| expired(&why))?;
    replace_slug(ctx, &entry.slug, renewed.clone())?;
    Ok(renewed)
}

/// Converts milliseconds to seconds: some providers use milliseconds.
fn seconds(number: u64) -> u64 {
    if number > 100_000_000_000 {
        number / 1000
    } else {
        number
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// Calls the token endpoint once.
async fn exchange(
    ctx: &Context,
    endpoints: &OauthEndpoints,
    pairs: &[(&str, &str)],
    old_refresh: Option<&str>,
) -> Result<StoredValue, Reason> {
    check_url(&endpoints.token_url)?;
    let mut pairs = pairs.to_vec();
    pairs.push(("client_id", &endpoints.client_id));
    let secret = match &endpoints.client_secret_env {
        Some(name) => {
            let value = ctx.variable(name).and_then(|v| v.to_str());
            let value =
                value.ok_or_else(|| format!("the environment variable `{name}` is not set"))?;
            ctx.masks.add(value);
            Some(Zeroizing::new(value.to_owned()))
        }
        None => None,
    };
    if let Some(secret) = &secret {
        pairs.push(("client_secret", secret));
    }
    let body = Zeroizing::new(form(&pairs));
    let url = endpoints.token_url.clone();
    let response = tokio::task::spawn_blocking(move || post(&url, &body)).await;
    let (status, text) = response.map_err(|e| e.to_string())??;
    let text = Zeroizing::new(text);
    let value: Option<Value> = serde_json::from_str(&text).ok();
    let get = |key: &str| value.as_ref()?.get(key)?.as_str();
    for token in ["access_token", "refresh_token", "id_token"] {
        if let Some(token) = get(token) {
            ctx.masks.add(token);
        }
    }
    let Some(access) = get("access_token").filter(|_| status < 300) else {
        // Only the error code is reported: the rest may contain secrets that were sent.
        let error: String = get("error")
            .unwrap_or("no reason given")
            .chars()
            .take(80)
            .collect();
        return Err(format!(
            "the token endpoint responded with {status}: {error}"
        ));
    };
    let lifetime = value.as_ref().and_then(|v| v.get("expires_in")?.as_u64());
    let tokens = json!({
        "accessToken": access,
        "refreshToken": get("refresh_token").or(old_refresh),
        "expiresAt": lifetime.map(|lifetime| now().saturating_add(lifetime)),
    });
    Ok(StoredValue {
        value: tokens.to_string(),
        secret: true,
    })
}

fn post(url: &str, body: &str) -> Result<(u16, String), Reason> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(RESPONSE_TIMEOUT))
        .http_status_as_error(false)
        // No redirects: a token is only sent to the URL in the inventory.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .build()
        .into();
    let sent = agent
        .post(url)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("accept", "application/json")
        .send(body);
    let mut response = sent.map_err(|e| format!("cannot reach the token endpoint: {e}"))?;
    let status = response.status().as_u16();
    let text = response
        .body_mut()
        .with_config()
        .limit(MAX_RESPONSE)
        .read_to_string();
    Ok((
        status,
        text.map_err(|e| format!("cannot read the response of the token endpoint: {e}"))?,
    ))
}

/// Only https URLs, or http to this machine.
fn check_url(url: &str) -> Result<(), Reason> {
    let host = origin(url).unwrap_or_default();
    let local = ["http://127.0.0.1", "http://localhost", "http://[::1]"];
    let is_local = local.iter().any(|l| {
        let rest = host.strip_prefix(l);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    });
    match host.starts_with("https://") || is_local {
        true => Ok(()),
        false => Err(format!("`{url}` is not an https URL")),
    }
}

fn form(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs
        .iter()
        .map(|(k, v)| format!("{}={}", percent(k), percent(v)));
    pairs.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tls_or_this_machine() {
        for good in [
            "https://x.example/t",
            "http://127.0.0.1:9/t",
            "http://localhost/t",
        ] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for bad in [
            "http://x.example/",
            "http://127.0.0.1.evil.example/",
            "ftp://x",
            "x",
        ] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }
}
