//! Limits how many entries a flood of similar events adds to a log, without losing the count.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Number of events of one kind that are reported one by one.
pub const FIRST: u64 = 20;
/// Minimum time between two summaries of the further events of one kind.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// Reports the first events of each kind one by one. After them, it reports at most one summary
/// per interval, with the last event and the number of events that the summary stands for.
#[derive(Debug)]
pub struct FloodLimit<T> {
    first: u64,
    kinds: BTreeMap<&'static str, Kind<T>>,
}

#[derive(Debug)]
struct Kind<T> {
    seen: u64,
    /// Number of events since the last report, and the newest of them.
    held: u64,
    newest: Option<T>,
    reported: Instant,
}

impl<T> Default for FloodLimit<T> {
    fn default() -> Self {
        FloodLimit::new(FIRST)
    }
}

impl<T> FloodLimit<T> {
    /// Reports `first` events of each kind one by one.
    pub fn new(first: u64) -> Self {
        FloodLimit {
            first,
            kinds: BTreeMap::new(),
        }
    }

    /// Counts an event. Returns what to report now: an event, and how many events it stands for.
    pub fn admit(&mut self, kind: &'static str, event: T, now: Instant) -> Option<(T, u64)> {
        let kind = self.kinds.entry(kind).or_insert(Kind {
            seen: 0,
            held: 0,
            newest: None,
            reported: now,
        });
        kind.seen += 1;
        kind.held += 1;
        if kind.seen > self.first && now.duration_since(kind.reported) < INTERVAL {
            kind.newest = Some(event);
            return None;
        }
        kind.reported = now;
        kind.newest = None;
        Some((event, std::mem::take(&mut kind.held)))
    }

    /// Returns a summary of the events of each kind that were not reported yet. Further events are
    /// still summarized.
    pub fn flush(&mut self) -> Vec<(T, u64)> {
        let kinds = self.kinds.values_mut();
        kinds
            .filter_map(|kind| Some((kind.newest.take()?, std::mem::take(&mut kind.held))))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_exactly_and_reported_rarely() {
        let mut limit = FloodLimit::default();
        let start = Instant::now();
        let mut reports = Vec::new();
        // 10,000 events in 100 seconds.
        for n in 0..10_000_u64 {
            let now = start + Duration::from_millis(10 * n);
            reports.extend(limit.admit("refused", n, now));
        }
        assert_eq!(limit.admit("other", 0, start), Some((0, 1)));
        reports.extend(limit.flush());
        assert_eq!(reports.len(), 20 + 9 + 1);
        assert_eq!(reports.iter().map(|(_, count)| count).sum::<u64>(), 10_000);
        assert_eq!(reports.last().map(|(event, _)| *event), Some(9_999));
        assert!(reports[..20].iter().all(|(_, count)| *count == 1));
        assert_eq!(limit.flush(), []);
        // A flush does not start the flood again.
        let later = start + Duration::from_secs(100);
        assert_eq!(limit.admit("refused", 1, later), None);
        assert_eq!(limit.admit("refused", 2, later), None);
        assert_eq!(limit.flush(), [(2, 2)]);
    }

    #[test]
    fn a_slow_series_is_reported_one_by_one() {
        let mut limit = FloodLimit::default();
        let start = Instant::now();
        for n in 0..100_u32 {
            assert_eq!(limit.admit("x", n, start + INTERVAL * n), Some((n, 1)));
        }
        assert_eq!(limit.flush(), []);
    }
}
