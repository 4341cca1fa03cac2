//! Runs commands of setup and login in the bundle's sandbox. They find the bundle's binary by its
//! name.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::net::unix::pipe::Sender as Input;

use super::template::FilledCommand;
use crate::command::{BundleCommand, Finished, Started};
use crate::context::Context;
use crate::error::Error;
use crate::observe::Stage;
use agentproto_sandbox::confined::CreatedPaths;
use agentproto_sandbox::spawn::{Bounds, Piece, SpawnOptions, Stdio};

/// Maximum number of characters of a command's output in a message.
const MAX_OUTPUT_CHARS: usize = 400;
/// Maximum number of lines, and maximum length of a line, that a command shows to the user.
const MAX_SHOWN_LINES: usize = 1000;
const MAX_SHOWN_BYTES: usize = 4 << 10;

/// A bundle's binary with the environment that its commands get in addition to the policy.
pub struct BundleTool {
    ctx: Context,
    bin: PathBuf,
    pub env: Vec<(OsString, OsString)>,
}

impl BundleTool {
    /// Puts the directory of `bin` first on `PATH`, so that commands find it by name.
    pub fn new(ctx: &Context, bin: &Path) -> Self {
        let mut ctx = ctx.clone();
        if let Some(dir) = bin.parent().filter(|dir| dir.is_absolute()) {
            let path = ctx.variable("PATH").map(OsStr::to_owned);
            let path = path.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
            let dirs = [dir.to_owned()]
                .into_iter()
                .chain(std::env::split_paths(&path));
            if let Ok(joined) = std::env::join_paths(dirs) {
                std::sync::Arc::make_mut(&mut ctx.host_env).push(("PATH".into(), joined));
            }
        }
        BundleTool {
            ctx,
            bin: bin.to_owned(),
            env: Vec::new(),
        }
    }

    /// The context in which commands find the binary by name.
    pub fn into_context(self) -> Context {
        self.ctx
    }

    pub async fn run(
        &self,
        filled: FilledCommand,
        timeout: Option<Duration>,
        stdio: Stdio,
    ) -> Result<Finished, Error> {
        let mut command = self.command(filled);
        command.timeout = timeout;
        command.stdio = stdio;
        self.ctx.run(command).await
    }

    fn command(&self, filled: FilledCommand) -> BundleCommand {
        let mut argv = filled.argv;
        if let Some(program) = argv.first_mut()
            && self.is_bin(program)
        {
            *program = self.bin.clone().into_os_string();
        }
        let mut command = BundleCommand::new(argv);
        command.env = self.env.iter().cloned().chain(filled.env).collect();
        command
    }

    fn is_bin(&self, program: &OsStr) -> bool {
        self.bin.is_absolute()
            && (self.ctx.bundle.common().bin().map(OsStr::new) == Some(program)
                || self.bin.file_name() == Some(program))
    }
}

/// How a command ended, as text without secrets.
pub fn describe_exit(ctx: &Context, finished: &Finished) -> String {
    use std::os::unix::process::ExitStatusExt;
    let status = &finished.exit.status;
    let how = match (finished.exit.timed_out, status.code(), status.signal()) {
        (true, ..) => "time limit exceeded".to_owned(),
        (_, Some(code), _) => format!("exit code {code}"),
        (_, None, Some(signal)) => format!("killed by signal {signal}"),
        _ => "unknown exit status".to_owned(),
    };
    match output_tail(ctx, finished) {
        tail if tail.is_empty() => how,
        tail => format!("{how}: {tail}"),
    }
}

/// The end of a command's output, without secrets.
pub fn output_tail(ctx: &Context, finished: &Finished) -> String {
    let stdout = String::from_utf8_lossy(&finished.stdout);
    let output = match finished.stderr.trim() {
        "" => stdout.trim(),
        output => output,
    };
    // Masked before it is cut, because a cut could leave half a secret.
    let masked = ctx.masks.mask(output);
    let lines: Vec<&str> = masked.lines().rev().take(4).collect();
    let text = lines.into_iter().rev().collect::<Vec<_>>().join(" / ");
    let over = text.chars().count().saturating_sub(MAX_OUTPUT_CHARS);
    text.chars().skip(over).collect()
}

pub fn is_success(finished: &Finished) -> bool {
    finished.exit.status.success() && !finished.exit.timed_out
}

/// Shows the output of a command to the user, line by line and without secrets: at the terminal,
/// or as progress where there is none. So the user sees the page that a login wants to be opened.
#[derive(Clone)]
pub struct OutputView {
    ctx: Context,
    lines_left: Arc<AtomicUsize>,
}

impl OutputView {
    pub fn new(ctx: &Context) -> Self {
        OutputView {
            ctx: ctx.clone(),
            lines_left: Arc::new(AtomicUsize::new(MAX_SHOWN_LINES)),
        }
    }

    pub fn line(&self, bytes: &[u8]) {
        let take = |left: usize| left.checked_sub(1);
        let left = self.lines_left.fetch_update(Relaxed, Relaxed, take);
        let start = bytes.get(..MAX_SHOWN_BYTES).unwrap_or(bytes);
        let mut text = String::from_utf8_lossy(start).trim_end().to_owned();
        if start.len() < bytes.len() {
            text.push('…');
        }
        let text = match left {
            Ok(1) => "more output of this command is not shown".into(),
            Ok(_) => self.ctx.masks.mask_cut(&text),
            Err(_) => return,
        };
        if text.is_empty() {
            return;
        }
        match self.ctx.interact.is_headless() {
            true => self.ctx.observer.progress(Stage::Auth, &text),
            false => self.ctx.interact.show(&text),
        }
    }
}

/// Collects bytes into lines for a view. The rest is shown at the end.
struct Lines {
    view: OutputView,
    pending: Vec<u8>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            // One byte more than the limit shows that the line is longer.
            let room = (MAX_SHOWN_BYTES + 1).saturating_sub(self.pending.len());
            let kept = part.get(..room.min(part.len())).unwrap_or_default();
            self.pending.extend_from_slice(kept);
            if part.ends_with(b"\n") {
                self.view.line(&std::mem::take(&mut self.pending));
            }
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.view.line(&self.pending);
    }
}

/// A running command that the caller communicates with.
pub struct RunningCommand {
    started: Started,
    view: OutputView,
    created: CreatedPaths,
}

impl BundleTool {
    /// Starts a command, and shows its output line by line.
    pub async fn start(
        &self,
        filled: FilledCommand,
        timeout: Duration,
        stdio: Stdio,
        view: OutputView,
    ) -> Result<RunningCommand, Error> {
        let command = self.command(filled);
        let mut launch = self.ctx.prepare(&command.argv, &command.env)?;
        let created = launch.take_created();
        let mut lines = Lines {
            view: view.clone(),
            pending: Vec::new(),
        };
        let options = SpawnOptions {
            timeout: Some(timeout),
            stdio,
            stderr: Box::new(move |bytes| lines.push(bytes)),
            bounds: Bounds {
                line: MAX_SHOWN_BYTES - "…".len(),
                ..Bounds::default()
            },
            ..SpawnOptions::default()
        };
        let started = self.ctx.launch(launch, options).await?;
        Ok(RunningCommand {
            started,
            view,
            created,
        })
    }
}

impl RunningCommand {
    /// What was created on the host for this command.
    pub fn take_created(&mut self) -> CreatedPaths {
        std::mem::take(&mut self.created)
    }

    pub fn take_input(&mut self) -> Option<Input> {
        self.started.child().stdin.take()
    }

    pub async fn finish(&mut self) -> Finished {
        let mut stdout = Vec::new();
        if let Some(mut lines) = self.started.child().stdout.take() {
            while let Some(piece) = lines.next().await {
                let bytes = match piece {
                    Piece::Line { bytes, .. } => bytes,
                    Piece::TooLong { mut start, .. } => {
                        start.extend_from_slice("…".as_bytes());
                        start
                    }
                    Piece::Gap { .. } => continue,
                };
                self.view.line(&bytes);
                // Only the last line is kept. It is enough to report a failure.
                stdout = bytes;
            }
        }
        let exit = self.started.wait().await;
        let child = self.started.child();
        child.stderr.finish().await;
        Finished {
            exit,
            stdout,
            stderr: child.stderr.text(),
        }
    }
}
