//! The tools that the mock offers to a model: its own, and those of the MCP servers.

use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

use super::AcpOutput;
use crate::scenario::{FsRead, PermissionRequest, PlanEntry, TerminalCommand, usual_options};
use crate::turn::{PermissionDecision, TurnEnd, TurnOutput, small_file};

/// Name, required arguments and optional arguments of the mock's own tools.
const OWN: [(&str, &[&str], &[&str]); 6] = [
    ("list_directory", &["dir_path"], &[]),
    ("read_file", &["file_path"], &[]),
    ("write_file", &["file_path", "content"], &[]),
    ("run_shell_command", &["command"], &["description"]),
    ("update_plan", &["plan"], &[]),
    (TASK, &["prompt"], &["description", "subagent_type"]),
];
/// The tool that starts a sub-agent.
const TASK: &str = "task";

/// Result of a tool, or the reason for a failure.
type ToolResult = Result<String, String>;

impl AcpOutput {
    /// All tools, in the format of Chat Completions. A sub-agent cannot start another one.
    pub(super) fn offered_tools(&self, is_main: bool) -> Vec<Value> {
        let own = OWN.iter().filter(|(name, ..)| is_main || *name != TASK);
        let own = own.map(|(name, required, optional)| {
            let arguments = required.iter().chain(*optional).map(|argument| {
                let kind = if *argument == "plan" {
                    "array"
                } else {
                    "string"
                };
                ((*argument).to_owned(), json!({ "type": kind }))
            });
            let properties: Map<String, Value> = arguments.collect();
            let schema =
                json!({ "type": "object", "properties": properties, "required": required });
            function(name, &schema)
        });
        let servers = self.servers.iter().flat_map(|server| {
            server.tools().iter().filter_map(|tool| {
                let name = tool.get("name").and_then(Value::as_str)?;
                let schema = tool.get("inputSchema").cloned().unwrap_or_default();
                Some(function(&mcp_name(server.name(), name), &schema))
            })
        });
        own.chain(servers).collect()
    }

    /// Runs a tool, and returns the text for the model.
    pub(super) fn run_tool(
        &mut self,
        address: &str,
        name: &str,
        arguments: &Value,
    ) -> Result<String, TurnEnd> {
        let word = |key: &str| {
            let text = arguments.get(key).and_then(Value::as_str);
            text.unwrap_or_default()
        };
        let result = match name {
            "list_directory" => self.list_directory(word("dir_path")),
            "read_file" => self.read_file(word("file_path")),
            "write_file" => self.write_file(word("file_path"), word("content")),
            "run_shell_command" => self.run_command(word("command")),
            "update_plan" => self.update_plan(arguments),
            TASK => self.run_task(address, word("prompt")),
            name => self.server_tool(name, arguments),
        }?;
        Ok(result.unwrap_or_else(|reason| format!("error: {reason}")))
    }

    /// Reports a tool call that runs without permission.
    fn begin_tool(&mut self, title: &str, kind: &str, input: &Value) -> Result<String, TurnEnd> {
        let id = self.new_call_id("tool");
        self.announce(json!({
            "sessionUpdate": "tool_call",
            "toolCallId": id,
            "title": title,
            "kind": kind,
            "status": "in_progress",
            "rawInput": input,
        }))?;
        Ok(id)
    }

    fn end_tool(&mut self, id: &str, result: ToolResult) -> Result<ToolResult, TurnEnd> {
        match &result {
            Ok(text) => self.finish_call(id, "completed", text)?,
            Err(reason) => self.finish_call(id, "failed", reason)?,
        }
        Ok(result)
    }

    /// Reports a tool call and asks for permission. Returns its id if it may run.
    fn permitted(
        &mut self,
        title: &str,
        kind: &str,
        input: &Value,
    ) -> Result<Result<String, String>, TurnEnd> {
        self.calls += 1;
        let own = format!("model-{}", self.calls);
        let id = self.call_id(&own);
        self.announce(json!({
            "sessionUpdate": "tool_call",
            "toolCallId": id,
            "title": title,
            "kind": kind,
            "status": "pending",
            "rawInput": input,
        }))?;
        let request = PermissionRequest {
            id: own,
            title: title.to_owned(),
            diff: None,
            options: usual_options(),
            on_allow: Vec::new(),
            on_reject: Vec::new(),
            on_error: Vec::new(),
        };
        match self.permission(&request)? {
            PermissionDecision::Allowed => {
                self.update(json!({
                    "sessionUpdate": "tool_call_update",
                    "toolCallId": id,
                    "status": "in_progress",
                }))?;
                Ok(Ok(id))
            }
            PermissionDecision::Rejected | PermissionDecision::Failed => {
                let reason = "the user did not allow it";
                self.finish_call(&id, "failed", reason)?;
                Ok(Err(reason.to_owned()))
            }
        }
    }

    fn list_directory(&mut self, path: &str) -> Result<ToolResult, TurnEnd> {
        let path = self.absolute(path);
        let id = self.begin_tool("List files", "search", &json!({ "path": path }))?;
        let names = std::fs::read_dir(&path).map(|entries| {
            let names = entries.flatten().map(|entry| entry.file_name());
            let mut names: Vec<String> = names
                .map(|name| name.to_string_lossy().into_owned())
                .collect();
            names.sort();
            names.join("\n")
        });
        self.end_tool(&id, names.map_err(|error| error.to_string()))
    }

    fn read_file(&mut self, path: &str) -> Result<ToolResult, TurnEnd> {
        if self.client.read {
            return self.fs_read(&FsRead {
                path: path.to_owned(),
                line: None,
                limit: None,
            });
        }
        let path = self.absolute(path);
        let id = self.begin_tool("Read a file", "read", &json!({ "path": path }))?;
        let content = small_file(Path::new(&path));
        self.end_tool(&id, content.map_err(|error| error.to_string()))
    }

    fn write_file(&mut self, path: &str, content: &str) -> Result<ToolResult, TurnEnd> {
        let path = self.absolute(path);
        let input = json!({ "path": path, "content": content });
        let id = match self.permitted("Write a file", "edit", &input)? {
            Ok(id) => id,
            Err(reason) => return Ok(Err(reason)),
        };
        let written = match self.client.write {
            true => {
                let params = json!({ "sessionId": self.session, "path": path, "content": content });
                let outcome = self.call("fs/write_text_file", params)?;
                outcome.map(|_| ()).map_err(|error| super::reason(&error))
            }
            false => std::fs::write(&path, content).map_err(|error| error.to_string()),
        };
        self.end_tool(&id, written.map(|()| "written".to_owned()))
    }

    fn run_command(&mut self, command: &str) -> Result<ToolResult, TurnEnd> {
        let input = json!({ "command": command });
        let id = match self.permitted("Run a command", "execute", &input)? {
            Ok(id) => id,
            Err(reason) => return Ok(Err(reason)),
        };
        let args = vec!["-c".to_owned(), command.to_owned()];
        if self.client.terminal {
            let terminal = TerminalCommand {
                command: "sh".to_owned(),
                args,
                split_args: false,
                env: Vec::new(),
                output_byte_limit: None,
                kill: false,
            };
            return self.run_in_terminal(&id, &terminal);
        }
        let output = Command::new("sh")
            .args(args)
            .current_dir(&self.cwd)
            .output();
        let output = match output {
            Ok(output) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Ok(output) => Err(output.status.to_string()),
            Err(error) => Err(error.to_string()),
        };
        self.end_tool(&id, output)
    }

    fn update_plan(&mut self, arguments: &Value) -> Result<ToolResult, TurnEnd> {
        let steps = arguments.get("plan").and_then(Value::as_array);
        let entries = steps.into_iter().flatten().map(|step| {
            let word = |key: &str| {
                let text = step.get(key).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            };
            PlanEntry {
                content: word("step"),
                priority: "medium".to_owned(),
                status: word("status"),
            }
        });
        let entries: Vec<PlanEntry> = entries.collect();
        self.plan(&entries)?;
        Ok(Ok("planned".to_owned()))
    }

    /// Runs a sub-agent with its own conversation. Its tool calls belong to the same session.
    fn run_task(&mut self, address: &str, prompt: &str) -> Result<ToolResult, TurnEnd> {
        let id = self.begin_tool("Task", "think", &json!({ "prompt": prompt }))?;
        let prompt = json!({ "role": "user", "content": prompt });
        let messages = vec![self.instructions(), prompt];
        let text = self.ask_until_done(address, messages, false)?;
        self.end_tool(&id, Ok(text))
    }

    fn server_tool(&mut self, name: &str, arguments: &Value) -> Result<ToolResult, TurnEnd> {
        let id = self.begin_tool(name, "other", arguments)?;
        let servers = self.servers.iter();
        let mut found = servers.filter_map(|server| {
            let tool = name.strip_prefix(&mcp_name(server.name(), ""))?;
            Some((server, tool))
        });
        let result = match found.next_back() {
            Some((server, tool)) => server.call(tool, arguments),
            None => Err(format!("unknown tool `{name}`")),
        };
        self.end_tool(&id, result)
    }
}

fn function(name: &str, schema: &Value) -> Value {
    json!({ "type": "function", "function": { "name": name, "parameters": schema } })
}

fn mcp_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}
