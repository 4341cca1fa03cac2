//! Translates `session/update` into events. Parses the line directly, because these are nearly all
//! of an agent's messages.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::event::StreamEvent;
use crate::plan::PlanEntry;
use crate::usage::{ContextSize, UsageReport};

/// Maximum number of remembered tool calls per session. Limits memory for an agent that never ends
/// them.
const MAX_TOOLS: usize = 100_000;

#[derive(Deserialize)]
pub struct Params<'l> {
    #[serde(borrow, rename = "sessionId")]
    pub session: Cow<'l, str>,
    #[serde(borrow)]
    pub update: Update<'l>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Update<'l> {
    #[serde(borrow)]
    session_update: Cow<'l, str>,
    #[serde(borrow, default)]
    content: Option<&'l RawValue>,
    #[serde(borrow, default)]
    tool_call_id: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    title: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    kind: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    status: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    raw_input: Option<&'l RawValue>,
    #[serde(borrow, default)]
    raw_output: Option<&'l RawValue>,
    #[serde(borrow, default)]
    entries: Option<&'l RawValue>,
    #[serde(borrow, default)]
    used: Option<&'l RawValue>,
    #[serde(borrow, default)]
    size: Option<&'l RawValue>,
    #[serde(borrow, default)]
    cost: Option<&'l RawValue>,
}

impl Update<'_> {
    /// The context size and the cost in a `usage_update`. `None` for other updates.
    pub fn usage(&self) -> Option<Result<UsageReport, String>> {
        if self.session_update != "usage_update" {
            return None;
        }
        let count = |raw| value(raw).as_u64();
        let (Some(used), Some(size)) = (count(self.used), count(self.size)) else {
            return Some(Err(
                "`used` and `size` of a usage_update must be numbers of tokens".to_owned(),
            ));
        };
        Some(Ok(UsageReport {
            usage: None,
            // An invalid cost does not make the size invalid.
            cost: self
                .cost
                .and_then(|raw| serde_json::from_str(raw.get()).ok()),
            context: Some(ContextSize { used, size }),
        }))
    }
}

#[derive(Deserialize)]
struct Block<'l> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'l, str>,
    #[serde(default)]
    text: Option<String>,
    #[serde(borrow, default)]
    uri: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'l, str>>,
    #[serde(borrow, default, rename = "mimeType")]
    mime: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    resource: Option<&'l RawValue>,
}

/// A line with a piece of text, parsed in one step because it is by far the most frequent message.
#[derive(Deserialize)]
pub struct Chunk<'l> {
    #[serde(borrow)]
    method: Cow<'l, str>,
    #[serde(borrow)]
    params: ChunkParams<'l>,
    #[serde(borrow, default)]
    id: Option<&'l RawValue>,
}

#[derive(Deserialize)]
struct ChunkParams<'l> {
    #[serde(borrow, rename = "sessionId")]
    session: Cow<'l, str>,
    #[serde(borrow)]
    update: ChunkUpdate<'l>,
}

#[derive(Deserialize)]
struct ChunkUpdate<'l> {
    #[serde(borrow, rename = "sessionUpdate")]
    kind: Cow<'l, str>,
    #[serde(borrow)]
    content: TextBlock<'l>,
}

#[derive(Deserialize)]
struct TextBlock<'l> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'l, str>,
    text: String,
}

impl<'l> Chunk<'l> {
    /// `None` for every other message.
    pub fn read(line: &'l str) -> Option<Self> {
        memchr::memmem::find(line.as_bytes(), b"_chunk\"")?;
        let chunk: Chunk = serde_json::from_str(line).ok()?;
        let known = matches!(
            &*chunk.params.update.kind,
            "agent_message_chunk" | "agent_thought_chunk"
        );
        let plain = chunk.method == "session/update"
            && chunk.id.is_none()
            && chunk.params.update.content.kind == "text";
        (known && plain).then_some(chunk)
    }

    pub fn session(&self) -> &str {
        &self.params.session
    }

    pub fn into_event(self) -> StreamEvent {
        let update = self.params.update;
        let text = update.content.text;
        match &*update.kind {
            "agent_thought_chunk" => StreamEvent::thought(text),
            _ => StreamEvent::TextDelta { text },
        }
    }
}

/// Which tool calls of a session have ended.
#[derive(Default)]
pub struct Tools {
    ended: HashMap<String, bool>,
}

impl Tools {
    /// The events of one update: none, one, or two if a new tool call has already ended.
    pub fn translate(&mut self, update: &Update) -> Result<UpdateEvents, String> {
        match &*update.session_update {
            "agent_message_chunk" => Ok(one(
                text(update)?.map(|text| StreamEvent::TextDelta { text })
            )),
            "agent_thought_chunk" => Ok(one(text(update)?.map(StreamEvent::thought))),
            "tool_call" | "tool_call_update" => self.tool(update),
            "plan" => Ok(one(plan(update)?)),
            // User messages, commands and modes are not in the taxonomy. Usage is part of the turn's
            // end.
            _ => Ok(one(None)),
        }
    }

    fn tool(&mut self, update: &Update) -> Result<UpdateEvents, String> {
        let Some(id) = &update.tool_call_id else {
            return Err("a tool call has no `toolCallId`".to_owned());
        };
        let known = self.ended.get(&**id).copied();
        let ended = matches!(update.status.as_deref(), Some("completed" | "failed"));
        let call = known.is_none().then(|| StreamEvent::ToolCall {
            id: id.to_string(),
            name: update.title.as_deref().unwrap_or("tool").to_owned(),
            kind: update.kind.as_deref().map(str::to_owned),
            args: value(update.raw_input),
        });
        let result = (ended && known != Some(true)).then(|| StreamEvent::ToolResult {
            id: id.to_string(),
            ok: update.status.as_deref() == Some("completed"),
            content: match value(update.raw_output) {
                Value::Null => value(update.content),
                output => output,
            },
        });
        if self.ended.len() >= MAX_TOOLS && known.is_none() {
            self.ended.clear();
        }
        self.ended
            .insert(id.to_string(), ended || known == Some(true));
        Ok([call, result])
    }
}

/// At most two events, in order.
pub type UpdateEvents = [Option<StreamEvent>; 2];

fn one(event: Option<StreamEvent>) -> UpdateEvents {
    [event, None]
}

fn value(raw: Option<&RawValue>) -> Value {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

fn text(update: &Update) -> Result<Option<String>, String> {
    let Some(content) = update.content else {
        return Err("a message chunk has no `content`".to_owned());
    };
    let block: Block = serde_json::from_str(content.get())
        .map_err(|e| format!("the content of a message chunk is not a content block: {e}"))?;
    Ok(match &*block.kind {
        "text" => block.text,
        // Content other than text is named, because the taxonomy has no event for it.
        "resource_link" => {
            let uri = block.uri.unwrap_or_default();
            let name = block.name.unwrap_or_else(|| uri.clone());
            Some(format!("[{name}]({uri})"))
        }
        "resource" => {
            let resource = value(block.resource);
            let uri = resource.get("uri").and_then(Value::as_str);
            Some(match resource.get("text").and_then(Value::as_str) {
                Some(text) => text.to_owned(),
                None => format!("[{}]", uri.unwrap_or("resource")),
            })
        }
        kind => Some(match block.mime {
            Some(mime) => format!("[{kind} {mime}]"),
            None => format!("[{kind}]"),
        }),
    })
}

fn plan(update: &Update) -> Result<Option<StreamEvent>, String> {
    let Some(entries) = update.entries else {
        return Err("a plan has no `entries`".to_owned());
    };
    let entries: Vec<PlanEntry> = serde_json::from_str(entries.get())
        .map_err(|e| format!("the entries of a plan are invalid: {e}"))?;
    Ok(StreamEvent::plan(entries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn events(tools: &mut Tools, update: Value) -> Result<Vec<StreamEvent>, String> {
        let text = json!({"sessionId": "s", "update": update}).to_string();
        let params: Params = serde_json::from_str(&text).expect("params");
        let events = tools.translate(&params.update)?;
        Ok(events.into_iter().flatten().collect())
    }

    #[test]
    fn chunks_become_text_and_thought() {
        let mut tools = Tools::default();
        let chunk = |kind: &str, content: Value| json!({"sessionUpdate": kind, "content": content});
        let text = |t: &str| StreamEvent::TextDelta { text: t.into() };
        let of = |tools: &mut Tools, content| {
            events(tools, chunk("agent_message_chunk", content)).expect("events")
        };
        assert_eq!(
            of(&mut tools, json!({"type":"text","text":"a\u{e9}\n"})),
            [text("a\u{e9}\n")]
        );
        assert_eq!(
            of(
                &mut tools,
                json!({"type":"resource_link","uri":"file:///a","name":"a"})
            ),
            [text("[a](file:///a)")]
        );
        assert_eq!(
            of(
                &mut tools,
                json!({"type":"image","mimeType":"image/png","data":""})
            ),
            [text("[image image/png]")]
        );
        assert_eq!(
            of(
                &mut tools,
                json!({"type":"resource","resource":{"uri":"u","text":"body"}})
            ),
            [text("body")]
        );
        let thought = chunk("agent_thought_chunk", json!({"type":"text","text":"hm"}));
        assert_eq!(
            events(&mut tools, thought),
            Ok(vec![StreamEvent::thought("hm")])
        );
        assert_eq!(
            events(
                &mut tools,
                chunk("user_message_chunk", json!({"type":"text","text":"x"}))
            ),
            Ok(vec![])
        );
        assert!(events(&mut tools, json!({"sessionUpdate":"agent_message_chunk"})).is_err());
        assert!(events(&mut tools, chunk("agent_message_chunk", json!("text"))).is_err());
    }

    #[test]
    fn the_fast_path_gives_the_same_events() {
        let line = |method: &str, update: Value| {
            json!({"jsonrpc":"2.0","method":method,"params":{"sessionId":"s","update":update}})
                .to_string()
        };
        let chunk = |kind: &str, content: Value| json!({"sessionUpdate": kind, "content": content, "messageId": "m"});
        for kind in ["agent_message_chunk", "agent_thought_chunk"] {
            let update = chunk(
                kind,
                json!({"type":"text","text":"a \"b\" \u{1f600}","annotations":null}),
            );
            let text = line("session/update", update.clone());
            let read = Chunk::read(&text).expect("a chunk");
            assert_eq!(read.session(), "s");
            assert_eq!(
                Ok(vec![read.into_event()]),
                events(&mut Tools::default(), update)
            );
        }
        for other in [
            line("session/update", chunk("user_message_chunk", json!({"type":"text","text":"x"}))),
            line("session/update", chunk("agent_message_chunk", json!({"type":"image","data":"","text":"x"}))),
            line("session/update", chunk("agent_message_chunk", json!([]))),
            line("session/other", chunk("agent_message_chunk", json!({"type":"text","text":"x"}))),
            json!({"jsonrpc":"2.0","id":1,"method":"session/update","params":{"sessionId":"s","update":chunk("agent_message_chunk", json!({"type":"text","text":"x"}))}}).to_string(),
            "{\"_chunk\":".to_owned(),
        ] {
            assert!(Chunk::read(&other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_tool_call_begins_once_and_ends_once() {
        let mut tools = Tools::default();
        let begin = json!({"sessionUpdate":"tool_call","toolCallId":"1","title":"Read","kind":"read","status":"pending","rawInput":{"p":1}});
        let call = StreamEvent::ToolCall {
            id: "1".into(),
            name: "Read".into(),
            kind: Some("read".into()),
            args: json!({"p":1}),
        };
        assert_eq!(events(&mut tools, begin), Ok(vec![call]));
        let update = |status: &str| json!({"sessionUpdate":"tool_call_update","toolCallId":"1","status":status,"rawOutput":{"r":2}});
        assert_eq!(events(&mut tools, update("in_progress")), Ok(vec![]));
        let result = StreamEvent::ToolResult {
            id: "1".into(),
            ok: true,
            content: json!({"r":2}),
        };
        assert_eq!(events(&mut tools, update("completed")), Ok(vec![result]));
        assert_eq!(events(&mut tools, update("completed")), Ok(vec![]));
        let at_once =
            json!({"sessionUpdate":"tool_call_update","toolCallId":"2","status":"failed"});
        let both = events(&mut tools, at_once).expect("events");
        assert!(matches!(
            &both[..],
            [
                StreamEvent::ToolCall { .. },
                StreamEvent::ToolResult { ok: false, .. }
            ]
        ));
        assert!(events(&mut tools, json!({"sessionUpdate":"tool_call"})).is_err());
    }

    #[test]
    fn a_plan_is_a_thought_with_its_entries() {
        let entries = json!([
            {"content":"a","priority":"high","status":"completed"},
            {"content":"b","priority":"low","status":"pending"}]);
        let plan = json!({"sessionUpdate":"plan","entries":entries});
        let events = events(&mut Tools::default(), plan).expect("events");
        assert_eq!(
            json!(events),
            json!([{"type":"thought","text":"\n[x] a\n[ ] b\n","plan":entries}])
        );
    }

    #[test]
    fn a_usage_update_has_the_context_and_the_cost() {
        let usage = |update: Value| {
            let text = json!({"sessionId": "s", "update": update}).to_string();
            let params: Params = serde_json::from_str(&text).expect("params");
            params.update.usage()
        };
        let update = json!({"sessionUpdate":"usage_update","used":53000,"size":200000,
            "cost":{"amount":0.045,"currency":"USD"}});
        let report = usage(update).expect("an update").expect("valid");
        assert_eq!(
            report.context,
            Some(ContextSize {
                used: 53_000,
                size: 200_000
            })
        );
        assert_eq!(
            report.cost.map(|c| (c.amount, c.currency)),
            Some((0.045, "USD".into()))
        );
        let no_cost = json!({"sessionUpdate":"usage_update","used":1,"size":2,"cost":null});
        assert_eq!(
            usage(no_cost).expect("an update").expect("valid").cost,
            None
        );
        let invalid = json!({"sessionUpdate":"usage_update","used":null,"size":2});
        assert!(usage(invalid).expect("an update").is_err());
        assert!(usage(json!({"sessionUpdate":"plan","entries":[]})).is_none());
    }
}
