//! Conversations: sessions that later requests find again by their key (A45-CONT-04, A45-CONT-13).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use super::entry::SessionEntry;
use super::{KILL_GRACE, Registry};
use crate::error::ApiError;
use crate::model::{HistoryMessage, PermissionPolicy, Principal, SessionRecord, SpawnRequest};
use agentproto_runtime::agent::Agent;
use agentproto_runtime::choices::Strategy;
use agentproto_runtime::continuation::{Exchange, TurnRequest, pin_key, with_history};

/// Maximum length of the name of a conversation, in bytes.
const MAX_NAME: usize = 1024;

/// What identifies a pinned session, and what it was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinKey {
    key: String,
    patch: String,
    permissions: PermissionPolicy,
}

/// One lock per key, held while a session is looked up and started.
#[derive(Default)]
pub struct PinLocks(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl PinLocks {
    async fn lock(&self, key: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock();
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(key.to_owned()).or_default())
        };
        lock.lock_owned().await
    }
}

/// A live session to use, or the right to start the only one.
pub enum PinLookup {
    Found(Arc<SessionEntry>),
    Start(PinKey, OwnedMutexGuard<()>),
}

impl Registry {
    /// Finds the live session of a conversation. A session that was started with other choices, or
    /// that has used all its turns, is ended first.
    pub(super) async fn find_pinned(
        &self,
        agent: &Agent,
        request: &SpawnRequest,
        record: &SessionRecord,
    ) -> Result<Option<PinLookup>, ApiError> {
        let Some(conversation) = &request.conversation else {
            return Ok(None);
        };
        let turn = TurnRequest {
            conversation: conversation.clone(),
            operator: request.operator.clone().unwrap_or_default(),
            workspace: record.workspace_slug.clone(),
            ..TurnRequest::default()
        };
        // A process that works in another directory is another conversation.
        let key = format!("{} in {:?}", pin_key(agent, &turn)?, record.cwd);
        let patch = agent.choices.patch();
        let guard = self.shared.pin_locks.lock(&key).await;
        let pin = PinKey {
            key,
            patch,
            permissions: record.permissions,
        };
        let found = {
            let sessions = self.shared.sessions.read();
            let mut alive = sessions.order.iter().rev().filter(|entry| entry.is_alive());
            alive
                .find(|entry| entry.pin().is_some_and(|known| known.key == pin.key))
                .cloned()
        };
        if let Some(entry) = found {
            let why = match entry.pin() {
                Some(known) if known.patch != pin.patch => {
                    "its conversation continues with another mode, model or options"
                }
                Some(known) if known.permissions != pin.permissions => {
                    "its conversation continues with other permissions"
                }
                _ if entry.has_used_all_turns() => {
                    "its conversation continues in a new session: all turns are used"
                }
                _ => return Ok(Some(PinLookup::Found(entry))),
            };
            entry.kill(why, KILL_GRACE).await;
        }
        Ok(Some(PinLookup::Start(pin, guard)))
    }
}

/// Checks the fields of a request that belong to one strategy, and returns the strategy to ask the
/// manifest for.
pub fn requested_strategy(request: &SpawnRequest) -> Result<Option<String>, ApiError> {
    let refused = |what: &str, hint: &str| {
        Err(ApiError::new(400, "continuation_unsupported", what).hint(hint))
    };
    let names = [&request.conversation, &request.operator];
    if names
        .iter()
        .any(|name| name.as_ref().is_some_and(|name| name.len() > MAX_NAME))
    {
        let what = format!("`conversation` and `operator` have at most {MAX_NAME} bytes");
        return Err(ApiError::bad_request(what));
    }
    let own = match (
        &request.conversation,
        &request.resume,
        request.history.is_empty(),
    ) {
        (Some(_), None, true) => Some(Strategy::PinnedSession),
        (None, Some(_), true) => Some(Strategy::NativeResume),
        (None, None, false) => Some(Strategy::Transcript),
        (None, None, true) => None,
        _ => {
            return refused(
                "`conversation`, `resume` and `history` exclude each other",
                "each belongs to another strategy (AIP-45, Continuation)",
            );
        }
    };
    match (&request.continuation, own) {
        (None, Some(own)) => Ok(Some(own.as_str().to_owned())),
        (Some(given), Some(own)) if *given != own.as_str() => {
            let what = format!(
                "the continuation is `{given}`, but the request has a field of `{}`",
                own.as_str()
            );
            refused(&what, "remove the field, or change `continuation`")
        }
        (given, _) => Ok(given.clone()),
    }
}

/// Maximum number of turns of a session with this strategy. `None` and `transcript` start without
/// the process's context each time, so their sessions have one turn (A45-CONT-03, A45-CONT-07).
pub fn max_turns(continuation: Option<&str>) -> Option<u64> {
    let single = [Strategy::None, Strategy::Transcript];
    let is_single = single.iter().any(|one| continuation == Some(one.as_str()));
    is_single.then_some(1)
}

/// The first prompt, with the given history before it.
pub fn first_prompt(history: &[HistoryMessage], prompt: String) -> String {
    let exchanges: Vec<Exchange> = history
        .iter()
        .map(|message| Exchange {
            by_user: message.role == crate::model::HistoryRole::User,
            text: message.text.clone(),
        })
        .collect();
    with_history(&exchanges, &prompt)
}

/// Only this user's own clients share processes.
pub fn check_principal(request: &SpawnRequest, principal: Principal) -> Result<(), ApiError> {
    match (&request.conversation, principal) {
        (Some(_), Principal::Remote) => Err(ApiError::new(
            403,
            "conversation_refused",
            "only local clients may continue a conversation by its name",
        )
        .hint("prompt the session by its id")),
        _ => Ok(()),
    }
}
