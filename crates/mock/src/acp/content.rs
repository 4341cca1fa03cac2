//! The content of a prompt, checked against the capabilities of the agent.

use serde_json::{Value, json};

use crate::rpc::RpcError;
use crate::scenario::Capabilities;

pub struct PromptContent {
    /// Text blocks, joined by newlines. Other blocks appear as names in brackets.
    pub text: String,
    /// The same content as updates, for a later replay.
    pub history: Vec<Value>,
}

pub fn prompt(params: &Value, supported: &Capabilities) -> Result<PromptContent, RpcError> {
    let Some(blocks) = params.get("prompt").and_then(Value::as_array) else {
        return Err(RpcError::params(
            "`prompt` must be a list of content blocks",
        ));
    };
    let mut prompt = PromptContent {
        text: String::new(),
        history: Vec::new(),
    };
    let message = crate::store::fresh_id("msg");
    for block in blocks {
        let text = block_text(block, supported)?;
        if !prompt.text.is_empty() {
            prompt.text.push('\n');
        }
        prompt.text.push_str(&text);
        prompt.history.push(json!({
            "sessionUpdate": "user_message_chunk",
            "content": block,
            "messageId": message,
        }));
    }
    Ok(prompt)
}

fn block_text(block: &Value, supported: &Capabilities) -> Result<String, RpcError> {
    let field = |name: &str| {
        let text = block.get(name).and_then(Value::as_str);
        text.ok_or_else(|| RpcError::params(format!("a content block has no `{name}`")))
    };
    let offered = |flag: bool, kind: &str| match flag {
        true => Ok(()),
        false => Err(RpcError::params(format!(
            "this agent does not support {kind} in a prompt"
        ))),
    };
    match field("type")? {
        "text" => Ok(field("text")?.to_owned()),
        "resource_link" => {
            let name = field("name")?;
            Ok(format!("[{name}: {}]", field("uri")?))
        }
        "image" => {
            offered(supported.image, "images")?;
            field("data")?;
            Ok(format!("[image: {}]", field("mimeType")?))
        }
        "audio" => {
            offered(supported.audio, "audio")?;
            field("data")?;
            Ok(format!("[audio: {}]", field("mimeType")?))
        }
        "resource" => {
            offered(supported.embedded_context, "embedded resources")?;
            let part = |name: &str| block.pointer(&format!("/resource/{name}"));
            let uri = part("uri").and_then(Value::as_str);
            let content = part("text").or(part("blob")).and_then(Value::as_str);
            match (uri, content) {
                (Some(uri), Some(_)) => Ok(format!("[resource: {uri}]")),
                _ => Err(RpcError::params(
                    "an embedded resource must have `uri`, and `text` or `blob`",
                )),
            }
        }
        other => Err(RpcError::params(format!(
            "unknown content block type `{other}`"
        ))),
    }
}
