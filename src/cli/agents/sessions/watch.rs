//! `agentproto sessions --watch`: a table that is updated, or an event for each change.

use std::io::{IsTerminal, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Sessions, fetch, table, table_width};
use crate::cli::agents::client::Client;
use crate::cli::args::{Global, Output};
use crate::cli::{Failure, Outcome, io_failure, signals, terminal};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;

/// Interval between two updates.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Polls the host, and prints changes.
pub fn watch(args: &Sessions, client: &Client, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    signals::watch();
    if args.output == Output::Jsonl {
        let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
        emitter.meta("sessions").map_err(io_failure)?;
        let mut known: std::collections::HashMap<String, Value> = Default::default();
        let ended = poll(None, || {
            for session in fetch(args, client)? {
                let id = session["id"].as_str().unwrap_or_default().to_owned();
                if known.get(&id) != Some(&session) {
                    emitter
                        .event(EventType::HostSession, &object(session.clone()))
                        .map_err(io_failure)?;
                    known.insert(id, session);
                }
            }
            Ok(emitter.is_closed())
        });
        return super::finish(emitter, ended, started);
    }
    let color = terminal::color(global);
    let is_screen = std::io::stdout().is_terminal();
    let keys = Keys::listen();
    let mut shown = String::new();
    poll(keys.as_ref(), || {
        let rows = match terminal_size::terminal_size() {
            Some((_, height)) if is_screen => usize::from(height.0).saturating_sub(1),
            _ => usize::MAX,
        };
        let sessions = fetch(args, client)?;
        let layout = table::Layout {
            color,
            width: table_width(),
            rows,
            prefix: table::prefix_len(&sessions),
        };
        let table = table::render(&sessions, &layout);
        if table != shown {
            // Move to the top left and clear the screen, so that nothing of the old table remains.
            let (before, after) = match is_screen {
                true => ("\x1b[H\x1b[2J", ""),
                false => ("", "\n"),
            };
            write!(out, "{before}{table}{after}")
                .and_then(|()| out.flush())
                .map_err(io_failure)?;
            shown = table;
        }
        Ok(false)
    })
}

/// Repeats `update` until a signal, an error, the key `q`, or the end of the reader.
fn poll(keys: Option<&Keys>, mut update: impl FnMut() -> Result<bool, Failure>) -> Outcome {
    loop {
        if update()? {
            return Ok(exit::CLEAN);
        }
        let next = Instant::now() + POLL_INTERVAL;
        while Instant::now() < next {
            if let Some(code) = signals::interrupted() {
                return Ok(code);
            }
            match keys {
                Some(keys) if keys.wait(signals::POLL_INTERVAL) == Some(b'q') => {
                    return Ok(exit::CLEAN);
                }
                Some(_) => {}
                None => std::thread::sleep(signals::POLL_INTERVAL),
            }
        }
    }
}

/// Keys of the terminal, as they are pressed and without echo.
struct Keys {
    before: libc::termios,
}

impl Keys {
    /// `None` if stdin is not a terminal, or if another program uses it.
    fn listen() -> Option<Keys> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() || !std::io::stdout().is_terminal() {
            return None;
        }
        let fd = stdin.as_raw_fd();
        // SAFETY: both `termios` values are local and valid. A process in the background would be
        // stopped by a change of the terminal, so its group is compared first.
        unsafe {
            if libc::tcgetpgrp(fd) != libc::getpgrp() {
                return None;
            }
            let mut before: libc::termios = std::mem::zeroed();
            if libc::tcgetattr(fd, &mut before) != 0 {
                return None;
            }
            let mut keys = before;
            // Signals stay on: Ctrl-C and Ctrl-Z work.
            keys.c_lflag &= !(libc::ICANON | libc::ECHO);
            let set = libc::tcsetattr(fd, libc::TCSANOW, &keys) == 0;
            set.then_some(Keys { before })
        }
    }

    /// Waits for a key.
    fn wait(&self, limit: Duration) -> Option<u8> {
        let fd = std::io::stdin().as_raw_fd();
        let mut input = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let limit = libc::c_int::try_from(limit.as_millis()).unwrap_or(libc::c_int::MAX);
        let mut key = 0_u8;
        // SAFETY: one pollfd and one byte, which outlive the calls.
        unsafe {
            if libc::poll(&raw mut input, 1, limit) <= 0 {
                return None;
            }
            match libc::read(fd, (&raw mut key).cast(), 1) {
                1 => Some(key),
                _ => {
                    // A terminal that is gone is always readable.
                    std::thread::sleep(signals::POLL_INTERVAL);
                    None
                }
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let fd = std::io::stdin().as_raw_fd();
        // SAFETY: `before` is a valid `termios` value.
        unsafe { libc::tcsetattr(fd, libc::TCSANOW, &self.before) };
    }
}
