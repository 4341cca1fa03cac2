//! Wall-clock time, used only in records. Waiting, expiry and rate limits use a monotonic clock, so
//! a jump of this clock has no effect on them.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::model::SessionRecord;
use agentproto_text::time;

/// A clock. Clones share the same source.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Default for Clock {
    fn default() -> Self {
        Clock::new(SystemTime::now)
    }
}

impl Clock {
    /// A clock with another source, so that tests can set it.
    pub fn new(source: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Clock(Arc::new(source))
    }

    /// Current time as RFC 3339 in UTC.
    pub fn now(&self) -> String {
        let since = (self.0)().duration_since(UNIX_EPOCH);
        time::rfc3339(since.unwrap_or_default())
    }

    /// The time this long ago, as RFC 3339 in UTC.
    pub fn before(&self, age: Duration) -> String {
        let since = (self.0)().duration_since(UNIX_EPOCH);
        time::rfc3339(since.unwrap_or_default().saturating_sub(age))
    }

    /// Current time, but not before the latest time in the session's record. Within one session,
    /// time does not run backwards, whatever the machine's clock does.
    pub fn now_for(&self, session: &SessionRecord) -> String {
        let last = session.last_output_at.as_ref();
        let latest = last.map_or(&session.started_at, |last| last.max(&session.started_at));
        self.now().max(latest.clone())
    }
}
