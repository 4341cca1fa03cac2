//! Questions to the user: a form or a web page.

use serde_json::{Map, Value, json};

use super::AcpOutput;
use crate::scenario::Elicitation;
use crate::store::fresh_id;
use crate::turn::{TurnEnd, UserAnswer, reply};

impl AcpOutput {
    pub(super) fn form(&mut self, question: &Elicitation) -> Result<UserAnswer, TurnEnd> {
        if !self.client.forms {
            return Ok(UserAnswer::Unsupported);
        }
        let fields = question.fields.iter();
        let properties: Map<String, Value> = fields
            .map(|(name, kind)| (name.clone(), json!({ "type": kind })))
            .collect();
        let required: Vec<&String> = question.fields.iter().map(|(name, _)| name).collect();
        let params = json!({
            "sessionId": self.session,
            "mode": "form",
            "message": question.message,
            "requestedSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
            },
        });
        self.ask(params)
    }

    /// Sends the user to a web page. Its completion is reported at the end of the turn.
    pub(super) fn page(&mut self, message: &str, url: &str) -> Result<UserAnswer, TurnEnd> {
        if !self.client.urls {
            return Ok(UserAnswer::Unsupported);
        }
        let id = fresh_id("question");
        let answered = self.ask(json!({
            "sessionId": self.session,
            "mode": "url",
            "elicitationId": id,
            "message": message,
            "url": url,
        }))?;
        if matches!(answered, UserAnswer::Accepted(_)) {
            self.pages.push(id);
        }
        Ok(answered)
    }

    fn ask(&mut self, params: Value) -> Result<UserAnswer, TurnEnd> {
        let answer = self.call("elicitation/create", params)?;
        Ok(answer.map_or(UserAnswer::Dismissed, |result| reply(&result)))
    }

    /// Reports that the web pages of the turn are completed.
    pub fn complete_pages(&mut self) {
        for id in self.pages.drain(..) {
            let params = json!({ "elicitationId": id });
            self.server.peer.notify("elicitation/complete", params);
        }
    }
}
