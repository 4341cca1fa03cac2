//! The HTTP interface to the registry: routes, streams and the dashboard, all behind one guard.

mod body;
mod connections;
mod guard;
mod limiter;
mod markdown;
pub mod openapi;
mod page;
mod response;
mod routes;
mod rpc;
pub mod server;
mod sse;
mod tickets;
mod token;
mod types;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};

use crate::error::ApiError;
pub use crate::rate_limit::Rate;
use crate::registry::Registry;
use agentproto_runtime::Error;
use agentproto_runtime::secrets::random;
pub use guard::{HostNames, Peer};
pub use limiter::ClientRates;
use tickets::{LINK_LIFETIME, Purpose, Tickets};
use token::BearerToken;
pub(crate) use types::PermissionAnswer;

/// Shared state of the HTTP handlers.
pub struct AppState {
    /// The sessions of this host.
    pub registry: Registry,
    token: BearerToken,
    names: HostNames,
    tickets: Tickets,
    limiter: limiter::RateLimiter,
    timeouts: Timeouts,
}

/// Timeouts, which tests shorten.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Time limit for receiving a whole body.
    pub body: Duration,
    /// Interval between keep-alives of a stream.
    pub keep_alive: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            body: Duration::from_secs(30),
            keep_alive: sse::KEEP_ALIVE,
        }
    }
}

impl AppState {
    /// Creates the state with default rate limits and timeouts. `token` is the bearer token of
    /// clients. It is masked in the output of all sessions.
    pub fn new(registry: Registry, token: String, names: HostNames) -> Self {
        registry.mask(&token);
        AppState {
            registry,
            token: BearerToken::new(token),
            names,
            tickets: Tickets::default(),
            limiter: limiter::RateLimiter::new(ClientRates::default()),
            timeouts: Timeouts::default(),
        }
    }

    /// Sets the rate limits.
    pub fn with_rates(mut self, rates: ClientRates) -> Self {
        self.limiter = limiter::RateLimiter::new(rates);
        self
    }

    /// Sets the timeouts.
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Allows replacing the token. `save` stores the new one where clients find it.
    pub fn with_token_store(
        mut self,
        save: impl Fn(&str) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        self.token.save = Some(Box::new(save));
        self
    }

    /// Replaces the token. The old one, its tickets and its streams end at once.
    pub fn rotate_token(&self) -> Result<(), ApiError> {
        let new = random::token()?;
        self.registry.mask(&new);
        self.token.replace(new, || self.tickets.clear())
    }

    /// A code for the link of `serve --open` or `sessions --open`. It is valid for one login of the
    /// dashboard.
    pub fn link_code(&self) -> Result<String, ApiError> {
        self.tickets.issue(Purpose::Link, LINK_LIFETIME)
    }
}

/// All routes behind one guard. `mcp` serves `/mcp` with the same registry. The guard puts the
/// `Principal` into the extensions of each request.
pub fn router(state: Arc<AppState>, mcp: Router) -> Router {
    let mcp = mcp.layer(from_fn(rpc::convert_errors));
    let mcp = mcp.layer(from_fn_with_state(Arc::clone(&state), body::buffer));
    routes::all(Arc::clone(&state))
        .nest("/mcp", mcp)
        .layer(from_fn_with_state(state, guard::guard))
        .layer(from_fn(response::finish))
}
