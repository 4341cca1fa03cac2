//! Manifests against a small machine made for each test. Rows of the requirement catalogue
//! stand in the names; each has its twin, the neighbour that is allowed.

mod aip29;
mod aip36;
mod any_text;
mod inherit;
mod machine;

use machine::Machine;
