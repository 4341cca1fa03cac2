//! What an earlier life of the daemon left. A session that lived then is dead now: its agent
//! went with the daemon. It is told so, and its turn gets its end; there are no ghosts.

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

    /// Straight into the log: nobody follows it yet.
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

/// All sessions with the number of their next item, oldest first. The file has them in the order
/// in which they were started, which the clock may not tell; those that only the log knows stand
/// among them by their time.
fn in_order(saved: Vec<Session>, stored: Vec<Stored>) -> Vec<(Session, u64)> {
    let mut logged: HashMap<String, Stored> = HashMap::new();
    let mut order: Vec<String> = Vec::new();
    for one in stored {
        order.push(one.session.id.clone());
        logged.insert(one.session.id.clone(), one);
    }
    // What both know is told by the log; of a log that was lost, the file still knows it.
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
