//! Masks secrets in the events of a turn.

use crate::event::StreamEvent;
use agentproto_text::redact::{RedactingStream, SecretRedactor};

/// Masks secrets in events. A secret may be split across text or thought events.
pub struct Masked {
    masks: SecretRedactor,
    text: RedactingStream,
    thought: RedactingStream,
    pub ready: std::collections::VecDeque<StreamEvent>,
}

impl Masked {
    pub fn new(masks: &SecretRedactor) -> Self {
        Masked {
            masks: masks.clone(),
            text: masks.stream(),
            thought: masks.stream(),
            ready: Default::default(),
        }
    }

    /// The event to return now, if any. Further events may be in `ready`.
    pub fn take(&mut self, event: StreamEvent) -> Option<StreamEvent> {
        if self.masks.is_empty() {
            return Some(event);
        }
        match event {
            StreamEvent::TextDelta { text } => {
                let text = self.text.push(text);
                (!text.is_empty()).then_some(StreamEvent::TextDelta { text })
            }
            StreamEvent::Thought { text, plan: None } => {
                let text = self.thought.push(text);
                (!text.is_empty()).then(|| StreamEvent::thought(text))
            }
            other => {
                let rest = self.text.finish();
                if !rest.is_empty() {
                    self.ready.push_back(StreamEvent::TextDelta { text: rest });
                }
                let rest = self.thought.finish();
                if !rest.is_empty() {
                    self.ready.push_back(StreamEvent::thought(rest));
                }
                self.ready.push_back(self.clean(other));
                self.ready.pop_front()
            }
        }
    }

    fn clean(&self, event: StreamEvent) -> StreamEvent {
        let mut value = serde_json::to_value(&event).unwrap_or_default();
        self.masks.mask_value(&mut value);
        serde_json::from_value(value).unwrap_or(event)
    }
}
