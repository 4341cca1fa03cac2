//! Self-tests of `certify` and `aoi-lint`. They run the checks against mutants, which are agents,
//! hosts and tools with one known defect each, and against conforming variants. A mutant must be
//! caught with the right requirement id, and a variant must not get any finding.

#![deny(missing_docs)]

pub mod aoi;
pub mod certify;
pub mod common;
pub mod lifecycle;
pub mod sessions;
