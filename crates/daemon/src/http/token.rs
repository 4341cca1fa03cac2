//! The bearer token of clients. It can be replaced while the host runs.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures::StreamExt;
use parking_lot::{RwLock, RwLockReadGuard};
use subtle::ConstantTimeEq;
use tokio::sync::watch;

use crate::error::ApiError;
use agentproto_runtime::Error;

/// Stores a new token where clients find it.
pub type SaveToken = Box<dyn Fn(&str) -> Result<(), Error> + Send + Sync>;

pub struct BearerToken {
    current: RwLock<String>,
    replaced: watch::Sender<()>,
    pub save: Option<SaveToken>,
}

/// The token during one check. It is not replaced meanwhile.
pub struct CurrentToken<'a> {
    text: RwLockReadGuard<'a, String>,
    replaced: &'a watch::Sender<()>,
}

impl BearerToken {
    pub fn new(token: String) -> Self {
        BearerToken {
            current: RwLock::new(token),
            replaced: watch::Sender::new(()),
            save: None,
        }
    }

    pub fn current(&self) -> CurrentToken<'_> {
        CurrentToken {
            text: self.current.read(),
            replaced: &self.replaced,
        }
    }

    /// Stores and then uses a new token. `revoke` ends everything that was issued for the old one.
    pub fn replace(&self, new: String, revoke: impl FnOnce()) -> Result<(), ApiError> {
        let Some(save) = &self.save else {
            return Err(ApiError::new(
                501,
                "token_fixed",
                "this host cannot replace its token, because clients could not find the new one",
            )
            .hint("restart the host with another token"));
        };
        let mut current = self.current.write();
        save(&new)?;
        *current = new;
        revoke();
        self.replaced.send_replace(());
        Ok(())
    }
}

impl CurrentToken<'_> {
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Compares in constant time.
    pub fn is(&self, token: &str) -> bool {
        token.as_bytes().ct_eq(self.text.as_bytes()).into()
    }

    pub fn validity(&self) -> Validity {
        Validity(self.replaced.subscribe())
    }
}

/// Resolves when the token of a request is replaced.
#[derive(Clone)]
pub struct Validity(watch::Receiver<()>);

impl Validity {
    /// Whether the token was not replaced.
    pub fn is_current(&self) -> bool {
        !self.0.has_changed().unwrap_or(false)
    }

    /// Waits until the token is replaced.
    pub async fn ended(mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Ends a stream when the token that opened it is replaced. Other responses are short.
    pub fn limit(self, response: Response) -> Response {
        let kind = response.headers().get(CONTENT_TYPE);
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
            return response;
        }
        response.map(|body| {
            let frames = body.into_data_stream();
            Body::from_stream(frames.take_until(self.ended()))
        })
    }
}
