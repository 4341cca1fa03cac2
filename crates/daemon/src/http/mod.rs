//! The HTTP interface to the registry: routes, streams and the dashboard, all behind one guard.

mod answer;
mod body;
mod guard;
pub mod openapi;
mod pace;
mod page;
mod routes;
mod rpc;
pub mod server;
mod sse;
mod tickets;
pub mod tls;
mod types;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};

use crate::error::ApiError;
pub use crate::pace::Rate;
use crate::registry::Registry;
pub use guard::{Names, Peer};
pub use pace::Rates;
use tickets::{LINK_LIFE, Purpose, Tickets};

/// Shared state of the HTTP handlers.
pub struct Door {
    pub registry: Registry,
    token: String,
    names: Names,
    tickets: Tickets,
    pace: pace::Pace,
    times: Times,
}

/// Timeouts, which tests shorten.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Time limit for receiving a whole body.
    pub body: Duration,
    /// Interval between keep-alives of a stream.
    pub keep_alive: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Times {
            body: Duration::from_secs(30),
            keep_alive: sse::KEEP_ALIVE,
        }
    }
}

impl Door {
    pub fn new(registry: Registry, token: String, names: Names) -> Self {
        Door {
            registry,
            token,
            names,
            tickets: Tickets::default(),
            pace: pace::Pace::new(Rates::default()),
            times: Times::default(),
        }
    }

    pub fn with_rates(mut self, rates: Rates) -> Self {
        self.pace = pace::Pace::new(rates);
        self
    }

    pub fn with_times(mut self, times: Times) -> Self {
        self.times = times;
        self
    }

    /// A code for the link of `serve --open`. It is valid for one login of the dashboard.
    pub fn link_code(&self) -> Result<String, ApiError> {
        self.tickets.issue(Purpose::Link, LINK_LIFE)
    }
}

/// All routes behind one guard. `mcp` serves `/mcp` with the same registry. The guard puts the
/// `Principal` into the extensions of each request.
pub fn router(door: Arc<Door>, mcp: Router) -> Router {
    let mcp = mcp.layer(from_fn(rpc::typed));
    let mcp = mcp.layer(from_fn_with_state(Arc::clone(&door), body::whole));
    routes::all(Arc::clone(&door))
        .nest("/mcp", mcp)
        .layer(from_fn_with_state(door, guard::guard))
        .layer(from_fn(answer::finish))
}
