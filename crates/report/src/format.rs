//! Names of formats, and how any of them is rendered.

use std::io::{self, Write};

use agentproto_text::plain;

/// A name that is not one of a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} format `{}`; there are {}", plain(.name), .names.join(", "))]
pub struct UnknownFormat {
    what: &'static str,
    name: String,
    names: Vec<&'static str>,
}

impl UnknownFormat {
    /// `what` is said before "format".
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

/// Ends a rendering. A reader that closes its end has seen enough: that is not an error.
pub fn end(rendered: io::Result<()>, out: &mut dyn Write) -> io::Result<()> {
    match rendered.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// A report as one JSON document.
pub fn json(report: &impl serde::Serialize, out: &mut dyn Write) -> io::Result<()> {
    let text = agentproto_text::pretty(&serde_json::to_value(report)?)?;
    writeln!(out, "{text}")
}
