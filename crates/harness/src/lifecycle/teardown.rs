//! Checks the teardown: close, end of stdin, SIGTERM, five seconds, SIGKILL, and no process is
//! left.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::context::{ProbeContext, StageStart};
use super::process_info;
use crate::run::case::NoVerdict;
use agentproto_runtime::observe::Stage;
use agentproto_sandbox::spawn::Exit;

/// How long an agent may take to answer the close request of the protocol. After that, the runtime
/// continues.
const CLOSE_LIMIT: Duration = Duration::from_millis(1900);
/// Maximum duration of close, end of stdin, SIGTERM and five seconds, plus a margin for a busy
/// machine.
const TEARDOWN_LIMIT: Duration = Duration::from_secs(12);

pub async fn teardown(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let session = probe.session(probe.choices()).await?;
    if let Some(text) = probe.prompt("text") {
        // An agent usually starts the processes that it leaves behind in a turn.
        probe.turn(&session, &text).await?;
    }
    let start_time = Instant::now();
    let closed = tokio::time::timeout(TEARDOWN_LIMIT + probe.config.timeout, session.close()).await;
    let took = start_time.elapsed();
    probe.outcome.agent += took;
    let exit = match closed {
        Ok(Ok(closed)) => closed.exit,
        Ok(Err(error)) => return Err(probe.no_verdict_for(&error)),
        Err(_) => {
            let what = "the runtime did not finish the teardown of the agent".to_owned();
            probe.violation("A44-SEC-08", what.clone(), &[]);
            return Err(NoVerdict::NotVerified(what));
        }
    };
    let left = process_info::all(&probe.subject.marker);
    let line = probe.note(&json!({
        "closed_ms": took.as_millis() as u64,
        "exit_code": exit.and_then(|e| e.status.code()),
        "signal": exit.and_then(|e| e.status.signal()),
        "killed_with_it": exit.map(|e| e.usage.survivors),
        "still_there": left.as_ref().map(|l| l.iter().map(|s| s.pid).collect::<Vec<_>>()),
    }));
    let answering = closing(&probe.stages());
    let slow = answering.filter(|time| *time >= CLOSE_LIMIT);
    let against = slow.map(|time| {
        format!(
            "the agent did not answer the close of its session for {} ms",
            time.as_millis()
        )
    });
    probe.verdict("A45-LIFE-08", against, &[line]);
    let Some(left) = left else {
        let why = "this system does not list its processes".to_owned();
        return Err(NoVerdict::NotVerified(why));
    };
    let against = if !left.is_empty() {
        Some("processes of the agent are still running after the teardown".to_owned())
    } else if took > TEARDOWN_LIMIT {
        Some(format!("the teardown took {} ms", took.as_millis()))
    } else {
        None
    };
    probe.verdict("A44-SEC-08", against, &[line]);
    let Some(exit) = exit else {
        let why = "the agent has no process between turns".to_owned();
        for id in ["A45-LIFE-09", "A44-LIFEC-03"] {
            probe.undecided(id, NoVerdict::NotApplicable(why.clone()));
        }
        return Ok(());
    };
    probe.verdict("A45-LIFE-09", forced(&exit), &[line]);
    let survivors = exit.usage.survivors;
    let against = (survivors > 0).then(|| {
        format!("the agent left {survivors} of its processes running, which had to be killed")
    });
    probe.verdict("A44-LIFEC-03", against, &[line]);
    Ok(())
}

fn forced(exit: &Exit) -> Option<String> {
    let killed = exit.status.signal() == Some(9);
    killed.then(|| {
        "the agent had to be killed: it did not exit at the end of stdin or on SIGTERM".to_owned()
    })
}

/// The time from the close of the session to the teardown of the process.
fn closing(stages: &[StageStart]) -> Option<Duration> {
    let at = |stage: Stage| {
        stages
            .iter()
            .find(|started| started.stage == stage)
            .map(|t| t.at)
    };
    Some(at(Stage::Teardown)?.duration_since(at(Stage::Close)?))
}
