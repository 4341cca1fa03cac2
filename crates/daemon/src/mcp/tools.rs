//! The five tools of AIP-46 (A46-MCP-01 to 06), and three for questions and turns: names,
//! arguments, and implementation.

use std::sync::{Arc, LazyLock};

use rmcp::handler::server::tool::schema_for_output;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::Arguments;
use crate::error::ApiError;
use crate::http::PermissionAnswer;
use crate::model::{PendingPermission, Principal, SessionRecord, SpawnRequest};
use crate::registry::{Registry, SessionOutput};

/// Maximum number of lines per request. Older ones are in the event history.
const MAX_LINES: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Start,
    Prompt,
    List,
    Output,
    Kill,
    Questions,
    Answer,
    Interrupt,
}

/// How a verb is presented to clients.
pub struct ToolInfo {
    pub verb: Verb,
    /// Name in AIP-46, or the name of an extension.
    pub name: &'static str,
    /// Name in later AIP texts. Offered only if the host is configured to.
    pub alias: Option<&'static str>,
    title: &'static str,
    description: &'static str,
}

pub const TOOL_INFOS: [ToolInfo; 8] = [
    ToolInfo {
        verb: Verb::Start,
        name: "start_agent_session",
        alias: Some("agent_start"),
        title: "Start an agent session",
        description: "Starts an agent on this host and returns its Session. The agent keeps running \
            until the session is killed, so send further prompts instead of starting it again. \
            The session is `starting` at first. A prompt given here or sent at once waits until \
            the agent is ready. The agent runs in `cwd`, or in the named workspace, or in the \
            active workspace. An agent may ask for permission: answer with \
            answer_agent_question, or let the host answer with `permissions`.",
    },
    ToolInfo {
        verb: Verb::Prompt,
        name: "prompt_agent_session",
        alias: Some("agent_prompt"),
        title: "Prompt an agent session",
        description: "Sends a prompt to a session and returns at once, without the reply. Read \
            the reply with get_agent_session_output. The turn has ended when the output has a \
            line `── turn-end (reason) ──`. While a turn is running, another prompt fails \
            with `session_busy`.",
    },
    ToolInfo {
        verb: Verb::List,
        name: "list_agent_sessions",
        alias: Some("agent_sessions_list"),
        title: "List agent sessions",
        description: "Lists the sessions of this host, oldest first: live sessions, and ended \
            sessions that were not forgotten.",
    },
    ToolInfo {
        verb: Verb::Output,
        name: "get_agent_session_output",
        alias: Some("agent_output"),
        title: "Read the output of an agent session",
        description: "Returns the last lines of a session's output (200, or `lastN`) and its \
            status. Prefixes: [thought], [tool], [tool-error], [awaiting input], [error]. \
            `── turn-end (reason) ──` ends each turn. `truncated` is true if older lines were \
            left out because the output exceeds 1 MiB. While `openQuestions` is not 0, the turn \
            does not go on: answer them (list_agent_questions), or end the turn \
            (interrupt_agent_session).",
    },
    ToolInfo {
        verb: Verb::Kill,
        name: "kill_agent_session",
        alias: Some("agent_kill"),
        title: "Kill an agent session",
        description: "Ends a session and its agent, even during a turn. `ok` is false if it had \
            already ended. Its output can still be read.",
    },
    ToolInfo {
        verb: Verb::Questions,
        name: "list_agent_questions",
        alias: None,
        title: "List open questions of agents",
        description: "Lists the questions and permission requests that wait for an answer, of one \
            session or of all. A turn with an open question goes on only after the answer. Each \
            question has `options`, or a `schema` for an answer with content, or both. Ask your \
            user before you allow something.",
    },
    ToolInfo {
        verb: Verb::Answer,
        name: "answer_agent_question",
        alias: None,
        title: "Answer a question of an agent",
        description: "Answers an open question of list_agent_questions: with `optionId`, one of \
            its options; with `content`, a value that matches its `schema`; or with \
            `cancelled: true`. An invalid answer fails with `answer_invalid`, and the question \
            stays open.",
    },
    ToolInfo {
        verb: Verb::Interrupt,
        name: "interrupt_agent_session",
        alias: None,
        title: "Interrupt the turn of an agent session",
        description: "Ends the turn of a session, with its open questions, but not the session. \
            `wasBusy` is false if no turn was running. The turn has ended when the output has \
            its turn-end line.",
    },
];

/// Names of all tools, the five of AIP-46 first.
pub const TOOL_NAMES: [&str; 8] = [
    TOOL_INFOS[0].name,
    TOOL_INFOS[1].name,
    TOOL_INFOS[2].name,
    TOOL_INFOS[3].name,
    TOOL_INFOS[4].name,
    TOOL_INFOS[5].name,
    TOOL_INFOS[6].name,
    TOOL_INFOS[7].name,
];

impl ToolInfo {
    /// Finds a tool by name.
    pub fn find(name: &str, aliases: bool) -> Option<&'static ToolInfo> {
        TOOL_INFOS
            .iter()
            .find(|info| info.name == name || (aliases && info.alias == Some(name)))
    }

    fn tool(&self, name: &'static str) -> Tool {
        Tool::new(name, self.description, Arc::new(self.verb.input()))
            .with_title(self.title)
            .with_raw_output_schema(self.verb.output())
            .with_annotations(self.verb.annotations(self.title))
    }
}

/// The tools of AIP-46 in its order and the extensions, followed by the aliases. Built once.
static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let names = TOOL_INFOS.iter().map(|info| info.tool(info.name));
    names
        .chain(
            TOOL_INFOS
                .iter()
                .filter_map(|info| Some(info.tool(info.alias?))),
        )
        .collect()
});

/// All tools that are offered.
pub fn all(aliases: bool) -> &'static [Tool] {
    let offered = if aliases {
        TOOLS.len()
    } else {
        TOOL_INFOS.len()
    };
    TOOLS.get(..offered).unwrap_or_default()
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Sessions")]
struct ToolSessions {
    sessions: Vec<SessionRecord>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Questions")]
struct ToolQuestions {
    questions: Vec<ToolQuestion>,
}

/// An open question and its session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Question")]
struct ToolQuestion {
    session_id: String,
    adapter_slug: String,
    #[serde(flatten)]
    question: PendingPermission,
}

/// Result of a prompt, a kill or an answer.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Done")]
struct ToolDone {
    ok: bool,
    session_id: String,
}

/// Result of an interrupt.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Interrupted")]
struct ToolInterrupted {
    ok: bool,
    session_id: String,
    /// Whether a turn was running.
    was_busy: bool,
}

/// Removes formats such as `uint64`, which are specific to Rust. Clients warn about unknown
/// formats.
fn without_formats(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("format").is_some_and(Value::is_string) {
                members.remove("format");
            }
            members.values_mut().for_each(without_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(without_formats),
        _ => {}
    }
}

impl Verb {
    /// JSON Schema of the arguments. Unknown arguments are allowed and ignored.
    fn input(self) -> JsonObject {
        let session = || json!({ "type": "string", "description": "`id` of the session" });
        let (properties, required): (Value, &[&str]) = match self {
            Verb::Start => (
                json!({
                    "adapter": { "type": "string", "description": "Slug of the AIP-45 adapter to run" },
                    "workspaceSlug": { "type": "string", "description": "Workspace to run in. Defaults to the active one" },
                    "cwd": { "type": "string", "description": "Absolute path to run in. Takes precedence over `workspaceSlug`" },
                    "prompt": { "type": "string", "description": "First prompt. Has the same effect as a prompt sent after the start" },
                    "label": { "type": "string", "description": "Free text that identifies the session" },
                    "permissions": {
                        "type": "string",
                        "enum": ["ask", "allow", "deny"],
                        "description": "Who answers permission requests: you with answer_agent_question (`ask`, the default), or the host, which allows or denies all of them",
                    },
                }),
                &["adapter"],
            ),
            Verb::Prompt => (
                json!({
                    "sessionId": session(),
                    "prompt": { "type": "string", "description": "Text for the agent" },
                }),
                &["sessionId", "prompt"],
            ),
            Verb::List => (
                json!({
                    "onlyAlive": { "type": "boolean", "description": "Return only live sessions" },
                }),
                &[],
            ),
            Verb::Output => (
                json!({
                    "sessionId": session(),
                    "lastN": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_LINES,
                        "description": "Number of last lines to return (default 200)",
                    },
                }),
                &["sessionId"],
            ),
            Verb::Kill | Verb::Interrupt => (json!({ "sessionId": session() }), &["sessionId"]),
            Verb::Questions => (json!({ "sessionId": session() }), &[]),
            Verb::Answer => (
                json!({
                    "sessionId": session(),
                    "questionId": { "type": "string", "description": "`id` of the question" },
                    "optionId": { "type": "string", "description": "`id` of one of its options" },
                    "content": { "description": "Answer that matches the question's `schema`" },
                    "cancelled": { "type": "boolean", "description": "True to cancel the question" },
                }),
                &["sessionId", "questionId"],
            ),
        };
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), properties);
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        schema
    }

    fn output(self) -> Arc<JsonObject> {
        let schema = match self {
            Verb::Start => schema_for_output::<SessionRecord>(),
            Verb::List => schema_for_output::<ToolSessions>(),
            Verb::Output => schema_for_output::<SessionOutput>(),
            Verb::Questions => schema_for_output::<ToolQuestions>(),
            Verb::Prompt | Verb::Kill | Verb::Answer => schema_for_output::<ToolDone>(),
            Verb::Interrupt => schema_for_output::<ToolInterrupted>(),
        };
        let mut schema = Value::Object(schema.as_ref().clone());
        without_formats(&mut schema);
        match schema {
            Value::Object(schema) => Arc::new(schema),
            _ => Arc::default(),
        }
    }

    /// Hints for clients that ask their user before a call. An agent may do anything, so starting
    /// and prompting one counts as destructive and open-world.
    fn annotations(self, title: &str) -> ToolAnnotations {
        let read_only = matches!(self, Verb::List | Verb::Output | Verb::Questions);
        let hints = ToolAnnotations::with_title(title).read_only(read_only);
        match self {
            Verb::List | Verb::Output | Verb::Questions => {
                hints.destructive(false).idempotent(true)
            }
            Verb::Start | Verb::Prompt | Verb::Answer => hints.destructive(true).idempotent(false),
            Verb::Kill | Verb::Interrupt => hints.destructive(true).idempotent(true),
        }
        .open_world(matches!(self, Verb::Start | Verb::Prompt | Verb::Answer))
    }

    /// Runs the tool. Errors are the same as over HTTP (A46-MCP-07).
    pub async fn call(
        self,
        arguments: &Arguments,
        registry: &Registry,
        principal: Principal,
    ) -> Result<Value, ApiError> {
        let done = match self {
            Verb::Start => {
                let request = SpawnRequest {
                    adapter: arguments.text("adapter")?,
                    workspace_slug: arguments.maybe_text("workspaceSlug")?,
                    cwd: arguments.maybe_text("cwd")?,
                    prompt: arguments.maybe_text("prompt")?,
                    label: arguments.maybe_text("label")?,
                    permissions: arguments.maybe_word("permissions", "`ask`, `allow` or `deny`")?,
                    ..SpawnRequest::default()
                };
                serde_json::to_value(registry.spawn(request, principal).await?)
            }
            Verb::Prompt => {
                let session_id = arguments.text("sessionId")?;
                let prompt = arguments.text("prompt")?;
                registry.prompt(&session_id, prompt).await?;
                serde_json::to_value(ToolDone {
                    ok: true,
                    session_id,
                })
            }
            Verb::List => {
                let only_alive = arguments.maybe_flag("onlyAlive")?.unwrap_or(false);
                serde_json::to_value(ToolSessions {
                    sessions: registry.list(only_alive),
                })
            }
            Verb::Output => {
                let session_id = arguments.text("sessionId")?;
                let last = arguments.maybe_count("lastN", 1..=MAX_LINES)?;
                let last = last.and_then(|last| usize::try_from(last).ok());
                serde_json::to_value(registry.output(&session_id, last).await?)
            }
            Verb::Kill => {
                let session_id = arguments.text("sessionId")?;
                let ok = registry.kill(&session_id).await?;
                serde_json::to_value(ToolDone { ok, session_id })
            }
            Verb::Questions => {
                let sessions = match arguments.maybe_text("sessionId")? {
                    Some(id) => vec![registry.get(&id)?],
                    None => registry.list(true),
                };
                let questions = sessions.into_iter().flat_map(|session| {
                    let (session_id, adapter_slug) = (session.id, session.adapter_slug);
                    let questions = session.pending_permissions.into_iter();
                    questions.map(move |question| ToolQuestion {
                        session_id: session_id.clone(),
                        adapter_slug: adapter_slug.clone(),
                        question,
                    })
                });
                serde_json::to_value(ToolQuestions {
                    questions: questions.collect(),
                })
            }
            Verb::Answer => {
                let session_id = arguments.text("sessionId")?;
                let question = arguments.text("questionId")?;
                let answer = PermissionAnswer {
                    option_id: arguments.maybe_text("optionId")?,
                    content: arguments.maybe_value("content"),
                    cancelled: arguments.maybe_flag("cancelled")?,
                };
                registry.answer(&session_id, &question, answer.into_answer()?)?;
                serde_json::to_value(ToolDone {
                    ok: true,
                    session_id,
                })
            }
            Verb::Interrupt => {
                let session_id = arguments.text("sessionId")?;
                let was_busy = registry.interrupt(&session_id).await?;
                serde_json::to_value(ToolInterrupted {
                    ok: true,
                    session_id,
                    was_busy,
                })
            }
        };
        done.map_err(|e| {
            ApiError::new(
                500,
                "internal",
                format!("cannot write the result as JSON: {e}"),
            )
        })
    }
}
