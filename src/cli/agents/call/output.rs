//! Output of a call: the tool's own bytes, the result as JSON, or events.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::Output;
use crate::cli::agents::exit_codes;
use crate::cli::agents::notes::Note;
use crate::cli::args::Global;
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_runtime::Code;
use agentproto_runtime::tool::{CallResult, OutputChunk, OutputStream};
use agentproto_text::{escape_output, pretty};

pub enum CallOutput<'w> {
    Text(Plain<'w>),
    Json(Plain<'w>),
    Events {
        emitter: Emitter<'w>,
        /// Characters of stdout and stderr that are not complete yet.
        partial: [Vec<u8>; 2],
    },
}

pub struct Plain<'w> {
    out: &'w mut dyn Write,
    verbose: bool,
    quiet: bool,
}

impl<'w> CallOutput<'w> {
    pub fn new(format: Output, global: &Global, out: &'w mut dyn Write) -> Result<Self, Failure> {
        let plain = |out| Plain {
            out,
            verbose: global.verbose,
            quiet: global.quiet,
        };
        Ok(match format {
            Output::Text => CallOutput::Text(plain(out)),
            Output::Json => CallOutput::Json(plain(out)),
            Output::Jsonl => {
                let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
                emitter.meta("call").map_err(io_failure)?;
                CallOutput::Events {
                    emitter,
                    partial: Default::default(),
                }
            }
        })
    }

    /// Whether the reader is gone.
    pub fn is_closed(&self) -> bool {
        match self {
            CallOutput::Events { emitter, .. } => emitter.is_closed(),
            _ => false,
        }
    }

    pub fn note(&mut self, note: &Note) -> Result<(), Failure> {
        let plain = match self {
            CallOutput::Events { emitter, .. } => return note.emit(emitter).map_err(io_failure),
            CallOutput::Text(plain) | CallOutput::Json(plain) => plain,
        };
        match note {
            Note::Stage(stage, text) if plain.verbose => {
                eprintln!("{}: {}", stage.as_str(), escape_output(text));
            }
            Note::Progress(_, text) if !plain.quiet => eprintln!("{}", escape_output(text)),
            Note::Warning(code, message) => tracing::warn!("{code}: {message}"),
            _ => {}
        }
        Ok(())
    }

    pub fn chunk(&mut self, chunk: &OutputChunk) -> Result<(), Failure> {
        match self {
            CallOutput::Json(_) => Ok(()),
            CallOutput::Text(plain) => {
                let mut stderr = std::io::stderr().lock();
                let to: &mut dyn Write = match chunk.stream {
                    OutputStream::Stdout => plain.out,
                    OutputStream::Stderr => &mut stderr,
                };
                let written = to.write_all(&chunk.bytes).and_then(|()| to.flush());
                written.map_err(io_failure)
            }
            CallOutput::Events { emitter, partial } => {
                let [stdout, stderr] = partial;
                let partial = match chunk.stream {
                    OutputStream::Stdout => stdout,
                    OutputStream::Stderr => stderr,
                };
                partial.extend_from_slice(&chunk.bytes);
                let text = complete(partial);
                emit_output(emitter, chunk.stream, text)
            }
        }
    }

    pub fn finish(self, result: &CallResult, elapsed: Duration) -> Outcome {
        let error = result.error.as_ref();
        let code = error.map_or(exit::CLEAN, |error| exit_codes::of(error.code));
        match self {
            CallOutput::Text(plain) => {
                for warning in &result.warnings {
                    tracing::warn!("{}: {}", warning.code, warning.message);
                }
                plain.out.flush().map_err(io_failure)?;
                match error {
                    None => Ok(code),
                    // The tool itself has already said why.
                    Some(error) if error.code == Code::ToolFailed => {
                        let what = format!(
                            "`{} {}` failed with exit code {} ({})",
                            result.target.id, result.command, result.exit_code, result.meaning
                        );
                        let failure = Failure::new(code, what).typed(error.code.as_str());
                        Err(Failure {
                            hint: error.hint.clone(),
                            ..failure
                        })
                    }
                    Some(error) => Err(error.clone().into()),
                }
            }
            CallOutput::Json(plain) => {
                let text = pretty(&result.json()).map_err(io_failure)?;
                writeln!(plain.out, "{text}").map_err(io_failure)?;
                Ok(code)
            }
            CallOutput::Events {
                mut emitter,
                partial,
            } => {
                let streams = [OutputStream::Stdout, OutputStream::Stderr];
                for (stream, rest) in streams.into_iter().zip(partial) {
                    let rest = String::from_utf8_lossy(&rest).into_owned();
                    emit_output(&mut emitter, stream, rest)?;
                }
                for warning in &result.warnings {
                    let warned = emitter.warning(warning.code, &warning.message, None);
                    warned.map_err(io_failure)?;
                }
                let fields = object(result.json());
                let emitted = emitter.event(EventType::Result, &fields);
                emitted.map_err(io_failure)?;
                if let Some(error) = error {
                    let failure = Failure::from(error.clone());
                    let event = failure.event();
                    emitter.error(&event.as_failure()).map_err(io_failure)?;
                }
                let fields = object(json!({
                    "exit_code": result.exit_code,
                    "meaning": result.meaning,
                }));
                let ended = emitter.summary(result.is_ok(), elapsed, fields);
                ended.map_err(io_failure)?;
                Ok(code)
            }
        }
    }
}

fn emit_output(
    emitter: &mut Emitter<'_>,
    stream: OutputStream,
    text: String,
) -> Result<(), Failure> {
    if text.is_empty() {
        return Ok(());
    }
    let fields = object(json!({ "stream": stream.as_str(), "text": text }));
    let emitted = emitter.event(EventType::ToolOutput, &fields);
    emitted.map_err(io_failure)
}

/// Takes the complete characters, and leaves the start of one that is not complete yet.
fn complete(bytes: &mut Vec<u8>) -> String {
    let end = match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(_) => {
            let tail = bytes.len().saturating_sub(3);
            let mut starts = tail..bytes.len();
            let incomplete = starts.find(|at| {
                let rest = std::str::from_utf8(bytes.get(*at..).unwrap_or_default());
                rest.is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
            });
            incomplete.unwrap_or(bytes.len())
        }
    };
    let rest = bytes.split_off(end);
    let text = String::from_utf8_lossy(bytes).into_owned();
    *bytes = rest;
    text
}
