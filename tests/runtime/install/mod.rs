//! Installation and version checks with real processes: fake package managers that record their
//! arguments, and a local web server.

mod archives;
mod asking;
mod doctor;
mod fetching;
mod packages;
mod requires;
mod runs;
mod support;
mod versions;
