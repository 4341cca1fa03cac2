//! Every exit code of the binary, in one place (sysexits where one fits).

/// Nothing to report.
pub const CLEAN: u8 = 0;
/// Findings at or above the threshold, or failed requirements.
pub const FINDINGS: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 64;
/// Input data or a configuration file is malformed.
pub const DATA: u8 = 65;
/// A named input does not exist.
pub const NO_INPUT: u8 = 66;
/// A target or a service cannot be reached or started.
pub const UNAVAILABLE: u8 = 69;
/// A defect of agentproto itself.
pub const INTERNAL: u8 = 70;
/// An output file cannot be created.
pub const CANT_CREATE: u8 = 73;
/// Reading or writing failed.
pub const IO: u8 = 74;
/// Temporary failure; a retry may help.
pub const TEMPORARY: u8 = 75;
/// A login is missing, or a policy forbids it.
pub const NO_PERMISSION: u8 = 77;
/// The configuration names something that does not exist.
pub const CONFIG: u8 = 78;
/// Ended by SIGINT.
pub const INTERRUPTED: u8 = 130;
/// Ended by SIGTERM.
pub const TERMINATED: u8 = 143;
