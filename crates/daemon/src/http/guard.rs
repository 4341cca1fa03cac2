//! Access control for every route: checks the Host header, the Origin, the rate limit and the
//! token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Extensions;
use axum::http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::AppState;
use super::connections::Connection;
use super::tickets::Purpose;
use super::token::{CurrentToken, Validity};
use crate::error::ApiError;
use crate::model::Principal;

/// Where a request came from. The server adds it to the request's extensions.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Address of the client.
    pub address: SocketAddr,
    /// Whether the connection uses TLS.
    pub over_tls: bool,
}

/// Host names that this server accepts.
#[derive(Clone, Debug, Default)]
pub struct HostNames {
    /// Whether it also listens on the network. Then its IP addresses are accepted.
    pub beyond_loopback: bool,
    /// Further names, from `--allow-host`.
    pub allowed_hosts: Vec<String>,
}

impl HostNames {
    /// Whether a Host header is accepted. Prevents DNS rebinding: a page of another site can reach
    /// this server only under a name of that site, never under an IP address.
    fn has(&self, host: &str) -> bool {
        let name = without_port(host);
        if name.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let digits = name.trim_start_matches('[').trim_end_matches(']');
        match digits.parse::<IpAddr>() {
            Ok(address) => self.beyond_loopback || address.is_loopback(),
            Err(_) => self
                .allowed_hosts
                .iter()
                .any(|own| own.eq_ignore_ascii_case(name)),
        }
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Routes without a token: the dashboard page, which has no data, its login, and the health check.
fn is_open(path: &str) -> bool {
    matches!(path, "/" | "/healthz" | "/login")
}

pub async fn guard(
    State(state): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Response {
    match authorize(&state, &request) {
        Ok((principal, validity)) => {
            request.extensions_mut().insert(principal);
            if !is_open(request.uri().path()) {
                request.extensions_mut().insert(validity.clone());
            }
            validity.limit(next.run(request).await)
        }
        Err(error) => error.into_response(),
    }
}

fn authorize(state: &AppState, request: &Request) -> Result<(Principal, Validity), ApiError> {
    let connection = request.extensions().get::<Arc<Connection>>();
    if let Some(connection) = connection {
        connection.requested();
    }
    let peer = request.extensions().get::<Peer>().copied();
    let address = peer.map(|peer| peer.address.ip());
    let over_tls = peer.is_some_and(|peer| peer.over_tls);
    let host = host(request)?;
    if !state.names.has(host) {
        return Err(
            ApiError::new(403, "host_forbidden", "host name not allowed")
                .hint("use the IP address, or start the host with `--allow-host NAME`"),
        );
    }
    origin(request, host, over_tls)?;
    let token = state.token.current();
    let has_token = has_token(&token, request.headers());
    // Clients with the token have a separate limit, so that others cannot use it up.
    let limit = match has_token {
        true => state.limiter.authenticated(address),
        false => state.limiter.take(address),
    };
    limit.map_err(rate_limited)?;
    let is_trusted = has_token || has_ticket(state, request);
    if let (true, Some(connection)) = (is_trusted, connection) {
        connection.authenticated(token.validity());
    }
    if !is_trusted && !is_open(request.uri().path()) {
        // Wrong tokens have their own limit, so that guessing does not slow down clients with the
        // right token.
        state.limiter.failed(address).map_err(rate_limited)?;
        return Err(unauthorized("the bearer token is missing or wrong"));
    }
    let principal = match address {
        Some(address) if address.is_loopback() => Principal::Local,
        _ => Principal::Remote,
    };
    Ok((principal, token.validity()))
}

fn unauthorized(what: &str) -> ApiError {
    ApiError::new(401, "unauthorized", what)
        .hint("send `Authorization: Bearer TOKEN`; the token is in `runtime.json` in the daemon's state directory")
}

/// Refuses a request whose token was replaced after the guard had accepted it.
pub fn check_still_valid(extensions: &Extensions) -> Result<(), ApiError> {
    match extensions.get::<Validity>() {
        Some(validity) if !validity.is_current() => Err(unauthorized(
            "the bearer token was replaced before the request was complete",
        )),
        _ => Ok(()),
    }
}

pub fn rate_limited(wait: std::time::Duration) -> ApiError {
    let error = ApiError::new(429, "too_many_requests", "too many requests");
    let error = error.retry_after(wait);
    let seconds = error.retry_after.map_or(1, |wait| wait.as_secs());
    error.hint(format!("try again in {seconds} s"))
}

/// The value of the only Host header.
fn host(request: &Request) -> Result<&str, ApiError> {
    let invalid = || {
        ApiError::new(
            400,
            "host_missing",
            "exactly one matching `Host` header is required",
        )
        .hint("send one `Host` header")
    };
    let mut named = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (named.next(), named.next()) else {
        return Err(invalid());
    };
    let host = host.to_str().map_err(|_| invalid())?;
    // A target in absolute form must name the same host.
    match request.uri().authority() {
        Some(authority) if authority.as_str() != host => Err(invalid()),
        _ => Ok(host),
    }
}

/// Rejects requests that a browser sends for a page of another site.
fn origin(request: &Request, host: &str, over_tls: bool) -> Result<(), ApiError> {
    let forbidden = || {
        ApiError::new(
            403,
            "origin_forbidden",
            "requests from another origin are not allowed",
        )
        .hint("open the dashboard of this host, or use a client other than a browser")
    };
    let headers = request.headers();
    let mut origins = headers.get_all(ORIGIN).iter();
    if let Some(origin) = origins.next() {
        let scheme = if over_tls { "https://" } else { "http://" };
        let origin = origin.to_str().map_err(|_| forbidden())?;
        let same = origin
            .strip_prefix(scheme)
            .is_some_and(|from| from.eq_ignore_ascii_case(host));
        if !same || origins.next().is_some() {
            return Err(forbidden());
        }
    }
    // Browsers send this header even without `Origin`. Following a link to the dashboard is
    // allowed.
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    match site {
        Some(b"cross-site" | b"same-site") if request.uri().path() != "/" => Err(forbidden()),
        _ => Ok(()),
    }
}

fn has_token(current: &CurrentToken<'_>, headers: &HeaderMap) -> bool {
    let header = headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok());
    let header = header.and_then(|v| v.split_once(' '));
    let Some((scheme, token)) = header else {
        return false;
    };
    current.is(token.trim()) && scheme.eq_ignore_ascii_case("bearer")
}

/// Whether the request has a ticket for this stream. A ticket is valid once.
fn has_ticket(state: &AppState, request: &Request) -> bool {
    let path = request.uri().path();
    let id = path
        .strip_prefix("/sessions/")
        .and_then(|rest| rest.strip_suffix("/stream"));
    let query = request.uri().query().unwrap_or_default();
    let ticket = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("ticket="));
    match (id, ticket) {
        (Some(id), Some(ticket)) if request.method() == axum::http::Method::GET => state
            .tickets
            .redeem(ticket, &Purpose::Stream(id.to_owned())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_host() {
        let local = HostNames::default();
        let remote = HostNames {
            beyond_loopback: true,
            allowed_hosts: vec!["box.example".to_owned()],
        };
        for host in [
            "localhost",
            "LOCALHOST:8",
            "127.0.0.1:80",
            "[::1]:9",
            "127.9.9.9",
        ] {
            assert!(local.has(host) && remote.has(host), "{host}");
        }
        for host in ["10.0.0.5:80", "[fe80::1]:80", "box.example:443"] {
            assert!(!local.has(host) && remote.has(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "evil.example:127.0.0.1",
            "box.example.evil",
        ] {
            assert!(!local.has(host) && !remote.has(host), "{host}");
        }
    }
}
