//! `terminal/*`: runs real commands in the directories of the case. They end with the connection.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};

use super::super::process::unconfined;
use super::{Reply, envelope};
use agentproto_sandbox::programs::find::{find_in, search_path};
use agentproto_sandbox::spawn::{self, Piece, SpawnOptions};

/// Maximum number of output bytes that are kept per terminal.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// Maximum number of open terminals.
const MAX_TERMINALS: usize = 32;

pub struct Terminals {
    sender: UnboundedSender<Value>,
    env: Vec<(OsString, OsString)>,
    open: HashMap<String, Terminal>,
    count: u64,
}

struct Terminal {
    shared: Arc<Mutex<OutputBuffer>>,
    exit_status: watch::Receiver<Option<Value>>,
    kill: Option<oneshot::Sender<()>>,
}

#[derive(Default)]
struct OutputBuffer {
    text: Vec<u8>,
    truncated: bool,
    limit: usize,
}

impl OutputBuffer {
    fn add(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        if self.text.len() > self.limit {
            // Drop the oldest output, at a character boundary.
            let mut cut = self.text.len() - self.limit;
            while self.text.get(cut).is_some_and(|b| b & 0xC0 == 0x80) {
                cut += 1;
            }
            self.text.drain(..cut);
            self.truncated = true;
        }
    }
}

impl Terminals {
    pub fn new(sender: UnboundedSender<Value>, env: Vec<(OsString, OsString)>) -> Terminals {
        Terminals {
            sender,
            env,
            open: HashMap::new(),
            count: 0,
        }
    }

    pub fn handle_request(
        &mut self,
        id: &Value,
        method: &str,
        params: &Value,
        root: &Path,
    ) -> Option<Reply> {
        if method == "terminal/create" {
            return Some(self.create(params, root));
        }
        let name = params.get("terminalId").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let Some(terminal) = self.open.get_mut(name) else {
            return Some(Err((-32602, format!("unknown terminal `{name}`"))));
        };
        match method {
            "terminal/output" => {
                let buffer = terminal.shared.lock();
                let text = String::from_utf8_lossy(&buffer.text).into_owned();
                let mut result = json!({"output": text, "truncated": buffer.truncated});
                if let (Some(exit), Some(members)) = (
                    terminal.exit_status.borrow().clone(),
                    result.as_object_mut(),
                ) {
                    members.insert("exitStatus".to_owned(), exit);
                }
                Some(Ok(result))
            }
            "terminal/wait_for_exit" => {
                let (mut exit_status, sender, id) = (
                    terminal.exit_status.clone(),
                    self.sender.clone(),
                    id.clone(),
                );
                tokio::spawn(async move {
                    let exit = exit_status.wait_for(Option::is_some).await;
                    let exit = exit.ok().and_then(|exit| exit.clone());
                    let _ = sender.send(envelope(&id, Ok(exit.unwrap_or(json!({})))));
                });
                None
            }
            "terminal/kill" => {
                terminal.kill.take();
                Some(Ok(json!({})))
            }
            "terminal/release" => {
                self.open.remove(name);
                Some(Ok(json!({})))
            }
            _ => Some(Err((
                -32601,
                format!("this client does not support the method `{method}`"),
            ))),
        }
    }

    fn create(&mut self, params: &Value, root: &Path) -> Reply {
        if self.open.len() >= MAX_TERMINALS {
            return Err((-32603, "too many terminals are open".to_owned()));
        }
        let command = params.get("command").and_then(Value::as_str);
        let command = command.ok_or((-32602, "`command` is missing".to_owned()))?;
        let args = params.get("args").and_then(Value::as_array);
        let args: Vec<OsString> = args
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(OsString::from)
            .collect();
        let mut env = self.env.clone();
        let more = params.get("env").and_then(Value::as_array);
        for pair in more.into_iter().flatten() {
            let part = |key: &str| pair.get(key).and_then(Value::as_str);
            if let (Some(name), Some(value)) = (part("name"), part("value")) {
                env.push((name.into(), value.into()));
            }
        }
        let cwd = params.get("cwd").and_then(Value::as_str).map(PathBuf::from);
        let cwd = cwd
            .filter(|cwd| cwd.is_absolute())
            .unwrap_or_else(|| root.join("work"));
        // Agents differ: a command is either a program name or a line for the shell.
        let argv = match find_in(&search_path(&env), &cwd, command.as_ref()) {
            Some(program) => [program.into_os_string()].into_iter().chain(args).collect(),
            None if args.is_empty() => {
                vec!["/bin/sh".into(), "-c".into(), OsString::from(command)]
            }
            None => return Err((-32603, format!("program `{command}` not found"))),
        };
        let limit = params.get("outputByteLimit").and_then(Value::as_u64);
        let limit = limit.map_or(MAX_OUTPUT_BYTES, |n| {
            usize::try_from(n)
                .unwrap_or(MAX_OUTPUT_BYTES)
                .min(MAX_OUTPUT_BYTES)
        });
        self.count += 1;
        let name = format!("terminal-{}", self.count);
        let shared = Arc::new(Mutex::new(OutputBuffer {
            limit,
            ..OutputBuffer::default()
        }));
        let (exit_sender, exit_status) = watch::channel(None);
        let (kill, killed) = oneshot::channel();
        let plan = unconfined(&argv, &env, &cwd);
        tokio::spawn(run(plan, Arc::clone(&shared), exit_sender, killed));
        let terminal = Terminal {
            shared,
            exit_status,
            kill: Some(kill),
        };
        self.open.insert(name.clone(), terminal);
        Ok(json!({"terminalId": name}))
    }
}

/// Runs a command until it exits, or until `killed` fires: after a kill, a release, or the end of
/// the connection.
async fn run(
    plan: agentproto_sandbox::plan::SpawnPlan,
    buffer: Arc<Mutex<OutputBuffer>>,
    exit_sender: watch::Sender<Option<Value>>,
    mut killed: oneshot::Receiver<()>,
) {
    let errors = Arc::clone(&buffer);
    let options = SpawnOptions {
        stderr: Box::new(move |bytes| errors.lock().add(bytes)),
        ..SpawnOptions::default()
    };
    let Ok(mut child) = spawn::spawn(&plan, options).await else {
        let _ = exit_sender.send(Some(json!({"exitCode": 127})));
        return;
    };
    child.stdin = None;
    let Some(mut stdout) = child.stdout.take() else {
        return;
    };
    let is_killed = loop {
        tokio::select! {
            piece = stdout.next() => match piece {
                Some(Piece::Line { mut bytes, ended }) => {
                    if ended {
                        bytes.push(b'\n');
                    }
                    buffer.lock().add(&bytes);
                }
                Some(Piece::TooLong { start, .. }) => buffer.lock().add(&start),
                Some(Piece::Gap { .. }) => {}
                None => break false,
            },
            _ = &mut killed => {
                child.kill().await;
                break true;
            }
        }
    };
    // The command may have closed stdout and still be running.
    let exit = match is_killed {
        true => child.wait().await,
        false => {
            let by_itself = tokio::select! {
                exit = child.wait() => Some(exit),
                _ = &mut killed => None,
            };
            match by_itself {
                Some(exit) => exit,
                None => child.kill().await,
            }
        }
    };
    use std::os::unix::process::ExitStatusExt;
    let exit = json!({
        "exitCode": exit.status.code(),
        "signal": exit.status.signal().map(|n| format!("SIG{n}")),
    });
    let _ = exit_sender.send(Some(exit));
}
