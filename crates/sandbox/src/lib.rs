//! Enforces a declared sandbox with the operating system, or refuses it.
//!
//! `policy` resolves what a manifest allows on this machine. `assess` determines how each clause is
//! enforced. A backend turns the policy into a `SpawnPlan`, which the helper process applies to
//! itself before it becomes the target. The target is never trusted.

#![deny(missing_docs)]

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
pub mod run_directory;
pub mod spawn;

pub use backend::Backend;
pub use clause::{Assessment, Clause, Enforcement, GRANTS_ALL, NO_EFFECT};
pub use plan::SpawnPlan;
pub use policy::Policy;
