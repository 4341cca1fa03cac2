//! Removes known forms of secrets from the events of a session (A46-SEC-04). Secrets that the
//! runtime passed to the agent were already masked by value.

use agentproto_runtime::StreamEvent;
use agentproto_text::redact::{Stream, value};

/// Redacts the events of one session.
#[derive(Default)]
pub struct Redactor {
    text: Stream,
    thought: Stream,
}

impl Redactor {
    /// The redacted events to show now, in order.
    pub fn take(&mut self, event: StreamEvent) -> Vec<StreamEvent> {
        match event {
            StreamEvent::TextDelta { text } => {
                let mut shown = self.thoughts();
                shown.extend(delta(self.text.take(&text)));
                shown
            }
            StreamEvent::Thought { text } => {
                let mut shown = self.words();
                shown.extend(thought(self.thought.take(&text)));
                shown
            }
            other => {
                let mut shown = self.words();
                shown.extend(self.thoughts());
                let mut whole = serde_json::to_value(&other).unwrap_or_default();
                let clean = value(&mut whole).then(|| serde_json::from_value(whole).ok());
                shown.push(clean.flatten().unwrap_or(other));
                shown
            }
        }
    }

    fn words(&mut self) -> Vec<StreamEvent> {
        delta(self.text.finish()).into_iter().collect()
    }

    fn thoughts(&mut self) -> Vec<StreamEvent> {
        thought(self.thought.finish()).into_iter().collect()
    }
}

fn delta(text: String) -> Option<StreamEvent> {
    (!text.is_empty()).then_some(StreamEvent::TextDelta { text })
}

fn thought(text: String) -> Option<StreamEvent> {
    (!text.is_empty()).then_some(StreamEvent::Thought { text })
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
        let mut redactor = Redactor::default();
        let (head, tail) = secret.split_at(9);
        let mut shown = redactor.take(StreamEvent::TextDelta {
            text: format!("a {head}"),
        });
        shown.extend(redactor.take(StreamEvent::TextDelta {
            text: tail.to_owned(),
        }));
        let call =
            json!({ "type": "tool-call", "id": "1", "name": "x", "args": { "key": [secret] } });
        shown.extend(redactor.take(serde_json::from_value(call).expect("an event")));
        let shown: Vec<Value> = shown.iter().map(|e| json!(e)).collect();
        assert_eq!(shown[0], json!({ "type": "text-delta", "text": "a " }));
        assert_eq!(shown[1], json!({ "type": "text-delta", "text": MASK }));
        assert_eq!(shown[2]["args"]["key"][0], MASK);
        assert_eq!(shown.len(), 3, "{shown:?}");
    }
}
