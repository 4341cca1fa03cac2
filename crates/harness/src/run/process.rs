//! Starts the agent under test as a process: a command line, or a bundle.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::unix::pipe;

use crate::lifecycle::BundleTarget;
use crate::sessions::HostTarget;
use agentproto_runtime::command::Started;
use agentproto_runtime::error::Error;
pub use agentproto_sandbox::plan::unconfined;
use agentproto_sandbox::programs::find::{find_in, search_path};
use agentproto_sandbox::spawn::{self, Bounds, Child, Exit, OutputLines, SpawnOptions};

/// Maximum length of a line, and maximum number of unread bytes. Several agents run in parallel, so
/// each must stay within these limits.
const BOUNDS: Bounds = Bounds {
    line: 4 << 20,
    waiting: 5 << 20,
};
/// Maximum time to read stderr to its end after the process exited.
const LAST_STDERR: Duration = Duration::from_secs(1);
/// Maximum number of bytes of stderr that are kept between two reads.
const MAX_STDERR_BYTES: usize = 1 << 20;

/// What is certified, and how it is started for each case.
#[derive(Clone, Debug)]
pub enum Launcher {
    /// A command line.
    Program(Program),
    /// A bundle, which the runtime starts in its declared sandbox.
    Bundle(Arc<BundleTarget>),
    /// A session host that is already running, reached by its URL.
    Host(Arc<HostTarget>),
}

/// A command line that can be started.
#[derive(Clone, Debug)]
pub struct Program {
    /// Absolute path of the program, and its arguments.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory. `None` uses a fresh directory for each case.
    pub cwd: Option<PathBuf>,
}

/// Why a process of the target could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program was not found.
    #[error("program `{0}` not found")]
    NoProgram(String),
    /// No built-in mock agent has this name.
    #[error("unknown mock `{0}`")]
    NoMock(String),
    /// The program could not be started.
    #[error("cannot start `{program}`: {reason}")]
    Failed {
        /// Path of the program.
        program: String,
        /// The cause.
        reason: String,
    },
    /// The target is a session host, which the harness does not start.
    #[error("the target is a session host: it is reached by its URL and cannot be started")]
    Host,
    /// The runtime refused to start a bundle.
    #[error("{}: {}", .0.code.as_str(), .0.message)]
    Refused(Box<Error>),
}

impl Program {
    /// A command line in the current environment, plus the variables in `more`. Looks up the
    /// program on PATH.
    pub fn new(argv: Vec<OsString>, more: &[(String, String)]) -> Result<Program, StartError> {
        let own: Vec<_> = std::env::vars_os().collect();
        let env = merge_env(&own, more);
        let (name, rest) = argv
            .split_first()
            .ok_or_else(|| StartError::NoProgram(String::new()))?;
        let here = std::env::current_dir().ok();
        let program = here
            .and_then(|here| find_in(&search_path(&env), &here, name))
            .ok_or_else(|| StartError::NoProgram(name.to_string_lossy().into_owned()))?;
        let argv = [program.into_os_string()]
            .into_iter()
            .chain(rest.iter().cloned())
            .collect();
        Ok(Program {
            argv,
            env,
            cwd: None,
        })
    }

    /// Starts the program in a directory. All its descendants end with it. Variables in `more`
    /// override `env`.
    pub async fn start(
        &self,
        cwd: &Path,
        more: &[(String, String)],
    ) -> Result<AgentProcess, StartError> {
        let (stderr, options) = stderr_buffer();
        let env = merge_env(&self.env, more);
        let child = spawn::spawn(&unconfined(&self.argv, &env, cwd), options)
            .await
            .map_err(|error| self.failed(error.to_string()))?;
        AgentProcess::new(Started::Open(Box::new(child)), stderr)
            .ok_or_else(|| self.failed(NO_PIPES.to_owned()))
    }

    fn failed(&self, reason: String) -> StartError {
        let program = self.argv.first().map(|name| name.to_string_lossy());
        StartError::Failed {
            program: program.unwrap_or_default().into_owned(),
            reason,
        }
    }
}

const NO_PIPES: &str = "stdin or stdout is not a pipe";

impl Launcher {
    /// The environment of a started process, as far as the harness knows it.
    pub fn env(&self) -> Cow<'_, [(OsString, OsString)]> {
        match self {
            Launcher::Program(program) => Cow::Borrowed(&program.env),
            Launcher::Bundle(_) => Cow::Owned(std::env::vars_os().collect()),
            Launcher::Host(_) => Cow::Borrowed(&[]),
        }
    }

    /// The working directory that the caller set, if any.
    pub fn cwd(&self) -> Option<&Path> {
        match self {
            Launcher::Program(program) => program.cwd.as_deref(),
            Launcher::Bundle(_) | Launcher::Host(_) => None,
        }
    }

    /// The bundle, if the target is one.
    pub fn bundle(&self) -> Option<&Arc<BundleTarget>> {
        match self {
            Launcher::Bundle(bundle) => Some(bundle),
            Launcher::Program(_) | Launcher::Host(_) => None,
        }
    }

    /// The session host, if the target is one.
    pub fn host(&self) -> Option<&Arc<HostTarget>> {
        match self {
            Launcher::Host(host) => Some(host),
            Launcher::Program(_) | Launcher::Bundle(_) => None,
        }
    }

    /// Starts a process of the target in a directory, like `Program::start`.
    pub async fn start(
        &self,
        cwd: &Path,
        more: &[(String, String)],
    ) -> Result<AgentProcess, StartError> {
        match self {
            Launcher::Program(program) => program.start(cwd, more).await,
            Launcher::Bundle(bundle) => {
                let (stderr, options) = stderr_buffer();
                let started = bundle
                    .start(cwd, more, options)
                    .await
                    .map_err(|fault| StartError::Refused(Box::new(fault)))?;
                AgentProcess::new(started, stderr).ok_or_else(|| StartError::Failed {
                    program: String::new(),
                    reason: NO_PIPES.to_owned(),
                })
            }
            Launcher::Host(_) => Err(StartError::Host),
        }
    }
}

/// Creates a buffer for stderr, and spawn options that write to it.
fn stderr_buffer() -> (StderrBuffer, SpawnOptions) {
    let stderr = StderrBuffer::default();
    let stderr_buffer = stderr.clone();
    let options = SpawnOptions {
        bounds: BOUNDS,
        stderr: Box::new(move |bytes| stderr_buffer.push(bytes)),
        ..SpawnOptions::default()
    };
    (stderr, options)
}

/// An environment in which the variables of `more` are set or replaced.
pub fn merge_env(
    env: &[(OsString, OsString)],
    more: &[(String, String)],
) -> Vec<(OsString, OsString)> {
    let is_set = |name: &OsString| more.iter().any(|(other, _)| name == other.as_str());
    let buffer = env.iter().filter(|(name, _)| !is_set(name)).cloned();
    let set = more.iter().map(|(name, value)| (name.into(), value.into()));
    buffer.chain(set).collect()
}

/// Buffer for stderr since the last read.
#[derive(Clone, Default)]
pub struct StderrBuffer {
    buffer: Arc<Mutex<(Vec<u8>, u64)>>,
}

impl StderrBuffer {
    fn push(&self, bytes: &[u8]) {
        let mut buffer = self.buffer.lock();
        let room = MAX_STDERR_BYTES
            .saturating_sub(buffer.0.len())
            .min(bytes.len());
        buffer
            .0
            .extend_from_slice(bytes.get(..room).unwrap_or_default());
        buffer.1 += (bytes.len() - room) as u64;
    }

    /// Takes all complete lines since the last read. With `all`, also an incomplete last line.
    pub fn take(&self, all: bool) -> Vec<Vec<u8>> {
        let mut buffer = self.buffer.lock();
        let whole = match buffer.0.iter().rposition(|b| *b == b'\n') {
            _ if all => buffer.0.len(),
            Some(at) => at + 1,
            None => 0,
        };
        let rest = buffer.0.split_off(whole);
        let taken = std::mem::replace(&mut buffer.0, rest);
        let lines = taken.split(|b| *b == b'\n');
        lines
            .filter(|line| !line.is_empty())
            .map(<[u8]>::to_vec)
            .collect()
    }
}

/// A running process of the target. Dropping it kills the process and its descendants.
pub struct AgentProcess {
    started: Started,
    /// Input of the process. `None` after it was closed.
    pub stdin: Option<pipe::Sender>,
    /// Output of the process, line by line.
    pub stdout: OutputLines,
    /// Buffer for stderr since the last read.
    pub stderr: StderrBuffer,
}

impl AgentProcess {
    /// `None` if the process has no pipes.
    fn new(mut started: Started, stderr: StderrBuffer) -> Option<AgentProcess> {
        let child = started.child();
        let (stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
        Some(AgentProcess {
            started,
            stdin: Some(stdin),
            stdout,
            stderr,
        })
    }

    /// Sends a signal to the process.
    pub fn signal(&self, number: i32) -> io::Result<()> {
        self.child().signal(number, false)
    }

    fn child(&self) -> &Child {
        match &self.started {
            Started::Confined(confined) => &confined.child,
            Started::Open(child) => child,
        }
    }

    /// Id of the process above the agent and all its descendants.
    pub fn id(&self) -> u32 {
        u32::try_from(self.child().helper()).unwrap_or(u32::MAX)
    }

    /// Waits until the process exits, and its stderr was read.
    pub async fn wait(&mut self) -> Exit {
        let exit = self.started.wait().await;
        let _ = tokio::time::timeout(LAST_STDERR, self.started.child().stderr.finish()).await;
        exit
    }

    /// Ends the process: closes stdin, waits for `grace`, then kills it.
    pub async fn end(&mut self, grace: Duration) -> Exit {
        self.stdin = None;
        match tokio::time::timeout(grace, self.wait()).await {
            Ok(exit) => exit,
            Err(_) => {
                let _ = self.started.child().kill().await;
                self.wait().await
            }
        }
    }
}

/// How a process ended, as the JSON value that a case sees.
pub fn exit_value(exit: &Exit, after: Duration) -> Value {
    json!({
        "code": exit.status.code(),
        "signal": exit.status.signal(),
        "survivors": exit.usage.survivors,
        "ms": after.as_millis() as u64,
    })
}
