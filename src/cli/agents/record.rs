//! `agentproto record`: runs between a client and its agent, forwards every byte, and records it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::cli::args::Global;
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_harness::run::process::{Program, StartError, exit_value, unconfined};
use agentproto_sandbox::spawn::{self, Child, Exit, SpawnOptions, Stdio};
use agentproto_text::escape_line;
use agentproto_wire::record::TranscriptRecorder;
use agentproto_wire::{Direction, file};

/// Maximum number of chunks that wait for a slow disk before the agent has to wait.
const MAX_QUEUED_CHUNKS: usize = 1024;
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Args, Debug)]
pub struct Record {
    /// Write the transcript to FILE, or to a new file in DIR for each run [default: a new file in
    /// the current directory]
    #[arg(long, value_name = "FILE|DIR")]
    pub to: Option<PathBuf>,
    /// The agent's command line
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// What is recorded, in the order in which it happened.
enum RecordEvent {
    Bytes(Direction, Duration, Vec<u8>),
    Process(Duration, Value),
    /// The streams are closed: a line without an end will not get one.
    Closed(Duration),
    End,
}

/// Sends to the thread that writes the recording.
#[derive(Clone)]
struct RecorderHandle {
    started: Instant,
    to: SyncSender<RecordEvent>,
}

impl RecorderHandle {
    fn bytes(&self, direction: Direction, bytes: &[u8]) {
        let _ = self.to.send(RecordEvent::Bytes(
            direction,
            self.started.elapsed(),
            bytes.to_vec(),
        ));
    }
    fn process(&self, what: Value) {
        let _ = self
            .to
            .send(RecordEvent::Process(self.started.elapsed(), what));
    }
}

/// The side of the client that is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClosedSide {
    Input,
    Output,
}

pub fn run(args: &Record, global: &Global) -> Outcome {
    let program = program(args.command.clone(), &[])?;
    let path = path(args.to.as_deref());
    let head = {
        let words = args.command.iter().map(|word| word.to_string_lossy());
        let mut head = file::head(&words.collect::<Vec<_>>().join(" "));
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        head["started"] = json!(now.map(|n| n.as_secs()).unwrap_or_default());
        head
    };
    let recorder = create(&path).and_then(|file| TranscriptRecorder::new(file, &head));
    let recorder = recorder.map_err(|error| {
        let message = format!("{} cannot be written: {error}", path.display());
        Failure::new(exit::CANT_CREATE, message)
    })?;
    if args.to.is_none() && !global.quiet {
        eprintln!(
            "agentproto: recording to {}",
            escape_line(&path.to_string_lossy())
        );
    }
    let (to, from) = sync_channel(MAX_QUEUED_CHUNKS);
    let handle = RecorderHandle {
        started: Instant::now(),
        to,
    };
    let writer = thread::spawn(move || write_events(recorder, &from));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(io_failure)?;
    let ended = runtime.block_on(run_and_record(&program, &handle));
    let _ = handle.to.send(RecordEvent::End);
    if let Ok(Err(error)) = writer.join() {
        eprintln!(
            "agentproto: {} is incomplete: {error}",
            escape_line(&path.to_string_lossy())
        );
    }
    // A thread may still be blocked on our stdin; it ends with the process.
    runtime.shutdown_background();
    Ok(code(ended?.status))
}

/// A command line, with our own environment.
pub fn program(argv: Vec<OsString>, env: &[(String, String)]) -> Result<Program, Failure> {
    Program::new(argv, env).map_err(|error| match error {
        StartError::NoProgram(name) => {
            Failure::new(exit::UNAVAILABLE, format!("program `{name}` not found"))
                .hint("the command after `--` must be a program on PATH, or a path")
        }
        error => Failure::new(exit::UNAVAILABLE, error.to_string()),
    })
}

fn path(to: Option<&Path>) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map(|n| n.as_secs()).unwrap_or_default();
    let name = format!("transcript-{now}-{}.jsonl", std::process::id());
    match to {
        Some(dir) if dir.is_dir() => dir.join(name),
        Some(file) => file.to_owned(),
        None => PathBuf::from(name),
    }
}

/// Creates a file that only its owner can read, because it contains prompts and files of a session.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

fn write_events(
    mut recorder: TranscriptRecorder<File>,
    from: &Receiver<RecordEvent>,
) -> io::Result<()> {
    let mut outcome = Ok(());
    while let Ok(event) = from.recv() {
        let is_end = matches!(event, RecordEvent::End);
        // After a failure the agent continues, but nothing more is recorded.
        if outcome.is_ok() {
            outcome = match event {
                RecordEvent::Bytes(direction, at, bytes) => recorder.bytes(direction, at, &bytes),
                RecordEvent::Process(at, what) => recorder.process(at, &what),
                RecordEvent::Closed(at) => recorder.flush(at),
                RecordEvent::End => Ok(()),
            };
        }
        if is_end {
            break;
        }
    }
    outcome
}

async fn run_and_record(program: &Program, handle: &RecorderHandle) -> Result<Exit, Failure> {
    let cwd = std::env::current_dir().map_err(io_failure)?;
    let stderr_handle = handle.clone();
    let options = SpawnOptions {
        stdio: Stdio::Raw,
        stderr: Box::new(move |bytes| {
            stderr_handle.bytes(Direction::Stderr, bytes);
            let _ = io::stderr().lock().write_all(bytes);
        }),
        ..SpawnOptions::default()
    };
    let plan = unconfined(&program.argv, &program.env, &cwd);
    let mut child = spawn::spawn(&plan, options)
        .await
        .map_err(|error| Failure::new(exit::UNAVAILABLE, error.to_string()))?;
    handle.process(json!({"started": true}));
    let started = Instant::now();
    let (sender, mut closed_sides) = mpsc::unbounded_channel();
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.raw.take()) else {
        return Err(Failure::new(exit::INTERNAL, "the agent has no pipes"));
    };
    let stdin = File::from(stdin.into_blocking_fd().map_err(io_failure)?);
    let stdout = File::from(stdout.into_blocking_fd().map_err(io_failure)?);
    let own_input = File::from(
        io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map_err(io_failure)?,
    );
    let own_output = File::from(
        io::stdout()
            .as_fd()
            .try_clone_to_owned()
            .map_err(io_failure)?,
    );
    forward_input(own_input, stdin, handle.clone(), sender.clone());
    watch_output(sender);
    let output = forward_output(stdout, own_output, handle.clone());
    let exit = wait_for_exit(&mut child, &mut closed_sides).await?;
    child.stderr.finish().await;
    let output = tokio::task::spawn_blocking(move || output.join());
    // A signal ends the wait for a client that neither reads nor disconnects.
    let mut terminate = signal(SignalKind::terminate()).map_err(io_failure)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(io_failure)?;
    tokio::select! {
        _ = output => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    let _ = handle
        .to
        .send(RecordEvent::Closed(handle.started.elapsed()));
    handle.process(json!({"exit": exit_value(&exit, started.elapsed())}));
    Ok(exit)
}

/// Records each chunk before forwarding it, so that a response never precedes its request.
fn forward_input(
    mut from: File,
    mut to: File,
    handle: RecorderHandle,
    sender: mpsc::UnboundedSender<ClosedSide>,
) {
    thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match from.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => {
                    handle.process(json!({"input": "closed"}));
                    let _ = sender.send(ClosedSide::Input);
                    return;
                }
                Ok(read) => {
                    let bytes = chunk.get(..read).unwrap_or_default();
                    handle.bytes(Direction::ToAgent, bytes);
                    if to.write_all(bytes).is_err() {
                        // The client should see a closed pipe, as it would without us.
                        drop(from);
                        close_own_input();
                        return;
                    }
                }
            }
        }
    });
}

fn close_own_input() {
    if let Ok(null) = File::open("/dev/null") {
        // SAFETY: both descriptors are open, and no other code reads our stdin.
        unsafe { libc::dup2(null.as_raw_fd(), libc::STDIN_FILENO) };
    }
}

fn forward_output(mut from: File, mut to: File, handle: RecorderHandle) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match from.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(read) => {
                    let bytes = chunk.get(..read).unwrap_or_default();
                    handle.bytes(Direction::FromAgent, bytes);
                    // Without a reader, the agent's pipe is closed together with ours.
                    if to.write_all(bytes).is_err() {
                        return;
                    }
                }
            }
        }
    })
}

/// Reports when our stdout has no reader any more.
fn watch_output(sender: mpsc::UnboundedSender<ClosedSide>) {
    let closed = crate::cli::agents::notes::output_closed();
    tokio::spawn(async move {
        if closed.await.is_ok() {
            let _ = sender.send(ClosedSide::Output);
        }
    });
}

/// Waits until the agent exits. Forwards signals to it, and stops it when the client has closed
/// both streams.
async fn wait_for_exit(
    child: &mut Child,
    closed_sides: &mut mpsc::UnboundedReceiver<ClosedSide>,
) -> Result<Exit, Failure> {
    let listen = |kind| signal(kind).map_err(io_failure);
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let mut quit = listen(SignalKind::quit())?;
    let mut first = listen(SignalKind::user_defined1())?;
    let mut second = listen(SignalKind::user_defined2())?;
    let mut open_sides = vec![ClosedSide::Input, ClosedSide::Output];
    loop {
        let number = tokio::select! {
            exit = child.wait() => return Ok(exit),
            Some(side) = closed_sides.recv() => {
                open_sides.retain(|other| *other != side);
                if open_sides.is_empty() {
                    return Ok(child.stop().await);
                }
                continue;
            }
            _ = interrupt.recv() => libc::SIGINT,
            _ = terminate.recv() => libc::SIGTERM,
            _ = hangup.recv() => libc::SIGHUP,
            _ = quit.recv() => libc::SIGQUIT,
            _ = first.recv() => libc::SIGUSR1,
            _ = second.recv() => libc::SIGUSR2,
        };
        // A process that has exited cannot be signaled.
        let _ = child.signal(number, false);
    }
}

/// The exit code, as shells report it.
fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => (128 + signal) as u8,
        (None, None) => exit::INTERNAL,
    }
}
