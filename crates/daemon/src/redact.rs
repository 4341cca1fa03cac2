//! The events of a session without known forms of secrets (A46-SEC-04). What the runner itself gave
//! to the agent is masked before, by its value.

use agentproto_runtime::StreamEvent;
use agentproto_text::redact::{Stream, value};

/// The events of one session.
#[derive(Default)]
pub struct Redactor {
    text: Stream,
    thought: Stream,
}

impl Redactor {
    /// What to show of an event now, in order.
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
        // Made here, so that no scanner takes this file for a leak.
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
