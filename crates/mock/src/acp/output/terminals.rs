//! Commands in terminals of the client.

use serde_json::{Value, json};

use super::{AcpOutput, reason};
use crate::scenario::TerminalCommand;
use crate::turn::TurnEnd;

impl AcpOutput {
    /// Runs a command in a terminal of the client, as part of a tool call that was reported before.
    pub(super) fn run_in_terminal(
        &mut self,
        call: &str,
        terminal: &TerminalCommand,
    ) -> Result<Result<String, String>, TurnEnd> {
        let env: Vec<Value> = terminal
            .env
            .iter()
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        let mut params = json!({
            "sessionId": self.session,
            "command": terminal.command,
            "args": terminal.args,
            "env": env,
            "cwd": self.cwd,
        });
        if let (Some(limit), Some(map)) = (terminal.output_byte_limit, params.as_object_mut()) {
            map.insert("outputByteLimit".to_owned(), limit.into());
        }
        let peer = &self.server.peer;
        let (created, end) = self.mailbox.call_through(peer, "terminal/create", params)?;
        let created = match created {
            Ok(created) => created,
            Err(error) => {
                let reason = reason(&error);
                self.finish_call(call, "failed", &reason)?;
                return Ok(Err(reason));
            }
        };
        let Some(id) = created.get("terminalId").and_then(Value::as_str) else {
            let reason = "the client named no terminal".to_owned();
            self.finish_call(call, "failed", &reason)?;
            return Ok(Err(reason));
        };
        let outcome = match end {
            Some(end) => Err(end),
            None => self.watch_terminal(call, id, terminal.kill),
        };
        let named = json!({ "sessionId": self.session, "terminalId": id });
        match outcome {
            // Release the terminal however the turn ends.
            Err(end) => {
                let release = "terminal/release";
                self.server.peer.request(release, named, None);
                Err(end)
            }
            Ok(outcome) => {
                let _ = self.call("terminal/release", named)?;
                let (status, text) = match &outcome {
                    Ok(_) => ("completed", "done"),
                    Err(reason) => ("failed", reason.as_str()),
                };
                self.update(json!({
                    "sessionUpdate": "tool_call_update",
                    "toolCallId": call,
                    "status": status,
                    "rawOutput": text,
                }))?;
                Ok(outcome)
            }
        }
    }

    /// Reports a terminal in its tool call, waits for the command, and returns its output.
    fn watch_terminal(
        &mut self,
        call: &str,
        terminal: &str,
        kill: bool,
    ) -> Result<Result<String, String>, TurnEnd> {
        self.update(json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": call,
            "content": [{ "type": "terminal", "terminalId": terminal }],
        }))?;
        let named = json!({ "sessionId": self.session, "terminalId": terminal });
        if kill {
            let _ = self.call("terminal/kill", named.clone())?;
        }
        let exit = match self.call("terminal/wait_for_exit", named.clone())? {
            Ok(exit) => exit,
            Err(error) => return Ok(Err(reason(&error))),
        };
        let output = match self.call("terminal/output", named)? {
            Ok(output) => output,
            Err(error) => return Ok(Err(reason(&error))),
        };
        let text = output.get("output").and_then(Value::as_str);
        let text = text.unwrap_or_default().to_owned();
        let code = exit.get("exitCode").and_then(Value::as_u64);
        Ok(match code {
            Some(0) => Ok(text),
            Some(code) => Err(format!("{text}(exit code {code})")),
            None => Err(format!("{text}(ended by a signal)")),
        })
    }
}
