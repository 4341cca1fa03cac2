//! Questions to the user: a form or a web page.

use serde_json::{Map, Value, json};

use super::AcpStage;
use crate::scenario::Elicitation;
use crate::store::fresh_id;
use crate::turn::{End, Reply, reply};

impl AcpStage {
    pub(super) fn form(&mut self, question: &Elicitation) -> Result<Reply, End> {
        if !self.offers.forms {
            return Ok(Reply::Unasked);
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
    pub(super) fn page(&mut self, message: &str, url: &str) -> Result<Reply, End> {
        if !self.offers.urls {
            return Ok(Reply::Unasked);
        }
        let id = fresh_id("question");
        let answered = self.ask(json!({
            "sessionId": self.session,
            "mode": "url",
            "elicitationId": id,
            "message": message,
            "url": url,
        }))?;
        if matches!(answered, Reply::Accepted(_)) {
            self.pages.push(id);
        }
        Ok(answered)
    }

    fn ask(&mut self, params: Value) -> Result<Reply, End> {
        let answer = self.call("elicitation/create", params)?;
        Ok(answer.map_or(Reply::Dismissed, |result| reply(&result)))
    }

    /// Reports that the web pages of the turn are completed.
    pub fn complete_pages(&mut self) {
        for id in self.pages.drain(..) {
            let params = json!({ "elicitationId": id });
            self.server.peer.notify("elicitation/complete", params);
        }
    }
}
