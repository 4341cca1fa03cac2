//! Resolves manifests on a small machine that each test creates. Test names contain requirement
//! ids. Each test also checks a similar case that is allowed.

mod aip29;
mod aip36;
mod any_text;
mod inherit;
mod machine;
mod protect;
mod runner;
mod state;

use machine::Machine;
