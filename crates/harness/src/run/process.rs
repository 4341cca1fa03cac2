//! The agent under test as a process, however it was named.

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
use agentproto_runtime::fault::Fault;
pub use agentproto_sandbox::plan::unconfined;
use agentproto_sandbox::programs::find::{find_in, search_path};
use agentproto_sandbox::spawn::{self, Bounds, Child, Exit, Lines, Options};

/// The longest line that is judged, and what may wait for the judge: several agents run at once,
/// and none may cost more than this.
const BOUNDS: Bounds = Bounds {
    line: 4 << 20,
    waiting: 5 << 20,
};
/// Of standard error so much is kept between two looks.
const STDERR: usize = 1 << 20;

/// What the cases of a run are about, and how it is started for each of them.
#[derive(Clone, Debug)]
pub enum Launcher {
    Program(Program),
    /// Started by the runner, under its declared sandbox.
    Bundle(Arc<BundleTarget>),
    /// Not started at all: it runs already, under its URL.
    Host(Arc<HostTarget>),
}

/// A command line that can be started.
#[derive(Clone, Debug)]
pub struct Program {
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where it is started; a fresh directory where this is not said.
    pub cwd: Option<PathBuf>,
}

/// Why a process of the target was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("there is no program `{0}`")]
    NoProgram(String),
    #[error("cannot start `{program}`: {reason}")]
    Failed { program: String, reason: String },
    #[error("the target is a host of sessions, which is not started but asked by its URL")]
    Host,
    /// The runner refused to start a bundle.
    #[error("{}: {}", .0.code.as_str(), .0.message)]
    Refused(Box<Fault>),
}

impl Program {
    /// A command line in our own environment, with some variables more.
    pub fn new(argv: Vec<OsString>, more: &[(String, String)]) -> Result<Program, StartError> {
        let own: Vec<_> = std::env::vars_os().collect();
        let env = with(&own, more);
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

    /// Starts it in a directory; everything that it starts ends with it. `more` wins over the
    /// common environment.
    pub async fn start(
        &self,
        cwd: &Path,
        more: &[(String, String)],
    ) -> Result<Running, StartError> {
        let (stderr, options) = heard();
        let env = with(&self.env, more);
        let child = spawn::spawn(&unconfined(&self.argv, &env, cwd), options)
            .await
            .map_err(|error| self.failed(error.to_string()))?;
        Running::new(Started::Open(Box::new(child)), stderr)
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

const NO_PIPES: &str = "it has no pipes";

impl Launcher {
    /// The environment that a started process has, as far as it is ours.
    pub fn env(&self) -> Cow<'_, [(OsString, OsString)]> {
        match self {
            Launcher::Program(program) => Cow::Borrowed(&program.env),
            Launcher::Bundle(_) => Cow::Owned(std::env::vars_os().collect()),
            Launcher::Host(_) => Cow::Borrowed(&[]),
        }
    }

    /// Where the caller wants it started.
    pub fn cwd(&self) -> Option<&Path> {
        match self {
            Launcher::Program(program) => program.cwd.as_deref(),
            Launcher::Bundle(_) | Launcher::Host(_) => None,
        }
    }

    pub fn bundle(&self) -> Option<&Arc<BundleTarget>> {
        match self {
            Launcher::Bundle(bundle) => Some(bundle),
            Launcher::Program(_) | Launcher::Host(_) => None,
        }
    }

    pub fn host(&self) -> Option<&Arc<HostTarget>> {
        match self {
            Launcher::Host(host) => Some(host),
            Launcher::Program(_) | Launcher::Bundle(_) => None,
        }
    }

    /// Starts a process of it in a directory, as `Program::start` does.
    pub async fn start(
        &self,
        cwd: &Path,
        more: &[(String, String)],
    ) -> Result<Running, StartError> {
        match self {
            Launcher::Program(program) => program.start(cwd, more).await,
            Launcher::Bundle(bundle) => {
                let (stderr, options) = heard();
                let started = bundle
                    .start(cwd, more, options)
                    .await
                    .map_err(|fault| StartError::Refused(Box::new(fault)))?;
                Running::new(started, stderr).ok_or_else(|| StartError::Failed {
                    program: String::new(),
                    reason: NO_PIPES.to_owned(),
                })
            }
            Launcher::Host(_) => Err(StartError::Host),
        }
    }
}

/// A place for standard error, and how a process is started that writes there.
fn heard() -> (Stderr, Options) {
    let stderr = Stderr::default();
    let heard = stderr.clone();
    let options = Options {
        bounds: BOUNDS,
        stderr: Box::new(move |bytes| heard.hear(bytes)),
        ..Options::default()
    };
    (stderr, options)
}

/// An environment with some variables set otherwise.
pub fn with(env: &[(OsString, OsString)], more: &[(String, String)]) -> Vec<(OsString, OsString)> {
    let is_set = |name: &OsString| more.iter().any(|(other, _)| name == other.as_str());
    let kept = env.iter().filter(|(name, _)| !is_set(name)).cloned();
    let set = more.iter().map(|(name, value)| (name.into(), value.into()));
    kept.chain(set).collect()
}

/// Standard error since the last look.
#[derive(Clone, Default)]
pub struct Stderr {
    kept: Arc<Mutex<(Vec<u8>, u64)>>,
}

impl Stderr {
    fn hear(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock();
        let room = STDERR.saturating_sub(kept.0.len()).min(bytes.len());
        kept.0
            .extend_from_slice(bytes.get(..room).unwrap_or_default());
        kept.1 += (bytes.len() - room) as u64;
    }

    /// Whole lines since the last look; with `all` also one that has no end yet.
    pub fn take(&self, all: bool) -> Vec<Vec<u8>> {
        let mut kept = self.kept.lock();
        let whole = match kept.0.iter().rposition(|b| *b == b'\n') {
            _ if all => kept.0.len(),
            Some(at) => at + 1,
            None => 0,
        };
        let rest = kept.0.split_off(whole);
        let taken = std::mem::replace(&mut kept.0, rest);
        let lines = taken.split(|b| *b == b'\n');
        lines
            .filter(|line| !line.is_empty())
            .map(<[u8]>::to_vec)
            .collect()
    }
}

pub struct Running {
    started: Started,
    pub stdin: Option<pipe::Sender>,
    pub stdout: Lines,
    pub stderr: Stderr,
}

impl Running {
    /// `None` for a process without pipes.
    fn new(mut started: Started, stderr: Stderr) -> Option<Running> {
        let child = started.child();
        let (stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
        Some(Running {
            started,
            stdin: Some(stdin),
            stdout,
            stderr,
        })
    }

    pub fn signal(&self, number: i32) -> io::Result<()> {
        self.child().signal(number, false)
    }

    fn child(&self) -> &Child {
        match &self.started {
            Started::Confined(confined) => &confined.child,
            Started::Open(child) => child,
        }
    }

    pub async fn wait(&mut self) -> Exit {
        self.started.wait().await
    }

    /// The end of it: end of input, a short grace, then by force.
    pub async fn end(&mut self, grace: Duration) -> Exit {
        self.stdin = None;
        match tokio::time::timeout(grace, self.started.wait()).await {
            Ok(exit) => exit,
            Err(_) => {
                let _ = self.started.child().kill().await;
                self.started.wait().await
            }
        }
    }
}

/// How a process ended, as a case sees it.
pub fn exit_value(exit: &Exit, after: Duration) -> Value {
    json!({
        "code": exit.status.code(),
        "signal": exit.status.signal(),
        "survivors": exit.usage.survivors,
        "ms": after.as_millis() as u64,
    })
}
