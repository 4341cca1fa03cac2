//! What an earlier life of the daemon left. A session that lived then is dead now: its agent
//! went with the daemon. It is told so, and its turn gets its end; there are no ghosts.

use std::collections::HashMap;

use super::entry::Entry;
use super::{Registry, line_data, status_data};
use crate::daemon::model::{Session, Status};
use crate::daemon::project;
use crate::daemon::ring::{Channel, Item, Kind};
use crate::runtime::audit;

const GONE: &str = "the host ended while the session was alive";

impl Registry {
    pub(super) fn recover(&self, saved: Vec<Session>) {
        let shared = &self.shared;
        let stored = shared.log.stored();
        let known: HashMap<&str, ()> = stored.iter().map(|s| (s.session.id.as_str(), ())).collect();
        // Of a log that was lost, the file still knows the sessions.
        let lost = saved
            .into_iter()
            .filter(|s| !known.contains_key(s.id.as_str()));
        let lost: Vec<(Session, u64)> = lost.map(|session| (session, 0)).collect();
        let stored = stored.into_iter().map(|s| (s.session, s.next));
        let mut all: Vec<(Session, u64)> = stored.chain(lost).collect();
        all.sort_by(|(a, _), (b, _)| a.started_at.cmp(&b.started_at));
        for (session, next) in all {
            let (session, next) = match session.status.is_alive() {
                true => self.bury(session, next),
                false => (session, next),
            };
            let channel = Channel::new(&session.id, shared.epoch, next, true, shared.log.clone());
            self.insert(Entry::new(
                session,
                channel,
                shared.log.clone(),
                shared.file.clone(),
            ));
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
        session.ended_at = Some(audit::now());
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
        self.shared.log.record(&session);
        (session, seq)
    }
}
