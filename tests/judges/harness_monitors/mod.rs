//! The monitors on the real mock agent: the conforming one passes, and each mutant fails the
//! requirement that it breaks.

mod conversation;
mod mutants;
mod scripts;
