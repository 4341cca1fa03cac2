//! Tests of the repository itself: README, guides, references, the requirement register, examples,
//! CI files, wording.

mod ci;
mod coverage;
mod daemon_guide;
mod docs;
mod doors;
mod examples;
mod picture;
mod proof_lines;
mod proofs;
mod references;
mod voice;
