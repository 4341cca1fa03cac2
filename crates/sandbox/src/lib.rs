//! The declared sandbox, enforced by the operating system or refused.
//!
//! `policy` says what a manifest allows on this machine; `assess` says, clause by clause,
//! what enforces it here; a backend turns it into a `Plan`, which the helper process carries
//! out on itself before it becomes the target. Nothing here trusts the target.

mod assess;
pub mod backend;
pub mod build;
pub mod bwrap;
pub mod clause;
pub mod confined;
pub mod diagnose;
pub mod egress;
pub mod helper;
mod ingress;
pub mod limits;
pub mod plan;
pub mod policy;
pub mod probe;
pub mod programs;
pub mod spawn;
pub mod workplace;

pub use backend::Backend;
pub use clause::{Assessment, Clause, Standing};
pub use plan::Plan;
pub use policy::Policy;
