//! The mock model: every dialect with and without streaming, scripts, the log, and clients that
//! misbehave.

mod client;
mod command_line;
mod dialects;
mod hostile;
mod scripts;
mod streams;
