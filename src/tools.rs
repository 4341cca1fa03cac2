//! Calls the tools of a CLI.md (AIP-29). [`define_cli`] adds hooks that log in, renew the login,
//! detect an expired login and read the output.
//!
//! ```
//! use agentproto::tools::{CliDefinition, ParseOutputResult, define_cli};
//!
//! let git = define_cli(
//!     CliDefinition::new("git", "Git", "Plumbing commands of git.", "git").on_parse_output(|args| {
//!         ParseOutputResult::ok(args.stdout.lines().collect::<Vec<_>>().into())
//!     }),
//! );
//! assert_eq!(git.definition().id, "git");
//! ```
//!
//! [`Context::attach`] adds the hooks to a bundle. The guide on hooks has a complete example.

pub use agentproto_runtime::bundle::Bundle;
pub use agentproto_runtime::context::{Context, ContextOptions, SandboxSettings};
pub use agentproto_runtime::entry::{
    CancellationToken, CliContext, CliDefinition, CliHandle, DetectExpiryArgs, ExpectedOutput,
    LoginArgs, LoginFailure, LoginResult, OutputError, ParseOutputArgs, ParseOutputResult,
    RefreshArgs, RefreshFailure, RefreshResult, define_cli,
};
pub use agentproto_runtime::home::Home;
pub use agentproto_runtime::tool::{
    BundleOptions, CallOptions, CallResult, CallWarning, Format, ToolBundle, ToolCommand,
};
