//! The tools of CLI bundles (AIP-29) as MCP tools. Each call runs in the sandbox of its bundle and is
//! in the audit log.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolResult, ClientResult, ContentBlock, ElicitRequest, ElicitRequestParams,
    ElicitationAction, ElicitationSchema, ErrorCode, ErrorData, JsonObject,
    ProgressNotificationParam, ServerRequest, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::protocol_error;
use agentproto_runtime::tool::{
    CallOptions, CallResult, Format, OutputChunk, ToolBundle, ToolCommand,
};
use agentproto_runtime::{Code, Error};

/// Maximum length of a tool name, as most clients allow.
const MAX_NAME: usize = 64;
/// Maximum number of calls at a time. Further calls wait.
const MAX_CALLS: usize = 32;
/// Maximum number of bytes of output in a result. It goes into the context of a model.
const MAX_OUTPUT: usize = 1 << 20;
/// Maximum number of characters of stderr in an error.
const MAX_STDERR: usize = 4000;
/// Minimum time between two progress notifications.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of characters of a progress message.
const MAX_PROGRESS: usize = 200;
/// Time limit for the user's answer about a login.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(300);

/// The tools of several bundles.
pub struct BundleTools {
    tools: Vec<Tool>,
    /// The bundle and the index of the command, for each tool.
    commands: Vec<(Arc<ToolBundle>, usize)>,
    calls: Semaphore,
}

impl BundleTools {
    /// Offers the tools of these bundles. Also returns why some of them are not offered.
    pub fn new(bundles: Vec<ToolBundle>) -> (BundleTools, Vec<String>) {
        let mut found = BundleTools {
            tools: Vec::new(),
            commands: Vec::new(),
            calls: Semaphore::new(MAX_CALLS),
        };
        let mut warnings = Vec::new();
        let mut names = BTreeSet::new();
        for bundle in bundles.into_iter().map(Arc::new) {
            for (index, command) in bundle.commands().iter().enumerate() {
                let name = name(&bundle, command);
                let left_out = |why: &str| format!("the tool `{name}` is not offered: {why}");
                if let Some(problem) = command.problem() {
                    warnings.push(left_out(&problem.message));
                } else if name.len() > MAX_NAME {
                    warnings.push(left_out("its name is longer than 64 characters"));
                } else if !names.insert(name.clone()) {
                    warnings.push(left_out("another tool has the same name"));
                } else {
                    found.tools.push(tool(&bundle, command, name));
                    found.commands.push((Arc::clone(&bundle), index));
                }
            }
        }
        (found, warnings)
    }

    /// The tools, in the order of the bundles.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Calls a tool. `None` if no tool has that name. `can_ask` is whether requests to the
    /// client arrive.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: Option<JsonObject>,
        context: &RequestContext<RoleServer>,
        can_ask: bool,
    ) -> Option<Result<CallToolResult, ErrorData>> {
        let index = self.tools.iter().position(|tool| tool.name == name)?;
        let (bundle, command) = self.commands.get(index)?;
        let command = bundle.commands().get(*command)?;
        let has_schema = self.tools.get(index)?.output_schema.is_some();
        let input = Value::Object(arguments.unwrap_or_default());
        let calling = async {
            // The semaphore is never closed.
            let _slot = self.calls.acquire().await;
            let mut called = call_once(bundle, command, input.clone(), context).await;
            if can_ask
                && let Some(error) = login_error(&called)
                && log_in(bundle, error, context).await
            {
                called = call_once(bundle, command, input, context).await;
            }
            called
        };
        // Dropping the call kills the tool.
        let called = tokio::select! {
            called = calling => called,
            () = context.ct.cancelled() => {
                let hint = "the tool was killed; call it again if you still need it";
                return Some(Err(protocol_error(
                    ErrorCode::INTERNAL_ERROR,
                    "the call was canceled",
                    hint,
                )));
            }
        };
        Some(Ok(match called {
            Err(error) => failure(&error, None),
            Ok(result) => match &result.error {
                Some(error) => failure(error, Some(&result)),
                None => success(&result, has_schema),
            },
        }))
    }
}

/// Bundle id and command path, for example `gh_pr_list`.
fn name(bundle: &ToolBundle, command: &ToolCommand) -> String {
    let id = bundle.context().bundle.common().id().unwrap_or_default();
    let words = [id]
        .into_iter()
        .chain(command.path.iter().map(String::as_str));
    let name = words.collect::<Vec<_>>().join("_");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .collect()
}

fn tool(bundle: &ToolBundle, command: &ToolCommand, name: String) -> Tool {
    let mut input = match &command.inputs {
        Value::Object(schema) => schema.clone(),
        _ => JsonObject::new(),
    };
    input.entry("type").or_insert_with(|| json!("object"));
    let about = command.annotations;
    let annotations = ToolAnnotations::with_title(&command.name)
        .read_only(about.read_only)
        .destructive(about.destructive)
        .idempotent(about.idempotent)
        .open_world(about.open_world);
    let tool = Tool::new(name, command.description.clone(), Arc::new(input))
        .with_title(&command.name)
        .with_annotations(annotations);
    // MCP requires an object, and results that match the schema.
    match &command.outputs {
        Some(Value::Object(schema))
            if schema.get("type") == Some(&json!("object")) && bundle.is_structured() =>
        {
            tool.with_raw_output_schema(Arc::new(schema.clone()))
        }
        _ => tool,
    }
}

async fn call_once(
    bundle: &ToolBundle,
    command: &ToolCommand,
    input: Value,
    context: &RequestContext<RoleServer>,
) -> Result<CallResult, Error> {
    let (sender, chunks) = mpsc::channel(8);
    let token = context.meta.get_progress_token();
    let options = CallOptions {
        keep: MAX_OUTPUT,
        output: token.is_some().then_some(sender),
        ..CallOptions::default()
    };
    let calling = bundle.call(command, input, options);
    let Some(token) = token else {
        return calling.await;
    };
    let reporting = report_progress(context, token, chunks);
    let (called, ()) = tokio::join!(calling, reporting);
    called
}

/// Sends the last line of the output as progress, until the tool has ended.
async fn report_progress(
    context: &RequestContext<RoleServer>,
    token: rmcp::model::ProgressToken,
    mut chunks: mpsc::Receiver<OutputChunk>,
) {
    let mut last: Option<Instant> = None;
    let mut received = 0.0;
    while let Some(chunk) = chunks.recv().await {
        received += chunk.bytes.len() as f64;
        if last.is_some_and(|last| last.elapsed() < PROGRESS_INTERVAL) {
            continue;
        }
        last = Some(Instant::now());
        let text = String::from_utf8_lossy(&chunk.bytes);
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        let line: String = line
            .unwrap_or_default()
            .chars()
            .take(MAX_PROGRESS)
            .collect();
        let progress = ProgressNotificationParam::new(token.clone(), received).with_message(line);
        // A client that does not take notifications still gets the result.
        let _ = context.peer.notify_progress(progress).await;
    }
}

fn login_error(called: &Result<CallResult, Error>) -> Option<&Error> {
    let error = match called {
        Ok(result) => result.error.as_ref(),
        Err(error) => Some(error),
    };
    error.filter(|error| error.code == Code::AuthRequired)
}

/// Asks the user of the client to log in. Returns whether to repeat the call.
async fn log_in(bundle: &ToolBundle, error: &Error, context: &RequestContext<RoleServer>) -> bool {
    let info = context.peer.peer_info();
    let asked = info.and_then(|info| info.capabilities.elicitation.clone());
    // Without a mode, the client supports forms.
    let has_forms = asked.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
    if !has_forms {
        return false;
    }
    let unattended = bundle.can_log_in_unattended();
    let next = match unattended {
        true => "Accept to log in now.".to_owned(),
        false => format!(
            "{}. Accept when you have logged in.",
            error
                .hint
                .as_deref()
                .unwrap_or("Log in with the program itself")
        ),
    };
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: format!("{}. {next}", error.message),
        requested_schema: ElicitationSchema::new(Default::default()),
    };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    let answer = tokio::time::timeout(LOGIN_TIMEOUT, context.peer.send_request(request)).await;
    let accepted = matches!(
        answer,
        Ok(Ok(ClientResult::ElicitResult(answer))) if answer.action == ElicitationAction::Accept
    );
    accepted && (!unattended || bundle.log_in().await.is_ok())
}

fn success(result: &CallResult, has_schema: bool) -> CallToolResult {
    let mismatch = result
        .warnings
        .iter()
        .find(|w| w.code == "output_schema_mismatch");
    if let (true, Some(mismatch)) = (has_schema, mismatch) {
        let what = format!("{}: {}", mismatch.code, mismatch.message);
        let error = Error::new(Code::OutputInvalid, what)
            .hint("the tool has run and succeeded: do not repeat the call if it changes something");
        return failure(&error, Some(result));
    }
    let warnings = result.warnings.iter().map(|warning| {
        ContentBlock::text(format!("warning: {}: {}", warning.code, warning.message))
    });
    let mut answer = match (&result.value, result.format) {
        (Some(value @ Value::Object(_)), _) => CallToolResult::structured(value.clone()),
        (Some(value), _) => CallToolResult::structured(json!({ "value": value })),
        (None, Format::Binary) => {
            let json = result.json();
            CallToolResult::structured(json!({ "base64": json["base64"] }))
        }
        (None, _) => {
            let text = result.text().unwrap_or_default();
            CallToolResult::success(vec![ContentBlock::text(text)])
        }
    };
    answer.content.extend(warnings);
    answer
}

/// An error for the client's model: what happened, and what to do next.
fn failure(error: &Error, result: Option<&CallResult>) -> CallToolResult {
    let mut fields = json!({ "code": error.code.as_str(), "message": error.message });
    if let Some(hint) = &error.hint {
        fields["hint"] = json!(hint);
    }
    if !error.details.is_null() {
        fields["details"] = (*error.details).clone();
    }
    let mut answer = json!({ "error": fields });
    if let Some(result) = result {
        answer["exit_code"] = json!(result.exit_code);
        answer["meaning"] = json!(result.meaning);
        answer["stderr"] = json!(end_of(&result.stderr));
        match &result.value {
            Some(value) => answer["value"] = value.clone(),
            None => answer["stdout"] = json!(end_of(&result.text().unwrap_or_default())),
        }
    }
    CallToolResult::error(vec![ContentBlock::text(answer.to_string())])
}

fn end_of(text: &str) -> String {
    let over = text.chars().count().saturating_sub(MAX_STDERR);
    text.chars().skip(over).collect()
}
