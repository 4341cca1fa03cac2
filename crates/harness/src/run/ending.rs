//! The end of an agent process: closing its input, waiting for its exit, and saying how it ended.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::connection::{Connection, NoResponse};
use super::process::exit_value;
use crate::model::{STDERR_LABEL, STDERR_SEPARATOR};
use crate::monitor::MonitorNotes;
use agentproto_sandbox::spawn::Exit;
use agentproto_wire::{Direction, Transcript};

impl Connection {
    pub fn close_input(&mut self) {
        if self.process.stdin.take().is_some() {
            self.exit_awaited = Some(Instant::now());
            self.note(Direction::Process, br#"{"input":"closed"}"#, true, None);
            self.monitors.input_closed();
        }
    }

    pub fn signal(&self, number: i32) {
        // A process that has already exited cannot receive it.
        let _ = self.process.signal(number);
    }

    /// Waits until the process exits.
    pub async fn wait_for_exit(&mut self, within: Duration) -> Result<Value, NoResponse> {
        let mut limit = self.time_limit(within);
        self.exit_awaited.get_or_insert_with(Instant::now);
        loop {
            if let Some((exit, after)) = &self.exit {
                return Ok(exit_value(exit, *after));
            }
            self.approach_exit(limit.next_check()).await;
            if self.exit.is_none() && limit.is_over() {
                return Err(self.timed_out(&limit, within));
            }
        }
    }

    /// Reads the remaining output, and then waits for the exit.
    async fn approach_exit(&mut self, until: Instant) {
        if !self.is_over {
            self.next(until).await;
            return;
        }
        let start_time = *self.exit_awaited.get_or_insert_with(Instant::now);
        if let Ok(exit) = timeout_at(until, self.process.wait()).await {
            self.exited(exit, start_time.elapsed());
        }
    }

    fn exited(&mut self, exit: Exit, after: Duration) -> Value {
        for line in self.process.stderr.take(true) {
            let line = self.note(Direction::Stderr, &line, true, None);
            self.monitors.on_line(&line);
        }
        let value = exit_value(&exit, after);
        self.exit = Some((exit, after));
        let text = json!({"exit": value}).to_string();
        self.note(Direction::Process, text.as_bytes(), true, None);
        value
    }

    /// The exit code of a process that exited by itself.
    pub fn exit_code(&self) -> Option<i32> {
        self.exit.as_ref()?.0.status.code()
    }

    /// Describes how a process that closed stdout ended.
    pub(super) async fn exit_reason(&mut self) -> NoResponse {
        if self.exit.is_none() {
            let start_time = Instant::now();
            let until = start_time + Duration::from_millis(500);
            match timeout_at(until, self.process.wait()).await {
                Ok(exit) => {
                    self.exited(exit, start_time.elapsed());
                }
                Err(_) => {
                    return NoResponse::Ended(
                        "the agent closed stdout but is still running".to_owned(),
                    );
                }
            }
        }
        let how = match &self.exit {
            Some((exit, _)) => agentproto_runtime::arm::process::describe(exit),
            None => "ended".to_owned(),
        };
        let words = self.stderr_tail();
        NoResponse::Ended(match (words.is_empty(), self.last_text()) {
            (false, _) => format!("the agent {how}{STDERR_LABEL}{words}"),
            (true, Some(text)) => format!("the agent {how}; its last line on stdout: {text}"),
            (true, None) => format!("the agent {how} and wrote nothing to stderr"),
        })
    }

    /// The last line on stdout, if the agent never sent a message. It may say why it exits.
    fn last_text(&self) -> Option<String> {
        const MAX_CHARS: usize = 200;
        if self.has_messages() {
            return None;
        }
        let lines = self.transcript.numbers().rev().take(2000);
        let mut lines = lines.filter_map(|number| self.transcript.line(number));
        let line = lines.find(|line| {
            line.direction == Direction::FromAgent && !line.bytes.trim_ascii().is_empty()
        })?;
        Some(line.text().chars().take(MAX_CHARS).collect())
    }

    /// The last lines that the agent wrote to stderr.
    pub fn stderr_tail(&self) -> String {
        let mut words = Vec::new();
        for number in self.transcript.numbers().rev().take(2000) {
            let line = self.transcript.line(number);
            if let Some(line) = line.filter(|l| l.direction == Direction::Stderr) {
                words.push(line.text());
            }
            if words.len() == 5 {
                break;
            }
        }
        words.reverse();
        words.join(STDERR_SEPARATOR)
    }

    /// Closes stdin and waits until the process exits. Returns whether it did.
    pub async fn close(&mut self, grace: Duration) -> bool {
        self.close_input();
        let mut limit = self.time_limit(grace);
        while self.exit.is_none() && !limit.is_over() {
            self.approach_exit(limit.next_check()).await;
        }
        self.exit.is_some()
    }

    /// Ends the process, and returns the transcript and the notes of the monitors.
    pub async fn finish(mut self, grace: Duration) -> (Transcript, MonitorNotes) {
        if self.exit.is_none() && !self.close(grace).await {
            let start_time = Instant::now();
            let exit = self.process.end(Duration::ZERO).await;
            self.exited(exit, start_time.elapsed());
        }
        let code = self.exit.as_ref().and_then(|(exit, _)| exit.status.code());
        let last_line = self.transcript.last();
        let ending = self.monitors.ending(last_line, code.is_some());
        let transcript = std::mem::take(&mut self.transcript);
        (transcript, self.monitors.finish(&ending))
    }
}
