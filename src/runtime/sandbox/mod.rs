//! The declared sandbox, enforced by the operating system or refused.
//!
//! `policy` says what a manifest allows on this machine; `assess` says, clause by clause,
//! what enforces it here; a backend turns it into a `Plan`, which the helper process carries
//! out on itself before it becomes the target. Nothing here trusts the target.

#[cfg(target_os = "linux")]
pub mod assess;
pub mod backend;
pub mod build;
#[cfg(target_os = "linux")]
pub mod bwrap;
pub mod clause;
#[cfg(target_os = "linux")]
pub mod confined;
pub mod diagnose;
pub mod egress;
#[cfg(target_os = "linux")]
pub mod ingress;
#[cfg(target_os = "linux")]
pub mod limits;
pub mod plan;
pub mod policy;
#[cfg(target_os = "linux")]
pub mod probe;
pub mod programs;
pub mod seatbelt;

pub use backend::Backend;
pub use clause::{Assessment, Clause, Standing};
pub use plan::Plan;
pub use policy::Policy;
