//! Creates the streams of a run: the tool's ends and our ends.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::net::unix::pipe;

use crate::run::{RunSpec, StdinSource, StdoutTarget};
use agentproto_sandbox::helper::sys;
use agentproto_sandbox::spawn::{self, PseudoTerminal, Streams};

/// Our ends of the tool's streams.
pub struct Ends {
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<pipe::Receiver>,
    pub terminal: Option<PseudoTerminal>,
    pub stderr: Option<pipe::Receiver>,
    /// Number of filler bytes in the stdout pipe before the tool's output.
    pub filler: usize,
    /// Keeps the controlling terminal open.
    pub control: Option<PseudoTerminal>,
}

/// Creates both ends of stdin, stdout and stderr.
pub fn streams(spec: &RunSpec) -> io::Result<(Streams, Ends)> {
    let mut control = None;
    let (stdin, to_stdin): (OwnedFd, _) = match &spec.input {
        StdinSource::Null | StdinSource::Closed => (File::open("/dev/null")?.into(), None),
        StdinSource::Bytes(_) | StdinSource::Held(_) | StdinSource::Silent => {
            let (theirs, ours) = sys::pipe()?;
            spawn::set_nonblocking(&ours)?;
            (theirs, Some(ours))
        }
        StdinSource::Terminal => {
            let (outer, inner) = PseudoTerminal::open(24, 200)?;
            control = Some(outer);
            (inner, None)
        }
    };
    let (mut from_stdout, mut terminal, mut filler) = (None, None, 0);
    let stdout: OwnedFd = match spec.output {
        StdoutTarget::Full => File::options().write(true).open("/dev/full")?.into(),
        StdoutTarget::Terminal => {
            let (outer, inner) = PseudoTerminal::open(24, 200)?;
            terminal = Some(outer);
            inner
        }
        StdoutTarget::Closed => sys::pipe()?.1,
        StdoutTarget::Pipe
        | StdoutTarget::Small
        | StdoutTarget::NearlyFull(_)
        | StdoutTarget::HalfFull => {
            let (ours, theirs) = sys::pipe()?;
            let page = small_pipe();
            match spec.output {
                StdoutTarget::Pipe => {}
                StdoutTarget::HalfFull => resize(&theirs, 2 * page)?,
                _ => resize(&theirs, page)?,
            }
            filler = match spec.output {
                StdoutTarget::NearlyFull(room) => page.saturating_sub(room.into()),
                StdoutTarget::HalfFull => page,
                _ => 0,
            };
            File::from(theirs.try_clone()?).write_all(&vec![b'\n'; filler])?;
            spawn::set_nonblocking(&ours)?;
            from_stdout = Some(pipe::Receiver::from_owned_fd(ours)?);
            theirs
        }
    };
    let (ours, stderr) = sys::pipe()?;
    let from_stderr = match spec.stderr_closed {
        true => None,
        false => {
            spawn::set_nonblocking(&ours)?;
            Some(pipe::Receiver::from_owned_fd(ours)?)
        }
    };
    let streams = Streams {
        stdin,
        stdout,
        stderr,
    };
    let ends = Ends {
        stdin: to_stdin,
        stdout: from_stdout,
        terminal,
        stderr: from_stderr,
        filler,
        control,
    };
    Ok((streams, ends))
}

/// Size of the smallest possible pipe in bytes, which is one page.
pub fn small_pipe() -> usize {
    // SAFETY: takes and returns integers only.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(page).unwrap_or(4096)
}

fn resize(pipe: &OwnedFd, size: usize) -> io::Result<()> {
    let size = libc::c_int::try_from(size).map_err(io::Error::other)?;
    // SAFETY: takes an open descriptor and integers only.
    match unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, size) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
