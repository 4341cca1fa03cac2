//! Names of output formats, and rendering helpers.

use std::io::{self, Write};

use agentproto_text::escape_line;

/// An unknown format name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} format `{}`; expected one of {}", escape_line(.name), .names.join(", "))]
pub struct UnknownFormat {
    what: &'static str,
    name: String,
    names: Vec<&'static str>,
}

impl UnknownFormat {
    /// An error for `name`. The message puts `what` before "format".
    pub fn new<F>(what: &'static str, name: &str, formats: &[F]) -> Self
    where
        F: Copy + Into<&'static str>,
    {
        UnknownFormat {
            what,
            name: name.to_owned(),
            names: formats.iter().map(|format| (*format).into()).collect(),
        }
    }
}

/// Finishes a rendering. A closed pipe is not an error, because the reader has seen enough.
pub fn end(rendered: io::Result<()>, out: &mut dyn Write) -> io::Result<()> {
    match rendered.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Writes a report as one JSON document.
pub fn json(report: &impl serde::Serialize, out: &mut dyn Write) -> io::Result<()> {
    let text = agentproto_text::pretty(&serde_json::to_value(report)?)?;
    writeln!(out, "{text}")
}
