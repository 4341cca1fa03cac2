//! Handles requests of the agent: permissions, files and terminals. Each is limited to its sandbox
//! and working directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use agent_client_protocol::v1::Builder;
use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, CreateElicitationResponse, CreateTerminalRequest,
    CreateTerminalResponse, KillTerminalRequest, KillTerminalResponse, ReadTextFileRequest,
    ReadTextFileResponse, ReleaseTerminalRequest, ReleaseTerminalResponse,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, TerminalExitStatus, TerminalOutputRequest, TerminalOutputResponse,
    WaitForTerminalExitRequest, WaitForTerminalExitResponse, WriteTextFileRequest,
    WriteTextFileResponse,
};
use agent_client_protocol::{Client, Error, HandleDispatchFrom, on_receive_request};
use serde_json::{Value, json};

use super::files::{FileError, Files, Guarded};
use super::tap::{Announced, Shared};
use super::terminals::Terminals;
use crate::arm::elicitation::{ElicitationResult, Form};
use crate::arm::permissions::{AgentQuestion, Answer, PermissionBroker};
use crate::context::Context;
use crate::event::Choice;
use agentproto_sandbox::Policy;

pub struct Services {
    context: Arc<Context>,
    policy: Option<Arc<Policy>>,
    /// The session's directory, as the agent sees it.
    cwd: PathBuf,
    guarded: Guarded,
    terminals: Terminals,
    questions: AtomicU64,
    /// Requests of the agent whose responses are not written yet.
    unwritten: AtomicUsize,
}

/// Maximum number of unwritten responses. Limits memory for an agent that does not read them.
const MAX_UNWRITTEN: usize = 32;
/// Maximum number of open questions. Further forms are canceled, because each has a schema in
/// memory.
const MAX_QUESTIONS: usize = 64;

impl Services {
    pub fn new(context: Arc<Context>, policy: Option<Arc<Policy>>, cwd: PathBuf) -> Self {
        Services {
            guarded: policy
                .as_deref()
                .map(Guarded::from_policy)
                .unwrap_or_default(),
            terminals: Terminals::new(Arc::clone(&context), policy.clone(), cwd.clone()),
            cwd,
            context,
            policy,
            questions: AtomicU64::new(1),
            unwritten: AtomicUsize::new(0),
        }
    }

    pub async fn close(&self) {
        self.terminals.close().await;
    }

    fn files(&self) -> Files<'_> {
        Files {
            agent_cwd: self.cwd.clone(),
            host_cwd: self.context.cwd.clone(),
            policy: self.policy.as_deref(),
            guarded: &self.guarded,
        }
    }

    /// Counts a new request. Returns false if too many responses are waiting.
    fn start_request(&self) -> bool {
        self.unwritten.fetch_add(1, Ordering::Relaxed) < MAX_UNWRITTEN
    }

    /// Called when a response was written.
    pub fn response_written(&self) {
        let less = |count: usize| Some(count.saturating_sub(1));
        let _ = self
            .unwritten
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    fn record(&self, event: &'static str, data: Value) -> Result<(), Error> {
        self.context
            .audit
            .record_request(event, data)
            .map_err(|error| internal(&error.message))
    }

    /// Records a request that was refused or failed. An agent can send any number of them.
    fn record_refusal(&self, event: &'static str, mut data: Value, why: &str) -> Result<(), Error> {
        data["error"] = why.into();
        self.context
            .audit
            .record_refusal(event, event, data)
            .map_err(|error| internal(&error.message))
    }

    async fn read(&self, request: ReadTextFileRequest) -> Result<ReadTextFileResponse, Error> {
        let data = json!({ "path": request.path });
        let text = match self.files().read(&request.path) {
            // The contents are sent only after this.
            Ok(text) => self.record("fs.read", data).map(|()| text)?,
            Err(error) => {
                self.record_refusal("fs.read", data, error.text())?;
                return Err(file_error(error, &request.path));
            }
        };
        Ok(ReadTextFileResponse::new(line_range(
            text,
            request.line,
            request.limit,
        )))
    }

    async fn write(&self, request: WriteTextFileRequest) -> Result<WriteTextFileResponse, Error> {
        let data = json!({ "path": request.path, "bytes": request.content.len() });
        let mut is_recorded = false;
        let record = || {
            is_recorded = true;
            let recorded = self.context.audit.record_request("fs.write", data.clone());
            recorded.map_err(|error| FileError::Other(error.message))
        };
        let content = request.content.as_bytes();
        let written = self.files().write(&request.path, content, record);
        if let (Err(error), false) = (&written, is_recorded) {
            self.record_refusal("fs.write", data, error.text())?;
        }
        written.map_err(|e| file_error(e, &request.path))?;
        Ok(WriteTextFileResponse::new())
    }

    async fn create_terminal(&self, request: CreateTerminalRequest) -> Result<String, Error> {
        let data = json!({ "command": request.command, "args": request.args });
        let mut is_recorded = false;
        let record = || {
            is_recorded = true;
            let audit = &self.context.audit;
            let recorded = audit.record_request("terminal.create", data.clone());
            recorded.map_err(|error| error.message)
        };
        let created = self.terminals.create(request, record).await;
        if let (Err(why), false) = (&created, is_recorded) {
            self.record_refusal("terminal.create", data, why)?;
        }
        created.map_err(|what| internal(&what))
    }

    async fn permission(
        &self,
        request: RequestPermissionRequest,
        broker: &PermissionBroker,
        shared: &Shared,
    ) -> RequestPermissionOutcome {
        let number = self.questions.fetch_add(1, Ordering::Relaxed);
        let fields = &request.tool_call.fields;
        // A request may omit the title of the announced call, which rules match.
        let id = request.tool_call.tool_call_id.to_string();
        let call = id.clone();
        let known = shared.announced(&id).unwrap_or_else(|| Announced {
            name: id,
            ..Announced::default()
        });
        let tool = fields.title.clone().unwrap_or(known.name);
        let question = AgentQuestion {
            id: format!("permission-{number}"),
            message: format!("The agent asks for permission: {tool}"),
            choices: request
                .options
                .iter()
                .map(|option| Choice {
                    id: option.option_id.to_string(),
                    label: option.name.clone(),
                    kind: name_of(&option.kind),
                })
                .collect(),
            schema: None,
            is_permission: true,
            kind: fields.kind.as_ref().and_then(name_of).or(known.kind),
            details: Some(details(&call, &tool, &known.input, &json!(fields))),
            tool,
        };
        let Some(events) = shared.events() else {
            // Between turns there is no one to ask.
            return RequestPermissionOutcome::Cancelled;
        };
        events.question_about(&question.id, &call);
        match broker.ask(question, &events).await {
            Ok(Answer::Choice(id)) => {
                RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(id))
            }
            Ok(Answer::Content(_) | Answer::Declined | Answer::Cancelled) => {
                RequestPermissionOutcome::Cancelled
            }
            Err(error) => {
                shared.fail_turn(error);
                RequestPermissionOutcome::Cancelled
            }
        }
    }

    /// Asks the user to complete a form or to open a web page.
    async fn elicitation(
        &self,
        params: &Value,
        broker: &PermissionBroker,
        shared: &Shared,
    ) -> Value {
        let cancel = json!({ "action": "cancel" });
        let Some(events) = shared.events() else {
            // Between turns there is no one to ask.
            return cancel;
        };
        if broker.open_count() >= MAX_QUESTIONS {
            return cancel;
        }
        let form = Form::new(params);
        let number = self.questions.fetch_add(1, Ordering::Relaxed);
        match broker.ask(form.question(number), &events).await {
            Ok(answer) => match form.result(answer) {
                ElicitationResult::Accept(None) => json!({ "action": "accept" }),
                ElicitationResult::Accept(Some(content)) => {
                    json!({ "action": "accept", "content": content })
                }
                ElicitationResult::Decline => json!({ "action": "decline" }),
                ElicitationResult::Cancel => cancel,
            },
            Err(error) => {
                shared.fail_turn(error);
                cancel
            }
        }
    }
}

/// Maximum size of the content of a tool call in a question, in bytes.
const MAX_DETAILS: usize = 256 << 10;

/// What a tool call would do, for the user who decides. Content that is too large is left out.
fn details(id: &str, name: &str, input: &Value, fields: &Value) -> Value {
    let mut details = json!({ "id": id, "name": name });
    let named = [
        ("kind", "kind"),
        ("locations", "locations"),
        ("rawInput", "input"),
        ("content", "content"),
    ];
    let mut size = 0;
    for (from, to) in named {
        // The input may have been announced before.
        let value = match from {
            "rawInput" => fields.get(from).or(Some(input)),
            _ => fields.get(from),
        };
        let Some(value) = value.filter(|value| !value.is_null()) else {
            continue;
        };
        size += value.to_string().len();
        match size <= MAX_DETAILS {
            true => details[to] = value.clone(),
            false => details["truncated"] = json!(true),
        }
    }
    details
}

/// The wire name of a unit variant.
fn name_of(kind: &impl serde::Serialize) -> Option<String> {
    match serde_json::to_value(kind) {
        Ok(Value::String(name)) => Some(name),
        _ => None,
    }
}

/// At most `limit` lines, starting with line `line` (counted from 1).
fn line_range(text: String, line: Option<u32>, limit: Option<u32>) -> String {
    if line.is_none() && limit.is_none() {
        return text;
    }
    let skip = line.unwrap_or(1).saturating_sub(1) as usize;
    let lines = text.split_inclusive('\n').skip(skip);
    match limit {
        Some(limit) => lines.take(limit as usize).collect(),
        None => lines.collect(),
    }
}

fn internal(what: &str) -> Error {
    Error::new(-32603, what)
}

fn file_error(error: FileError, path: &Path) -> Error {
    match error {
        FileError::Missing => Error::new(-32002, format!("{}: file not found", path.display())),
        FileError::Params(what) => Error::new(-32602, format!("{}: {what}", path.display())),
        FileError::Other(what) => internal(&format!("{}: {what}", path.display())),
    }
}

/// Adds the request handlers to the library's connection. Each runs in its own task, because a
/// terminal may run for hours while other messages continue.
pub fn serve(
    builder: Builder<Client>,
    services: Arc<Services>,
    broker: PermissionBroker,
    shared: Arc<Shared>,
) -> Builder<Client, impl HandleDispatchFrom<agent_client_protocol::Agent>> {
    macro_rules! answer {
        ($builder:expr, $request:ty, $method:expr) => {{
            let services = Arc::clone(&services);
            $builder.on_receive_request(
                async move |request: $request, responder, agent| {
                    let services = Arc::clone(&services);
                    if !services.start_request() {
                        let error = internal(
                            "too many unread responses: read them before sending more requests",
                        );
                        return responder.respond_with_error(error);
                    }
                    agent.spawn(async move {
                        let method = $method;
                        let answered = method(&services, request).await;
                        let _ = responder.respond_with_result(answered);
                        Ok(())
                    })
                },
                on_receive_request!(),
            )
        }};
    }
    let builder = answer!(builder, ReadTextFileRequest, async |s: &Services, r| s
        .read(r)
        .await);
    let builder = answer!(builder, WriteTextFileRequest, async |s: &Services, r| s
        .write(r)
        .await);
    let builder = answer!(
        builder,
        CreateTerminalRequest,
        async |s: &Services, r: CreateTerminalRequest| {
            let id = s.create_terminal(r).await?;
            Ok(CreateTerminalResponse::new(id))
        }
    );
    let builder = answer!(
        builder,
        TerminalOutputRequest,
        async |s: &Services, r: TerminalOutputRequest| {
            let (text, truncated, exit) = s
                .terminals
                .output(&r.terminal_id.to_string())
                .ok_or_else(no_terminal)?;
            Ok(TerminalOutputResponse::new(text, truncated).exit_status(exit.map(status)))
        }
    );
    let builder = answer!(
        builder,
        WaitForTerminalExitRequest,
        async |s: &Services, r: WaitForTerminalExitRequest| {
            let ended = s
                .terminals
                .wait(&r.terminal_id.to_string())
                .await
                .ok_or_else(no_terminal)?;
            Ok(WaitForTerminalExitResponse::new(status(ended)))
        }
    );
    let builder = answer!(
        builder,
        KillTerminalRequest,
        async |s: &Services, r: KillTerminalRequest| {
            match s.terminals.kill(&r.terminal_id.to_string()).await {
                true => Ok(KillTerminalResponse::new()),
                false => Err(no_terminal()),
            }
        }
    );
    let builder = answer!(
        builder,
        ReleaseTerminalRequest,
        async |s: &Services, r: ReleaseTerminalRequest| {
            match s.terminals.release(&r.terminal_id.to_string()).await {
                true => Ok(ReleaseTerminalResponse::new()),
                false => Err(no_terminal()),
            }
        }
    );
    let elicitations = (Arc::clone(&services), broker.clone(), Arc::clone(&shared));
    let builder = builder.on_receive_request(
        async move |request: CreateElicitationRequest, responder, agent| {
            let (services, broker, shared) = elicitations.clone();
            agent.spawn(async move {
                let params = serde_json::to_value(&request).unwrap_or_default();
                let result = services.elicitation(&params, &broker, &shared).await;
                let result = serde_json::from_value::<CreateElicitationResponse>(result);
                let result = result.map_err(|error| internal(&error.to_string()));
                let _ = responder.respond_with_result(result);
                Ok(())
            })
        },
        on_receive_request!(),
    );
    builder.on_receive_request(
        async move |request: RequestPermissionRequest, responder, agent| {
            let (services, broker, shared) =
                (Arc::clone(&services), broker.clone(), Arc::clone(&shared));
            agent.spawn(async move {
                let outcome = services.permission(request, &broker, &shared).await;
                let _ = responder.respond(RequestPermissionResponse::new(outcome));
                Ok(())
            })
        },
        on_receive_request!(),
    )
}

fn no_terminal() -> Error {
    Error::new(-32602, "unknown terminal id")
}

fn status((code, signal): (Option<i32>, Option<i32>)) -> TerminalExitStatus {
    TerminalExitStatus::new()
        .exit_code(code.and_then(|c| u32::try_from(c).ok()))
        .signal(signal.map(|s| s.to_string()))
}

#[cfg(test)]
mod tests {
    use super::line_range;

    #[test]
    fn lines_of_a_file_are_counted_from_one() {
        let text = || "a\nb\nc".to_owned();
        assert_eq!(line_range(text(), None, None), "a\nb\nc");
        assert_eq!(line_range(text(), Some(2), None), "b\nc");
        assert_eq!(line_range(text(), Some(1), Some(2)), "a\nb\n");
        assert_eq!(line_range(text(), None, Some(0)), "");
        assert_eq!(line_range(text(), Some(9), Some(2)), "");
    }
}
