//! Runs one turn from its first event to its end.

use std::sync::Arc;

use serde_json::json;

use super::entry::Entry;
use super::{is_fatal, line_data, status_data};
use crate::model::{Permission, Session as Record, Status};
use crate::project::Line;
use crate::redact::Redactor;
use crate::ring::Kind;
use agentproto_runtime::StreamEvent;
use agentproto_runtime::session::{Session, Turn};
use agentproto_sandbox::spawn::Exit;

/// Publishes the events of a turn to all readers. Reads them as fast as they arrive, so that no
/// client slows down the agent.
pub async fn pump(entry: Arc<Entry>, session: Arc<Session>, mut turn: Turn) {
    let mut fatal = None;
    let mut redactor = Redactor::default();
    'turn: while let Some(event) = turn.next().await {
        for event in redactor.take(event) {
            if event.is_last() {
                if let StreamEvent::Error { code, message, .. } = &event
                    && is_fatal(code)
                {
                    fatal = Some(message.clone());
                }
                end(&entry, &event).await;
                break 'turn;
            }
            show(&entry, &session, event);
        }
    }
    drop(turn);
    if entry.doomed.borrow().is_some() || !session.is_closed() {
        return;
    }
    // The agent exited during its turn.
    let exit = session.ended().await.and_then(|closed| closed.exit);
    match fatal {
        Some(message) => {
            entry.become_(Status::Error, |record| {
                record.reason = Some(message);
                record.exit_code = exit_code(exit);
            });
        }
        None => left(&entry, exit),
    }
    entry.release();
}

fn project(entry: &Entry, event: &StreamEvent) -> Vec<Line> {
    let mut projector = entry.projector.lock();
    projector.event(event)
}

fn show(entry: &Entry, session: &Session, event: StreamEvent) {
    let data = serde_json::to_value(&event).unwrap_or_default();
    let lines = project(entry, &event);
    entry.channel.push(Kind::Event, &data);
    entry.lines(&lines);
    if let StreamEvent::AgentPrompt {
        id,
        message,
        options,
    } = event
        && session.is_asked(&id)
    {
        let asked = Permission {
            id,
            message,
            options,
        };
        let data = serde_json::to_value(&asked).unwrap_or_default();
        entry.update(|record| record.pending_permissions.push(asked));
        entry.channel.push(Kind::Permission, &data);
    }
}

/// Publishes the end of the turn. It is in the log before a reader sees it, so that no finished
/// turn is lost.
async fn end(entry: &Arc<Entry>, event: &StreamEvent) {
    let data = serde_json::to_value(event).unwrap_or_default();
    let mut items = vec![(Kind::Event, data)];
    let lines = project(entry, event);
    items.extend(lines.iter().map(|line| line_data(&line.text, line.stream)));
    let mut after = entry.snapshot();
    items.extend(
        after
            .pending_permissions
            .iter()
            .map(|asked| (Kind::Permission, json!({ "id": asked.id, "closed": true }))),
    );
    let over = |record: &mut Record| {
        record.busy = false;
        record.pending_permissions.clear();
        record.last_output_at = Some(entry.clock.now_for(record));
    };
    over(&mut after);
    items.push((Kind::Status, status_data(&after)));
    entry.keep(after);
    // A client that sees the end may prompt again at once. A record without a turn implies that its
    // end is visible.
    entry
        .channel
        .push_durable(&items, || entry.change(over))
        .await;
}

/// The agent exited between turns (A46-STATUS-03).
pub fn left(entry: &Entry, exit: Option<Exit>) {
    entry.become_(Status::Exited, |record| record.exit_code = exit_code(exit));
}

/// The exit code, or 128 plus the signal number like in a shell.
fn exit_code(exit: Option<Exit>) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    let status = exit?.status;
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
}
