//! Decides questions of the agent: permissions and elicitations (A45-SEC-03).

use std::collections::HashMap;
use std::str::Chars;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::oneshot;

use super::EventSink;
use crate::error::{Code, Error};
use crate::event::{Choice, StreamEvent};
use crate::forms;

/// Who decides questions of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Permissions {
    /// The caller, through `PermissionBroker::answer`.
    Ask,
    /// Every request is allowed.
    Allow,
    /// Every request is denied.
    #[default]
    Deny,
    /// The first matching rule decides. Without a match the answer is deny.
    Rules(Vec<PermissionRule>),
}

/// The pattern of a last rule for all tools that no other rule names.
pub const ALL_OTHER_TOOLS: &str = "**";

/// A rule for the requests of some tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionRule {
    /// A pattern for the tool's name (ACP title). `*` matches any text, `?` one character.
    pub tool: String,
    /// The tool's kind, if the rule applies only to one.
    pub kind: Option<String>,
    /// What the rule decides.
    pub decision: Decision,
}

/// What a rule decides about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Decision {
    /// The caller decides.
    Ask,
    /// The request is allowed.
    Allow,
    /// The request is denied.
    Deny,
}

impl Decision {
    /// All decisions.
    pub const ALL: &[Decision] = <Decision as strum::VariantArray>::VARIANTS;
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// One of the choices, by its id.
    Choice(String),
    /// Content of a form.
    Content(Value),
    /// Rejected.
    Declined,
    /// The turn was canceled, or the question stays unanswered.
    Cancelled,
}

/// A question from an arm.
#[derive(Clone, Debug)]
pub struct AgentQuestion {
    /// Identifies the question within the session.
    pub id: String,
    /// The question as text.
    pub message: String,
    /// The answers to choose from.
    pub choices: Vec<Choice>,
    /// JSON Schema of an answer with content, if the question accepts one.
    pub schema: Option<Value>,
    /// Whether the agent asks for permission. If no option allows it, the turn fails (OD-28).
    pub is_permission: bool,
    /// The tool's name, for rules.
    pub tool: String,
    /// The tool's kind, for rules.
    pub kind: Option<String>,
    /// What the tool call would do, for the user.
    pub details: Option<Value>,
}

/// Answers questions by permissions, or passes them to the caller.
#[derive(Clone)]
pub struct PermissionBroker {
    permissions: Arc<Permissions>,
    pending: Arc<Mutex<HashMap<String, Pending>>>,
}

/// An open question: what an answer must match, and where it goes.
struct Pending {
    choices: Vec<Choice>,
    schema: Option<Value>,
    sender: oneshot::Sender<Answer>,
}

impl PermissionBroker {
    /// Creates a broker without open questions.
    pub fn new(permissions: Permissions) -> Self {
        PermissionBroker {
            permissions: Arc::new(permissions),
            pending: Arc::default(),
        }
    }

    /// Sends the question as `agent-prompt` and waits for the decision. Canceling the turn also
    /// answers it.
    pub async fn ask(&self, question: AgentQuestion, events: &EventSink) -> Result<Answer, Error> {
        self.show(question, events).await?.answer().await
    }

    /// The first half of `ask`, for callers that must keep reading while the question is open.
    pub async fn show(
        &self,
        question: AgentQuestion,
        events: &EventSink,
    ) -> Result<PendingQuestion, Error> {
        let decision = self.decide(&question);
        let waiting = (decision == Decision::Ask).then(|| self.wait_for(&question));
        events
            .emit(StreamEvent::AgentPrompt {
                id: question.id.clone(),
                message: question.message.clone(),
                options: question.choices.clone(),
                schema: question.schema.clone(),
                tool: question.details.clone(),
                decision: match decision {
                    Decision::Ask => None,
                    decided => Some(<&str>::from(decided).to_owned()),
                },
            })
            .await?;
        Ok(PendingQuestion {
            question,
            decision,
            waiting,
            events: events.clone(),
        })
    }

    /// Passes on the caller's answer. A question stays open if the answer does not fit it.
    pub fn answer(&self, id: &str, answer: Answer) -> Result<(), Error> {
        let mut pending = self.pending.lock();
        let Some(question) = pending.get(id) else {
            return Err(unknown_question(id));
        };
        question.check(&answer)?;
        let sender = pending.remove(id).map(|question| question.sender);
        drop(pending);
        match sender.is_some_and(|sender| sender.send(answer).is_ok()) {
            true => Ok(()),
            false => Err(unknown_question(id)),
        }
    }

    /// Whether a question is waiting for the caller.
    pub fn is_open(&self, id: &str) -> bool {
        self.pending.lock().contains_key(id)
    }

    /// Number of questions that wait for the caller.
    pub fn open_count(&self) -> usize {
        self.pending.lock().len()
    }

    /// Answers all open questions with `Cancelled`.
    pub fn cancel_all(&self) {
        let all = std::mem::take(&mut *self.pending.lock());
        for question in all.into_values() {
            let _ = question.sender.send(Answer::Cancelled);
        }
    }

    /// Whether this tool is allowed without a question to the user.
    pub(super) fn allows(&self, tool: &str, kind: Option<&str>) -> bool {
        let rule = self.rule(tool, kind);
        *self.permissions == Permissions::Allow
            || rule.is_some_and(|rule| rule.decision == Decision::Allow)
    }

    /// Whether a rule denies this tool by its name or kind.
    pub(super) fn denies(&self, tool: &str, kind: Option<&str>) -> bool {
        // The rule for all other tools is a default, not a decision about this tool.
        self.rule(tool, kind)
            .is_some_and(|rule| rule.decision == Decision::Deny && rule.tool != ALL_OTHER_TOOLS)
    }

    /// The rule that decides about this tool.
    fn rule(&self, tool: &str, kind: Option<&str>) -> Option<&PermissionRule> {
        let Permissions::Rules(rules) = &*self.permissions else {
            return None;
        };
        rules.iter().find(|rule| {
            wildcard(&rule.tool, tool) && (rule.kind.is_none() || rule.kind.as_deref() == kind)
        })
    }

    fn decide(&self, question: &AgentQuestion) -> Decision {
        match &*self.permissions {
            Permissions::Ask => Decision::Ask,
            Permissions::Allow => Decision::Allow,
            Permissions::Deny => Decision::Deny,
            Permissions::Rules(_) => self
                .rule(&question.tool, question.kind.as_deref())
                .map_or(Decision::Deny, |rule| rule.decision),
        }
    }

    fn wait_for(&self, question: &AgentQuestion) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        let pending = Pending {
            choices: question.choices.clone(),
            schema: question.schema.clone(),
            sender,
        };
        self.pending.lock().insert(question.id.clone(), pending);
        receiver
    }
}

fn unknown_question(id: &str) -> Error {
    let id: String = id.chars().take(64).collect();
    Error::new(Code::QuestionUnknown, format!("no open question `{id}`"))
        .hint("a question is open until it is answered or its turn ends")
}

impl Pending {
    /// Checks that an answer is one of the choices, or has the requested content.
    fn check(&self, answer: &Answer) -> Result<(), Error> {
        let offered = || {
            let ids: Vec<&str> = self.choices.iter().map(|c| c.id.as_str()).collect();
            match (ids.is_empty(), self.schema.is_some()) {
                (false, _) => format!("the options are {}", ids.join(", ")),
                (true, true) => "the question asks for content".to_owned(),
                (true, false) => "the question can only be canceled".to_owned(),
            }
        };
        match (answer, &self.schema) {
            (Answer::Choice(id), _) if !self.choices.iter().any(|c| c.id == *id) => {
                let id: String = id.chars().take(64).collect();
                let what = format!("unknown option `{id}`");
                Err(Error::new(Code::AnswerInvalid, what).hint(offered()))
            }
            (Answer::Content(_), None) => {
                let what = "the question does not accept content";
                Err(Error::new(Code::AnswerInvalid, what).hint(offered()))
            }
            (Answer::Content(content), Some(schema)) => forms::check(schema, content),
            _ => Ok(()),
        }
    }
}

/// A question that was sent. Dropping it does not answer it.
pub struct PendingQuestion {
    question: AgentQuestion,
    decision: Decision,
    waiting: Option<oneshot::Receiver<Answer>>,
    events: EventSink,
}

impl PendingQuestion {
    /// Waits for the decision and writes it to the audit log.
    pub async fn answer(self) -> Result<Answer, Error> {
        let AgentQuestion { id, choices, .. } = &self.question;
        let by_user = self.decision == Decision::Ask;
        let answer = match (self.decision, self.waiting) {
            (Decision::Allow, _) => pick(choices, &["allow_once", "allow_always"]),
            (Decision::Deny, _) => pick(choices, &["reject_once", "reject_always"]),
            (Decision::Ask, Some(waiting)) => waiting.await.unwrap_or(Answer::Cancelled),
            (Decision::Ask, None) => Answer::Cancelled,
        };
        let choice = match &answer {
            Answer::Choice(choice) => choice,
            Answer::Content(_) => "content",
            Answer::Declined => "declined",
            Answer::Cancelled => "cancelled",
        };
        let chosen = choices.iter().find(|known| known.id == choice);
        let kind = chosen.and_then(|chosen| chosen.kind.as_deref());
        let allowed = match &answer {
            Answer::Choice(_) => !kind.is_some_and(|kind| kind.starts_with("reject")),
            Answer::Content(_) => true,
            Answer::Declined | Answer::Cancelled => false,
        };
        self.events.answered(id, choice, by_user, allowed)?;
        let is_allowed = self.decision == Decision::Allow;
        if is_allowed && self.question.is_permission && answer == Answer::Declined {
            let offered: Vec<&str> = choices.iter().map(|c| c.label.as_str()).collect();
            let offered = match offered.is_empty() {
                true => "it offers no options".to_owned(),
                false => format!("it offers only {}", offered.join(", ")),
            };
            let what = format!(
                "the agent asks for permission, but no option allows it: {offered} ({})",
                self.question.message
            );
            return Err(Error::new(Code::NoAcceptableOption, what).hint(
                "answer yourself with `--permissions ask`, or report it to the agent's author",
            ));
        }
        Ok(answer)
    }
}

/// The first choice of one of these kinds, or `Declined` if the agent offers none.
fn pick(choices: &[Choice], kinds: &[&str]) -> Answer {
    let of = |kind: &&str| choices.iter().find(|c| c.kind.as_deref() == Some(kind));
    match kinds.iter().find_map(of) {
        Some(choice) => Answer::Choice(choice.id.clone()),
        None => Answer::Declined,
    }
}

/// Matches a pattern with `*` and `?`. `*` also matches slashes, because a title is not a path.
/// Only the last `*` is retried, so the time is at most the product of the lengths.
fn wildcard(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    let mut star: Option<(Chars, Chars)> = None;
    loop {
        let (mut next_pattern, mut rest) = (pattern.clone(), text.clone());
        match (next_pattern.next(), rest.next()) {
            (Some('*'), _) => {
                star = Some((next_pattern.clone(), text.clone()));
                pattern = next_pattern;
                continue;
            }
            (None, None) => return true,
            (Some(_), None) => return false,
            (Some(expected), Some(found)) if expected == '?' || expected == found => {
                (pattern, text) = (next_pattern, rest);
                continue;
            }
            _ => {}
        }
        let Some((after, from)) = &mut star else {
            return false;
        };
        from.next();
        (pattern, text) = (after.clone(), from.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "Edit src/main.rs"),
            ("Edit*", "Edit src/main.rs"),
            ("Edit*.rs", "Edit src/a.rs/main.rs"),
            ("*main*", "Edit src/main.rs"),
            ("Edit ?", "Edit \u{e9}"),
            ("a*b*c", "a/b/b/c"),
            ("[x]", "[x]"),
            ("", ""),
        ] {
            assert!(wildcard(pattern, text), "{pattern} fits {text}");
        }
        for (pattern, text) in [
            ("Edit*", "Read src/main.rs"),
            ("Edit", "Edit src/main.rs"),
            ("*.rs", "Edit main.rs.bak"),
            ("Edit ?", "Edit "),
            ("a*b*c", "a/c/b"),
            ("", "x"),
            ("[x]", "x"),
        ] {
            assert!(!wildcard(pattern, text), "{pattern} does not fit {text}");
        }
        let stars = "*a".repeat(50);
        assert!(!wildcard(&format!("{stars}b"), &"a".repeat(20_000)));
    }

    #[test]
    fn a_rule_matches_the_whole_title() {
        let rule = |tool: &str, decision| PermissionRule {
            tool: tool.into(),
            kind: None,
            decision,
        };
        let broker = PermissionBroker::new(Permissions::Rules(vec![
            rule("Edit*", Decision::Deny),
            rule("*", Decision::Allow),
        ]));
        let decided = |tool: &str| {
            broker.decide(&AgentQuestion {
                id: "1".into(),
                message: tool.into(),
                choices: Vec::new(),
                schema: None,
                is_permission: true,
                tool: tool.into(),
                kind: None,
                details: None,
            })
        };
        assert_eq!(decided("Edit src/main.rs"), Decision::Deny);
        assert_eq!(decided("Read src/main.rs"), Decision::Allow);
    }
}
