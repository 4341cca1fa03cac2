//! A running child, as the runner sees it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::control::{self, HelperCommand, HelperReport, TargetExit};
use super::launch::{self, Streams};
use super::output::{Bounds, OutputLines, StderrTail};
use super::terminal::PseudoTerminal;
use crate::helper::{self, sys};
use crate::limits::{CPU_INTERVAL, CpuBudget};
use crate::plan::SpawnPlan;

/// Time between closing stdin and the first signal.
pub const AFTER_EOF: Duration = Duration::from_millis(500);
/// AIP-45, tear down: time between SIGTERM and SIGKILL.
pub const AFTER_TERM: Duration = Duration::from_secs(5);
/// Time limit for starting the target. A slower helper is killed.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which a helper has to kill everything. After that, the runner helps.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two attempts of the runner to kill everything below a helper.
const KILL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of attempts after which the runner kills the helper itself, which then cannot clean up.
const KILL_ATTEMPTS: u32 = 100;

/// Why a child was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The helper process could not be started.
    #[error("cannot start the helper process: {0}")]
    Helper(#[source] io::Error),
    /// A step failed, and nothing was executed.
    #[error("cannot {step}: {error}")]
    Failed {
        /// The step, as an imperative phrase.
        step: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The helper process ended too early.
    #[error("the helper process ended before the target was started")]
    Lost,
    /// The target was not started in time.
    #[error("the target was not started within {} s", START_TIMEOUT.as_secs())]
    Slow,
}

/// The standard streams of the child.
#[derive(Clone, Copy, Debug, Default)]
pub enum Stdio {
    /// Three pipes.
    #[default]
    Pipes,
    /// Three pipes. Output is read as bytes, at the reader's own pace.
    Raw,
    /// The runner's own streams.
    Inherit,
    /// The runner's own stdin and stdout. Stderr is a pipe, so that it can be stored.
    InheritExceptStderr,
    /// One terminal for all three.
    Terminal {
        /// Height in rows.
        rows: u16,
        /// Width in columns.
        columns: u16,
    },
}

/// Receives bytes as they arrive.
pub type OutputCallback = Box<dyn FnMut(&[u8]) + Send>;

/// Streams and limits of a child.
pub struct SpawnOptions {
    /// The standard streams.
    pub stdio: Stdio,
    /// Descriptors of the caller, used instead of `stdio`.
    pub streams: Option<Streams>,
    /// Bounds of stdout.
    pub bounds: Bounds,
    /// Time limit after which the child is killed.
    pub timeout: Option<Duration>,
    /// Processor time limit of the child and all its descendants, after which they are killed.
    pub cpu: Option<CpuBudget>,
    /// Receives every chunk of stderr as it arrives.
    pub stderr: OutputCallback,
}

impl Default for SpawnOptions {
    fn default() -> Self {
        Self {
            stdio: Stdio::Pipes,
            streams: None,
            bounds: Bounds::default(),
            timeout: None,
            cpu: None,
            stderr: Box::new(|_| {}),
        }
    }
}

/// How a child ended, and the resources that it used.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// Resources that it used, as the helper reported them.
    pub usage: TargetExit,
    /// Whether it exceeded its time limit.
    pub timed_out: bool,
    /// Whether it exceeded its processor time limit.
    pub cpu_spent: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Running,
    Ended(TargetExit),
    /// The helper was killed. A sandbox and the target end with it.
    Lost,
}

/// A running child. Dropping it kills the child and all its descendants.
pub struct Child {
    /// `None` after it was closed, and with a terminal.
    pub stdin: Option<pipe::Sender>,
    /// `None` with a terminal.
    pub stdout: Option<OutputLines>,
    /// Stdout as bytes, for `Stdio::Raw`.
    pub raw: Option<pipe::Receiver>,
    /// The last bytes of stderr.
    pub stderr: StderrTail,
    /// The terminal, for `Stdio::Terminal`.
    pub terminal: Option<PseudoTerminal>,
    /// Socket in the child's own network on which the egress proxy accepts.
    pub listener: Option<std::net::TcpListener>,
    killer: Killer,
    state: watch::Receiver<State>,
    /// Connections into the child's own network.
    pub sockets: Option<Sockets>,
    timed_out: watch::Receiver<bool>,
    cpu_spent: watch::Receiver<bool>,
    /// Pid of the process that is the ancestor of all others.
    helper: libc::pid_t,
}

/// Ends a child.
#[derive(Clone)]
struct Killer {
    control: Arc<AsyncFd<OwnedFd>>,
    /// Whether the child has to end. The task that reaps the helper enforces it.
    must_end: watch::Sender<bool>,
}

impl Killer {
    fn kill(&self) {
        let _ = send_command(&self.control, HelperCommand::Kill);
        self.must_end.send_replace(true);
    }
}

/// Sockets of the child's own network. They are created there and passed to the runner.
pub struct Sockets {
    control: Arc<AsyncFd<OwnedFd>>,
    received: mpsc::Receiver<OwnedFd>,
}

impl Sockets {
    /// Connects to one of the child's ports.
    pub async fn connect(&mut self, port: u16) -> io::Result<tokio::net::TcpStream> {
        send_command(&self.control, HelperCommand::Socket)?;
        let socket = self
            .received
            .recv()
            .await
            .ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        set_nonblocking(&socket)?;
        let socket = tokio::net::TcpSocket::from_std_stream(socket.into());
        let address = (std::net::Ipv4Addr::LOCALHOST, port);
        socket.connect(address.into()).await
    }
}

/// Starts the target of a plan. Returns when the target was executed.
pub async fn spawn(plan: &SpawnPlan, options: SpawnOptions) -> Result<Child, SpawnError> {
    let (ours, theirs) = control::pair().map_err(SpawnError::Helper)?;
    set_nonblocking(&ours).map_err(SpawnError::Helper)?;
    let mut ends = match options.streams {
        Some(child) => StreamEnds {
            child,
            runner: RunnerEnd::Taken,
        },
        None => StreamEnds::new(options.stdio).map_err(SpawnError::Helper)?,
    };
    let helper = launch::start(plan, &ends.child, theirs).map_err(SpawnError::Helper)?;
    let outer = std::mem::replace(&mut ends.runner, RunnerEnd::Taken);
    drop(ends);
    let control = Arc::new(super::watched(ours).map_err(SpawnError::Helper)?);
    let pid = helper.pid;
    let (must_end, ending) = watch::channel(false);
    reap(helper, ending);
    let listener = match timeout(START_TIMEOUT, started(&control)).await {
        Ok(listener) => listener?,
        // Dropping `must_end` and the control socket makes the helper exit.
        Err(_) => return Err(SpawnError::Slow),
    };
    let (sender, state) = watch::channel(State::Running);
    let (socket_sender, sockets) = mpsc::channel(4);
    tokio::spawn(follow(Arc::clone(&control), sender, socket_sender));
    let mut raw = None;
    let (stdin, stdout, stderr, terminal) = match outer {
        RunnerEnd::Pipes(stdin, stdout, stderr) if matches!(options.stdio, Stdio::Raw) => {
            let stdin = pipe::Sender::from_owned_fd(stdin).map_err(SpawnError::Helper)?;
            raw = Some(pipe::Receiver::from_owned_fd(stdout).map_err(SpawnError::Helper)?);
            let tail = StderrTail::drain(stderr, options.stderr).map_err(SpawnError::Helper)?;
            (Some(stdin), None, tail, None)
        }
        RunnerEnd::Pipes(stdin, stdout, stderr) => {
            let stdin = pipe::Sender::from_owned_fd(stdin).map_err(SpawnError::Helper)?;
            let stdout = OutputLines::drain(stdout, options.bounds).map_err(SpawnError::Helper)?;
            let tail = StderrTail::drain(stderr, options.stderr).map_err(SpawnError::Helper)?;
            (Some(stdin), Some(stdout), tail, None)
        }
        RunnerEnd::Errors(stderr) => {
            let tail = StderrTail::drain(stderr, options.stderr).map_err(SpawnError::Helper)?;
            (None, None, tail, None)
        }
        RunnerEnd::Terminal(terminal) => (None, None, StderrTail::default(), Some(terminal)),
        RunnerEnd::Taken => (None, None, StderrTail::default(), None),
    };
    let sockets = Some(Sockets {
        control: Arc::clone(&control),
        received: sockets,
    });
    let killer = Killer { control, must_end };
    let deadline = options.timeout.map(tokio::time::sleep);
    let timed_out = kill_after(deadline, &killer, &state);
    let cpu_spent = kill_after(options.cpu.map(cpu_spent), &killer, &state);
    Ok(Child {
        stdin,
        stdout,
        raw,
        stderr,
        terminal,
        listener,
        killer,
        state,
        sockets,
        timed_out,
        cpu_spent,
        helper: pid,
    })
}

impl Child {
    /// Sends a signal to the target's process group, or to everything in the sandbox.
    pub fn signal(&self, number: i32, all: bool) -> io::Result<()> {
        send_command(&self.killer.control, HelperCommand::Signal { number, all })
    }

    /// Sends a signal to the target only.
    pub fn signal_target(&self, number: i32) -> io::Result<()> {
        send_command(&self.killer.control, HelperCommand::SignalTarget { number })
    }

    /// Pid of the process above the target and all its descendants, while it runs.
    pub fn helper(&self) -> libc::pid_t {
        self.helper
    }

    /// Whether it is still running, as far as the helper has reported.
    pub fn is_running(&self) -> bool {
        matches!(*self.state.borrow(), State::Running)
    }

    /// Waits for the end of the child and all its descendants.
    pub async fn wait(&mut self) -> Exit {
        let lost = TargetExit {
            status: libc::SIGKILL,
            survivors: 0,
            held: false,
            user_us: 0,
            system_us: 0,
            peak_kb: 0,
            network_attempts: 0,
        };
        let state = self.state.wait_for(|s| !matches!(s, State::Running)).await;
        let usage = match state.as_deref() {
            Ok(State::Ended(ended)) => *ended,
            _ => lost,
        };
        Exit {
            status: ExitStatus::from_raw(usage.status),
            usage,
            timed_out: *self.timed_out.borrow(),
            cpu_spent: *self.cpu_spent.borrow(),
        }
    }

    /// Stops the child: closes stdin, then SIGTERM, five seconds later SIGKILL.
    pub async fn stop(&mut self) -> Exit {
        self.stop_within(AFTER_EOF, AFTER_TERM).await
    }

    /// Like `stop`, with other times between the steps.
    pub async fn stop_within(&mut self, after_eof: Duration, after_term: Duration) -> Exit {
        self.stdin = None;
        if let Ok(exit) = timeout(after_eof, self.wait()).await {
            return exit;
        }
        let _ = self.signal(libc::SIGTERM, false);
        if let Ok(exit) = timeout(after_term, self.wait()).await {
            return exit;
        }
        self.kill().await
    }

    /// Kills the child and all its descendants, and waits until they are gone.
    pub async fn kill(&mut self) -> Exit {
        self.killer.kill();
        self.wait().await
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.killer.kill();
    }
}

fn send_command(control: &AsyncFd<OwnedFd>, command: HelperCommand) -> io::Result<()> {
    control::send(control.get_ref().as_fd(), &command, None)
}

async fn next(control: &AsyncFd<OwnedFd>) -> io::Result<Option<(HelperReport, Option<OwnedFd>)>> {
    loop {
        let mut ready = control.readable().await?;
        match ready.try_io(|fd| control::receive::<HelperReport>(fd.get_ref().as_fd())) {
            Ok(result) => return result,
            Err(_would_block) => {}
        }
    }
}

async fn started(control: &AsyncFd<OwnedFd>) -> Result<Option<std::net::TcpListener>, SpawnError> {
    let mut listener = None;
    loop {
        match next(control).await {
            Ok(Some((HelperReport::Listener, Some(fd)))) => listener = Some(fd.into()),
            Ok(Some((HelperReport::Started, _))) => return Ok(listener),
            Ok(Some((HelperReport::Failed { step, errno }, _))) => {
                let error = io::Error::from_raw_os_error(errno);
                return Err(SpawnError::Failed { step, error });
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return Err(SpawnError::Lost),
        }
    }
}

async fn follow(
    control: Arc<AsyncFd<OwnedFd>>,
    sender: watch::Sender<State>,
    sockets: mpsc::Sender<OwnedFd>,
) {
    loop {
        match next(&control).await {
            Ok(Some((HelperReport::Ended(ended), _))) => {
                sender.send_replace(State::Ended(ended));
                return;
            }
            Ok(Some((HelperReport::Socket, Some(fd)))) => {
                let _ = sockets.try_send(fd);
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                sender.send_replace(State::Lost);
                return;
            }
        }
    }
}

/// Kills a child that is still running when `deadline` resolves, and records that.
fn kill_after(
    deadline: Option<impl Future<Output = ()> + Send + 'static>,
    killer: &Killer,
    state: &watch::Receiver<State>,
) -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    if let Some(deadline) = deadline {
        let (killer, mut state) = (killer.clone(), state.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = state.wait_for(|s| !matches!(s, State::Running)) => {}
                () = deadline => {
                    sender.send_replace(true);
                    killer.kill();
                }
            }
        });
    }
    receiver
}

async fn cpu_spent(budget: CpuBudget) {
    while !budget.is_spent() {
        tokio::time::sleep(CPU_INTERVAL).await;
    }
}

/// Waits for the helper in the background, so that it leaves no zombie. Once `must_end` is true or
/// dropped, it ends a helper that does not end by itself.
fn reap(helper: launch::Helper, mut must_end: watch::Receiver<bool>) {
    tokio::spawn(async move {
        let launch::Helper { pid, pidfd } = helper;
        if let Ok(pidfd) = super::watched(pidfd) {
            let must_end = async move {
                let _ = must_end.wait_for(|must_end| *must_end).await;
            };
            tokio::select! {
                biased;
                _ = pidfd.readable() => {}
                () = must_end => end(pid, &pidfd).await,
            }
            let pidfd = pidfd.into_inner();
            launch::wait(&launch::Helper { pid, pidfd });
        }
    });
}

/// Ends a helper that has to end. Without a sandbox, the target can stop its helper. The helper is
/// still the subreaper, so everything that it watches is below it.
async fn end(pid: libc::pid_t, pidfd: &AsyncFd<OwnedFd>) {
    let mut wait = KILL_TIMEOUT;
    for _ in 0..KILL_ATTEMPTS {
        if timeout(wait, pidfd.readable()).await.is_ok() {
            return;
        }
        helper::kill_descendants(pid as u32);
        launch::signal(pidfd.get_ref(), libc::SIGCONT);
        wait = KILL_INTERVAL;
    }
    launch::signal(pidfd.get_ref(), libc::SIGKILL);
    let _ = pidfd.readable().await;
}

/// Makes reads and writes of a descriptor return at once.
pub fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: plain numbers.
    unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        if flags < 0 || libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Both ends of the child's streams.
struct StreamEnds {
    child: Streams,
    runner: RunnerEnd,
}

enum RunnerEnd {
    Pipes(OwnedFd, OwnedFd, OwnedFd),
    Terminal(PseudoTerminal),
    Errors(OwnedFd),
    Taken,
}

impl StreamEnds {
    fn new(stdio: Stdio) -> io::Result<Self> {
        match stdio {
            Stdio::Pipes | Stdio::Raw => {
                let (stdin, to_stdin) = sys::pipe()?;
                let (from_stdout, stdout) = sys::pipe()?;
                let (from_stderr, stderr) = sys::pipe()?;
                for ours in [&to_stdin, &from_stdout, &from_stderr] {
                    set_nonblocking(ours)?;
                }
                Ok(Self {
                    child: Streams {
                        stdin,
                        stdout,
                        stderr,
                    },
                    runner: RunnerEnd::Pipes(to_stdin, from_stdout, from_stderr),
                })
            }
            Stdio::Inherit | Stdio::InheritExceptStderr => {
                let copy = |fd: BorrowedFd| fd.try_clone_to_owned();
                let (stderr, runner) = match stdio {
                    Stdio::InheritExceptStderr => {
                        let (from_stderr, stderr) = sys::pipe()?;
                        set_nonblocking(&from_stderr)?;
                        (stderr, RunnerEnd::Errors(from_stderr))
                    }
                    _ => (copy(io::stderr().as_fd())?, RunnerEnd::Taken),
                };
                Ok(Self {
                    child: Streams {
                        stdin: copy(io::stdin().as_fd())?,
                        stdout: copy(io::stdout().as_fd())?,
                        stderr,
                    },
                    runner,
                })
            }
            Stdio::Terminal { rows, columns } => {
                let (terminal, inner) = PseudoTerminal::open(rows, columns)?;
                Ok(Self {
                    child: Streams {
                        stdin: inner.try_clone()?,
                        stdout: inner.try_clone()?,
                        stderr: inner,
                    },
                    runner: RunnerEnd::Terminal(terminal),
                })
            }
        }
    }
}
