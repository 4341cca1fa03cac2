//! MCP servers that the client gives to the agent. The mock starts or calls each one, sends
//! `initialize`, and keeps it open. A turn that asks a model also offers their tools.
//!
//! They are children of the agent and run in its sandbox, as with any real agent. This module does
//! not use the runner's code to start programs, because the mock is used to test that code.

mod http;

use std::ffi::{CString, NulError};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write, pipe};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::rpc::RpcError;

/// How to connect to an MCP server.
pub enum ServerConfig {
    ServerProgram(ServerProgram),
    ServerAddress(http::ServerAddress),
}

/// Command line and environment of an MCP server over stdio.
pub struct ServerProgram {
    name: String,
    argv: Vec<CString>,
    env: Vec<CString>,
}

/// How long to wait for a response of a server.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Id of the request `initialize`.
const INITIALIZE_ID: u64 = 1;

/// Running MCP server. Dropping it closes the server's stdin, which ends the server.
pub struct RunningServer {
    name: String,
    link: ServerLink,
    last_id: AtomicU64,
    tools: OnceLock<Vec<Value>>,
}

enum ServerLink {
    Program {
        input: Mutex<File>,
        answers: Mutex<Receiver<Value>>,
    },
    Address(Box<http::ServerAddress>),
}

impl RunningServer {
    fn new(name: &str, link: ServerLink) -> Arc<RunningServer> {
        Arc::new(RunningServer {
            name: name.to_owned(),
            link,
            last_id: AtomicU64::new(INITIALIZE_ID),
            tools: OnceLock::new(),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tools of the server. A server that fails has none.
    pub fn tools(&self) -> &[Value] {
        self.tools.get_or_init(|| {
            if let ServerLink::Program { answers, .. } = &self.link
                && receive(&answers.lock(), INITIALIZE_ID).is_err()
            {
                return Vec::new();
            }
            let listed = self.request("tools/list", json!({}));
            let tools = listed.ok().and_then(|result| {
                let tools = result.get("tools")?.as_array()?;
                Some(tools.clone())
            });
            tools.unwrap_or_default()
        })
    }

    /// Calls a tool, and returns the text of its result or the reason for a failure.
    pub fn call(&self, tool: &str, arguments: &Value) -> Result<String, String> {
        let params = json!({ "name": tool, "arguments": arguments });
        let result = self.request("tools/call", params)?;
        let content = result.get("content").and_then(Value::as_array);
        let texts = content.into_iter().flatten().filter_map(|block| {
            let text = block.get("text")?.as_str()?;
            Some(text.to_owned())
        });
        let text = texts.collect::<Vec<String>>().join("\n");
        match result.get("isError") {
            Some(Value::Bool(true)) => Err(text),
            _ => Ok(text),
        }
    }

    fn request(&self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut answer = match &self.link {
            ServerLink::Program { input, answers } => {
                let written = writeln!(input.lock(), "{message}");
                written.map_err(|error| error.to_string())?;
                receive(&answers.lock(), id)?
            }
            ServerLink::Address(address) => http::exchange(address, &message)?,
        };
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(format!("the MCP server failed: {answer}")),
        }
    }
}

/// Waits for the response with this id.
fn receive(answers: &Receiver<Value>, id: u64) -> Result<Value, String> {
    let until = Instant::now() + TIMEOUT;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let answer = answers.recv_timeout(left);
        let answer = answer.map_err(|error| format!("the MCP server did not answer: {error}"))?;
        if answer.get("id").and_then(Value::as_u64) == Some(id) {
            return Ok(answer);
        }
    }
}

/// Parses `mcpServers`. Every agent supports stdio; HTTP is optional.
pub fn parse_servers(list: &[Value], over_http: bool) -> Result<Vec<ServerConfig>, RpcError> {
    let read = list.iter().map(|server| match server.get("type") {
        Some(Value::String(kind)) if kind == "http" && over_http => {
            http::address(server).map(ServerConfig::ServerAddress)
        }
        _ => program(server).map(ServerConfig::ServerProgram),
    });
    read.collect()
}

fn program(server: &Value) -> Result<ServerProgram, RpcError> {
    let word = |key: &str| {
        let text = server.get(key).and_then(Value::as_str);
        text.ok_or_else(|| RpcError::params(format!("an MCP server has no `{key}`")))
    };
    let name = word("name")?.to_owned();
    if let Some(kind) = server.get("type").and_then(Value::as_str) {
        return Err(RpcError::params(format!(
            "MCP servers of the type `{kind}` are not supported"
        )));
    }
    let list = |key: &str| match server.get(key) {
        Some(Value::Array(list)) => Ok(list.as_slice()),
        _ => Err(RpcError::params(format!("an MCP server has no `{key}`"))),
    };
    let mut argv = vec![word("command")?.to_owned()];
    for arg in list("args")? {
        let arg = arg.as_str();
        let arg = arg.ok_or_else(|| RpcError::params("`args` of an MCP server must be strings"))?;
        argv.push(arg.to_owned());
    }
    let mut env: Vec<String> = Vec::new();
    for entry in list("env")? {
        let part = |key: &str| entry.get(key).and_then(Value::as_str);
        let (Some(name), Some(value)) = (part("name"), part("value")) else {
            return Err(RpcError::params(
                "every entry of `env` must have a name and a value",
            ));
        };
        env.push(format!("{name}={value}"));
    }
    let texts = |texts: Vec<String>| -> Result<Vec<CString>, NulError> {
        texts.into_iter().map(CString::new).collect()
    };
    let nul = |_| {
        RpcError::params("the command line or environment of an MCP server contains a NUL byte")
    };
    Ok(ServerProgram {
        name,
        argv: texts(argv).map_err(nul)?,
        env: texts(env).map_err(nul)?,
    })
}

/// Connects to every server. A server that cannot be started is reported on stderr and skipped.
pub fn connect(config: &[ServerConfig]) -> Vec<Arc<RunningServer>> {
    let mut started = Vec::new();
    for server in config {
        match server {
            ServerConfig::ServerAddress(address) => {
                http::send_initialize(address, &initialize_request());
                let link = ServerLink::Address(Box::new(address.clone()));
                started.push(RunningServer::new(address.name(), link));
            }
            ServerConfig::ServerProgram(program) => match start(program) {
                Ok(link) => started.push(link),
                Err(error) => eprintln!("mock: MCP server {}: {error}", program.name),
            },
        }
    }
    started
}

fn initialize_request() -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": INITIALIZE_ID,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "agentproto-mock", "version": env!("CARGO_PKG_VERSION") },
        },
    })
}

fn start(config: &ServerProgram) -> io::Result<Arc<RunningServer>> {
    let (their_input, our_output) = pipe()?;
    let (our_input, their_output) = pipe()?;
    let child = spawn(config, &their_input.into(), &their_output.into())?;
    let mut output = File::from(OwnedFd::from(our_output));
    let (sender, answers) = channel();
    let link = ServerLink::Program {
        input: Mutex::new(output.try_clone()?),
        answers: Mutex::new(answers),
    };
    std::thread::spawn(move || {
        let mut lines = BufReader::new(our_input);
        let mut line = Vec::new();
        let initialize_request = initialize_request();
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let greeted = writeln!(output, "{initialize_request}")
            .and_then(|()| lines.read_until(b'\n', &mut line))
            .and_then(|_| writeln!(output, "{ready}"));
        // Close this copy of the server's stdin. The session keeps the other one.
        drop(output);
        if greeted.is_ok() {
            let _ = sender.send(serde_json::from_slice(&line).unwrap_or_default());
            forward(&mut lines, |answer| {
                // Ignore errors: the server must be able to write even if no turn reads its messages.
                let _ = sender.send(answer);
            });
        }
        drop(sender);
        let mut status = 0;
        // SAFETY: waits for our own child, and no other thread waits for it.
        unsafe {
            libc::waitpid(child, &mut status, 0);
        }
    });
    Ok(RunningServer::new(&config.name, link))
}

/// Parses the messages of a server until it ends.
fn forward(lines: &mut impl BufRead, mut on_message: impl FnMut(Value)) {
    let mut line = Vec::new();
    while let Ok(1..) = lines.read_until(b'\n', &mut line) {
        on_message(serde_json::from_slice(&line).unwrap_or_default());
        line.clear();
    }
}

fn spawn(config: &ServerProgram, input: &OwnedFd, output: &OwnedFd) -> io::Result<libc::pid_t> {
    let Some(program) = config.argv.first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let own = std::env::vars_os().filter_map(|(name, value)| {
        let mut pair = name.into_encoded_bytes();
        pair.push(b'=');
        let is_set = |is_set: &CString| is_set.as_bytes().starts_with(&pair);
        if config.env.iter().any(is_set) {
            return None;
        }
        pair.extend(value.into_encoded_bytes());
        CString::new(pair).ok()
    });
    let env: Vec<CString> = own.chain(config.env.iter().cloned()).collect();
    let pointers = |texts: &[CString]| -> Vec<*mut libc::c_char> {
        let texts = texts.iter().map(|text| text.as_ptr().cast_mut());
        texts.chain([ptr::null_mut()]).collect()
    };
    let (argv, envp) = (pointers(&config.argv), pointers(&env));
    // SAFETY: the arrays are null-terminated and outlive the call, as do their strings. The actions
    // are initialized before use and destroyed after it.
    unsafe {
        let mut actions = std::mem::zeroed();
        if libc::posix_spawn_file_actions_init(&mut actions) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::posix_spawn_file_actions_adddup2(&mut actions, input.as_raw_fd(), 0);
        libc::posix_spawn_file_actions_adddup2(&mut actions, output.as_raw_fd(), 1);
        let mut child = 0;
        let failed = libc::posix_spawnp(
            &mut child,
            program.as_ptr(),
            &actions,
            ptr::null(),
            argv.as_ptr(),
            envp.as_ptr(),
        );
        libc::posix_spawn_file_actions_destroy(&mut actions);
        match failed {
            0 => Ok(child),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}
