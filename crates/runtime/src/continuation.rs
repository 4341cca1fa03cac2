//! How prior turns reach an agent: the four strategies of AIP-45 behind one call.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::agent::Agent;
use crate::choices::Strategy;
use crate::event::StreamEvent;
use crate::fault::{Code, Fault};
use crate::session::{Session, Turn, carries_over};

/// A session that goes on, or the one that no longer fits and why.
type Known = Result<Arc<Session>, (Arc<Session>, &'static str)>;

/// One message of a conversation, with what the caller knows of the ones before.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    pub message: String,
    /// By these two, and by the three others where the manifest says so, a pinned
    /// process is found again.
    pub conversation: String,
    pub operator: String,
    pub user: String,
    pub workspace: String,
    pub guild: String,
    /// For `transcript`: what was said, oldest first.
    pub history: Vec<Exchange>,
    /// For `native-resume`: the session to go on with.
    pub resume: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub by_user: bool,
    pub text: String,
}

/// A turn, and who owns its session.
pub struct Running {
    turn: Turn,
    session: Arc<Session>,
    /// Closed when the turn is over.
    fleeting: bool,
}

impl Running {
    /// The next event; after the last one the session is closed, unless it is pinned.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        let event = self.turn.next().await;
        if event.is_none() && self.fleeting {
            let _ = self.session.close().await;
        }
        event
    }

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
    /// One per key, held while its process is looked for and started.
    starting: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Pins {
    /// Sends a message by the strategy that was chosen for the agent.
    pub async fn send(&self, agent: &Agent, ask: Ask) -> Result<Running, Fault> {
        let fleeting = |session, message: String| -> Result<Running, Fault> {
            let session = Arc::new(session);
            Ok(Running {
                turn: Session::send(&session, message)?,
                session,
                fleeting: true,
            })
        };
        match agent.chosen.strategy {
            // A45-CONT-03.
            Strategy::None => fleeting(agent.start(None).await?, ask.message),
            // A45-CONT-07.
            Strategy::Transcript => {
                let message = with_history(&ask.history, &ask.message);
                fleeting(agent.start(None).await?, message)
            }
            // A45-CONT-08; the first turn of a conversation has nothing to go on with.
            Strategy::NativeResume => {
                fleeting(agent.start(ask.resume.as_deref()).await?, ask.message)
            }
            Strategy::PinnedSession if carries_over(&agent.context) => {
                self.pinned(agent, ask).await
            }
            // A45-SESS-04: what must not be remembered is not pinned.
            Strategy::PinnedSession => {
                agent.context.observer.warning(
                    "context_not_carried",
                    "`session.context_carryover` is false: each turn gets a session of its own, nothing is pinned",
                );
                fleeting(agent.start(None).await?, ask.message)
            }
        }
    }

    /// A45-CONT-04: the same process, unless it is gone or was started otherwise.
    async fn pinned(&self, agent: &Agent, ask: Ask) -> Result<Running, Fault> {
        let key = key(agent, &ask)?;
        let patch = agent.chosen.patch();
        let turnstile = self.turnstile(&key);
        let _alone = turnstile.lock().await;
        let session = match self.known(&key, &patch) {
            Some(Ok(session)) => session,
            other => {
                if let Some(Err((old, why))) = other {
                    let what = format!(
                        "{why}: the pinned process is closed, and with it what it remembered"
                    );
                    agent.context.observer.warning("pin_replaced", &what);
                    old.close().await?;
                }
                let session = Arc::new(agent.start(None).await?);
                let pin = Pin {
                    session: Arc::clone(&session),
                    patch,
                };
                self.pins.lock().insert(key, pin);
                session
            }
        };
        Ok(Running {
            turn: session.send(ask.message)?,
            session,
            fleeting: false,
        })
    }

    /// The session of a key, or the one that no longer fits, taken out, and why it does not.
    fn known(&self, key: &str, patch: &str) -> Option<Known> {
        let mut pins = self.pins.lock();
        pins.retain(|_, pin| !pin.session.is_closed());
        let why = match pins.get(key)? {
            pin if pin.patch != patch => "mode or options have changed",
            pin if pin.session.is_spent() => "the session has had its turns (`session.max_turns`)",
            pin => return Some(Ok(Arc::clone(&pin.session))),
        };
        pins.remove(key).map(|pin| Err((pin.session, why)))
    }

    /// Ends every pinned process.
    pub async fn close(&self) -> Result<(), Fault> {
        let all = std::mem::take(&mut *self.pins.lock());
        for pin in all.into_values() {
            pin.session.close().await?;
        }
        Ok(())
    }

    /// Pinned processes that are alive.
    pub fn len(&self) -> usize {
        let pins = self.pins.lock();
        pins.values().filter(|pin| !pin.session.is_closed()).count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lock of a key; those that nobody holds are forgotten.
    fn turnstile(&self, key: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut starting = self.starting.lock();
        starting.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(starting.entry(key.to_owned()).or_default())
    }
}

/// A45-CONT-13, A45-CONT-14.
fn key(agent: &Agent, ask: &Ask) -> Result<String, Fault> {
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
            "conversation" => &ask.conversation,
            "operator" => &ask.operator,
            "user" => &ask.user,
            "workspace" => &ask.workspace,
            "guild" => &ask.guild,
            other => {
                let what = format!(
                    "`key_scope` names `{other}`, which this runner does not know (AIP-45, Continuation)"
                );
                return Err(Fault::new(Code::ManifestInvalid, what));
            }
        };
        parts.push((name, value.clone()));
    }
    Ok(format!("{parts:?}"))
}

/// What was said, as text before the new message.
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
    fn history_stands_before_the_message() {
        let said = |by_user, text: &str| Exchange {
            by_user,
            text: text.to_owned(),
        };
        let text = with_history(&[said(true, "one"), said(false, "two")], "three");
        assert!(text.contains("User: one\nAgent: two\n") && text.ends_with("\nthree"));
        assert_eq!(with_history(&[], "three"), "three");
    }
}
