//! The agent under test as a process, however it was named.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::unix::pipe;

use crate::lifecycle::BundleTarget;
use crate::sessions::HostTarget;
use agentproto_runtime::command::Started;
use agentproto_runtime::fault::Fault;
pub use agentproto_sandbox::plan::unconfined;
use agentproto_sandbox::policy::Surroundings;
use agentproto_sandbox::spawn::{self, Bounds, Child, Exit, Lines, Options};

/// The longest line that is judged, and what may wait for the judge: several agents run at once,
/// and none may cost more than this.
const BOUNDS: Bounds = Bounds {
    line: 4 << 20,
    waiting: 5 << 20,
};
/// Of standard error so much is kept between two looks.
const STDERR: usize = 1 << 20;

/// What is started for every case.
#[derive(Clone, Debug)]
pub struct Launcher {
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where it is started; a fresh directory where this is not said.
    pub cwd: Option<PathBuf>,
    /// A bundle is started by the runner, under its declared sandbox.
    pub bundle: Option<Arc<BundleTarget>>,
    /// A host is not started at all: it is there, under its URL.
    pub host: Option<Arc<HostTarget>>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("there is no program `{0}`")]
    NoProgram(String),
    #[error("cannot start `{program}`: {reason}")]
    Failed { program: String, reason: String },
    /// The runner refused to start a bundle.
    #[error("{}: {}", .0.code.as_str(), .0.message)]
    Refused(Box<Fault>),
}

impl Launcher {
    /// A command line in our own environment, with some variables more.
    pub fn new(argv: Vec<OsString>, more: &[(String, String)]) -> Result<Launcher, StartError> {
        let own: Vec<_> = std::env::vars_os().collect();
        let env = with(&own, more);
        let (name, rest) = argv
            .split_first()
            .ok_or_else(|| StartError::NoProgram(String::new()))?;
        let program = std::env::current_dir().ok();
        let program = program
            .and_then(|here| find(name, &env, &here))
            .ok_or_else(|| StartError::NoProgram(name.to_string_lossy().into_owned()))?;
        let argv = [program.into_os_string()]
            .into_iter()
            .chain(rest.iter().cloned())
            .collect();
        Ok(Launcher {
            argv,
            env,
            cwd: None,
            bundle: None,
            host: None,
        })
    }

    /// A bundle, as the runner starts it.
    pub fn of_bundle(bundle: Arc<BundleTarget>) -> Launcher {
        Launcher {
            argv: Vec::new(),
            env: std::env::vars_os().collect(),
            cwd: None,
            bundle: Some(bundle),
            host: None,
        }
    }

    /// A host of sessions, which runs already.
    pub fn of_host(host: Arc<HostTarget>) -> Launcher {
        Launcher {
            argv: Vec::new(),
            env: Vec::new(),
            cwd: None,
            bundle: None,
            host: Some(host),
        }
    }

    /// Starts it in a directory; everything that it starts ends with it. `more` wins over the
    /// common environment.
    pub async fn start(
        &self,
        cwd: &Path,
        more: &[(String, String)],
    ) -> Result<Running, StartError> {
        let stderr = Stderr::default();
        let heard = stderr.clone();
        let options = Options {
            bounds: BOUNDS,
            stderr: Box::new(move |bytes| heard.hear(bytes)),
            ..Options::default()
        };
        let program = || {
            let name = self.argv.first().cloned().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        let mut started = match &self.bundle {
            Some(bundle) => bundle
                .start(cwd, more, options)
                .await
                .map_err(|fault| StartError::Refused(Box::new(fault)))?,
            None => {
                let env = with(&self.env, more);
                let child = spawn::spawn(&unconfined(&self.argv, &env, cwd), options)
                    .await
                    .map_err(|error| StartError::Failed {
                        program: program(),
                        reason: error.to_string(),
                    })?;
                Started::Open(Box::new(child))
            }
        };
        let child = started.child();
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(StartError::Failed {
                program: program(),
                reason: "it has no pipes".to_owned(),
            });
        };
        Ok(Running {
            started,
            stdin: Some(stdin),
            stdout,
            stderr,
        })
    }
}

/// An environment with some variables set otherwise.
pub fn with(env: &[(OsString, OsString)], more: &[(String, String)]) -> Vec<(OsString, OsString)> {
    let is_set = |name: &OsString| more.iter().any(|(other, _)| name == other.as_str());
    let kept = env.iter().filter(|(name, _)| !is_set(name)).cloned();
    let set = more.iter().map(|(name, value)| (name.into(), value.into()));
    kept.chain(set).collect()
}

/// The program that a name means in this environment, as the runner finds it.
pub fn find(name: &OsStr, env: &[(OsString, OsString)], cwd: &Path) -> Option<PathBuf> {
    let around = Surroundings {
        host_env: env.to_vec(),
        home: cwd.to_owned(),
        cwd: cwd.to_owned(),
        bundle: cwd.to_owned(),
        extra_env: Vec::new(),
    };
    around.find(name).ok()
}

/// Standard error since the last look.
#[derive(Clone, Default)]
pub struct Stderr {
    kept: Arc<Mutex<(Vec<u8>, u64)>>,
}

impl Stderr {
    fn hear(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = STDERR.saturating_sub(kept.0.len()).min(bytes.len());
        kept.0
            .extend_from_slice(bytes.get(..room).unwrap_or_default());
        kept.1 += (bytes.len() - room) as u64;
    }

    /// Whole lines since the last look; with `all` also one that has no end yet.
    pub fn take(&self, all: bool) -> Vec<Vec<u8>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
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
