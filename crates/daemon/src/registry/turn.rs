//! Runs one turn from its first event to its end.

use std::sync::Arc;

use serde_json::json;

use super::entry::SessionEntry;
use super::{is_fatal, line_data, status_data};
use crate::model::{PendingPermission, SessionRecord, SessionStatus};
use crate::project::OutputLine;
use crate::redact::EventRedactor;
use crate::ring::ItemKind;
use agentproto_runtime::StreamEvent;
use agentproto_runtime::session::{Session, Turn};
use agentproto_sandbox::spawn::Exit;

/// Publishes the events of a turn to all readers. Reads them as fast as they arrive, so that no
/// client slows down the agent.
pub async fn publish_turn(entry: Arc<SessionEntry>, session: Arc<Session>, mut turn: Turn) {
    let mut fatal = None;
    let mut redactor = EventRedactor::default();
    'turn: while let Some(event) = turn.next().await {
        for event in redactor.take(event) {
            if event.is_last() {
                if let StreamEvent::Error { code, message, .. } = &event
                    && is_fatal(code)
                {
                    fatal = Some(message.clone());
                }
                publish_end(&entry, &event).await;
                break 'turn;
            }
            publish(&entry, &session, event);
        }
    }
    drop(turn);
    if entry.kill_reason.borrow().is_some() || !session.is_closed() {
        return;
    }
    // The agent exited during its turn.
    let exit = session.ended().await.and_then(|closed| closed.exit);
    match fatal {
        Some(message) => {
            entry.set_status(SessionStatus::Error, |record| {
                record.reason = Some(message);
                record.exit_code = exit_code(exit);
            });
        }
        None => agent_exited(&entry, exit),
    }
    entry.release();
}

fn project(entry: &SessionEntry, event: &StreamEvent) -> Vec<OutputLine> {
    let mut projector = entry.projector.lock();
    projector.event(event)
}

fn publish(entry: &SessionEntry, session: &Session, event: StreamEvent) {
    let data = serde_json::to_value(&event).unwrap_or_default();
    let lines = project(entry, &event);
    entry.channel.push(ItemKind::Event, &data);
    entry.lines(&lines);
    if let StreamEvent::AgentPrompt {
        id,
        message,
        options,
        schema,
        tool,
        ..
    } = event
        && session.has_open_question(&id)
    {
        let question = PendingPermission {
            id,
            message,
            options,
            schema,
            tool,
        };
        let data = serde_json::to_value(&question).unwrap_or_default();
        entry.update(|record| record.pending_permissions.push(question));
        entry.channel.push(ItemKind::Permission, &data);
    }
}

/// Publishes the end of the turn. It is in the log before a reader sees it, so that no finished
/// turn is lost.
pub(super) async fn publish_end(entry: &Arc<SessionEntry>, event: &StreamEvent) {
    let data = serde_json::to_value(event).unwrap_or_default();
    let mut items = vec![(ItemKind::Event, data)];
    let lines = project(entry, event);
    items.extend(lines.iter().map(|line| line_data(&line.text, line.stream)));
    let mut after = entry.snapshot();
    items.extend(after.pending_permissions.iter().map(|question| {
        (
            ItemKind::Permission,
            json!({ "id": question.id, "closed": true }),
        )
    }));
    let over = |record: &mut SessionRecord| {
        record.busy = false;
        add_usage(record, event);
        record.pending_permissions.clear();
        record.last_output_at = Some(entry.clock.now_for(record));
    };
    over(&mut after);
    items.push((ItemKind::Status, status_data(&after)));
    entry.store(after);
    // A client that sees the end may prompt again at once. A record without a turn implies that its
    // end is visible.
    entry
        .channel
        .push_durable(&items, || entry.change(over))
        .await;
}

/// Adds what the agent reports at the end of a turn. It reports its cost for the whole session.
fn add_usage(record: &mut SessionRecord, end: &StreamEvent) {
    let StreamEvent::TurnEnd {
        usage,
        cost,
        context,
        ..
    } = end
    else {
        return;
    };
    if let Some(usage) = usage {
        record.usage.add(usage);
    }
    if cost.is_some() {
        record.cost.clone_from(cost);
    }
    if context.is_some() {
        record.context = *context;
    }
}

/// The agent exited between turns (A46-STATUS-03).
pub fn agent_exited(entry: &SessionEntry, exit: Option<Exit>) {
    entry.set_status(SessionStatus::Exited, |record| {
        record.exit_code = exit_code(exit)
    });
}

/// The exit code, or 128 plus the signal number like in a shell.
fn exit_code(exit: Option<Exit>) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    let status = exit?.status;
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
}
