//! One run of the tool: a fresh process with known streams and a known environment. The reader of
//! its stdout behaves as the probe requires.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::capture::{Capture, ExitKind};
use crate::cleanup::{Cleaner, RemoveOnDrop};
use crate::cpu_wait;
use crate::isolation::IsolationBackend;
use crate::stdio::{Ends, streams};
use agentproto_sandbox::plan::unconfined;
use agentproto_sandbox::spawn::{self, Child, Exit, PseudoTerminal, SpawnError, SpawnOptions};

/// Maximum number of bytes kept of stdout and of stderr. A tool that prints more is killed.
pub const MAX_STREAM_BYTES: usize = 64 << 20;
/// Maximum number of stdout lines. Each line costs many times its own size in memory.
const MAX_LINES: usize = 200_000;
/// Bytes kept of each stream of a tool that exceeded a limit, so that all runs together fit into
/// memory.
const FLOOD_BYTES: usize = 64 << 10;
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum time until the first write into a nearly full pipe.
const MAX_FIRST_WRITE: Duration = Duration::from_secs(2);
/// Time between the first line and the signal.
const BEFORE_SIGNAL: Duration = Duration::from_millis(50);
/// Time in which child processes may still write after the tool has exited, in milliseconds.
const LINGER_MS: u32 = 500;
/// Maximum number of recorded arrival times.
const MAX_ARRIVALS: usize = 4096;

/// What the tool's stdin is connected to.
#[derive(Clone, Debug, Default)]
pub enum StdinSource {
    /// `/dev/null`.
    #[default]
    Null,
    /// File descriptor 0 is closed.
    Closed,
    /// A pipe with these bytes, closed after the last one.
    Bytes(Vec<u8>),
    /// A pipe that stays open and delivers nothing.
    Silent,
    /// A pipe with these bytes that stays open after the last one.
    Held(Vec<u8>),
    /// The controlling terminal of the tool, without any input.
    Terminal,
}

/// What the tool's stdout is connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StdoutTarget {
    /// A pipe of the default size.
    #[default]
    Pipe,
    /// A pipe of one page.
    Small,
    /// A pipe of one page that is full except for this many bytes. A write beyond them blocks until
    /// the reader reads.
    NearlyFull(u16),
    /// A pipe of two pages, the first of them full. A tool that waits until its output is writable
    /// can write once.
    HalfFull,
    /// A pipe whose read end is closed before the tool starts.
    Closed,
    /// `/dev/full`, on which every write fails.
    Full,
    /// A terminal. The CR LF line ends that it produces are converted back to LF.
    Terminal,
}

/// How stdout is read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReadMode {
    /// Reads everything as it arrives.
    #[default]
    All,
    /// Reads nothing until this time has passed or the tool has exited.
    Delayed(Duration),
    /// Reads this many lines and one byte more, then pauses.
    Pause {
        /// Number of lines before the pause.
        lines: usize,
        /// Duration of the pause.
        time: Duration,
    },
    /// Closes the pipe after the first line.
    OneLine,
    /// Sends a signal shortly after the first line, then reads the rest.
    Signal {
        /// Signal number.
        number: i32,
        /// Whether the signal is sent to the whole process group.
        group: bool,
    },
    /// Reads for this time, then sends a signal.
    Watch {
        /// How long to read.
        time: Duration,
        /// Signal number.
        number: i32,
    },
}

/// Everything needed to start one run.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// Name of the probed command, or `(tool)`.
    pub command: String,
    /// Name of the probe, for messages.
    pub probe: String,
    /// Path of the program, then its arguments.
    pub argv: Vec<OsString>,
    /// Additional environment variables. They override the default ones.
    pub env: Vec<(String, String)>,
    /// What stdin is connected to.
    pub input: StdinSource,
    /// What stdout is connected to.
    pub output: StdoutTarget,
    /// Whether the read end of stderr is closed.
    pub stderr_closed: bool,
    /// How stdout is read.
    pub reader: ReadMode,
    /// Isolation of the run, if any.
    pub backend: Option<IsolationBackend>,
    /// Time limit of the run.
    pub limit: Duration,
    /// Whether the tool is known to take long.
    pub is_slow: bool,
    /// Whether stdout is expected to be in machine mode.
    pub is_machine: bool,
    /// Requested schema version, if any.
    pub version: Option<String>,
    /// Whether the command line contains fake secrets.
    pub canaries: bool,
}

impl RunSpec {
    /// Whether the run is idle most of the time.
    pub fn mostly_waits(&self) -> bool {
        let reader = !matches!(self.reader, ReadMode::All | ReadMode::OneLine);
        let input = matches!(
            self.input,
            StdinSource::Silent | StdinSource::Held(_) | StdinSource::Terminal
        );
        reader || self.is_slow || input
    }
}

/// Directories of a run: its home, working directory, temporary files and state.
#[derive(Clone, Debug)]
pub struct RunDirs {
    /// Parent of the four directories.
    pub root: PathBuf,
    /// Removes the directories when the last clone is dropped.
    cleanup: Option<Arc<RemoveOnDrop>>,
}

impl RunDirs {
    /// Creates the directories below `root`.
    pub fn new(root: PathBuf) -> io::Result<RunDirs> {
        for name in ["home", "cwd", "tmp", "state"] {
            std::fs::create_dir_all(root.join(name))?;
        }
        Ok(RunDirs {
            root,
            cleanup: None,
        })
    }

    /// Lets `cleaner` remove the directories after use.
    pub fn removed_by(mut self, cleaner: &Cleaner) -> RunDirs {
        self.cleanup = cleaner.remove_on_drop(self.root.clone()).map(Arc::new);
        self
    }

    /// Working directory of the run.
    pub fn cwd(&self) -> PathBuf {
        self.root.join("cwd")
    }

    /// Home directory of the run.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Environment variables that every run gets. Of the caller's own, only `PATH` is passed on.
    pub fn environment(&self) -> Vec<(String, String)> {
        let at = |name: &str| self.root.join(name).to_string_lossy().into_owned();
        let home = at("home");
        let mut env = vec![
            ("HOME".to_owned(), home.clone()),
            ("XDG_CONFIG_HOME".to_owned(), format!("{home}/.config")),
            ("XDG_CACHE_HOME".to_owned(), format!("{home}/.cache")),
            ("XDG_DATA_HOME".to_owned(), format!("{home}/.local/share")),
            ("XDG_STATE_HOME".to_owned(), format!("{home}/.local/state")),
            ("TMPDIR".to_owned(), at("tmp")),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("TERM".to_owned(), "dumb".to_owned()),
            (
                DEPTH_VARIABLE.to_owned(),
                depth().saturating_add(1).to_string(),
            ),
        ];
        if let Ok(path) = std::env::var("PATH") {
            env.push(("PATH".to_owned(), path));
        }
        env
    }
}

/// Time and number of all runs.
#[derive(Debug, Default)]
pub struct RunStats {
    target_us: AtomicU64,
    waits_us: AtomicU64,
    runs: AtomicU64,
    busy: Mutex<ActiveTime>,
}

/// Time in which at least one run is active.
#[derive(Debug, Default)]
struct ActiveTime {
    running: usize,
    since: Option<Instant>,
    total: Duration,
}

/// Marks one run as active until it is dropped.
struct ActiveRun<'c>(&'c RunStats);

impl Drop for ActiveRun<'_> {
    fn drop(&mut self) {
        let mut busy = self.0.busy.lock();
        busy.running = busy.running.saturating_sub(1);
        if busy.running == 0
            && let Some(since) = busy.since.take()
        {
            busy.total += since.elapsed();
        }
    }
}

impl RunStats {
    /// Adds a wait that the probe made on purpose.
    pub fn wait(&self, time: Duration) {
        add(&self.waits_us, time);
    }

    fn start_run(&self) -> ActiveRun<'_> {
        let mut busy = self.busy.lock();
        busy.running += 1;
        busy.since.get_or_insert_with(Instant::now);
        drop(busy);
        ActiveRun(self)
    }

    /// Time in which at least one run was active.
    pub fn busy(&self) -> Duration {
        self.busy.lock().total
    }

    /// Run time of the tool, summed over all runs.
    pub fn target(&self) -> Duration {
        Duration::from_micros(self.target_us.load(Ordering::Relaxed))
    }

    /// Waits that probes made on purpose, summed over all runs.
    pub fn waits(&self) -> Duration {
        Duration::from_micros(self.waits_us.load(Ordering::Relaxed))
    }

    /// Number of finished runs.
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    counter.fetch_add(us, Ordering::Relaxed);
}

/// Starts the tool and waits until it has exited.
pub async fn run(spec: &RunSpec, dirs: &RunDirs, stats: &RunStats) -> Result<Capture, SpawnError> {
    let mut env = dirs.environment();
    for (name, value) in &spec.env {
        env.retain(|(known, _)| known != name);
        env.push((name.clone(), value.clone()));
    }
    let pairs: Vec<(OsString, OsString)> = env.iter().map(|(n, v)| (n.into(), v.into())).collect();
    let cwd = dirs.cwd();
    let mut plan = unconfined(&spec.argv, &pairs, &cwd);
    plan.no_stdin = matches!(spec.input, StdinSource::Closed);
    plan.linger_ms = LINGER_MS;
    plan.tty = matches!(spec.input, StdinSource::Terminal);
    if let Some(backend) = &spec.backend {
        plan = backend.apply(plan);
    }
    let (streams, ends) = streams(spec).map_err(SpawnError::Helper)?;
    let filler = ends.filler;
    let options = SpawnOptions {
        streams: Some(streams),
        ..SpawnOptions::default()
    };
    let mut child = spawn::spawn(&plan, options).await?;
    // The clock starts here, because starting the process is our own overhead.
    let begun = Instant::now();
    let active = stats.start_run();
    let meter = cpu_wait::DelayMeter::start(child.helper());
    let mut recording = Recording::default();
    let exit = follow(&mut child, ends, spec, &mut recording, begun, stats).await;
    let elapsed = begun.elapsed();
    let delay = meter.delay();
    drop(active);
    add(&stats.target_us, elapsed);
    stats.runs.fetch_add(1, Ordering::Relaxed);
    let end = match (
        recording.timed_out,
        exit.status.code(),
        exit.status.signal(),
    ) {
        (true, ..) => ExitKind::TimedOut,
        (_, Some(code), _) => ExitKind::Code(code),
        (_, None, signal) => ExitKind::Signal(signal.unwrap_or(0)),
    };
    recording.drop_filler(filler);
    if recording.flooded {
        for kept in [&mut recording.stdout, &mut recording.stderr] {
            kept.truncate(FLOOD_BYTES);
            kept.shrink_to_fit();
        }
    }
    let stdout = match spec.output {
        StdoutTarget::Terminal => without_carriage_returns(&recording.stdout),
        _ => recording.stdout,
    };
    Ok(Capture {
        command: spec.command.clone(),
        probe: spec.probe.clone(),
        argv: spec.argv.clone(),
        env: spec.env.iter().map(|(name, _)| name.clone()).collect(),
        output: spec.output,
        reader: spec.reader,
        stdout,
        stderr: recording.stderr,
        terminal: recording.terminal,
        flooded: recording.flooded,
        end,
        elapsed,
        delay,
        started: true,
        cpu: Duration::from_micros(exit.usage.user_us.saturating_add(exit.usage.system_us)),
        arrivals: recording.arrivals,
        action_done: recording.action_done,
        alive_after_action: recording.alive_after_action,
        survivors: exit.usage.survivors,
        stdout_held: exit.usage.held,
        network_attempts: exit.usage.network_attempts,
        exit_delay: recording.act.map(|at| at.elapsed()),
        is_machine: spec.is_machine,
        version: spec.version.clone(),
        canaries: spec.canaries,
    })
}

/// Number of line feeds in these bytes.
pub fn line_feeds(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

#[derive(Default)]
struct Recording {
    stdout: Vec<u8>,
    lines: usize,
    stderr: Vec<u8>,
    terminal: Option<Vec<u8>>,
    arrivals: Vec<(usize, Duration)>,
    flooded: bool,
    timed_out: bool,
    action_done: bool,
    alive_after_action: bool,
    act: Option<Instant>,
}

async fn follow(
    child: &mut Child,
    ends: Ends,
    spec: &RunSpec,
    recording: &mut Recording,
    begun: Instant,
    stats: &RunStats,
) -> Exit {
    let Ends {
        stdin,
        mut stdout,
        terminal,
        stderr,
        filler,
        control,
    } = ends;
    let feeder = tokio::spawn(write_input(stdin, spec.input.clone()));
    let flood = Arc::new(Notify::new());
    let errors = tokio::spawn(read_all(stderr, Arc::clone(&flood)));
    let shown = control.map(|control| tokio::spawn(read_terminal(control)));
    let work = async {
        if let Some(terminal) = &terminal {
            let mut part = vec![0; 64 << 10];
            while let Ok(length @ 1..) = terminal.read(&mut part).await {
                if !recording.push(part.get(..length).unwrap_or_default(), begun) {
                    break;
                }
            }
        }
        read(child, &mut stdout, filler, spec, recording, begun, stats).await;
        if recording.flooded {
            return child.kill().await;
        }
        child.wait().await
    };
    let done = tokio::select! {
        done = timeout(spec.limit, work) => Some(done),
        () = flood.notified() => None,
    };
    let exit = match done {
        Some(Ok(exit)) => exit,
        None => {
            recording.flooded = true;
            child.kill().await
        }
        Some(Err(_)) => {
            recording.timed_out = true;
            drop(stdout);
            child.stop_within(Duration::ZERO, GRACE).await
        }
    };
    feeder.abort();
    // The processes that hold the other end are killed with the tool, so this ends soon.
    if let Ok(Ok((bytes, flooded))) = timeout(Duration::from_secs(1), errors).await {
        recording.stderr = bytes;
        recording.flooded |= flooded;
    }
    if let Some(shown) = shown {
        let shown = timeout(Duration::from_secs(1), shown).await;
        recording.terminal = shown.ok().and_then(Result::ok);
    }
    exit
}

/// Reads what the tool writes to its controlling terminal until the tool has exited. Bytes beyond
/// `FLOOD_BYTES` are dropped.
async fn read_terminal(control: PseudoTerminal) -> Vec<u8> {
    let (mut kept, mut part) = (Vec::new(), vec![0; 4 << 10]);
    while let Ok(length @ 1..) = control.read(&mut part).await {
        let room = FLOOD_BYTES.saturating_sub(kept.len()).min(length);
        kept.extend_from_slice(part.get(..room).unwrap_or_default());
    }
    kept
}

impl Recording {
    /// Drops the first bytes, which the engine wrote to fill the pipe.
    fn drop_filler(&mut self, filler: usize) {
        self.stdout.drain(..filler.min(self.stdout.len()));
        for (offset, _) in &mut self.arrivals {
            *offset = offset.saturating_sub(filler);
        }
    }

    /// Stores the bytes. Returns `false` if a limit is exceeded.
    fn push(&mut self, bytes: &[u8], begun: Instant) -> bool {
        let room = MAX_STREAM_BYTES.saturating_sub(self.stdout.len());
        self.stdout
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        if self.arrivals.len() < MAX_ARRIVALS {
            self.arrivals.push((self.stdout.len(), begun.elapsed()));
        }
        self.lines += line_feeds(bytes);
        self.flooded |= bytes.len() > room || self.lines > MAX_LINES;
        !self.flooded
    }
}

/// Reads stdout as the probe requires.
async fn read(
    child: &Child,
    stdout: &mut Option<pipe::Receiver>,
    filler: usize,
    spec: &RunSpec,
    recording: &mut Recording,
    begun: Instant,
    stats: &RunStats,
) {
    let Some(mut pipe) = stdout.take() else {
        return;
    };
    match spec.reader {
        ReadMode::All => {}
        ReadMode::Delayed(time) => {
            let waited = Instant::now();
            while waited.elapsed() < time && child.is_running() {
                sleep(Duration::from_millis(5)).await;
            }
            recording.action_done = child.is_running();
            stats.wait(waited.elapsed());
        }
        ReadMode::Pause { lines, time } => {
            let mut left = lines;
            while left > 0 && read_line(&mut pipe, recording, begun).await {
                left -= 1;
            }
            let mut byte = [0; 1];
            if left == 0 && matches!(pipe.read(&mut byte).await, Ok(1)) {
                recording.push(&byte, begun);
                sleep(time).await;
                stats.wait(time);
                recording.action_done = child.is_running();
            }
        }
        ReadMode::OneLine => {
            if read_line(&mut pipe, recording, begun).await {
                recording.action_done = child.is_running();
                recording.act = Some(Instant::now());
            }
            return;
        }
        ReadMode::Signal { number, group } => {
            let has_output = match spec.output {
                StdoutTarget::NearlyFull(_) | StdoutTarget::HalfFull => {
                    wait_for_write(&pipe, filler, child).await
                }
                _ if matches!(spec.input, StdinSource::Held(_)) => {
                    // The tool may print nothing before the end of its input.
                    let line = read_line(&mut pipe, recording, begun);
                    timeout(MAX_FIRST_WRITE, line).await.unwrap_or(false)
                }
                _ => read_line(&mut pipe, recording, begun).await,
            };
            if !has_output && matches!(spec.input, StdinSource::Held(_)) {
                let _ = child.signal_target(number);
                recording.act = Some(Instant::now());
            }
            if has_output {
                // Waits until the tool itself had CPU time, since other processes may use it
                // meanwhile.
                let waited = Instant::now();
                cpu_wait::pause(child.helper(), BEFORE_SIGNAL).await;
                stats.wait(waited.elapsed());
                recording.action_done = child.is_running();
                let _ = match group {
                    true => child.signal(number, false),
                    false => child.signal_target(number),
                };
                recording.act = Some(Instant::now());
                pause(100, stats).await;
                recording.alive_after_action = child.is_running();
            }
        }
        ReadMode::Watch { time, number } => {
            let reading = async {
                let mut part = vec![0; 64 << 10];
                while let Ok(length @ 1..) = pipe.read(&mut part).await {
                    if !recording.push(part.get(..length).unwrap_or_default(), begun) {
                        return;
                    }
                }
            };
            let _ = timeout(time, reading).await;
            stats.wait(time);
            recording.action_done = child.is_running();
            let _ = child.signal_target(number);
            recording.act = Some(Instant::now());
            pause(100, stats).await;
            recording.alive_after_action = child.is_running();
        }
    }
    let mut part = vec![0; 64 << 10];
    while !recording.flooded {
        match pipe.read(&mut part).await {
            Ok(length @ 1..) => {
                recording.push(part.get(..length).unwrap_or_default(), begun);
            }
            Ok(0) | Err(_) => break,
        }
    }
}

async fn pause(ms: u64, stats: &RunStats) {
    let time = Duration::from_millis(ms);
    sleep(time).await;
    stats.wait(time);
}

/// Reads up to the end of the first line, byte by byte, so that nothing beyond it is taken.
async fn read_line(pipe: &mut pipe::Receiver, recording: &mut Recording, begun: Instant) -> bool {
    let mut byte = [0; 1];
    while let Ok(1) = pipe.read(&mut byte).await {
        if !recording.push(&byte, begun) {
            return false;
        }
        if byte[0] == b'\n' {
            return true;
        }
    }
    false
}

/// Waits until the tool has written into a pipe that holds filler bytes. It reads nothing, because
/// a freed page would let the tool continue.
async fn wait_for_write(pipe: &pipe::Receiver, filler: usize, child: &Child) -> bool {
    let start = Instant::now();
    while start.elapsed() < MAX_FIRST_WRITE && child.is_running() {
        let mut waiting: libc::c_int = 0;
        // SAFETY: `waiting` is a valid place for the one integer that FIONREAD writes.
        let done = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &mut waiting) };
        if done == 0 && usize::try_from(waiting).is_ok_and(|waiting| waiting > filler) {
            return true;
        }
        sleep(Duration::from_millis(2)).await;
    }
    false
}

/// Reads stderr to its end, or until the limit is exceeded.
async fn read_all(pipe: Option<pipe::Receiver>, flood: Arc<Notify>) -> (Vec<u8>, bool) {
    let (mut kept, mut part) = (Vec::new(), vec![0; 64 << 10]);
    let Some(mut pipe) = pipe else {
        return (kept, false);
    };
    while let Ok(length @ 1..) = pipe.read(&mut part).await {
        let bytes = part.get(..length).unwrap_or_default();
        let room = MAX_STREAM_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        if length > room {
            flood.notify_one();
            return (kept, true);
        }
    }
    (kept, false)
}

/// Writes the input and closes the pipe. A silent pipe stays open until the run is over.
async fn write_input(stdin: Option<OwnedFd>, input: StdinSource) {
    let Some(stdin) = stdin else {
        return;
    };
    let (bytes, is_held) = match input {
        StdinSource::Bytes(bytes) => (bytes, false),
        StdinSource::Held(bytes) => (bytes, true),
        _ => return std::future::pending().await,
    };
    if let Ok(mut pipe) = pipe::Sender::from_owned_fd(stdin) {
        let _ = tokio::io::AsyncWriteExt::write_all(&mut pipe, &bytes).await;
        if is_held {
            std::future::pending::<()>().await;
        }
    }
}

fn without_carriage_returns(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for (index, byte) in bytes.iter().enumerate() {
        if *byte == b'\r' && bytes.get(index + 1) == Some(&b'\n') {
            continue;
        }
        out.push(*byte);
    }
    out
}

/// Finds a program as a shell would. A path is resolved from `base`.
pub fn program(word: &str, base: &Path) -> Option<PathBuf> {
    if word.contains('/') {
        // `components` removes a `./` in the middle.
        let path: PathBuf = base.join(word).components().collect();
        return path.is_file().then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(word))
        .find(|candidate| is_executable(candidate))
}

/// Whether the path is a file with an execute permission.
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let meta = std::fs::metadata(path);
    meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Environment variable with the number of nested linters, set for every run.
const DEPTH_VARIABLE: &str = "AGENTPROTO_AOI_DEPTH";

/// Number of linters that this process is nested in.
pub fn depth() -> u32 {
    let set = std::env::var(DEPTH_VARIABLE).ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(0)
}
