//! A Node process that hosts the entry module of a bundle.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;

use crate::command::{Launch, Started};
use crate::context::Context;
use crate::error::{Code, Error};
use agentproto_sandbox::spawn::{Bounds, OutputLines, Piece, SpawnOptions};
use agentproto_text::truncate;

/// Time limit for loading a module, and for a hook that only computes.
pub(super) const SHORT_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of bytes of one answer, and of answers that wait.
const BOUNDS: Bounds = Bounds {
    line: 16 << 20,
    waiting: 32 << 20,
};
/// Maximum number of characters of the module's words in an error.
const MAX_WORDS: usize = 1000;

/// An answer of the process.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Answer {
    /// The module was loaded.
    Loaded {
        fields: Map<String, Value>,
        hooks: Vec<String>,
    },
    /// This Node cannot load the module.
    Unsupported { message: String },
    /// A hook shows a line to the user.
    Show { text: String },
    /// A hook has ended.
    Result { value: Value },
    /// Loading or a hook threw an error.
    Failed {
        message: String,
        cause: FailureCause,
    },
}

/// What kind of error a module threw.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FailureCause {
    /// The module is not valid JavaScript.
    Syntax,
    /// The module imports a file or a package, which it does not have.
    Import,
    Other,
}

/// A running process. Dropping it kills it and everything that it started.
pub(super) struct ModuleProcess {
    ctx: Context,
    file: PathBuf,
    started: Started,
    input: pipe::Sender,
    lines: OutputLines,
}

impl ModuleProcess {
    /// Starts a prepared process. `file` is the module, as the user knows it.
    pub(super) async fn start(
        ctx: &Context,
        file: &Path,
        mut launch: Launch,
    ) -> Result<ModuleProcess, Error> {
        launch.without_timeout();
        let options = SpawnOptions {
            bounds: BOUNDS,
            ..SpawnOptions::default()
        };
        let mut started = ctx.launch(launch, options).await?;
        let child = started.child();
        let (Some(input), Some(lines)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new(Code::SpawnFailed, "the process has no pipes"));
        };
        Ok(ModuleProcess {
            ctx: ctx.clone(),
            file: file.to_owned(),
            started,
            input,
            lines,
        })
    }

    /// Sends a command. An error shows in the next answer.
    pub(super) async fn send(&mut self, command: &Value) {
        let mut line = command.to_string().into_bytes();
        line.push(b'\n');
        let _ = self.input.write_all(&line).await;
    }

    /// Waits for the next answer. `during` names what the process does.
    pub(super) async fn answer(&mut self, during: &str) -> Result<Answer, Error> {
        let line = match self.lines.next().await {
            Some(Piece::Line { bytes, .. }) => bytes,
            Some(Piece::TooLong { length, .. }) => {
                return Err(self.error(during, &format!("wrote a line of {length} bytes")));
            }
            Some(Piece::Gap { .. }) => {
                return Err(self.error(during, "wrote more than can be read"));
            }
            None => return Err(self.exited(during).await),
        };
        match serde_json::from_slice::<Answer>(&line) {
            Ok(Answer::Failed { message, cause }) => Err(self.failed(during, &message, cause)),
            Ok(answer) => Ok(answer),
            Err(_) => {
                let text = String::from_utf8_lossy(&line);
                let what = format!("wrote to its stdout: \"{}\"", truncate(&text, 80));
                Err(self.error(during, &what))
            }
        }
    }

    /// Runs a hook that only computes.
    pub(super) async fn compute(&mut self, hook: &str, args: &Value) -> Result<Value, Error> {
        let working = async {
            self.send(&json!({ "op": "run", "hook": hook, "args": args }))
                .await;
            self.answer(hook).await
        };
        match tokio::time::timeout(SHORT_LIMIT, working).await {
            Ok(Ok(Answer::Result { value })) => Ok(value),
            Ok(Ok(_)) => Err(self.error(hook, "gave an unexpected answer")),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(self.too_slow(hook)),
        }
    }

    pub(super) fn too_slow(&self, during: &str) -> Error {
        let seconds = SHORT_LIMIT.as_secs();
        self.error(during, &format!("did not finish within {seconds} s"))
    }

    async fn exited(&mut self, during: &str) -> Error {
        let exit = self.started.wait().await;
        let child = self.started.child();
        child.stderr.finish().await;
        let how = match (exit.status.code(), exit.status.signal()) {
            (Some(code), _) => format!("exited with code {code}"),
            (None, signal) => format!("was killed by signal {}", signal.unwrap_or_default()),
        };
        let said = child.stderr.text();
        let lines: Vec<&str> = said.trim().lines().rev().take(4).collect();
        let said = lines.into_iter().rev().collect::<Vec<_>>().join(" / ");
        match said.is_empty() {
            true => self.error(during, &how),
            false => self.error(during, &format!("{how}: {said}")),
        }
    }

    fn failed(&self, during: &str, message: &str, cause: FailureCause) -> Error {
        let file = self.file.display();
        match cause {
            // The message names a copy of the module, so it is left out.
            FailureCause::Import => self
                .error(during, "imports a file or a package that it cannot use")
                .hint("a module can only import what Node contains: combine it and its imports into one file"),
            FailureCause::Syntax => self
                .error(during, &format!("is not valid JavaScript: {message}"))
                .hint(format!("`node --check {file}` shows the line")),
            FailureCause::Other => self.error(during, &format!("threw an error: {message}")),
        }
    }

    /// The error for a module that violates its contract.
    pub(super) fn error(&self, during: &str, what: &str) -> Error {
        error(&self.ctx, &self.file, during, what)
    }
}

/// The error for a module that violates its contract. `during` is `load` or the name of a hook.
pub(super) fn error(ctx: &Context, file: &Path, during: &str, what: &str) -> Error {
    // Masked before it is cut, because a cut could leave half a secret.
    let what = ctx.masks.mask(what);
    let what = truncate(&what, MAX_WORDS);
    let (where_, hint) = match during {
        "load" => (
            "while it was loaded".to_owned(),
            "a module must not use files, the network or other programs while it is loaded: move that into a hook".to_owned(),
        ),
        "parseOutput" | "detectExpiry" => (
            format!("in `{during}`"),
            format!("correct `{during}` in the module; it must not use files, the network or other programs"),
        ),
        hook => (
            format!("in `{hook}`"),
            format!("correct `{hook}` in the module; it may use what `sandbox` of the CLI.md allows"),
        ),
    };
    let what = format!("{}: the module {what} ({where_})", file.display());
    Error::new(Code::EntryFailed, what)
        .hint(hint)
        .details(json!({ "file": file.to_string_lossy(), "during": during }))
}
