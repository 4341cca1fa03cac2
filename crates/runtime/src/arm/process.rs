//! The agent's process, owned by an arm.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

use super::LaunchSpec;
use crate::auth;
use crate::command::{Launch, Started};
use crate::context::Context;
use crate::error::{Code, Error, stderr_block};
use crate::observe::Observer;
use agentproto_sandbox::spawn::{Exit, OutputCallback, OutputLines, SpawnOptions};
use agentproto_sandbox::{Policy, diagnose};

/// Maximum number of bytes of stderr in an error.
const MAX_STDERR_TAIL: usize = 2000;
/// Maximum number of bytes of one stderr line passed to the observer.
const MAX_LINE: usize = 8 << 10;

/// A started agent. Dropping it kills the agent and all its children.
pub struct Process {
    started: Mutex<Started>,
    context: Arc<Context>,
    /// The policy that applies to it, or `None` without a sandbox.
    policy: Option<Arc<Policy>>,
}

/// A process with its pipes.
pub struct Spawned {
    /// The process itself.
    pub process: Process,
    /// Its stdin and stdout.
    pub wire: Wire,
    /// The working directory, as the agent sees it (A45-SBX-04).
    pub cwd: PathBuf,
    /// The policy that applies to it, or `None` without a sandbox.
    pub policy: Option<Arc<Policy>>,
}

/// The agent's stdin and stdout. Its output is drained even if nothing reads it.
pub struct Wire {
    /// The agent's stdin.
    pub stdin: pipe::Sender,
    /// The lines of the agent's stdout.
    pub stdout: OutputLines,
}

impl Process {
    /// Starts the agent under its policy, or the process that was already prepared from the spec.
    /// `limits.timeout_ms` applies to commands that it runs, not to its session.
    pub async fn start(
        context: Arc<Context>,
        spec: &LaunchSpec,
        prepared: Option<Launch>,
    ) -> Result<Spawned, Error> {
        let mut launch = match prepared {
            Some(launch) => launch,
            None => context.prepare(&spec.argv, &spec.env)?,
        };
        launch.without_timeout();
        let (policy, cwd) = (launch.policy.take().map(Arc::new), launch.cwd.clone());
        let options = SpawnOptions {
            stderr: listener(Arc::clone(&context.observer)),
            ..SpawnOptions::default()
        };
        let mut started = context.launch(launch, options).await?;
        let child = started.child();
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new(
                Code::SpawnFailed,
                "the agent process has no pipes",
            ));
        };
        let process = Process {
            started: Mutex::new(started),
            context,
            policy: policy.clone(),
        };
        Ok(Spawned {
            process,
            wire: Wire { stdin, stdout },
            cwd,
            policy,
        })
    }

    /// The error for an agent that exited. Waits for the exit, and kills an agent that only closed
    /// its stdout.
    pub async fn exit_error(&self, during: &str) -> Error {
        let mut started = self.started.lock().await;
        let exit = started.stop().await;
        let child = started.child();
        child.stderr.finish().await;
        let tail = self.tail(&child.stderr.text());
        // A29-AUTH-11: an agent may report an expired login by its exit code.
        if let Some(expired) = auth::expired(&self.context, exit.status, &tail) {
            return expired;
        }
        let how = describe(&exit);
        let what = match tail.is_empty() {
            true => format!("the agent {how} {during} and wrote nothing to stderr"),
            false => format!("the agent {how} {during}{}", stderr_block(&tail)),
        };
        Error::new(Code::AgentExited, what)
            .hint(self.exit_hint(&tail))
            .details(json!({
                "exit_code": exit.status.code(),
                "signal": exit.status.signal(),
                "stderr": tail,
            }))
    }

    /// Blames the sandbox only if stderr points to a clause.
    fn exit_hint(&self, stderr: &str) -> String {
        let blamed = self.policy.as_deref();
        let blamed = blamed.map(|policy| diagnose::diagnose(policy, stderr, &[]));
        match blamed.unwrap_or_default().as_slice() {
            [] => "check the options that you passed, or run the agent yourself with the same arguments"
                .to_owned(),
            hints => format!(
                "the sandbox may be the cause: {}; `--sandbox off` runs the agent without it, at your own risk",
                hints.join("; ")
            ),
        }
    }

    /// The end of the agent's stderr so far.
    pub async fn stderr_tail(&self) -> String {
        let mut started = self.started.lock().await;
        let text = started.child().stderr.text();
        self.tail(&text)
    }

    /// Sends a signal to the agent's process group. Does nothing if it has exited.
    pub async fn signal(&self, number: i32) {
        let _ = self.started.lock().await.child().signal(number, false);
    }

    /// Ends the process: end of stdin, SIGTERM, five seconds, SIGKILL.
    pub async fn stop(&self) -> Exit {
        self.started.lock().await.stop().await
    }

    fn tail(&self, text: &str) -> String {
        let masked = self.context.masks.mask(text.trim_end());
        let mut from = masked.len().saturating_sub(MAX_STDERR_TAIL);
        while !masked.is_char_boundary(from) {
            from += 1;
        }
        masked.get(from..).unwrap_or_default().to_owned()
    }
}

/// Passes stderr to the observer line by line. Only the first part of an overlong line is passed
/// on, to limit memory.
fn listener(observer: Arc<dyn Observer>) -> OutputCallback {
    let mut line: Vec<u8> = Vec::new();
    Box::new(move |bytes| {
        for byte in bytes {
            match byte {
                b'\n' => {
                    let text = String::from_utf8_lossy(&line);
                    let cut = if line.len() > MAX_LINE { "…" } else { "" };
                    observer.stderr(&format!("{}{cut}", text.trim_end_matches('\r')));
                    line.clear();
                }
                byte if line.len() <= MAX_LINE => line.push(*byte),
                _ => {}
            }
        }
    })
}

/// For example `exited with status 3` or `was killed by signal 9`.
pub fn describe(exit: &Exit) -> String {
    match (exit.status.code(), exit.status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
