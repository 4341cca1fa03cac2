//! The tools, resources and prompts that the MCP conformance suite expects, behind the router of
//! the daemon: the same access checks, limits and routes, but a different handler.
//! `tests/mcp_conformance/run` starts this program with the path of a file, to which it writes its
//! address and its token.
#![expect(
    deprecated,
    reason = "the suite still tests logging and sampling of older revisions"
)]

use std::sync::Arc;
use std::time::Duration;

use agentproto_daemon::http::server::{self, ServerLimits};
use agentproto_daemon::http::{self, AppState, HostNames};
use agentproto_daemon::{HostConfig, Registry, mcp};
use agentproto_runtime::home::Home;
use axum::Router;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CreateMessageRequestParams,
    CustomRequest, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ServerCapabilities, ServerConfig, ServerNotification, ServerRequest,
    SetLevelRequestParams, SubscribeRequestParams, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A PNG image with one red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";
/// A WAV file without samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

#[derive(Clone)]
struct Fixtures;

/// Parses a result from JSON as sent on the wire. Older revisions get no `resultType`.
fn read<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    value["resultType"] = json!("complete");
    serde_json::from_value(value).map_err(|e| ErrorData::internal_error(e.to_string(), None))
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn image() -> Value {
    json!({ "type": "image", "data": PNG, "mimeType": "image/png" })
}

fn embedded(uri: &str, kind: &str, text: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "text": text } })
}

fn tools() -> Vec<Tool> {
    let plain = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_tool_with_logging",
        "test_tool_with_progress",
        "test_error_handling",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_logging_tool",
        "test_reconnection",
    ];
    let tool = |name: &'static str, schema: Value| {
        let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
        Tool::new(name, format!("Fixture {name}"), Arc::new(schema))
    };
    let one = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    let mut tools: Vec<Tool> = plain
        .into_iter()
        .map(|name| tool(name, json!({ "type": "object", "properties": {} })))
        .collect();
    tools.push(tool("test_sampling", one("prompt")));
    tools.push(tool("test_elicitation", one("message")));
    // Uses the keywords of JSON Schema 2020-12 that a server must preserve.
    tools.push(tool(
        "json_schema_2020_12_tool",
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": { "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            } },
            "properties": {
                "name": { "type": "string" },
                "address": { "$ref": "#/$defs/address" },
                "contactMethod": { "type": "string", "enum": ["phone", "email"] },
                "phone": { "type": "string" },
                "email": { "type": "string" },
            },
            "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
            "if": {
                "properties": { "contactMethod": { "const": "phone" } },
                "required": ["contactMethod"],
            },
            "then": { "required": ["phone"] },
            "else": { "required": ["email"] },
            "additionalProperties": false,
        }),
    ));
    tools
}

/// Asks the client's user, and returns the answer.
async fn elicit(peer: &Peer<RoleServer>, said: &str, message: &str, schema: Value) -> Value {
    let params = json!({ "message": message, "requestedSchema": schema });
    let request = CustomRequest::new("elicitation/create", Some(params));
    match peer
        .send_request(ServerRequest::CustomRequest(request))
        .await
    {
        Ok(answer) => {
            let answer = serde_json::to_value(answer).unwrap_or_default();
            let (action, content) = (&answer["action"], &answer["content"]);
            let action = action.as_str().unwrap_or("unknown");
            json!({ "content": [text(&format!("{said}: action={action}, content={content}"))] })
        }
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(why: &str) -> Value {
    json!({ "content": [text(why)], "isError": true })
}

fn with_defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "default": "John Doe" },
            "age": { "type": "integer", "default": 30 },
            "score": { "type": "number", "default": 95.5 },
            "status": {
                "type": "string", "enum": ["active", "inactive", "pending"], "default": "active",
            },
            "verified": { "type": "boolean", "default": true },
        },
        "required": [],
    })
}

fn with_enums() -> Value {
    let plain = json!(["option1", "option2", "option3"]);
    let titled = json!([
        { "const": "value1", "title": "First Option" },
        { "const": "value2", "title": "Second Option" },
        { "const": "value3", "title": "Third Option" },
    ]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": plain },
            "titledSingle": { "type": "string", "oneOf": titled },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled } },
        },
        "required": [],
    })
}

async fn notify(peer: &Peer<RoleServer>, notification: Value) {
    if let Ok(notification) = serde_json::from_value::<ServerNotification>(notification) {
        let _ = peer.send_notification(notification).await;
    }
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

async fn logged(peer: &Peer<RoleServer>) -> Value {
    let steps = [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ];
    for step in steps {
        let params = json!({ "level": "info", "data": step });
        let told = json!({ "method": "notifications/message", "params": params });
        notify(peer, told).await;
        pause().await;
    }
    json!({ "content": [text("Three steps were logged.")] })
}

async fn progressed(context: &RequestContext<RoleServer>) -> Value {
    let token = context.meta.get_progress_token();
    for progress in [0, 50, 100] {
        if let Some(token) = &token {
            let params = json!({ "progressToken": token, "progress": progress, "total": 100 });
            let told = json!({ "method": "notifications/progress", "params": params });
            notify(&context.peer, told).await;
        }
        pause().await;
    }
    json!({ "content": [text("Progress was reported.")] })
}

async fn sampled(peer: &Peer<RoleServer>, prompt: &str) -> Value {
    let params = json!({
        "messages": [{ "role": "user", "content": text(prompt) }],
        "maxTokens": 100,
    });
    let Ok(params) = serde_json::from_value::<CreateMessageRequestParams>(params) else {
        return failed("the request cannot be sent");
    };
    match peer.create_message(params).await {
        Ok(answer) => {
            let answer = serde_json::to_value(answer).unwrap_or_default();
            let said = answer["content"]["text"].as_str().unwrap_or_default();
            json!({ "content": [text(&format!("LLM response: {said}"))] })
        }
        Err(error) => failed(&error.to_string()),
    }
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_logging()
            .enable_completions()
            .build();
        ServerConfig::new(capabilities)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools().into_iter().find(|tool| tool.name == name)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let given = |name: &str| {
            let value = request.arguments.as_ref().and_then(|a| a.get(name));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let peer = &context.peer;
        let content = |blocks: Value| json!({ "content": blocks });
        let result = match &*request.name {
            "test_simple_text" => {
                content(json!([text("This is a simple text response for testing.")]))
            }
            "test_image_content" => content(json!([image()])),
            "test_audio_content" => content(json!([
                { "type": "audio", "data": WAV, "mimeType": "audio/wav" }
            ])),
            "test_embedded_resource" => content(json!([embedded(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content."
            )])),
            "test_multiple_content_types" => content(json!([
                text("Multiple content types test:"),
                image(),
                embedded(
                    "test://mixed-content-resource",
                    "application/json",
                    r#"{"test":"data","value":123}"#
                ),
            ])),
            "test_tool_with_logging" => logged(peer).await,
            "test_tool_with_progress" => progressed(&context).await,
            "test_error_handling" => failed("This tool intentionally returns an error for testing"),
            "test_sampling" => sampled(peer, &given("prompt")).await,
            "test_elicitation" => {
                let field = |what: &str| json!({ "type": "string", "description": what });
                let schema = json!({
                    "type": "object",
                    "properties": {
                        "username": field("User's response"),
                        "email": field("User's email address"),
                    },
                    "required": ["username", "email"],
                });
                elicit(peer, "User response", &given("message"), schema).await
            }
            "test_elicitation_sep1034_defaults" => {
                elicit(peer, "Elicitation completed", "Defaults", with_defaults()).await
            }
            "test_elicitation_sep1330_enums" => {
                elicit(peer, "Elicitation completed", "Choices", with_enums()).await
            }
            "test_logging_tool" | "test_reconnection" | "json_schema_2020_12_tool" => {
                content(json!([text("Nothing is logged, nothing is closed.")]))
            }
            name => {
                let what = format!("unknown tool `{name}`");
                return Err(ErrorData::invalid_params(what, None));
            }
        };
        Ok(read::<CallToolResult>(result)?.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resource = |uri: &str, kind: &str| json!({ "uri": uri, "name": uri, "description": "A fixture", "mimeType": kind });
        read(json!({ "resources": [
            resource("test://static-text", "text/plain"),
            resource("test://static-binary", "image/png"),
            resource("test://watched-resource", "text/plain"),
        ] }))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        read(json!({ "resourceTemplates": [{
            "uriTemplate": "test://template/{id}/data",
            "name": "A template",
            "mimeType": "application/json",
        }] }))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.as_str();
        let id = uri
            .strip_prefix("test://template/")
            .and_then(|rest| rest.strip_suffix("/data"));
        let contents = match (uri, id) {
            ("test://static-text", _) => json!({
                "uri": uri, "mimeType": "text/plain",
                "text": "This is the content of the static text resource.",
            }),
            ("test://static-binary", _) => {
                json!({ "uri": uri, "mimeType": "image/png", "blob": PNG })
            }
            ("test://watched-resource", _) => {
                json!({ "uri": uri, "mimeType": "text/plain", "text": "Watched." })
            }
            (_, Some(id)) => {
                let data = json!({
                    "id": id, "templateTest": true, "data": format!("Data for ID: {id}"),
                });
                json!({ "uri": uri, "mimeType": "application/json", "text": data.to_string() })
            }
            _ => {
                let data = Some(json!({ "uri": uri }));
                return Err(ErrorData::resource_not_found("unknown resource", data));
            }
        };
        Ok(read::<ReadResourceResult>(json!({ "contents": [contents] }))?.into())
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let argument = |name: &str| json!({ "name": name, "required": true });
        let prompt = |name: &str, arguments: Value| json!({ "name": name, "description": "A fixture", "arguments": arguments });
        read(json!({ "prompts": [
            prompt("test_simple_prompt", json!([])),
            prompt("test_prompt_with_arguments", json!([argument("arg1"), argument("arg2")])),
            prompt("test_prompt_with_embedded_resource", json!([argument("resourceUri")])),
            prompt("test_prompt_with_image", json!([])),
        ] }))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let given = serde_json::to_value(&request.arguments).unwrap_or_default();
        let given = |name: &str| given[name].as_str().unwrap_or_default().to_owned();
        let blocks = match request.name.as_str() {
            "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
            "test_prompt_with_arguments" => vec![text(&format!(
                "Prompt with arguments: arg1='{}', arg2='{}'",
                given("arg1"),
                given("arg2")
            ))],
            "test_prompt_with_embedded_resource" => vec![
                embedded(
                    &given("resourceUri"),
                    "text/plain",
                    "Embedded resource content for testing.",
                ),
                text("Please process the embedded resource above."),
            ],
            "test_prompt_with_image" => vec![image(), text("Please analyze the image above.")],
            name => {
                let what = format!("unknown prompt `{name}`");
                return Err(ErrorData::invalid_params(what, None));
            }
        };
        let messages: Vec<Value> = blocks
            .into_iter()
            .map(|block| json!({ "role": "user", "content": block }))
            .collect();
        Ok(read::<GetPromptResult>(json!({ "messages": messages }))?.into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args()
        .nth(1)
        .ok_or("missing argument: the file to write to")?;
    let home = tempfile::tempdir()?;
    let (registry, _) = Registry::open(HostConfig::new(Home::new(home.path())))?;
    let token = "of-the-fixtures".to_owned();
    let door = Arc::new(AppState::new(registry, token.clone(), HostNames::default()));
    let service = mcp::over_http(|| Fixtures);
    let app = http::router(door, Router::new().fallback_service(service));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let told = json!({ "url": url, "token": token }).to_string();
    std::fs::write(format!("{file}.new"), told)?;
    std::fs::rename(format!("{file}.new"), file)?;
    let (_going, stop) = tokio::sync::watch::channel(false);
    server::serve(listener, app, None, ServerLimits::default(), stop).await;
    Ok(())
}
