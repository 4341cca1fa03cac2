//! Removes known forms of secrets from the events of a session (A46-SEC-04). Secrets that the
//! runtime passed to the agent were already masked by value.

use agentproto_runtime::StreamEvent;
use agentproto_text::redact::{TokenRedactor, value};

/// Redacts the events of one session.
#[derive(Default)]
pub struct EventRedactor {
    text: TokenRedactor,
    thought: TokenRedactor,
}

impl EventRedactor {
    /// The redacted events to show now, in order.
    pub fn take(&mut self, event: StreamEvent) -> Vec<StreamEvent> {
        match event {
            StreamEvent::TextDelta { text } => {
                let mut events = self.flush_thoughts();
                events.extend(delta(self.text.push(&text)));
                events
            }
            StreamEvent::Thought { text, plan: None } => {
                let mut events = self.flush_text();
                events.extend(thought(self.thought.push(&text)));
                events
            }
            other => {
                let mut events = self.flush_text();
                events.extend(self.flush_thoughts());
                let mut whole = serde_json::to_value(&other).unwrap_or_default();
                let clean = value(&mut whole).then(|| serde_json::from_value(whole).ok());
                events.push(clean.flatten().unwrap_or(other));
                events
            }
        }
    }

    fn flush_text(&mut self) -> Vec<StreamEvent> {
        delta(self.text.finish()).into_iter().collect()
    }

    fn flush_thoughts(&mut self) -> Vec<StreamEvent> {
        thought(self.thought.finish()).into_iter().collect()
    }
}

fn delta(text: String) -> Option<StreamEvent> {
    (!text.is_empty()).then_some(StreamEvent::TextDelta { text })
}

fn thought(text: String) -> Option<StreamEvent> {
    (!text.is_empty()).then(|| StreamEvent::thought(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentproto_text::redact::MASK;
    use serde_json::{Value, json};

    #[test]
    fn events_keep_their_order_and_their_shape() {
        // Built at run time, so that secret scanners do not report this file.
        let secret = format!("ghp_{}", "aB3".repeat(13));
        let mut redactor = EventRedactor::default();
        let (head, tail) = secret.split_at(9);
        let mut events = redactor.take(StreamEvent::TextDelta {
            text: format!("a {head}"),
        });
        events.extend(redactor.take(StreamEvent::TextDelta {
            text: tail.to_owned(),
        }));
        let call =
            json!({ "type": "tool-call", "id": "1", "name": "x", "args": { "key": [secret] } });
        events.extend(redactor.take(serde_json::from_value(call).expect("an event")));
        let events: Vec<Value> = events.iter().map(|e| json!(e)).collect();
        assert_eq!(events[0], json!({ "type": "text-delta", "text": "a " }));
        assert_eq!(events[1], json!({ "type": "text-delta", "text": MASK }));
        assert_eq!(events[2]["args"]["key"][0], MASK);
        assert_eq!(events.len(), 3, "{events:?}");
    }
}
