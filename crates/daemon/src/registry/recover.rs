//! Recovers sessions of an earlier daemon run. A session that was alive then is dead now, because
//! its agent ended with the daemon. It is marked as `error`, and its turn gets an end.

use std::collections::HashMap;

use super::{Registry, line_data, status_data};
use crate::model::{Session, Status};
use crate::project;
use crate::ring::{Channel, Item, Kind};
use crate::store::Stored;

const GONE: &str = "the host ended while the session was alive";

impl Registry {
    pub(super) fn recover(&self, saved: Vec<Session>) {
        let shared = &self.shared;
        let all = in_order(saved, shared.log.stored());
        for (session, next) in all {
            let (session, next) = match session.status.is_alive() {
                true => self.bury(session, next),
                false => (session, next),
            };
            let channel = Channel::new(&session.id, shared.epoch, next, true, shared.log.clone());
            self.insert(self.entry_of(session, channel));
        }
        self.trim();
    }

    /// Writes directly to the log, because nothing reads it yet.
    fn bury(&self, mut session: Session, next: u64) -> (Session, u64) {
        let was_busy = session.busy;
        session.status = Status::Error;
        session.busy = false;
        session.pending_permissions.clear();
        session.reason = Some(GONE.to_owned());
        session.ended_at = Some(self.shared.config.clock.now_for(&session));
        session.last_output_at = session.ended_at.clone();
        let mut lines = project::error(GONE, None);
        if was_busy {
            lines.push(project::turn_end("error"));
        }
        let lines = lines.iter().map(|line| line_data(&line.text, line.stream));
        let items = lines.chain([(Kind::Status, status_data(&session))]);
        let mut seq = next;
        for (kind, data) in items {
            let item = Item::new(self.shared.epoch, seq, kind, &data.to_string());
            self.shared.log.append(&session.id, item);
            seq += 1;
        }
        self.shared.log.record(session.clone());
        (session, seq)
    }
}

/// All sessions with the number of their next item, oldest first. The file has them in start order,
/// which times may not reflect. Sessions that are only in the log are inserted by their time.
fn in_order(saved: Vec<Session>, stored: Vec<Stored>) -> Vec<(Session, u64)> {
    let mut logged: HashMap<String, Stored> = HashMap::new();
    let mut order: Vec<String> = Vec::new();
    for one in stored {
        order.push(one.session.id.clone());
        logged.insert(one.session.id.clone(), one);
    }
    // If both know a session, the log is used. If the log was lost, the file still has it.
    let filed = saved
        .into_iter()
        .map(|session| match logged.remove(&session.id) {
            Some(stored) => (stored.session, stored.next),
            None => (session, 0),
        });
    let filed: Vec<(Session, u64)> = filed.collect();
    let rest = order.iter().filter_map(|id| logged.remove(id));
    let mut rest = rest.map(|stored| (stored.session, stored.next)).peekable();
    let mut all = Vec::new();
    for (session, next) in filed {
        while let Some(earlier) = rest.next_if(|(one, _)| one.started_at < session.started_at) {
            all.push(earlier);
        }
        all.push((session, next));
    }
    all.extend(rest);
    all
}
