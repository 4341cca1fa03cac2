//! Sends the prompt of a turn directly to the wire, and receives its response from there. It
//! bypasses the protocol library because every turn waits for these two messages.

use std::borrow::Cow;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{PromptRequest, PromptResponse};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

/// The outcome of a prompt: `Err(None)` if the agent will never respond.
pub type PromptOutcome = Result<PromptEnd, Option<Error>>;

/// The response to a prompt. `usage` is still a draft in the protocol, so its shape is not checked.
#[derive(Debug)]
pub struct PromptEnd {
    pub response: PromptResponse,
    pub usage: Option<Value>,
}

/// The prompt that waits for its response. Its ids cannot collide with those of the library.
#[derive(Default)]
pub struct PendingPrompt(Mutex<State>);

#[derive(Default)]
struct State {
    last: u64,
    /// Whether no more messages can arrive from the agent.
    over: bool,
    waiting: Option<(String, oneshot::Sender<Result<PromptEnd, Error>>)>,
}

#[derive(Serialize)]
struct Request<'p> {
    jsonrpc: &'static str,
    id: &'p str,
    method: &'static str,
    params: &'p PromptRequest,
}

#[derive(Deserialize)]
struct Response<'l> {
    #[serde(borrow, default)]
    result: Option<&'l RawValue>,
    #[serde(borrow, default)]
    error: Option<&'l RawValue>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    usage: Option<Value>,
}

impl PendingPrompt {
    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.0.lock()
    }

    /// The line to send, and a future for its response.
    pub fn request(
        &self,
        prompt: &PromptRequest,
    ) -> serde_json::Result<(String, impl Future<Output = PromptOutcome> + Send + use<>)> {
        let (sender, answer) = oneshot::channel();
        let mut state = self.state();
        state.last += 1;
        let id = format!("prompt-{}", state.last);
        let request = Request {
            jsonrpc: "2.0",
            id: &id,
            method: "session/prompt",
            params: prompt,
        };
        let line = serde_json::to_string(&request)?;
        if !state.over {
            state.waiting = Some((id, sender));
        }
        let answer = async move {
            match answer.await {
                Ok(answered) => answered.map_err(Some),
                Err(_) => Err(None),
            }
        };
        Ok((line, answer))
    }

    /// If the line is the expected response, delivers it and returns true.
    pub fn deliver_response(&self, id: Option<&RawValue>, line: &str) -> bool {
        let Some(id) = id.and_then(|id| serde_json::from_str::<Cow<str>>(id.get()).ok()) else {
            return false;
        };
        let mut state = self.state();
        let Some((_, sender)) = state.waiting.take_if(|(pending, _)| *pending == id) else {
            return false;
        };
        drop(state);
        // The receiver may be gone.
        let _ = sender.send(read(line));
        true
    }

    /// Called when no more messages can arrive. Wakes the waiting task.
    pub fn end(&self) {
        let mut state = self.state();
        state.over = true;
        state.waiting = None;
    }
}

fn read(line: &str) -> Result<PromptEnd, Error> {
    let unreadable = |why: String| {
        let mut error = Error::internal_error();
        error.message = format!("its response to session/prompt is invalid: {why}");
        error
    };
    let response: Response =
        serde_json::from_str(line).map_err(|error| unreadable(error.to_string()))?;
    match (response.result, response.error) {
        (_, Some(error)) => Err(serde_json::from_str(error.get())
            .unwrap_or_else(|error| unreadable(format!("its `error`: {error}")))),
        (Some(result), None) => {
            let read = |error: serde_json::Error| unreadable(error.to_string());
            let response = serde_json::from_str(result.get()).map_err(read)?;
            let usage: Usage = serde_json::from_str(result.get()).map_err(read)?;
            Ok(PromptEnd {
                response,
                usage: usage.usage,
            })
        }
        (None, None) => Err(unreadable("it has neither `result` nor `error`".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol::v1::schema::StopReason;

    fn prompt() -> PromptRequest {
        PromptRequest::new("ses", Vec::new())
    }

    fn id_of(line: &str) -> String {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(value["method"], "session/prompt");
        assert_eq!(value["params"]["sessionId"], "ses");
        value["id"].as_str().expect("an id").to_owned()
    }

    fn deliver_response(pending: &PendingPrompt, line: &str) -> bool {
        let value: &RawValue = serde_json::from_str(line).expect("JSON");
        #[derive(Deserialize)]
        struct Id<'l> {
            #[serde(borrow)]
            id: &'l RawValue,
        }
        let id: Id = serde_json::from_str(value.get()).expect("an id");
        pending.deliver_response(Some(id.id), line)
    }

    #[tokio::test]
    async fn only_the_matching_response_ends_a_prompt() {
        let pending = PendingPrompt::default();
        let (first, _gone) = pending.request(&prompt()).expect("a line");
        let (line, answer) = pending.request(&prompt()).expect("a line");
        let id = id_of(&line);
        assert_ne!(id_of(&first), id);
        for other in [id_of(&first), "9".to_owned(), format!("{id}0")] {
            let line = format!(r#"{{"id":"{other}","result":{{"stopReason":"refusal"}}}}"#);
            assert!(!deliver_response(&pending, &line), "{other}");
        }
        assert!(!deliver_response(&pending, r#"{"id":2,"result":{}}"#));
        let line = format!(r#"{{"id":"{id}","result":{{"stopReason":"end_turn"}}}}"#);
        assert!(deliver_response(&pending, &line));
        let answered = answer.await.expect("an answer");
        assert_eq!(answered.response.stop_reason, StopReason::EndTurn);
        assert!(!deliver_response(&pending, &line), "only once");
    }

    #[tokio::test]
    async fn invalid_responses_are_reported_with_the_reason() {
        for (answer, expected) in [
            (r#""error":{"code":-32000,"message":"log in"}"#, "log in"),
            (
                r#""error":{"code":-32000,"message":"log in"},"result":{"stopReason":"end_turn"}"#,
                "log in",
            ),
            (r#""error":7"#, "its `error`: "),
            (r#""result":{}"#, "missing field `stopReason`"),
            (r#""result":7"#, "invalid type"),
            (r#""resul":{}"#, "neither `result` nor `error`"),
        ] {
            let pending = PendingPrompt::default();
            let (line, coming) = pending.request(&prompt()).expect("a line");
            assert!(deliver_response(
                &pending,
                &format!(r#"{{"id":"{}",{answer}}}"#, id_of(&line))
            ));
            let error = coming.await.expect_err("no answer").expect("an error");
            assert!(
                error.message.contains(expected),
                "{answer}: {}",
                error.message
            );
        }
    }

    #[tokio::test]
    async fn prompts_end_when_the_agent_is_gone() {
        let pending = PendingPrompt::default();
        let (_, before) = pending.request(&prompt()).expect("a line");
        pending.end();
        let (_, after) = pending.request(&prompt()).expect("a line");
        assert!(matches!(before.await, Err(None)));
        assert!(matches!(after.await, Err(None)));
    }
}
