//! What the repository says of the tool: README, guides, references, the register, CI's files.

mod ci;
mod coverage;
mod docs;
mod doors;
mod readme;
