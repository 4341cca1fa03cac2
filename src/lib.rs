//! Lint agent manifests, run the agents they describe in a sandbox, and certify what they do.
//!
//! This is the library behind the `agentproto` command. It has four parts:
//!
//! - [`lint`](mod@lint) checks manifests: a text or a directory in, findings out.
//! - [`Agent`] runs an agent: open it, start a session, send a prompt, read events.
//! - [`certify`](mod@certify) runs conformance suites against an agent and returns a report.
//! - [`tools`] calls the tools of a CLI.md, with hooks of the host.
//!
//! `lint` works on every platform. The others need Linux and the default feature `full`.
//!
//! # Run an agent
//!
//! ```no_run
//! use agentproto::{Agent, StreamEvent};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     agentproto::init(); // first, before any thread starts
//!     tokio::runtime::Runtime::new()?.block_on(async {
//!         let session = Agent::open("mock-acp")?.start().await?;
//!         let mut turn = session.send("hello")?;
//!         while let Some(event) = turn.next().await {
//!             if let StreamEvent::TextDelta { text } = event {
//!                 print!("{text}");
//!             }
//!         }
//!         session.close().await?;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! [`Agent::builder`] sets the working directory, options, permissions and more.

#![deny(missing_docs)]

#[cfg(agents)]
pub mod certify;
#[cfg(agents)]
mod init;
pub mod lint;
#[cfg(agents)]
pub mod tools;

#[cfg(agents)]
pub use agentproto_runtime::{
    Agent, AgentBuilder, Answer, Choice, Code, Decision, Error, Headless, Interact, Observer,
    Permissions, Sandboxing, Session, Silent, Stage, StopReason, StreamEvent, Turn,
};
#[cfg(agents)]
pub use init::init;

/// Runs the code in the guide and in the README as documentation tests.
#[cfg(all(doctest, agents))]
#[doc = include_str!("../docs/library.md")]
#[doc = include_str!("../docs/entry.md")]
#[doc = include_str!("../README.md")]
struct Guides;
