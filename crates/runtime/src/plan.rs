//! Plans of agents: what they intend to do, and how far they are.

use serde::{Deserialize, Serialize};

use crate::event::StreamEvent;

/// A step of an agent's plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    /// What the agent intends to do.
    pub content: String,
    /// `pending`, `in_progress` or `completed`.
    #[serde(default = "pending")]
    pub status: String,
    /// `high`, `medium` or `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
}

fn pending() -> String {
    "pending".to_owned()
}

impl PlanEntry {
    /// The entry as a line of a checklist.
    pub fn line(&self) -> String {
        let mark = match self.status.as_str() {
            "completed" => "x",
            "in_progress" => "-",
            _ => " ",
        };
        let words: Vec<&str> = self.content.split_whitespace().collect();
        format!("[{mark}] {}", words.join(" "))
    }
}

impl StreamEvent {
    /// A piece of reasoning.
    pub fn thought(text: impl Into<String>) -> StreamEvent {
        StreamEvent::Thought {
            text: text.into(),
            plan: None,
        }
    }

    /// A plan, as a thought with a checklist. The checklist starts and ends on a line of its own,
    /// because clients join the texts of thoughts. `None` for an empty plan.
    pub fn plan(entries: Vec<PlanEntry>) -> Option<StreamEvent> {
        if entries.is_empty() {
            return None;
        }
        let lines = entries.iter().map(|entry| format!("{}\n", entry.line()));
        Some(StreamEvent::Thought {
            text: format!("\n{}", lines.collect::<String>()),
            plan: Some(entries),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plan_is_a_thought_with_lines_of_its_own() {
        let entries = json!([
            { "content": "Look\naround", "status": "completed", "priority": "high" },
            { "content": "Do the work", "status": "in_progress" },
            { "content": "Tidy up" },
        ]);
        let entries: Vec<PlanEntry> = serde_json::from_value(entries).expect("a plan");
        let plan = StreamEvent::plan(entries).expect("an event");
        assert_eq!(
            json!(plan),
            json!({
                "type": "thought",
                "text": "\n[x] Look around\n[-] Do the work\n[ ] Tidy up\n",
                "plan": [
                    { "content": "Look\naround", "status": "completed", "priority": "high" },
                    { "content": "Do the work", "status": "in_progress" },
                    { "content": "Tidy up", "status": "pending" },
                ],
            })
        );
        assert_eq!(StreamEvent::plan(Vec::new()), None);
        assert_eq!(
            json!(StreamEvent::thought("hm")),
            json!({ "type": "thought", "text": "hm" })
        );
    }
}
