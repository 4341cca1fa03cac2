//! How earlier turns reach an agent: the four strategies of AIP-45 behind one call.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::agent::Agent;
use crate::choices::Strategy;
use crate::error::{Code, Error};
use crate::event::StreamEvent;
use crate::session::{Session, Turn, carries_over};

/// A session to continue, or one that can no longer be used, with the reason.
type PinLookup = Result<Arc<Session>, (Arc<Session>, &'static str)>;

/// One message of a conversation, with what the caller knows about earlier ones.
#[derive(Clone, Debug, Default)]
pub struct TurnRequest {
    /// The message to send.
    pub message: String,
    /// A pinned process is found by `conversation` and `operator`, or by the fields that the
    /// manifest's `key_scope` names.
    pub conversation: String,
    /// The operator that the conversation belongs to.
    pub operator: String,
    /// The user who sends the message.
    pub user: String,
    /// The workspace of the conversation.
    pub workspace: String,
    /// The guild of the conversation.
    pub guild: String,
    /// Earlier messages, oldest first. Used by `transcript`.
    pub history: Vec<Exchange>,
    /// The session to resume. Used by `native-resume`.
    pub resume: Option<String>,
}

/// One earlier message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Whether the user sent it. Otherwise the agent did.
    pub by_user: bool,
    /// The text of the message.
    pub text: String,
}

/// A turn and its session.
pub struct Running {
    turn: Turn,
    session: Arc<Session>,
    /// Whether the session is closed when the turn ends.
    one_shot: bool,
}

impl Running {
    /// The next event. After the last one the session is closed, unless it is pinned.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        let event = self.turn.next().await;
        if event.is_none() && self.one_shot {
            let _ = self.session.close().await;
        }
        event
    }

    /// The session of the turn.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

struct Pin {
    session: Arc<Session>,
    patch: String,
}

/// Processes that stay alive between turns.
#[derive(Default)]
pub struct Pins {
    pins: Mutex<HashMap<String, Pin>>,
    /// One lock per key, held while a process is looked up and started.
    starting: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Pins {
    /// Sends a message with the strategy that was chosen for the agent.
    pub async fn send(&self, agent: &Agent, request: TurnRequest) -> Result<Running, Error> {
        let one_shot = |session, message: String| -> Result<Running, Error> {
            let session = Arc::new(session);
            Ok(Running {
                turn: Session::send(&session, message)?,
                session,
                one_shot: true,
            })
        };
        match agent.choices.strategy {
            // A45-CONT-03.
            Strategy::None => one_shot(agent.start().await?, request.message),
            // A45-CONT-07.
            Strategy::Transcript => {
                let message = with_history(&request.history, &request.message);
                one_shot(agent.start().await?, message)
            }
            // A45-CONT-08. The first turn of a conversation has nothing to resume.
            Strategy::NativeResume => one_shot(
                agent.start_or_resume(request.resume.as_deref()).await?,
                request.message,
            ),
            Strategy::PinnedSession if carries_over(&agent.context) => {
                self.pinned(agent, request).await
            }
            // A45-SESS-04: a session whose turns must not share context is not pinned.
            Strategy::PinnedSession => {
                agent.context.observer.warning(
                    "context_not_carried",
                    "`session.context_carryover` is false: each turn gets its own session, and no process is pinned",
                );
                one_shot(agent.start().await?, request.message)
            }
        }
    }

    /// A45-CONT-04: uses the same process, unless it exited or was started with other choices.
    async fn pinned(&self, agent: &Agent, request: TurnRequest) -> Result<Running, Error> {
        let key = pin_key(agent, &request)?;
        let patch = agent.choices.patch();
        let start_lock = self.start_lock(&key);
        let _guard = start_lock.lock().await;
        let session = match self.lookup(&key, &patch) {
            Some(Ok(session)) => session,
            other => {
                if let Some(Err((old, why))) = other {
                    let what = format!("{why}: closing the pinned process; its context is lost");
                    agent.context.observer.warning("pin_replaced", &what);
                    old.close().await?;
                }
                let session = Arc::new(agent.start().await?);
                let pin = Pin {
                    session: Arc::clone(&session),
                    patch,
                };
                self.pins.lock().insert(key, pin);
                session
            }
        };
        Ok(Running {
            turn: session.send(request.message)?,
            session,
            one_shot: false,
        })
    }

    /// The pinned session of a key. A session that no longer fits is removed and returned with the
    /// reason.
    fn lookup(&self, key: &str, patch: &str) -> Option<PinLookup> {
        let mut pins = self.pins.lock();
        pins.retain(|_, pin| !pin.session.is_closed());
        let why = match pins.get(key)? {
            pin if pin.patch != patch => "mode or options have changed",
            pin if pin.session.has_used_all_turns() => {
                "the session has used all its turns (`session.max_turns`)"
            }
            pin => return Some(Ok(Arc::clone(&pin.session))),
        };
        pins.remove(key).map(|pin| Err((pin.session, why)))
    }

    /// Ends every pinned process.
    pub async fn close(&self) -> Result<(), Error> {
        let all = std::mem::take(&mut *self.pins.lock());
        for pin in all.into_values() {
            pin.session.close().await?;
        }
        Ok(())
    }

    /// Number of pinned processes that are alive.
    pub fn len(&self) -> usize {
        let pins = self.pins.lock();
        pins.values().filter(|pin| !pin.session.is_closed()).count()
    }

    /// Whether no pinned process is alive.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lock of a key. Locks that are not in use are removed.
    fn start_lock(&self, key: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut starting = self.starting.lock();
        starting.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(starting.entry(key.to_owned()).or_default())
    }
}

/// The key of a pinned process (A45-CONT-13, A45-CONT-14). Turns with the same key share it.
pub fn pin_key(agent: &Agent, request: &TurnRequest) -> Result<String, Error> {
    let bundle = &agent.context.bundle;
    let pinned = bundle
        .agent()
        .and_then(|a| a.continuation()?.pinned_session());
    let mut scope: Vec<&str> = pinned.map_or_else(Vec::new, |p| p.key_scope().collect());
    if scope.is_empty() {
        scope = vec!["conversation", "operator"];
    }
    let mut parts = vec![("bundle", bundle.path().display().to_string())];
    for name in scope {
        let value = match name {
            "conversation" => &request.conversation,
            "operator" => &request.operator,
            "user" => &request.user,
            "workspace" => &request.workspace,
            "guild" => &request.guild,
            other => {
                let what = format!("unknown name `{other}` in `key_scope` (AIP-45, Continuation)");
                return Err(Error::new(Code::ManifestInvalid, what));
            }
        };
        parts.push((name, value.clone()));
    }
    Ok(format!("{parts:?}"))
}

/// The new message with the earlier ones as text before it.
pub fn with_history(history: &[Exchange], message: &str) -> String {
    if history.is_empty() {
        return message.to_owned();
    }
    let mut text = String::from("This conversation has gone on for a while. So far:\n\n");
    for exchange in history {
        let who = if exchange.by_user { "User" } else { "Agent" };
        text.push_str(&format!("{who}: {}\n", exchange.text));
    }
    text.push_str("\nThe user now says:\n");
    text.push_str(message);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_precedes_the_message() {
        let exchange = |by_user, text: &str| Exchange {
            by_user,
            text: text.to_owned(),
        };
        let text = with_history(&[exchange(true, "one"), exchange(false, "two")], "three");
        assert!(text.contains("User: one\nAgent: two\n") && text.ends_with("\nthree"));
        assert_eq!(with_history(&[], "three"), "three");
    }
}
