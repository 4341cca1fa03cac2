//! What time it is, for people. It stands in records and nowhere else: whatever waits, expires or
//! is paced goes by a clock that nobody can set, so a jump of this one costs nothing.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::Session;
use agentproto_text::time;

/// Clones tell the same time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Default for Clock {
    fn default() -> Self {
        Clock::new(SystemTime::now)
    }
}

impl Clock {
    /// Another clock than the machine's, so that tests can set it.
    pub fn new(tell: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Clock(Arc::new(tell))
    }

    /// RFC 3339 in UTC.
    pub fn now(&self) -> String {
        let since = (self.0)().duration_since(UNIX_EPOCH);
        time::rfc3339(since.unwrap_or_default())
    }

    /// Now, or the last time that the session has told: within one session time does not run
    /// backwards, whatever the machine's clock does.
    pub fn now_for(&self, session: &Session) -> String {
        let last = session.last_output_at.as_ref();
        let told = last.map_or(&session.started_at, |last| last.max(&session.started_at));
        self.now().max(told.clone())
    }
}
