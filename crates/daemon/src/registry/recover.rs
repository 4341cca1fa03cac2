//! Recovers sessions of an earlier daemon run. A session that was alive then is dead now, because
//! its agent ended with the daemon. It is marked as `error`, and its turn gets an end.

use std::collections::HashMap;

use super::{Registry, line_data, status_data};
use crate::model::{SessionRecord, SessionStatus};
use crate::project;
use crate::ring::{Channel, ItemKind, LogItem};
use crate::store::{Gap, LoggedSession, Opened};

const HOST_ENDED: &str = "the host ended while the session was alive";

impl Registry {
    pub(super) fn recover(&self, saved: Vec<SessionRecord>, opened: &Opened) {
        let shared = &self.shared;
        let all = in_order(saved, shared.log.stored(), opened);
        for (session, mut next, is_incomplete) in all {
            if is_incomplete {
                let gap = Gap {
                    first: next,
                    epoch: shared.epoch,
                    missed: None,
                };
                shared.log.gap(&session.id, gap);
                next += 1;
            }
            let (session, next) = match session.status.is_alive() {
                true => self.mark_lost(session, next),
                false => (session, next),
            };
            let channel = Channel::new(&session.id, shared.epoch, next, true, shared.log.clone());
            self.insert(self.new_entry(session, channel));
        }
        self.trim();
    }

    /// Writes directly to the log, because nothing reads it yet.
    fn mark_lost(&self, mut session: SessionRecord, next: u64) -> (SessionRecord, u64) {
        let was_busy = session.busy;
        session.status = SessionStatus::Error;
        session.busy = false;
        session.pending_permissions.clear();
        session.reason = Some(HOST_ENDED.to_owned());
        session.ended_at = Some(self.shared.config.clock.now_for(&session));
        session.last_output_at = session.ended_at.clone();
        let mut lines = project::error(HOST_ENDED, None);
        if was_busy {
            lines.push(project::turn_end("error"));
        }
        let lines = lines.iter().map(|line| line_data(&line.text, line.stream));
        let items = lines.chain([(ItemKind::Status, status_data(&session))]);
        let mut seq = next;
        for (kind, data) in items {
            let item = LogItem::new(self.shared.epoch, seq, kind, &data.to_string());
            self.shared.log.append(&session.id, item);
            seq += 1;
        }
        self.shared.log.record(session.clone());
        (session, seq)
    }
}

/// All sessions with the number of their next item, and whether items are missing before it, oldest
/// first. The file has them in start order, which times may not reflect. Sessions that are only in
/// the log are inserted by their time.
fn in_order(
    saved: Vec<SessionRecord>,
    stored: Vec<LoggedSession>,
    opened: &Opened,
) -> Vec<(SessionRecord, u64, bool)> {
    let mut logged: HashMap<String, LoggedSession> = HashMap::new();
    let mut order: Vec<String> = Vec::new();
    for one in stored {
        order.push(one.session.id.clone());
        logged.insert(one.session.id.clone(), one);
    }
    let is_unstored = |id: &String| opened.unstored.contains(id);
    // If both know a session, the log is used. If the log was lost, the file still has it.
    let filed = saved
        .into_iter()
        .filter(|session| !opened.forgotten.contains(&session.id))
        .map(|session| match logged.remove(&session.id) {
            Some(stored) => {
                let is_newer = session.turns > stored.session.turns
                    || session.last_output_at > stored.session.last_output_at;
                let is_incomplete = opened.is_incomplete && is_newer;
                let is_incomplete = is_incomplete || is_unstored(&session.id);
                (stored.session, stored.next, is_incomplete)
            }
            None => (session, 0, true),
        });
    let filed: Vec<_> = filed.collect();
    let rest = order.iter().filter_map(|id| logged.remove(id));
    let with_gap = |stored: LoggedSession| {
        let is_incomplete = is_unstored(&stored.session.id);
        (stored.session, stored.next, is_incomplete)
    };
    let mut rest = rest.map(with_gap).peekable();
    let mut all = Vec::new();
    for (session, next, is_incomplete) in filed {
        while let Some(earlier) = rest.next_if(|(one, ..)| one.started_at < session.started_at) {
            all.push(earlier);
        }
        all.push((session, next, is_incomplete));
    }
    all.extend(rest);
    all
}
