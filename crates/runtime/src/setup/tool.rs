//! Runs commands of setup and login in the bundle's sandbox. They find the bundle's binary by its
//! name.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::unix::pipe::Sender as Input;

use super::template::FilledCommand;
use crate::command::{BundleCommand, Finished, Started};
use crate::context::Context;
use crate::error::Error;
use agentproto_sandbox::spawn::{Piece, SpawnOptions, Stdio};

/// Maximum number of characters of a command's output in a message.
const MAX_OUTPUT_CHARS: usize = 400;

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

/// A running command that the caller communicates with.
pub struct RunningCommand<S> {
    started: Started,
    show: S,
}

impl BundleTool {
    /// Starts a command, and shows its output line by line.
    pub async fn start<S: FnMut(&str) + Send>(
        &self,
        filled: FilledCommand,
        timeout: Duration,
        show: S,
    ) -> Result<RunningCommand<S>, Error> {
        let command = self.command(filled);
        let launch = self.ctx.prepare(&command.argv, &command.env)?;
        let options = SpawnOptions {
            timeout: Some(timeout),
            ..SpawnOptions::default()
        };
        let started = self.ctx.launch(launch, options).await?;
        Ok(RunningCommand { started, show })
    }
}

impl<S: FnMut(&str) + Send> RunningCommand<S> {
    pub fn take_input(&mut self) -> Option<Input> {
        self.started.child().stdin.take()
    }

    pub async fn finish(&mut self) -> Finished {
        let mut stdout = Vec::new();
        if let Some(mut lines) = self.started.child().stdout.take() {
            while let Some(piece) = lines.next().await {
                if let Piece::Line { bytes, .. } = piece {
                    (self.show)(&String::from_utf8_lossy(&bytes));
                    // Only the last line is kept. It is enough to report a failure.
                    stdout = bytes;
                }
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
