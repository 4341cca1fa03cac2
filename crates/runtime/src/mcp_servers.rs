//! MCP servers that the host offers to an agent when a session is opened (OD-11). The agent
//! connects to them itself, so a program runs in the agent's own sandbox.

use agent_client_protocol::v1::schema::{
    EnvVariable, HttpHeader, McpCapabilities, McpServer as AcpServer, McpServerHttp, McpServerSse,
    McpServerStdio,
};
use serde_json::{Map, Value};

use crate::bundle::Bundle;
use crate::error::{Code, Error};
use agentproto_manifest::to_json;
use agentproto_text::redact::SecretRedactor;
use agentproto_text::redact::may_name_secret;

/// Maximum number of MCP servers per session.
const MAX_SERVERS: usize = 64;
/// Maximum length of one text in a descriptor, in bytes.
const MAX_TEXT: usize = 64 << 10;
/// Shorter values are not masked: they would hide parts of ordinary words.
const MIN_SECRET: usize = 4;

/// The descriptor of an MCP server.
#[derive(Clone, PartialEq, Eq)]
pub struct McpServer(AcpServer);

/// Names only, because variables and headers contain secrets.
impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "McpServer({})", self.name())
    }
}

impl McpServer {
    /// Reads descriptors: one as in ACP (`{"name", "command", "args", "env"}` or
    /// `{"type": "http"|"sse", "name", "url", "headers"}`), a list of them, or the `mcpServers`
    /// object that other clients use in their configuration. `env` and `headers` are objects, or
    /// lists of `{"name", "value"}`.
    pub fn parse(value: &Value) -> Result<Vec<McpServer>, Error> {
        let servers = match value {
            Value::Array(list) => list.iter().map(|one| descriptor(None, one)).collect(),
            Value::Object(object) => match object.get("mcpServers") {
                Some(Value::Object(named)) => named
                    .iter()
                    .map(|(name, one)| descriptor(Some(name), one))
                    .collect(),
                Some(list @ Value::Array(_)) => return McpServer::parse(list),
                Some(_) => Err(invalid("`mcpServers` must be an object or a list")),
                None => descriptor(None, value).map(|one| vec![one]),
            },
            _ => Err(invalid("expected an object or a list of objects")),
        };
        let servers: Vec<McpServer> = servers?;
        check_names(&servers)?;
        Ok(servers)
    }

    /// The servers of a manifest, from `metadata.agentproto.mcp_servers`.
    pub fn from_manifest(bundle: &Bundle) -> Result<Vec<McpServer>, Error> {
        let Some(node) = bundle.root().at(&["metadata", "agentproto", "mcp_servers"]) else {
            return Ok(Vec::new());
        };
        McpServer::parse(&to_json(node)).map_err(|error| bundle.invalid(node, &error.message))
    }

    /// The name of the server.
    pub fn name(&self) -> &str {
        match &self.0 {
            AcpServer::Http(server) => &server.name,
            AcpServer::Sse(server) => &server.name,
            AcpServer::Stdio(server) => &server.name,
            _ => "",
        }
    }

    /// Whether the agent starts a program to reach the server.
    pub fn is_program(&self) -> bool {
        matches!(self.0, AcpServer::Stdio(_))
    }

    /// Masks the secrets of the descriptor: headers, and variables whose name suggests a secret.
    pub(crate) fn mask(&self, masks: &SecretRedactor) {
        let add = |value: &str| {
            if value.len() >= MIN_SECRET {
                masks.add(value);
            }
        };
        match &self.0 {
            AcpServer::Stdio(server) => {
                let secret = server.env.iter().filter(|one| may_name_secret(&one.name));
                secret.for_each(|one| add(&one.value));
            }
            AcpServer::Http(McpServerHttp { headers, .. })
            | AcpServer::Sse(McpServerSse { headers, .. }) => {
                for header in headers {
                    add(&header.value);
                    // The credential of `Authorization: Bearer …`.
                    if let Some((_, credential)) = header.value.trim().split_once(' ') {
                        add(credential);
                    }
                }
            }
            _ => {}
        }
    }

    /// The descriptor as sent to the agent. Every agent supports programs. The other transports
    /// are optional.
    pub(crate) fn offered_to(&self, agent: &McpCapabilities) -> Result<AcpServer, Error> {
        let (transport, supported) = match &self.0 {
            AcpServer::Http(_) => ("http", agent.http),
            AcpServer::Sse(_) => ("sse", agent.sse),
            _ => ("stdio", true),
        };
        if supported {
            return Ok(self.0.clone());
        }
        let what = format!(
            "the MCP server `{}` uses the transport {transport}, which the agent does not support (ACP, mcpCapabilities)",
            self.name()
        );
        Err(Error::new(Code::CapabilityMismatch, what)
            .hint("use a stdio server, for example a bridge program, or another agent"))
    }
}

/// Checks that each name occurs once, and limits the number of servers.
pub(crate) fn check_names(servers: &[McpServer]) -> Result<(), Error> {
    if servers.len() > MAX_SERVERS {
        return Err(invalid(&format!("more than {MAX_SERVERS} servers")));
    }
    for (at, server) in servers.iter().enumerate() {
        let name = server.name();
        if servers
            .iter()
            .skip(at + 1)
            .any(|other| other.name() == name)
        {
            return Err(invalid(&format!("duplicate name `{name}`")));
        }
    }
    Ok(())
}

fn invalid(what: &str) -> Error {
    Error::new(
        Code::McpServerInvalid,
        format!("invalid MCP server descriptor: {what}"),
    )
    .hint("write {\"name\": …, \"command\": …, \"args\": […], \"env\": {…}} or {\"type\": \"http\", \"name\": …, \"url\": …}")
}

fn descriptor(name: Option<&str>, value: &Value) -> Result<McpServer, Error> {
    let Value::Object(object) = value else {
        return Err(invalid("a server must be an object"));
    };
    let name = match name {
        Some(name) => name.to_owned(),
        None => text(object, "name")?,
    };
    if name.is_empty() || name.len() > 256 {
        return Err(invalid("`name` must have between 1 and 256 bytes"));
    }
    let at = |error: Error| Error {
        message: format!("{} (server `{name}`)", error.message),
        ..error
    };
    let kind = match object.get("type") {
        None | Some(Value::Null) if object.contains_key("url") => "http",
        None | Some(Value::Null) => "stdio",
        Some(Value::String(kind)) => kind,
        Some(_) => return Err(at(invalid("`type` must be a string"))),
    };
    let server = match kind {
        "stdio" => program(&name, object).map(AcpServer::Stdio),
        "http" | "streamable-http" => address(object).map(|(url, headers)| {
            AcpServer::Http(McpServerHttp::new(name.clone(), url).headers(headers))
        }),
        "sse" => address(object).map(|(url, headers)| {
            AcpServer::Sse(McpServerSse::new(name.clone(), url).headers(headers))
        }),
        other => Err(invalid(&format!(
            "unknown type `{other}`; known types are stdio, http and sse"
        ))),
    };
    server.map(McpServer).map_err(at)
}

fn program(name: &str, object: &Map<String, Value>) -> Result<McpServerStdio, Error> {
    let command = text(object, "command")?;
    if command.is_empty() {
        return Err(invalid("`command` is empty"));
    }
    let args = match object.get("args") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(list)) => list
            .iter()
            .map(|arg| checked("args", arg))
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(invalid("`args` must be a list of strings")),
    };
    let env = pairs(object, "env")?.into_iter();
    if let Some((name, _)) = env.clone().find(|(name, _)| name.contains('=')) {
        return Err(invalid(&format!("`{name}` is not a variable name")));
    }
    let env = env.map(|(name, value)| EnvVariable::new(name, value));
    Ok(McpServerStdio::new(name, command)
        .args(args)
        .env(env.collect()))
}

fn address(object: &Map<String, Value>) -> Result<(String, Vec<HttpHeader>), Error> {
    let url = text(object, "url")?;
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(invalid("`url` must start with http:// or https://"));
    }
    let headers = pairs(object, "headers")?.into_iter();
    let headers = headers.map(|(name, value)| HttpHeader::new(name, value));
    Ok((url, headers.collect()))
}

fn text(object: &Map<String, Value>, key: &str) -> Result<String, Error> {
    match object.get(key) {
        Some(value) => checked(key, value),
        None => Err(invalid(&format!("`{key}` is missing"))),
    }
}

/// A text that can be passed to a process.
fn checked(key: &str, value: &Value) -> Result<String, Error> {
    match value {
        Value::String(text) if text.contains('\0') => {
            Err(invalid(&format!("`{key}` contains a NUL byte")))
        }
        Value::String(text) if text.len() > MAX_TEXT => {
            Err(invalid(&format!("`{key}` is longer than {MAX_TEXT} bytes")))
        }
        Value::String(text) => Ok(text.clone()),
        _ => Err(invalid(&format!("`{key}` must be a string"))),
    }
}

/// Names and values, from an object or from a list of `{"name", "value"}`.
fn pairs(object: &Map<String, Value>, key: &str) -> Result<Vec<(String, String)>, Error> {
    let named = |name: String, value: String| match name.is_empty() {
        true => Err(invalid(&format!("`{key}` has an empty name"))),
        false => Ok((name, value)),
    };
    match object.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(entries)) => entries
            .iter()
            .map(|(name, value)| named(checked(key, &name.as_str().into())?, checked(key, value)?))
            .collect(),
        Some(Value::Array(list)) => list
            .iter()
            .map(|entry| {
                let entry = entry.as_object();
                let entry =
                    entry.ok_or_else(|| invalid(&format!("`{key}` must contain objects")))?;
                named(text(entry, "name")?, text(entry, "value")?)
            })
            .collect(),
        Some(_) => Err(invalid(&format!("`{key}` must be an object or a list"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sent(value: Value) -> Vec<Value> {
        let all = McpCapabilities::new().http(true).sse(true);
        let servers = McpServer::parse(&value).expect("valid");
        let one = |server: &McpServer| {
            let sent = server.offered_to(&all).expect("supported");
            serde_json::to_value(sent).expect("JSON")
        };
        servers.iter().map(one).collect()
    }

    #[test]
    fn all_spellings_of_a_descriptor_mean_the_same() {
        let expected = json!({
            "name": "files", "command": "/bin/files", "args": ["--root", "."],
            "env": [{ "name": "A", "value": "1" }],
        });
        for spelling in [
            expected.clone(),
            json!([expected]),
            json!({ "name": "files", "type": "stdio", "command": "/bin/files", "args": ["--root", "."], "env": { "A": "1" } }),
            json!({ "mcpServers": { "files": { "command": "/bin/files", "args": ["--root", "."], "env": { "A": "1" } } } }),
        ] {
            assert_eq!(
                sent(spelling.clone()),
                std::slice::from_ref(&expected),
                "{spelling}"
            );
        }
        let http = json!({ "mcpServers": { "web": { "url": "https://x.test/mcp", "headers": { "Authorization": "Bearer abcd" } } } });
        assert_eq!(
            sent(http),
            [
                json!({ "type": "http", "name": "web", "url": "https://x.test/mcp",
                "headers": [{ "name": "Authorization", "value": "Bearer abcd" }] })
            ]
        );
    }

    #[test]
    fn invalid_descriptors_are_refused_with_the_reason() {
        for (value, expected) in [
            (json!(7), "an object or a list"),
            (json!([7]), "must be an object"),
            (json!({ "command": "x" }), "`name` is missing"),
            (json!({ "name": "x" }), "`command` is missing"),
            (json!({ "name": "x", "command": "" }), "`command` is empty"),
            (json!({ "name": "x", "command": "a\0b" }), "NUL byte"),
            (
                json!({ "name": "x", "command": "a", "args": "b" }),
                "`args` must be a list",
            ),
            (
                json!({ "name": "x", "command": "a", "env": { "A=B": "1" } }),
                "not a variable name",
            ),
            (
                json!({ "name": "x", "command": "a", "env": { "A": 1 } }),
                "`env` must be a string",
            ),
            (
                json!({ "name": "x", "type": "ws", "url": "ws://x" }),
                "unknown type `ws`",
            ),
            (
                json!({ "name": "x", "type": "sse", "url": "file:///x" }),
                "must start with http",
            ),
            (
                json!([{ "name": "x", "command": "a" }, { "name": "x", "command": "b" }]),
                "duplicate name `x`",
            ),
        ] {
            let error = McpServer::parse(&value).expect_err("invalid");
            assert_eq!(error.code, Code::McpServerInvalid);
            assert!(
                error.message.contains(expected),
                "{value}: {}",
                error.message
            );
        }
    }

    #[test]
    fn optional_transports_need_the_agents_support() {
        let none = McpCapabilities::new();
        for (kind, supported) in [("stdio", true), ("http", false), ("sse", false)] {
            let value =
                json!({ "name": "x", "type": kind, "command": "a", "url": "http://x.test" });
            let server = McpServer::parse(&value).expect("valid").remove(0);
            match server.offered_to(&none) {
                Ok(_) => assert!(supported, "{kind}"),
                Err(error) => {
                    assert!(!supported, "{kind}");
                    assert_eq!(error.code, Code::CapabilityMismatch);
                }
            }
        }
    }

    #[test]
    fn secrets_of_a_descriptor_are_masked() {
        let masks = SecretRedactor::default();
        let value = json!([
            { "name": "a", "command": "x", "env": { "API_KEY": "sk-canary-1", "LEVEL": "debug" } },
            { "name": "b", "url": "https://x.test", "headers": { "Authorization": "Bearer sk-canary-2" } },
        ]);
        for server in McpServer::parse(&value).expect("valid") {
            assert!(!format!("{server:?}").contains("canary"));
            server.mask(&masks);
        }
        let masked = masks.mask("sk-canary-1, sk-canary-2, debug").into_owned();
        assert!(
            !masked.contains("canary") && masked.contains("debug"),
            "{masked}"
        );
    }
}
