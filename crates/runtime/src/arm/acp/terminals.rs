//! Terminals for the agent: commands in the same sandbox as the agent.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent_client_protocol::v1::schema::CreateTerminalRequest;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::context::Context;
use agentproto_sandbox::Policy;
use agentproto_sandbox::spawn::{Bounds, Piece, SpawnOptions};

/// Maximum number of bytes of output that are kept. The agent may set a lower limit.
const MAX_OUTPUT: usize = 1 << 20;
/// Maximum number of open terminals.
const MAX_TERMINALS: usize = 64;

type ExitPair = (Option<i32>, Option<i32>);

pub struct Terminals {
    context: Arc<Context>,
    /// The agent's own policy, which also applies to its commands.
    policy: Option<Arc<Policy>>,
    /// The session's directory, as the agent sees it.
    cwd: PathBuf,
    next: AtomicU64,
    free: Arc<Semaphore>,
    open: Mutex<HashMap<String, Terminal>>,
}

#[derive(Clone)]
struct Terminal {
    output: Arc<Mutex<Output>>,
    ended: watch::Receiver<Option<ExitPair>>,
    kill: mpsc::Sender<()>,
    _slot: Arc<OwnedSemaphorePermit>,
}

struct Output {
    text: Vec<u8>,
    limit: usize,
    truncated: bool,
}

impl Output {
    /// Appends output. Only the newest part is kept, starting at a character boundary.
    fn push(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        let over = self.text.len().saturating_sub(self.limit);
        if over > 0 {
            let boundary = |b: &u8| (*b as i8) >= -0x40;
            let rest = self.text.get(over..).unwrap_or_default();
            let skip = rest.iter().position(boundary).unwrap_or(rest.len());
            self.text.drain(..over + skip);
            self.truncated = true;
        }
    }
}

impl Terminals {
    pub fn new(context: Arc<Context>, policy: Option<Arc<Policy>>, cwd: PathBuf) -> Self {
        Terminals {
            context,
            policy,
            cwd,
            next: AtomicU64::new(1),
            free: Arc::new(Semaphore::new(MAX_TERMINALS)),
            open: Mutex::default(),
        }
    }

    /// Starts a command and returns its id. AIP-36 `limits.timeout_ms` applies to it.
    pub async fn create(
        &self,
        request: CreateTerminalRequest,
        record: impl FnOnce() -> Result<(), String>,
    ) -> Result<String, String> {
        let slot = Arc::clone(&self.free).try_acquire_owned();
        let slot = slot.map_err(|_| {
            format!("too many open terminals (maximum {MAX_TERMINALS}): release some")
        })?;
        let cwd = request.cwd.clone().unwrap_or_else(|| self.cwd.clone());
        let below = cwd.strip_prefix(&self.cwd).map_err(|_| {
            "the terminal's directory is outside the session's working directory".to_owned()
        })?;
        let plain = |c: std::path::Component| matches!(c, std::path::Component::Normal(_));
        if !below.components().all(plain) {
            return Err("the terminal's directory must not contain `.` or `..`".to_owned());
        }
        let argv: Vec<OsString> = [&request.command]
            .into_iter()
            .chain(&request.args)
            .map(OsString::from)
            .collect();
        let env: Vec<_> = request
            .env
            .iter()
            .map(|v| (OsString::from(&v.name), OsString::from(&v.value)))
            .collect();
        let context = &self.context;
        let launch = match &self.policy {
            Some(policy) => context.prepare_within(policy, &argv, &env, &cwd),
            None => context.prepare_open(&argv, &env, &cwd),
        };
        let launch = launch.map_err(|error| error.message)?;
        record()?;
        let limit = request.output_byte_limit.map_or(MAX_OUTPUT, |l| {
            usize::try_from(l).unwrap_or(MAX_OUTPUT).min(MAX_OUTPUT)
        });
        let output = Arc::new(Mutex::new(Output {
            text: Vec::new(),
            limit,
            truncated: false,
        }));
        let errors = Arc::clone(&output);
        let options = SpawnOptions {
            bounds: Bounds {
                line: MAX_OUTPUT,
                waiting: 4 * MAX_OUTPUT,
            },
            stderr: Box::new(move |bytes| {
                errors.lock().push(bytes);
            }),
            ..SpawnOptions::default()
        };
        let mut started = context
            .launch(launch, options)
            .await
            .map_err(|error| error.message)?;
        let (exit_sender, ended) = watch::channel(None);
        let (kill, mut killed) = mpsc::channel(1);
        let into = Arc::clone(&output);
        tokio::spawn(async move {
            let child = started.child();
            child.stdin = None;
            let lines = child.stdout.take();
            let reading = tokio::spawn(async move {
                let Some(mut lines) = lines else { return };
                while let Some(piece) = lines.next().await {
                    let mut into = into.lock();
                    match piece {
                        Piece::Line { bytes, ended } => {
                            into.push(&bytes);
                            if ended {
                                into.push(b"\n");
                            }
                        }
                        Piece::TooLong { start, .. } => into.push(&start),
                        Piece::Gap { .. } => into.truncated = true,
                    }
                }
            });
            let exit = tokio::select! {
                exit = started.wait() => exit,
                // The channel also closes when the terminals are dropped.
                _ = killed.recv() => started.child().kill().await,
            };
            let _ = reading.await;
            started.child().stderr.finish().await;
            exit_sender.send_replace(Some((exit.status.code(), exit.status.signal())));
        });
        let id = format!("terminal-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let terminal = Terminal {
            output,
            ended,
            kill,
            _slot: Arc::new(slot),
        };
        self.open.lock().insert(id.clone(), terminal);
        Ok(id)
    }

    /// Output so far, whether its start was cut off, and how the command ended.
    pub fn output(&self, id: &str) -> Option<(String, bool, Option<ExitPair>)> {
        let terminal = self.get(id)?;
        let ended = *terminal.ended.borrow();
        let output = terminal.output.lock();
        Some((
            String::from_utf8_lossy(&output.text).into_owned(),
            output.truncated,
            ended,
        ))
    }

    pub async fn wait(&self, id: &str) -> Option<ExitPair> {
        let mut terminal = self.get(id)?;
        let ended = terminal.ended.wait_for(Option::is_some).await;
        ended.ok().and_then(|ended| *ended)
    }

    /// Kills the command. The terminal stays.
    pub async fn kill(&self, id: &str) -> bool {
        let Some(mut terminal) = self.get(id) else {
            return false;
        };
        let _ = terminal.kill.try_send(());
        let _ = terminal.ended.wait_for(Option::is_some).await;
        true
    }

    /// Kills the command and removes the terminal.
    pub async fn release(&self, id: &str) -> bool {
        let known = self.kill(id).await;
        self.open.lock().remove(id);
        known
    }

    pub async fn close(&self) {
        let ids = self.open.lock().keys().cloned().collect::<Vec<_>>();
        for id in ids {
            self.release(&id).await;
        }
    }

    fn get(&self, id: &str) -> Option<Terminal> {
        self.open.lock().get(id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_output_is_kept_from_a_character_boundary() {
        let mut output = Output {
            text: Vec::new(),
            limit: 4,
            truncated: false,
        };
        output.push("ab".as_bytes());
        assert!(!output.truncated);
        output.push("äöc".as_bytes());
        assert_eq!(std::str::from_utf8(&output.text), Ok("öc"));
        assert!(output.truncated);
    }
}
