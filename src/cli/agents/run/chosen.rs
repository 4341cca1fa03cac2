//! What the command line chooses: mode, options, model, continuation and MCP servers.

use serde_json::Value;

use super::Run;
use agentproto_runtime::choices::{Choices, OptionValue, Strategy};
use agentproto_runtime::mcp_servers::McpServer;
use agentproto_runtime::{Code, Error};

/// The choices of the command line and of the OPERATOR.md. `--resume` selects `native-resume`.
pub fn choices(args: &Run) -> Result<Choices, Error> {
    let given = args.option.iter();
    let resumes = args.resume.as_ref().map(|_| Strategy::NativeResume);
    let continuation = args.continuation.clone();
    let from_line = Choices {
        mode: args.mode.clone(),
        continuation: continuation.or_else(|| resumes.map(|s| s.as_str().to_owned())),
        model: args.model.clone(),
        options: given
            .map(|(id, text)| (id.clone(), OptionValue::Text(text.clone())))
            .collect(),
        ..Choices::default()
    };
    Ok(match &args.operator {
        Some(path) => Choices::from_operator(path)?.overridden_by(from_line),
        None => from_line,
    })
}

/// The servers of `--mcp-server`.
pub fn mcp_servers(args: &Run) -> Result<Vec<McpServer>, Error> {
    let mut servers = Vec::new();
    for given in &args.mcp_server {
        servers.extend(McpServer::parse(&mcp_server_json(given)?)?);
    }
    Ok(servers)
}

/// A value of `--mcp-server`: a JSON descriptor, or a file with descriptors.
pub fn mcp_server_json(given: &str) -> Result<Value, Error> {
    let is_json = given.trim_start().starts_with(['{', '[']);
    let invalid = |what: String| {
        let what = match is_json {
            true => format!("`--mcp-server`: {what}"),
            false => format!("{given}: {what}"),
        };
        Error::new(Code::McpServerInvalid, what)
            .hint("give a JSON descriptor, or the path of a file that contains descriptors")
    };
    let text = match is_json {
        true => given.to_owned(),
        false => std::fs::read_to_string(given).map_err(|e| invalid(e.to_string()))?,
    };
    serde_json::from_str(&text).map_err(|e| invalid(format!("invalid JSON: {e}")))
}
