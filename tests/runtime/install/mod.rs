//! Installing and checking versions, through real processes: package managers that write
//! down how they were called, and a web server on this machine.

mod archives;
mod asking;
mod doctor;
mod fetching;
mod packages;
mod runs;
mod support;
mod versions;
