//! The command line: parses, calls a room, renders through `report`.

use std::process::ExitCode;

pub fn main() -> ExitCode {
    ExitCode::from(crate::exit::CLEAN)
}
