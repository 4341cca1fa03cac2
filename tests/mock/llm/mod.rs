//! The mock model: every dialect, streamed and in one piece, its scripts, its log, and clients
//! that misbehave.

mod client;
mod command_line;
mod dialects;
mod hostile;
mod scripts;
mod streams;
