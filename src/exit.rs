//! All exit codes of the binary, taken from sysexits where possible.

/// Nothing to report.
pub const CLEAN: u8 = 0;
/// Findings at or above the threshold, or failed requirements.
pub const FINDINGS: u8 = 1;
/// The command line is invalid.
pub const USAGE: u8 = 64;
/// Input data or a configuration file is invalid.
pub const DATA: u8 = 65;
/// A given input does not exist.
pub const NO_INPUT: u8 = 66;
/// A target or a service cannot be reached or started.
pub const UNAVAILABLE: u8 = 69;
/// An internal error of agentproto.
pub const INTERNAL: u8 = 70;
/// An output file cannot be created.
pub const CANT_CREATE: u8 = 73;
/// Reading or writing failed.
pub const IO: u8 = 74;
/// Temporary failure; a retry may help.
pub const TEMPORARY: u8 = 75;
/// A login is missing, or a policy does not allow the access.
pub const NO_PERMISSION: u8 = 77;
/// The configuration names something that does not exist.
pub const CONFIG: u8 = 78;
/// Interrupted by SIGINT.
pub const INTERRUPTED: u8 = 130;
/// Terminated by SIGTERM.
pub const TERMINATED: u8 = 143;
