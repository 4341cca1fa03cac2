//! Unbounded commands that write rarely. They notice that their reader is gone only when they write
//! again, so their time starts there.

use std::sync::Arc;
use std::time::Duration;

use super::PipeProbe;
use super::pipes::{MAX_EXIT_DELAY, is_late};
use crate::capture::{Capture, ExitKind};
use crate::run::ReadMode;
use crate::session::RunOptions;

/// Whether the tool continued although its reader was gone.
pub(super) enum Outlived {
    No,
    /// The run that shows it.
    Yes(Arc<Capture>),
    /// Why it is not known.
    Unknown(String),
}

/// Judges a run whose reader closed stdout.
pub(super) async fn outlived(probe: &PipeProbe<'_>, run: &Arc<Capture>) -> Outlived {
    if !is_late(run) {
        return Outlived::No;
    }
    if !probe.command.unbounded {
        return Outlived::Yes(Arc::clone(run));
    }
    let Some(silence) = longest_silence(probe).await else {
        let watched = probe.session.options.limit.as_secs();
        return Outlived::Unknown(format!(
            "the command wrote nothing for most of {watched} s, so it could not notice the closed \
             pipe; --timeout makes the test longer"
        ));
    };
    let patience = silence + MAX_EXIT_DELAY;
    if run.end != ExitKind::TimedOut {
        return judge(run, patience);
    }
    // The run was stopped before its next write was certain.
    let how = RunOptions {
        output: run.output,
        reader: run.reader,
        limit: Some(probe.session.options.limit + patience + silence),
        ..probe.how.clone()
    };
    let again = probe.start_with_retries(&run.probe, how, is_late).await;
    match again.end {
        ExitKind::TimedOut => Outlived::Yes(again),
        _ => judge(&again, patience),
    }
}

fn judge(run: &Arc<Capture>, patience: Duration) -> Outlived {
    match run.exit_delay.is_some_and(|time| time > patience) {
        true => Outlived::Yes(Arc::clone(run)),
        false => Outlived::No,
    }
}

/// The longest time between two writes of the command while its output is read. `None` if it ends
/// with a longer silence, so that its next write is unknown.
async fn longest_silence(probe: &PipeProbe<'_>) -> Option<Duration> {
    let watched = probe.session.options.limit;
    let how = RunOptions {
        reader: ReadMode::Watch {
            time: watched,
            number: libc::SIGTERM,
        },
        limit: Some(2 * watched),
        ..probe.how.clone()
    };
    let run = probe.start("watched for its pauses", how).await;
    if !run.action_done {
        return None;
    }
    let arrivals = run.arrivals.iter().map(|(_, at)| *at);
    longest_pause(arrivals.filter(|at| *at < watched), watched)
}

/// The longest pause between two of these times, or before the first one. `None` if the pause from
/// the last one to the end is longer.
fn longest_pause(times: impl Iterator<Item = Duration>, end: Duration) -> Option<Duration> {
    let (mut longest, mut last) = (Duration::ZERO, Duration::ZERO);
    for at in times {
        longest = longest.max(at.saturating_sub(last));
        last = at;
    }
    (end.saturating_sub(last) <= longest + MAX_EXIT_DELAY / 2).then_some(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pause_is_known_only_if_another_write_followed() {
        let pause = |times: &[u64], end: u64| {
            let times = times.iter().map(|s| Duration::from_secs(*s));
            longest_pause(times, Duration::from_secs(end)).map(|pause| pause.as_secs())
        };
        assert_eq!(pause(&[0, 1, 2, 3, 4, 5], 6), Some(1));
        assert_eq!(pause(&[0, 4], 6), Some(4));
        assert_eq!(pause(&[0, 0, 9], 10), Some(9));
        assert_eq!(pause(&[0], 10), None);
        assert_eq!(pause(&[0, 1, 2], 10), None);
        assert_eq!(pause(&[], 10), None);
    }
}
