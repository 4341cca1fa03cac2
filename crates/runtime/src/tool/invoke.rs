//! Runs a tool: starts it, reads its output at the pace of the reader, and waits for its exit.

use std::os::fd::OwnedFd;
use std::pin::pin;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::mask::ByteMask;
use super::output::{Kept, OutputStream};
use crate::command::Launch;
use crate::context::Context;
use crate::error::{Code, Error};
use agentproto_sandbox::spawn::{
    Exit, PseudoTerminal, SpawnOptions, Stdio, Streams, set_nonblocking,
};

/// Maximum number of bytes of one read.
const BUFFER: usize = 64 << 10;
/// Maximum number of bytes of stderr that are kept.
const MAX_STDERR: usize = 256 << 10;
/// Time to read the rest of the output after the exit.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Size of the terminal for a tool that requires one.
const TERMINAL: Stdio = Stdio::Terminal {
    rows: 24,
    columns: 80,
};

/// A piece of output, without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputChunk {
    /// The stream that the tool wrote to.
    pub stream: OutputStream,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// How a run is observed and limited.
pub struct RunOptions {
    /// Time limit after which the tool is killed.
    pub timeout: Duration,
    /// Maximum number of bytes of stdout that are kept.
    pub keep: usize,
    /// Whether to keep both streams as one, in the order of arrival.
    pub keep_mixed: bool,
    /// Receives the output while the tool runs.
    pub output: Option<mpsc::Sender<OutputChunk>>,
}

/// A finished run.
pub struct Ran {
    /// How it ended.
    pub exit: Exit,
    /// The start of stdout, or of the output to the terminal.
    pub stdout: Kept,
    /// The start of stderr.
    pub stderr: Kept,
    /// Both streams in the order of arrival, if requested.
    pub mixed: Kept,
    /// Whether the receiver of the output is gone, so that the tool was killed.
    pub is_abandoned: bool,
}

/// Runs a prepared command until it exits. Dropping the future kills it and all its children.
pub async fn run(ctx: &Context, launch: Launch, options: RunOptions) -> Result<Ran, Error> {
    let mut spawn = SpawnOptions {
        timeout: Some(options.timeout),
        ..SpawnOptions::default()
    };
    let has_terminal = launch.needs_terminal;
    let (stdout, stderr) = match has_terminal {
        true => {
            spawn.stdio = TERMINAL;
            (None, None)
        }
        false => {
            let (streams, stdout, stderr) = pipes().map_err(not_started)?;
            spawn.streams = Some(streams);
            (Some(stdout), Some(stderr))
        }
    };
    let mut started = ctx.launch(launch, spawn).await?;
    let mut stdout = match (stdout, started.child().terminal.take()) {
        (Some(pipe), _) => Reader::Pipe(pipe),
        (None, Some(terminal)) => Reader::Terminal(terminal),
        (None, None) => Reader::Closed,
    };
    let mut stderr = stderr.map_or(Reader::Closed, Reader::Pipe);
    let mut collector = Collector {
        masks: [ByteMask::new(&ctx.masks), ByteMask::new(&ctx.masks)],
        stdout: Kept::default(),
        stderr: Kept::default(),
        mixed: Kept::default(),
        options,
    };
    let exit = {
        let mut waiting = pin!(started.wait());
        let mut exit = None;
        let mut drained = pin!(tokio::time::sleep(Duration::MAX));
        let (mut first, mut second) = (vec![0; BUFFER], vec![0; BUFFER]);
        loop {
            let is_open = !stdout.is_closed() || !stderr.is_closed();
            if !is_open && exit.is_some() {
                break exit;
            }
            let (stream, bytes) = tokio::select! {
                read = stdout.read(&mut first), if !stdout.is_closed() => {
                    (OutputStream::Stdout, first.get(..read))
                }
                read = stderr.read(&mut second), if !stderr.is_closed() => {
                    (OutputStream::Stderr, second.get(..read))
                }
                ended = &mut waiting, if exit.is_none() => {
                    exit = Some(ended);
                    // The tool and its children are gone, so the rest is in the pipes.
                    drained.set(tokio::time::sleep(DRAIN_TIMEOUT));
                    continue;
                }
                () = &mut drained => break exit,
            };
            if collector
                .add(stream, bytes.unwrap_or_default())
                .await
                .is_err()
            {
                break None;
            }
        }
    };
    let (exit, is_abandoned) = match exit {
        Some(exit) => (exit, collector.finish().await.is_err()),
        None => {
            let exit = started.child().kill().await;
            started.wait().await;
            (exit, true)
        }
    };
    Ok(Ran {
        exit,
        stdout: collector.stdout,
        stderr: collector.stderr,
        mixed: collector.mixed,
        is_abandoned,
    })
}

/// The receiver of the output is gone.
struct Abandoned;

struct Collector {
    masks: [ByteMask; 2],
    stdout: Kept,
    stderr: Kept,
    mixed: Kept,
    options: RunOptions,
}

impl Collector {
    async fn add(&mut self, stream: OutputStream, bytes: &[u8]) -> Result<(), Abandoned> {
        let [stdout, stderr] = &mut self.masks;
        let mask = match stream {
            OutputStream::Stdout => stdout,
            OutputStream::Stderr => stderr,
        };
        let bytes = match bytes.is_empty() {
            true => mask.finish(),
            false => mask.push(bytes),
        };
        self.keep(stream, bytes).await
    }

    async fn finish(&mut self) -> Result<(), Abandoned> {
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            self.add(stream, &[]).await?;
        }
        Ok(())
    }

    async fn keep(&mut self, stream: OutputStream, bytes: Vec<u8>) -> Result<(), Abandoned> {
        if bytes.is_empty() {
            return Ok(());
        }
        let options = &self.options;
        match stream {
            OutputStream::Stdout => self.stdout.push(&bytes, options.keep),
            OutputStream::Stderr => self.stderr.push(&bytes, options.keep.min(MAX_STDERR)),
        }
        if options.keep_mixed {
            self.mixed.push(&bytes, options.keep);
        }
        match &options.output {
            // A slow reader slows the tool down, so that nothing is lost and nothing piles up.
            Some(output) => output
                .send(OutputChunk { stream, bytes })
                .await
                .map_err(|_| Abandoned),
            None => Ok(()),
        }
    }
}

enum Reader {
    Pipe(pipe::Receiver),
    Terminal(PseudoTerminal),
    Closed,
}

impl Reader {
    fn is_closed(&self) -> bool {
        matches!(self, Reader::Closed)
    }

    /// The number of bytes read. Zero at the end, after which the reader is closed.
    async fn read(&mut self, buffer: &mut [u8]) -> usize {
        let read = match self {
            Reader::Pipe(pipe) => pipe.read(buffer).await,
            Reader::Terminal(terminal) => terminal.read(buffer).await,
            Reader::Closed => Ok(0),
        };
        let read = read.unwrap_or(0);
        if read == 0 {
            *self = Reader::Closed;
        }
        read
    }
}

/// An empty stdin and two pipes: the ends of the child, and ours for stdout and stderr.
fn pipes() -> std::io::Result<(Streams, pipe::Receiver, pipe::Receiver)> {
    let stdin = std::fs::File::open("/dev/null")?;
    let pipe = || {
        let (ours, theirs) = std::io::pipe()?;
        let ours = OwnedFd::from(ours);
        set_nonblocking(&ours)?;
        std::io::Result::Ok((pipe::Receiver::from_owned_fd(ours)?, OwnedFd::from(theirs)))
    };
    let ((out, stdout), (err, stderr)) = (pipe()?, pipe()?);
    let streams = Streams {
        stdin: stdin.into(),
        stdout,
        stderr,
    };
    Ok((streams, out, err))
}

fn not_started(error: std::io::Error) -> Error {
    Error::new(Code::SpawnFailed, format!("cannot create pipes: {error}"))
}
