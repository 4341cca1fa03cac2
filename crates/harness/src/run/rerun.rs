//! Replays the client side of a recording against a live agent.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout};

use super::RunDirectory;
use super::process::{AgentProcess, Launcher, StartError, exit_value};
use agentproto_sandbox::spawn::Piece;
use agentproto_wire::rerun::{ClientAction, ClientReplay};
use agentproto_wire::{Direction, Transcript};

/// How long to wait for more messages after everything was answered.
const QUIET: Duration = Duration::from_millis(300);
/// Time between closing stdin and killing the process.
const GRACE: Duration = Duration::from_secs(2);

/// The result of a replay.
pub struct RerunResult {
    /// Lines of the new process.
    pub transcript: Transcript,
    /// Differences from the recording, as sentences.
    pub notes: Vec<String>,
}

struct LiveRun {
    process: AgentProcess,
    transcript: Transcript,
    started: Instant,
    is_over: bool,
}

/// Sends the client's side of a recording to a fresh process. `directory` replaces the first
/// recorded working directory. The others get temporary directories.
pub async fn rerun(
    recording: &Transcript,
    lines: RangeInclusive<u64>,
    launcher: &Launcher,
    cwd: &Path,
    directory: Option<&str>,
    within: Duration,
) -> Result<RerunResult, StartError> {
    let mut script = ClientReplay::new(recording, lines);
    let failed = |error: std::io::Error| StartError::Failed {
        program: "replay".to_owned(),
        reason: format!("cannot create a directory: {error}"),
    };
    let spare = RunDirectory::new("certify").map_err(failed)?;
    if let Some(directory) = directory {
        for (count, old) in script.directories().iter().enumerate() {
            // Different directories must stay different.
            let new = match count {
                0 => directory.to_owned(),
                _ => {
                    let other = spare.path().join(format!("other-{count}"));
                    std::fs::create_dir_all(&other).map_err(failed)?;
                    other.to_string_lossy().into_owned()
                }
            };
            script.map_directory(old, &new);
        }
    }
    let mut live = LiveRun {
        process: launcher.start(cwd, &[]).await?,
        transcript: Transcript::new(),
        started: Instant::now(),
        is_over: false,
    };
    live.note(Direction::Process, br#"{"started":true}"#, true, None);
    loop {
        match script.next_action() {
            ClientAction::Done => break,
            ClientAction::Send(bytes) => {
                if !live.send(&bytes, within).await {
                    script
                        .notes
                        .push("the agent no longer accepts input".to_owned());
                    break;
                }
            }
            ClientAction::Wait(what) => match timeout(within, live.next(&mut script)).await {
                Ok(true) => {}
                Ok(false) => {
                    script.notes.push(format!("the agent ended before {what}"));
                    break;
                }
                Err(_) => script.skip_wait(&format!("{what} (waited {} s)", within.as_secs())),
            },
        }
    }
    // Read what the recorded agent sent after its last response.
    for _ in 0..script.trailing().max(1) {
        if !matches!(timeout(QUIET, live.next(&mut script)).await, Ok(true)) {
            break;
        }
    }
    live.note(Direction::Process, br#"{"input":"closed"}"#, true, None);
    live.process.stdin = None;
    let ended = Instant::now();
    while matches!(timeout(GRACE, live.next(&mut script)).await, Ok(true)) {
        if ended.elapsed() > GRACE {
            break;
        }
    }
    let exit = live.process.end(GRACE).await;
    live.stderr(true);
    let text = json!({"exit": exit_value(&exit, ended.elapsed())}).to_string();
    live.note(Direction::Process, text.as_bytes(), true, None);
    Ok(RerunResult {
        transcript: live.transcript,
        notes: script.notes,
    })
}

impl LiveRun {
    fn note(&mut self, direction: Direction, bytes: &[u8], ended: bool, length: Option<u64>) {
        let at = self.started.elapsed();
        self.transcript.push(direction, at, bytes, ended, length);
    }

    fn stderr(&mut self, all: bool) {
        for line in self.process.stderr.take(all) {
            self.note(Direction::Stderr, &line, true, None);
        }
    }

    async fn send(&mut self, bytes: &[u8], within: Duration) -> bool {
        let (line, ended) = match bytes.strip_suffix(b"\n") {
            Some(line) => (line, true),
            None => (bytes, false),
        };
        self.note(Direction::ToAgent, line, ended, None);
        let Some(stdin) = &mut self.process.stdin else {
            return false;
        };
        matches!(timeout(within, stdin.write_all(bytes)).await, Ok(Ok(())))
    }

    /// Reads the next output. Returns false at the end of stdout.
    async fn next(&mut self, script: &mut ClientReplay<'_>) -> bool {
        if self.is_over {
            return false;
        }
        let piece = self.process.stdout.next().await;
        self.stderr(false);
        match piece {
            Some(Piece::Line { bytes, ended }) => {
                self.note(Direction::FromAgent, &bytes, ended, None);
                if let Some(reply) = script.on_line(&bytes) {
                    let reply = format!("{reply}\n");
                    self.send(reply.as_bytes(), GRACE).await;
                }
                true
            }
            Some(Piece::TooLong { start, length }) => {
                self.note(Direction::FromAgent, &start, true, Some(length));
                true
            }
            Some(Piece::Gap { .. }) => true,
            None => {
                self.is_over = true;
                false
            }
        }
    }
}
